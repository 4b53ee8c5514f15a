#!/usr/bin/env python3
"""The GPU benchmark. ``emit`` and ``dry`` run where eqkir is installed; ``run`` needs torch, triton and numpy alone, and a GPU.

    python bench/gpu.py emit --out out/bench                     artifacts of every workload (and, with --variants, runners-up)
    python bench/gpu.py dry --artifacts out/bench                the same artifacts in Triton's interpreter, at tiny sizes
    python bench/gpu.py run --artifacts out/bench --json results.json
    python bench/gpu.py table results.json > bench/RESULTS.md

``run`` first compiles everything by many processes at once into Triton's cache; then one process after the other takes workloads until
one crashes. For each, the outputs are poisoned, the inputs fresh and random, and the result is compared with the reference formula
before anything is timed; then eqkir's kernels and the peers are timed side by side, and the process measures the machine's own copy
bandwidth and matrix rate, against which the roofline is stated.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from worker_pool import Worker, answer, spread

HERE = Path(__file__).resolve().parent


def workloads(path: Path) -> list[dict[str, Any]]:
    """The entries of workloads.json, the issues' lines first."""
    entries: list[dict[str, Any]] = json.loads(path.read_text())["workloads"]
    return sorted(entries, key=lambda w: w.get("priority", 9))


def wanted(names: list[str], name: str) -> bool:
    return not names or any(n in name for n in names)


def _worker(mode: str, environment: dict[str, str] | None = None) -> Worker:
    path = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return Worker([sys.executable, str(HERE / "gpu.py"), "worker", mode], {"PYTHONPATH": path, **(environment or {})})


def _priority(folder: Path) -> int:
    return int(json.loads((folder / "workload.json").read_text()).get("priority", 9))


def _predicted_ms(folder: Path) -> float:
    """Of the chosen program."""
    return float(json.loads((folder / "00" / "report.json").read_text())["cost_ns"]) * 1e-6


def _folders(args: argparse.Namespace) -> list[Path]:
    """Emitted workloads that are wanted, the issues' lines first."""
    found = [p.parent for p in args.artifacts.glob("*/workload.json") if wanted(args.only, p.parent.name)]
    if getattr(args, "warps", None):
        found = [f for f in found if "tl.debug_barrier()" in (f / "00" / "kernel.py").read_text()]
    return sorted(found, key=lambda f: (_priority(f), f.name))


# ------------------------------------------------------------------------------------------------ emit, dry
def emit(args: argparse.Namespace) -> int:
    """Optimize every workload's kernel for its sizes and write the artifacts; 1 when one failed."""
    entries = [w for w in workloads(args.workloads) if wanted(args.only, w["name"])]
    for old in [] if args.only else list(args.out.glob("*/workload.json")):  # those of an earlier list
        shutil.rmtree(old.parent)
    shared = {"out": str(args.out), "target": args.target, "generic": args.generic, "variants": args.variants, "programs": args.programs}
    failed = []

    def done(request: dict[str, Any], result: dict[str, Any]) -> None:
        name = request["entry"]["name"]
        if result["status"] != "ok":
            failed.append(name)
        print(f"{name}: {result.get('line') or result['status'] + ' ' + result.get('stderr', '')[-300:]}", flush=True)

    spread(lambda: _worker("emit"), [{"entry": w, **shared} for w in entries], args.jobs, args.timeout, done)
    size = sum(p.stat().st_size for p in args.out.rglob("*") if p.is_file()) / 2**20
    print(f"{len(entries) - len(failed)} of {len(entries)} workloads, {size:.1f} MiB" + (f"; not {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def dry(args: argparse.Namespace) -> int:
    """Every artifact in Triton's interpreter at its tiny sizes; 1 when one is wrong."""
    wrong = []

    def done(request: dict[str, Any], result: dict[str, Any]) -> None:
        name = Path(request["folder"]).name
        if result["status"] != "ok":
            wrong.append(name)
            print(f"{name}: {result['status']} {result.get('stderr', '')[-300:]}", flush=True)

    folders = _folders(args)
    requests = [{"folder": str(f), "seed": args.seed} for f in folders]
    spread(lambda: _worker("dry", {"TRITON_INTERPRET": "1"}), requests, args.jobs, args.timeout, done)
    print(f"{len(folders) - len(wrong)} of {len(folders)} right" + (f"; not {', '.join(wrong)}" if wrong else ""))
    return 1 if wrong else 0


# ------------------------------------------------------------------------------------------------ run
def run(args: argparse.Namespace) -> int:
    """Compile, check and time every emitted workload; writes the JSON after each, so that a cut run leaves its rows."""
    folders, rows, start = _folders(args), [], time.monotonic()
    worker = _worker("time")
    if folders:
        worker.start()  # imports while others compile
    unfit = compile_all(folders, args)
    print(f"compiled {len(folders) - len(unfit)} of {len(folders)} in {time.monotonic() - start:.0f} s", flush=True)
    for folder in sorted(folders, key=lambda f: _priority(f) > 1 and _predicted_ms(f) > args.limit_ms):
        left = args.budget - (time.monotonic() - start)
        if left < 15:
            row = {"workload": folder.name, "status": "not run: out of time"}
        elif unfit.get(folder.name, "").startswith("time-out"):
            row = {"workload": folder.name, "status": f"compile: {unfit[folder.name]}"}
        else:
            row = {"workload": folder.name, **_measured(worker, folder, args, left)}
        rows.append(row)
        print(line(row), flush=True)
        if args.json:
            _write(args.json, rows)
    worker.stop()
    good = sum(r["status"] == ("right" if args.warps else "ok") for r in rows)
    print(f"{good} of {len(rows)} ok in {time.monotonic() - start:.0f} s")
    return 0 if good == len(rows) else 1


def _measured(worker: Worker, folder: Path, args: argparse.Namespace, left: float) -> dict[str, Any]:
    """The row of a workload. What is predicted to be slow is tried at its tiny sizes first, and then has less time: a prediction may be
    wrong by far where lengths come from data."""
    compiled = any(n == "all" or n in folder.name for n in args.compile_peers) and not args.no_compile_peers
    request = {"folder": str(folder), "seconds": args.seconds, "peers": args.peers, "compile": compiled, "tiny": False, "warps": args.warps}
    slow = _predicted_ms(folder) > args.limit_ms

    def ask(seconds: float, **changes: Any) -> dict[str, Any]:
        row = worker.ask({**request, **changes}, min(seconds, left))
        if row.get("last"):
            worker.stop()
        return row

    if not slow or args.warps:
        return ask(args.timeout)
    small = ask(args.timeout, tiny=True)
    if small["status"] != "right":
        return {**small, "status": f"at tiny sizes: {small['status']}"}
    row = ask(args.slow_timeout)
    return row if row["status"] == "ok" else {**row, "status": f"{row['status']} (right at tiny sizes)"}


def compile_all(folders: list[Path], args: argparse.Namespace) -> dict[str, str]:
    """Fill Triton's cache; what went wrong, by workload (a candidate's own error shows again when it is launched)."""
    unfit: dict[str, str] = {}

    def done(request: dict[str, Any], result: dict[str, Any]) -> None:
        name = Path(request["folder"]).name
        if result["status"] != "ok":
            unfit[name] = result["status"]
            print(f"{name}: compile: {result['status']} {result.get('stderr', '')[-300:]}", flush=True)

    if args.jobs:
        requests = [{"folder": str(f), "capability": args.capability} for f in folders]
        spread(lambda: _worker("compile"), requests, args.jobs, args.compile_timeout, done)
    return unfit


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"rows": rows}, indent=1, sort_keys=True) + "\n")
    os.replace(temporary, path)


def line(row: dict[str, Any]) -> str:
    """A row of the printed table."""
    name = f"{row['workload'][:52]:52}"
    if row["status"] == "right" and "warps" in row:
        return f"ok   {name} right at {', '.join(map(str, row['warps']))} warps, {row['barriers']} barriers in its source"
    if row["status"] != "ok":
        return f"FAIL {name} {row['status']}" + (f"\n{row['stderr']}" if row.get("stderr") else "")
    peers = "  ".join(f"{k} {v['ms']:.4f} ({v['ms'] / row['ms']:.2f}×)" for k, v in row["peers"].items() if "ms" in v)
    lost = "  ".join(f"{k}: {v['error']}" for k, v in row["peers"].items() if "error" in v)
    best = "" if row["best_ms"] >= row["ms"] else f"best candidate {row['best']} {row['best_ms']:.4f}  "
    return (
        f"ok   {name} {row['ms']:9.4f} ms {row['percent_of_floor']:5.1f} % of {row['floor_ms']:.4f} ({row['bound']})  "
        f"worst {row['worst']:.2f} of bound at {row['where']}  predicted {row['predicted_ms']:.4f}  {best}{peers} {lost}".rstrip()
    )


def work(args: argparse.Namespace) -> int:
    """Answer requests of one kind until standard input ends."""
    if args.mode == "emit":
        from gpu_emit import handle
    elif args.mode == "dry":
        from gpu_dry import handle
    elif args.mode == "compile":
        from gpu_compile import handle
    else:
        from gpu_one import handle
    return answer(handle)


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
    e.add_argument("--programs", action="store_true", help="keep program.json, which a run does not read")
    e.add_argument("--only", action="append", default=[], help="workloads whose name contains this")
    e.add_argument("--jobs", type=int, default=2, help="processes")
    e.add_argument("--timeout", type=float, default=600, help="seconds for one workload")
    e.set_defaults(call=emit)
    d = sub.add_parser("dry", help="run the artifacts in Triton's interpreter at tiny sizes (needs eqkir)")
    d.add_argument("--artifacts", type=Path, default=Path("out/bench"))
    d.add_argument("--only", action="append", default=[])
    d.add_argument("--jobs", type=int, default=2)
    d.add_argument("--timeout", type=float, default=300)
    d.add_argument("--seed", type=int, default=0)
    d.set_defaults(call=dry)
    r = sub.add_parser("run", help="check and time on a GPU (needs torch, triton, numpy)")
    r.add_argument("--artifacts", type=Path, default=Path("out/bench"))
    r.add_argument("--json", type=Path)
    r.add_argument("--only", action="append", default=[])
    r.add_argument("--timeout", type=float, default=60, help="seconds for one workload")
    r.add_argument("--budget", type=float, default=1e9, help="seconds for the whole run")
    r.add_argument("--seconds", type=float, default=0.2, help="device seconds for timing one implementation")
    r.add_argument("--limit-ms", type=float, default=3000, help="programs predicted to take longer come last, at tiny sizes first")
    r.add_argument("--slow-timeout", type=float, default=25, help="seconds for one of those at its own sizes")
    r.add_argument("--jobs", type=int, default=12, help="processes that compile; 0 compiles as workloads come")
    r.add_argument("--compile-timeout", type=float, default=90, help="seconds for compiling one workload")
    r.add_argument("--capability", type=int, default=90, help="of the device, for compiling ahead")
    r.add_argument("--peers", default="EL", help="kinds of peers to time: E eager, L library; '' for none")
    r.add_argument("--compile-peers", action="append", default=[], help="torch.compile too where the name contains this; 'all'")
    r.add_argument("--warps", type=int, nargs="*", default=[], help="check what has barriers at these warp counts, time nothing")
    r.add_argument("--no-compile-peers", action="store_true", help="torch.compile nowhere")
    r.set_defaults(call=run)
    t = sub.add_parser("table", help="results as Markdown")
    t.add_argument("results", type=Path, nargs="+")
    t.set_defaults(call=table)
    o = sub.add_parser("worker")
    o.add_argument("mode", choices=("emit", "dry", "compile", "time"))
    o.set_defaults(call=work)
    args = parser.parse_args()
    status: int = args.call(args)
    return status


if __name__ == "__main__":
    sys.exit(main())
