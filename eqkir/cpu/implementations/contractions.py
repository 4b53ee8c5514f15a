"""Contractions as outer products: the tile of results lives in registers, and each step of the reduced axis adds one product to every
element of it. Along the reduced label itself vectors run only where it is the best one (dot products)."""

from __future__ import annotations

from eqkir.cpu.context import Context
from eqkir.cpu.fragments import Fragment, Shape
from eqkir.cpu.implementations.declaration import PLAIN, Declaration, Operation, Parameter
from eqkir.cpu.implementations.reductions import folded, halved, operand_vector
from eqkir.cpu.model import Type
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

    @property
    def members(self) -> range:
        """First lanes of what one step adds: members, or vectors of them."""
        n = self.k.program.lanes(self.label) if parameter(self.label) else 1
        return range(0, n, self.k.width(self.label) if self.inner else 1)

    def add(self, p: dict[str, int], acc: int, first: int = 0, of: int = 1) -> int:
        """The accumulator at a point with the products of all present members; of those at `first`, `first` + `of`, … alone."""
        k, label = self.k, self.label
        a, c = self.x.args[:2]
        zero = self.zero()
        for at in self.members[first::of]:
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


#: accumulators of one element, among which the members of a step are dealt out
REPLICAS = Parameter("replicas", (1, 2, 4))


#: members of the loop that all tiles of an instance take before any takes the next ones (0: the loop is not cut), and tiles along each of
#: the instance's sides (`eqkir.cpu.blocking`)
DEPTH, TILES = Parameter("depth", (0, 256, 512, 1024)), Parameter("tiles", (8, 1, 2, 4, 16))


class ContractLoop:
    """A contraction along a loop. ``replicas``: accumulators of an element, so that one step need not wait for itself."""

    declaration = Declaration(
        "contract_loop", "contraction along a loop", ("ConLoop", "ConAccLoop"), "products rounded or exact, any tree",
        parameters=(REPLICAS,),
    )  # fmt: skip

    def applies(self, o: Operation) -> bool:
        return True

    def start(self, k: Context, x: Carry, loop: Loop) -> tuple[int, ...]:
        f = _Products(k, x, loop.label)
        init = x.inits[0] if x.inits and not f.inner else None
        return tuple(
            k.b.var(f.zero() if init is None or r else k.b.splat(k.read(init, p, f.shape.vector), f.width))
            for p in f.shape.points()
            for r in range(self._replicas(k, f))
        )

    def _replicas(self, k: Context, f: _Products) -> int:
        return min(k.local(self.declaration.parameter("replicas"), REPLICAS.domain[0]), len(f.members))

    def step(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        f = _Products(k, x, loop.label)
        n = self._replicas(k, f)
        points = ((p, r) for p in f.shape.points() for r in range(n))
        new = [f.add(p, k.b.get(s), r, n) for (p, r), s in zip(points, state, strict=True)]
        for s, value in zip(state, new, strict=True):
            k.b.set(s, value)

    def finish(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        f = _Products(k, x, loop.label)
        init = x.inits[0] if x.inits and f.inner else None
        out = Fragment(f.shape)
        n = self._replicas(k, f)
        for at, p in enumerate(f.shape.points()):
            (acc,) = halved([(k.b.get(s),) for s in state[at * n : at * n + n]], lambda s, t: (k.b.bin("add", s[0], t[0]),))
            out.parts[f.shape.key(p)] = f.total(p, acc, init)
        k.values[x.id] = out


class ContractPanels(ContractLoop):
    """The same from panels: the operand that runs along the vectors is wanted block by block, so that a step of the loop reads what lies
    behind what the step before read."""

    declaration = Declaration(
        "contract_panels", "contraction along a loop", ("ConLoop", "ConAccLoop"), "products rounded or exact, any tree",
        forms=(("panels", PLAIN), (PLAIN, "panels")), parameters=(REPLICAS, DEPTH, TILES), version=2,
    )  # fmt: skip

    def applies(self, o: Operation) -> bool:
        return True


class ContractDot4:
    """Products of bytes, four at a time (VNNI). The instruction takes an unsigned left operand: 128 is added to each byte of it, and what
    that adds to the result, 128 times the sum of the right operand's bytes, is counted beside and taken off at the end. All of it modulo
    2^32, as i32 is added up."""

    declaration = Declaration(
        "contract_dot4", "contraction along a loop", ("ConLoop", "ConAccLoop"), "exact", forms=(("words", "quads"), ("quads", "words")),
        features=("avx512_vnni",), slots=0.28,
    )  # fmt: skip

    #: 128 in every byte
    OFFSET = -0x7F7F7F80

    def applies(self, o: Operation) -> bool:
        return o.dtype == "i32" and o.operands == ("i8", "i8") and o.chunk > 0 and o.chunk % 4 == 0

    def _operands(self, k: Context, x: Carry) -> tuple[Let, Let]:
        """The supplies of words and of quads."""
        a, b = (k.layout.supply(i) for i in x.args[:2])
        assert a is not None and b is not None
        return (a, b) if a.attrs[0] == "words" else (b, a)

    def _shape(self, k: Context, x: Carry) -> Shape:
        return k.layout.shaped(k.layout.dims[x.id], str(self._operands(k, x)[1].attrs[1]))

    def start(self, k: Context, x: Carry, loop: Loop) -> tuple[int, ...]:
        """One accumulator an element, then one for the offsets of each vector of the right operand."""
        shape = self._shape(k, x)
        zero = k.b.splat(k.b.const(0, "i32"), shape.width)
        starts = [k.b.splat(k.read(x.inits[0], p, shape.vector), shape.width) if x.inits else zero for p in shape.points()]
        return tuple(k.b.var(s) for s in (*starts, *(zero for _ in self._vectors(shape))))

    @staticmethod
    def _vectors(shape: Shape) -> list[int]:
        return sorted({p[shape.vector] for p in shape.points()})

    def step(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        (words, quads), shape, b = self._operands(k, x), self._shape(k, x), k.b
        points, vectors, t = list(shape.points()), self._vectors(shape), Type("i32", shape.width)
        offset = b.const(self.OFFSET, "i32")
        now = [b.get(s) for s in state]
        for at in range(0, k.program.lanes(loop.label), 4):
            right = {v: k.supplied[quads.id]({shape.vector: v, loop.label: at}) for v in vectors}
            for n, v in enumerate(vectors, len(points)):
                now[n] = b.op("Dot4", (), (now[n], b.splat(offset, shape.width), right[v]), t)
            left: dict[tuple[int, ...], int] = {}
            for n, p in enumerate(points):
                key = tuple(c for d, c in sorted(p.items()) if d != shape.vector)
                if key not in left:
                    word = k.supplied[words.id]({**p, loop.label: at})
                    left[key] = b.splat(b.bin("xor", word, offset), shape.width)
                now[n] = b.op("Dot4", (), (now[n], left[key], right[p[shape.vector]]), t)
        for s, value in zip(state, now, strict=True):
            b.set(s, value)

    def finish(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        shape, b = self._shape(k, x), k.b
        points, vectors = list(shape.points()), self._vectors(shape)
        extra = {v: b.get(s) for v, s in zip(vectors, state[len(points) :], strict=True)}
        parts = {shape.key(p): b.bin("sub", b.get(s), extra[p[shape.vector]]) for p, s in zip(points, state, strict=False)}
        k.values[x.id] = Fragment(shape, parts)


ALL = (ContractFragment(), ContractLoop(), ContractPanels(), ContractDot4())
