"""Lanes that move: scans inside vectors, blocks that are turned in registers, and tests that hold in whole blocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqkir.cpu import interp
from eqkir.cpu.expand import expand
from eqkir.cpu.model import Load, Op, Statement, TaskProgram, statements
from eqkir.cpu.verify import verify
from eqkir.emit.mojo.spell import module
from eqkir.program.interp import Buffer
from tests.cpu.test_tasks import chain_of, compared


def every(tasks: TaskProgram) -> list[Statement]:
    return [s for st in tasks.stages for g in st for s in statements(g.body)]


def permutes(tasks: TaskProgram) -> list[Op]:
    return [s for s in every(tasks) if isinstance(s, Op) and s.op == "Permute"]


@pytest.mark.parametrize("name", ["cumsum_f32", "cummax_f32", "cumsum_reverse_f32", "cumsum_exclusive_f32", "linear_recurrence_f32"])
@pytest.mark.parametrize("vector_bytes", [32, 64])
def test_scans_inside_vectors_are_scans(name: str, vector_bytes: int) -> None:
    c = chain_of(name, target="mojo:x86-64-v4")
    tasks = expand(c.program, vector_bytes)
    assert verify(tasks) == []
    v = compared(c, c.program, tasks)
    assert v.ok, v.mistakes


def test_a_scan_along_memory_is_made_inside_vectors_and_keeps_the_order() -> None:
    c = chain_of("cumsum_f32", target="mojo:x86-64-v4")
    tasks = expand(c.program, 64)
    assert permutes(tasks) and "shuffle[" in module(tasks).text
    assert all(lane <= k for s in permutes(tasks) for k, lane in enumerate(s.attrs[0])), "a lane takes in none behind it"
    for n in (1, 15, 16, 17, 64, 100):
        x = np.random.default_rng(n).integers(-50, 50, (3, n)).astype(np.float32)
        y = Buffer.of(np.zeros_like(x))
        interp.run(tasks, {"X": Buffer.of(x), "Y": y}, {"M": 3, "N": n})
        assert (y.memory.reshape(3, n) == np.cumsum(x, 1)).all()


def test_a_load_that_lies_across_is_made_along_itself_and_turned() -> None:
    c = chain_of("transpose_add_f32", target="mojo:x86-64-v4", shapes={"M": 4096, "N": 4096})
    blocks = [k for k in c.program.bindings if k.startswith("B:")]
    assert len(blocks) == 2, "both axes have blocks, since lines of the operand that lies across are shared no other way"
    tasks = expand(replace(c.program, bindings={**c.program.bindings, **dict.fromkeys(blocks, 16)}), 64)
    assert verify(tasks) == [] and permutes(tasks)
    assert sum(isinstance(s, Op) and s.op == "Build" for s in every(tasks)) == 0
    assert any(isinstance(s, Load) and s.place == "B" and s.access == "contiguous" and s.type.width == 16 for s in every(tasks))
    for m, n in ((16, 16), (33, 65), (40, 7)):
        r = np.random.default_rng(m)
        a, b = r.standard_normal((m, n)).astype(np.float32), r.standard_normal((n, m)).astype(np.float32)
        y = Buffer.of(np.zeros_like(a))
        interp.run(tasks, {"A": Buffer.of(a), "B": Buffer.of(b), "Y": y}, {"M": m, "N": n})
        assert (y.memory.reshape(m, n) == a + b.T).all()


def test_a_coordinate_below_its_extent_is_no_question_in_whole_chunks() -> None:
    """`variance_f32` asks of every member whether it is one: its main loop does not."""
    c = chain_of("variance_f32", target="mojo:x86-64-v4")
    tasks = expand(c.program, 64)
    v = compared(c, c.program, tasks)
    assert v.ok, v.mistakes
    wide = [s for s in every(tasks) if isinstance(s, Op) and s.op == "Bin" and s.attrs == ("lt",) and s.type.width > 1]
    whole = [s for s in every(expand(replace(c.program, options=dict(c.program.options)), 64)) if isinstance(s, Load) and s.mask < 0]
    assert whole and len(wide) <= len([s for s in every(tasks) if isinstance(s, Load) and s.mask >= 0]) + 2
