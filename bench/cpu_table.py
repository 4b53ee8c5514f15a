"""Results of the CPU benchmark as Markdown: a section a machine and number of threads, misses and failures included."""

from __future__ import annotations

import math
import statistics
from typing import Any

Row = dict[str, Any]
KINDS = ("numpy", "torch", "compile")
#: ratio that a workload counts with where our side failed
FAILED = 0.1

HEAD = """# Measured results on the CPU

Bound calls, results checked against a reference formula first. Packing, intermediate results, dispatch to threads and joins are inside;
compilation, loading and our outputs' allocation are outside. `×` is peer time / our time: above 1 we are faster; the median over rounds
in which all took turns. Peers: numpy with `out=`, torch's eager formulas, the same through torch.compile, each in a process of its own
with the same number of threads, and free memory is used again. A workload that failed on our side counts as 0.1 in the means; `miss` is
predicted / measured time, `% of copy` the bytes that a call must move per second, beside a measured copy. Written by
`python bench/cpu.py table`; the raw rows are in `bench/results/cpu.json`.
"""


#: bytes from which a workload lies in no cache
LARGE = 1 << 26


def line(row: Row) -> str:
    """One row for the terminal."""
    if row["status"] != "ok":
        return f"{row['workload']} ×{row['threads']}: FAIL {row['status'][:300]}"
    peers = ", ".join(f"{k} {p['ratio']:.2f}×" if "ratio" in p else f"{k}: {p['status'][:80]}" for k, p in sorted(row["peers"].items()))
    return f"{row['workload']} ×{row['threads']}: {row['ms']:.4f} ms, {share(row):.0f} % of copy, {peers}"


def share(row: Row) -> float:
    """Bytes per second in percent of the measured copy."""
    return 100 * row["bytes"] / (row["ms"] * 1e-3) / row["copy_bytes_per_s"] if row["copy_bytes_per_s"] else math.nan


def mean(rows: list[Row], kind: str) -> str:
    """Geometric mean of the ratios and their number; what failed on our side counts as `FAILED`, what was not run does not count."""
    values = [r["peers"][kind]["ratio"] for r in rows if r["status"] == "ok" and "ratio" in r["peers"].get(kind, {})]
    if not values:
        return "not measured"
    values += [FAILED] * sum(r["status"] != "ok" and not r["status"].startswith("not run") for r in rows)
    return f"{math.exp(statistics.fmean(map(math.log, values))):.2f} ({len(values)})"


def markdown(machines: dict[str, dict[str, Any]], rows: list[Row], notes: str = "") -> str:
    """The page."""
    out = [HEAD]
    for on, m in machines.items():
        about = [m[k] for k in ("eqkir", *KINDS) if isinstance(m.get(k), dict)]
        versions = ", ".join(f"{k} {v}" for k, v in sorted({k: v for a in about for k, v in a.items()}.items()))
        out.append(f"## {m['processor']}\n")
        out.append(f"{m['cores']} processors, {m['caches']}; load before: {m['load']:.1f}; {versions}.\n")
        for c in m.get("calls", []):
            out.append(
                f"A call of the smallest arrays, {c['threads']} thread{'s' * (c['threads'] > 1)}: bound {c['bound_us']:.2f} µs, checked "
                f"{c['checked_us']:.2f} µs, checked with new arrays {c['fresh_us']:.2f} µs.\n"
            )
        mine = [r for r in rows if r["on"] == on]
        for threads in sorted({r["threads"] for r in mine}):
            out += _section([r for r in mine if r["threads"] == threads], threads)
    return "\n".join(out) + notes


def _section(part: list[Row], threads: int) -> list[str]:
    copy = statistics.median([r["copy_bytes_per_s"] for r in part if r["bytes"] > LARGE and r["status"] == "ok"] or [0.0])
    means = ", ".join(f"{k} {mean(part, k)}" for k in KINDS)
    told_copy = f"Copies of as many bytes, in turns: {copy * 1e-9:.1f} GB/s in the median of the large ones."
    out = [f"### {threads} thread{'s' * (threads > 1)}\n", f"{told_copy} Geometric means: {means}.\n"]
    bound = [r for r in part if r["status"] == "ok" and r["memory"]]
    if bound:
        reached = sum(share(r) >= 85 for r in bound)
        out.append(f"Of {len(bound)} workloads that memory alone should bound, {reached} reach 85 % of the copy.\n")
    out += ["| workload | ms | predicted ms | miss | % of copy | Gflop/s | numpy × | torch × | compile × |", "|---|" + "---:|" * 8]
    told: list[str] = []
    for r in part:
        if r["status"] != "ok":
            out.append(f"| {r['workload']} | {'not run' if r['status'].startswith('not run') else 'failed'} |  |  |  |  |  |  |  |")
            told.append(f"- {r['workload']}: {_plain(r['status'])}")
            continue
        ratios = [f"{p['ratio']:.2f}" if "ratio" in (p := r["peers"].get(k, {})) else "" for k in KINDS]
        lacking = {k: p["status"] for k, p in r["peers"].items() if "status" in p}
        told += [f"- {r['workload']}, {k}: {_plain(s)}" for k, s in lacking.items() if not s.startswith("numpy has")]
        rate = f"{r['flops'] / (r['ms'] * 1e6):.0f}" if r["flops"] else ""
        guess = r.get("predicted_ms", 0.0)
        miss = f"{guess / r['ms']:.2f}" if guess else ""
        moved = f"{share(r):.0f}" if r["memory"] else ""
        out.append(f"| {r['workload']} | {r['ms']:.4f} | {guess:.4f} | {miss} | {moved} | {rate} | {' | '.join(ratios)} |")
    return [*out, "", *(["Without a time:\n", *told, ""] if told else [])]


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "/").split())[:200]
