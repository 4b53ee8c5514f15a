"""Loops that are taken in blocks under rectangles of tiles: the same bits as without blocks, at every edge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.cpu import interp as task_interp
from eqkir.cpu.blocking import blocking
from eqkir.cpu.expand import expand
from eqkir.cpu.model import Alloc, TaskProgram, statements
from eqkir.cpu.verify import verify
from eqkir.driver.edges import cuts
from eqkir.program.interp import Buffer
from eqkir.program.model import Program
from eqkir.program.serialize import dumps, loads

from .programs import supplied
from .test_tasks import chain_of, compared

V4 = "mojo:x86-64-v4"


def cut(program: Program, depth: int, tiles: int, **bindings: int) -> Program:
    """The program from panels, its loops in blocks of `depth` members."""
    options = {**program.options, "contract_panels.depth": depth, "contract_panels.tiles": tiles}
    return replace(supplied(program), bindings={**program.bindings, **bindings}, options=options)


def run(t: TaskProgram, m: int, n: int, k: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shapes = {"A": (m, k), "B": (k, n), "Y": (m, n)}
    a = {v: rng.standard_normal(s).astype(NUMPY["f32"]) for v, s in shapes.items()}
    a["Y"][...] = np.nan
    task_interp.run(t, {v: Buffer.of(x) for v, x in a.items()}, {"M": m, "N": n, "K": k})
    return a["Y"]


@pytest.mark.parametrize("k", [0, 1, 7, 8, 9, 16, 23])
def test_blocks_change_no_bit(k: int) -> None:
    """Lengths of no block, of a part of one, of whole ones and of whole ones and a part; tiles inside and at the ends of both axes."""
    p = chain_of("gemm_f32", target=V4).program
    bindings = {"B:i0": 2, "B:i1": 16}
    t, whole = expand(cut(p, 8, 2, **bindings), 64), expand(cut(p, 0, 2, **bindings), 64)
    assert verify(t) == []
    for m, n in ((1, 1), (9, 70), (8, 64), (4, 33)):
        assert np.array_equal(run(t, m, n, k), run(whole, m, n, k)), (m, n)


@pytest.mark.parametrize("depth, cut_", [(8, True), (6, False)])
def test_blocks_are_whole_chunks(depth: int, cut_: bool) -> None:
    """A loop in chunks of four members; its last block, and its last chunk, are partly filled."""
    c = chain_of("gemm_f32", target=V4)
    bindings = {"B:i0": 2, "B:i1": 16, "C:c0": 4}
    p = replace(loads(dumps(c.program).replace(b"c0:L1", b"c0:LC")), bindings={**c.program.bindings, **bindings})
    t, whole = expand(cut(p, depth, 2, **bindings), 64), expand(cut(p, 0, 2, **bindings), 64)
    assert all(bool(blocking(cut(p, depth, 2, **bindings), s)) == cut_ for s in p.segments)
    assert verify(t) == []
    for k in (3, 8, 21):
        assert np.array_equal(run(t, 9, 70, k), run(whole, 9, 70, k)), k


@pytest.mark.parametrize("tiles", [2, 4])
@pytest.mark.parametrize("name", ["gemm_bias_gelu_bf16", "dual_gemm_swiglu_bf16", "gemm_nt_bf16", "gemm_tn_bf16"])
def test_operands_results_and_what_follows_of_any_kind(name: str, tiles: int) -> None:
    """Casts before, a bias and functions behind, two contractions in one loop, either layout of an operand."""
    c = chain_of(name, target=V4)
    p = cut(c.program, 4, tiles)
    assert any(blocking(p, s) for s in p.segments)
    t = expand(p, 64)
    assert verify(t) == []
    v = compared(c, p, t, seed=tiles)
    assert v.ok, v.mistakes


def test_what_tiles_carry_lies_in_memory_of_the_task() -> None:
    p = cut(chain_of("gemm_f32", target=V4).program, 256, 2, **{"B:i0": 4, "B:i1": 32})
    t = expand(p, 64)
    held = [s for s in statements(t.stages[-1][0].body) if isinstance(s, Alloc)]
    assert [(s.dtype, s.size) for s in held] == [("f32", 4 * 32 * 2 * 2)]
    assert {"M": 8, "N": 64, "K": 256}.items() == cuts(p).items(), "the checks reach past every block"


def test_what_is_not_one_loop_of_one_phase_is_not_cut() -> None:
    p = chain_of("gemm_f32", target=V4).program
    assert all(blocking(cut(p, 0, 8), s) is None for s in p.segments), "no depth"
    assert all(blocking(cut(p, 8, 1), s) is None for s in p.segments), "one tile"
    assert all(blocking(cut(p, 8, 16, **{"B:i0": 32, "B:i1": 64}), s) is None for s in p.segments), "more than a task may hold"


@pytest.mark.parametrize("size, cut_", [(2048, True), (96, False)])
def test_the_row_of_a_long_product_cuts_its_loop(size: int, cut_: bool) -> None:
    c = chain_of("gemm_f32", target=V4, shapes={"M": size, "N": size, "K": size})
    if cut_:
        assert c.program.options["contract_panels.depth"] > 0 and any(blocking(c.program, s) for s in c.program.segments)
    else:
        assert not any(blocking(c.program, s) for s in c.program.segments)


def test_rows_that_lie_a_power_of_two_apart_are_packed() -> None:
    """Pieces of them meet in a few sets of a cache, so that none is found there again."""
    for size in (1024, 2048):
        c = chain_of("gemm_f32", target=V4, shapes={"M": size, "N": size, "K": size})
        assert "contract_panels" in c.program.implementations


def test_a_product_of_a_value_with_itself_is_supplied_once() -> None:
    """Sums of squares beside a product, both from the panels of the operand that lies across."""
    c = chain_of("pairwise_distance_f32", target=V4, shapes={"M": 512, "N": 256, "K": 64})
    t = expand(c.program, 64)
    assert "contract_panels" in c.program.implementations and len(t.resources) == 2
    v = compared(c, c.program, t)
    assert v.ok, v.mistakes
