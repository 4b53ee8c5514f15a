"""The program interpreter: right results in every form, and each violation detected under its own code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from program_samples import Block, abi, argmax, elementwise, gemm, histogram, softmax, with_items

from eqkir.base.diagnostics import EqkirError
from eqkir.base.expr import Coord, Dep, Int, Sym, emax, lt
from eqkir.program.abi import Axis
from eqkir.program.interp import Buffer, run, run_index_only
from eqkir.program.model import Carry, Loop, Order, Program, Segment, Store

ROW = {"B:r": 8, "C:c": 16}
SWZ: Order = ("TSwz", ("TAx", "i:OB"), ("TAx", "j:OB"))


def code(program: Program, args: dict[str, Any], **kw: Any) -> str:
    with pytest.raises(EqkirError) as e:
        run(program, args, **kw)
    return e.value.diagnostics[0].code


@pytest.mark.parametrize("n", [0, 1, 16, 101])
@pytest.mark.parametrize("program", [
    elementwise(),
    elementwise(("TAx", "i:OB"), **{"B:i": 16}),
    elementwise(("TRev", ("TInter", ("TAx", "i:OB"))), "stride", **{"B:i": 16, "P:g0": 3}),
])  # fmt: skip
def test_elementwise_in_every_traversal(program: Program, n: int) -> None:
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    y = np.full_like(x, np.nan)
    r = run(program, {"x": Buffer.of(x), "y": Buffer.of(y), "s": 1.5})
    assert np.array_equal(y, (x + np.float32(1.5)) * np.float32(2)) and r.unwritten == {}


@pytest.mark.parametrize("order", ["tree", "reversed", "sequential"])
@pytest.mark.parametrize("program", [
    softmax(), softmax("LC", "OB", **ROW), softmax("LC", "O1", "lanes", **ROW), softmax("LC", "OB", "lanes", **ROW),
    softmax("W", "OB", **{"B:r": 4, "F:c": 64}),
])  # fmt: skip
def test_softmax_in_every_form(program: Program, order: str) -> None:
    x = np.random.default_rng(0).standard_normal((20, 40)).astype(np.float32)
    x[3, 7], x[5] = -np.inf, 1e4
    y = np.full_like(x, np.nan)
    run(program, {"x": Buffer.of(x), "y": Buffer.of(y)}, order=order)
    e = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=2e-6)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("kw", [
    {}, {"own": "OB", "k": "LC", "B:i": 8, "B:j": 16, "C:k": 4},
    {"own": "OB", "k": "LC", "order": SWZ, "B:i": 2, "B:j": 4, "C:k": 4, "G:g0": 3},
    {"own": "OB", "k": "W", "B:i": 8, "B:j": 16, "F:k": 32}, {"own": "OB", "k": "L1", "B:i": 8, "B:j": 16},
])  # fmt: skip
def test_gemm_in_every_form(kw: dict[str, Any], dtype: str) -> None:
    rng, t = np.random.default_rng(0), bfloat16 if dtype == "bf16" else np.float32
    a, b, c = rng.standard_normal((19, 17)).astype(t), rng.standard_normal((17, 23)).astype(t), np.empty((19, 23), t)
    run(gemm(dtype=dtype, **kw), {"a": Buffer.of(a), "b": Buffer.of(b), "c": Buffer.of(c)})
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), want, rtol=2**-8 if dtype == "bf16" else 1e-5, atol=1e-5)


def test_contract_keeps_infinities_and_empty_sums() -> None:
    a, b = np.array([[np.inf, 1], [0, 2]], np.float32), np.array([[0, 1], [1, 1]], np.float32)
    for kw in ({}, {"own": "OB", "k": "W", "B:i": 4, "B:j": 4, "F:k": 4}):
        c = np.zeros((2, 2), np.float32)
        run(gemm(**kw), {"a": Buffer.of(a), "b": Buffer.of(b), "c": Buffer.of(c)})  # type: ignore[arg-type]
        assert np.isnan(c[0, 0]) and c[0, 1] == np.inf and c[1].tolist() == [2, 2]
        run(gemm(**kw), {"a": Buffer.of(a[:, :0]), "b": Buffer.of(b[:0]), "c": Buffer.of(c)})  # type: ignore[arg-type]
        assert (c == 0).all()


def test_strided_offset_and_negative_views() -> None:
    base = np.arange(60, dtype=np.float32)
    x, out = base[50:8:-3], np.full(64, np.nan, np.float32)
    y = out[5 : 5 + 2 * x.size : 2]
    run(elementwise(("TAx", "i:OB"), **{"B:i": 4}), {"x": Buffer.of(x), "y": Buffer.of(y), "s": 0.0})
    assert np.array_equal(y, x * 2) and np.isnan(out[4 : 5 + 2 * x.size : 2][0])
    t = np.asfortranarray(np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32))
    z = np.empty((5, 7), np.float32)
    run(softmax(), {"x": Buffer.of(t), "y": Buffer.of(z)})
    assert np.allclose(z.sum(1), 1)


@pytest.mark.parametrize("order", ["tree", "reversed", "sequential"])
@pytest.mark.parametrize("program", [
    argmax("L1"), argmax("LC", **{"C:c": 4}), argmax("LC", "lanes", **{"C:c": 4}), argmax("W", **{"F:c": 16})
])  # fmt: skip
def test_generic_reduction_ties_and_nan(program: Program, order: str) -> None:
    x = np.random.default_rng(0).integers(0, 4, (9, 11)).astype(np.float32)
    x[2, [4, 8]], x[3] = np.nan, -np.inf
    y = np.empty(9, np.int64)
    run(program, {"x": Buffer.of(x), "y": Buffer.of(y)}, order=order)
    assert y.tolist() == np.argmax(x, axis=1).tolist()


# ------------------------------------------------------------------------------------------------ detection
def one(
    store: tuple[Any, ...],
    load: tuple[Any, ...],
    view: str = "x",
    roles: tuple[str, str] = ("in", "out"),
    label: str = "i:O1",
    alias: bool = False,
) -> Program:
    """y[store] = view[load]"""
    b = Block()
    v = b.load(view, load, (label,))
    b.store("y", store, v, (label,))
    a = abi("one", ("x", roles[0], "f32", ("N",)), ("y", roles[1], "f32", ("N",)))
    if alias:
        a = replace(a, views=tuple(replace(v, alias=0) for v in a.views))
    kind = "own" if label.startswith("i:O") else "loop"
    order = ("TAx", label) if kind == "own" else ("TUnit",)
    items = tuple(b.items) if kind == "own" else (Loop("i", label, 0, (), tuple(b.items)),)
    return Program(a, (Axis("i", Sym("N"), kind),), (Segment("g0", order, "grid", (items,)),), {})


def buffers(n: int = 8) -> dict[str, Any]:
    return {"x": Buffer.of(np.ones(n, np.float32)), "y": Buffer.of(np.zeros(n, np.float32))}


def test_out_of_bounds_is_detected_in_active_lanes_only() -> None:
    assert code(one(("i",), (Coord("i") + 1,)), buffers()) == "EQK-INT-OOB"
    assert code(one((Coord("i") - 1,), ("i",)), buffers()) == "EQK-INT-OOB"
    run(elementwise(("TAx", "i:OB"), **{"B:i": 64}), {**buffers(), "s": 0.0})  # 56 inactive lanes are outside


def test_double_writes_are_detected() -> None:
    assert code(one((Coord("i") // 2,), ("i",)), buffers()) == "EQK-INT-DOUBLE-WRITE"
    assert code(one((Coord("i") // 2,), ("i",), label="i:L1"), buffers()) == "EQK-INT-DOUBLE-WRITE"
    y = Buffer(np.zeros(8, np.float32), 0, (8,), (0,))
    assert code(one(("i",), ("i",)), {**buffers(), "y": y}) == "EQK-INT-DOUBLE-WRITE"


def test_dependences_between_instances_are_detected() -> None:
    m = np.ones(16, np.float32)
    x, y = Buffer(m, 0, (8,), (1,)), Buffer(m, 1, (8,), (1,))
    assert code(one(("i",), ("i",), roles=("in", "inout"), alias=True), {"x": x, "y": y}) == "EQK-INT-CROSS"
    assert code(one(("i",), ("i",)), {"x": x, "y": y}) == "EQK-INT-ARGS"  # declared disjoint


def test_reads_of_unwritten_memory_and_missing_writes_are_detected() -> None:
    assert code(one(("i",), ("i",), view="y"), buffers()) == "EQK-INT-UNWRITTEN"
    p = one((Coord("i") + 0,), ("i",))
    wide = replace(p, abi=replace(p.abi, views=(p.abi.views[0], replace(p.abi.views[1], shape=(Int(9),)))))
    assert run(wide, {**buffers(), "y": Buffer.of(np.zeros(9, np.float32))}).unwritten == {"y": 1}


def test_wrong_versions_are_detected() -> None:
    b = Block()
    b.store("y", ("i",), b.const("1.0"), ("i:O1",), version=1)
    v = b.load("y", ("i",), ("i:O1",), version=0)
    b.store("x", ("i",), v, ("i:O1",))
    a = abi("late", ("x", "out", "f32", ("N",)), ("y", "inout", "f32", ("N",)))
    p = Program(a, (Axis("i", Sym("N"), "own"),), (Segment("g0", ("TAx", "i:O1"), "grid", (tuple(b.items),)),), {})
    assert code(p, buffers()) == "EQK-INT-VERSION"


def test_inactive_lanes_leak_visibly() -> None:
    """The tail of a fragment holds garbage that a structured reduction ignores, and that a legal one without a mask sums."""
    b = Block()
    x = b.load("x", ("c",), ("c:W",))
    s = b.let("RedTree", ("sum", "c:W"), (x,), ())
    b.store("y", (0,), s, ())
    a = abi("total", ("x", "in", "f32", ("N",)), ("y", "out", "f32", (1,)))
    p = Program(a, (Axis("c", Sym("N"), "loop"),), (Segment("g0", ("TUnit",), "grid", (tuple(b.items),)),), {"F:c": 16})
    y = np.zeros(1, np.float32)
    run(p, {"x": Buffer.of(np.ones(11, np.float32)), "y": Buffer.of(y)})
    assert y[0] == 11
    b = Block()
    x = b.let("Const", ("1.0",), (), (), "f32")
    ones = b.let("Splat", (), (x,), ("c:W",))
    b.store("y", (0,), b.let("FragRed", ("sum", "c:W"), (ones,), ()), ())
    p = replace(p, segments=(Segment("g0", ("TUnit",), "grid", (tuple(b.items),)),), stage="legal")
    run(p, {"x": Buffer.of(np.ones(11, np.float32)), "y": Buffer.of(y)})
    assert y[0] == 16


def test_legal_operations_execute_as_written() -> None:
    """Masked tail: Active, LoadM, Tri, FragRed, Splat, Phi, masked Store."""
    b = Block()
    zero = b.const("0.0")
    acc0 = b.let("Splat", (), (zero,), ("c:LC",))
    body = b.body()
    act = body.let("Active", ("c:LC",), (), ("c:LC",), "bool")
    x = body.let("LoadM", ("x", 0, (Coord("c"),), "ptr"), (act, zero), ("c:LC",))
    acc = b.new()
    nxt = body.bin("add", acc, x, ("c:LC",))
    b.items.append(Loop("c", "c:LC", 0, (Carry(acc, "Phi", (), (nxt,), (acc0,), ("c:LC",), "f32"),), tuple(body.items)))
    s = b.let("FragRed", ("sum", "c:LC"), (acc,), ())
    b.items.append(Store("y", 1, (Int(0),), s, b.true(), (), (), True))
    a = abi("total", ("x", "in", "f32", ("N",)), ("y", "out", "f32", (1,)))
    p = Program(a, (Axis("c", Sym("N"), "loop"),), (Segment("g0", ("TUnit",), "grid", (tuple(b.items),)),), {"C:c": 4}, stage="legal")
    for n in (0, 1, 11, 12):
        y = np.zeros(1, np.float32)
        run(p, {"x": Buffer.of(np.arange(n, dtype=np.float32)), "y": Buffer.of(y)})
        assert y[0] == n * (n - 1) / 2


def test_data_dependent_indices_and_validity() -> None:
    b, d = Block(), ("i:OB",)
    j = b.load("x", ("i",), d, "i32")
    ok = b.let("Index", (lt(Dep(0), Sym("N")),), (j,), d, "bool")
    g = b.let("Load", ("z", 0, (Dep(0),), "ptr"), (ok, b.const("-1.0"), j), d)
    b.store("y", ("i",), g, d)
    a = abi("gather", ("x", "in", "i32", ("N",)), ("z", "in", "f32", ("N",)), ("y", "out", "f32", ("N",)))
    p = Program(a, (Axis("i", Sym("N"), "own"),), (Segment("g0", ("TAx", "i:OB"), "grid", (tuple(b.items),)),), {"B:i": 4})
    y = np.zeros(6, np.float32)
    x = np.array([5, 0, 77, 3, 6, 1], np.int32)
    run(p, {"x": Buffer.of(x), "z": Buffer.of(np.arange(6, dtype=np.float32)), "y": Buffer.of(y)})
    assert y.tolist() == [5, 0, -1, 3, -1, 1]


@pytest.mark.parametrize("dtype", ["i32", "bf16", "f32"])
@pytest.mark.parametrize("program", ["O1", "OB"])
def test_atomic_stores_of_instances_meet(program: str, dtype: str) -> None:
    x = np.array([0, 3, 3, 1, 9, -1, 3, 0, 3], np.int32)
    h = np.array([5, 0, 0, 1], bfloat16 if dtype == "bf16" else np.dtype(dtype.replace("i32", "int32").replace("f32", "float32")))
    run(histogram(f"i:{program}", dtype, **{"B:i": 4}), {"x": Buffer.of(x), "h": Buffer.of(h)})
    assert h.astype(int).tolist() == [7, 1, 0, 5]
    late = replace(histogram(dtype=dtype).segments[0].phases[0][-1], mode="store")
    p = with_items(histogram(dtype=dtype), (*histogram(dtype=dtype).segments[0].phases[0][:-1], late))
    assert code(p, {"x": Buffer.of(x), "h": Buffer.of(h)}) == "EQK-INT-DOUBLE-WRITE"


def test_phases_see_earlier_writes_of_their_instance() -> None:
    """x[1:] = x[:-1] on one view, through a workspace in one instance."""
    a = abi("shift", ("x", "inout", "f32", ("N",)), ("w", "workspace", "f32", ("N",)))
    first, second = Block(), Block()
    body = first.body()
    body.store("w", ("i",), body.load("x", ("i",), ("i:L1",)), ("i:L1",))
    first.items.append(Loop("i", "i:L1", 0, (), tuple(body.items)))
    body = second.body()
    body.store("x", (Coord("j") + 1,), body.load("w", ("j",), ("j:L1",), version=1), ("j:L1",))
    second.items.append(Loop("j", "j:L1", 0, (), tuple(body.items)))
    axes = (Axis("i", Sym("N"), "loop"), Axis("j", emax(Sym("N") - 1, 0), "loop"))
    p = Program(a, axes, (Segment("g0", ("TUnit",), "grid", (tuple(first.items), tuple(second.items))),), {})
    x = np.arange(6, dtype=np.float32)
    run(p, {"x": Buffer.of(x)})
    assert x.tolist() == [0, 0, 1, 2, 3, 4]


def test_subset_of_programs() -> None:
    y = np.full(40, np.nan, np.float32)
    p = elementwise(("TAx", "i:OB"), **{"B:i": 16})
    r = run(p, {"x": Buffer.of(np.ones(40, np.float32)), "y": Buffer.of(y), "s": 0.0}, programs=[1])
    assert np.isfinite(y).tolist() == [16 <= i < 32 for i in range(40)] and r.unwritten == {"y": 24}


def test_index_arithmetic_past_2_to_31() -> None:
    m = n = 3 * 2**20
    p = gemm("OB", "LC", SWZ, **{"B:i": 128, "B:j": 128, "C:k": 64, "G:g0": 8})
    last = (m // 128) * (n // 128) - 1
    touches = run_index_only(p, {"M": m, "N": n, "K": 2**20}, [0, last])
    store = [t for t in touches if t.kind == "store" and t.pid == last][0]
    assert int(store.address.max()) == m * n - 1 > 2**31
    loads = [t for t in touches if t.view == "a" and t.pid == last]
    assert int(loads[-1].address.max()) == m * 2**20 - 1
    with pytest.raises(EqkirError):
        run_index_only(p, {"M": m, "N": n, "K": 1}, [last + 1])
