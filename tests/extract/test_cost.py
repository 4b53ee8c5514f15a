"""Cost models: contracts, monotonicity, reuse, and the choices that intuition expects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.base.expr import Coord, Int, Sym
from eqkir.extract.cost import checked, cost_model, cost_models
from eqkir.extract.cost.model import Weights
from eqkir.extract.cost.occupancy import occupancy
from eqkir.extract.cost.space import decode, distinct, size
from eqkir.extract.cost.strides import coefficient, contiguous_axes, run_length
from eqkir.extract.cost.walk import Shape, visits
from eqkir.extract.extractors import extract
from eqkir.program.abi import Abi, Axis, SymbolParam, ViewParam
from eqkir.program.model import Carry, Let, Loop, Program, Segment, Store
from eqkir.targets import Target

from .programs import SHAPES, decoder, made, target

ROOF = cost_model("roofline")
NAMES = ("softmax", "gemm", "two", "argmax", "in_place")


def copy_program(
    b0: int = 1, b1: int = 1024, warps: int = 4, views: int = 1, dtype: str = "bf16", order: object = None, work: tuple[str, ...] = ()
) -> Program:
    """``Y = f(X0 + X1 …)`` over (R, C), a block of b0 x b1 an instance."""
    names = [f"X{i}" for i in range(views)]
    shape = (Sym("R"), Sym("C"))
    abi = Abi(
        "k",
        (*(ViewParam(n, "in", dtype, shape, i) for i, n in enumerate(names)), ViewParam("Y", "out", dtype, shape, views)),
        (),
        (SymbolParam("R"), SymbolParam("C")),
    )
    dims, ixs = ("i0:OB", "i1:OB"), (Coord("i0"), Coord("i1"))
    lets = [Let(0, "Const", ("true",), (), (), "bool"), Let(1, "Const", ("0.0",), (), (), dtype)]
    lets += [Let(2 + i, "Load", (n, 0, ixs, "ptr"), (0, 1), dims, dtype) for i, n in enumerate(names)]
    value = 2
    for i in range(1, views):
        lets.append(Let(len(lets), "Bin", ("add",), (value, 2 + i), dims, dtype))
        value = len(lets) - 1
    for fn in work:
        lets.append(Let(len(lets), "Un", (fn,), (value,), dims, dtype))
        value = len(lets) - 1
    items = (*lets, Store("Y", 1, ixs, value, 0, (), dims))
    tree = order or ("TProd", ("TAx", "i0:OB"), ("TAx", "i1:OB"))
    axes = (Axis("i0", Sym("R"), "own"), Axis("i1", Sym("C"), "own"))
    return Program(abi, axes, (Segment("g0", tree, "grid", (items,)),), {"B:i0": b0, "B:i1": b1}, {"num_warps": warps, "num_stages": 1})  # type: ignore[arg-type]


def cost(p: Program, t: Target | None = None, **shapes: int) -> float:
    return ROOF.program(p, t or target(), shapes or {"R": 8192, "C": 8192}).total


def test_copy_costs_its_bytes() -> None:
    c = ROOF.program(copy_program(), target(), {"R": 8192, "C": 8192})
    bytes_ = 2 * 8192 * 8192 * 2
    assert c.figures["dram_bytes"] == bytes_
    assert bytes_ / target().dram_bytes_per_s * 1e9 < c.total < 1.25 * bytes_ / target().dram_bytes_per_s * 1e9
    assert c.total == pytest.approx(sum(p.cost for p in c.parts))
    assert c.to_json()["parts"]


def test_more_bytes_never_cost_less() -> None:
    assert cost(copy_program(views=1)) < cost(copy_program(views=2)) < cost(copy_program(views=3))
    assert cost(copy_program(dtype="bf16")) < cost(copy_program(dtype="f32")) < cost(copy_program(dtype="f64"))
    sizes = [cost(copy_program(), R=r, C=8192) for r in (1, 16, 256, 1024, 4096, 8192, 65536)]
    assert sizes == sorted(sizes)


def test_more_work_never_costs_less() -> None:
    work = [cost(copy_program(work=("exp",) * n)) for n in range(8)]
    assert work == sorted(work) and work[-1] > work[0]


def test_short_runs_and_idle_lanes_cost() -> None:
    assert cost(copy_program(1, 1024)) < cost(copy_program(64, 16)) < cost(copy_program(256, 1))
    assert cost(copy_program(1, 1024)) < cost(copy_program(1, 32)) < cost(copy_program(1, 1))


def test_slower_machines_cost_more() -> None:
    p, t = copy_program(work=("exp",)), target()
    base = cost(p)
    for change in (
        {"dram_bytes_per_s": t.dram_bytes_per_s / 2},
        {"dram_latency_ns": 100 * t.dram_latency_ns},
        {"launch_ns": 2 * t.launch_ns},
        {"instance_ns": 50 * t.instance_ns},
        {"l2_bytes_per_s": t.l2_bytes_per_s / 8},
        {"lane_ops_per_s": {k: v / 50 for k, v in t.lane_ops_per_s.items()}},
        {"op_slots": {k: v * 50 for k, v in t.op_slots.items()}},
        {"sector_bytes": 4 * t.sector_bytes},
        {"op_latency_ns": 1000 * t.op_latency_ns},
        {"max_blocks_per_sm": 1},
        {"registers_per_sm": t.registers_per_sm // 8},
        {"max_threads_per_sm": 128},
    ):
        assert cost(p, t.model_copy(update=change)) > base, change


def gemm_program(m: int, n: int, k: int, warps: int = 8, stages: int = 3, order: object = None, impl: str = "mma") -> Program:
    abi = Abi(
        "k",
        (
            ViewParam("A", "in", "bf16", (Sym("M"), Sym("K")), 0),
            ViewParam("W", "in", "bf16", (Sym("K"), Sym("N")), 1),
            ViewParam("Y", "out", "f32", (Sym("M"), Sym("N")), 2),
        ),
        (),
        (SymbolParam("M"), SymbolParam("N"), SymbolParam("K")),
    )
    a, w = ("i0:OB", "c0:LC"), ("i1:OB", "c0:LC")
    body = (
        Let(2, "Load", ("A", 0, (Coord("i0"), Coord("c0")), "ptr"), (0, 1), a, "bf16"),
        Let(3, "Load", ("W", 0, (Coord("c0"), Coord("i1")), "ptr"), (0, 1), w, "bf16"),
    )
    out = ("i0:OB", "i1:OB")
    loop = Loop("c0", "c0:LC", 0, (Carry(4, "ConLoop", (impl,), (2, 3), (), out, "f32"),), body)
    items = (
        Let(0, "Const", ("true",), (), (), "bool"),
        Let(1, "Const", ("0.0",), (), (), "bf16"),
        loop,
        Store("Y", 1, (Coord("i0"), Coord("i1")), 4, 0, (), out),
    )
    tree = order or ("TProd", ("TAx", "i0:OB"), ("TAx", "i1:OB"))
    axes = (Axis("i0", Sym("M"), "own"), Axis("i1", Sym("N"), "own"), Axis("c0", Sym("K"), "loop"))
    bindings = {"B:i0": m, "B:i1": n, "C:c0": k, "G:g0": 8}
    return Program(abi, axes, (Segment("g0", tree, "grid", (items,)),), bindings, {"num_warps": warps, "num_stages": stages})  # type: ignore[arg-type]


BIG = {"M": 8192, "N": 8192, "K": 8192}


def gemm(p: Program, t: Target | None = None, shapes: dict[str, int] | None = None) -> float:
    return ROOF.program(p, t or target(), shapes or BIG).total


def test_gemm_reuse_needs_large_tiles_and_bands() -> None:
    t = target()
    floor = 2 * 8192**3 / t.dots[0].flops_per_s * 1e9
    assert floor < gemm(gemm_program(128, 256, 64)) < 1.5 * floor
    assert gemm(gemm_program(128, 256, 64)) < gemm(gemm_program(64, 64, 64)) < gemm(gemm_program(16, 16, 64))
    band = ("TSwz", ("TAx", "i0:OB"), ("TAx", "i1:OB"))
    a, b = (ROOF.program(gemm_program(128, 256, 64, order=o), t, BIG).figures["dram_bytes"] for o in (None, band))
    assert b < a


def test_gemm_capabilities() -> None:
    t, p = target(), gemm_program(128, 256, 64)
    for change in (
        {"dots": tuple(d.model_copy(update={"flops_per_s": d.flops_per_s / 4}) for d in t.dots)},
        {"clock_hz": t.clock_hz / 8},
        {"shared_bytes_per_clock": t.shared_bytes_per_clock // 8},
        {"matrix_rows": 1024},
        {"barrier_ns": t.barrier_ns * 100},
    ):
        assert gemm(p, t.model_copy(update=change)) > gemm(p), change
    fits = {"M": 4096, "N": 4096, "K": 1024}  # operands stay in L2, unless it is small
    assert gemm(p, t.model_copy(update={"l2_bytes": t.l2_bytes // 100}), fits) > gemm(p, t, fits)
    small = {"M": 128, "N": 256, "K": 64}
    assert gemm(p, t.model_copy(update={"l1_latency_ns": 1e5}), small) == gemm(p, t, small)  # nothing scalar here
    less = t.model_copy(update={"max_shared_per_block": 100_000})
    assert ROOF.program(p, less, BIG).reject.startswith("shared memory")
    tight = t.model_copy(update={"max_registers_per_thread": 64})
    assert ROOF.program(p, tight, BIG).reject.startswith("registers")
    assert occupancy(Shape(p, BIG), t, [list(visits(Shape(p, BIG), 0, p.segments[0]))]).shared == 3 * (128 + 256) * 64 * 2


def test_scalar_loops_are_latency_bound() -> None:
    t, p = target(), copy_program()
    ixs, dims = (Coord("i0"), Coord("i1")), ("i0:OB", "i1:L1")
    body = (
        Let(2, "Load", ("X0", 0, ixs, "ptr"), (0, 1), dims, "bf16"),
        Store("Y", 1, ixs, 2, 0, (), dims),
    )
    items = (*p.segments[0].phases[0][:2], Loop("i1", "i1:L1", 0, (), body))
    axes = (p.axes[0], Axis("i1", Sym("C"), "loop"))
    q = replace(
        p,
        axes=axes,
        segments=(Segment("g0", ("TAx", "i0:OB"), "grid", (items,)),),
        bindings={"B:i0": 1},
        options={"num_warps": 1, "num_stages": 1},
    )
    c = ROOF.program(q, t, {"R": 8192, "C": 8192})
    assert c.total > 10 * cost(p) and c.figures["latency_ns"] > c.figures["dram_ns"]
    assert cost(q, t.model_copy(update={"l1_latency_ns": 100 * t.l1_latency_ns})) > c.total


def test_orders_decode_to_bijections() -> None:
    a, b, c = ("TAx", "a:O1"), ("TAx", "b:OB"), ("TAx", "c:O1")
    blocks = {"a:O1": 5, "b:OB": 7, "c:O1": 3}
    for tree in (
        a,
        ("TRev", a),
        ("TInter", a),
        ("TProd", a, b),
        ("TSwz", a, b),
        ("TSwz", b, a),
        ("TProd", a, ("TSwz", b, c)),
        ("TInter", ("TProd", ("TRev", a), b)),
    ):
        n = size(tree, blocks)
        where = decode(tree, np.arange(n), blocks, 2)
        assert distinct(where, tuple(blocks)) == n
        assert all(0 <= v.min() and v.max() < blocks[k] for k, v in where.items())


def test_strides() -> None:
    i, j = Coord("i"), Coord("j")
    assert (
        coefficient(i * 3 + j, "i") == 3 and coefficient(j - i, "i") == -1 and coefficient(i // 2, "i") is None and coefficient(j, "i") == 0
    )
    assert contiguous_axes((i, j * 2 + i)) == ("i",) and contiguous_axes(()) == ()
    lanes = {"i": 4.0, "j": 8.0}.__getitem__
    assert (
        run_length((i, j), lanes, (100.0, 100.0)) == 8
        and run_length((i, j), lanes, (100.0, 8.0)) == 32
        and run_length((i, j * 2), lanes, (9.0, 9.0)) == 1
    )
    assert run_length((i, Int(0)), lanes, (100.0, 1.0)) == 4


@pytest.mark.parametrize("model", sorted(cost_models()))
@pytest.mark.parametrize("name", NAMES)
def test_contracts(model: str, name: str) -> None:
    a, g, p = made(name, model)
    m = cost_model(model)
    assert m.contract.unit and not np.isnan(p.weight).any() and (p.weight >= 0).all()
    c = extract(p)[0]
    row = p.rows[c.row]
    program = decoder(a)(g, c.selection, row.values, row.launch)
    full = m.program(program, target(), SHAPES[name])
    assert full.total == pytest.approx(sum(x.cost for x in full.parts)) and full.total > 0
    if m.contract.monotone:  # a program without its last segment, or without a store, is never dearer
        for i, s in enumerate(program.segments):
            fewer = replace(program, segments=(*program.segments[:i], *program.segments[i + 1 :]))
            assert m.program(fewer, target(), SHAPES[name]).total <= full.total * (1 + 1e-12)
            less = replace(s, phases=tuple(ph[:-1] if isinstance(ph[-1], Store) else ph for ph in s.phases))
            assert m.program(
                replace(program, segments=(*program.segments[:i], less, *program.segments[i + 1 :])), target(), SHAPES[name]
            ).total <= full.total * (1 + 1e-9)
        more = {k: 2 * v for k, v in SHAPES[name].items()}
        assert m.program(program, target(), more).total >= full.total


def test_broken_contracts_are_refused() -> None:
    _, _, p = made("softmax")
    ok = np.isfinite(p.weight)
    for w in (np.full(p.weight.shape, -1.0), np.full(p.weight.shape, np.nan), np.zeros((2, 2))):
        with pytest.raises(EqkirError) as e:
            checked(ROOF, Weights(w, {}), ok)
        assert e.value.diagnostics[0].code == "EQK-EXTRACT-CONTRACT"
    with pytest.raises(EqkirError) as e:
        cost_model("oracle")
    assert e.value.diagnostics[0].code == "EQK-EXTRACT-COST" and "roofline" in e.value.diagnostics[0].accepted
