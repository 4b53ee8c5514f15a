"""A workload at its tiny sizes: contents, and what the reference interpreter makes of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from arrays import Numpy
from compare import Reference, sizes_of
from contents import arguments

from corpus.build import every, helpers
from eqkir.kir.helpers import inline, library
from eqkir.kir.memory import ViewArg
from eqkir.kir.reference import run

BENCH = Path(__file__).parents[2] / "bench"


@cache
def workloads() -> dict[str, dict[str, Any]]:
    """One entry a kernel."""
    entries = json.loads((BENCH / "workloads.json").read_text())["workloads"]
    return {w["kernel"]: w for w in reversed(entries)}


def written(entry: dict[str, Any]) -> list[str]:
    return [n for n, v in entry["views"].items() if v["role"] != "in"]


def interpreted(entry: dict[str, Any], seed: int) -> tuple[Reference, dict[str, Any], dict[str, Any]]:
    """(the formula's outputs, what was in the written views before, the interpreter's outputs)."""
    xp, sizes = Numpy(seed), sizes_of(entry, tiny=True)
    made = arguments(xp, entry["views"], entry["tiny"]["data"], sizes)
    read = {n: made[n].copy() for n, v in entry["views"].items() if v["role"] != "out"}
    before = {n: made[n].copy() for n in written(entry)}
    known = {h.name: h for r in helpers().values() for h in (*r.calls, r.helper)}
    kernel, _ = inline(every()[entry["kernel"]], library(tuple(known.values())))
    views = {n: ViewArg.of(a) for n, a in made.items()}
    run(kernel, {**views, **{n: sizes[n] for n in entry["scalars"]}}, constexprs=entry["tiny"]["constexprs"] or None)
    return Reference(xp, entry["kernel"], entry["views"], read, sizes), before, {n: views[n].array() for n in before}
