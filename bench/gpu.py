#!/usr/bin/env python3
"""The GPU benchmark. ``emit`` runs where eqkir is installed; ``run`` needs torch, triton and numpy alone, and a GPU.

    python bench/gpu.py emit --out out/bench                     artifacts of every workload (and, with --variants, runners-up)
    python bench/gpu.py run --artifacts out/bench --json results.json

    python bench/gpu.py table results.json > bench/RESULTS.md

``run`` starts one process a workload. There the outputs are poisoned, the inputs fresh and random, and the result is compared with the
torch formula in f64 before anything is timed; then eqkir's kernels and the peers are timed side by side, and the process measures the
machine's own copy bandwidth and matrix rate, against which the roofline is stated.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def workloads(path: Path) -> list[dict[str, Any]]:
    """The entries of workloads.json, the issue's lines first."""
    entries: list[dict[str, Any]] = json.loads(path.read_text())["workloads"]
    return sorted(entries, key=lambda w: (w.get("priority", 9), entries.index(w)))


def wanted(names: list[str], name: str) -> bool:
    return not names or any(n in name for n in names)


# ------------------------------------------------------------------------------------------------ emit
def emit(args: argparse.Namespace) -> int:
    """Optimize every workload's kernel for its shapes' dtype-generic form and write the artifacts; 1 when one failed."""
    sys.path.insert(0, str(HERE.parent))
    import eqkir
    from eqkir.driver.artifacts import canonical, write_atomic, write_kernel

    failed = 0
    for w in workloads(args.workloads):
        if not wanted(args.only, w["name"]):
            continue
        folder = args.out / w["name"]
        result = eqkir.optimize(
            HERE.parent / w["file"], target=args.target, kernels=[w["kernel"]], shapes=None if args.generic else w["shapes"],
            permit=tuple(w.get("permit", ())), top=args.variants,
        )  # fmt: skip
        k = result.kernels[0]
        if not k.ok:
            failed += 1
            print(f"{w['name']}: {k.status} at {k.stage}: {'; '.join(map(str, k.diagnostics))}", file=sys.stderr)
            continue
        for i, c in enumerate(k.candidates):
            write_kernel(
                folder / f"{i:02d}",
                c.source,
                c.program_json,
                c.manifest,
                {"cost_ns": c.cost, "bindings": c.manifest["parameters"], "options": c.manifest["launch_options"]},
            )
        write_atomic(folder / "workload.json", canonical({**w, "candidates": len(k.candidates)}))
        print(f"{w['name']}: {len(k.candidates)} candidate(s), predicted {(k.cost or 0) * 1e-6:.4f} ms")
    return 1 if failed else 0


# ------------------------------------------------------------------------------------------------ run
def run(args: argparse.Namespace) -> int:
    """Every emitted workload in a process of its own, bounded in time; writes the JSON after each, so that a cut run leaves its rows."""
    folders = sorted((p.parent for p in args.artifacts.glob("*/workload.json")), key=_order)
    rows: list[dict[str, Any]] = []
    start = time.monotonic()
    for folder in folders:
        if not wanted(args.only, folder.name):
            continue
        left = args.budget - (time.monotonic() - start)
        if left < 20:
            rows.append({"workload": folder.name, "status": "not run: out of time"})
            continue
        row = _in_process(folder, args, min(args.timeout, left))
        rows.append(row)
        print(line(row), flush=True)
        if args.json:
            _write(args.json, rows)
    if args.json:
        _write(args.json, rows)
    return 0 if all(r["status"] == "ok" for r in rows) else 1


def _order(folder: Path) -> tuple[int, str]:
    return json.loads((folder / "workload.json").read_text()).get("priority", 9), folder.name


def _in_process(folder: Path, args: argparse.Namespace, seconds: float) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "gpu.py"), "one", str(folder), "--seconds", str(args.seconds)]
    command += ["--no-compile"] if args.no_compile else []
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()
        return {"workload": folder.name, "status": f"time-out after {seconds:.0f} s"}
    try:
        row: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"workload": folder.name, "status": f"process ended with {p.returncode}", "stderr": err[-2000:]}
    return row


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"rows": rows}, indent=1, sort_keys=True) + "\n")
    os.replace(temporary, path)


def line(row: dict[str, Any]) -> str:
    """A row of the printed table."""
    if row["status"] != "ok":
        return f"{row['workload']:36} {row['status']}" + (f"\n{row['stderr']}" if row.get("stderr") else "")
    peers = "  ".join(f"{k} {v['ms']:.4f} ({v['ms'] / row['ms']:.2f}×)" for k, v in row["peers"].items() if "ms" in v)
    lost = "  ".join(f"{k}: {v['error']}" for k, v in row["peers"].items() if "error" in v)
    best = "" if row["best_ms"] >= row["ms"] else f"best candidate {row['best']} {row['best_ms']:.4f}  "
    return (
        f"{row['workload']:36} {row['ms']:8.4f} ms  {row['percent_of_floor']:5.1f} % of {row['floor_ms']:.4f} ({row['bound']})  "
        f"predicted {row['predicted_ms']:.4f}  {best}{peers} {lost}"
    )


# ------------------------------------------------------------------------------------------------ one
def one(args: argparse.Namespace) -> int:
    """Check and time one workload in this process; prints one JSON line."""
    import gpu_one

    row = gpu_one.measure(args.folder, args.seconds, not args.no_compile)
    print(json.dumps(row, sort_keys=True))
    return 0


def table(args: argparse.Namespace) -> int:
    """Print the results as Markdown; later files replace workloads of earlier ones. A file's ``notes`` comment on its rows."""
    import gpu_table

    rows: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    for path in args.results:
        results = json.loads(path.read_text())
        notes += results.get("notes", [])
        for r in results["rows"]:
            if r["status"] == "ok" or rows.get(r["workload"], r)["status"] != "ok":
                rows[r["workload"]] = r
    print(gpu_table.markdown(list(rows.values()), notes), end="")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(required=True)
    e = sub.add_parser("emit", help="write the artifacts (needs eqkir)")
    e.add_argument("--out", type=Path, default=Path("out/bench"))
    e.add_argument("--workloads", type=Path, default=HERE / "workloads.json")
    e.add_argument("--target", default="triton:nvidia-h200")
    e.add_argument("--variants", type=int, default=1, help="how many of the best candidates to write per workload")
    e.add_argument("--generic", action="store_true", help="one candidate for all extents instead of one for the workload's")
    e.add_argument("--only", action="append", default=[], help="workloads whose name contains this")
    e.set_defaults(call=emit)
    r = sub.add_parser("run", help="check and time on a GPU (needs torch, triton, numpy)")
    r.add_argument("--artifacts", type=Path, default=Path("out/bench"))
    r.add_argument("--json", type=Path)
    r.add_argument("--only", action="append", default=[])
    r.add_argument("--timeout", type=float, default=150, help="seconds for one workload")
    r.add_argument("--budget", type=float, default=1e9, help="seconds for the whole run")
    r.add_argument("--seconds", type=float, default=0.6, help="device seconds for timing one implementation")
    r.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    r.set_defaults(call=run)
    t = sub.add_parser("table", help="results as Markdown")
    t.add_argument("results", type=Path, nargs="+")
    t.set_defaults(call=table)
    o = sub.add_parser("one", help="one workload in this process")
    o.add_argument("folder", type=Path)
    o.add_argument("--seconds", type=float, default=0.6)
    o.add_argument("--no-compile", action="store_true")
    o.set_defaults(call=one)
    args = parser.parse_args()
    status: int = args.call(args)
    return status


if __name__ == "__main__":
    sys.exit(main())
