"""Structures drawn without regard to cost or target, under small parameters: loops take several steps, fragments are ragged."""

from __future__ import annotations

import random

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.emit.triton import emit
from eqkir.emit.triton.checks import Case as Launch
from eqkir.emit.triton.checks import interpret_batch
from eqkir.program.model import Program
from eqkir.program.schedule import ScheduleError
from eqkir.program.verify import verify
from eqkir.terms.decode import decode
from tests.matrix.cells import REPRESENTATIVE, Cell, Subject, kernels, run_cases
from tests.matrix.provider import arrays, judge, steps
from tests.terms.sampling import sample

LANES = (1, 2, 4, 8, 16, 32)
BUDGET = 250


def drawn(subject: Subject, n: int, seed: int) -> list[Program]:
    """n verified programs of random structures under random parameters."""
    abstract, graph = subject.base.abstract, subject.base.saturated.graph
    rng = random.Random(seed)
    out: list[Program] = []
    for _ in range(8 * n):
        bindings = {f"{x}:{a.name}": rng.choice(LANES) for a in abstract.axes for x in "BC"} | {f"F:{a.name}": 64 for a in abstract.axes}
        bindings |= {f"{x}:g{k}": rng.choice((1, 2, 3)) for x in "PG" for k in range(6)}
        options = {"num_warps": rng.choice((1, 4, 8)), "num_stages": rng.choice((1, 2, 3))}
        try:
            program = decode(graph, sample(graph, rng), abstract, bindings, options)
        except (ScheduleError, EqkirError):
            continue
        if not verify(program):
            out.append(program)
        if len(out) == n:
            break
    return out


def sweep(name: str, n: int, seed: int, emitted: bool) -> tuple[int, list[str]]:
    """(programs, faults) of one kernel on the program interpreter and, if `emitted`, on the provider's."""
    subject = Subject(name)
    faults: list[str] = []
    programs = drawn(subject, n, seed)
    cells, work, kept = [], [], []
    for i, program in enumerate(programs):
        cell = Cell(name, f"drawn-{seed}-{i}")
        cells.append(cell)
        cases = [c for c in subject.cases()[i % 3 :: 3] if subject.case(c) is not None and all(n <= 64 for _, n in c.symbols)]
        cases.sort(key=lambda c: steps(program, {**subject.integers, **dict(c.symbols)}), reverse=True)
        fits = [c for c in cases if steps(program, {**subject.integers, **dict(c.symbols)}) <= BUDGET]
        run_cases(subject, program, cases[:4], cell)
        if not emitted:
            continue
        try:
            artifact = emit(program)
        except EqkirError:  # a fragment that the provider has no form for
            continue
        picked = [(c, *made) for c in fits[:3] if (made := subject.case(c)) is not None]
        kept.append((cell, picked))
        work.append((artifact, [Launch(*arrays(args)) for _, args, _ in picked]))
    for (cell, picked), outcomes in zip(kept, interpret_batch(work) if work else [], strict=True):
        for (case, _, expected), o in zip(picked, outcomes, strict=True):
            judge(cell, case, expected, o)
    for cell, program in zip(cells, programs, strict=True):
        faults += [f"{cell.config} {program.bindings}: {f}" for f in cell.faults]
    return len(programs), faults


@pytest.mark.interpreter
@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_small_parameters_are_right(name: str) -> None:
    n, faults = sweep(name, 4, 1, True)
    assert n == 4 and not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.interpreter
@pytest.mark.parametrize("name", kernels())
def test_small_parameters_are_right_over_the_corpus(name: str) -> None:
    n, faults = sweep(name, 12, 2, True)
    assert n == 12 and not faults, "\n".join(faults)
