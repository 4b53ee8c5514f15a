"""Rank correlation of cost models with measured times: every measured candidate costed under its own binding row.

The graph of a kernel is saturated once, with the measured line's permissions; the problem has the one row that was measured, at the
measured shapes; the cost is that of the greedy DAG selection under the model's weights. So what is compared is the additive form that
extractors see, not the cost of whole programs.
"""

from __future__ import annotations

from collections import Counter
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any

from eqkir.driver import pool
from eqkir.driver.options import Options
from eqkir.lab.figures import geometric, spearman
from eqkir.lab.instance import Source, frozen, sources

COLUMNS = ("table", "workload", "kernel", "candidate", "cost_model", "cost", "measured_ms", "enodes")


def correlate(corpus: list[Path], tables: list[Path], models: list[str], out: Path, jobs: int, target: str) -> tuple[int, list[str]]:
    """Write ``<out>/correlation.csv``; number of rows and what was left out. Raises `EqkirError` for a table that is none."""
    import csv

    from eqkir.lab.costs import measurements

    found = {s.kernel: s for s in sources(corpus, Options(check="none"), jobs)[0] if s.kind == "kernel"}
    lines = [{"table": t.stem, **r} for t in tables for r in measurements(str(t)) if r["kernel"] in found]
    graphs = [out / "graphs" / f"{found[r['kernel']].name}.graph" for r in lines]
    known = [str(g) if g.exists() and not r.get("note") else "" for g, r in zip(graphs, lines, strict=True)]
    tasks: list[tuple[Any, ...]] = [(found[r["kernel"]], r, models, target, g) for r, g in zip(lines, known, strict=True)]
    left: list[str] = []
    rows: list[dict[str, Any]] = []
    for i, answer in pool.run("eqkir.lab.correlation:costs", tasks, jobs, 600.0):
        if isinstance(answer, pool.Failure):
            left.append(f"{lines[i]['workload']}: {answer.message}"[:200])
        else:
            rows += answer
    out.mkdir(parents=True, exist_ok=True)
    with (out / "correlation.csv").open("w", newline="") as f:
        w = csv.DictWriter(f, COLUMNS)
        w.writeheader()
        w.writerows(sorted(rows, key=lambda r: (r["table"], r["workload"], r["candidate"], r["cost_model"])))
    return len(rows), sorted(left)


def costs(source: Source, line: dict[str, Any], models: list[str], target: str, known: str = "") -> list[dict[str, Any]]:
    """Rows of one measured workload: candidates × models; candidates without a legal selection are left out. `known`: a file of
    `instance.freeze` to take the graph from."""
    from eqkir.driver.chain import Chain
    from eqkir.driver.job import kernel_of
    from eqkir.driver.outcome import Outcome
    from eqkir.driver.scan import Task
    from eqkir.extract.choose import problem
    from eqkir.extract.greedy import greedy, selection
    from eqkir.extract.rows import Row
    from eqkir.lab.costs import load_model

    permit = tuple(line.get("note", "").removeprefix("permits ").replace(",", " ").split()) if line.get("note") else ()
    shapes = {k: v for k, v in line["shapes"].items() if isinstance(v, int)}
    options = Options(target=target, shapes=shapes, permit=permit, check="none")
    chain = Chain(kernel_of(Task(source.path, 0, source.kernel, source.text)), options, Outcome(source.kernel, source.path))
    graph, abstract = (frozen(known).graph, frozen(known).abstract) if known else (chain.saturated.graph, chain.abstract)
    picked = {k: c for k, c in line["candidates"].items() if c.get("ms")}
    rows = [Row(tuple(sorted(c["bindings"].items())), tuple(sorted(c["options"].items())), "measured") for c in picked.values()]
    out = []
    for m in models:
        p, _ = problem(graph, abstract, chain.target, chain.steering, load_model(m, source.kernel), rows)
        picks = greedy(p, True)
        for i, (k, c) in enumerate(picked.items()):
            if (s := selection(p, picks, i)) is not None:
                out.append(
                    {
                        "table": line["table"], "workload": line["workload"], "kernel": source.kernel, "candidate": k, "cost_model": m,
                        "cost": p.cost(s, i), "measured_ms": c["ms"], "enodes": graph.enodes,
                    }
                )  # fmt: skip
    return out


def table_of(rows: list[dict[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Per model: correlation over all workloads of the largest table (their best measured candidate), and the mean over workloads of the
    correlation among their candidates where three or more were measured, and how much slower the candidate that the model ranks first is
    than the best of them (geometric mean)."""
    out = []
    for m in sorted({r["cost_model"] for r in rows}):
        mine: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for r in rows:
            if r["cost_model"] == m:
                mine.setdefault((r["table"], r["workload"]), []).append((float(r["cost"]), float(r["measured_ms"])))
        tables = Counter(t for t, _ in mine)
        wide = max(sorted(tables), key=lambda t: tables[t])
        best = [min(cs, key=lambda c: c[1]) for (t, _), cs in sorted(mine.items()) if t == wide]
        across = spearman([c for c, _ in best], [t for _, t in best])
        several = [cs for _, cs in sorted(mine.items()) if len(cs) >= 3]
        inside = [x for cs in several if not isnan(x := spearman([c for c, _ in cs], [t for _, t in cs]))]
        loss = geometric([min(cs)[1] / min(t for _, t in cs) for cs in several])
        mean = f"{fmean(inside):.3f}" if inside else "–"
        out.append([m, str(len(best)), f"{across:.3f}", str(len(inside)), mean, f"{loss:.3f}" if several else "–"])
    head = ["cost model", "workloads", "Spearman across workloads", "workloads with ≥ 3 candidates that it tells apart"]
    return [*head, "mean Spearman among candidates", "first / best measured"], out
