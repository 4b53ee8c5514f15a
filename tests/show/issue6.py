"""The Show lines of issue 6: (title, function that returns whether it holds and the figure)."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from eqkir.lab.experiment import read
from eqkir.lab.figures import CLOSED, Group, default_claim, groups, summaries
from eqkir.lab.markdown import percent
from tests.show.tools import ROOT, eqkir, json_lines

ALL = "greedy-dag,greedy-tree,egglog-tree,egglog-dag,beam,anneal,frontier,ilp,cpsat,random,worst"
#: what the kernels are run with: egglog's own extractors are left to the plain e-graphs and to a few kernels (they take seconds a row)
KERNEL_EXTRACTORS = "greedy-dag,greedy-tree,beam,anneal,frontier,ilp,cpsat,random,worst"
MODELS = "roofline,node_count,weighted_ops,fitted"
GYM = Path(os.environ.get("EQKIR_GYM", ROOT.parent / "shared" / "data" / "gym"))
MINUTES, NAMED, LARGE = 45, 20, 5000
#: what `optimize` extracts with: the line about the default is about both of its defaults
DEFAULT, MODEL = "greedy-dag", "roofline"


def results() -> Path:
    """Where the runs of these lines lie: kept between lines, so that the second reads what the first made."""
    return Path(os.environ.get("EQKIR_EXPERIMENT", ROOT / "out" / "issue6"))


def structures(folder: Path) -> dict[str, int]:
    return {r["instance"]: int(r["structures"] or 0) for r in read(folder / "instances.csv")}


def corpus() -> tuple[bool, str]:
    """Every kernel × extractors × cost models, then the report."""
    folder, start = results() / "corpus", time.monotonic()
    had = len(read(folder / "cells.csv"))
    r = eqkir(
        "experiment", "run", "--corpus", ROOT / "corpus" / "json", "--cost-models", MODELS, "--extractors", KERNEL_EXTRACTORS, "-j", 2,
        "--limit", 0.5, "-o", folder, seconds=3 * 3600,
    )  # fmt: skip
    report = eqkir("experiment", "report", folder)
    minutes = (time.monotonic() - start) / 60
    rows = [x for x in read(folder / "cells.csv") if x["limit"] == "0.5"]
    bad = [x for x in rows if x["status"] in ("failed", "killed")]
    kernels = len({x["instance"] for x in rows})
    note = f", of which {had} rows lay there before" if had else ""
    figure = f"{len(rows)} cells{note}, {kernels} kernels, {len(bad)} failed or killed, {minutes:.0f} min; {report.stdout.strip()}"
    whole = len({x["extractor"] for x in rows}) >= 8 and len({x["cost_model"] for x in rows}) >= 4
    return r.returncode == report.returncode == 0 and whole and not bad and minutes <= MINUTES, figure


def named() -> list[str]:
    """The kernels of the long runs, by kind and size."""
    lines = (ROOT / "bench" / "experiment_named.txt").read_text().splitlines()
    return [x for x in lines if x and not x.startswith("#")]


def long_run(names: list[str], extractors: str) -> int:
    """60 CPU seconds a cell under the default cost model, into the folder of the corpus; the exit status."""
    with tempfile.TemporaryDirectory() as d:
        for n in names:
            (Path(d) / f"{n}.json").symlink_to(ROOT / "corpus" / "json" / f"{n}.json")
        r = eqkir(
            "experiment", "run", "--corpus", d, "--cost-models", MODEL, "--extractors", extractors, "--limit", 60, "-j", 2,
            "-o", results() / "corpus", seconds=3 * 3600,
        )  # fmt: skip
    return int(r.returncode)


def proved() -> tuple[bool, str]:
    """60 CPU seconds of the extractors that prove, on the named kernels."""
    names, folder = named(), results() / "corpus"
    status = long_run(names, f"{DEFAULT},frontier,ilp")
    found = [g for g in groups(read(folder / "cells.csv")) if g.instance in names and g.model == MODEL]
    closed = [g for g in found if g.closed]
    lies = [c for g in found for c in g.cells if c.status == "optimal" and c.cost > g.best * (1 + CLOSED)]
    line = "; ".join(f"{g.instance} {percent(_gap(g, DEFAULT))}{'' if g.closed else f' (open {percent(g.open_gap)})'}" for g in found)
    ok = status == 0 and len(found) == len(names) == NAMED and not lies
    return ok, f"{len(closed)} of {len(found)} proved; {DEFAULT}'s gap: {line}"


def _gap(g: Group, extractor: str) -> float:
    return min((c.gap for c in g.cells if c.extractor == extractor), default=inf)


def default() -> tuple[bool, str]:
    """The default extractor against the best known cost, and against the time of whole-graph ILP on large e-graphs (60 s at most)."""
    folder = results() / "corpus"
    sizes = {r["instance"]: int(r["enodes"]) for r in read(folder / "instances.csv")}
    large = sorted(n for n, e in sizes.items() if e >= LARGE)
    status = long_run(large, f"{DEFAULT},ilp-whole")
    found, many = groups(read(folder / "cells.csv")), structures(folder)
    claim: dict[str, Any] = default_claim([g for g in found if g.model == MODEL], lambda n: many.get(n, 0))
    every: dict[str, Any] = default_claim(found, lambda n: many.get(n, 0))
    ratios = []
    for g in found:
        if g.instance in large and g.model == MODEL:
            cells = {x: [c for c in g.cells if c.extractor == x and c.raw["limit"] == "60"] for x in (DEFAULT, "ilp-whole")}
            stopped = any(c.status in ("timeout", "killed") for c in cells["ilp-whole"])
            taken = {x: max(c.seconds or 60.0 for c in cs) for x, cs in cells.items()}  # a killed worker had more than its limit
            ratios.append((g.instance, taken[DEFAULT] / taken["ilp-whole"], stopped))
    listing = ", ".join(f"{n} {min(c, 1000)}{'+' if c >= 1000 else ''}" for n, c in sorted(many.items()))
    worst = "; ".join(f"{i} {m} {percent(x)}" for (i, m), x in every["misses"][:10])
    time_line = ", ".join(f"{n} {'< ' if late else ''}{100 * x:.2g} %" for n, x, late in ratios) or f"none of ≥ {LARGE} e-nodes"
    figure = (
        f"{claim['groups']} kernels under {MODEL}: within 1 % {percent(claim['within'])}, largest gap {percent(claim['largest'])}; "
        f"all cost models: within 1 % {percent(every['within'])} of {every['groups']}, more than 1 %: {worst or 'none'}; "
        f"{DEFAULT}'s time in whole-graph ILP's: {time_line}; distinct programs: {listing}"
    )
    near = claim["groups"] > 0 and claim["within"] >= 0.95 and claim["largest"] <= 0.05
    return status == 0 and near and len(ratios) == len(large) and all(x <= 0.1 for _, x, _ in ratios), figure


def gym() -> tuple[bool, str]:
    """The public corpus: import, every extractor, the check, gaps, times, bounds."""
    folder = results() / "gym"
    r = eqkir("experiment", "run", "--corpus", GYM, "--extractors", ALL, "--limit", 10, "-j", 2, "-o", folder, seconds=3 * 3600)
    report = eqkir("experiment", "report", folder)
    found = groups(read(folder / "cells.csv"))
    bad = [c for g in found for c in g.cells if c.status in ("failed", "killed")]
    lies = [c for g in found for c in g.cells if c.status == "optimal" and c.cost > g.best * (1 + CLOSED) and g.best > 0]
    ilp = sum(c.status == "optimal" for g in found for c in g.cells if c.extractor == "ilp")
    lines = [
        f"{s.extractor}: at optimum or best known {percent(s.at_best)}, 95th percentile {percent(s.tail_gap)}, {s.seconds:.2g} s"
        for s in summaries(found)
    ]
    open_ = "; ".join(f"{g.instance} best {g.best:.6g}, bound {g.bound:.6g}" for g in found if not g.closed)
    files = len(list(GYM.glob("*/*.json")))
    figure = f"{len(found)} of {files} e-graphs, ILP proves {ilp}; not closed: {open_ or 'none'}; " + "; ".join(lines)
    return r.returncode == report.returncode == 0 and len(found) == files > 0 and not bad and not lies, figure


def largest_kernel() -> tuple[bool, str]:
    """Default `optimize` on the kernel of the corpus with the largest e-graph, alone in a process."""
    rows = read(results() / "corpus" / "instances.csv")
    if not rows:
        return False, "no instances: the first line has to run"
    name = max(rows, key=lambda r: int(r["enodes"] or 0))["instance"]
    x = json_lines(eqkir("optimize", ROOT / "corpus" / "json" / f"{name}.json", "--check", "none", "--json").stdout)[0]
    seconds = x["stages"].get("saturate", inf) + x["stages"].get("extract", inf)
    memory = x.get("memory_bytes", 0) / 1e6
    return seconds <= 2.0 and 0 < memory <= 500, f"{name}: {x.get('enodes')} e-nodes, {seconds:.2f} s, {memory:.0f} MB"


LINES: list[tuple[str, Callable[[], tuple[bool, str]]]] = [
    ("≥ 8 extractors × ≥ 4 cost models over the corpus, with a report", corpus),
    ("60 s runs on named kernels", proved),
    ("the default extractor near the best known", default),
    ("the extraction-gym corpus", gym),
    ("default optimize on the largest kernel", largest_kernel),
]
