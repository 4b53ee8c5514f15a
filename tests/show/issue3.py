"""The Show lines of issue 3: (title, function that returns whether it holds and the figure)."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.show.tools import ROOT, closing_line, eqkir, json_lines, run

#: kernels whose peers must have been timed beside them
TIMED = (
    "attention_decode_paged_bf16", "varlen_attention_bf16", "mamba2_chunk_scan_bf16", "moe_grouped_gemm_bf16", "csr_spmv_f32",
    "cross_entropy_bf16",
)  # fmt: skip
#: percent of the library's speed that an attention kernel must reach
ATTENTION = {"attention_fwd_bf16": 55, "attention_causal_bf16": 55}
KERNELS, REFUSALS, FUZZ, HITS, EMITTED = 110, 5, 5000, 20, 0.2


def corpus_checked() -> tuple[bool, str]:
    rows = json_lines(eqkir("optimize", "corpus", "--target", "triton:nvidia-h200", "--check", "all", "-j", 2, "--json").stdout)
    ok = [x for x in rows if x["status"] == "ok" and set(x["checks"].values()) == {"ok"} and len(x["checks"]) == 4]
    documented = (ROOT / "docs" / "providers.md").read_text()
    refused = [x for x in rows if x not in ok and x["kernel"] in documented and x["diagnostics"]]
    bad = [f"{x['kernel']} ({x['stage']})" for x in rows if x not in ok and x not in refused]
    listed = ", ".join(f"{x['kernel']}: {x['diagnostics'][0]['code']}" for x in refused)
    figure = f"{len(ok)} of {len(rows)} ok; refused and documented: {listed or 'none'}" + (f"; NOT ok: {', '.join(bad)}" if bad else "")
    return len(rows) >= KERNELS and not bad and len(refused) <= REFUSALS, figure


def construction() -> tuple[bool, str]:
    from eqkir.program.construction import NAMES

    r = run(sys.executable, "-m", "pytest", "-v", "-n", "2", "-m", "construction", "tests/construction")
    mutations = sorted(set(re.findall(r"PASSED \S*::test_broken\[([^\]]+)\]", r.stdout)))
    hit = {n for n in NAMES if any(m.startswith(f"{n}-") for m in mutations)}
    figure = f"{len(NAMES)} checks ({', '.join(NAMES)}), {len(mutations)} mutations: {', '.join(mutations)}; {closing_line(r.stdout)}"
    return r.returncode == 0 and len(NAMES) == 16 and hit == set(NAMES), figure


def fuzz() -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as d:
        start = time.monotonic()
        r = run("make", "fuzz", f"N={FUZZ}", f"OUT={d}", seconds=7200)
        minutes = (time.monotonic() - start) / 60
        files = sorted(Path(d).rglob("summary.json"))
        if not files:
            return False, f"no summary: {r.stdout[-300:]}{r.stderr[-300:]}"
        s = json.loads(files[0].read_text())
    good = r.returncode == 0 and s["ok"] and s["cases"] >= FUZZ and not s["below"] and s["emitted_share"] >= EMITTED and minutes <= 60
    figure = f"{s['cases']} cases, {len(s['failures'])} failures, {s['cells']} operation-realisation cells, {len(s['below'])} below {HITS}"
    figure += f"; emitted code run in {100 * s['emitted_share']:.0f} %; refused by code: {s['refused']}; {minutes:.0f} min"
    return good, figure + (f" ({'; '.join(s['below'][:8])})" if s["below"] else "")


def gpu() -> tuple[bool, str]:
    path = ROOT / "bench" / "results" / "gpu.json"
    rows = json.loads(path.read_text())["rows"]
    corpus = {p.stem for p in (ROOT / "corpus" / "json").glob("*.json")}
    right = {r["kernel"] for r in rows if r["status"] == "ok"}  # rows that were not run have no kernel
    lacking = sorted(corpus - right)
    figures, good = [f"{len(corpus & right)} of {len(corpus)} kernels right at their bench shapes"], not lacking
    if lacking:
        figures.append(f"lacking: {', '.join(lacking)}")
    for name, wanted in ATTENTION.items():
        row = next((r for r in rows if r.get("kernel") == name and "ms" in r.get("peers", {}).get("library", {})), None)
        share = 100 * row["peers"]["library"]["ms"] / row["ms"] if row else 0.0
        good &= share >= wanted
        figures.append(f"{name} {share:.0f} % of SDPA{'' if share >= wanted else f' (< {wanted})'}")
    for name in TIMED:
        mine = [r for r in rows if r.get("kernel") == name]
        timed = [f"{p} {v['ms'] / r['ms']:.2f}×" for r in mine for p, v in r.get("peers", {}).items() if "ms" in v]
        good &= bool(timed)
        figures.append(f"{name}: {', '.join(timed) or 'no peer timed'}")
    return good, "; ".join(figures)


def language() -> tuple[bool, str]:
    r = run(sys.executable, "-m", "pytest", "-q", "tests/kir/test_docs.py")
    text = (ROOT / "docs" / "operations.md").read_text()
    sections = sum(line.startswith(("## ", "### ")) for line in text.splitlines())
    return r.returncode == 0, f"{sections} sections in docs/operations.md; {closing_line(r.stdout)}"


LINES: list[tuple[str, Callable[[], tuple[bool, str]]]] = [
    ("the whole corpus with all checks", corpus_checked),
    ("sixteen construction checks and their mutations", construction),
    (f"make fuzz N={FUZZ}", fuzz),
    ("every corpus kernel on the H200", gpu),
    ("docs/kir.md and docs/operations.md, tested", language),
]
