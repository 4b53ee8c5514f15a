"""The verifier: good programs are accepted; a program broken in one way gives exactly that check's code."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_samples import Block, abi, argmax, elementwise, gemm, histogram, masked_total, softmax, with_items

from eqkir.base.diagnostics import EqkirError
from eqkir.base.expr import Coord, Dep, Expr, Int, Param, Sym, emax, eq, le, lt
from eqkir.program.abi import Axis
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Order, Program, Region, Segment, Store
from eqkir.program.serialize import dumps, from_json
from eqkir.program.verify import CODES, verify

SWZ: Order = ("TSwz", ("TAx", "i:OB"), ("TAx", "j:OB"))
WHOLE = replace(softmax("W", "OB", **{"B:r": 4, "F:c": 64}), preconditions=(le(Sym("N"), 64),))
P0, TILED, LANES = softmax(), softmax("LC", "OB", **{"B:r": 8, "C:c": 16}), softmax("LC", "OB", "lanes", **{"B:r": 8, "C:c": 16})
GEMM = gemm("OB", "LC", SWZ, **{"B:i": 16, "B:j": 16, "C:k": 16, "G:g0": 4})
VEC = elementwise(("TAx", "i:OB"), **{"B:i": 16})
LEGAL, LEGAL_LANES, LEGAL_DOT = masked_total(), masked_total(lanes=True), masked_total(dot=True)


def shifted() -> Program:
    """x[1:] = x[:-1] on one view, through a workspace in one instance."""
    a = abi("shift", ("x", "inout", "f32", ("N",)), ("w", "workspace", "f32", ("N",)))
    first, second = Block(), Block()
    body = first.body()
    body.store("w", ("i",), body.load("x", ("i",), ("i:L1",)), ("i:L1",))
    first.loop("i:L1", body)
    body = second.body()
    body.store("x", (Coord("j") + 1,), body.load("w", ("j",), ("j:L1",), version=1), ("j:L1",))
    second.loop("j:L1", body)
    axes = (Axis("i", Sym("N"), "loop"), Axis("j", emax(Sym("N") - 1, 0), "loop"))
    return Program(a, axes, (Segment("g0", ("TUnit",), "grid", (tuple(first.items), tuple(second.items))),), {})


I, J, N = Coord("i"), Coord("j"), Sym("N")


def triangle(end: int = 1, dtype: str = "index") -> Program:
    """y[r] = sum of x[r, c] for c <= r, by a loop up to r + `end`."""
    top = Block()
    hi = top.let("Index", (Coord("r") + end,), (), ("r:OB",), "index")
    hi = hi if dtype == "index" else top.let("Cast", (dtype,), (hi,), ("r:OB",), dtype)
    zero = top.const("0.0")
    b, d = top.body(), ("r:OB", "c:LC")
    low = b.let("Index", (le(Coord("c"), Coord("r")),), (), d, "bool")
    v = b.let("Tri", ("select",), (low, b.load("x", ("r", "c"), d), zero), d)
    s = top.new()
    top.items.append(Loop("c", "c:LC", 0, (Carry(s, "RedLoop", ("sum", "lanes"), (v,), (), ("r:OB",), "f32"),), tuple(b.items), hi=hi))
    top.store("y", ("r",), s, ("r:OB",))
    a = abi("triangle", ("x", "in", "f32", ("M", "N")), ("y", "out", "f32", ("M",)))
    axes = (Axis("r", Sym("M"), "own"), Axis("c", N, "loop"))
    return Program(a, axes, (Segment("g0", ("TAx", "r:OB"), "grid", (tuple(top.items),)),), {"B:r": 4, "C:c": 4})


def gather() -> Program:
    """y[i] = z[x[i]] where 0 <= x[i] < N, else -1"""
    b, d = Block(), ("i:OB",)
    j = b.load("x", ("i",), d, "i32")
    ok = b.let("Index", (lt(Dep(0), Sym("N")),), (j,), d, "bool")
    low = b.let("Index", (le(0, Dep(0)),), (j,), d, "bool")
    both = b.bin("and", ok, low, d, "bool")
    g = b.let("Load", ("z", 0, (Dep(0),), "ptr"), (both, b.const("-1.0"), j), d)
    b.store("y", ("i",), g, d)
    a = abi("gather", ("x", "in", "i32", ("N",)), ("z", "in", "f32", ("N",)), ("y", "out", "f32", ("N",)))
    return Program(a, (Axis("i", Sym("N"), "own"),), (Segment("g0", ("TAx", "i:OB"), "grid", (tuple(b.items),)),), {"B:i": 4})


def in_place(legal: bool = False, barrier: bool = False) -> Program:
    """x[r, c] = x[r, c] / sum over c, in one fragment."""
    r, c = "r:O1", "c:W"
    b = Block()
    if legal:
        act = b.let("Active", (c,), (), (c,), "bool")
        x = b.let("LoadM", ("x", 0, (Coord("r"), Coord("c")), "ptr"), (act, b.const("0.0")), (r, c))
        s = b.let("FragRed", ("sum", c), (x,), (r,))
        v = b.bin("div", x, s, (r, c))
        b.items += [Barrier()] if barrier else []
        b.items.append(Store("x", 1, (Coord("r"), Coord("c")), v, act, (), (r, c), True))
    else:
        x = b.load("x", ("r", "c"), (r, c))
        b.store("x", ("r", "c"), b.bin("div", x, b.let("RedTree", ("sum", c), (x,), (r,)), (r, c)), (r, c))
    a = abi("normalize", ("x", "inout", "f32", ("M", 64)))
    axes = (Axis("r", Sym("M"), "own"), Axis("c", Int(64), "loop"))
    bindings = {"F:c": 64 if not legal else 128}
    return Program(a, axes, (Segment("g0", ("TAx", r), "grid", (tuple(b.items),)),), bindings, stage="legal" if legal else "structured")


def legal_copy() -> Program:
    """y[i] = x[i] in masked blocks."""
    b, d = Block(), ("i:OB",)
    act = b.let("Active", d, (), d, "bool")
    x = b.let("LoadM", ("x", 0, (Coord("i"),), "ptr"), (act, b.const("0.0")), d)
    b.items.append(Store("y", 1, (Coord("i"),), x, act, (), d, True))
    return replace(with_items(VEC, tuple(b.items)), stage="legal")


def halves() -> Program:
    """Two segments write the two halves of one view."""
    segments = []
    for k in (0, 1):
        b = Block()
        x = b.load("x", (f"i{k}",), (f"i{k}:O1",))
        b.store("y", (Coord("i0") if k == 0 else Coord("i1") + Sym("N"),), x, (f"i{k}:O1",), version=k + 1)
        segments.append(Segment(f"g{k}", ("TAx", f"i{k}:O1"), "grid", (tuple(b.items),)))
    a = abi("halves", ("x", "in", "f32", ("N",)), ("y", "out", "f32", (Sym("N") * 2,)), symbols="N")
    return Program(a, (Axis("i0", Sym("N"), "own"), Axis("i1", Sym("N"), "own")), tuple(segments), {})


def reshaped(flat: Expr, ixs: tuple[Any, ...] | None = None, valid: Expr | None = None) -> Program:
    """y[…] = x[i, j] with y's index map given."""
    b, d = Block(), ("i:O1", "j:O1")
    x = b.load("x", ("i", "j"), d)
    ok = b.let("Index", (valid,), (), d, "bool") if valid is not None else b.true()
    b.items.append(Store("y", 1, ixs or (flat,), x, ok, (), d))
    a = abi(
        "reshaped",
        ("x", "in", "f32", ("M", "N")),
        ("y", "out", "f32", (Sym("M") * Sym("N"),) if ixs is None else ("M", "N")),
        symbols="M N",
    )
    axes = (Axis("i", Sym("M"), "own"), Axis("j", Sym("N"), "own"))
    order: Order = ("TProd", ("TAx", "i:O1"), ("TAx", "j:O1"))
    return Program(a, axes, (Segment("g0", order, "grid", (tuple(b.items),)),), {})


def masked_argmax(lanes: bool = False) -> Program:
    """Legal argmax of x[N]: one fragment, or accumulators per lane that are combined inline."""
    label = "c:LC" if lanes else "c:W"
    source = argmax("L1").segments[0].phases[0][2]
    assert isinstance(source, Loop)
    r = next(a for a in source.carries[0].attrs if isinstance(a, Region))
    b = Block()
    idents = (b.const("-inf"), b.const(str(2**63 - 1), "i64"))
    starts = tuple(b.let("Splat", (), (i,), (label,), d) for i, d in zip(idents, r.dtypes)) if lanes else ()
    body = b.body() if lanes else b
    act = body.let("Active", (label,), (), (label,), "bool")
    x = body.let("LoadM", ("x", 0, (Coord("c"),), "ptr"), (act, idents[0]), (label,))
    raw = body.let("Cast", ("i64",), (body.let("Index", (Coord("c"),), (), (label,), "index"),), (label,), "i64")
    elems = (x, body.let("Tri", ("select",), (act, raw, idents[1]), (label,), "i64"))
    if lanes:
        phis = (b.new(), b.new())
        env: dict[int, int] = {}
        for y in r.body:
            env[y.id] = (phis if y.attrs[0] == "l" else elems)[y.attrs[1]] if y.op == "Arg" else 0
            if y.op != "Arg":
                env[y.id] = body.let(y.op, y.attrs, tuple(env[a] for a in y.args), (label,), y.dtype)
        carries = tuple(Carry(p, "Phi", (), (env[n],), (s,), (label,), d) for p, n, s, d in zip(phis, r.yields, starts, r.dtypes))
        b.loop(label, body, carries)
        elems = phis
    t = b.let("FragRedN", (label, r), elems, (), "tuple")
    b.items.append(Store("y", 1, (Int(0),), b.let("Pick", (1,), (t,), (), "i64"), b.true(), (), (), True))
    a = abi("argmax", ("x", "in", "f32", ("N",)), ("y", "out", "i64", (1,)))
    pre, bindings = ((), {"C:c": 4}) if lanes else ((le(Sym("N"), 16),), {"F:c": 16})
    return Program(a, (Axis("c", Sym("N"), "loop"),), (Segment("g0", ("TUnit",), "grid", (tuple(b.items),)),), bindings, {}, pre, "legal")


def histogram_read() -> Program:
    """Every instance reads a counter that others may still change."""
    p, b = histogram(), Block(counter=[50])
    h = b.load("h", (0,), (), "i32")
    ok = b.let("Index", (lt(0, Sym("H")),), (), (), "bool")
    b.items[-2] = replace(b.items[-2], args=(ok, *b.items[-2].args[1:]))  # type: ignore[union-attr]
    b.items = [b.items[-1], *b.items[:-1]]
    more = replace(p.abi.views[0], name="y", role="out", alias=5)
    items = (*b.items, *p.segments[0].phases[0], Store("y", 1, (Coord("i"),), h, 1, (), ("i:O1",)))  # %1 is the constant true
    return replace(with_items(p, items), abi=replace(p.abi, views=(*p.abi.views, more)))


def let_after_loop() -> Let:
    return Let(70, "LoadM", ("x", 0, (Coord("c"),), "ptr"), (0, 0), ("c:LC",), "f32")


GOOD: dict[str, Program] = {
    "elementwise": elementwise(), "elementwise-owned": VEC, "legal-copy": legal_copy(), "softmax": P0,
    "elementwise-stride": elementwise(("TRev", ("TInter", ("TAx", "i:OB"))), "stride", **{"B:i": 16, "P:g0": 3}),
    "softmax-chunked": TILED, "softmax-lanes": LANES, "softmax-whole": WHOLE, "gemm": gemm(),
    "gemm-tiled": GEMM, "gemm-bf16": gemm(dtype="bf16"), "argmax": argmax("L1"), "argmax-lanes": argmax("LC", "lanes", **{"C:c": 4}),
    "shifted": shifted(), "gather": gather(), "triangle": triangle(), "in-place": in_place(), "halves": halves(),
    "histogram": histogram(), "histogram-owned": histogram("i:OB", **{"B:i": 8}),
    "flattened": reshaped(I * N + J),
    "permuted": reshaped(I, (I, N - 1 - J)), "legal": LEGAL, "legal-lanes": LEGAL_LANES, "legal-dot": LEGAL_DOT,
    "legal-argmax": masked_argmax(), "legal-argmax-lanes": masked_argmax(True), "legal-in-place": in_place(True, True),
    "even": replace(LEGAL_LANES, specializations=(("c:LC", eq(Sym("N") % 4, 0)),)),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_good_programs_are_accepted(name: str) -> None:
    before = repr(GOOD[name])
    assert [str(d) for d in verify(GOOD[name])] == []
    assert repr(GOOD[name]) == before


def test_verification_is_quick() -> None:
    programs = [p for n, p in GOOD.items() if n not in ("gather", "triangle", "halves", "flattened", "permuted", "shifted")]
    for p in programs:
        start = time.process_time()
        verify(p)
        assert time.process_time() - start < 0.05


# ------------------------------------------------------------------------------------------------ mutations
def every(p: Program, f: Callable[[Item], Item | None]) -> Program:
    """The program with `f` applied to every item, innermost first; None drops the item."""

    def go(items: tuple[Item, ...]) -> tuple[Item, ...]:
        done = [f(replace(i, body=go(i.body)) if isinstance(i, Loop) else i) for i in items]
        return tuple(i for i in done if i is not None)

    return replace(p, segments=tuple(replace(s, phases=tuple(map(go, s.phases))) for s in p.segments))


def let(p: Program, kind: str, nth: int = 0, /, **change: Any) -> Program:
    """Change the nth let of an operation."""
    count = [0]

    def f(i: Item) -> Item:
        if isinstance(i, Let) and i.op == kind:
            count[0] += 1
            return replace(i, **change) if count[0] == nth + 1 else i
        return i

    return every(p, f)


def store(p: Program, **change: Any) -> Program:
    return every(p, lambda i: replace(i, **change) if isinstance(i, Store) else i)


def loop(p: Program, **change: Any) -> Program:
    return every(p, lambda i: replace(i, **change) if isinstance(i, Loop) else i)


def bound(p: Program) -> Program:
    return replace(p, bindings={"B:r": 4, "F:c": 64, "C:c": 4})


def carry(p: Program, **change: Any) -> Program:
    return every(p, lambda i: replace(i, carries=tuple(replace(c, **change) for c in i.carries)) if isinstance(i, Loop) else i)


def order(p: Program, t: Order) -> Program:
    return replace(p, segments=tuple(replace(s, order=t) for s in p.segments))


def view(p: Program, name: str, **change: Any) -> Program:
    return replace(p, abi=replace(p.abi, views=tuple(replace(v, **change) if v.name == name else v for v in p.abi.views)))


def axis(p: Program, name: str, **change: Any) -> Program:
    return replace(p, axes=tuple(replace(a, **change) if a.name == name else a for a in p.axes))


def one_alias(p: Program) -> Program:
    return replace(p, abi=replace(p.abi, views=tuple(replace(v, alias=0) for v in p.abi.views)))


def region(p: Program, f: Callable[[Region], Region]) -> Program:
    def g(c: Carry) -> Carry:
        return replace(c, attrs=tuple(f(a) if isinstance(a, Region) else a for a in c.attrs))

    return every(p, lambda i: replace(i, carries=tuple(map(g, i.carries))) if isinstance(i, Loop) else i)


def swapped() -> Program:
    """The load of the old value comes after the store."""
    b = Block()
    b.store("x", ("i",), b.const("1.0"), ("i:O1",))
    y = b.load("x", ("i",), ("i:O1",))
    b.store("y", ("i",), y, ("i:O1",))
    a = abi("swapped", ("x", "inout", "f32", ("N",)), ("y", "out", "f32", ("N",)))
    return Program(a, (Axis("i", Sym("N"), "own"),), (Segment("g0", ("TAx", "i:O1"), "grid", (tuple(b.items),)),), {})


def neighbour() -> Program:
    """In one loop, x[c] is overwritten while a later iteration still reads x[c - 1]."""
    b = Block()
    body = b.body()
    ok = body.let("Index", (le(1, Coord("c")),), (), ("c:L1",), "bool")
    x = body.let("Load", ("x", 0, (Coord("c") - 1,), "ptr"), (ok, body.const("0.0")), ("c:L1",))
    body.store("x", ("c",), x, ("c:L1",))
    b.loop("c:L1", body)
    a = abi("neighbour", ("x", "inout", "f32", ("N",)))
    return Program(a, (Axis("c", Sym("N"), "loop"),), (Segment("g0", ("TUnit",), "grid", (tuple(b.items),)),), {})


def same_phase() -> Program:
    p = shifted()
    return with_items(p, (*p.segments[0].phases[0], *_renumbered(p.segments[0].phases[1])))


def _renumbered(items: tuple[Item, ...]) -> tuple[Item, ...]:
    def f(i: Item) -> Item:
        if isinstance(i, Let):
            return replace(i, id=i.id + 100, args=tuple(a + 100 for a in i.args))
        if isinstance(i, Store):
            return replace(i, value=i.value + 100, valid=i.valid + 100)
        return replace(i, body=tuple(map(f, i.body))) if isinstance(i, Loop) else i

    return tuple(map(f, items))


def phase(p: Program, k: int, f: Callable[[Item], Item | None]) -> Program:
    s = p.segments[0]
    return replace(
        p,
        segments=(
            replace(s, phases=tuple(every(with_items(p, ph), f).segments[0].phases[0] if n == k else ph for n, ph in enumerate(s.phases))),
        ),
    )


BROKEN: dict[str, tuple[str, Program]] = {
    "axis-named-twice": ("INTERFACE", replace(P0, axes=(*P0.axes, P0.axes[0]))),
    "unknown-role": ("INTERFACE", view(P0, "x", role="maybe")),
    "symbol-without-values": ("INTERFACE",
        replace(P0, abi=replace(P0.abi, symbols=(replace(P0.abi.symbols[0], lo=3, hi=2), P0.abi.symbols[1])))
    ),
    "segment-without-phases": ("INTERFACE", replace(VEC, segments=(replace(VEC.segments[0], phases=()),))),
    "no-order": ("INTERFACE", order(VEC, ("TProd", ("TAx", "i:OB")))),
    "noalias-of-nothing": ("INTERFACE", replace(P0, abi=replace(P0.abi, noalias=(("x", "q"),)))),
    "specialization-of-nothing": ("INTERFACE", replace(LEGAL_LANES, specializations=(("c", le(N, 3)),))),
    "extent-of-a-coordinate": ("LAUNCH", axis(P0, "c", extent=Coord("r"))),
    "extent-of-a-parameter": ("LAUNCH", axis(TILED, "c", extent=Param("C:c"))),
    "negative-extent": ("LAUNCH", axis(VEC, "i", extent=N - 1)),
    "extent-divides-by-zero": ("LAUNCH", axis(P0, "r", extent=Sym("M") // N)),
    "float-scalar-in-a-predicate": ("LAUNCH", replace(VEC, preconditions=(le(Sym("s"), 3),))),
    "unbound-block": ("BINDING", replace(TILED, bindings={"C:c": 16})),
    "unbound-group": ("BINDING", replace(GEMM, bindings={k: v for k, v in GEMM.bindings.items() if k != "G:g0"})),
    "unbound-programs": ("BINDING", replace(VEC, segments=(replace(VEC.segments[0], mode="stride"),))),
    "zero-lanes": ("BINDING", replace(TILED, bindings={"B:r": 0, "C:c": 16})),
    "legal-operation": ("STAGE", let(VEC, "Load", op="LoadM")),
    "structured-operation": ("STAGE", let(LEGAL, "FragRed", op="RedTree")),
    "structured-carry": ("STAGE", carry(LEGAL_LANES, op="ConLoop")),
    "unmasked-legal-store": ("STAGE", store(LEGAL, masked=False)),
    "masked-structured-store": ("STAGE", store(VEC, masked=True)),
    "unknown-mode": ("STAGE", store(histogram(), mode="nand")),
    "structured-pipelining": ("STAGE", loop(TILED, stages=3)),
    "defined-twice": ("SCOPE", with_items(VEC, (VEC.segments[0].phases[0][0], *VEC.segments[0].phases[0]))),
    "use-before-definition": ("SCOPE", with_items(VEC, VEC.segments[0].phases[0][::-1])),
    "value-of-a-finished-loop": ("SCOPE", with_items(P0, (*P0.segments[0].phases[0], Let(90, "Un", ("exp",), (2,), ("r:O1",), "f32")))),
    "loop-reads-its-result": ("SCOPE", let(P0, "Un", 0, args=(8,))),
    "init-from-the-body": ("SCOPE", carry(LEGAL_LANES, inits=(4,))),
    "unknown-view": ("NAME", store(VEC, view="q")),
    "wrong-rank": ("NAME", store(VEC, ixs=(I, I))),
    "unknown-scalar": ("NAME", let(VEC, "Scalar", attrs=("q",))),
    "unknown-symbol": ("NAME", store(VEC, ixs=(I + Sym("q"),))),
    "unknown-operand": ("NAME", store(VEC, ixs=(Dep(0),))),
    "linear-id": ("NAME", store(VEC, ixs=(Expr("lid", ("",)),))),
    "missing-operand": ("STRUCTURED", let(VEC, "Bin", args=(0,))),
    "missing-init": ("STRUCTURED", carry(argmax("L1"), inits=(0,))),
    "unknown-reduction": ("STRUCTURED", carry(P0, attrs=("median", "tree"))),
    "unknown-implementation": ("STRUCTURED", carry(gemm(), attrs=("magic",))),
    "open-region": ("STRUCTURED", region(argmax("L1"), lambda r: replace(r, body=r.body[1:]))),
    "region-without-yield": ("STRUCTURED", region(argmax("L1"), lambda r: replace(r, yields=r.yields[:1]))),
    "region-with-a-load": ("STRUCTURED", region(argmax("L1"), lambda r: replace(r, body=(Let(50, "Load", (), (), (), "f32"), *r.body)))),
    "loop-label-in-the-order": ("LABEL", order(P0, ("TAx", "c:L1"))),
    "two-labels-of-an-axis": ("LABEL", order(VEC, ("TProd", ("TAx", "i:OB"), ("TAx", "i:O1")))),
    "untraversed-label": ("LABEL", bound(let(P0, "Load", 0, dims=("r:OB", "c:L1")))),
    "label-of-no-axis": ("LABEL", let(P0, "Load", 0, dims=("r:O1", "q:L1"))),
    "axis-traversed-twice": ("LABEL", with_items(P0, (Loop("c", "c:L1", 0, (), P0.segments[0].phases[0]),))),
    "wrong-loop-label": ("LABEL", bound(loop(P0, label="c:W"))),
    "sum-over-a-block": ("LABEL", bound(let(WHOLE, "RedTree", 0, attrs=("sum", "r:OB")))),
    "reduction-over-a-chunk": ("LABEL", bound(let(WHOLE, "RedTree", 0, attrs=("max", "c:LC")))),
    "wrong-dtype": ("TYPE", let(VEC, "Bin", dtype="f64")),
    "unknown-function": ("TYPE", let(P0, "Un", attrs=("magic",))),
    "float-shift": ("TYPE", let(VEC, "Bin", attrs=("shl",))),
    "wrong-view-dtype": ("TYPE", view(VEC, "y", dtype="f16")),
    "mask-of-floats": ("TYPE", store(VEC, valid=1)),
    "constant-not-canonical": ("TYPE", let(VEC, "Const", 1, attrs=("0.10",))),
    "accumulator-narrower": ("TYPE", carry(gemm(), dtype="bf16")),
    "predicate-as-index": ("TYPE", let(gather(), "Index", dtype="index")),
    "bits-of-floats": ("TYPE", store(histogram(dtype="f32"), mode="xor")),
    "sum-of-bools": ("TYPE", carry(P0, attrs=("any", "tree"))),
    "region-dtype": ("TYPE",
        region(argmax("L1"), lambda r: replace(r, body=tuple(replace(x, attrs=("add",)) if x.id == 4 else x for x in r.body)))
    ),
    "dimension-lost": ("DIMS", let(P0, "Load", 0, dims=("r:O1",))),
    "dimension-gained": ("DIMS", let(VEC, "Scalar", dims=("i:OB",))),
    "reduced-label-kept": ("DIMS", let(WHOLE, "RedTree", 0, dims=("r:OB", "c:W"))),
    "store-narrower-than-value": ("DIMS", store(WHOLE, dims=("r:OB",), ixs=(Coord("r"), Int(0)))),
    "dot-transposed": ("DIMS", let(LEGAL_DOT, "LoadM", 1, dims=("j:OB", "k:W"))),
    "instance-axis-untraversed": ("LABEL", store(order(gemm(), ("TAx", "i:O1")), dims=("i:O1",), ixs=(I, Int(0)))),
    "repeated-by-a-loop": ("COVER",
        with_items(gather(), (Loop("q", "q:L1", 0, (), gather().segments[0].phases[0]),), Axis("q", N, "loop"))
    ),
    "repeated-by-the-order": ("COVER",
        replace(order(VEC, ("TProd", ("TAx", "q:O1"), ("TAx", "i:OB"))), axes=(*VEC.axes, Axis("q", N, "own")))
    ),
    "fragment-too-small": ("WHOLE", replace(WHOLE, preconditions=(le(N, 65),))),
    "no-precondition": ("WHOLE", replace(WHOLE, preconditions=())),
    "halved-index": ("OWNER", store(VEC, ixs=(I // 2,))),
    "constant-index": ("OWNER", store(VEC, ixs=(Int(0),), valid=90, dims=("i:OB",))),
    "overlapping-rows": ("OWNER", reshaped(I + J)),
    "scatter-not-atomic": ("OWNER", store(histogram(), mode="store", order="")),
    "diagonal": ("OWNER", reshaped(I, (I, Int(0)))),
    "negative-index": ("BOUNDS", reshaped(I, (I, J - 1))),
    "one-too-far": ("BOUNDS", axis(VEC, "i", extent=N + 1)),
    "load-shifted": ("BOUNDS", let(VEC, "Load", attrs=("x", 0, (I + 1,), "ptr"))),
    "wrong-extent": ("BOUNDS", view(P0, "x", shape=(Sym("N"), Sym("M")))),
    "gather-unguarded-below": ("BOUNDS", let(gather(), "Load", 1, args=(3, 6, 2))),
    "legal-load-unmasked": ("BOUNDS", let(legal_copy(), "LoadM", 0, args=(90, 1))),
    "version-made-twice": ("EFFECT",
        replace(halves(), segments=tuple(every(halves(), lambda i: replace(i, version=1) if isinstance(i, Store) else i).segments))
    ),
    "store-to-an-input": ("EFFECT", view(VEC, "y", role="in")),
    "output-never-stored": ("EFFECT",
        replace(VEC, abi=replace(VEC.abi, views=(*VEC.abi.views, replace(VEC.abi.views[1], name="z", alias=7))))
    ),
    "instances-through-an-alias": ("CROSS", one_alias(VEC)),
    "halves-that-meet": ("CROSS",
        every(halves(), lambda i: replace(i, ixs=(Coord("i1") + N - 1,)) if isinstance(i, Store) and i.version == 2 else i)
    ),
    "atomic-result-read": ("CROSS", histogram_read()),
    "store-before-load": ("VERSION", swapped()),
    "overwritten-in-the-loop": ("VERSION", neighbour()),
    "load-in-the-phase-of-its-store": ("PHASE", same_phase()),
    "workspace-written-in-part": ("BUFFER", axis(shifted(), "i", extent=emax(N - 1, 0))),
    "atomic-on-nothing": ("BUFFER", view(histogram(), "h", role="out")),
    "workspace-written-where-valid": ("BUFFER",
        phase(shifted(), 0, lambda i: replace(i, attrs=("false",)) if isinstance(i, Let) and i.dtype == "bool" else i)
    ),
    "tail-stored": ("MASK", store(LEGAL_DOT, valid=90)),
    "specialization-too-weak": ("MASK", replace(LEGAL_LANES, specializations=(("c:LC", eq(N % 2, 0)),))),
    "not-neutral": ("PADDING", let(LEGAL, "Const", 0, attrs=("1.0",))),
    "generic-not-neutral": ("PADDING", let(masked_argmax(), "Const", 0, attrs=("0.0",))),
    "generic-lanes-not-neutral": ("PADDING", let(masked_argmax(True), "Const", 0, attrs=("0.0",))),
    "generic-lanes-unmasked": ("PADDING", let(masked_argmax(True), "Tri", 0, args=(90, 7, 1))),
    "chunk-read-after-its-loop": ("LABEL", with_items(LEGAL_LANES, (*LEGAL_LANES.segments[0].phases[0][:2], let_after_loop()))),
    "garbage-in-the-tail": ("PADDING", let(LEGAL, "FragRed", attrs=("max", "c:W"))),
    "accumulator-not-neutral": ("PADDING", let(LEGAL_LANES, "Const", 0, attrs=("1.0",))),
    "dot-over-garbage": ("PADDING", let(LEGAL_DOT, "Const", 0, attrs=("inf",))),
    "bound-excludes-a-member": ("NARROW", triangle(0)),
    "bound-of-another-dtype": ("NARROW", triangle(dtype="i64")),
    "barrier-dropped": ("BARRIER", in_place(True, False)),
}  # fmt: skip


def allowed(p: Program) -> Program:
    """Some mutants name a constant true that the sample lacks."""
    seen: set[int] = set()
    every(p, lambda i: seen.update(i.args if isinstance(i, Let) else (i.valid,) if isinstance(i, Store) else ()) or i)
    true = Let(90, "Const", ("true",), (), (), "bool")
    return with_items(p, (true, *p.segments[0].phases[0])) if 90 in seen else p


@pytest.mark.parametrize("name", BROKEN)
def test_each_fault_has_its_code(name: str) -> None:
    code, program = BROKEN[name]
    assert {d.code for d in verify(allowed(program))} == {CODES[code]}, [str(d) for d in verify(allowed(program))]


def paths(j: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    out = [at]
    for k, v in j.items() if isinstance(j, dict) else enumerate(j) if isinstance(j, list) else ():
        out += paths(v, (*at, k))
    return out


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_programs_never_crash_the_verifier(data: st.DataObject) -> None:
    j = json.loads(dumps(GOOD[data.draw(st.sampled_from(sorted(GOOD)))]))
    for _ in range(data.draw(st.integers(1, 2))):
        where = data.draw(st.sampled_from(paths(j["segments"])[1:] + paths(j["axes"])[1:] + paths(j["abi"])[1:]))
        parent = next(x for x in (j["segments"], j["axes"], j["abi"]) if where in paths(x))
        for k in where[:-1]:
            parent = parent[k]
        old = parent[where[-1]]
        junk = {int: [0, 1, 2, 3, 7, -1], str: ["c:W", "i:OB", "r:O1", "x", "f16", "bool", "sum", "c", "::"]}.get(type(old), [[], 1])
        parent[where[-1]] = data.draw(st.sampled_from(junk))
    try:
        p = from_json(j)
    except EqkirError:
        return
    assert all(d.code in CODES.values() for d in verify(p))


def test_every_check_has_a_mutant() -> None:
    assert {code for code, _ in BROKEN.values()} == set(CODES)
