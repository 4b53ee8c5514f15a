"""Small index-notation programs, written by hand."""

from __future__ import annotations

from collections.abc import Callable

from eqkir.base.expr import Coord, Expr, lift
from eqkir.program.abi import Abi, Axis, SymbolParam, ViewParam
from eqkir.program.abstract import Abstract, Group, Put


def program(views: list[tuple[str, str, str, tuple[str | int, ...]]], symbols: list[str], axes: list[tuple[str, str | int, str]]) -> Abstract:
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
    views = [("X", "in", "f32", ("R", "C")), ("Y", "out", "f32", ("R", "C")), ("M", "out", "f32", ("R",)), ("Q", "in", "f32", ("P",)), ("Z", "out", "f32", ("P",))]
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
