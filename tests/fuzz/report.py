"""The account of a run: verdicts, refusals by code, and the table operation × realised form with hit counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from eqkir.kir.model import OPERATIONS
from tests.fuzz.case import Result
from tests.fuzz.cells import possible
from tests.fuzz.coverage import Cell

ENGINES = ("p0", "drawn", "chosen", "emitted")
#: hits that every cell is to have in a run of 5000 cases
LEAST, FULL = 20, 5000


def tally(results: Iterable[Result]) -> dict[Cell, Counter[str]]:
    """Hits of each cell by engine: cases in which that engine ran a program that holds it."""
    out: dict[Cell, Counter[str]] = {}
    for r in results:
        for engine, cells in r.cells.items():
            for c in cells:
                out.setdefault(tuple(c), Counter())[engine] += 1  # type: ignore[arg-type]
    return out


def hits(results: Iterable[Result]) -> Counter[Cell]:
    """Cases in which any engine ran a program that holds a cell."""
    return Counter(c for r in results for c in {tuple(c) for cells in r.cells.values() for c in cells})  # type: ignore[misc]


def summary(results: list[Result], seed: int, seconds: float) -> dict[str, Any]:
    """Everything of a run as plain data. `ok`: no mismatch, rejection, crash, time-out, and no death of a worker."""
    cases = len(results)
    status = Counter(r.status for r in results)
    refused = Counter(r.code for r in results if r.status == "refused")
    drawn = Counter(x for r in results for x in r.operations)
    table, count = tally(results), hits(results)
    rows = [
        {"operation": op, "form": form, **{e: table.get((op, form), Counter())[e] for e in ENGINES}, "hits": count[op, form]}
        for op, form in sorted({*table, *possible()})
    ]
    least = LEAST if cases >= FULL else 0
    run = {op for op, _ in table}
    return {
        "ok": all(r.good for r in results) and bool(results) and all(c in possible() for c in table),
        "seed": seed,
        "cases": cases,
        "seconds": round(seconds, 1),
        "cpu_seconds_a_case": round(sum(r.seconds for r in results) / max(cases, 1), 3),
        "status": dict(sorted(status.items())),
        "refused": dict(refused.most_common()),
        "provider_refused": dict(Counter(r.provider for r in results if r.provider).most_common()),
        "inputs": sum(r.inputs for r in results),
        "programs": sum(r.programs for r in results),
        "elements": sum(r.elements for r in results),
        "excluded_elements": sum(r.excluded for r in results),
        "unverified_candidates": sum(r.unverified for r in results),
        "emitted": sum(r.emitted for r in results),
        "emitted_share": round(sum(r.emitted for r in results) / max(cases, 1), 3),
        "operations_drawn": dict(sorted(drawn.items())),
        "never_drawn": sorted(set(OPERATIONS) - {x.split(" ", 1)[0] for x in drawn}),
        "never_run": sorted(set(drawn) - run),
        "table": rows,
        "cells": len(rows),
        "impossible": sorted(f"{op} as {form}" for op, form in table if (op, form) not in possible()),
        "below": [f"{r['operation']} as {r['form']}: {r['hits']}" for r in rows if r["hits"] < least],
        "failures": [failure(r) for r in results if not r.good],
    }


def failure(r: Result) -> dict[str, Any]:
    """A failed case in short."""
    return {"index": r.index, "status": r.status, "stage": r.stage, "code": r.code, "focus": r.focus, "message": r.message}


def text(s: dict[str, Any], table: bool = True) -> str:
    """A summary for people."""
    out = []
    if table:
        width = max((len(r["operation"]) for r in s["table"]), default=10)
        out.append(f"{'operation':{width}s}  {'realised as':24s}" + "".join(f"{e:>9s}" for e in (*ENGINES, "hits")))
        for r in s["table"]:
            out.append(f"{r['operation']:{width}s}  {r['form']:24s}" + "".join(f"{r[e]:9d}" for e in (*ENGINES, "hits")))
        out.append("")
    figures = f"in {s['seconds']} s ({s['cpu_seconds_a_case']} s of CPU each)"
    out.append(f"{s['cases']} cases of seed {s['seed']} {figures}: {_counts(s['status'])}")
    compared = f"{s['elements']} elements compared, {s['excluded_elements']} of them undetermined"
    share = f"emitted code run in {100 * s['emitted_share']:.1f} % of the cases"
    out.append(f"{s['inputs']} inputs, {s['programs']} programs interpreted, {compared}; {share}")
    if s["refused"]:
        out.append(f"construction refused: {_counts(s['refused'])}")
    if s["provider_refused"]:
        out.append(f"the provider refused: {_counts(s['provider_refused'])}")
    if s["never_drawn"]:
        out.append(f"operations never drawn: {', '.join(s['never_drawn'])}")
    if s["never_run"]:
        out.append(f"drawn, but in no program that was run: {', '.join(s['never_run'])}")
    if s["below"]:
        out.append(f"{len(s['below'])} of {s['cells']} cells below {LEAST} hits: {'; '.join(s['below'])}")
    if s["impossible"]:
        out.append(f"met, but said to be impossible: {'; '.join(s['impossible'])}")
    for f in s["failures"]:
        out.append(f"FAILED case {f['index']} {f['status']} at {f['stage']} {f['code']} ({', '.join(f['focus'])}): {f['message'][:300]}")
    return "\n".join(out)


def _counts(x: dict[str, int]) -> str:
    return ", ".join(f"{n} {k}" for k, n in x.items())
