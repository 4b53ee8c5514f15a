"""A contraction along a loop whose products are dealt out to several accumulators: one long dot product need not wait for itself.

Vectors run along the loop. It is worth it where an instance has few results (one row of a matrix times a vector), and not where the results
themselves are many enough to keep the machine busy.
"""

from __future__ import annotations

from eqkir.cpu.context import Context
from eqkir.cpu.fragments import Fragment, Shape
from eqkir.cpu.implementations import Declaration, Operation, Parameter
from eqkir.cpu.model import Type
from eqkir.program.model import Carry, Loop

LANES = 16


class Dealt:
    """Sums of products in `replicas` vectors of one element."""

    declaration = Declaration(
        "contract_dealt", "contraction dealt out", ("ConLoop",), "products rounded or exact, any tree",
        parameters=(Parameter("replicas", (2, 4, 8)),),
    )  # fmt: skip

    def applies(self, o: Operation) -> bool:
        return o.dtype == "f32" and o.chunk >= LANES * o.options["contract_dealt.replicas"]

    def _replicas(self, k: Context) -> int:
        return k.local("contract_dealt.replicas", 2)

    def _shape(self, k: Context, x: Carry) -> Shape:
        return k.layout.shaped(k.layout.dims[x.id], "")

    def start(self, k: Context, x: Carry, loop: Loop) -> tuple[int, ...]:
        zero = k.b.splat(k.b.const(0, x.dtype), k.width(loop.label))
        return tuple(k.b.var(zero) for _ in self._shape(k, x).points() for _ in range(self._replicas(k)))

    def step(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        n, v = self._replicas(k), loop.label
        members = range(0, k.program.lanes(v), k.width(v))
        for at, p in enumerate(self._shape(k, x).points()):
            for j, lane in enumerate(members):
                s, q = state[at * n + j % n], {**p, v: lane}
                old = k.b.get(s)
                new = k.product_sum(old, k.read(x.args[0], q, v), k.read(x.args[1], q, v), x.dtype)
                live = k.active((v,), q, v)
                k.b.set(s, new if live < 0 else k.b.select(live, new, old))

    def finish(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        n, shape = self._replicas(k), self._shape(k, x)
        out = Fragment(shape)
        for at, p in enumerate(shape.points()):
            total, *rest = (k.b.get(s) for s in state[at * n : at * n + n])
            for r in rest:
                total = k.b.bin("add", total, r)
            w = k.width(loop.label)
            while w > 1:
                w //= 2
                low, high = (k.b.op("Slice", (i,), (total,), Type(x.dtype, w)) for i in (0, w))
                total = k.b.bin("add", low, high)
            out.parts[shape.key(p)] = total
        k.values[x.id] = out


UNIT = Dealt()
