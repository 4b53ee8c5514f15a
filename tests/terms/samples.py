"""Small index-notation programs, written by hand."""

from __future__ import annotations

from collections.abc import Callable

from eqkir.base.expr import Coord, Expr, Sym, le, lift
from eqkir.program.abi import Abi, Axis, SymbolParam, ViewParam
from eqkir.program.abstract import Abstract, Group, Put


def program(
    views: list[tuple[str, str, str, tuple[str | int, ...]]], symbols: list[str], axes: list[tuple[str, str | int, str]]
) -> Abstract:
    vs = tuple(ViewParam(n, r, d, tuple(lift(s) for s in sh), i) for i, (n, r, d, sh) in enumerate(views))
    abi = Abi("k", vs, (), tuple(SymbolParam(s) for s in symbols), (tuple(v[0] for v in views),))
    return Abstract(abi, tuple(Axis(n, lift(e), k) for n, e, k in axes))


def load(p: Abstract, view: str, *ix: str | int | Expr, version: int = 0) -> int:
    dt = p.abi.view(view).dtype
    ixs = tuple(Coord(i) if isinstance(i, str) else lift(i) for i in ix)
    zero = p.const("0.0" if dt[0] in "fb" else "0", dt)
    return p.make("Load", (view, version, ixs), (p.const("true", "bool"), zero), dt)


def put(p: Abstract, view: str, axes: tuple[str, ...], value: int, version: int = 1) -> Put:
    return Put(view, version, tuple(Coord(i) for i in axes), value, p.const("true", "bool"))


def softmax() -> Abstract:
    p = program([("X", "in", "bf16", ("R", "C")), ("Y", "out", "bf16", ("R", "C"))], ["R", "C"], [("i0", "R", "own"), ("c0", "C", "loop")])
    x = p.make("Cast", ("f32",), (load(p, "X", "i0", "c0"),), "f32")
    m = p.make("Red", ("max", "c0"), (x,), "f32")
    e = p.make("Un", ("exp",), (p.make("Bin", ("sub",), (x, m), "f32"),), "f32")
    s = p.make("Red", ("sum", "c0"), (e,), "f32")
    y = p.make("Cast", ("bf16",), (p.make("Bin", ("div",), (e, s), "f32"),), "bf16")
    p.groups = (Group("g0", ("i0",), ((put(p, "Y", ("i0", "c0"), y),),)),)
    return p


def gemm() -> Abstract:
    views = [("A", "in", "bf16", ("M", "K")), ("W", "in", "bf16", ("K", "N")), ("b", "in", "f32", ("N",)), ("Y", "out", "bf16", ("M", "N"))]
    p = program(views, ["M", "N", "K"], [("i0", "M", "own"), ("i1", "N", "own"), ("c0", "K", "loop")])  # type: ignore[arg-type]
    c = p.make("Con", ("c0",), (load(p, "A", "i0", "c0"), load(p, "W", "c0", "i1")), "f32")
    y = p.make("Bin", ("add",), (c, load(p, "b", "i1")), "f32")
    y = p.make("Cast", ("bf16",), (p.make("Bin", ("maximum",), (y, p.const("0.0", "f32")), "f32"),), "bf16")
    p.groups = (Group("g0", ("i0", "i1"), ((put(p, "Y", ("i0", "i1"), y),),)),)
    return p


def two() -> Abstract:
    """Two groups; the first has two stores and in all three outputs."""
    views = [
        ("X", "in", "f32", ("R", "C")),
        ("Y", "out", "f32", ("R", "C")),
        ("M", "out", "f32", ("R",)),
        ("Q", "in", "f32", ("P",)),
        ("Z", "out", "f32", ("P",)),
    ]
    p = program(views, ["R", "C", "P"], [("i0", "R", "own"), ("i1", "P", "own"), ("c0", "C", "loop")])  # type: ignore[arg-type]
    x = load(p, "X", "i0", "c0")
    m = p.make("Red", ("sum", "c0"), (x,), "f32")
    y = p.make("Bin", ("sub",), (x, m), "f32")
    z = p.make("Bin", ("mul",), (load(p, "Q", "i1"), p.const("2.0", "f32")), "f32")
    p.groups = (
        Group("g0", ("i0",), ((put(p, "Y", ("i0", "c0"), y), put(p, "M", ("i0",), m)),)),
        Group("g1", ("i1",), ((put(p, "Z", ("i1",), z),),)),
    )
    return p


def argmax() -> Abstract:
    views = [("X", "in", "f32", ("R", "C")), ("V", "out", "f32", ("R",)), ("I", "out", "index", ("R",))]
    p = program(views, ["R", "C"], [("i0", "R", "own"), ("c0", "C", "loop")])  # type: ignore[arg-type]
    x, ix = load(p, "X", "i0", "c0"), p.make("Index", (Coord("c0"),), (), "index")
    left, right = p.make("Arg", ("l", 0), (), "f32"), p.make("Arg", ("r", 0), (), "f32")
    li, ri = p.make("Arg", ("l", 1), (), "index"), p.make("Arg", ("r", 1), (), "index")
    b = lambda f, a, c: p.make("Bin", (f,), (a, c), "bool")  # noqa: E731
    takes = b("or", b("gt", right, left), b("and", b("eq", right, left), b("lt", ri, li)))
    v, i = p.make("Tri", ("select",), (takes, right, left), "f32"), p.make("Tri", ("select",), (takes, ri, li), "index")
    t = p.make("RedN", ("c0", 2), (p.const("-inf", "f32"), p.const("9223372036854775807", "index"), x, ix, v, i), "tuple")
    stores = (put(p, "V", ("i0",), p.make("Pick", (0,), (t,), "f32")), put(p, "I", ("i0",), p.make("Pick", (1,), (t,), "index")))
    p.groups = (Group("g0", ("i0",), (stores,)),)
    return p


def in_place() -> Abstract:
    """X is overwritten while a chain of reductions still reads its first version."""
    p = program([("X", "inout", "f32", ("R", "C")), ("W", "out", "f32", ("R",))], ["R", "C"], [("i0", "R", "own"), ("c0", "C", "loop")])
    x = load(p, "X", "i0", "c0")
    s = p.make("Red", ("sum", "c0"), (x,), "f32")
    d = p.make("Bin", ("sub",), (x, s), "f32")
    v = p.make("Red", ("sum", "c0"), (p.make("Bin", ("mul",), (d, d), "f32"),), "f32")
    w = p.make("Red", ("max", "c0"), (p.make("Bin", ("mul",), (d, v), "f32"),), "f32")
    y = p.make("Bin", ("add",), (x, s), "f32")
    p.groups = (Group("g0", ("i0",), ((put(p, "X", ("i0", "c0"), y), put(p, "W", ("i0",), w)),)),)
    return p


def copied() -> Abstract:
    """One instance, two phases: a copy through a workspace, then the store."""
    views = [("X", "in", "f32", ("N",)), ("Y", "out", "f32", ("N",)), ("w0", "workspace", "f32", ("N",))]
    p = program(views, ["N"], [("c0", "N", "loop")])  # type: ignore[arg-type]
    p.groups = (Group("g0", (), ((put(p, "w0", ("c0",), load(p, "X", "c0")),), (put(p, "Y", ("c0",), load(p, "w0", "c0", version=1)),))),)
    return p


SAMPLES: dict[str, Callable[[], Abstract]] = {
    "softmax": softmax, "gemm": gemm, "two": two, "argmax": argmax, "in_place": in_place, "copied": copied,
}  # fmt: skip


def cumsum() -> Abstract:
    """Scan along the inner axis, and a reduction of the scan."""
    views = [("X", "in", "f32", ("R", "C")), ("Y", "out", "f32", ("R", "C")), ("M", "out", "f32", ("R",))]
    p = program(views, ["R", "C"], [("i0", "R", "own"), ("c0", "C", "loop")])  # type: ignore[arg-type]
    s = p.make("Scan", ("sum", "c0"), (load(p, "X", "i0", "c0"),), "f32")
    m = p.make("Red", ("max", "c0"), (s,), "f32")
    p.groups = (Group("g0", ("i0",), ((put(p, "Y", ("i0", "c0"), s), put(p, "M", ("i0",), m)),)),)
    return p


def pair_scan() -> Abstract:
    """h = a*h + b as a scan of pairs (a, b) under (a1, b1)∘(a2, b2) = (a1*a2, a2*b1 + b2): not commutative."""
    views = [("A", "in", "f32", ("R", "C")), ("B", "in", "f32", ("R", "C")), ("Y", "out", "f32", ("R", "C"))]
    p = program(views, ["R", "C"], [("i0", "R", "own"), ("c0", "C", "loop")])  # type: ignore[arg-type]
    (la, lb), (ra, rb) = ([p.make("Arg", (s, i), (), "f32") for i in (0, 1)] for s in "lr")
    ca = p.make("Bin", ("mul",), (la, ra), "f32")
    cb = p.make("Bin", ("add",), (p.make("Bin", ("mul",), (ra, lb), "f32"), rb), "f32")
    ids = (p.const("1.0", "f32"), p.const("0.0", "f32"))
    t = p.make("ScanN", ("c0", 2), (*ids, load(p, "A", "i0", "c0"), load(p, "B", "i0", "c0"), ca, cb), "tuple")
    p.groups = (Group("g0", ("i0",), ((put(p, "Y", ("i0", "c0"), p.make("Pick", (1,), (t,), "f32")),),)),)
    return p


def recurrence() -> Abstract:
    """h[t] = a[t]*h[t-1] + b[t] in order: every h and the last one."""
    views = [("A", "in", "f32", ("R", "C")), ("B", "in", "f32", ("R", "C")), ("Y", "out", "f32", ("R", "C")), ("H", "out", "f32", ("R",))]
    p = program(views, ["R", "C"], [("i0", "R", "own"), ("c0", "C", "strict")])  # type: ignore[arg-type]
    a, b = load(p, "A", "i0", "c0"), load(p, "B", "i0", "c0")
    zero = p.const("0.0", "f32")
    h = p.make("Form", ("f0", 0, ("c0", "i0")), (), "f32")
    step = lambda h: p.make("Bin", ("add",), (p.make("Bin", ("mul",), (a, h), "f32"), b), "f32")  # noqa: E731
    last = p.make("Pick", (0,), (p.make("Fold", ("c0", "f0", 1), (zero, step(h)), "tuple"),), "f32")
    now = step(p.make("State", ("c0", "f0", 1, 0), (zero, step(h)), "f32"))
    p.groups = (Group("g0", ("i0",), ((put(p, "Y", ("i0", "c0"), now), put(p, "H", ("i0",), last)),)),)
    return p


def attention() -> Abstract:
    """softmax(q·k)·v as a fold over slices of the keys, with states max, sum and weighted values."""
    views = [
        ("Q", "in", "f32", ("M", "D")),
        ("K", "in", "f32", ("N", "D")),
        ("V", "in", "f32", ("N", "E")),
        ("Y", "out", "f32", ("M", "E")),
    ]
    axes = [("i0", "M", "own"), ("c0", "N", "seg"), ("c0.m", "N", "mem"), ("c1", "D", "loop"), ("i1", "E", "own")]
    p = program(views, ["M", "N", "D", "E"], axes)  # type: ignore[arg-type]
    b = lambda f, x, y, d="f32": p.make("Bin", (f,), (x, y), d)  # noqa: E731
    sel = lambda c, x, y: p.make("Tri", ("select",), (c, x, y), "f32")  # noqa: E731
    ninf, zero = p.const("-inf", "f32"), p.const("0.0", "f32")
    safe = lambda z: sel(b("eq", z, ninf, "bool"), zero, z)  # noqa: E731
    exp = lambda z: p.make("Un", ("exp",), (z,), "f32")  # noqa: E731
    s = p.make("Con", ("c1",), (load(p, "Q", "i0", "c1"), load(p, "K", "c0.m", "c1")), "f32")
    m = p.make("Red", ("max", "c0.m"), (s,), "f32")
    e = exp(b("sub", s, safe(m)))
    t = p.make("Red", ("sum", "c0.m"), (e,), "f32")
    o = p.make("Con", ("c0.m",), (e, load(p, "V", "c0.m", "i1")), "f32")
    f0, f1 = (p.make("Form", ("f0", i, ("c0", "i0")), (), "f32") for i in (0, 1))
    f2 = p.make("Form", ("f0", 2, ("c0", "i0", "i1")), (), "f32")
    nm = b("maximum", f0, m)
    ca, cb = exp(b("sub", f0, safe(nm))), exp(b("sub", m, safe(nm)))
    y1, y2 = b("add", b("mul", f1, ca), b("mul", t, cb)), b("add", b("mul", f2, ca), b("mul", o, cb))
    f = p.make("Fold", ("c0", "f0", 3), (ninf, zero, zero, nm, y1, y2, m, t, o), "tuple")
    y = b("div", p.make("Pick", (2,), (f,), "f32"), p.make("Pick", (1,), (f,), "f32"))
    p.groups = (Group("g0", ("i0", "i1"), ((put(p, "Y", ("i0", "i1"), y),),)),)
    return p


def halving() -> Abstract:
    """Steps of x -> x // 2 until x <= 1, element by element."""
    p = program([("X", "in", "i32", ("N",)), ("Y", "out", "i32", ("N",))], ["N"], [("i0", "N", "own"), ("w0", 0, "while")])  # type: ignore[arg-type]
    x, n = (p.make("Form", ("f0", i, ("w0", "i0")), (), "i32") for i in (0, 1))
    b = lambda f, u, v, d="i32": p.make("Bin", (f,), (u, v), d)  # noqa: E731
    one, two_, zero = (p.const(t, "i32") for t in ("1", "2", "0"))
    t = p.make(
        "While", ("w0", "f0", 2), (load(p, "X", "i0"), zero, b("floordiv", x, two_), b("add", n, one), b("gt", x, one, "bool")), "tuple"
    )
    p.groups = (Group("g0", ("i0",), ((put(p, "Y", ("i0",), p.make("Pick", (1,), (t,), "i32")),),)),)
    return p


SAMPLES |= {"cumsum": cumsum, "pair_scan": pair_scan, "recurrence": recurrence, "attention": attention, "halving": halving}


def running_buffer() -> Abstract:
    """b[j] += X[t, j] for t in order, on a buffer; after every step Y[t] = sum_j b[j]."""
    views = [("X", "in", "f32", ("T", "C")), ("Y", "out", "f32", ("T",)), ("b", "workspace", "f32", ("C",))]
    axes = [("c0", "T", "strict"), ("c1", "C", "loop"), ("c2", "C", "loop")]
    p = program(views, ["T", "C"], axes)  # type: ignore[arg-type]
    p.inner = {(2, 2): ("c0",), (2, 3): ("c0",), (1, 1): ("c0",)}
    zero = put(p, "b", ("c2",), p.const("0.0", "f32"), version=1)
    new = p.make("Bin", ("add",), (load(p, "b", "c1", version=2), load(p, "X", "c0", "c1")), "f32")
    total = p.make("Red", ("sum", "c1"), (load(p, "b", "c1", version=3),), "f32")
    p.groups = (Group("g0", (), ((zero,), (put(p, "b", ("c1",), new, version=3), put(p, "Y", ("c0",), total)))),)
    return p


SAMPLES["running_buffer"] = running_buffer


def plain_attention(dtype: str = "f32", causal: bool = False) -> Abstract:
    """softmax(q·k)·v over a whole score row: no fold in sight. `causal`: the last query sees all keys."""
    ins = [("Q", "in", dtype, ("M", "D")), ("K", "in", dtype, ("N", "D")), ("V", "in", dtype, ("N", "E"))]
    views = [*ins, ("Y", "out", "f32", ("M", "E"))]
    axes = [("i0", "M", "own"), ("i1", "E", "own"), ("c0", "N", "loop"), ("c1", "D", "loop")]
    p = program(views, ["M", "N", "D", "E"], axes)  # type: ignore[arg-type]
    s = p.make("Con", ("c1",), (load(p, "Q", "i0", "c1"), load(p, "K", "c0", "c1")), "f32")
    if causal:
        seen = p.make("Index", (le(Coord("c0"), Coord("i0") + Sym("N") - Sym("M")),), (), "bool")
        s = p.make("Tri", ("select",), (seen, s, p.const("-inf", "f32")), "f32")
    m = p.make("Red", ("max", "c0"), (s,), "f32")
    e = p.make("Un", ("exp",), (p.make("Bin", ("sub",), (s, m), "f32"),), "f32")
    q = p.make("Bin", ("div",), (e, p.make("Red", ("sum", "c0"), (e,), "f32")), "f32")
    q = q if dtype == "f32" else p.make("Cast", (dtype,), (q,), dtype)
    o = p.make("Con", ("c0",), (q, load(p, "V", "c0", "i1")), "f32")
    p.groups = (Group("g0", ("i0", "i1"), ((put(p, "Y", ("i0", "i1"), o),),)),)
    return p
