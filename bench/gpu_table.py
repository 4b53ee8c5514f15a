"""Results as Markdown: one row a workload, predictions and misses beside the measurements."""

from __future__ import annotations

from typing import Any

HEAD = """# Measured results

On {gpu} (torch {torch}): outputs poisoned, inputs fresh and random, results compared with a reference formula (f64, or exact integers)
before anything was timed; `error` is the largest error of an element in units of its bound (one unit in the last place of the output's
dtype and the accumulation's bound, see `bench/references/core.py`). Medians of CUDA-event times, candidates and peers in turn, buffers
rotated past the L2 cache. The floor is the larger of bytes / measured copy bandwidth and flops / the library's measured rate, both from
the same process. `×` is peer time / our time: above 1 we are faster. Written by `python bench/gpu.py table`; the raw rows are in
`bench/results/`. The CPU family's are in [RESULTS_CPU.md](RESULTS_CPU.md).

| workload | error | ms | % of floor | bound | predicted ms | miss | eager × | compile × | library × | host µs |
|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|
"""


def markdown(rows: list[dict[str, Any]], notes: list[str]) -> str:
    """The page. `miss` is predicted / measured: what the cost model got wrong. `notes`: paragraphs and list items after the table."""
    good = [r for r in rows if r["status"] == "ok"]
    out = HEAD.format(gpu=good[0]["gpu"] if good else "no GPU", torch=good[0]["torch"] if good else "?")
    for r in good:
        peers = [f"{p['ms'] / r['ms']:.2f}" if "ms" in (p := r["peers"].get(n, {})) else "" for n in ("eager", "compile", "library")]
        out += (
            f"| {r['workload']} | {_error(r)} | {r['ms']:.4f} | {r['percent_of_floor']:.0f} | {r['bound']} | {r['predicted_ms']:.4f} | "
            f"{r['predicted_ms'] / r['ms']:.2f} | {' | '.join(peers)} | {r['host_us']:.1f} |\n"
        )
    if notes:
        out += "\n## Notes\n"
    for before, note in zip(["", *notes], notes):
        out += ("" if note.startswith("- ") and before.startswith("- ") else "\n") + note + "\n"
    if remarks := [f"- {r['workload']}: {r['note']}\n" for r in good if r.get("note")]:
        out += "\nAbout these workloads:\n\n" + "".join(remarks)
    bad = [r for r in rows if r["status"] != "ok"]
    if bad:
        out += "\nNot measured:\n\n" + "".join(f"- {r['workload']}: {r['status']}\n" for r in bad)
    better = [r for r in good if r["best_ms"] < 0.98 * r["ms"]]
    if better:
        out += "\nCandidates that measured faster than the chosen one (the cost model's misses):\n\n"
        for r in better:
            c = r["candidates"][r["best"]]
            out += (
                f"- {r['workload']}: {r['best_ms']:.4f} ms instead of {r['ms']:.4f} with {_plain(c)}, predicted {c['cost_ns'] * 1e-6:.4f}\n"
            )
    return out


def _error(r: dict[str, Any]) -> str:
    return f"{r['worst']:.2f}" if r.get("worst") is not None else ""


def _plain(c: dict[str, Any]) -> str:
    return ", ".join(f"{k} = {v}" for k, v in sorted({**c.get("bindings", {}), **c.get("options", {})}.items()))
