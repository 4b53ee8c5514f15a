"""Loops whose steps depend on each other through memory: the reference, P0, candidates of the graph and emitted Triton agree."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from eqkir.emit.triton import emit
from eqkir.emit.triton.checks import EVEN, compile_batch, interpret_batch
from eqkir.emit.triton.checks import Case as Launch
from eqkir.emit.triton.legality import check
from eqkir.kir.builder import Builder
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.inputs import make_inputs
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Kernel, View
from eqkir.kir.types import infer
from eqkir.program.abi import parameter
from eqkir.program.abstract import Abstract
from eqkir.program.construct import construct
from eqkir.program.construction import verify_construction
from eqkir.program.interp import Buffer, run
from eqkir.program.lower import conservative
from eqkir.program.model import Barrier, Loop, Program
from eqkir.program.verify import verify
from eqkir.rules.saturate import Limits, saturate
from eqkir.terms.decode import DecodeError, decode
from tests.construct.against import agrees
from tests.construct.loops import CASES, Case
from tests.terms.sampling import sample

each = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


@cache
def made(name: str) -> tuple[Kernel, Abstract]:
    k = Builder(name)
    next(c for c in CASES if c.name == name).fill(k)
    kernel = k.build()
    return kernel, construct(kernel)


@cache
def candidates(name: str) -> tuple[Program, ...]:
    """P0 and verified random selections of the saturated graph."""
    a, rng = made(name)[1], random.Random(2)
    graph, out = saturate(a, limits=Limits(seconds=60)).graph, [conservative(a)]
    for n in range(24):
        sizes = {f"{q}:{x.name}": 16 if n % 2 else rng.choice((1, 4, 16)) for x in a.axes for q in "BC"}
        sizes |= {f"F:{x.name}": 64 for x in a.axes} | {f"{q}:{g.name}": 2 for g in a.groups for q in "GP"}
        try:
            p = decode(graph, sample(graph, rng), a, sizes, {})
        except DecodeError:
            continue
        if not verify(p) and p not in out:
            out.append(p)
        if len(out) == 4:
            break
    return tuple(out)


@each
def test_the_kernel_is_constructed_and_verified(case: Case) -> None:
    kernel, a = made(case.name)
    p = conservative(a)
    assert a.inner and a.ordered
    assert [str(d) for d in verify(p)] == []
    assert [str(d) for d in verify_construction(kernel, infer(kernel), a, p)] == []
    for seed, row in enumerate(case.rows):
        assert agrees(kernel, a, row, seed, scalars=case.scalars)


def test_steps_that_may_meet_are_divided_by_barriers() -> None:
    """Where threads of one instance exchange data between steps, a barrier stands at the end of each."""
    for case in CASES:
        p = conservative(made(case.name)[1])
        ordered = {x for axes in p.inner.values() for x in axes}
        loops = [i for s in p.segments for ph in s.phases for i in ph if isinstance(i, Loop) and i.axis in ordered]
        assert loops and all(isinstance(i.body[-1], Barrier) for i in loops)


@each
def test_candidates_agree(case: Case) -> None:
    kernel, _ = made(case.name)
    found = candidates(case.name)
    assert len(found) > 1
    for seed, row in enumerate(case.rows):
        given = make_inputs(kernel, row, seed, "plain", None, case.scalars)
        expected = envelope(kernel, clone(given), row)
        for p in found:
            if fits(p, row):
                got = clone(given)
                run(p, {n: Buffer(a.memory, a.offset, a.shape, a.strides) if isinstance(a, ViewArg) else a for n, a in got.items()}, row)
                verdict = compare(expected, results(kernel, got))
                assert verdict.ok, (case.name, row, str(verdict)[:300])


@pytest.mark.interpreter
@each
def test_emitted_code_agrees(case: Case) -> None:
    kernel, _ = made(case.name)
    spelled = [(emit(p), p) for p in candidates(case.name) if not check(p)][:2]
    assert spelled
    row = case.rows[1]
    given = make_inputs(kernel, row, 1, "plain", None, case.scalars)
    expected = envelope(kernel, clone(given), row)
    for x, p in spelled:
        if not fits(p, row):
            continue
        got = clone(given)
        arrays: dict[str, np.ndarray[Any, Any]] = {n: a.array() for n, a in got.items() if isinstance(a, ViewArg)}
        (outcome,) = interpret_batch([(x, [Launch(arrays, dict(case.scalars))])])[0]
        assert not outcome.error, (case.name, outcome.error)
        for n, values in outcome.arrays.items():
            got[n].array()[...] = values
        verdict = compare(expected, results(kernel, got))
        assert verdict.ok, (case.name, row, str(verdict)[:300])


def fits(p: Program, row: dict[str, int]) -> bool:
    from eqkir.base.expr import evaluate

    return all(evaluate(c, {**p.bindings, **row}) for c in p.preconditions)


def results(kernel: Kernel, got: dict[str, Any]) -> dict[str, Any]:
    return {v.id: got[v.id] for v in kernel.params if isinstance(v, View)}


@pytest.mark.compile
def test_barriers_of_steps_reach_the_machine_code() -> None:
    """Each barrier of the program is one of the PTX: none is lost where threads of an instance exchange data between steps."""
    programs = []
    for n in ("prefix_in_place", "ping_pong"):
        programs.append(next(p for p in candidates(n) if not check(p) and any(p.lanes(d) > 1 for d in lanes(p))))
    artifacts = [emit(p) for p in programs]
    for p, a, c in zip(programs, artifacts, compile_batch([(a, 90, EVEN) for a in artifacts]), strict=True):
        assert not c.error
        assert c.ptx.count("bar.sync") >= a.source.count("tl.debug_barrier()") >= count(p) > 0


def lanes(p: Program) -> set[str]:
    """Labels with lanes that the program traverses."""
    labels = {d for s in p.segments for ph in s.phases for d in _labels(ph)}
    return {d for d in labels if parameter(d)}


def _labels(items: Any) -> set[str]:
    out: set[str] = set()
    for i in items:
        out |= {i.label, *_labels(i.body)} if isinstance(i, Loop) else set(getattr(i, "dims", ()))
    return out


def count(p: Program) -> int:
    """Barriers inside phases."""
    return sum(_barriers(ph) for s in p.segments for ph in s.phases)


def _barriers(items: Any) -> int:
    return sum(_barriers(i.body) if isinstance(i, Loop) else isinstance(i, Barrier) for i in items)
