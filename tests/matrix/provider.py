"""The matrix on the provider: emitted kernels in Triton's interpreter, and compiled offline. Batched over the check workers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eqkir.base.diagnostics import EqkirError
from eqkir.driver import programs
from eqkir.driver.artifacts import digest
from eqkir.driver.work import steps
from eqkir.kir.envelope import Envelope, compare
from eqkir.kir.memory import ViewArg
from eqkir.program.model import Program
from tests.matrix.cells import ROOT, Cell, Subject, window
from tests.matrix.types import Case

if TYPE_CHECKING:
    from eqkir.emit.triton.artifact import Artifact

#: columns of the matrix on each engine
CONFIGS = {"interpreter": ("chosen", "worst", "random-0", "random-1"), "compile": ("chosen", "random-0")}
#: executions of loop bodies and instances in one launch on the interpreter (about 2 ms each), and cases a cell
BUDGET, CASES = 150, 5
#: the same for a case without which an engine would have nothing to do
LARGEST = 3000
#: compute capability of the default target, and where compilation results are kept between runs
CAPABILITY, CACHE = 90, ROOT / "out" / "checks"


def arrays(args: Mapping[str, Any]) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """(views, scalars): arrays over the arguments' own memory, so that sharing, gaps and strides stay visible."""
    views, scalars = {}, {}
    for k, v in args.items():
        if not isinstance(v, ViewArg):
            scalars[k] = v.item() if isinstance(v, np.generic) else v
        elif 0 in v.shape or not v.memory.size:
            views[k] = np.empty(v.shape, v.memory.dtype)
        else:
            size = v.memory.itemsize
            views[k] = np.ndarray(v.shape, v.memory.dtype, v.memory, v.offset * size, tuple(s * size for s in v.strides))
    return views, scalars


def within(subject: Subject, program: Program, cases: Sequence[Case], budget: int = BUDGET) -> list[Case]:
    """The cases that fit a budget; where those launch nothing, also the cheapest that launch something."""
    cost = {c: steps(program, {**subject.integers, **dict(c.symbols)}) for c in cases}
    if not any(0 < n <= budget for n in cost.values()):
        budget = max(budget, min(LARGEST, min((n for n in cost.values() if n), default=0)))
    return [c for c in cases if cost[c] <= budget]


def affordable(subject: Subject, program: Program, n: int, at: int) -> list[Case]:
    """n cases from position at*n on that fit the budget, one of which launches something."""
    pool = subject.cases()
    pool = pool[at * n % len(pool) :] + pool[: at * n % len(pool)]
    fits = within(subject, program, pool)
    busy = [c for c in fits if steps(program, {**subject.integers, **dict(c.symbols)})]
    return list(dict.fromkeys([*busy[:1], *fits]))[:n]


def beyond(subject: Subject, program: Program, n: int, at: int) -> list[Case]:
    """n affordable cases past the program's blocks."""
    return window(within(subject, program, subject.stretched(program)), at, n)


def prepare(subject: Subject, config: str, at: int, cell: Cell) -> tuple[Artifact, list[tuple[Case, Any, dict[str, Envelope]]]] | None:
    """Emit one program and choose its cases; a refusal becomes a fault of the cell."""
    from eqkir.emit.triton import emit

    try:
        program = subject.program(config)
        cell.digest = digest(programs.dumps(program))
        artifact = emit(program)
        cases = [*affordable(subject, program, CASES, at), *beyond(subject, program, 2, at)]
        made = [(c, m) for c in cases if (m := subject.case(c)) is not None]
        return artifact, [(c, args, expected) for c, (args, expected) in made]
    except EqkirError as e:
        cell.faults.append(str(e)[:400])
    except Exception as e:  # every cell gets a verdict
        cell.faults.append(f"{type(e).__name__}: {e}"[:400])
    return None


def interpret(names: Sequence[str], jobs: int) -> list[Cell]:
    """Cells of the interpreter columns."""
    from eqkir.emit.triton.checks import Case as Launch
    from eqkir.emit.triton.checks import interpret_batch

    out: list[Cell] = []
    for start in range(0, len(names), 8):
        cells, work = [], []
        for n, name in enumerate(names[start : start + 8], start):
            subject = Subject(name)
            for k, config in enumerate(CONFIGS["interpreter"]):
                cell = Cell(name, config)
                out.append(cell)
                made = prepare(subject, config, n + k, cell)
                if made:
                    cells.append((cell, made[1]))
                    work.append((made[0], [Launch(*arrays(args)) for _, args, _ in made[1]]))
        begin = time.perf_counter()
        for (cell, cases), outcomes in zip(cells, interpret_batch(work, processes=jobs), strict=True):
            for (case, _, expected), o in zip(cases, outcomes, strict=True):
                judge(cell, case, expected, o)
            if not cell.cases and not cell.faults:
                cell.faults.append("no case fits the interpreter's budget")
            cell.seconds = (time.perf_counter() - begin) / len(cells)
    return out


def judge(cell: Cell, case: Case, expected: Mapping[str, Envelope], outcome: Any) -> None:
    if outcome.error:
        cell.faults.append(f"{case}: {outcome.error}"[:400])
        return
    verdict = compare(expected, {k: outcome.arrays[k] for k in expected})
    cell.cases, cell.elements, cell.excluded = cell.cases + 1, cell.elements + verdict.elements, cell.excluded + verdict.excluded
    if verdict.ok:
        cell.worst = max(cell.worst, float(verdict.worst))
    else:
        cell.faults.append(f"{case}: {verdict.first} ({verdict.mismatches} of {verdict.elements} elements)")


def compiled(names: Sequence[str], jobs: int) -> list[Cell]:
    """Cells of the compile columns: every launch specialization compiles for the default target, the PTX is clean."""
    from eqkir.emit.triton import emit
    from eqkir.emit.triton.checks import EVEN, ODD, WIDE, compile_batch

    out: list[Cell] = []
    work: list[tuple[Cell, Artifact]] = []
    for name in names:
        subject = Subject(name)
        for config in CONFIGS["compile"]:
            cell = Cell(name, config)
            out.append(cell)
            try:
                program = subject.program(config)
                cell.digest = digest(programs.dumps(program))
                work.append((cell, emit(program)))
            except Exception as e:  # every cell gets a verdict
                cell.faults.append(f"{type(e).__name__}: {e}"[:400])
    todo = [(cell, a, spec) for cell, a in work for spec in (EVEN, ODD, WIDE) if spec is not WIDE or cell.config == "chosen"]
    begin = time.perf_counter()
    for (cell, _, spec), r in zip(
        todo, compile_batch([(a, CAPABILITY, spec) for _, a, spec in todo], processes=jobs, cache=CACHE), strict=True
    ):
        cell.cases += 1
        cell.seconds += (time.perf_counter() - begin) / len(todo)
        if r.error:
            cell.faults.append(f"{spec.name}: {r.error}"[:400])
        if r.findings:
            cell.faults.append(f"{spec.name}: {', '.join(r.findings)} in the PTX")
        if r.spills:  # no fault of a program that was not chosen for speed; `optimize --check compile` judges the chosen one
            cell.notes.append(f"{spec.name}: {r.spills} bytes spilled")
    return out


def run(engine: str, names: Sequence[str], jobs: int) -> list[Cell]:
    """All cells of an engine's columns."""
    return (interpret if engine == "interpreter" else compiled)(names, jobs)
