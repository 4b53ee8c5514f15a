"""Scaling study: kernels made longer, with more rule families, under more rows; saturated and extracted from, with fitted exponents.

A grown kernel is a chain of row-wise normalisations: each link scales its input, takes a reduction over the row and divides by it, so the
number of stages, of realisations and of choices grows with the length. Written with the public builder; nothing in eqkir knows it.

Every measurement has a process of its own, so that its peak of memory is its own; saturation runs once a graph, in a worker whose CPU time
and memory the report of saturation says.
"""

from __future__ import annotations

import csv
import pickle
import resource
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqkir.driver import pool
from eqkir.extract.plain.protocol import plain_extractor
from eqkir.extract.plain.rowwise import solve_rows
from eqkir.kir.builder import Builder, kernel
from eqkir.kir.model import Kernel
from eqkir.lab.figures import exponent
from eqkir.lab.instance import Frozen

#: a study is not stopped by what protects everyday use
LIMITS = {"enodes": 200_000, "matches": 20_000_000, "iterations": 4000, "seconds": 600.0, "memory": float(6 << 30)}

COLUMNS = (
    "study", "kernel", "links", "without", "most_rows", "enodes", "classes", "rows", "what", "status", "cpu_seconds", "seconds",
    "peak_bytes", "cost",
)  # fmt: skip

#: families that the study of families takes out, from the last to all of them
FAMILIES = ("narrow", "algebra", "access", "regroup")
#: rows that the study of rows keeps
ROWS = (1, 2, 4, 8, 16, 32)
#: links of the kernel that the studies of families and of rows take
MIDDLE = 8
#: wall seconds of one measurement
PATIENCE = 1200.0


@dataclass(frozen=True, slots=True)
class Point:
    """One graph: `links` of the chain, saturated without some families; `rows`: the first rows that extractors see, all for 0."""

    study: str
    links: int
    without: tuple[str, ...] = ()
    rows: int = 0

    @property
    def name(self) -> str:
        return f"chain{self.links}" + "".join(f"-{f}" for f in self.without)


def points(links: Iterable[int], families: bool, rows: bool) -> list[Point]:
    """Of the three studies."""
    out = [Point("length", n) for n in links]
    out += [Point("families", MIDDLE, FAMILIES[:k]) for k in range(len(FAMILIES) + 1)] if families else []
    return out + ([Point("rows", MIDDLE, (), n) for n in ROWS] if rows else [])


def study(
    links: list[int], extractors: list[str], out: Path, jobs: int, limit: float, target: str, families: bool = True, rows: bool = True
) -> int:
    """Write ``<out>/scaling.csv``: for each point saturation, weights and every extractor; the number of rows. What is there already (by
    study, kernel, rows and what) is not run again."""
    folder = out / "scaling"
    folder.mkdir(parents=True, exist_ok=True)
    found = points(links, families, rows)
    done = {_key(r): r for r in _read(out / "scaling.csv")}

    def measure(p: Point, what: str) -> None:
        row: dict[str, Any] = {"study": p.study, "kernel": p.name, "links": p.links, "without": " ".join(p.without), "most_rows": p.rows}
        key = _key({**row, "what": what})
        if key in done:
            return
        task = (p.links, p.without, p.rows, what, limit, target, str(folder / f"{p.name}.graph"))
        ((_, answer),) = pool.run("eqkir.lab.scaling:one", [task], 1, PATIENCE)
        if isinstance(answer, pool.Failure):
            answer = {"status": f"{answer.kind}: {answer.message}"[:100]}
        done[key] = {c: str(x) for c, x in {**row, "what": what, **answer}.items()}
        with (out / "scaling.csv").open("w", newline="") as f:
            w = csv.DictWriter(f, COLUMNS)
            w.writeheader()
            w.writerows({c: r.get(c, "") for c in COLUMNS} for _, r in sorted(done.items()))

    with ThreadPoolExecutor(max_workers=max(1, jobs)) as many:
        first: dict[str, Point] = {}
        for p in found:
            first.setdefault(p.name, p)
        list(many.map(lambda p: measure(p, "saturation"), first.values()))
        saturated = [p for p in found if (folder / f"{p.name}.graph").exists()]
        list(many.map(lambda t: measure(*t), [(p, x) for p in saturated for x in ("weights", *extractors)]))
    return len(done)


def _key(r: dict[str, Any]) -> tuple[Any, ...]:
    return r["study"], int(r["links"]), r["kernel"], int(r["most_rows"] or 0), r["what"]


def _read(path: Path) -> list[dict[str, str]]:
    from eqkir.lab.experiment import read

    return read(path)


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


def one(links: int, without: tuple[str, ...], most: int, what: str, limit: float, target: str, path: str) -> dict[str, Any]:
    """Saturate a chain and write its graph to `path`, or read it and extract; seconds are of `what` alone, memory is the peak of the
    process that does it (for an extractor: with the graph and its weights)."""
    from eqkir.driver.chain import Chain
    from eqkir.driver.options import Options
    from eqkir.driver.outcome import Outcome
    from eqkir.extract.choose import problem
    from eqkir.extract.cost import cost_model
    from eqkir.extract.extractors import extractors
    from eqkir.extract.problem import Problem
    from eqkir.lab.cells import AT_ONCE
    from eqkir.targets import load_target

    if what == "saturation":
        c = Chain(grown(links), Options(target=target, check="none", limits=LIMITS, without=without), Outcome(f"chain{links}", ""))
        g, r = c.saturated.graph, c.saturated.report
        Path(path).write_bytes(pickle.dumps(Frozen(f"chain{links}", g, c.abstract, {})))
        return {
            "status": r.stop, "cpu_seconds": r.cpu_seconds, "seconds": r.seconds, "peak_bytes": r.peak_bytes, "enodes": g.enodes,
            "classes": len(g.classes),
        }  # fmt: skip
    f: Frozen = pickle.loads(Path(path).read_bytes())
    wall, cpu = time.perf_counter(), time.process_time()
    p, _ = problem(f.graph, f.abstract, load_target(target), {}, cost_model("roofline"))
    if most and len(p.rows) > most:
        p = Problem(p.graph, p.rows[:most], p.weight[:, :most], {e: s[:most] for e, s in p.scale.items()})
    row: dict[str, Any] = {"enodes": f.graph.enodes, "classes": len(f.graph.classes), "rows": len(p.rows), "status": "ok"}
    if what != "weights":
        wall, cpu = time.perf_counter(), time.process_time()
        if what in AT_ONCE:
            found = extractors()[what].extract(p, 0)
            row |= {"status": "heuristic", "cost": found[0].cost}
        else:
            solved = solve_rows(p, plain_extractor(what), limit)
            row |= {"status": solved.status, "cost": solved.cost}
    row |= {"cpu_seconds": time.process_time() - cpu, "seconds": time.perf_counter() - wall}
    return row | {"peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


def taken(row: dict[str, str]) -> float:
    """CPU seconds."""
    return float(row["cpu_seconds"] or 0.0)


def table_of(rows: list[dict[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Fitted exponents of time and memory in e-nodes over the study of length."""
    out = []
    for w in sorted({r["what"] for r in rows}):
        mine = [r for r in rows if r["what"] == w and r["study"] == "length" and r["enodes"] and r["status"] != "timeout"]
        time_, memory = ([(float(r["enodes"]), float(r[c] or 0)) for r in mine] for c in ("cpu_seconds", "peak_bytes"))
        line = [w, str(len(mine)), f"{max((x for x, _ in time_), default=0):.0f}"]
        for fit in (exponent(time_), exponent(memory)):
            line += [f"{fit[0]:.2g}", f"{fit[1]:.2f}"] if fit else ["–", "–"]
        out.append(line)
    head = ["what", "points", "largest e-graph", "seconds: a", "exponent b", "bytes: a", "exponent b"]
    return head, out


def variation_of(rows: list[dict[str, str]]) -> tuple[list[str], list[list[str]]]:
    """The studies of families and of rows: CPU seconds by point."""
    names = sorted({r["what"] for r in rows})
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for r in rows:
        if r["study"] == "length":
            continue
        label = f"without {r['without']}" if r["without"] else "all families" if r["study"] == "families" else f"{r['most_rows']} rows"
        line = lines.setdefault((r["study"], label), {"enodes": r["enodes"]})
        line[r["what"]] = f"{taken(r):.3g}" + (" t" if r["status"] == "timeout" else "")
    return ["study", "point", "e-nodes", *names], [[s, p, x["enodes"], *(x.get(n, "–") for n in names)] for (s, p), x in lines.items()]
