"""A data release: the frozen e-graphs of kernels under one binding row and cost model, as extraction-gym JSON with a manifest.

Under one row an e-graph is lowered exactly (`eqkir.extract.plain.lower`): costs are numbers and segments are copies. The class data name
the sort and the tied copies (``"same_as"``), so that a reader can tell when a choice means a program.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from eqkir.driver import pool
from eqkir.driver.options import Options
from eqkir.extract.greedy import greedy, selection
from eqkir.extract.plain.lower import lower
from eqkir.lab import gym
from eqkir.lab.experiment import machine, versions
from eqkir.lab.instance import Source, freeze, kernel_problem, sources


def release(paths: list[Path], out: Path, model: str, row: str, jobs: int, options: Options) -> tuple[int, list[str]]:
    """Write ``<out>/<kernel>.json`` and ``<out>/manifest.json``; how many, and what was left out. `row`: ``best`` (of the default
    extractor) or a number."""
    found, left = sources(paths, options, jobs)
    kernels = [s for s in found if s.kind == "kernel"]
    out.mkdir(parents=True, exist_ok=True)
    entries: dict[str, Any] = {}
    tasks: list[tuple[Any, ...]] = [(s, model, row, options, str(out)) for s in kernels]
    for i, answer in pool.run("eqkir.lab.release:export", tasks, jobs, 1800.0):
        if isinstance(answer, pool.Failure):
            left.append(f"{kernels[i].name}: {answer.kind}: {answer.message}"[:200])
        else:
            entries[kernels[i].name] = {**answer, "digest": kernels[i].digest}
    data = {"cost_model": model, "row": row, "options": options.to_json(), "versions": versions(), "machine": machine(), "graphs": entries}
    (out / "manifest.json").write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
    return len(entries), sorted(left)


def export(source: Source, model: str, row: str, options: Options, out: str) -> dict[str, Any]:
    """One kernel's file; its figures."""
    with tempfile.TemporaryDirectory(prefix="eqkir-") as d:
        freeze(source, options, d)
        shapes = tuple(sorted((k, v) for k, v in options.shapes.items() if isinstance(v, int)))
        p, unit = kernel_problem(str(Path(d, f"{source.name}.graph")), source.kernel, model, options.target, shapes, 0)
    picks = greedy(p, True)
    costs = {r: p.cost(s, r) for r in range(len(p.rows)) if (s := selection(p, picks, r)) is not None}
    r = min(costs, key=lambda i: (costs[i], i)) if row == "best" else int(row)
    lo = lower(p, r)
    g = lo.plain
    same = {c: g.names[group[0]] for group in g.tied for c in group}
    g.data = {g.names[c]: {"type": p.graph.sorts[o], **({"same_as": same[c]} if c in same else {})} for c, o in enumerate(lo.origin)}
    g.extra = {"comment": f"{source.kernel}; row {p.rows[r]}; {model} in {unit}; e-classes CLASS@SEGMENTxSCALE are bodies of segments"}
    path = Path(out, f"{source.name}.json")
    gym.write(g, path)
    return {**gym.summary(g), "row": str(p.rows[r]), "tied": len(g.tied), "unit": unit, "greedy_dag": costs.get(r)}
