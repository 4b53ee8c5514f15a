"""An experiment: the cells of a plan, run in workers, one row each; stopped and taken up again at any time.

The folder holds ``manifest.json`` (what was asked, digests of the inputs, versions, machine), ``cells.csv`` (a row a finished cell,
appended as it finishes), ``instances.csv`` (figures of saturation) and ``graphs/``. A cell whose row is there is not run again; the plan
of the folder must be the same or larger.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from eqkir.base.diagnostics import fail, register
from eqkir.base.resources import version as own_version
from eqkir.driver import pool
from eqkir.driver.options import Options
from eqkir.lab.cells import COLUMNS, KEY, WHOLE, Cell, failed
from eqkir.lab.instance import Source, sources

PLAN = register(
    "EQK-LAB-PLAN", "the folder holds another experiment", "Inputs, target or shapes differ from those in the folder's manifest.json."
)
EMPTY = register("EQK-LAB-EMPTY", "nothing to experiment with", "The paths hold neither kernels nor e-graphs that could be read.")

INSTANCES = (
    "instance", "kind", "enodes", "classes", "rows", "structures", "structures_exact", "saturation_seconds", "stop", "note",
)  # fmt: skip
#: wall seconds of a cell before its worker is killed: a start, and a multiple of the CPU limit for a busy machine
GRACE, FACTOR = 120.0, 25.0

Progress = Callable[[str, int, int], None]


@dataclass
class Plan:
    """What is asked for. `limit`: CPU seconds a cell; `rows`: at most so many binding rows, all for 0."""

    paths: list[Path]
    cost_models: list[str]
    extractors: list[str]
    seeds: int = 1
    limit: float = 0.5
    rows: int = 0
    jobs: int = 1
    options: Options = field(default_factory=lambda: Options(check="none"))

    def to_json(self) -> dict[str, Any]:
        return {
            "cost_models": self.cost_models, "extractors": self.extractors, "seeds": self.seeds, "limit": self.limit, "rows": self.rows,
            "options": self.options.to_json(),
        }  # fmt: skip


def run(plan: Plan, out: Path, progress: Progress = lambda *_: None) -> tuple[int, list[str]]:
    """Run what is missing. Returns the number of cells that were run and notes about inputs that were left out.

    Raises `EqkirError`: EQK-LAB-EMPTY, EQK-LAB-PLAN, and for unknown names before anything runs."""
    found, left = sources(plan.paths, plan.options, plan.jobs)
    if not found:
        raise fail(EMPTY, ", ".join(map(str, plan.paths)), stage="options")
    _known(plan)
    out.mkdir(parents=True, exist_ok=True)
    _manifest(plan, found, out)
    kernels = [s for s in found if s.kind == "kernel"]
    have = {r["instance"]: r for r in read(out / "instances.csv")}
    missing = [s for s in kernels if s.name not in have or not (out / "graphs" / f"{s.name}.graph").exists()]
    tasks: list[tuple[Any, ...]] = [(s, plan.options, str(out / "graphs")) for s in missing]
    for n, (i, answer) in enumerate(pool.run("eqkir.lab.instance:freeze", tasks, plan.jobs, 1800.0)):
        note = f"{answer.kind}: {answer.message}"[:200] if isinstance(answer, pool.Failure) else ""
        figures = {} if note else answer
        _append(out / "instances.csv", INSTANCES, {"instance": missing[i].name, "kind": "kernel", "note": note, **figures})
        progress("saturated", n + 1, len(missing))
    done = {tuple(r[k] for k in KEY) for r in read(out / "cells.csv")}
    cells = [c for c in planned(plan, found, out) if c.key not in done]
    work: list[tuple[Any, ...]] = [(c,) for c in cells]
    for n, (i, answer) in enumerate(pool.run("eqkir.lab.cells:run_cell", work, plan.jobs, GRACE + FACTOR * plan.limit)):
        if isinstance(answer, pool.Failure):
            answer = failed(cells[i], "killed" if answer.kind == "time" else "failed", f"{answer.kind}: {answer.message}"[:200])
        _append(out / "cells.csv", COLUMNS, answer)
        progress("cells", n + 1, len(cells))
    return len(cells), left


def planned(plan: Plan, found: Iterable[Source], out: Path) -> list[Cell]:
    """The cells of a plan; those of one instance and cost model follow each other. Extractors without chance run under one seed."""
    cells = []
    shapes = tuple(sorted((k, v) for k, v in plan.options.shapes.items() if isinstance(v, int)))
    for s in found:
        graph = out / "graphs" / f"{s.name}.graph"
        if s.kind == "kernel" and not graph.exists():
            continue
        for m in plan.cost_models if s.kind == "kernel" else ["file"]:
            for x in plan.extractors:
                for seed in range(plan.seeds if x in ("random", "anneal") else 1):
                    cells.append(Cell(s, m, x, seed, plan.limit, plan.options.target, shapes, str(graph), plan.rows))
    return cells


def _known(plan: Plan) -> None:
    from eqkir.extract.plain.protocol import plain_extractor
    from eqkir.lab.costs import load_model

    for x in plan.extractors:
        plain_extractor(x.removesuffix(WHOLE))
    for m in plan.cost_models:
        load_model(m, "")


def _manifest(plan: Plan, found: list[Source], out: Path) -> None:
    path = out / "manifest.json"
    inputs = {s.name: s.digest for s in found}
    runs: list[Any] = []
    if path.exists():
        old = json.loads(path.read_text())
        if any(inputs.get(k, v) != v for k, v in old["inputs"].items()) or old["plan"]["options"] != plan.to_json()["options"]:
            raise fail(PLAN, f"{path} has other inputs or options", accepted="another folder", stage="options")
        inputs, runs = {**old["inputs"], **inputs}, old["runs"]
    runs.append({"started": datetime.now(UTC).isoformat(timespec="seconds"), **plan.to_json()})
    data = {"plan": plan.to_json(), "inputs": inputs, "versions": versions(), "machine": machine(), "runs": runs}
    path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")


def versions() -> dict[str, str]:
    """Of everything that can change a figure."""
    out = {"eqkir": own_version(), "python": platform.python_version()}
    for name in ("egglog", "numpy", "highspy", "ortools"):
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = ""
    return out


def machine() -> dict[str, Any]:
    """Processor, count, memory."""
    text = Path("/proc/cpuinfo").read_text() if sys.platform == "linux" else ""
    names = [x.partition(":")[2].strip() for x in text.splitlines() if x.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    return {
        "processor": names[0] if names else platform.machine(),
        "cpus": os.cpu_count(),
        "memory_bytes": memory,
        "system": platform.system(),
    }


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a table, or of its compressed copy; none where it is not there. A last line that was cut off is left out."""
    unpack(path)
    if not path.exists():
        return []
    with path.open(newline="") as f:
        return [r for r in csv.DictReader(f) if None not in r.values()]


def unpack(path: Path) -> None:
    """Write a table that is there as ``<name>.csv.gz`` only."""
    packed = path.with_name(path.name + ".gz")
    if not path.exists() and packed.exists():
        path.write_bytes(gzip.decompress(packed.read_bytes()))


def _append(path: Path, columns: tuple[str, ...], row: dict[str, Any]) -> None:
    new = not path.exists()
    if not new and not path.read_bytes().endswith(b"\n"):  # a run that was killed in the middle of a line
        path.write_bytes(path.read_bytes().rpartition(b"\n")[0] + b"\n")
    with path.open("a", newline="") as f:
        w = csv.DictWriter(f, columns)
        if new:
            w.writeheader()
        w.writerow({c: row.get(c, "") for c in columns})
        f.flush()
