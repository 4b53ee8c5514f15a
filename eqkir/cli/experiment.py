"""`eqkir experiment`: run, report, list, export, import-check."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eqkir.driver.options import Options

#: saturation on a busy machine ends where it would on an idle one
PATIENT = {"seconds": 600.0}


def run(
    paths: list[Path], out: Path, cost_models: str, extractors: str, seeds: int, limit: float, rows: int, jobs: int, target: str,
    shapes: Mapping[str, Any], as_json: bool,
) -> int:  # fmt: skip
    """Run what is missing of an experiment; 0 also where cells timed out, 1 where some failed."""
    from eqkir.lab.experiment import Plan, read
    from eqkir.lab.experiment import run as work

    plan = Plan(
        paths,
        _split(cost_models),
        _split(extractors),
        seeds,
        limit,
        rows,
        jobs,
        Options(target=target, shapes=shapes, check="none", limits=PATIENT),
    )
    n, left = work(plan, out, _progress(as_json))
    counts = Counter(r["status"] for r in read(out / "cells.csv"))
    if as_json:
        print(json.dumps({"run": n, "left_out": left, "status": dict(sorted(counts.items()))}, sort_keys=True))
    else:
        for x in left:
            print(f"left out: {x}", file=sys.stderr)
        print(f"{n} cell(s) run; in all: " + ", ".join(f"{v} {k}" for k, v in sorted(counts.items())))
    return 1 if counts["failed"] else 0


def _split(text: str) -> list[str]:
    return list(dict.fromkeys(x.strip() for x in text.split(",") if x.strip()))


def _progress(as_json: bool) -> Any:
    if as_json or not sys.stderr.isatty():
        return lambda *_: None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True))
    bar.start()
    tasks: dict[str, Any] = {}

    def show(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = bar.add_task(what, total=total)
        bar.update(tasks[what], completed=done)
        if what == "cells" and done == total:
            bar.stop()

    return show


def report(folder: Path, out: Path | None, parquet: bool) -> int:
    """Write the report of an experiment, its tables as Parquet besides where they are asked for."""
    from eqkir.lab.columnar import write_parquet
    from eqkir.lab.report import write_report

    out = out or folder / "report"
    print(write_report(folder, out))
    for path in write_parquet(folder, out) if parquet else ():
        print(path)
    return 0


def listing(as_json: bool) -> int:
    """Extractors and cost models, with what they claim."""
    from eqkir.base.diagnostics import EqkirError
    from eqkir.extract.cost import cost_models
    from eqkir.extract.plain.protocol import names, plain_extractor

    rows: list[dict[str, Any]] = []
    for n in names():
        try:
            c = plain_extractor(n).claims
            rows.append({"extractor": n, "objective": c.objective, "optimal": c.optimal, "negative": c.negative, "cycles": c.cycles})
        except EqkirError as e:
            rows.append({"extractor": n, "absent": e.diagnostics[0].accepted})
    models: list[dict[str, Any]] = [
        {"cost_model": m.name, "additive": m.contract.additive, "monotone": m.contract.monotone, "unit": m.contract.unit}
        for m in cost_models().values()
    ]
    models += [{"cost_model": n, "additive": False, "monotone": True, "unit": "ns"} for n in ("fitted", "measured")]
    if as_json:
        for r in [*rows, *models]:
            print(json.dumps(r, sort_keys=True))
        return 0
    for r in rows:
        what = r.get("absent") or f"minimises {r['objective']:5} cycles {r['cycles']:10} " + ("proves optimality" if r["optimal"] else "")
        print(f"{r['extractor']:12} {what}".rstrip())
    print()
    for r in models:
        print(f"{r['cost_model']:12} {r['unit']:6} " + ", ".join(k for k in ("additive", "monotone") if r[k]))
    print("FILE.py:NAME  a function cost(op, function, lanes, trips)")
    return 0


def export(paths: list[Path], out: Path, cost_model: str, row: str, jobs: int, target: str, shapes: Mapping[str, Any]) -> int:
    """Write the frozen e-graphs of kernels as extraction-gym JSON."""
    from eqkir.lab.release import release

    n, left = release(paths, out, cost_model, row, jobs, Options(target=target, shapes=shapes, check="none", limits=PATIENT))
    for x in left:
        print(f"left out: {x}", file=sys.stderr)
    print(f"{n} e-graph(s) in {out}")
    return 1 if left else 0


def correlate(paths: list[Path], out: Path, models: str, measured: list[Path], jobs: int, target: str) -> int:
    """Cost every measured candidate under every model."""
    from eqkir.lab.correlation import correlate as work
    from eqkir.lab.costs import default_measurements

    n, left = work(paths, measured or default_measurements(), _split(models), out, jobs, target)
    for x in left:
        print(f"left out: {x}", file=sys.stderr)
    print(f"{n} row(s) in {out / 'correlation.csv'}")
    return 0 if n else 1


def scale(links: str, out: Path, extractors: str, limit: float, jobs: int, target: str) -> int:
    """Grow a kernel and time saturation and extraction."""
    from eqkir.lab.scaling import study

    n = study([int(x) for x in _split(links)], _split(extractors), out, jobs, limit, target)
    print(f"{n} row(s) in {out / 'scaling.csv'}")
    return 0
