#!/usr/bin/env python3
"""The CPU benchmark: native kernels beside numpy and torch, each in a process of its own, with one and two threads.

    python bench/cpu.py emit --target mojo:native --out out/cpu     optimize and compile the workloads of cpu_list.py (needs eqkir[cpu])
    python bench/cpu.py run --out out/cpu                           check, then time; torch is a peer where it is installed
    python bench/cpu.py table                                       bench/results/cpu.json as the table in bench/RESULTS_CPU.md
    python bench/cpu.py calls --out out/cpu                         what a bound and a checked call cost

Timed is the bound call: packing, intermediate results, dispatch to threads and joins are inside; compilation, loading and the allocation of
outputs are outside. Processes take turns for a fraction of a second each, so that the machine's state is the same for all; a row's ratio
is the median over the rounds of peer's median / our median. A workload that computes something wrong is never timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from cpu_list import entries  # noqa: E402
from cpu_numpy import PEERS  # noqa: E402
from worker_pool import Worker  # noqa: E402

ROOT = HERE.parent
RESULTS = HERE / "results" / "cpu.json"
TABLE = HERE / "RESULTS_CPU.md"
ROUNDS, SECONDS = 5, 0.3


def environment(kind: str, threads: int) -> dict[str, str]:
    """Every library to the same number of threads; its own choice of kernels is left to the peer's linear algebra."""
    n = str(threads)
    return dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "EQKIR_NUM_THREADS"), n)


def worker(kind: str, threads: int) -> Worker:
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    return Worker([sys.executable, str(HERE / "cpu_one.py")], environment(kind, threads))


def chosen(pattern: str) -> list[dict[str, Any]]:
    return [e for e in entries() if pattern in e["name"]]


# ------------------------------------------------------------------------------------------------ emit
def emit(args: argparse.Namespace) -> int:
    """Artifacts of every workload; what is refused is listed and stays a row without a time."""
    import eqkir
    from eqkir.driver.artifacts import canonical, write_atomic

    failed = 0
    for e in chosen(args.only):
        start, folder = time.perf_counter(), args.out / e["name"]
        scratch = args.out / ".emit"
        result = eqkir.optimize(
            ROOT / "corpus" / "json" / f"{e['kernel']}.json", target=args.target, kernels=[e["kernel"]],
            shapes={**e["shapes"], **e["constexprs"]}, out=scratch, jobs=0,
        )  # fmt: skip
        k = result.kernels[0]
        if k.ok:
            subprocess.run(["rm", "-rf", str(folder)], check=True)
            (scratch / e["kernel"]).rename(folder)
            write_atomic(folder / "workload.json", canonical({"name": e["name"], "predicted_ms": (k.cost or 0.0) * 1e-6}))
        failed += not k.ok
        words = "" if k.ok else f" {k.status} at {k.stage}: {'; '.join(map(str, k.diagnostics))[:300]}"
        print(f"{e['name']}: {'ok' if k.ok else 'FAIL'} {time.perf_counter() - start:.1f} s{words}", flush=True)
    return 1 if failed else 0


# ------------------------------------------------------------------------------------------------ run
def run(args: argparse.Namespace) -> int:
    """One row a workload and number of threads, written after each."""
    kinds = ["eqkir", "numpy"] + (["torch", "compile"] if importlib.util.find_spec("torch") else [])
    rows: list[dict[str, Any]] = []
    for threads in args.threads:
        workers = {kind: worker(kind, threads) for kind in kinds}
        copier = worker("copy", threads)
        bandwidth = copier.ask({"do": "copy", "seconds": 1.0, "threads": threads}, 120).get("bytes_per_s", 0.0)
        copier.stop()
        try:
            for e in chosen(args.only):
                row = measure(e, workers, threads, args, bandwidth)
                rows.append(row)
                print(line(row), flush=True)
                RESULTS.parent.mkdir(exist_ok=True)
                RESULTS.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        finally:
            for w in workers.values():
                w.stop()
    return 0


def measure(entry: dict[str, Any], workers: dict[str, Worker], threads: int, args: argparse.Namespace, bandwidth: float) -> dict[str, Any]:
    """Prepare in every process, then let them take turns."""
    row: dict[str, Any] = {"workload": entry["name"], "threads": threads, "status": "ok", "copy_bytes_per_s": bandwidth}
    row |= {"bytes": entry["bytes"], "memory": entry["memory"], "flops": entry_flops(entry), "peers": {}}
    told = args.out / entry["name"] / "workload.json"
    if told.exists():
        row["predicted_ms"] = json.loads(told.read_text())["predicted_ms"]
    ready: list[str] = []
    for kind, w in workers.items():
        if kind == "numpy" and entry["kernel"] not in PEERS:
            continue
        got = w.ask({"do": "prepare", "entry": entry, "kind": kind, "threads": threads, "folder": str(args.out), "check": True}, 600)
        if got["status"] == "ok" and not got["wrong"]:
            ready.append(kind)
        elif kind == "eqkir":
            row["status"] = str(got["wrong"][:2]) if got["status"] == "ok" else got["status"]
        else:
            row["peers"][kind] = {"status": got["status"] if got["status"] != "ok" else got["wrong"][0]}
    if row["status"] != "ok":
        return row
    medians: dict[str, list[float]] = {k: [] for k in ready}
    for _ in range(args.rounds):
        for kind in ready:
            got = workers[kind].ask({"do": "time", "seconds": args.seconds}, 600)
            if got["status"] == "ok":
                medians[kind].append(statistics.median(got["times"]))
    row["ms"] = statistics.median(medians["eqkir"]) * 1e3
    for kind in ready[1:]:
        ratios = [p / m for p, m in zip(medians[kind], medians["eqkir"])]
        if ratios:
            row["peers"][kind] = {"ms": statistics.median(medians[kind]) * 1e3, "ratio": statistics.median(ratios)}
    return row


def entry_flops(entry: dict[str, Any]) -> float:
    formula = entry.get("flops_formula")
    return float(eval(formula, {"__builtins__": {}}, dict(entry["shapes"]))) if formula else 0.0


# ------------------------------------------------------------------------------------------------ reports
def line(row: dict[str, Any]) -> str:
    if row["status"] != "ok":
        return f"{row['workload']} ×{row['threads']}: FAIL {row['status'][:300]}"
    peers = ", ".join(f"{k} {p['ratio']:.2f}×" if "ratio" in p else f"{k}: {p['status'][:80]}" for k, p in sorted(row["peers"].items()))
    return f"{row['workload']} ×{row['threads']}: {row['ms']:.4f} ms, {share(row)} of copy, {peers}"


def share(row: dict[str, Any]) -> str:
    """Bytes per second in percent of the measured copy."""
    if not row["copy_bytes_per_s"]:
        return "?"
    return f"{100 * row['bytes'] / (row['ms'] * 1e-3) / row['copy_bytes_per_s']:.0f} %"


def mean(rows: list[dict[str, Any]], kind: str) -> str:
    """Geometric mean of the ratios; what failed on our side counts as a tenth."""
    values = [r["peers"][kind]["ratio"] for r in rows if r["status"] == "ok" and "ratio" in r["peers"].get(kind, {})]
    if values:
        values += [0.1] * sum(r["status"] != "ok" for r in rows)
    return f"{math.exp(statistics.fmean(map(math.log, values))):.2f} ({len(values)})" if values else "not installed"


def table(args: argparse.Namespace) -> int:
    """RESULTS_CPU.md."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    out = [
        "# Measured results on the CPU", "",
        "Bound calls, results checked against a reference formula first. `×` is peer time / our time: above 1 we are faster. Written by",
        "`python bench/cpu.py table`; the raw rows are in `bench/results/cpu.json`. A workload that failed counts as 0.1 in the means.", "",
    ]  # fmt: skip
    for threads in sorted({r["threads"] for r in rows}):
        part = [r for r in rows if r["threads"] == threads]
        copy = max((r["copy_bytes_per_s"] for r in part), default=0.0)
        means = ", ".join(f"{k} {mean(part, k)}" for k in ("numpy", "torch", "compile"))
        out += [f"## {threads} thread{'s' * (threads > 1)}", "", f"Measured copy: {copy * 1e-9:.1f} GB/s. Geometric means: {means}.", ""]
        out += ["| workload | ms | predicted ms | % of copy | Gflop/s | numpy × | torch × | compile × |", "|---|" + "---:|" * 7]
        for r in part:
            if r["status"] != "ok":
                out.append(f"| {r['workload']} | failed |  |  |  |  |  |  |")
                continue
            ratios = [f"{p['ratio']:.2f}" if "ratio" in (p := r["peers"].get(k, {})) else "" for k in ("numpy", "torch", "compile")]
            rate = f"{r['flops'] / (r['ms'] * 1e6):.0f}" if r["flops"] else ""
            guess = f"{r['predicted_ms']:.3f}" if "predicted_ms" in r else ""
            out.append(f"| {r['workload']} | {r['ms']:.4f} | {guess} | {share(r) if r['memory'] else ''} | {rate} | {' | '.join(ratios)} |")
        out.append("")
    TABLE.write_text("\n".join(out), encoding="utf-8")
    return 0


def calls(args: argparse.Namespace) -> int:
    """Cost of a call of the smallest workload, in microseconds: bound, and checked with fresh arrays; the median of many."""
    code = """
import statistics, sys, time
import numpy as np
from eqkir.runtime.native import load
k = load(sys.argv[1])
x = np.ones((2, 8), np.float32)
b = k.bind(x, np.empty_like(x))
def each(f):
    out = []
    for _ in range(20000):
        t = time.perf_counter(); f(); out.append(time.perf_counter() - t)
    return statistics.median(out) * 1e6
def fresh():
    k(x[:], y[:])
y = np.empty_like(x)
print(f"bound {each(b):.2f} us, checked {each(lambda: k(x, y)):.2f} us, checked with fresh arrays {each(fresh):.2f} us")
"""
    import eqkir

    result = eqkir.optimize(ROOT / "corpus" / "json" / "relu_f32.json", target=args.target, out=args.out / ".calls", jobs=0)
    if not result.ok:
        print("\n".join(map(str, result.kernels[0].diagnostics)))
        return 1
    env = {**os.environ, "EQKIR_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code, str(args.out / ".calls" / "relu_f32")], env=env, check=False).returncode


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("step", choices=["emit", "run", "table", "calls"])
    p.add_argument("--out", type=Path, default=Path("out/cpu"), help="folder of the artifacts")
    p.add_argument("--target", default="mojo:native")
    p.add_argument("--only", default="", help="workloads whose name contains this")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--rounds", type=int, default=ROUNDS)
    p.add_argument("--seconds", type=float, default=SECONDS, help="of one turn")
    args = p.parse_args()
    return {"emit": emit, "run": run, "table": table, "calls": calls}[args.step](args)


if __name__ == "__main__":
    raise SystemExit(main())
