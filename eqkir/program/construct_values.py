"""KIR values as functions from index expressions to nodes: the evaluator that `construct` pulls from the stores.

A tensor is instantiated at one index expression per dimension (dimensions of constant extent 1 at 0); an instance is memoised by
(value, index expressions). Loops over values become axes. Axes of one extent are numbered 0, 1, …; whatever binds an axis takes the
lowest number that does not occur in the index expressions it is instantiated at nor in the points around its definition. So unrelated
loops over equal extents share an axis (and with it the loads below them), and no axis is captured.

Recursion is by generators: a handler yields (value id, index expressions) and receives the node.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eqkir.analysis.coords import Facts, Poly, normal, poly, size, total
from eqkir.analysis.effects import Effects
from eqkir.base import dtypes
from eqkir.base.diagnostics import EqkirError, fail, register
from eqkir.base.expr import FALSE, ONE, TRUE, ZERO, Coord, Expr, Int, Sym, atoms, coords, lt, rebuild, sub, substitute
from eqkir.kir.extents import Extents
from eqkir.kir.model import Constexpr, Kernel, Op, Scalar, Symbol
from eqkir.kir.types import DomainType, TensorType, Type
from eqkir.program.abi import Abi
from eqkir.program.abstract import Abstract

STAGE = "construct"
NODE_LIMIT = 20_000
STEP_LIMIT = 200_000
EXPR_LIMIT = 200

UNSUPPORTED = register("EQK-CON-OP", "an operation that construction does not know", "No construction is registered for this operation.")
NODES = register(
    "EQK-CON-NODES", "the program is too large in index notation",
    f"Values read under many different index maps are instantiated once for each; at most {NODE_LIMIT} nodes are built. Store what is "
    "reused to a view in another kernel, or read it under fewer index maps.",
)  # fmt: skip
EXPRESSION = register(
    "EQK-CON-INDEX", "an index expression is too large",
    f"Coordinates and predicates are expressions of at most {EXPR_LIMIT} operations over coordinates, extents and integer scalars.",
)  # fmt: skip
EXTENT = register(
    "EQK-CON-EXTENT",
    "an extent that is not known before the launch",
    "Axes have extents over symbols, constexprs and integer scalars; an extent that is computed from data is not supported.",
)
CONSTEXPR = register(
    "EQK-CON-CONSTEXPR", "a constexpr has no admissible value",
    "The value given for a constexpr must have its type, be one of its choices, and leave no extent negative.",
)  # fmt: skip

Ixs = tuple[Expr, ...]
Steps = Generator[tuple[str, Ixs], int, int]
Handler = Callable[["Values", Any, int, Ixs], Steps]
HANDLERS: dict[str, Handler] = {}


#: op -> fields that its handler reads; another field with a value other than its default is refused
FIELDS: dict[str, frozenset[str]] = {}
COMMON = frozenset({"op", "results", "loc"})


def construction(op: str, fields: str) -> Callable[[Handler], Handler]:
    """Register how the operation with this ``op`` literal is instantiated: (values, operation, result number, index expressions).

    `fields` names the fields of the operation that the handler takes into account.
    """

    def put(h: Handler) -> Handler:
        HANDLERS[op] = h
        FIELDS[op] = frozenset(fields.split())
        return h

    return put


class Values:
    """Instantiates values of one kernel into the nodes of `program`."""

    def __init__(self, kernel: Kernel, types: Mapping[str, Type], effects: Effects, constexprs: Mapping[str, Any]) -> None:
        self.kernel, self.types, self.effects, self.constexprs = kernel, types, effects, constexprs
        self.program = Abstract(Abi(kernel.name, (), (), ()), ())
        self.extents = Extents(kernel.symbols, kernel.equal)
        self.params = {p.id: p for p in kernel.params}
        self.views = {p.id: p for p in kernel.params if p.kind == "view"}
        least: dict[str, int] = {}
        for s in kernel.symbols:
            r = self.extents.find(s.id)
            least[r] = max(least.get(r, 0), s.min)
        self.extent_of: dict[str, Expr] = {}  # axis -> extent
        self.facts = Facts(self.extent_of, least)
        self._pools: dict[Expr, int] = {}
        self._memo: dict[tuple[str, Ixs], int] = {}
        self._shapes: dict[str, tuple[Expr, ...]] = {}
        self.load_scopes: dict[int, frozenset[tuple[str, str]]] = {}
        self.at: dict[str, Expr] = {}  # parallel point -> coordinate
        self.formals: dict[str, int] = {}  # argument of a combine region -> node
        self._env = {Sym(k): Int(v) for k, v in constexprs.items() if isinstance(v, int) and not isinstance(v, bool)}
        self._launch = {x.id for x in kernel.symbols} | {p.id for p in kernel.params if isinstance(p, Scalar)}
        self.point_axis: dict[str, str] = {}
        for point, (domain, around) in effects.points.items():
            d = self.domain(domain)
            x, axis = self.dimension(d[2], {self.point_axis[p] for p in around if p in self.point_axis})
            self.at[point] = normal(d[0] + x * d[1])
            if axis:
                self.point_axis[point] = axis

    # ------------------------------------------------------------------ extents and axes
    def extent(self, e: Expr) -> Expr:
        """An extent with constexprs substituted, in normal form."""
        e = substitute(e, self._env)
        for a in atoms(e):
            if a.args[0] not in self._launch:
                raise fail(EXTENT, f"the extent {e} is known only at run time", stage=STAGE)
        return self.extents.canon(e)

    def domain(self, id: str) -> tuple[Expr, int, Expr]:
        """(begin, step, length)."""
        t = self.types[id]
        assert isinstance(t, DomainType)
        begin, end = self.extent(t.begin), self.extent(t.end)
        return begin, t.step, self.extents.length(begin, end, t.step)

    def shape(self, id: str) -> tuple[Expr, ...]:
        if id not in self._shapes:
            t = self.types[id]
            assert isinstance(t, TensorType)
            self._shapes[id] = tuple(self.checked(self.extent(e), self.effects.pointers.get(id, "")) for e in t.shape)
        return self._shapes[id]

    def checked(self, e: Expr, pointer: str) -> Expr:
        if e.value is not None and e.value < 0:
            raise fail(CONSTEXPR, f"an extent is {e.value}", pointer, "extents >= 0", STAGE)
        return e

    def dtype(self, id: str) -> str:
        t = self.types[id]
        assert isinstance(t, TensorType)
        return t.dtype

    def axis(self, extent: Expr, avoid: set[str] | frozenset[str]) -> str:
        """The lowest-numbered axis of this extent that is not in `avoid`."""
        pool, n = self._pools.setdefault(extent, len(self._pools)), 0
        while f"a{pool}.{n}" in avoid:
            n += 1
        name = f"a{pool}.{n}"
        self.extent_of.setdefault(name, extent)
        return name

    def dimension(self, extent: Expr, avoid: set[str] | frozenset[str]) -> tuple[Expr, str | None]:
        """A coordinate for a dimension, and its axis (none where the extent is 1)."""
        if extent == ONE:
            return ZERO, None
        name = self.axis(extent, avoid)
        return Coord(name), name

    def taken(self, id: str, ixs: Ixs) -> set[str]:
        """Axes that a binder inside value `id` instantiated at `ixs` may not use."""
        out = {a for e in ixs for a in coords(e)}
        return out | {self.point_axis[p] for p in self.effects.scopes[id] if p in self.point_axis}

    # ------------------------------------------------------------------ nodes
    def make(self, op: str, attrs: tuple[Any, ...], args: Sequence[int], dtype: str) -> int:
        """A node. Raises EQK-CON-NODES past the limit."""
        i = self.program.make(op, attrs, tuple(args), dtype)
        if i >= NODE_LIMIT:
            raise fail(NODES, f"more than {NODE_LIMIT} nodes", stage=STAGE)
        return i

    def const(self, value: float | int | bool, dtype: str) -> int:
        return self.program.const(dtypes.literal(value, dtype), dtype)

    def fold(self, e: Expr) -> Expr:
        """Normal form of an index expression. Raises EQK-CON-INDEX when it is too large."""
        if size(e, EXPR_LIMIT) > EXPR_LIMIT or size(e := normal(e), EXPR_LIMIT) > EXPR_LIMIT:
            raise fail(EXPRESSION, "an index expression is too large", stage=STAGE)
        return e

    def spread(self, node: int, axis: str) -> int:
        """`node` with `axis` free: an operand of a reduction varies along the reduced axis, if only formally."""
        if axis in self.program.free(node):
            return node
        dtype = self.program.nodes[node].dtype
        inside = self.make("Index", (lt(Coord(axis), self.extent_of[axis]),), (), "bool")
        return self.make("Tri", ("select",), (inside, node, self.const(0, dtype)), dtype)

    def align(self, id: str, ixs: Ixs) -> Ixs:
        """Indices of an operand that broadcasts to the shape that `ixs` index."""
        shape = self.shape(id)
        return tuple(ZERO if e == ONE else x for e, x in zip(shape, ixs[len(ixs) - len(shape) :], strict=True))

    def operand(self, id: str, ixs: Ixs) -> tuple[str, Ixs]:
        """What to yield for an operand that broadcasts."""
        return id, self.align(id, ixs)

    # ------------------------------------------------------------------ instantiation
    def node(self, id: str, ixs: Ixs = ()) -> int:
        """The node of a value at index expressions."""
        stack: list[tuple[tuple[str, Ixs], Steps]] = []
        want: tuple[str, Ixs] | None = (id, ixs)
        got = -1
        while True:
            if want is not None:
                if sum(size(e, EXPR_LIMIT) for e in want[1]) > EXPR_LIMIT:
                    raise self.located(fail(EXPRESSION, "an index expression is too large", stage=STAGE), want[0])
                leaf = self._memo.get(want)
                if leaf is None:
                    leaf = self._leaf(want[0])
                if leaf is None:
                    if len(self._memo) + len(stack) > STEP_LIMIT:
                        raise self.located(fail(NODES, "too many instances of values", stage=STAGE), want[0])
                    stack.append((want, self._steps(*want)))
                    got = -1
                else:
                    got = leaf
                want = None
                if leaf is not None and not stack:
                    return got
            key, steps = stack[-1]
            try:
                want = next(steps) if got < 0 else steps.send(got)
            except StopIteration as stop:
                stack.pop()
                got = stop.value
                self._memo[key] = got
                self._origin(key[0], got)
                if not stack:
                    return got
            except EqkirError as e:
                raise self.located(e, key[0]) from None

    def _steps(self, id: str, ixs: Ixs) -> Steps:
        op, n = self.effects.definitions[id]
        if op.op not in HANDLERS:
            raise fail(UNSUPPORTED, f"no construction of {op.op}", stage=STAGE)
        return HANDLERS[op.op](self, op, n, ixs)

    def _leaf(self, id: str) -> int | None:
        """Nodes of interface values, points and formals."""
        if id in self.formals:
            return self.formals[id]
        if id in self.at:
            return self.index(self.at[id], (), "index")
        p = self.params.get(id)
        if isinstance(p, Constexpr):
            return self.const(self.constexprs[id], self.dtype(id))
        if isinstance(p, Scalar):
            return self.index(Sym(id), (), "index") if p.dtype == "index" else self.make("Scalar", (id,), (), p.dtype)
        return None

    def index(self, e: Expr, deps: Sequence[int], dtype: str) -> int:
        """The node of an index expression or predicate: a constant where it is one, a data operand itself where it is just that."""
        e = self.fold(self.decided(e) if dtype == "bool" else e)
        if e.value is not None:
            return self.const(e.value, dtype)
        if e.op == "dep":
            return deps[e.args[0]]
        return self.make("Index", (e,), deps, dtype)

    def decided(self, e: Expr) -> Expr:
        """A predicate with the comparisons decided that follow from ``0 <= coordinate < extent`` alone.

        Only differences of a few coordinates, extents and small constants are decided: they cannot leave 64 bits.
        """
        if e.op in ("and", "or", "not"):
            return rebuild(e.op, tuple(map(self.decided, e.args)))
        if e.op not in ("lt", "le"):
            return e
        gap = poly(sub(e.args[1], e.args[0]))
        if len(gap) > 4 or any(len(m) > 1 or (abs(c) > 1 if m else abs(c) >= 1 << 31) for m, c in gap.items()):
            return e
        strict: Poly = {(): 1} if e.op == "lt" else {}
        if self.facts.nonneg(total(gap, strict, -1)):
            return TRUE
        reverse: Poly = {m: -c for m, c in gap.items()}
        return FALSE if self.facts.nonneg(total(reverse, {} if strict else {(): 1}, -1)) else e

    def located(self, err: EqkirError, id: str) -> EqkirError:
        """The error with the place of the operation that defines `id`, where it has none."""
        op = self.effects.definitions.get(id)
        return self.placed(err, self.effects.pointers.get(id, ""), op[0] if op else None)

    def placed(self, err: EqkirError, pointer: str, op: Op | None) -> EqkirError:
        """The error with a place, where it has none."""
        file, line = (op.loc.file, op.loc.line) if op and op.loc else (None, None)
        place = {"pointer": pointer, "file": file, "line": line}
        return EqkirError(*(d if d.pointer else replace(d, **place) for d in err.diagnostics))  # type: ignore[arg-type]

    def _origin(self, id: str, node: int) -> None:
        op = self.effects.definitions[id][0]
        at = f" {op.loc.file}:{op.loc.line}" if op.loc else ""
        self.program.origins.setdefault(node, f"{self.kernel.name} %{id}{at}")


def bounds(symbols: Sequence[Symbol], extents: Extents) -> dict[str, tuple[int, int | None, int]]:
    """(least, greatest, divisor) of each representative symbol: what its equals declare together."""
    import math

    out: dict[str, tuple[int, int | None, int]] = {}
    for s in symbols:
        r = extents.find(s.id)
        lo, hi, k = out.get(r, (0, None, 1))
        highs = [h for h in (hi, s.max) if h is not None]
        out[r] = max(lo, s.min), min(highs) if highs else None, math.lcm(k, s.multiple_of)
    return out


__all__ = ["HANDLERS", "Ixs", "Op", "STAGE", "Steps", "Values", "bounds", "construction"]
