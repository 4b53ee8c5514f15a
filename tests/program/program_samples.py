"""Hand-written programs: an elementwise kernel, row softmax and a matrix product, in P0 form, fragment form and legal form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from eqkir.base.dtypes import FLOATS
from eqkir.base.expr import Coord, Dep, Expr, Sym, conj, le, lift, lt
from eqkir.program.abi import Abi, Axis, ScalarParam, SymbolParam, ViewParam
from eqkir.program.model import Carry, Item, Let, Loop, Order, Program, Region, Segment, Store


@dataclass
class Block:
    """Appends items; `Block.loop` opens a nested one."""

    items: list[Item] = field(default_factory=list)
    counter: list[int] = field(default_factory=lambda: [0])

    def new(self) -> int:
        self.counter[0] += 1
        return self.counter[0] - 1

    def let(self, op: str, attrs: tuple[Any, ...] = (), args: tuple[int, ...] = (), dims: tuple[str, ...] = (), dtype: str = "f32") -> int:
        i = self.new()
        self.items.append(Let(i, op, attrs, args, dims, dtype))
        return i

    def const(self, text: str, dtype: str = "f32") -> int:
        return self.let("Const", (text,), dtype=dtype)

    def true(self) -> int:
        return self.const("true", "bool")

    def load(self, view: str, ixs: tuple[Any, ...], dims: tuple[str, ...], dtype: str = "f32", version: int = 0) -> int:
        zero = self.const("0.0" if dtype in FLOATS else "0", dtype)
        return self.let("Load", (view, version, exprs(ixs), "ptr"), (self.true(), zero), dims, dtype)

    def bin(self, fn: str, a: int, b: int, dims: tuple[str, ...], dtype: str = "f32") -> int:
        return self.let("Bin", (fn,), (a, b), dims, dtype)

    def un(self, fn: str, a: int, dims: tuple[str, ...], dtype: str = "f32") -> int:
        return self.let("Un", (fn,), (a,), dims, dtype)

    def store(self, view: str, ixs: tuple[Any, ...], value: int, dims: tuple[str, ...], version: int = 1) -> None:
        self.items.append(Store(view, version, exprs(ixs), value, self.true(), (), dims))

    def body(self) -> Block:
        return Block(counter=self.counter)

    def loop(self, label: str, body: Block, carries: tuple[Carry, ...] = (), stage: int = 0) -> None:
        self.items.append(Loop(label.split(":")[0], label, stage, carries, tuple(body.items)))


def exprs(ixs: tuple[Any, ...]) -> tuple[Expr, ...]:
    return tuple(Coord(i) if isinstance(i, str) else lift(i) for i in ixs)


def abi(kernel: str, *views: tuple[Any, ...], scalars: tuple[tuple[str, str], ...] = (), symbols: str = "") -> Abi:
    vs = tuple(ViewParam(n, role, dtype, tuple(lift(e) for e in shape), k) for k, (n, role, dtype, shape) in enumerate(views))
    names = symbols.split() or sorted({str(e) for _, _, _, shape in views for e in shape if isinstance(e, str)})
    return Abi(kernel, vs, tuple(ScalarParam(*s) for s in scalars), tuple(SymbolParam(n) for n in names))


def elementwise(order: Order = ("TAx", "i:O1"), mode: str = "grid", dtype: str = "f32", **bindings: int) -> Program:
    """y[i] = (x[i] + s) * 2"""
    label = "i:OB" if "i:OB" in str(order) else "i:O1"
    b, d = Block(), (label,)
    s = b.let("Scalar", ("s",), dtype=dtype)
    v = b.bin("mul", b.bin("add", b.load("x", ("i",), d, dtype), s, d, dtype), b.const("2.0", dtype), d, dtype)
    b.store("y", ("i",), v, d)
    a = abi("elementwise", ("x", "in", dtype, ("N",)), ("y", "out", dtype, ("N",)), scalars=(("s", dtype),))
    return Program(a, (Axis("i", Sym("N"), "own"),), (Segment("g0", order, mode, (tuple(b.items),)),), bindings)


def softmax(form: str = "L1", row: str = "O1", mode: str = "tree", **bindings: int) -> Program:
    """Row softmax of x[M, N]; `form`: L1 | LC (three loops, carries in `mode`) | W (one fragment)."""
    r, c = f"r:{row}", f"c:{form}"
    top = Block()
    if form == "W":
        x = top.load("x", ("r", "c"), (r, c))
        m = top.let("RedTree", ("max", c), (x,), (r,))
        e = top.un("exp", top.bin("sub", x, m, (r, c)), (r, c))
        s = top.let("RedTree", ("sum", c), (e,), (r,))
        top.store("y", ("r", "c"), top.bin("div", e, s, (r, c)), (r, c))
    else:
        b = top.body()
        m = top.new()
        top.loop(c, b, (Carry(m, "RedLoop", ("max", mode), (b.load("x", ("r", "c"), (r, c)),), (), (r,), "f32"),), 0)
        b = top.body()
        e = b.un("exp", b.bin("sub", b.load("x", ("r", "c"), (r, c)), m, (r, c)), (r, c))
        s = top.new()
        top.loop(c, b, (Carry(s, "RedLoop", ("sum", mode), (e,), (), (r,), "f32"),), 1)
        b = top.body()
        e = b.un("exp", b.bin("sub", b.load("x", ("r", "c"), (r, c)), m, (r, c)), (r, c))
        b.store("y", ("r", "c"), b.bin("div", e, s, (r, c)), (r, c))
        top.loop(c, b, (), 2)
    a = abi("softmax", ("x", "in", "f32", ("M", "N")), ("y", "out", "f32", ("M", "N")))
    axes = (Axis("r", Sym("M"), "own"), Axis("c", Sym("N"), "loop"))
    return Program(a, axes, (Segment("g0", ("TAx", r), "grid", (tuple(top.items),)),), bindings)


def gemm(own: str = "O1", k: str = "L1", order: Order | None = None, impl: str = "", dtype: str = "f32", **bindings: int) -> Program:
    """c[M, N] = a[M, K] @ b[K, N], on the matrix unit where all is in fragments and nothing else is asked for."""
    impl = impl or ("fma" if own == "O1" or k == "L1" else "mma")
    i, j, k = f"i:{own}", f"j:{own}", f"k:{k}"
    top = Block()
    b = top.body()
    carry_args = (b.load("a", ("i", "k"), (i, k), dtype), b.load("b", ("k", "j"), (k, j), dtype))
    acc = top.new()
    if k.endswith("W"):
        top.items += b.items
        top.items.append(Let(acc, "ConWhole", (impl, k), carry_args, (i, j), "f32"))
    else:
        top.loop(k, b, (Carry(acc, "ConLoop", (impl,), carry_args, (), (i, j), "f32"),))
    top.store("c", ("i", "j"), top.let("Cast", (dtype,), (acc,), (i, j), dtype) if dtype != "f32" else acc, (i, j))
    a = abi("gemm", ("a", "in", dtype, ("M", "K")), ("b", "in", dtype, ("K", "N")), ("c", "out", dtype, ("M", "N")))
    axes = (Axis("i", Sym("M"), "own"), Axis("j", Sym("N"), "own"), Axis("k", Sym("K"), "loop"))
    t = order or ("TProd", ("TAx", i), ("TAx", j))
    return Program(a, axes, (Segment("g0", t, "grid", (tuple(top.items),)),), {**bindings})


def argmax(form: str, mode: str = "tree", **bindings: int) -> Program:
    """Row argmax: the largest value, ties to the lowest index, NaN wins."""
    c = f"c:{form}"

    def r(i: int, op: str, attrs: tuple[Any, ...], args: tuple[int, ...], dtype: str) -> Let:
        return Let(i, op, attrs, args, (), dtype)

    body = (
        r(0, "Arg", ("l", 0), (), "f32"), r(1, "Arg", ("l", 1), (), "i64"), r(2, "Arg", ("r", 0), (), "f32"),
        r(3, "Arg", ("r", 1), (), "i64"),
        r(4, "Bin", ("gt",), (0, 2), "bool"), r(5, "Un", ("isnan",), (0,), "bool"), r(6, "Un", ("isnan",), (2,), "bool"),
        r(7, "Un", ("not",), (6,), "bool"), r(8, "Bin", ("and",), (5, 7), "bool"), r(9, "Bin", ("or",), (4, 8), "bool"),
        r(10, "Bin", ("eq",), (0, 2), "bool"), r(11, "Bin", ("and",), (5, 6), "bool"), r(12, "Bin", ("or",), (10, 11), "bool"),
        r(13, "Bin", ("lt",), (1, 3), "bool"), r(14, "Bin", ("and",), (12, 13), "bool"), r(15, "Bin", ("or",), (9, 14), "bool"),
        r(16, "Tri", ("select",), (15, 0, 2), "f32"), r(17, "Tri", ("select",), (15, 1, 3), "i64"),
    )  # fmt: skip
    region = Region(("f32", "i64"), body, (16, 17))
    top = Block()
    i0, i1 = top.const("-inf"), top.const(str(2**63 - 1), "i64")
    b = top.body()
    x = b.load("x", ("r", "c"), ("r:O1", c))
    k = b.let("Cast", ("i64",), (b.let("Index", (Coord("c"),), (), (c,), "index"),), (c,), "i64")
    t = top.new()
    if form == "W":
        top.items += [*b.items, Let(t, "RedNTree", (c, region), (i0, i1, x, k), ("r:O1",), "tuple")]
    else:
        top.items.append(Loop("c", c, 0, (Carry(t, "RedNLoop", (mode, region), (x, k), (i0, i1), ("r:O1",), "tuple"),), tuple(b.items)))
    top.store("y", ("r",), top.let("Pick", (1,), (t,), ("r:O1",), "i64"), ("r:O1",))
    a = abi("argmax", ("x", "in", "f32", ("M", "N")), ("y", "out", "i64", ("M",)))
    axes = (Axis("r", Sym("M"), "own"), Axis("c", Sym("N"), "loop"))
    return Program(a, axes, (Segment("g0", ("TAx", "r:O1"), "grid", (tuple(top.items),)),), bindings)


def histogram(label: str = "i:O1", dtype: str = "i32", **bindings: int) -> Program:
    """h[x[i]] += 1 where 0 <= x[i] < H"""
    b, d = Block(), (label,)
    x = b.load("x", ("i",), d, "i32")
    ok = b.let("Index", (conj(le(0, Dep(0)), lt(Dep(0), Sym("H"))),), (x,), d, "bool")
    one = b.const("1" if dtype == "i32" else "1.0", dtype)
    b.items.append(Store("h", 1, (Dep(0),), one, ok, (x,), d, mode="add", order="relaxed"))
    a = abi("histogram", ("x", "in", "i32", ("N",)), ("h", "inout", dtype, ("H",)))
    return Program(a, (Axis("i", Sym("N"), "own"),), (Segment("g0", ("TAx", label), "grid", (tuple(b.items),)),), bindings)


def with_items(p: Program, items: tuple[Item, ...], *axes: Axis) -> Program:
    """The program with one phase of these items in its first segment (and more axes)."""
    return replace(p, axes=(*p.axes, *axes), segments=(replace(p.segments[0], phases=(items,)), *p.segments[1:]))


def masked_total(lanes: bool = False, dot: bool = False) -> Program:
    """Legal programs with padded lanes: y[0] = sum of x[N] in one fragment or with an accumulator per lane; or c = a @ b by `Dot`."""
    b = Block()
    zero = b.const("0.0")
    if dot:
        m, k, n = "i:OB", "k:W", "j:OB"
        act = {d: b.let("Active", (d,), (), (d,), "bool") for d in (m, k, n)}
        tiles = []
        for name, d in (("a", (m, k)), ("b", (k, n))):
            mask = b.bin("and", act[d[0]], act[d[1]], d, "bool")
            tiles.append(b.let("LoadM", (name, 0, exprs((d[0][0], d[1][0])), "ptr"), (mask, zero), d))
        acc = b.let("Splat", (), (zero,), (m, n))
        c = b.let("Dot", (k,), (*tiles, acc), (m, n))
        mask = b.bin("and", act[m], act[n], (m, n), "bool")
        b.items.append(Store("c", 1, exprs(("i", "j")), c, mask, (), (m, n), True))
        bindings = {"B:i": 16, "B:j": 16, "F:k": 32}
        return replace(gemm("OB", "W", **bindings), stage="legal", preconditions=(le(Sym("K"), 32),), segments=(
            Segment("g0", ("TProd", ("TAx", m), ("TAx", n)), "grid", (tuple(b.items),)),))  # fmt: skip
    label = "c:LC" if lanes else "c:W"
    body = b.body() if lanes else b
    start = b.let("Splat", (), (zero,), (label,)) if lanes else 0
    act = body.let("Active", (label,), (), (label,), "bool")
    x = body.let("LoadM", ("x", 0, exprs(("c",)), "ptr"), (act, zero), (label,))
    if lanes:
        acc = b.new()
        step = body.bin("add", acc, x, (label,))
        b.loop(label, body, (Carry(acc, "Phi", (), (step,), (start,), (label,), "f32"),))
        x = acc
    total = b.let("FragRed", ("sum", label), (x,), ())
    b.items.append(Store("y", 1, exprs((0,)), total, b.true(), (), (), True))
    a = abi("total", ("x", "in", "f32", ("N",)), ("y", "out", "f32", (1,)))
    pre = () if lanes else (le(Sym("N"), 16),)
    bindings = {"C:c": 4} if lanes else {"F:c": 16}
    return Program(a, (Axis("c", Sym("N"), "loop"),), (Segment("g0", ("TUnit",), "grid", (tuple(b.items),)),), bindings, {}, pre, "legal")
