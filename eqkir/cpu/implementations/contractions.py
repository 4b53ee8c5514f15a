"""Contractions as outer products: the tile of results lives in registers, and each step of the reduced axis adds one product to every
element of it. Along the reduced label itself vectors run only where it is the best one (dot products)."""

from __future__ import annotations

from eqkir.cpu.context import Context
from eqkir.cpu.fragments import Fragment, Shape
from eqkir.cpu.implementations.declaration import PLAIN, Declaration, Operation
from eqkir.cpu.implementations.reductions import folded, operand_vector
from eqkir.program.abi import parameter
from eqkir.program.model import Carry, Let, Loop


class _Products:
    """Sums of products over a label, in the accumulators of a tile."""

    def __init__(self, k: Context, x: Let | Carry, label: str) -> None:
        self.k, self.x, self.label = k, x, label
        dims = k.layout.dims[x.id]
        self.v = operand_vector(k, dims, label, (*x.args, *(x.inits if isinstance(x, Carry) else ())))
        self.inner = bool(parameter(label)) and self.v == label
        self.shape: Shape = k.layout.shaped(dims, self.v if self.v in dims else "")
        self.width = k.width(self.v) if self.inner else self.shape.width

    def zero(self) -> int:
        k = self.k
        return k.b.splat(k.b.const(0, self.x.dtype), self.width)

    def add(self, p: dict[str, int], acc: int) -> int:
        """The accumulator at a point with the products of all present members."""
        k, label = self.k, self.label
        n = k.program.lanes(label) if parameter(label) else 1
        a, c = self.x.args[:2]
        zero = self.zero()
        for at in range(0, n, k.width(label) if self.inner else 1):
            q = {**p, label: at}
            live = k.active((label,), q, self.v) if parameter(label) else -1
            new = k.product_sum(acc, k.read(a, q, self.v), k.read(c, q, self.v), self.x.dtype)
            if live >= 0:
                m, new, old = k.level(live, new, acc)
                new = k.b.select(m, new, old)
            acc = k.b.splat(new, k.b.types[zero].width)
        return acc

    def total(self, p: dict[str, int], acc: int, init: int | None) -> int:
        """The value of an accumulator at a point; the lanes of a vector along the label itself are added up."""
        k = self.k
        if self.inner:
            (acc,) = folded(k, (acc,), lambda s, t: (k.b.bin("add", s[0], t[0]),))
        if init is None:
            return acc
        start, acc = k.level(k.read(init, p, self.shape.vector), acc)
        return k.b.bin("add", start, acc)


class ContractFragment:
    """A contraction over a label that one fragment covers."""

    declaration = Declaration(
        "contract_fragment", "contraction of fragments", ("ConWhole", "ConAccWhole"), "products rounded or exact, any tree"
    )

    def applies(self, o: Operation) -> bool:
        return True

    def expand(self, k: Context, x: Let) -> None:
        f = _Products(k, x, x.attrs[-1])
        init = x.args[2] if x.op == "ConAccWhole" else None
        if init is not None and not f.inner:  # the accumulator starts at the operand
            k.make(x.id, lambda p, _: f.add(p, k.b.splat(k.read(init, p, f.shape.vector), f.width)))
            return
        k.make(x.id, lambda p, _: f.total(p, f.add(p, f.zero()), init))


class ContractLoop:
    """A contraction along a loop."""

    declaration = Declaration("contract_loop", "contraction along a loop", ("ConLoop", "ConAccLoop"), "products rounded or exact, any tree")

    def applies(self, o: Operation) -> bool:
        return True

    def start(self, k: Context, x: Carry, loop: Loop) -> tuple[int, ...]:
        f = _Products(k, x, loop.label)
        init = x.inits[0] if x.inits else None
        return tuple(
            k.b.var(f.zero() if init is None or f.inner else k.b.splat(k.read(init, p, f.shape.vector), f.width)) for p in f.shape.points()
        )

    def step(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        f = _Products(k, x, loop.label)
        new = [f.add(p, k.b.get(s)) for p, s in zip(f.shape.points(), state, strict=True)]
        for s, value in zip(state, new, strict=True):
            k.b.set(s, value)

    def finish(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        f = _Products(k, x, loop.label)
        init = x.inits[0] if x.inits and f.inner else None
        out = Fragment(f.shape)
        for p, s in zip(f.shape.points(), state, strict=True):
            out.parts[f.shape.key(p)] = f.total(p, k.b.get(s), init)
        k.values[x.id] = out


class ContractPanels(ContractLoop):
    """The same from panels: the operand that runs along the vectors is wanted block by block, so that a step of the loop reads what lies
    behind what the step before read."""

    declaration = Declaration(
        "contract_panels", "contraction along a loop", ("ConLoop", "ConAccLoop"), "products rounded or exact, any tree",
        forms=(("panels", PLAIN), (PLAIN, "panels")),
    )  # fmt: skip

    def applies(self, o: Operation) -> bool:
        return True


ALL = (ContractFragment(), ContractLoop(), ContractPanels())
