"""Panels: filled once for everyone who wants the same form, in a stage of their own, right at every edge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqkir.cpu import interp as task_interp
from eqkir.cpu.expand import expand
from eqkir.cpu.model import Load, TaskProgram, Write, statements
from eqkir.cpu.verify import verify
from eqkir.program.interp import Buffer
from eqkir.program.model import Carry, Let, Loop, Program, Store
from eqkir.program.verify import verify as program_verify

from .programs import PANELS, supplied
from .test_tasks import chain_of, compared


def paneled(program: Program, **bindings: int) -> TaskProgram:
    """The program with its contractions from panels."""
    return expand(replace(supplied(program), bindings={**program.bindings, **bindings}), 64)


def test_a_contraction_reads_panels_that_an_earlier_stage_fills() -> None:
    c = chain_of("gemm_f32", target="mojo:x86-64-v4")
    t = paneled(c.program)
    assert verify(t) == [] and len(t.stages) == 2 and len(t.stages[0]) == 1
    (fill,), (main,) = t.stages
    (r,) = t.resources
    assert {s.place for s in statements(fill.body) if isinstance(s, Write)} == {r.name} and r.owner == "invocation"
    read = {s.place for s in statements(main.body) if isinstance(s, Load)}
    assert r.name in read and "B" not in read
    v = compared(c, c.program, t)
    assert v.ok, v.mistakes


@pytest.mark.parametrize("bindings", [{"B:i0": 4, "B:i1": 64, "C:c0": 1}, {"B:i0": 2, "B:i1": 16, "C:c0": 4}])
def test_panels_of_any_width_hold_the_operand(bindings: dict[str, int]) -> None:
    c = chain_of("gemm_f32", target="mojo:x86-64-v4")
    v = compared(c, c.program, paneled(c.program, **bindings), seed=1)
    assert v.ok, v.mistakes


def test_two_readers_of_one_form_share_its_panels() -> None:
    """Two contractions in one program: each of the two right operands is filled once, however many bodies of an instance read it."""
    c = chain_of("dual_gemm_swiglu_bf16", target="mojo:x86-64-v4")
    t = paneled(c.program)
    assert verify(t) == [] and len(t.resources) == len(t.stages[0]) == 2
    bodies = [sum(isinstance(s, Load) and s.place == r.name for s in statements(t.stages[1][0].body)) for r in t.resources]
    assert min(bodies) > 2
    v = compared(c, c.program, t)
    assert v.ok, v.mistakes


def test_ids_of_one_phase_say_nothing_of_another() -> None:
    """A second phase, whose load has the id of the first one's panel and reads another view."""
    c = chain_of("gemm_f32", target="mojo:x86-64-v4")
    p, abi = c.program, c.program.abi
    (segment,) = p.segments
    (phase,) = segment.phases
    loop, store = next(x for x in phase if isinstance(x, Loop)), phase[-1]
    assert isinstance(store, Store)
    left, right = (x for x in loop.body if isinstance(x, Let) and x.op == "Load")
    other = replace(right, attrs=("D", *right.attrs[1:]))
    free = max(x.id for x in phase if isinstance(x, Let)) + 90
    product = Let(free, "Bin", ("mul",), (left.id, right.id), (*store.dims, loop.label), "f32")
    total = Carry(loop.carries[0].id, "RedLoop", ("sum", "tree"), (product.id,), (), store.dims, "f32")
    second = (*phase[: phase.index(loop)], replace(loop, carries=(total,), body=(left, other, product)), replace(store, view="S"))
    views = (*abi.views, replace(abi.view("B"), name="D", alias=8), replace(abi.view("Y"), name="S", alias=9))
    both = replace(
        p, abi=replace(abi, views=views, noalias=(("A", "B", "Y", "D", "S"),)), segments=(replace(segment, phases=(phase, second)),),
        implementations=PANELS,
    )  # fmt: skip
    assert program_verify(both) == []
    t = expand(both, 64)
    assert verify(t) == [] and len(t.resources) == 1
    rng, m, n, k = np.random.default_rng(0), 9, 40, 6
    a = {v: rng.integers(1, 9, s).astype(np.float32) for v, s in {"A": (m, k), "B": (k, n), "D": (k, n), "Y": (m, n), "S": (m, n)}.items()}
    task_interp.run(t, {v: Buffer.of(x) for v, x in a.items()}, {"M": m, "N": n, "K": k})
    assert np.array_equal(a["Y"], a["A"] @ a["B"]) and np.array_equal(a["S"], a["A"] @ a["D"])
