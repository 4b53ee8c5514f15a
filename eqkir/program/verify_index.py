"""What is known of an access: its index map and validity as expressions, the facts that hold in its lanes, injectivity of index maps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eqkir.base import expr as E
from eqkir.base.dtypes import NUMPY, parse
from eqkir.base.expr import Coord, Dep, Expr, Int, Sym, atoms, conj, coords, eq, is_launch, le, lt, ne, substitute
from eqkir.program.abi import axis_of, member_labels, parameter, traversal
from eqkir.program.model import Carry, Let, Program
from eqkir.program.verify_prove import Prover, dtype_range
from eqkir.program.verify_scope import Access, Phase, phases, stores

COMPARISONS = {"eq": E.eq, "ne": E.ne, "lt": E.lt, "le": E.le}


class Values:
    """Values of one phase as expressions; what is no index arithmetic is an opaque symbol ``%id`` within its dtype's range."""

    def __init__(self, phase: Phase, prover: Prover) -> None:
        self.phase, self.prover = phase, prover
        self.memo: dict[int, Expr] = {}
        self.opaque: dict[Expr, tuple[str, ...]] = {}  # opaque symbol -> dims it varies with
        self.loads: dict[Any, int] = {}  # what a load of constant memory reads -> the first load that reads it
        self.written: set[int] | None = None  # alias classes that the program stores to

    def of(self, i: int) -> Expr:
        if i not in self.memo:
            self.memo[i] = self._of(i)
        return self.memo[i]

    def _of(self, i: int) -> Expr:
        x = self.phase.defs[i]
        if isinstance(x, Let):
            args = x.args
            match x.op:
                case "Const" if NUMPY[x.dtype].kind in "biu":
                    return Int(int(parse(x.attrs[0], x.dtype)))
                case "Scalar" if NUMPY[x.dtype].kind in "iu":
                    return Sym(x.attrs[0])
                case "Index":
                    return self.substituted(x.attrs[0], args)
                case "Active":
                    axis = self.phase.axis(x.attrs[0])
                    return lt(Coord(axis.name), axis.extent)
                case "Splat" | "Trans":
                    return self.of(args[0])
                case "Cast":
                    src = self.phase.defs[args[0]].dtype
                    if "tuple" not in (src, x.dtype) and NUMPY[src].kind in "biu" and NUMPY[x.dtype].kind in "iu":
                        (a, b), (c, d) = dtype_range(src), dtype_range(x.dtype)
                        if c <= a and b <= d:
                            return self.of(args[0])
                case "Un" if x.attrs[0] == "not" and x.dtype == "bool":
                    return E.negate(self.of(args[0]))
                case "Bin" if x.dtype == "bool":
                    found = self.predicate(x)
                    if found is not None:
                        return found
                case "Tri" if x.attrs[0] == "select" and NUMPY[x.dtype].kind in "biu":
                    return E.select(*(self.of(a) for a in args))
        return self.atom(i)

    def predicate(self, x: Let) -> Expr | None:
        """A comparison of integers or a connective of bools, exactly; None for floats."""
        fn, kind = x.attrs[0], NUMPY[self.phase.defs[x.args[0]].dtype].kind
        a, b = x.args
        if kind not in "biu":
            return None
        if fn in COMPARISONS:
            return COMPARISONS[fn](self.of(a), self.of(b))
        if fn in ("gt", "ge"):
            return COMPARISONS["lt" if fn == "gt" else "le"](self.of(b), self.of(a))
        if kind == "b" and fn in ("and", "or"):
            return E.binary(fn, self.of(a), self.of(b))
        return ne(self.of(a), self.of(b)) if kind == "b" and fn == "xor" else None

    def atom(self, i: int) -> Expr:
        x = self.phase.defs[i]
        if isinstance(x, Let) and x.op in ("Load", "LoadM") and self.constant(x.attrs[0]):
            same = self.loads.setdefault((*x.attrs[:3], *(self.of(a) for a in x.args)), i)
            if same != i:  # another load of that element, maybe in another form
                return self.of(same)
        a = Sym(f"%{self.phase.number[0]}/{self.phase.number[1]}/{i}")
        self.opaque[a] = x.dims
        if x.dtype != "tuple" and NUMPY[x.dtype].kind in "biu":
            self.prover.range(a.args[0], *dtype_range(x.dtype))
        return a

    def constant(self, view: str) -> bool:
        """Whether nothing in the program writes a view's memory."""
        if self.written is None:
            abi = self.phase.program.abi
            self.written = {abi.view(s.view).alias for ph in phases(self.phase.program) for _, s in stores(ph)}
        return self.phase.program.abi.view(view).alias not in self.written

    def behind(self, i: int, states: set[int]) -> set[int]:
        """All values that value `i` depends on, and itself, not looking behind `states`."""
        out = set(states)
        todo = [i]
        while todo:
            k = todo.pop()
            if k not in out:
                out.add(k)
                x = self.phase.defs[k]
                todo += [*x.args, *(x.inits if isinstance(x, Carry) else ())]
        return out

    def substituted(self, e: Expr, deps: Iterable[int]) -> Expr:
        env: dict[Expr, Expr] = {Dep(k): self.of(d) for k, d in enumerate(deps)}
        env.update({Expr("param", (p,)): Int(v) for p, v in self.phase.program.bindings.items()})
        return substitute(e, env)


class Facts:
    """Index maps and facts of accesses, one `Values` a phase."""

    def __init__(self, program: Program, prover: Prover) -> None:
        self.program, self.prover = program, prover
        self.values: dict[tuple[int, int], Values] = {}

    def of(self, phase: Phase) -> Values:
        if phase.number not in self.values:
            self.values[phase.number] = Values(phase, self.prover)
        return self.values[phase.number]

    def map(self, a: Access) -> tuple[Expr, ...]:
        """The index map, data operands resolved."""
        v = self.of(a.phase)
        return tuple(v.substituted(e, a.deps) for e in a.ixs if isinstance(e, Expr))

    def valid(self, a: Access) -> Expr:
        return self.of(a.phase).of(a.mask)

    def full(self, label: str) -> bool:
        """Whether every lane of every block of the label is active for all launches."""
        if parameter(label) is None:
            return True
        n = self.program.lanes(label)
        extent = substitute(self.program.axis[axis_of(label)].extent, {})
        if traversal(label) in ("W", "MW"):
            return extent.value == n or eq(extent, n) in self.prover.facts
        return n == 1 or self.divides(n, extent) or eq(E.mod(extent, n), 0) in self.prover.facts

    def divides(self, n: int, e: Expr) -> bool:
        match e.op:
            case "int":
                return bool(e.args[0] % n == 0)
            case "sym":
                return any(s.name == e.args[0] and s.multiple_of % n == 0 for s in self.program.abi.symbols)
            case "mul":
                return any(self.divides(n, x) for x in e.args)
            case "add" | "sub" | "min" | "max":
                return all(self.divides(n, x) for x in e.args)
            case "select":
                return all(self.divides(n, x) for x in e.args[1:])
        return False

    def ranges(self, a: Access) -> list[Expr]:
        """Coordinates of the access's dims are within their extents: in the structured stage of every active lane, in the legal stage
        where no lane of the label can be inactive (the mask says the rest)."""
        structured = self.program.stage == "structured"
        labels = [y for x in (*a.dims, *a.around) for y in (x, *member_labels(x, self.program.axis))]
        out = []
        for d in dict.fromkeys(labels):
            if d not in a.dims and traversal(d)[0] in "MS":
                continue
            axis = self.program.axis[axis_of(d)]
            if structured or self.full(d):
                out.append(lt(Coord(axis.name), axis.extent))
        return out

    def given(self, a: Access) -> list[Expr]:
        """Everything known in the lanes that touch memory. In a while loop of the structured stage the condition holds for them, unless
        the condition itself needs them."""
        found = [*self.ranges(a), self.valid(a)]
        for x in a.place.loops if self.program.stage == "structured" else ():
            item = a.place.item
            if x.cond >= 0 and not (isinstance(item, Let) and item.id in self.of(a.phase).behind(x.cond, {c.id for c in x.carries})):
                found.append(self.of(a.phase).of(x.cond))
        return found


# ------------------------------------------------------------------------------------------------ injectivity
def injective(ixs: tuple[Expr, ...], extents: dict[str, Expr], given: list[Expr], prover: Prover, varying: dict[Expr, bool]) -> set[str]:
    """Axes of `extents` on which the map is not known to be one-to-one (empty: it is injective over all of them).

    `given` holds for both members of a colliding pair; `varying`: opaque symbols, and whether they may differ between the two.
    """
    free = {a for a, n in extents.items() if not _single(n)}
    known = determined(ixs, extents, given, prover)
    if free <= known:
        return set()
    prime: dict[Expr, Expr] = {Coord(a): Coord(a + "'") for a in extents}
    prime.update({s: Sym(str(s.args[0]) + "'") for s, v in varying.items() if v})
    for s in varying:
        name = str(s.args[0])
        prover.range(name + "'", prover.low.get(name), prover.high.get(name))
    other = [substitute(g, prime) for g in given]
    same = [eq(e, substitute(e, prime)) for e in ixs]
    left = free - known
    if prover.prove(conj(*(eq(Coord(a), Coord(a + "'")) for a in sorted(left))), [*given, *other, *same]):
        return set()
    return left


def _single(extent: Expr) -> bool:
    return extent.value is not None and extent.value <= 1


def determined(ixs: tuple[Expr, ...], extents: dict[str, Expr], given: list[Expr], prover: Prover) -> set[str]:
    """Axes whose coordinate is a function of the index tuple, by exact identities: ``x//n`` and ``x%n`` give x; a mixed-radix sum with
    unit least weight gives its digits; a known sum gives its last unknown term."""
    known: dict[Expr, None] = {}
    todo = list(ixs)
    sums: list[Expr] = []
    while todo:
        e = todo.pop()
        if e in known:
            continue
        known[e] = None
        if e.op in ("add", "sub", "mul"):
            sums.append(e)
        if e.op in ("floordiv", "mod"):
            partner = Expr("mod" if e.op == "floordiv" else "floordiv", e.args)
            if partner in known and is_launch(e.args[1]):
                todo.append(e.args[0])
        if not todo:
            todo += _solve(sums, known, extents, given, prover)
    return {a.args[0] for a in known if a.op == "coord"}


def _solve(sums: list[Expr], known: dict[Expr, None], extents: dict[str, Expr], given: list[Expr], prover: Prover) -> list[Expr]:
    out: list[Expr] = []
    for e in sums:
        terms = linear(e)
        if terms is None:
            continue
        open_ = {t: c for t, c in terms.items() if t not in known}
        if len(open_) == 1:
            ((t, c),) = open_.items()
            if _nonzero(c, prover, given):
                out.append(t)
        elif open_:
            out += _digits(open_, extents, prover, given)
    return [t for t in dict.fromkeys(out) if t not in known]


def _nonzero(c: Expr, prover: Prover, given: list[Expr]) -> bool:
    return c.value != 0 if c.value is not None else prover.prove(ne(c, 0), given)


def _digits(terms: dict[Expr, Expr], extents: dict[str, Expr], prover: Prover, given: list[Expr]) -> list[Expr]:
    """All terms, when their weights form a mixed radix over their ranges."""
    left = dict(terms)
    weight: Expr = Int(1)
    while left:
        t = next((t for t, c in left.items() if c == weight or monomial(c) == monomial(weight)), None)
        if t is None:
            return []
        del left[t]
        size = extents.get(t.args[0]) if t.op == "coord" else t.args[1] if t.op == "mod" and is_launch(t.args[1]) else None
        if left and (size is None or not prover.prove(le(0, size), given)):
            return []
        weight = weight * size if size is not None else weight
    return list(terms)


def monomial(e: Expr) -> tuple[str, ...]:
    """Factors of a product, sorted, constants multiplied: equal tuples are equal values."""
    n, rest = 1, []
    todo = [e]
    while todo:
        x = todo.pop()
        if x.op == "mul":
            todo += x.args
        elif x.value is not None:
            n *= x.value
        else:
            rest.append(str(x))
    return (str(n), *sorted(rest))


def linear(e: Expr) -> dict[Expr, Expr] | None:
    """Non-launch terms of a sum with launch-known weights (the launch part dropped); None when it is no such sum."""
    out: dict[Expr, Expr] = {}

    def go(x: Expr, w: Expr) -> bool:
        if is_launch(x):
            return True
        if x.op == "add":
            return go(x.args[0], w) and go(x.args[1], w)
        if x.op == "sub":
            return go(x.args[0], w) and go(x.args[1], w * -1)
        if x.op == "mul" and is_launch(x.args[0]):
            return go(x.args[1], w * x.args[0])
        if x.op == "mul" and is_launch(x.args[1]):
            return go(x.args[0], w * x.args[1])
        if x in out:
            return False
        out[x] = w
        return True

    return out if go(e, Int(1)) else None


__all__ = ["Facts", "Values", "atoms", "coords", "determined", "injective", "linear", "monomial"]
