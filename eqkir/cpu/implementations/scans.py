"""Scans of fragments, and their last members."""

from __future__ import annotations

from collections.abc import Callable

from eqkir.cpu.builder import Builder
from eqkir.cpu.context import Context
from eqkir.cpu.fragments import Fragment, Shape
from eqkir.cpu.implementations.declaration import Declaration, Operation
from eqkir.cpu.model import Type
from eqkir.program.abi import parameter
from eqkir.program.model import Let

State = tuple[int, ...]
Combine = Callable[[State, State], State]


class Scan:
    """Inclusive forward scans along a label. Vectors that run along another label are combined one after another. Vectors along the label
    itself are scanned inside, each lane taking in the one 1, 2, 4, … before it, and take in what all before them come to; so the tree
    follows from the label, its lanes and the width alone, and operands keep their order."""

    declaration = Declaration("scan_fragment", "scan of a fragment", ("Scan", "ScanN"), "any tree of the operation's combine, in order", 2)

    def applies(self, o: Operation) -> bool:
        return True

    def expand(self, k: Context, x: Let) -> None:
        fn, region, label = (x.attrs[0], None, x.attrs[1]) if x.op == "Scan" else ("", x.attrs[1], x.attrs[0])

        def f(left: State, right: State) -> State:
            return k.apply(region, left, right) if region else (k.combine(fn, left[0], right[0]),)

        shape = k.shape(x.id)
        if label not in shape.dims or not parameter(label):
            found = {shape.key(p): tuple(k.read(a, p, shape.vector) for a in x.args) for p in shape.points()}
        else:
            found = (_inside if shape.vector == label else _across)(k, x, shape, label, f)
        parts = tuple(Fragment(shape, {q: state[i] for q, state in found.items()}) for i in range(len(x.args)))
        k.values[x.id] = parts if region else parts[0]


def _across(k: Context, x: Let, shape: Shape, label: str, f: Combine) -> dict[tuple[int, ...], State]:
    """Member after member, each a vector along another label or a scalar."""
    out: dict[tuple[int, ...], State] = {}
    outer = k.layout.shaped(tuple(d for d in shape.dims if d != label), shape.vector)
    for p in outer.points():
        state: State = ()
        for at in range(k.program.lanes(label)):
            q = {**p, label: at}
            member = tuple(k.read(a, q, shape.vector) for a in x.args)
            state = out[shape.key(q)] = f(state, member) if state else member
    return out


def _inside(k: Context, x: Let, shape: Shape, label: str, f: Combine) -> dict[tuple[int, ...], State]:
    """Vectors along the label."""
    out: dict[tuple[int, ...], State] = {}
    b, w = k.b, shape.width
    outer = k.layout.shaped(tuple(d for d in shape.dims if d != label), "")
    for p in outer.points():
        before: State = ()
        for at in range(0, k.program.lanes(label), w):
            q = {**p, label: at}
            own = _prefixes(k, tuple(k.read(a, q, label) for a in x.args), f)
            last = tuple(b.op("Extract", (w - 1,), (v,), Type(b.types[v].dtype)) for v in own)
            out[shape.key(q)] = f(tuple(b.splat(v, w) for v in before), own) if before else own
            before = f(before, last) if before else last
    return out


def _prefixes(k: Context, state: State, f: Combine) -> State:
    """The scan of the lanes of vectors."""
    b, w = k.b, k.b.types[state[0]].width
    step = 1
    while step < w:
        lanes = tuple(max(i - step, 0) for i in range(w))
        first = b.op("Lanes", (), (b.const(step),), Type("bool", w))
        further = f(tuple(moved(b, v, lanes) for v in state), state)
        state = tuple(b.select(first, v, new) for v, new in zip(state, further, strict=True))
        step *= 2
    return state


def moved(b: Builder, v: int, lanes: tuple[int, ...]) -> int:
    """Lanes of a vector in another order; bools as bytes between."""
    t = b.types[v]
    if t.dtype != "bool":
        return b.op("Permute", (lanes,), (v, v), t)
    wide = b.op("Cast", ("u8",), (v,), Type("u8", t.width))
    return b.op("Cast", ("bool",), (b.op("Permute", (lanes,), (wide, wide), b.types[wide]),), t)


class Last:
    """The member in the last active lane of a label."""

    declaration = Declaration("last_of_fragment", "last member of a fragment", ("Last",), "exact")

    def applies(self, o: Operation) -> bool:
        return True

    def expand(self, k: Context, x: Let) -> None:
        (label,) = x.attrs
        v = k.layout.along(x.id)

        def part(p: dict[str, int], _: str) -> int:
            n = k.program.lanes(label) if parameter(label) else 1
            if label not in k.layout.dims[x.args[0]] or not parameter(label) or k.labels[label].count < 0:
                return k.read(x.args[0], {**p, label: n - 1}, v)
            out = k.read(x.args[0], {**p, label: 0}, v)
            for at in range(1, n):
                q = {**p, label: at}
                c, y, z = k.level(k.part(label, q, ""), k.read(x.args[0], q, v), out)
                out = k.b.select(c, y, z)
            return out

        k.make(x.id, part)


ALL = (Scan(), Last())
