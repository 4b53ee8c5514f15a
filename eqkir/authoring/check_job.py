"""The check of one rule as a job of the worker pool: bounded in time, and a rule that ends its worker ends nothing else."""

from __future__ import annotations

import itertools
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqkir.authoring.check import Checker, Effort, Result, checked_files
from eqkir.authoring.conditions import conditions
from eqkir.authoring.counterexample import smaller, write
from eqkir.driver import pool
from eqkir.kir.model import Kernel
from eqkir.rules.load import Rule, RuleFile

#: seconds that a rule's job may take before its worker is ended
SECONDS = 900.0
#: bytes that its worker may have
MEMORY = 6 << 30


@dataclass(frozen=True, slots=True)
class Job:
    """One rule for a worker: plain data, so that it can be sent."""

    paths: tuple[str, ...]
    rule: str
    corpus: tuple[str, ...]
    out: str  # folder for counterexamples, or ""
    conditions: bool  # every deletion of one condition, too
    proofs: bool = True
    seed: int = 0


def run(job: Job) -> list[dict[str, Any]]:
    """Rows of the rule and of its mutants."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    files, mine = checked_files(job.paths)
    file, rule = next((f, r) for f in mine for r in f.rules if r.name == job.rule)
    c = Checker(files, [Path(p) for p in job.corpus], seed=job.seed)
    result = c.check(file, rule, proofs=job.proofs)
    rows = [_row(job, c, file, rule, result, rule.name)]
    if job.conditions and result.verdict in ("proved", "tested"):
        rows += list(_conditions(job, c, file, rule))
    return rows


def _conditions(job: Job, c: Checker, file: RuleFile, rule: Rule) -> Iterator[dict[str, Any]]:
    for n, v in enumerate(conditions(c, file, rule)):
        row: dict[str, Any] = {
            "rule": rule.name, "file": file.path, "line": v.mutant.line, "condition": v.mutant.condition, "verdict": v.verdict,
            "method": "the rest is no rule" if v.verdict == "binds" else "tried on programs", "message": v.message, "kernels": v.kernels,
            "candidates": v.candidates, "comparisons": v.comparisons,
        }  # fmt: skip
        if job.out and v.result is not None and v.result.failure is not None and v.result.subject is not None:
            files = write(Path(job.out) / f"{rule.name}-without-{n}", v.result.subject, v.result.failure)
            row["counterexample"] = [str(p) for p in files]
        yield row


def _row(job: Job, c: Checker, file: RuleFile, rule: Rule, r: Result, name: str) -> dict[str, Any]:
    row = r.to_json()
    row["seconds"] = round(r.seconds, 2)
    if job.out and r.verdict == "refuted" and r.failure is not None and r.subject is not None:
        subject, failure = r.subject, r.failure
        one = Checker(c.files, effort=Effort(kernels=1, draws=0), seed=job.seed)

        def refuted(k: Kernel) -> bool:
            return one.check_on(file, rule, k, subject.permit).verdict == "refuted"

        less = smaller(subject.kernel, refuted)
        again = one.check_on(file, rule, less, subject.permit)
        if again.verdict == "refuted" and again.failure is not None and again.subject is not None:
            subject, failure = again.subject, again.failure
            row["message"] = again.message
        row["counterexample"] = [str(p) for p in write(Path(job.out) / name, subject, failure)]
    return row


def run_all(jobs: Sequence[Job], workers: int) -> Iterator[list[dict[str, Any]]]:
    """Rows job by job, in order; a worker that died or took too long gives a row that says so."""
    done: dict[int, list[dict[str, Any]]] = {}
    nexts = itertools.count()
    at = next(nexts)
    for k, answer in pool.run("eqkir.authoring.check_job:run", [(j,) for j in jobs], workers, SECONDS):
        if isinstance(answer, pool.Failure):
            message = f"the check ended: {answer.kind}: {answer.message[:200]}"
            done[k] = [{"rule": jobs[k].rule, "file": "", "line": 0, "verdict": "untested", "method": "", "message": message}]
        else:
            done[k] = answer
        while at in done:
            yield done.pop(at)
            at = next(nexts)
