"""One cell of an experiment: an instance × cost model × extractor × seed, under a limit of CPU seconds. Runs in a worker that can be
killed; what it returns is one row of the table."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from eqkir.base.diagnostics import EqkirError
from eqkir.extract.check import check_legal
from eqkir.extract.extractors import extractors
from eqkir.extract.plain.protocol import plain_extractor, solve
from eqkir.extract.plain.rowwise import bounds, solve_rows, solve_whole
from eqkir.lab.instance import Source, kernel_problem, plain

#: the table's columns, in order. The first six are the key of a cell.
COLUMNS = (
    "instance", "kind", "cost_model", "extractor", "seed", "limit", "digest", "enodes", "classes", "rows", "unit", "objective", "status",
    "cost", "bound", "row", "solved", "pruned", "seconds", "cpu_seconds", "peak_bytes", "selected", "note",
)  # fmt: skip
KEY = COLUMNS[:6]

#: extractors of problems (all rows at once) that stand for the plain ones of the same name on kernels
AT_ONCE = ("greedy-dag", "greedy-tree", "random", "worst")
#: a plain extractor under every row from nothing (`solve_whole`): its name with this behind it
WHOLE = "-whole"


@dataclass(frozen=True, slots=True)
class Cell:
    """`graph`: the file that `instance.freeze` wrote (kernels); `rows`: at most so many, all for 0."""

    source: Source
    cost_model: str
    extractor: str
    seed: int
    limit: float
    target: str
    shapes: tuple[tuple[str, int], ...] = ()
    graph: str = ""
    rows: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        return (self.source.name, self.source.kind, self.cost_model, self.extractor, str(self.seed), f"{self.limit:g}")


def run_cell(cell: Cell) -> dict[str, Any]:
    """The row of a cell. Diagnoses become rows with the status ``failed``."""
    row: dict[str, Any] = dict(zip(KEY, cell.key, strict=True)) | {"digest": cell.source.digest[:16]}
    try:
        found = _plain(cell) if cell.source.kind == "plain" else _kernel(cell)
    except EqkirError as e:
        found = {"status": "failed", "note": str(e.diagnostics[0])[:200]}
    row |= found
    row["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {c: _text(row.get(c, "")) for c in COLUMNS}


def failed(cell: Cell, status: str, note: str) -> dict[str, Any]:
    """The row of a cell whose worker gave no answer."""
    row = dict(zip(KEY, cell.key, strict=True)) | {"digest": cell.source.digest[:16], "status": status, "note": note}
    return {c: row.get(c, "") for c in COLUMNS}


def _text(x: Any) -> Any:
    if isinstance(x, float):
        return "" if not isfinite(x) else repr(x)
    return x


def _plain(cell: Cell) -> dict[str, Any]:
    g, p = plain(cell.source.path)
    x = plain_extractor(cell.extractor.removesuffix(WHOLE))  # a plain e-graph is one row
    out = solve(p, x, cell.limit, cell.seed)
    return {
        "enodes": g.enodes, "classes": len(g.classes), "rows": 1, "unit": "cost", "objective": x.claims.objective, "status": out.status,
        "cost": out.cost, "bound": out.bound, "seconds": out.seconds, "cpu_seconds": out.cpu_seconds, "note": out.note,
        "selected": len(out.choice or ()),
    }  # fmt: skip


def _kernel(cell: Cell) -> dict[str, Any]:
    p, unit = kernel_problem(cell.graph, cell.source.kernel, cell.cost_model, cell.target, cell.shapes, cell.rows)
    out: dict[str, Any] = {"enodes": p.graph.enodes, "classes": len(p.graph.classes), "rows": len(p.rows), "unit": unit}
    if cell.extractor in AT_ONCE:
        wall, cpu = time.perf_counter(), time.process_time()
        found = extractors()[cell.extractor].extract(p, cell.seed)
        out |= {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
        for c in found:
            check_legal(p, c.selection, c.row)
        low = float(bounds(p).min())
        objective = {"greedy-dag": "dag", "greedy-tree": "tree", "random": "none", "worst": "-dag"}[cell.extractor]
        if not found:
            return out | {"status": "infeasible", "objective": objective}
        best = (max if cell.extractor == "worst" else min)(found, key=lambda c: (p.cost(c.selection, c.row), c.row))
        return out | {
            "status": "heuristic", "cost": p.cost(best.selection, best.row), "bound": low, "row": best.row, "solved": len(p.rows),
            "objective": objective, "selected": len(best.selection),
        }  # fmt: skip
    x = plain_extractor(cell.extractor.removesuffix(WHOLE))
    r = (solve_whole if cell.extractor.endswith(WHOLE) else solve_rows)(p, x, cell.limit, cell.seed)
    return out | {
        "status": r.status, "cost": r.cost, "bound": r.bound if r.bound > -inf else "", "row": r.row, "solved": r.solved,
        "pruned": r.pruned, "seconds": r.seconds, "cpu_seconds": r.cpu_seconds, "note": r.note, "objective": x.claims.objective,
        "selected": len(r.selection or ()),
    }  # fmt: skip
