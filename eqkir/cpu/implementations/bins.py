"""Histograms: sums along a loop of values that are not zero in one lane alone (`eqkir.cpu.keys`), counted in memory of the task.

Each member adds its weight to the one element that its key names. The counters are the task's own: they start at zero before the loop, and
what is read of them behind it are whole vectors. Members outside of the block of bins, or that do not count, add to one element more that
nobody reads, so that no step branches. `copies` sets of counters, between which the members of a step are dealt out, keep equal keys
that follow each other from waiting for the memory; they are added up at the end.
"""

from __future__ import annotations

from eqkir.cpu.context import Context
from eqkir.cpu.implementations.declaration import PLAIN, Declaration, Operation, Parameter
from eqkir.cpu.implementations.reductions import Accumulators
from eqkir.cpu.keys import KEYS, Keys, keys_of
from eqkir.cpu.model import Type
from eqkir.program.abi import parameter
from eqkir.program.model import Carry, Loop

COPIES = Parameter("copies", (4, 1, 2))


class Bins(Accumulators):
    """Reductions along a loop; sums of values in the form *keys* are counted. Other reductions are done as by `Accumulators`, so that a
    set may name this one in its place."""

    declaration = Declaration(
        "reduce_bins", "reduction along a loop", ("RedLoop", "RedNLoop"), "any tree of the operation's combine",
        forms=((KEYS, PLAIN), (PLAIN, PLAIN)), parameters=(COPIES,),
    )  # fmt: skip

    def applies(self, o: Operation) -> bool:
        """Values in the form; where a row names it, all others, too."""
        if o.forms[0] == KEYS:
            return o.op == "RedLoop" and "sum" in o.attrs
        return self.declaration.parameter(COPIES.name) in o.options

    def _keys(self, k: Context, x: Carry) -> Keys | None:
        s = k.layout.supply(x.args[0])
        return keys_of(k.layout.defs, s) if s is not None and s.attrs[0] == KEYS else None

    def _copies(self, k: Context, loop: Loop) -> int:
        members = k.program.lanes(loop.label) if parameter(loop.label) else 1
        return min(k.local(self.declaration.parameter(COPIES.name), COPIES.domain[0]), members)

    def _row(self, k: Context, keys: Keys) -> int:
        """Elements of one set of counters: the lanes, the one that nobody reads, and what keeps sets at whole vectors."""
        w = k.width(keys.label) if keys.label in k.layout.width else 1
        return -(-(k.program.lanes(keys.label) + 1) // w) * w

    def _outer(self, k: Context, x: Carry, keys: Keys) -> list[dict[str, int]]:
        """Points of the result without the label of the bins."""
        dims = tuple(d for d in k.layout.dims[x.id] if d != keys.label)
        return list(k.layout.shaped(dims, "").points())

    def start(self, k: Context, x: Carry, loop: Loop) -> tuple[int, ...]:
        keys = self._keys(k, x)
        if keys is None:
            return super().start(k, x, loop)
        b, row = k.b, self._row(k, keys)
        mark = b.fresh(Type("index"))
        size = row * self._copies(k, loop) * len(self._outer(k, x, keys))
        b.alloc(_memory(k, mark), x.dtype, size)
        w = k.width(keys.label) if keys.label in k.layout.width else 1
        zero = b.splat(b.const(0, x.dtype), w)
        with b.loop(b.const(0), b.const(size), w) as at:
            b.write(_memory(k, mark), at, zero)
        return (mark,)

    def step(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        keys = self._keys(k, x)
        if keys is None:
            super().step(k, x, loop, state)
            return
        b, row, copies = k.b, self._row(k, keys), self._copies(k, loop)
        memory, lanes = _memory(k, state[0]), k.program.lanes(keys.label)
        chunk = range(k.program.lanes(loop.label)) if parameter(loop.label) else range(1)
        base, last = k.labels[keys.label].base, b.const(lanes)
        for n, p in enumerate(self._outer(k, x, keys)):
            for m in chunk:
                q = {**p, loop.label: m}
                at = b.bin("sub", k.index(k.read(keys.key, q, "")), base)
                on = b.bin("and", b.bin("ge", at, b.const(0)), b.bin("lt", at, last))
                for i in keys.where:
                    on = b.conj(on, k.read(i, q, ""))
                on = b.conj(on, k.active((loop.label,), q, ""))
                place = b.bin("add", b.select(on, at, last), b.const((n * copies + m % copies) * row))
                old = b.load(memory, place, Type(x.dtype))
                b.write(memory, place, b.bin("add", old, k.read(keys.weight, q, "")))

    def finish(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        keys = self._keys(k, x)
        if keys is None:
            super().finish(k, x, loop, state)
            return
        b, row, copies = k.b, self._row(k, keys), self._copies(k, loop)
        memory, outer = _memory(k, state[0]), self._outer(k, x, keys)

        def part(p: dict[str, int], v: str) -> int:
            """The sum of all sets at a point: a vector along the bins, or along another label one of scalars."""
            w = k.width(v)
            if v == keys.label:
                return self._total(k, memory, x.dtype, outer.index({d: p[d] for d in outer[0]}) * copies * row + p[v], row, copies, w)
            points = [{**p, v: p[v] + i} for i in range(w)] if v else [p]
            each = tuple(
                self._total(k, memory, x.dtype, outer.index({d: q[d] for d in outer[0]}) * copies * row + q[keys.label], row, copies, 1)
                for q in points
            )
            return b.op("Build", (), each, Type(x.dtype, w))

        k.make(x.id, part)

    def _total(self, k: Context, memory: str, dtype: str, at: int, row: int, copies: int, width: int) -> int:
        b, total = k.b, -1
        for c in range(copies):
            v = b.load(memory, b.const(at + c * row), Type(dtype, width))
            total = v if total < 0 else b.bin("add", total, v)
        return total


def _memory(k: Context, mark: int) -> str:
    """The name of the counters: of no view."""
    name = f"bins{mark}"
    while any(v.name == name for v in k.program.abi.views):
        name += "_"
    return name


ALL = (Bins(),)
