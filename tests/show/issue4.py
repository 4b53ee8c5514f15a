"""The Show lines of issue 4: (title, function that returns whether it holds and the figure)."""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from tests.show.tools import ROOT, closing_line, eqkir, json_lines, run

#: the checks of the CPU family under ``--check all``
CHECKS = {"static", "numeric", "tasks", "compile", "native"}
REFUSALS, WORKLOADS = 5, 30
#: what a refusal says; a wrong result or a crash is none, documented or not
REFUSED = {"EQK-MOJ-UNSUPPORTED", "EQK-MOJ-LARGE"}
#: least geometric mean of peer time / our time
MEANS = {"numpy": 2.0, "torch": 1.3, "compile": 1.1}
#: what a workload that was not run, or that computed something wrong, counts in the means
MISSED = 0.1
#: least share of the better library's speed in f32 matrix products, and of a measured copy's where memory bounds a kernel
GEMM, COPY = 0.95, 0.85
#: microseconds of a call: bound, and checked with fresh arrays
BOUND, FRESH = 3.0, 15.0


def corpus_checked() -> tuple[bool, str]:
    rows = json_lines(eqkir("optimize", "corpus", "--target", "mojo:native", "--check", "all", "-j", 2, "--json", seconds=7200).stdout)
    rows = [x for x in rows if "kernel" in x]
    ok = [x for x in rows if x["status"] == "ok" and set(x["checks"]) == CHECKS and set(x["checks"].values()) == {"ok"}]
    documented = (ROOT / "docs" / "providers.md").read_text()
    refused = [x for x in rows if f"`{x['kernel']}`" in documented and {d["code"] for d in x["diagnostics"]} & REFUSED]
    bad = [f"{x['kernel']} ({x['stage']}: {', '.join(d['code'] for d in x['diagnostics'])})" for x in rows if x not in (*ok, *refused)]
    listed = ", ".join(f"{x['kernel']}: {x['diagnostics'][0]['code']}" for x in refused)
    figure = f"{len(ok)} of {len(rows)} ok natively; refused and documented: {listed or 'none'}"
    kernels = len(list((ROOT / "corpus" / "json").glob("*.json")))
    return len(rows) >= kernels > 0 and not bad and len(refused) <= REFUSALS, figure + (f"; NOT ok: {', '.join(bad)}" if bad else "")


def ratios(rows: list[dict[str, Any]], peer: str) -> list[float]:
    """Peer time / our time of every workload that the peer was timed on; what failed on our side is in it."""
    timed = [r["peers"][peer]["ratio"] for r in rows if r["status"] == "ok" and "ratio" in r["peers"].get(peer, {})]
    return timed + [MISSED] * sum(r["status"] != "ok" for r in rows)


def speed() -> tuple[bool, str]:
    path = ROOT / "bench" / "results" / "cpu.json"
    if not path.is_file():
        return False, f"{path.relative_to(ROOT)} is missing: `make bench-cpu`"
    told = json.loads(path.read_text())
    every: list[dict[str, Any]] = told["rows"] if isinstance(told, dict) else told
    figures, good = [], {r["threads"] for r in every} >= {1, 2}
    for threads in sorted({r["threads"] for r in every}):
        rows = [r for r in every if r["threads"] == threads]
        parts = []
        for peer, wanted in MEANS.items():
            values = ratios(rows, peer)
            mean = math.exp(fmean(map(math.log, values))) if values else 0.0
            enough = len(values) >= WORKLOADS and mean >= wanted
            good &= enough
            parts.append(f"{mean:.2f}× {peer} over {len(values)}{'' if enough else f' (< {wanted} or < {WORKLOADS} workloads)'}")
        gemms = [r for r in rows if r["workload"].startswith("gemm_f32")]
        for r in gemms:
            peers = [p["ratio"] for k, p in r["peers"].items() if k in ("numpy", "torch") and "ratio" in p]
            share = min(peers, default=0.0) if r["status"] == "ok" else 0.0
            good &= share >= GEMM and len(peers) == 2
            parts.append(f"{r['workload']} {100 * share:.0f} % of the better library{'' if share >= GEMM else f' (< {100 * GEMM:.0f})'}")
        good &= bool(gemms)
        bound = {r["workload"]: copy_share(r) for r in rows if r["memory"]}
        slow = {n: s for n, s in bound.items() if s < COPY}
        good &= bool(bound) and not slow
        listed = ", ".join(f"{n} {100 * s:.0f} %" for n, s in sorted(slow.items(), key=lambda x: x[1]))
        parts.append(f"{len(bound) - len(slow)} of {len(bound)} memory-bound kernels at {100 * COPY:.0f} % of a copy")
        parts += [f"below: {listed}"] * bool(slow)
        failed = [r["workload"] for r in rows if r["status"] != "ok"]
        parts += [f"failed: {', '.join(failed)}"] * bool(failed)
        parts += [f"{sum('predicted_ms' in r for r in rows)} of {len(rows)} with a prediction"]
        figures.append(f"{threads} thread{'s' * (threads > 1)}: " + "; ".join(parts))
    return good, " | ".join(figures)


def copy_share(row: dict[str, Any]) -> float:
    """Bytes per second over those of the measured copy; 0 for a workload that failed."""
    if row["status"] != "ok" or not row["copy_bytes_per_s"]:
        return 0.0
    return float(row["bytes"] / (row["ms"] * 1e-3) / row["copy_bytes_per_s"])


def call_overhead() -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as d:
        made = run(sys.executable, ROOT / "bench" / "cpu.py", "emit", "--artifacts", d, "--only", "relu_f32-64x256")
        r = run(sys.executable, ROOT / "bench" / "cpu.py", "calls", "--artifacts", d)
    found = re.findall(r"(bound|fresh) ([\d.]+) us", r.stdout)
    if made.returncode or {k for k, _ in found} != {"bound", "fresh"}:
        return False, (made.stdout + made.stderr + r.stdout + r.stderr)[-300:]
    bound, fresh = (max(float(us) for k, us in found if k == name) for name in ("bound", "fresh"))  # over the numbers of threads
    return bound < BOUND and fresh < FRESH, "; ".join(r.stdout.strip().split("\n"))


def third_party() -> tuple[bool, str]:
    files = sorted((ROOT / "tests" / "third_party").rglob("test_third_party*.py"))
    if not files:
        return False, "no test of a registered implementation from outside"
    r = run(sys.executable, "-m", "pytest", "-q", "-m", "slow or not slow", *files)
    return r.returncode == 0, f"{', '.join(str(Path(f).relative_to(ROOT)) for f in files)}: {closing_line(r.stdout)}"


LINES: list[tuple[str, Callable[[], tuple[bool, str]]]] = [
    ("every corpus kernel natively, with all checks", corpus_checked),
    ("speed beside numpy and torch, matrix products, memory-bound kernels (bench/results/cpu.json)", speed),
    ("what a call costs", call_overhead),
    ("an implementation of a test package is selected, expands, verifies and wins", third_party),
]
