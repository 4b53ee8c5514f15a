"""Hand-written structured programs in P0 form and fragment forms; what the provider must express."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from eqkir.base.expr import Coord, Expr, Sym, le, lift
from eqkir.program.abi import Abi, Axis, ScalarParam, SymbolParam, ViewParam
from eqkir.program.model import Carry, Item, Let, Loop, Order, Program, Region, Segment, Store


@dataclass
class Block:
    """Appends items; `loop` closes a nested block."""

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

    def load(self, view: str, ixs: tuple[Any, ...], dims: tuple[str, ...], dtype: str = "f32", version: int = 0, valid: int | None = None,
             fill: str | None = None, deps: tuple[int, ...] = ()) -> int:  # fmt: skip
        zero = fill or ("0.0" if dtype[0] in "fb" and dtype != "bool" else "false" if dtype == "bool" else "0")
        args = (self.true() if valid is None else valid, self.const(zero, dtype), *deps)
        return self.let("Load", (view, version, exprs(ixs), "ptr"), args, dims, dtype)

    def bin(self, fn: str, a: int, b: int, dims: tuple[str, ...], dtype: str = "f32") -> int:
        return self.let("Bin", (fn,), (a, b), dims, dtype)

    def un(self, fn: str, a: int, dims: tuple[str, ...], dtype: str = "f32") -> int:
        return self.let("Un", (fn,), (a,), dims, dtype)

    def cast(self, a: int, dims: tuple[str, ...], dtype: str) -> int:
        return self.let("Cast", (dtype,), (a,), dims, dtype)

    def store(self, view: str, ixs: tuple[Any, ...], value: int, dims: tuple[str, ...], version: int = 1, valid: int | None = None) -> None:
        self.items.append(Store(view, version, exprs(ixs), value, self.true() if valid is None else valid, (), dims))

    def body(self) -> Block:
        return Block(counter=self.counter)

    def loop(self, label: str, body: Block, carries: tuple[Carry, ...] = (), stage: int = 0) -> None:
        self.items.append(Loop(label.split(":")[0], label, stage, carries, tuple(body.items)))


def exprs(ixs: tuple[Any, ...]) -> tuple[Expr, ...]:
    return tuple(Coord(i) if isinstance(i, str) else lift(i) for i in ixs)


def abi(kernel: str, *views: tuple[Any, ...], scalars: tuple[tuple[str, str], ...] = (), noalias: bool = True) -> Abi:
    vs = tuple(
        ViewParam(n, role, dtype, tuple(lift(e) for e in shape), k if noalias else 0) for k, (n, role, dtype, shape) in enumerate(views)
    )
    names = sorted({e for _, _, _, shape in views for e in shape if isinstance(e, str)})
    groups = (tuple(v.name for v in vs),) if noalias and len(vs) > 1 else ()
    return Abi(kernel, vs, tuple(ScalarParam(*s) for s in scalars), tuple(SymbolParam(n) for n in names), groups)


def program(
    a: Abi, axes: str, order: Order, *phases: Block, mode: str = "grid", options: dict[str, int] | None = None, **bindings: int
) -> Program:
    """`axes`: ``"i=N/own c=K/loop"``; bindings by letter and axis, ``B_i=4``."""
    ax = tuple(
        Axis(n, Sym(e) if not e.isdigit() else lift(int(e)), k) for n, e, k in (x.replace("/", "=").split("=") for x in axes.split())
    )
    bound = {k.replace("_", ":", 1): v for k, v in bindings.items()}
    pre = tuple(le(x.extent, v) for x in ax for k, v in bound.items() if k == f"F:{x.name}")
    return Program(a, ax, (Segment("g0", order, mode, tuple(tuple(b.items) for b in phases)),), bound, dict(options or {}), pre)


def row_order(*labels: str) -> Order:
    out: Order = ("TAx", labels[-1])
    for x in reversed(labels[:-1]):
        out = ("TProd", ("TAx", x), out)
    return out


def elementwise(order: Order = ("TAx", "i:O1"), mode: str = "grid", dtype: str = "f32", noalias: bool = True, **bindings: int) -> Program:
    """y[i] = (x[i] + s) * 2"""
    label = "i:OB" if "i:OB" in str(order) else "i:O1"
    b, d = Block(), (label,)
    s = b.let("Scalar", ("s",), dtype=dtype)
    v = b.bin("mul", b.bin("add", b.load("x", ("i",), d, dtype), s, d, dtype), b.const("2.0", dtype), d, dtype)
    b.store("y", ("i",), v, d)
    a = abi("elementwise", ("x", "in", dtype, ("N",)), ("y", "out", dtype, ("N",)), scalars=(("s", dtype),), noalias=noalias)
    return program(a, "i=N/own", order, b, mode=mode, **bindings)


def unary(fn: str, dtype: str, lanes: int = 128, out: str | None = None) -> Program:
    """y[i] = fn(x[i])"""
    b, d = Block(), ("i:OB",)
    out = out or ("bool" if fn in ("isnan", "isinf", "isfinite") else dtype)
    b.store("y", ("i",), b.let("Un", (fn,), (b.load("x", ("i",), d, dtype),), d, out), d)
    return program(abi(f"{fn}_{dtype}", ("x", "in", dtype, ("N",)), ("y", "out", out, ("N",))), "i=N/own", ("TAx", "i:OB"), b, B_i=lanes)


def binary(fn: str, dtype: str, lanes: int = 128) -> Program:
    """z[i] = fn(x[i], y[i])"""
    b, d = Block(), ("i:OB",)
    out = "bool" if fn in ("eq", "ne", "lt", "le", "gt", "ge") else dtype
    v = b.let("Bin", (fn,), (b.load("x", ("i",), d, dtype), b.load("y", ("i",), d, dtype)), d, out)
    b.store("z", ("i",), v, d)
    a = abi(f"{fn}_{dtype}", ("x", "in", dtype, ("N",)), ("y", "in", dtype, ("N",)), ("z", "out", out, ("N",)))
    return program(a, "i=N/own", ("TAx", "i:OB"), b, B_i=lanes)


def casting(src: str, dst: str, lanes: int = 128, bits: bool = False) -> Program:
    """y[i] = x[i] as another dtype"""
    b, d = Block(), ("i:OB",)
    v = b.let("Bitcast" if bits else "Cast", (dst,), (b.load("x", ("i",), d, src),), d, dst)
    b.store("y", ("i",), v, d)
    a = abi(f"{src}_to_{dst}", ("x", "in", src, ("N",)), ("y", "out", dst, ("N",)))
    return program(a, "i=N/own", ("TAx", "i:OB"), b, B_i=lanes)


def softmax(form: str = "L1", row: str = "O1", mode: str = "tree", dtype: str = "f32", noalias: bool = True, **bindings: int) -> Program:
    """Row softmax of x[M, N]; `form`: L1 | LC (three loops, carries in `mode`) | W (one fragment)."""
    r, c = f"r:{row}", f"c:{form}"
    top = Block()

    def load(b: Block) -> int:
        x = b.load("x", ("r", "c"), (r, c), dtype)
        return x if dtype == "f32" else b.cast(x, (r, c), "f32")

    def store(b: Block, e: int, s: int) -> None:
        y = b.bin("div", e, s, (r, c))
        b.store("y", ("r", "c"), y if dtype == "f32" else b.cast(y, (r, c), dtype), (r, c))

    if form == "W":
        x = load(top)
        m = top.let("RedTree", ("max", c), (x,), (r,))
        e = top.un("exp", top.bin("sub", x, m, (r, c)), (r, c))
        store(top, e, top.let("RedTree", ("sum", c), (e,), (r,)))
    else:
        b = top.body()
        m = top.new()
        top.loop(c, b, (Carry(m, "RedLoop", ("max", mode), (load(b),), (), (r,), "f32"),), 0)
        b = top.body()
        e = b.un("exp", b.bin("sub", load(b), m, (r, c)), (r, c))
        s = top.new()
        top.loop(c, b, (Carry(s, "RedLoop", ("sum", mode), (e,), (), (r,), "f32"),), 1)
        b = top.body()
        store(b, b.un("exp", b.bin("sub", load(b), m, (r, c)), (r, c)), s)
        top.loop(c, b, (), 2)
    a = abi("softmax", ("x", "in", dtype, ("M", "N")), ("y", "out", dtype, ("M", "N")), noalias=noalias)
    return program(a, "r=M/own c=N/loop", ("TAx", r), top, **bindings)


def gemm(
    own: str = "OB",
    k: str = "LC",
    order: Order | None = None,
    impl: str = "mma",
    dtype: str = "f32",
    acc: str = "f32",
    bias: bool = False,
    options: dict[str, int] | None = None,
    nt: bool = False,
    **bindings: int,
) -> Program:
    """c[M, N] = a[M, K] @ b[K, N] (nt: b[N, K]) (+ bias[N], relu)"""
    i, j, k = f"i:{own}", f"j:{own}", f"k:{k}"
    top = Block()
    b = top.body()
    args = (b.load("a", ("i", "k"), (i, k), dtype), b.load("b", ("j", "k") if nt else ("k", "j"), (k, j), dtype))
    v = top.new()
    if k.endswith("W"):
        top.items += b.items
        top.items.append(Let(v, "ConWhole", (impl, k), args, (i, j), acc))
    else:
        top.loop(k, b, (Carry(v, "ConLoop", (impl,), args, (), (i, j), acc),))
    if bias:
        v = top.bin("add", v, top.cast(top.load("bias", ("j",), (j,), dtype), (j,), acc), (i, j), acc)
        v = top.bin("maximum", v, top.const("0.0", acc), (i, j), acc)
    out = acc if acc == "i32" else dtype
    top.store("c", ("i", "j"), top.cast(v, (i, j), out) if out != acc else v, (i, j))
    views = [("a", "in", dtype, ("M", "K")), ("b", "in", dtype, ("N", "K") if nt else ("K", "N"))]
    a = abi("gemm", *views, *([("bias", "in", dtype, ("N",))] if bias else []), ("c", "out", out, ("M", "N")))
    return program(a, "i=M/own j=N/own k=K/loop", order or row_order(i, j), top, options=options, **bindings)


def batched(dtype: str = "f16", **bindings: int) -> Program:
    """c[B, M, N] = a[B, M, K] @ b[B, K, N], a fragment over the batch too"""
    h, i, j, k = "h:OB", "i:OB", "j:OB", "k:LC"
    top = Block()
    b = top.body()
    args = (b.load("a", ("h", "i", "k"), (h, i, k), dtype), b.load("b", ("h", "k", "j"), (h, k, j), dtype))
    v = top.new()
    top.loop(k, b, (Carry(v, "ConLoop", ("mma",), args, (), (h, i, j), "f32"),))
    top.store("c", ("h", "i", "j"), v, (h, i, j))
    a = abi("batched", ("a", "in", dtype, ("H", "M", "K")), ("b", "in", dtype, ("H", "K", "N")), ("c", "out", "f32", ("H", "M", "N")))
    return program(a, "h=H/own i=M/own j=N/own k=K/loop", row_order(h, i, j), top, **bindings)


def argmax_region(index: str = "i32") -> Region:
    """(value, index): larger value, NaN first, lowest index on ties."""
    b = Block()
    lv, li, rv, ri = (b.let("Arg", (s, n), (), (), "f32" if n == 0 else index) for s in "lr" for n in (0, 1))
    ln, rn = b.un("isnan", lv, (), "bool"), b.un("isnan", rv, (), "bool")
    gt = b.let("Bin", ("gt",), (lv, rv), (), "bool")
    eq = b.let("Bin", ("eq",), (lv, rv), (), "bool")
    lower = b.let("Bin", ("lt",), (li, ri), (), "bool")
    both = b.let("Bin", ("or",), (b.let("Bin", ("and",), (ln, rn), (), "bool"), eq), (), "bool")
    only = b.let("Bin", ("and",), (ln, b.un("not", rn, (), "bool")), (), "bool")
    first = b.let(
        "Bin", ("or",), (b.let("Bin", ("or",), (only, gt), (), "bool"), b.let("Bin", ("and",), (both, lower), (), "bool")), (), "bool"
    )
    v = b.let("Tri", ("select",), (first, lv, rv), (), "f32")
    i = b.let("Tri", ("select",), (first, li, ri), (), index)
    return Region(("f32", index), tuple(x for x in b.items if isinstance(x, Let)), (v, i))


def argmax(form: str = "W", mode: str = "tree", row: str = "O1", index: str = "i32", **bindings: int) -> Program:
    """Value and index of the greatest element of each row."""
    r, c = f"r:{row}", f"c:{form}"
    top = Block()
    inits = (top.const("-inf"), top.const(str(2**31 - 1 if index == "i32" else 2**63 - 1), index))
    b = top if form == "W" else top.body()
    x = b.load("x", ("r", "c"), (r, c))
    i = b.let("Index", (Coord("c"),), (), (c,), "index")
    i = b.cast(i, (c,), "i32") if index == "i32" else i
    if form == "W":
        t = top.let("RedNTree", (c, argmax_region(index)), (*inits, x, i), (r,), "tuple")
    else:
        t = top.new()
        top.loop(c, b, (Carry(t, "RedNLoop", (mode, argmax_region(index)), (x, i), inits, (r,), "tuple"),))
    top.store("v", ("r",), top.let("Pick", (0,), (t,), (r,)), (r,))
    p = top.let("Pick", (1,), (t,), (r,), index)
    top.store("p", ("r",), p, (r,))
    views = [("x", "in", "f32", ("M", "N")), ("v", "out", "f32", ("M",)), ("p", "out", index, ("M",))]
    if index == "index":  # arithmetic, a mixed comparison and a cast on what may be the identity
        one = top.const("1", "index")
        far = top.bin("lt", p, top.const(str(2**40), "index"), (r,), "bool")
        q = top.let(
            "Tri", ("select",), (far, top.bin("add", p, one, (r,), "index"), top.bin("minimum", p, one, (r,), "index")), (r,), "index"
        )
        top.store("q", ("r",), q, (r,))
        top.store("f", ("r",), top.cast(p, (r,), "f32"), (r,))
        views += [("q", "out", "index", ("M",)), ("f", "out", "f32", ("M",))]
    a = abi("argmax", *views)
    return program(a, "r=M/own c=N/loop", ("TAx", r), top, **bindings)


def two_segments(label: str = "OB", mode: str = "grid", **bindings: int) -> Program:
    """y[i] = x[i] * 2 and, independently, w[j, k] = u[k, j] + 1"""
    i, j, k = f"i:{label}", f"j:{label}", f"k:{label}"
    b = Block()
    b.store("y", ("i",), b.bin("mul", b.load("x", ("i",), (i,)), b.const("2.0"), (i,)), (i,))
    c = Block()
    c.store("w", ("j", "k"), c.bin("add", c.load("u", ("k", "j"), (k, j)), c.const("1.0"), (j, k)), (j, k))
    a = abi("two", ("x", "in", "f32", ("N",)), ("y", "out", "f32", ("N",)), ("u", "in", "f32", ("P", "Q")), ("w", "out", "f32", ("Q", "P")))
    axes = (Axis("i", Sym("N"), "own"), Axis("j", Sym("Q"), "own"), Axis("k", Sym("P"), "own"))
    s0 = Segment("g0", ("TAx", i), mode, (tuple(b.items),))
    s1 = Segment("g1", ("TProd", ("TRev", ("TAx", j)), ("TInter", ("TAx", k))), mode, (tuple(c.items),))
    return Program(a, axes, (s0, s1), {x.replace("_", ":", 1): v for x, v in bindings.items()})


def two_phases(**bindings: int) -> Program:
    """t[r, c] = x[r, c] + 1 in one phase; y[r, c] = t[r, n - 1 - c] * 2 after it."""
    r, c = "r:O1", "c:W"
    p = Block()
    p.store("t", ("r", "c"), p.bin("add", p.load("x", ("r", "c"), (r, c)), p.const("1.0"), (r, c)), (r, c))
    q = Block()
    v = q.load("t", ("r", Sym("N") - 1 - Coord("c")), (r, c), version=1)
    q.store("y", ("r", "c"), q.bin("mul", v, q.const("2.0"), (r, c)), (r, c))
    a = abi("phases", ("x", "in", "f32", ("M", "N")), ("t", "workspace", "f32", ("M", "N")), ("y", "out", "f32", ("M", "N")))
    return program(a, "r=M/own c=N/loop", ("TAx", r), p, q, **bindings)


def gather(**bindings: int) -> Program:
    """y[i] = x[k[i]] where i is even and k[i] valid, else -1; a data-dependent index."""
    b, d = Block(), ("i:OB",)
    k = b.load("k", ("i",), d, "i32")
    from eqkir.base.expr import Dep, eq

    valid = b.let("Index", (eq(Coord("i") % 2, 0),), (), d, "bool")
    x = b.load("x", (Dep(0),), d, valid=valid, fill="-1.0", deps=(k,))
    b.store("y", ("i",), x, d)
    a = abi("gather", ("x", "in", "f32", ("N",)), ("k", "in", "i32", ("P",)), ("y", "out", "f32", ("P",)))
    return program(a, "i=P/own", ("TAx", "i:OB"), b, **bindings)


def with_options(p: Program, **options: int) -> Program:
    return replace(p, options=options)


def recurrence(row: str = "OB", **bindings: int) -> Program:
    """h = h / 2 + x[r, c] along c; y[r, c] = h: an ordered loop that carries a value and stores."""
    r, c = f"r:{row}", "c:L1"
    top = Block()
    zero = top.const("0.0")
    h = top.new()
    b = top.body()
    new = b.bin("add", b.bin("mul", h, b.const("0.5"), (r,)), b.load("x", ("r", "c"), (r, c)), (r, c))
    b.store("y", ("r", "c"), new, (r, c))
    top.loop(c, b, (Carry(h, "Phi", (), (new,), (zero,), (r,), "f32"),))
    top.store("last", ("r",), h, (r,))
    a = abi("recurrence", ("x", "in", "f32", ("M", "N")), ("y", "out", "f32", ("M", "N")), ("last", "out", "f32", ("M",)))
    return program(a, "r=M/own c=N/strict", ("TAx", r), top, **bindings)
