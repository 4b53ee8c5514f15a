"""The matrix on the CPU: emitted kernels compiled together, then run natively, one worker a cell, against the envelope."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eqkir.base.diagnostics import EqkirError
from eqkir.driver import pool, programs
from eqkir.driver.artifacts import digest
from eqkir.driver.work import steps
from tests.matrix import cells
from tests.matrix.cells import Cell, Subject, window

if TYPE_CHECKING:
    from eqkir.emit.mojo.artifact import TaskArtifact
    from eqkir.emit.mojo.build import Built

#: columns of the matrix; cases a cell; loop bodies of one case; programs that are compiled together; seconds that a cell may run
CONFIGS, CASES, STEPS, BATCH, SECONDS = ("chosen", "worst", "random-0", "random-1"), 8, 3_000_000, 8, 600.0


def sample(names: Sequence[str], n: int) -> list[str]:
    """n names, evenly spread."""
    return [names[i * len(names) // n] for i in range(min(n, len(names)))] if n < len(names) else list(names)


def run(names: Sequence[str], jobs: int, target: str, configs: Sequence[str] = CONFIGS) -> list[Cell]:
    """Cells of all columns, in order."""
    from eqkir.emit.mojo.build import build

    out: list[Cell] = []
    work: list[tuple[Cell, str, TaskArtifact]] = []
    for name in names:
        subject = Subject(name, target)
        for config in configs:
            cell = Cell(name, config)
            out.append(cell)
            try:
                program = subject.program(config)
                text = programs.dumps(program)
                cell.digest = digest(text)
                work.append((cell, text, subject.base.provider.spell(program)))  # type: ignore[arg-type]
            except Exception as e:  # every cell gets a verdict
                cell.faults.append(f"{type(e).__name__}: {e}"[:400])
    cpu = subject.base.provider.target.cpu if names else ""  # type: ignore[union-attr]
    ready: list[tuple[Cell, str, Built]] = []
    for start in range(0, len(work), BATCH):
        part = work[start : start + BATCH]
        for (cell, text, _), found in zip(part, build([a.module for _, _, a in part], cpu), strict=True):
            if isinstance(found, EqkirError):
                cell.faults.append(str(found)[:400])
            else:
                ready.append((cell, text, found))
    tasks = [(c.kernel, c.config, target, text, built, n) for n, (c, text, built) in enumerate(ready)]
    for i, answer in pool.run("tests.matrix.native:check", tasks, jobs, SECONDS):
        cell = ready[i][0]
        if isinstance(answer, pool.Failure):
            cell.faults.append(f"{answer.kind}: {answer.message}")
        else:
            out[out.index(cell)] = replace(answer, digest=cell.digest)
    return out


def check(name: str, config: str, target: str, text: str, built: Built, at: int) -> Cell:
    """One cell, in this process: instances are cut into tasks at random, which run in a random order."""
    from eqkir.driver.native import engine

    start, cell, subject = time.perf_counter(), Cell(name, config), Subject(name, target)
    program = programs.loads(text)
    artifact: Any = subject.base.provider.spell(program)

    def affordable(case: Any) -> bool:
        symbols: Mapping[str, int] = dict(case.symbols)
        return steps(program, {**subject.integers, **symbols}) <= STEPS

    cases = [*window(subject.cases(), at, CASES), *window([c for c in subject.stretched(program) if affordable(c)], at, 2)]
    for i, case in enumerate(cases):
        if made := subject.case(case):
            args, expected = made
            go = engine(artifact, built, i)
            cells.judge(cell, case, expected, lambda a=args, g=go, c=case: g(cells.clone(a), dict(c.symbols)))  # type: ignore[misc]
        else:
            cell.invalid += 1
    if not cell.cases and not cell.faults:
        cell.faults.append("no case could be run")
    cell.seconds = time.perf_counter() - start
    return cell
