#!/usr/bin/env python3
"""`python bench/workloads.py`: write `bench/workloads.json`, the fixed list of what the GPU benchmark checks and times.

An entry: name, kernel, shapes (symbols), constexprs, scalars, views, data (see `contents`), peers, bytes (what a launch touches, once,
and twice where it reads and writes it) and, for contractions, flops and the dtype whose matrix rate bounds them; ``permit``: numerical
permissions of the compile call; ``tiny``: sizes for a dry run.
`priority` 1 are the lines that an issue names.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from workload_list import LINES, NAMED  # noqa: E402

from corpus.build import every  # noqa: E402
from corpus.shapes import entry_of  # noqa: E402
from eqkir.base.dtypes import itemsize  # noqa: E402
from eqkir.kir.model import Kernel, Scalar  # noqa: E402

#: operations that write a view's elements without reading them
WRITES = {"store", "unique_scatter", "atomic_store"}


def read(kernel: Kernel) -> set[str]:
    """The views that a kernel reads anywhere: an `inout` view beside these is written only, in part."""
    found: set[str] = set()

    def walk(x: Any) -> None:
        if isinstance(x, dict):
            if isinstance(x.get("view"), str) and x.get("op") not in WRITES:
                found.add(x["view"])
            for y in x.values():
                walk(y)
        elif isinstance(x, (list, tuple)):
            for y in x:
                walk(y)

    walk(kernel.model_dump()["body"])
    return found


def size_of(view: dict[str, Any], twice: bool, shapes: dict[str, Any], touched: str | None) -> int:
    """Bytes of a view, or of the part of it that is touched, read and written where `twice`."""
    n = math.prod(shapes[e] if isinstance(e, str) else e for e in view["shape"])
    if touched:
        n = min(n, int(eval(touched, {"min": min}, dict(shapes))))
    return int(n * itemsize(view["dtype"]) * (2 if twice else 1))


def tiny(kernel: Kernel, facts: dict[str, Any]) -> dict[str, Any]:
    """Sizes of a dry run: the second assignment of the tests that has no empty extent, and their scalars and constexprs."""
    rows = [r for r in facts["test"] if all(r.values())]
    constexprs = {n: v[0] for n, v in facts["constexprs"].items()}
    return {"shapes": rows[min(1, len(rows) - 1)], "scalars": facts["scalars"], "constexprs": constexprs, "data": facts["data"]}


def entry(kernel: str, shapes: dict[str, int], options: dict[str, Any]) -> dict[str, Any]:
    """One workload."""
    k = every()[kernel]
    facts = entry_of(k)
    constexprs = {n: options.get("constexprs", {}).get(n, v[0]) for n, v in facts["constexprs"].items()}
    scalars = {**facts["scalars"], **options.get("scalars", {})}
    sizes = {**shapes, **constexprs, **scalars}
    if set(shapes) != {s.id for s in k.symbols}:
        raise ValueError(f"{kernel}: shapes {sorted(shapes)} for symbols {sorted(s.id for s in k.symbols)}")
    out: dict[str, Any] = {
        "name": "-".join([kernel, "x".join(str(n) for n in [*shapes.values(), *options.get("constexprs", {}).values()])]),
        "kernel": kernel,
        "shapes": {s.id: shapes[s.id] for s in k.symbols},
        "constexprs": constexprs,
        "scalars": scalars,
        "scalar_dtypes": {p.id: p.dtype for p in k.params if isinstance(p, Scalar)},
        "views": facts["views"],
        "data": {**facts["data"], **options.get("data", {})},
        "peers": options.get("peers", ""),
        "bytes": sum(
            size_of(v, v["role"] == "inout" and n in read(k), sizes, options.get("touched", {}).get(n)) for n, v in facts["views"].items()
        ),
        "tiny": tiny(k, facts),
    }
    if "flops" in options:
        out |= {"flops_formula": options["flops"], "flops": int(eval(options["flops"], {}, sizes)), "flop_dtype": options["rate"]}
    if "permit" in options:
        out["permit"] = sorted(options["permit"])
    if notes := [*filter(None, [options.get("note")]), *(f"permits {p}" for p in options.get("permit", ()))]:
        out["note"] = "; ".join(notes)
    if kernel in NAMED and (kernel != "gemm_nn_bf16" or set(shapes.values()) == {4096}):
        out["priority"] = 1
    return out


def text() -> str:
    """The JSON, one workload on a line. Raises ValueError when a kernel of the corpus has no line."""
    rows = [entry(*w) for w in LINES]
    if missing := every().keys() - {r["kernel"] for r in rows}:
        raise ValueError(f"no workload for {', '.join(sorted(missing))}")
    return '{"workloads": [\n' + ",\n".join(json.dumps(r) for r in rows) + "\n]}\n"


if __name__ == "__main__":
    (HERE / "workloads.json").write_text(text(), encoding="utf-8")
