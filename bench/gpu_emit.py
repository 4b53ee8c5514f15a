"""Optimize the workloads' kernels and write their artifacts, in worker processes. Needs eqkir."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import eqkir
from eqkir.driver.artifacts import canonical, write_atomic, write_kernel

ROOT = Path(__file__).resolve().parent.parent


def source(kernel: str) -> Path:
    """The kernel's file: in the corpus, or among those that later layers do not take yet."""
    found = [p for folder in ("json", "pending") if (p := ROOT / "corpus" / folder / f"{kernel}.json").exists()]
    if not found:
        raise FileNotFoundError(f"no file for {kernel}")
    return found[0]


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """`request`: entry, out, target, generic, variants. ``{"status": "ok", "line": …}`` or the diagnostics."""
    w, folder = request["entry"], Path(request["out"]) / request["entry"]["name"]
    (folder / "workload.json").unlink(missing_ok=True)
    pinned = {**({} if request["generic"] else w["shapes"]), **w["constexprs"]}
    result = eqkir.optimize(
        source(w["kernel"]), target=request["target"], kernels=[w["kernel"]], shapes=pinned or None, top=request["variants"],
        permit=tuple(w.get("permit", ())),
    )  # fmt: skip
    k = result.kernels[0]
    if not k.ok:
        return {"status": f"{k.status} at {k.stage}: {'; '.join(map(str, k.diagnostics))}"}
    for i, c in enumerate(k.candidates):
        report = {"cost_ns": c.cost, "bindings": c.manifest["parameters"], "options": c.manifest["launch_options"]}
        write_kernel(folder / f"{i:02d}", c.source, c.program_json, c.manifest, report)
        if not request["programs"]:
            (folder / f"{i:02d}" / "program.json").unlink()
    write_atomic(folder / "workload.json", canonical({**w, "candidates": len(k.candidates)}))
    return {"status": "ok", "line": f"{len(k.candidates)} candidate(s), predicted {(k.cost or 0) * 1e-6:.4f} ms"}
