"""What an experiment runs on: kernels (frozen graph, many rows, weights from a cost model) and plain e-graphs (their own costs).

A kernel is saturated once an experiment; the frozen graph and the abstract program lie in a file of the experiment's folder, from which
every cell is computed. The file is a cache of this process family's own making and is not read from anywhere else.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from eqkir.driver.options import Options
from eqkir.driver.scan import Task
from eqkir.extract.graph import FrozenGraph
from eqkir.extract.plain.graph import Plain
from eqkir.extract.plain.prepare import Prepared, prepare
from eqkir.extract.problem import Problem
from eqkir.lab import gym
from eqkir.program.abstract import Abstract

#: structures are counted up to here
COUNTED = 1000


@dataclass(frozen=True, slots=True)
class Source:
    """An instance by name: `kind` is ``kernel`` (`text`: KIR of it alone) or ``plain`` (`path`)."""

    name: str
    kind: str
    path: str
    digest: str
    text: str = ""
    kernel: str = ""


def sources(paths: list[Path], options: Options, jobs: int = 1) -> tuple[list[Source], list[str]]:
    """The instances of files and folders, by name, and why what is none was left out."""
    from eqkir.driver.batch import scan_files
    from eqkir.driver.outcome import Outcome

    files = sorted({f for p in paths for f in (p.rglob("*.json") if p.is_dir() else [p])})
    roots = [p for p in paths if p.is_dir()]
    plain = [f for f in files if _is_plain(f)]
    out, left = [], []
    for f in plain:
        name = next((str(f.relative_to(r).with_suffix("")) for r in roots if f.is_relative_to(r)), f.stem)
        out.append(Source(name, "plain", str(f), hashlib.sha256(f.read_bytes()).hexdigest()))
    for t in scan_files([f for f in files if f not in set(plain)], jobs):
        if isinstance(t, Outcome):
            left.append(f"{t.file}: {t.diagnostics[0]['code'] if t.diagnostics else t.status}")
        else:
            out.append(Source(t.kernel, "kernel", t.file, hashlib.sha256(t.kir.encode()).hexdigest(), t.kir, t.kernel))
    return sorted(out, key=lambda s: (s.kind, s.name)), left


def _is_plain(f: Path) -> bool:
    try:
        found = json.loads(f.read_text())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "nodes" in found and "root_eclasses" in found


@dataclass(frozen=True)
class Frozen:
    """A saturated kernel: graph, abstract program, and what saturation cost (CPU seconds of this process and its children, peak bytes)."""

    kernel: str
    graph: FrozenGraph
    abstract: Abstract
    figures: dict[str, Any]


def freeze(source: Source, options: Options, folder: str) -> dict[str, Any]:
    """Saturate a kernel and write `<folder>/<name>.graph`; the figures."""
    from eqkir.driver.chain import Chain
    from eqkir.driver.job import kernel_of
    from eqkir.driver.outcome import Outcome
    from eqkir.extract.choose import problem
    from eqkir.extract.cost import cost_model
    from eqkir.extract.structures import count_structures

    task = Task(source.path, 0, source.kernel, source.text)
    start = time.perf_counter()
    chain = Chain(kernel_of(task), options, Outcome(task.kernel, task.file))
    saturated = chain.saturated
    seconds = time.perf_counter() - start
    p, _ = problem(saturated.graph, chain.abstract, chain.target, chain.steering, cost_model("roofline"))
    count = count_structures(p, COUNTED)
    figures = {
        "enodes": saturated.graph.enodes,
        "classes": len(saturated.graph.classes),
        "rows": len(p.rows),
        "structures": count.count,
        "structures_exact": count.exact,
        "saturation_seconds": seconds,
        "stop": saturated.report.stop,
    }
    path = Path(folder, f"{source.name}.graph")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    draft.write_bytes(pickle.dumps(Frozen(source.kernel, saturated.graph, chain.abstract, figures)))
    draft.replace(path)
    return figures


@lru_cache(maxsize=1)
def frozen(path: str) -> Frozen:
    """What `freeze` wrote."""
    found = pickle.loads(Path(path).read_bytes())
    assert isinstance(found, Frozen)
    return found


@lru_cache(maxsize=1)
def kernel_problem(path: str, kernel: str, model: str, target: str, shapes: tuple[tuple[str, int], ...], most: int) -> tuple[Problem, str]:
    """The extraction problem of a kernel under a cost model (at most `most` rows, all for 0), and the model's unit."""
    from eqkir.extract.choose import problem
    from eqkir.lab.costs import load_model
    from eqkir.targets import load_target

    f = frozen(path)
    m = load_model(model, kernel)
    t = load_target(target)
    p, _ = problem(f.graph, f.abstract, t, dict(shapes), m)
    if most and len(p.rows) > most:
        p = Problem(p.graph, p.rows[:most], p.weight[:, :most], {e: s[:most] for e, s in p.scale.items()})
    return p, m.contract.unit


@lru_cache(maxsize=2)
def plain(path: str) -> tuple[Plain, Prepared]:
    """A plain e-graph of a file, prepared."""
    g = gym.read(Path(path))
    return g, prepare(g)
