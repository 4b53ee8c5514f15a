"""Reductions of fragments: the members of a label combined by halving, vector against vector, then inside the last vector.

The order is a function of the number of lanes alone: lanes i and i + n/2 meet first, an odd last one at the end. So it does not depend on
the label along which the vectors of the operand run, and equal reductions in two places round alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eqkir.base.dtypes import identity
from eqkir.cpu.context import Context
from eqkir.cpu.fragments import Fragment, Shape
from eqkir.cpu.implementations.declaration import Declaration, Operation
from eqkir.cpu.model import Type
from eqkir.program.abi import parameter
from eqkir.program.model import Carry, Let, Loop

EXTREMES = {"max": "maximum", "min": "minimum"}
State = tuple[int, ...]
Combine = Callable[[State, State], State]


def halved(parts: list[State], f: Combine) -> State:
    """The combination of parts: i with i + n/2, until one is left."""
    while len(parts) > 1:
        h = len(parts) // 2
        parts = [f(parts[i], parts[i + h]) for i in range(h)] + parts[2 * h :]
    return parts[0]


def folded(k: Context, x: State, f: Combine) -> State:
    """All lanes of a vector state, by halves; a scalar state."""
    b = k.b
    w = b.types[x[0]].width
    while w > 1:
        w //= 2
        low, high = (tuple(b.op("Slice", (at,), (v,), Type(b.types[v].dtype, w)) for v in x) for at in (0, w))
        x = f(low, high)
    return x


def operand_vector(k: Context, dims: tuple[str, ...], label: str, args: tuple[int, ...]) -> str:
    """The label along which a reduction's operands are read."""
    over = tuple(dict.fromkeys(d for a in args for d in k.layout.dims[a]))
    bound = (label,) if parameter(label) else ()
    return k.layout.best(tuple(dict.fromkeys((*over, *dims, *bound))))


def _reader(k: Context, i: int) -> Callable[[Mapping[str, int], str], int]:
    return lambda p, v: k.read(i, p, v)


class _Over:
    """Members of a label at one point of the result: how a reduction of any kind reads them."""

    def __init__(self, k: Context, label: str, args: tuple[int, ...], idents: tuple[Callable[[Mapping[str, int], str], int], ...]) -> None:
        self.k, self.label, self.args, self.idents = k, label, args, idents
        self.seen: list[int] = []  # what was read

    def member(self, p: Mapping[str, int], v: str) -> State:
        """The members at a point (a lane of the label, or the first lane of a vector along it); neutral where not active."""
        k = self.k
        xs = tuple(k.read(a, p, v) for a in self.args)
        self.seen += xs
        live = k.active((self.label,), p, v)
        if live < 0:
            return xs
        out = []
        for x, ident in zip(xs, self.idents, strict=True):
            c, y, z = k.level(live, x, ident(p, v))
            out.append(k.b.select(c, y, z))
        return tuple(out)

    def all(self, p: Mapping[str, int], v: str, f: Combine) -> State:
        """All members combined, at a point of the result: vectors along another label, or a scalar."""
        k, label = self.k, self.label
        n = k.program.lanes(label)
        w = k.width(label) if v == label else 1
        state = halved([self.member({**p, label: at}, v) for at in range(0, n, w)], f)
        return folded(k, state, f) if v == label else state


class Reduction:
    """Built-in reductions of a fragment."""

    declaration = Declaration("reduce_fragment", "reduction of a fragment", ("RedTree",), "any tree of the operation's combine")

    def applies(self, o: Operation) -> bool:
        return True

    def expand(self, k: Context, x: Let) -> None:
        fn, label = x.attrs
        ident = k.b.const(identity(fn, x.dtype), x.dtype)
        over = _Over(k, label, x.args, (lambda p, v: ident,))
        v = operand_vector(k, k.layout.dims[x.id], label, x.args)
        k.make(x.id, lambda p, _: over.all(p, v, lambda a, c: (k.combine(fn, a[0], c[0]),))[0])


class GenericReduction:
    """Reductions with an author's combine, of a fragment."""

    declaration = Declaration(
        "reduce_fragment_generic", "generic reduction of a fragment", ("RedNTree",), "any tree of the operation's combine"
    )

    def applies(self, o: Operation) -> bool:
        return True

    def expand(self, k: Context, x: Let) -> None:
        label, region = x.attrs
        n = len(region.dtypes)
        idents, elems = x.args[:n], x.args[n:]
        over = _Over(k, label, elems, tuple(_reader(k, i) for i in idents))
        v = operand_vector(k, k.layout.dims[x.id], label, x.args)
        shape = k.shape(x.id)
        states = {shape.key(p): over.all(p, v, lambda a, c: k.apply(region, a, c)) for p in shape.points()}
        k.values[x.id] = tuple(Fragment(shape, {q: s[i] for q, s in states.items()}) for i in range(n))


class Accumulators:
    """Built-in and generic reductions along a loop: replicas in registers, one a lane of the chunk (mode ``lanes``) or one in all."""

    declaration = Declaration("reduce_loop", "reduction along a loop", ("RedLoop", "RedNLoop"), "any tree of the operation's combine")

    def applies(self, o: Operation) -> bool:
        return True

    def _combine(self, k: Context, x: Carry) -> Combine:
        if x.op == "RedLoop":
            fn = x.attrs[0]
            if k.sure >= 0:
                width = k.b.types[k.sure].width
                return lambda a, c: (k.b.op("Extreme", (EXTREMES[fn],), (a[0], k.b.splat(c[0], width)), Type(x.dtype, width)),)
            return lambda a, c: (k.combine(fn, a[0], c[0]),)
        region = x.attrs[1]
        return lambda a, c: k.apply(region, a, c)

    def hopes(self, k: Context, x: Carry, loop: Loop) -> int:
        """Lanes of the registers that are combined where this is a maximum or minimum of them and of nothing narrower; else 0."""
        shape, v = self._shape(k, x, loop)
        folds = bool(parameter(loop.label)) and loop.label not in shape.dims and v == loop.label
        fit = x.op == "RedLoop" and x.attrs[0] in EXTREMES and x.dtype in ("f32", "f64") and shape.width > 1 and not folds
        return shape.width if fit else 0

    def _note(self, k: Context, seen: list[int]) -> None:
        """`Context.sure` without the lanes in which one of the values is NaN: two are compared at once."""
        b, sure = k.b, k.b.get(k.sure)
        t = b.types[sure]
        for x, y in zip(seen[::2], [*seen[1::2], seen[-1]]):
            sure = b.bin("and", sure, b.bin("and", *(b.op("Bin", ("eq",), (b.splat(i, t.width),) * 2, t) for i in (x, y))))
        b.set(k.sure, sure)

    def _over(self, k: Context, x: Carry, loop: Loop) -> _Over:
        if x.op == "RedLoop":
            ident = k.b.const(identity(x.attrs[0], x.dtype), x.dtype)
            return _Over(k, loop.label, x.args, (lambda p, v: ident,))
        return _Over(k, loop.label, x.args, tuple(_reader(k, i) for i in x.inits))

    def _shape(self, k: Context, x: Carry, loop: Loop) -> tuple[Shape, str]:
        """Shape of the state, and the label along which it is a vector."""
        dims = k.layout.dims[x.id]
        if not parameter(loop.label):
            return k.shape(x.id), k.layout.along(x.id)
        v = operand_vector(k, dims, loop.label, (*x.args, *x.inits))
        if x.attrs[1 if x.op == "RedLoop" else 0] == "lanes":
            return k.layout.shaped((*dims, loop.label), v), v
        return k.shape(x.id), v

    def start(self, k: Context, x: Carry, loop: Loop) -> State:
        shape, _ = self._shape(k, x, loop)
        over = self._over(k, x, loop)
        variables: list[int] = []
        for p in shape.points():
            for ident in over.idents:
                variables.append(k.b.var(k.b.splat(ident(p, shape.vector), shape.width)))
        return tuple(variables)

    def step(self, k: Context, x: Carry, loop: Loop, state: State) -> None:
        shape, v = self._shape(k, x, loop)
        over, f = self._over(k, x, loop), self._combine(k, x)
        n = len(over.idents)
        new: list[int] = []
        for at, p in enumerate(shape.points()):
            own = state[at * n : at * n + n]
            chunk = bool(parameter(loop.label)) and loop.label not in shape.dims
            member = over.all(p, v, f) if chunk else over.member(p, v)
            new += f(tuple(k.b.get(s) for s in own), member)
        if k.sure >= 0:
            self._note(k, over.seen)
        for s, value in zip(state, new, strict=True):
            k.b.set(s, k.b.splat(value, k.b.types[s].width))

    def finish(self, k: Context, x: Carry, loop: Loop, state: State) -> None:
        shape, v = self._shape(k, x, loop)
        n = len(self._over(k, x, loop).idents)
        f = self._combine(k, x)
        held: dict[tuple[int, ...], State] = {}
        for at, p in enumerate(shape.points()):
            held[shape.key(p)] = tuple(k.b.get(s) for s in state[at * n : at * n + n])
        result = k.shape(x.id)
        out: dict[tuple[int, ...], State] = {}
        for p in result.points():
            if loop.label in shape.dims:
                w = shape.width if v == loop.label else 1
                members = [held[shape.key({**p, loop.label: c})] for c in range(0, k.program.lanes(loop.label), w)]
                s = halved(members, f)
                out[result.key(p)] = folded(k, s, f) if v == loop.label else s
            else:
                out[result.key(p)] = held[shape.key(p)]
        parts = tuple(Fragment(result, {q: s[i] for q, s in out.items()}) for i in range(n))
        k.values[x.id] = parts if x.op == "RedNLoop" else parts[0]


ALL = (Reduction(), GenericReduction(), Accumulators())
