"""Scaling study: kernels made longer, saturated and extracted from, with fitted exponents.

A grown kernel is a chain of row-wise normalisations: each link scales its input, takes a reduction over the row and divides by it, so the
number of stages, of realisations and of choices grows with the length. Written with the public builder; nothing in eqkir knows it.
"""

from __future__ import annotations

import csv
import resource
import time
from pathlib import Path
from typing import Any

from eqkir.driver import pool
from eqkir.extract.plain.protocol import plain_extractor
from eqkir.extract.plain.rowwise import solve_rows
from eqkir.kir.builder import Builder, kernel
from eqkir.kir.model import Kernel
from eqkir.lab.figures import exponent

#: a study is not stopped by what protects everyday use
LIMITS = {"enodes": 200_000, "matches": 20_000_000, "iterations": 4000, "seconds": 600.0, "memory": float(6 << 30)}

COLUMNS = ("kernel", "links", "enodes", "classes", "rows", "what", "status", "cpu_seconds", "seconds", "peak_bytes", "cost")


def study(links: list[int], extractors: list[str], out: Path, jobs: int, limit: float, target: str) -> int:
    """Write ``<out>/scaling.csv``: for each length, saturation and every extractor; the number of rows."""
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    tasks: list[tuple[Any, ...]] = [(n, x, limit, target) for n in links for x in ["saturation", *extractors]]
    for i, answer in pool.run("eqkir.lab.scaling:one", tasks, jobs, 900.0):
        n, what = tasks[i][:2]
        if isinstance(answer, pool.Failure):
            answer = {"kernel": f"chain{n}", "links": n, "what": what, "status": answer.kind}
        rows.append(answer)
        with (out / "scaling.csv").open("w", newline="") as f:
            w = csv.DictWriter(f, COLUMNS)
            w.writeheader()
            w.writerows({c: r.get(c, "") for c in COLUMNS} for r in sorted(rows, key=lambda r: (r["links"], r["what"])))
    return len(rows)


def grown(links: int) -> Kernel:
    """Y = a chain of `links` steps y <- (y + X) / sqrt(sum(y * y) + 1) over the rows of X."""

    def body(k: Builder) -> None:
        m, n = k.symbols("M", "N")
        x, y = k.view("X", "in", "f32", (m, n)), k.view("Y", "out", "f32", (m, n))
        k.noalias(x, y)
        first = x[:, :]
        value = first
        for _ in range(links):
            value = (value + first) * ((value * value).sum(axis=1, keepdims=True) + 1.0).rsqrt()
        y[:, :] = value

    made: Kernel = kernel(name=f"chain{links}")(body)
    return made


def one(links: int, what: str, limit: float, target: str) -> dict[str, Any]:
    """Saturate a chain, or saturate it and extract from it; seconds are of `what` alone, memory is of the process and its children.
    Saturation runs in a process that this one is no parent of: it has wall time only."""
    from eqkir.driver.chain import Chain
    from eqkir.driver.options import Options
    from eqkir.driver.outcome import Outcome
    from eqkir.extract.choose import problem
    from eqkir.extract.cost import cost_model
    from eqkir.extract.extractors import extractors
    from eqkir.lab.cells import AT_ONCE

    options = Options(target=target, check="none", limits=LIMITS)
    c = Chain(grown(links), options, Outcome(f"chain{links}", ""))
    abstract, saturated = c.abstract, c.saturated
    row: dict[str, Any] = {"kernel": f"chain{links}", "links": links, "what": what, "status": saturated.report.stop}
    row |= {"cpu_seconds": "", "seconds": saturated.report.seconds}
    row |= {"enodes": saturated.graph.enodes, "classes": len(saturated.graph.classes)}
    if what != "saturation":
        wall, cpu = time.perf_counter(), time.process_time()
        p, _ = problem(saturated.graph, abstract, c.target, {}, cost_model("roofline"))
        row |= {"rows": len(p.rows)}
        if what == "weights":
            row |= {"status": "ok"}
        elif what in AT_ONCE:
            wall, cpu = time.perf_counter(), time.process_time()
            found = extractors()[what].extract(p, 0)
            row |= {"status": "heuristic", "cost": found[0].cost}
        else:
            wall, cpu = time.perf_counter(), time.process_time()
            r = solve_rows(p, plain_extractor(what), limit)
            row |= {"status": r.status, "cost": r.cost}
        row |= {"cpu_seconds": time.process_time() - cpu, "seconds": time.perf_counter() - wall}
    row["peak_bytes"] = 1024 * max(resource.getrusage(w).ru_maxrss for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return row


def taken(row: dict[str, str]) -> float:
    """CPU seconds, wall seconds where there are none."""
    return float(row["cpu_seconds"] or row["seconds"] or 0.0)


def table_of(rows: list[dict[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Fitted exponents of time in e-nodes."""
    out = []
    for w in sorted({r["what"] for r in rows}):
        mine = [(float(r["enodes"]), taken(r)) for r in rows if r["what"] == w and r["enodes"] and r["status"] != "timeout"]
        fit = exponent(mine)
        fitted = [f"{fit[0]:.2g}", f"{fit[1]:.2f}"] if fit else ["–", "–"]
        out.append([w, str(len(mine)), f"{max((x for x, _ in mine), default=0):.0f}", *fitted])
    return ["what (saturation: wall)", "points", "largest e-graph", "a", "exponent b"], out
