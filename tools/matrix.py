#!/usr/bin/env python3
"""The matrix: corpus x {chosen, worst, random seeds, each family off, all families off}, and its summary.

    python -m tools.matrix                    every cell on the program interpreter, every fourth column on the provider's interpreter, …
    python -m tools.matrix --limit 6 --jobs 1
    python -m tools.matrix --kernels softmax_f32 shift --engines program
    python -m tools.matrix --target mojo:native    program and task interpreters for all kernels, native code for a sample (--natively N)

`run_matrix` is what `make show ISSUE=2` and the slow tests call.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from eqkir.driver import pool  # noqa: E402
from tests.matrix import cells, native, provider  # noqa: E402

#: seconds that one kernel's row may take before its worker is ended
ROW_SECONDS = 600.0
ENGINES = ("program", "interpreter", "compile")
CPU_ENGINES = ("program", "native")
#: kernels that run natively in the CPU's matrix
NATIVELY = 32


def run_matrix(
    limit: int | None = None, *, kernels: Sequence[str] | None = None, seeds: int = cells.SEEDS, cases: int = 4, jobs: int = 2,
    engines: Sequence[str] = (), progress: bool = False, target: str = cells.TARGET, natively: int = NATIVELY,
) -> dict[str, Any]:  # fmt: skip
    """Run the matrix in worker processes and return a plain summary (JSON-able).

    `limit` keeps the first so many kernels; `cases` a cell; `engines`: ``program`` is always run, ``interpreter`` runs chosen, worst and
    two random programs on the provider's interpreter, ``compile`` compiles chosen and one random for the default target. For a CPU
    `target`, ``program`` includes the interpreter of task programs, and ``native`` runs four columns of `natively` kernels as native code.
    ``ok`` is True when no cell has a fault.
    """
    engines = engines or (CPU_ENGINES if target.startswith("mojo:") else ENGINES)
    names = list(kernels or cells.kernels())[:limit]
    configs = cells.configurations(seeds)
    start = time.perf_counter()
    rows: dict[str, list[cells.Cell]] = {}
    for i, answer in pool.run("tests.matrix.cells:row", [(n, configs, cases, target) for n in names], jobs, ROW_SECONDS):
        if isinstance(answer, pool.Failure):
            answer = [cells.Cell(names[i], "row", faults=[f"{answer.kind}: {answer.message}"])]
        rows[names[i]] = answer
        if progress:
            print(_line(answer), file=sys.stderr, flush=True)
    results = [c for n in names for c in rows[n]]
    summary = summarize(results, time.perf_counter() - start)
    for engine in engines:
        if engine != "program":
            begin = time.perf_counter()
            got = native.run(native.sample(names, natively), jobs, target) if engine == "native" else provider.run(engine, names, jobs)
            summary[engine] = {**summarize(got, time.perf_counter() - begin), "digests": len({c.digest for c in got if c.digest})}
            summary["ok"] = summary["ok"] and summary[engine]["ok"]
    return summary


def summarize(results: Sequence[cells.Cell], seconds: float) -> dict[str, Any]:
    """Counts, distinct digests in all and by configuration, faults."""
    by_config: dict[str, dict[str, Any]] = {}
    for c in results:
        kind = "random" if c.config.startswith("random") else c.config
        row = by_config.setdefault(kind, {"cells": 0, "ok": 0, "p0": 0, "cases": 0, "digests": set()})
        row["cells"] += 1
        row["ok"] += c.ok
        row["p0"] += c.p0
        row["cases"] += c.cases
        row["digests"].add(c.digest)
    by_kernel: dict[str, set[str]] = {}
    for c in results:
        by_kernel.setdefault(c.kernel, set()).add(c.digest)
    counts = sorted(len(v) for v in by_kernel.values())
    return {
        "ok": bool(results) and all(c.ok for c in results),
        "kernels": len(by_kernel),
        "cells": len(results),
        "cells_ok": sum(c.ok for c in results),
        "cases": sum(c.cases for c in results),
        "invalid_inputs": sum(c.invalid for c in results),
        "elements": sum(c.elements for c in results),
        "excluded_elements": sum(c.excluded for c in results),
        "digests": len({c.digest for c in results if c.digest}),
        "digests_a_kernel": {"min": counts[0], "median": counts[len(counts) // 2], "max": counts[-1]} if counts else {},
        "configurations": {k: {**v, "digests": len(v["digests"])} for k, v in by_config.items()},
        "faults": [{"kernel": c.kernel, "config": c.config, "faults": c.faults} for c in results if not c.ok],
        "notes": [{"kernel": c.kernel, "config": c.config, "notes": c.notes} for c in results if c.notes],
        "seconds": round(seconds, 1),
    }


def _line(row: list[cells.Cell]) -> str:
    bad = [c.config for c in row if not c.ok]
    ok, digests = sum(c.ok for c in row), len({c.digest for c in row})
    figures = f"{ok:3d}/{len(row)} cells  {digests:3d} digests  {sum(c.cases for c in row):4d} cases"
    return f"{row[0].kernel:32s} {figures}  {sum(c.seconds for c in row):5.1f} s" + (f"  FAILED {' '.join(bad)}" if bad else "")


def table(summary: dict[str, Any]) -> str:
    """The summary as text."""
    out = []
    for engine in dict.fromkeys((*ENGINES, *CPU_ENGINES)):
        s = summary if engine == "program" else summary.get(engine)
        if not s:
            continue
        counts = f"{s['cells_ok']}/{s['cells']} cells ok, {s['kernels']} kernels, {s['digests']} distinct programs"
        out.append(f"{engine}: {counts}, {s['cases']} cases, {s['elements']} elements, {s['seconds']} s")
        for name, c in s["configurations"].items():
            figures = f"{c['ok']:5d}/{c['cells']:<5d} {c['digests']:5d} programs  {c['p0']:4d} are P0  {c['cases']:6d} cases"
            out.append(f"    {name:18s} {figures}")
        for f in s["faults"]:
            out += [f"    FAULT {f['kernel']} {f['config']}: {x}" for x in f["faults"][:2]]
        out += [f"    note {n['kernel']} {n['config']}: {'; '.join(n['notes'])}" for n in s["notes"]]
    return "\n".join(out)


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description="corpus x extractors x families")
    p.add_argument("--limit", type=int)
    p.add_argument("--kernels", nargs="*")
    p.add_argument("--seeds", type=int, default=cells.SEEDS)
    p.add_argument("--cases", type=int, default=4)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--target", default=cells.TARGET)
    p.add_argument("--natively", type=int, default=NATIVELY, help="kernels that run as native code (a CPU target)")
    p.add_argument("--engines", nargs="*", default=[], choices=list(dict.fromkeys((*ENGINES, *CPU_ENGINES))))
    p.add_argument("--json", type=Path)
    a = p.parse_args(argv)
    s = run_matrix(
        a.limit, kernels=a.kernels, seeds=a.seeds, cases=a.cases, jobs=a.jobs, engines=a.engines, progress=True, target=a.target,
        natively=a.natively,
    )  # fmt: skip
    print(table(s))
    if a.json:
        a.json.write_text(json.dumps(s, indent=2) + "\n")
    return 0 if s["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
