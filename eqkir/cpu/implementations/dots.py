"""Sums of products of bytes along a loop, four at a time (VNNI), where the factors need no wider arithmetic than bytes
(`eqkir.cpu.bytes`): an integer dot product along contiguous members, with or without codes of a few bits to unpack.

The instruction takes one factor without sign. Where both have one, 128 is added to the first, and what that adds to the sum, 128 times the
second factors, is counted beside and taken off at the end. All of it modulo 2^32, as i32 is added up, so any order is the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from eqkir.cpu.bytes import BYTES, Lets, Narrow, factors
from eqkir.cpu.context import Context
from eqkir.cpu.implementations.declaration import PLAIN, Declaration, Operation, Parameter
from eqkir.cpu.implementations.reductions import Accumulators, folded
from eqkir.cpu.memory import address
from eqkir.cpu.model import Type
from eqkir.program.abi import parameter
from eqkir.program.model import Carry, Let, Loop

#: accumulators of one element
REPLICAS = Parameter("replicas", (1, 2))


class Dots(Accumulators):
    """Reductions along a loop; sums of products in the form *bytes* with the instruction. Other reductions are done as by `Accumulators`,
    so that a set may name this one in its place."""

    declaration = Declaration(
        "reduce_dot4", "reduction along a loop", ("RedLoop", "RedNLoop"), "any tree of the operation's combine",
        forms=((BYTES, PLAIN), (PLAIN, PLAIN)), features=("avx512_vnni",), parameters=(REPLICAS,),
    )  # fmt: skip

    #: 128 in every byte
    OFFSET = -0x7F7F7F80

    def applies(self, o: Operation) -> bool:
        """Chunks of whole words in the form; where a row names it, all other reductions, too."""
        if o.forms[0] == BYTES:
            return o.op == "RedLoop" and "sum" in o.attrs and o.dtype == "i32" and o.chunk % 16 == 0 and o.chunk > 0
        return self.declaration.parameter(REPLICAS.name) in o.options

    def _factors(self, k: Context, x: Carry, loop: Loop) -> tuple[Narrow, Narrow] | None:
        s = k.layout.supply(x.args[0])
        if s is None or s.attrs[0] != BYTES:
            return None
        return factors(Lets(k.layout.defs), k.program.axis, s.args[0], loop.label)

    def _points(self, k: Context, x: Carry) -> Iterator[dict[str, int]]:
        return k.layout.shaped(k.layout.dims[x.id], "").points()

    def _width(self, k: Context, loop: Loop) -> int:
        """Bytes of one step of the instruction."""
        n = k.program.lanes(loop.label) if parameter(loop.label) else 1
        return min(n, k.layout.bytes_)

    def _replicas(self, k: Context, loop: Loop) -> int:
        steps = k.program.lanes(loop.label) // self._width(k, loop)
        return min(k.local(self.declaration.parameter(REPLICAS.name), REPLICAS.domain[0]), steps)

    def start(self, k: Context, x: Carry, loop: Loop) -> tuple[int, ...]:
        """Accumulators of every element; where both factors have a sign, as many again for the offset."""
        found = self._factors(k, x, loop)
        if found is None:
            return super().start(k, x, loop)
        zero = k.b.splat(k.b.const(0, "i32"), self._width(k, loop) // 4)
        n = self._replicas(k, loop) * (1 if found[0].unsigned else 2)
        return tuple(k.b.var(zero) for _ in self._points(k, x) for _ in range(n))

    def step(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        found = self._factors(k, x, loop)
        if found is None:
            super().step(k, x, loop, state)
            return
        b, (first, second), w, r = k.b, found, self._width(k, loop), self._replicas(k, loop)
        t, both = Type("i32", w // 4), not first.unsigned
        offset = b.splat(b.const(self.OFFSET, "i32"), w // 4)
        now = [b.get(s) for s in state]
        for n, p in enumerate(self._points(k, x)):
            for m, at in enumerate(range(0, k.program.lanes(loop.label), w)):
                q = {**p, loop.label: at}
                left, right = (self._words(k, f, q, loop.label, w, f.unsigned and f is first) for f in (first, second))
                one = (n * r + m % r) * (2 if both else 1)
                if both:
                    left = b.bin("xor", left, offset)
                    now[one + 1] = b.op("Dot4", (), (now[one + 1], offset, right), t)
                now[one] = b.op("Dot4", (), (now[one], left, right), t)
        for s, value in zip(state, now, strict=True):
            b.set(s, value)

    def finish(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        found = self._factors(k, x, loop)
        if found is None:
            super().finish(k, x, loop, state)
            return
        b, both = k.b, not found[0].unsigned
        n = self._replicas(k, loop) * (2 if both else 1)
        sums: dict[tuple[int, ...], int] = {}
        shape = k.layout.shaped(k.layout.dims[x.id], "")
        for at, p in enumerate(self._points(k, x)):
            total = -1
            for j in range(0, n, 2 if both else 1):
                one = b.get(state[at * n + j])
                one = b.bin("sub", one, b.get(state[at * n + j + 1])) if both else one
                total = one if total < 0 else b.bin("add", total, one)
            (sums[shape.key(p)],) = folded(k, (total,), lambda s, t: (b.bin("add", s[0], t[0]),))

        def part(p: dict[str, int], v: str) -> int:
            lanes = range(k.width(v)) if v else range(1)
            return b.op("Build", (), tuple(sums[shape.key({**p, v: p[v] + i} if v else p)] for i in lanes), Type("i32", len(lanes)))

        k.make(x.id, part)

    def _words(self, k: Context, f: Narrow, q: dict[str, int], label: str, width: int, unsigned: bool) -> int:
        """A factor at `width` members from a point on, four to a word; zero beyond the end of the loop."""
        dtype = "u8" if unsigned else "i8"
        v = self._bytes(k, f, q, label, width, dtype)
        if not unsigned and (present := self._present(k, label, q, width)) >= 0:  # no product beyond the end
            v = k.b.select(present, v, k.b.splat(k.b.const(0, dtype), width))
        v = k.b.op("Bitcast", ("i8",), (v,), Type("i8", width)) if unsigned else v
        return k.b.op("Words", (), (v,), Type("i32", width // 4))

    def _bytes(self, k: Context, f: Narrow, q: dict[str, int], label: str, width: int, dtype: str) -> int:
        b = k.b
        if f.op == "const":
            return b.splat(b.const(f.low, dtype), width)
        if f.op == "leaf":
            v = self._load(k, f.leaf, q, label, width)
            return v if b.types[v].dtype == dtype else b.op("Bitcast", (dtype,), (v,), Type(dtype, width))
        args = tuple(self._bytes(k, a, q, label, width, dtype) for a in f.args)
        if f.op == "select":
            return b.select(b.splat(k.read(f.leaf, q, ""), width), *args)
        return b.bin(f.op, *args)

    def _load(self, k: Context, i: int, q: dict[str, int], label: str, width: int) -> int:
        """A value of bytes in memory: adjacent members from a point on."""
        b, x = k.b, k.layout.defs[i]
        assert isinstance(x, Let)
        load = k.layout.defs[x.args[0]] if x.op == "Bitcast" else x
        assert isinstance(load, Let) and load.op == "Load"
        view, _, ixs, _ = load.attrs
        where = address(k, view, ixs, load.dims, load.args[2:], q, label)
        others = tuple(d for d in load.dims if d != label)
        mask = b.conj(k.active(others, q, ""), k.going(others, q, ""))
        valid = k.layout.defs[load.args[0]]
        sometimes = label not in valid.dims and not (isinstance(valid, Let) and valid.op == "Const" and valid.attrs[0] == "true")
        if sometimes:  # where it is not valid, it is what the load says
            mask = b.conj(mask, k.read(valid.id, q, ""))
        mask = b.conj(b.splat(mask, width) if mask >= 0 else -1, self._present(k, label, q, width))
        other = b.splat(k.read(load.args[1], q, ""), width) if sometimes else -1
        v = b.load(view, where.at, Type(load.dtype, width), where.access, where.stride, mask, other)
        return v if load.dtype == x.dtype else b.op("Bitcast", (x.dtype,), (v,), Type(x.dtype, width))

    def _present(self, k: Context, label: str, q: dict[str, int], width: int) -> int:
        """Which members from a point on are of the loop; -1: all."""
        count = k.labels[label].count
        if count < 0:
            return -1
        return k.b.op("Lanes", (), (k.b.bin("sub", count, k.b.const(q[label])),), Type("bool", width))


ALL = (Dots(),)
