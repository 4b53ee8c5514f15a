"""KIR values as functions from index expressions to nodes: the evaluator that `construct` pulls from the stores.

A tensor is instantiated at one index expression per dimension (dimensions of constant extent 1 at 0); an instance is memoised by
(environment, value, index expressions). Loops over values become axes. Axes of one extent are numbered 0, 1, …; whatever binds an axis
takes the lowest number that does not occur in the index expressions it is instantiated at nor in the points around its definition. So
unrelated loops over equal extents share an axis (and with it the loads below them), and no axis is captured.

Index expressions may hold two kinds of symbols that stand for data: the id of an integer scalar (a bound of a subregion), and
``#n.m``: node n, which is defined where node m holds. They become data operands where a node is made of the expression.

Recursion is by generators: a handler yields (value id, index expressions[, environment]) and receives the node. The field `name` of a
record r is the value ``r/name``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from eqkir.analysis.coords import normal, size
from eqkir.analysis.effects import Effects
from eqkir.base.diagnostics import EqkirError, fail
from eqkir.base.expr import Coord, Expr, Sym, conj, le, lift, lt
from eqkir.kir.extents import Extents
from eqkir.kir.model import For, Kernel, Op, Scalar, Symbol
from eqkir.kir.types import BufferType, DomainType, RecordType, TensorType, Type
from eqkir.program.construct_codes import EXPR_LIMIT, EXPRESSION, EXTENT, LOOP_STORE, NODES, STAGE, STEP_LIMIT, UNSUPPORTED
from eqkir.program.construct_env import HANDLERS, RECORDS, Env, Ixs, Steps
from eqkir.program.construct_nodes import Nodes


class Values(Nodes):
    """Instantiates values of one kernel into the nodes of `program`."""

    def __init__(
        self, kernel: Kernel, types: Mapping[str, Type], effects: Effects, constexprs: Mapping[str, Any],
        whole: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        super().__init__(kernel, types, effects, constexprs, whole)
        self._memo: dict[tuple[int, str, Ixs], int] = {}
        self.load_scopes: dict[int, frozenset[tuple[str, str]]] = {}
        self.load_loops: dict[int, frozenset[str]] = {}  # axes of the ordered loops around a load
        self.loops: dict[Any, list[Any]] = {}  # instances of loops
        self.ordered: dict[str, Any] = {}  # region of an ordered loop -> its one instance (`construct_ordered`)
        self.memory: dict[tuple[str, int, tuple[str, ...]], Any] = {}  # carries of ordered loops that are kept in memory
        self.inner: dict[tuple[str, int], tuple[str, ...]] = {}  # (workspace, version) -> regions of the ordered loops where it lives
        self.cutting: dict[str, str] = {}  # name of a loop over slices -> its operation (the first result)
        self.kept: dict[str, Any] = {}  # workspace -> the effect that fills it
        self.workspaces: dict[Any, str] = {}  # (node, where it is kept) -> workspace
        self.views_kept: dict[str, tuple[str, tuple[Expr, ...]]] = {}  # workspace -> (dtype, shape)
        self.mine = ""  # whose axes the dimensions of stores have
        self.wishes: dict[str, set[str]] = {}  # axis of a store -> how values want to traverse it
        self.formals: dict[str, int] = {}  # argument of a combine region -> node
        self.at: dict[str, Expr] = {}  # parallel point -> coordinate
        self.point_axis: dict[str, str] = {}  # parallel point, or loop region, -> axis
        for point, (domain, around, loop) in effects.points.items():
            if loop in effects.ordered:
                continue
            info = effects.loops.get(loop)
            kind = "strict" if info and (len(info.region.args) > 1 or info.breaks) else "loop"
            outer = (*around, *effects.homes[point])
            if effects.homes[point] and not self.known(self.domain(domain)[2]):
                continue  # known inside the loops around it only
            x, axis = self.dimension(self.domain(domain)[2], {self.point_axis[p] for p in outer if p in self.point_axis}, kind)
            if not loop:
                self.at[point] = self.point(domain, x)
            if axis:
                self.point_axis[loop or point] = axis

    def point(self, domain: str, x: Expr) -> Expr:
        """The coordinate of the x-th point of a domain."""
        begin, step, _ = self.domain(domain)
        return normal(self.pinned(begin) + x * step)

    def domain(self, id: str) -> tuple[Expr, int, Expr]:
        """(begin, step, length)."""
        t = self.types[id]
        assert isinstance(t, DomainType)
        e: Env | None = self.env
        while e is not None:
            if id in e.domains:
                return e.domains[id]
            e = e.parent
        begin, end = self.extent(t.begin), self.extent(t.end)
        return begin, t.step, self.extents.length(begin, end, t.step)

    def alias_of(self, workspace: str) -> int:
        """A workspace has an alias class of its own."""
        alias = self.effects.alias
        if workspace not in alias:
            alias[workspace] = 1 + max(alias.values(), default=0)
        return alias[workspace]

    def regions_of(self, view: str, version: int) -> tuple[str, ...]:
        """Regions of the ordered loops inside which a version lives."""
        if (view, version) in self.inner:
            return self.inner[view, version]
        return self.effects.inner.get((self.effects.alias.get(view, -1), version), ())

    def home(self, view: str, version: int) -> tuple[str, ...]:
        return self.stepped(self.regions_of(view, version))

    def stepped(self, regions: Sequence[str]) -> tuple[str, ...]:
        """The axes of ordered loops."""
        return tuple(self.ordered[r].axis for r in regions)

    def resource(self, name: str) -> tuple[Expr, ...]:
        """The shape of a view or buffer."""
        if name in self.views:
            return tuple(self.extent(lift(e)) for e in self.views[name].shape)
        t = self.types[name]
        assert isinstance(t, BufferType) or (isinstance(t, TensorType) and name in self.effects.kept)
        return tuple(map(self.extent, t.shape))

    def element(self, name: str) -> str:
        """The dtype of a view or buffer."""
        t = self.types.get(name)
        return t.dtype if isinstance(t, (BufferType, TensorType)) else self.views[name].dtype

    def owner(self, name: str) -> tuple[Expr, ...]:
        """Coordinates of the buffer that belongs to the current points and steps: each has one of its own, in one workspace."""
        if name in self.views:
            return ()
        axes = [self.point_axis[p] for p in self.effects.scopes[name] if p in self.point_axis]
        for depth, loop in enumerate(self.effects.homes[name]):
            if loop in self.effects.ordered:
                continue  # written anew in every step
            if not isinstance(self.effects.loops[loop].op, For):
                raise fail(LOOP_STORE, f"a buffer inside {self.effects.loops[loop].op.op}", stage=STAGE)
            steps = self.env.home(depth + 1).steps
            axes += [steps] if steps else []
        if name not in self.views_kept:
            shape = (*(self.extent_of[a] for a in axes), *self.resource(name))
            if not all(map(self.known, shape)):
                raise fail(EXTENT, f"a buffer of shape [{', '.join(map(str, self.resource(name)))}]", stage=STAGE)
            self.views_kept[name] = self.element(name), shape
        return tuple(map(Coord, axes))

    # ------------------------------------------------------------------ types
    def type_of(self, id: str) -> Type:
        base, *path = id.split("/")
        t = self.types[base]
        for name in path:
            assert isinstance(t, RecordType)
            t = dict(t.fields)[name]
        return t

    def shape(self, id: str) -> tuple[Expr, ...]:
        if id not in self._shapes:
            t = self.type_of(id)
            assert isinstance(t, TensorType)
            base = id.split("/")[0]
            self._shapes[id] = tuple(self.checked(self.extent(e), self.effects.pointers.get(base, "")) for e in t.shape)
        return self._shapes[id]

    def dtype(self, id: str) -> str:
        t = self.type_of(id)
        assert isinstance(t, TensorType)
        return t.dtype

    def align(self, id: str, ixs: Ixs) -> Ixs:
        """Indices of an operand that broadcasts to the shape that `ixs` index."""
        return self.aligned(self.shape(id), ixs)

    def operand(self, id: str, ixs: Ixs) -> tuple[str, Ixs]:
        """What to yield for an operand that broadcasts."""
        return id, self.align(id, ixs)

    def taken(self, id: str, ixs: Ixs) -> set[str]:
        """Axes that a binder inside value `id` instantiated at `ixs` may not use."""
        out = {a for e in ixs for a in self.axes_of(e)}
        base = id.split("/")[0]
        out |= {self.point_axis[p] for p in self.effects.scopes[base] if p in self.point_axis}
        return out | self.env.axes

    # ------------------------------------------------------------------ instantiation
    def node(self, id: str, ixs: Ixs = (), env: Env | None = None) -> int:
        """The node of a value at index expressions, in an environment (the current one)."""
        outer = self.env
        try:
            return self._run(id, ixs, self.env if env is None else env)
        finally:
            self.env = outer

    def _run(self, id: str, ixs: Ixs, env: Env) -> int:
        stack: list[tuple[tuple[int, str, Ixs], Env, Steps]] = []
        want: tuple[str, Ixs, Env] | None = (id, ixs, env)
        got = -1
        while True:
            if want is not None:
                name, at, e = want
                e = e.home(len(self.effects.homes.get(name.split("/")[0], ())))
                if sum(size(x, EXPR_LIMIT) for x in at) > EXPR_LIMIT:
                    raise self.located(fail(EXPRESSION, "an index expression is too large", stage=STAGE), name)
                key = e.number, name, at
                leaf = self._memo.get(key)
                self.env = e
                found = self._leaf(name, at, e) if leaf is None else leaf
                want = None
                if isinstance(found, tuple):
                    want = found
                    continue
                if isinstance(found, int):
                    got = found
                    if not stack:
                        return got
                else:
                    if len(self._memo) + len(stack) > STEP_LIMIT:
                        raise self.located(fail(NODES, "too many instances of values", stage=STAGE), name)
                    stack.append((key, e, found))
                    got = -1
            key, e, steps = stack[-1]
            self.env = e
            try:
                asked: Any = next(steps) if got < 0 else steps.send(got)
                want = (*asked, e) if len(asked) == 2 else asked
            except StopIteration as stop:
                stack.pop()
                got = int(stop.value)
                self._memo[key] = got
                self._origin(key[1], got)
                if not stack:
                    return got
            except EqkirError as err:
                raise self.located(err, key[1]) from None

    def _leaf(self, id: str, ixs: Ixs, env: Env) -> int | tuple[str, Ixs, Env] | Steps:
        """Nodes of interface values, points and formals; what an argument of a loop stands for; or the steps that make a value."""
        base, *path = id.split("/")
        if base in env.binds:
            found: int | tuple[str, Ixs, Env] | Steps = env.binds[base](tuple(path), ixs)
            return found
        if base in self.formals:
            return self.formals[base]
        if base in self.at:
            return self.index(self.at[base], (), "index")
        p = self.params.get(base)
        if p is not None:
            if p.kind == "constexpr":
                return self.const(self.constexprs[base], self.dtype(base))
            if isinstance(p, Scalar):
                return self.index(Sym(base), (), "index") if p.dtype == "index" else self.make("Scalar", (base,), (), p.dtype)
        op, n = self.effects.definitions[base]
        if op.op not in HANDLERS:
            raise self.located(fail(UNSUPPORTED, f"no construction of {op.op}", stage=STAGE), base)
        handler = HANDLERS[op.op]
        return handler(self, op, n, ixs, tuple(path)) if handler in RECORDS else handler(self, op, n, ixs)

    def runtime(self, name: str) -> int:
        """The node, of dtype index, of a symbol that stands for data."""
        if name.startswith("#"):
            return int(name[1:].split(".")[0])
        outer = self.env
        i = self.node(name, (), outer)
        return self.widened(i)

    def predicate(self, axis: str) -> Expr | None:
        """Which coordinates of an axis take part: those of a subregion."""
        bound = self.regions.get(axis)
        if bound is None or self.kind_of[axis] == "seg":
            return None
        source, begin, end = bound
        at = source + Coord(axis)
        return conj(le(begin, at), lt(at, end))

    # ------------------------------------------------------------------ diagnostics
    def located(self, err: EqkirError, id: str) -> EqkirError:
        """The error with the place of the operation that defines `id`, where it has none."""
        id = id.split("/")[0]
        op = self.effects.definitions.get(id)
        return self.placed(err, self.effects.pointers.get(id, ""), op[0] if op else None)

    def placed(self, err: EqkirError, pointer: str, op: Op | None) -> EqkirError:
        """The error with a place, where it has none."""
        file, line = (op.loc.file, op.loc.line) if op and op.loc else (None, None)
        place = {"pointer": pointer, "file": file, "line": line}
        return EqkirError(*(d if d.pointer else replace(d, **place) for d in err.diagnostics))  # type: ignore[arg-type]

    def _origin(self, id: str, node: int) -> None:
        base = id.split("/")[0]
        if base in self.effects.definitions:
            op = self.effects.definitions[base][0]
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
