"""The Show lines of issue 2: (title, function that returns whether it holds and the figure)."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.show.tools import ROOT, closing_line, eqkir, json_lines, percentile, run

CORPUS = "corpus"
#: percent of the measured floor or of a peer's speed that a workload must reach, by its name's beginning
GPU = {
    "softmax_bf16-32768x4096": ("floor", 85), "rms_norm_bf16-16384x8192": ("floor", 85), "bias_gelu_residual_bf16-8192x8192": ("floor", 85),
    "sum_inner_f32": ("floor", 85), "sum_middle_f32": ("floor", 85), "layer_norm_bf16-262144x4096": ("floor", 85),
    "gemm_nn_bf16-4096x4096x4096": ("library", 65), "gemm_bias_gelu_bf16": ("compile", 65),
}  # fmt: skip


def clean_clone() -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as d:
        clone = Path(d, "clone")
        run("git", "clone", "--quiet", ROOT, clone)
        start = time.monotonic()
        demo = run("make", "demo", cwd=clone)
        middle = time.monotonic()
        test = run("make", "test", cwd=clone)
        end = time.monotonic()
        table = re.search(r"(\d+) ok, (\d+) not", demo.stdout)
        figure = f"make demo {middle - start:.0f} s: {table[0] if table else demo.stderr[-300:]}; make test {end - middle:.0f} s: "
        return demo.returncode == 0 and test.returncode == 0, figure + closing_line(test.stdout)


def corpus_checked() -> tuple[bool, str]:
    figures, good = [], True
    r = eqkir("optimize", CORPUS, "--target", "triton:nvidia-h200", "--check", "all", "-j", 2, "--json")
    rows = json_lines(r.stdout)
    ok = [x for x in rows if x["status"] == "ok" and set(x["checks"].values()) == {"ok"} and len(x["checks"]) == 4]
    good &= len(ok) == len(rows) > 0
    bad = ", ".join(str(x["kernel"]) for x in rows if x not in ok)
    figures.append(f"{len(ok)} of {len(rows)} ok with all checks, no spills, PTX clean" + (f" (not: {bad})" if bad else ""))
    for target in ("triton:nvidia-a100", "triton:nvidia-b200"):
        rows = json_lines(eqkir("optimize", CORPUS, "--target", target, "--check", "compile", "-j", 2, "--json").stdout)
        n = sum(x["status"] == "ok" and x["checks"].get("compile") == "ok" for x in rows)
        refused = [x["kernel"] for x in rows if [d["code"] for d in x["diagnostics"]] == ["EQK-RUN-CAPABILITY"]]
        good &= n + len(refused) == len(rows) > 0
        figures.append(f"{target} compiles {n} of {len(rows)}" + (f", refuses {', '.join(refused)} (no such dtype)" if refused else ""))
    rows = json_lines(eqkir("optimize", CORPUS, "--check", "none", "-j", 2, "--json").stdout)
    seconds, memory = [x["seconds"] for x in rows], max(x["memory_bytes"] for x in rows)
    p95 = percentile(seconds, 0.95)
    good &= median(seconds) <= 0.5 and p95 <= 3 and memory <= 1 << 30
    figures.append(f"median {median(seconds):.2f} s, p95 {p95:.2f} s, worker memory {memory / 2**20:.0f} MiB")
    return good, "; ".join(figures)


def matrix() -> tuple[bool, str]:
    from tools.matrix import run_matrix

    start = time.monotonic()
    s = run_matrix(jobs=2, progress=True)
    minutes = (time.monotonic() - start) / 60
    parts = [f"{s['cells_ok']} of {s['cells']} cells, {s['cases']} cases, {s['digests']} distinct digests"]
    for engine in ("interpreter", "compile"):
        if e := s.get(engine):
            parts.append(f"{engine} {e['cells_ok']} of {e['cells']}")
            parts += [f"{engine}: {f['kernel']} {f['config']}: {f['faults'][0]}" for f in e["faults"][:3]]
    parts += [f"{f['kernel']} {f['config']}: {f['faults'][0]}" for f in s["faults"][:3]]
    return s["ok"] and minutes <= 40, f"{'; '.join(parts)}; {minutes:.1f} min"


def mutants() -> tuple[bool, str]:
    from tests.mutation.campaign import campaign

    verdicts = campaign()
    caught = sum(bool(v.caught) for v in verdicts)
    survivors = [v for v in verdicts if not v.caught]
    share = caught / max(1, len(verdicts))
    harmless = all(v.reason for v in survivors)
    listed = "; ".join(f"{v.kernel} {v.operator} at {v.where}: {v.reason or 'UNEXPLAINED'}" for v in survivors)
    figure = f"{len(verdicts)} mutants, {caught} caught ({100 * share:.1f} %)" + (f"; survivors: {listed}" if survivors else "")
    return len(verdicts) >= 200 and share >= 0.95 and harmless, figure


def without_kir() -> tuple[bool, str]:
    r = run(sys.executable, "-m", "pytest", "-q", "-m", "slow or not slow", "tests/cli/test_emit.py")
    return r.returncode == 0, closing_line(r.stdout)


def gpu() -> tuple[bool, str]:
    path = ROOT / "bench" / "results" / "gpu.json"
    if not path.is_file():
        return False, f"{path.relative_to(ROOT)} is missing: `make bench-gpu`"
    rows = {r["workload"]: r for r in json.loads(path.read_text())["rows"]}
    figures, good = [], (ROOT / "bench" / "RESULTS.md").is_file()
    for name, (against, wanted) in GPU.items():
        row = next((r for n, r in rows.items() if n.startswith(name)), {"status": "not run"})
        if row["status"] != "ok":
            good = False
            figures.append(f"{name}: {row['status']}")
            continue
        if against != "floor" and "ms" not in row["peers"].get(against, {}):
            good = False
            figures.append(f"{name}: {against} was not timed")
            continue
        share = row["percent_of_floor"] if against == "floor" else 100 * row["peers"][against]["ms"] / row["ms"]
        good &= share >= wanted
        figures.append(f"{name} {row['ms']:.4f} ms, {share:.0f} % of {against}{'' if share >= wanted else f' (< {wanted})'}")
    return good, "; ".join(figures)


def worked_example() -> tuple[bool, str]:
    pages = [ROOT / "docs" / n for n in ("architecture.md", "example.md")]
    if missing := [p.name for p in pages if not p.is_file()]:
        return False, f"missing: {', '.join(missing)}"
    text = "\n".join(p.read_text() for p in pages)
    parts = {
        "KIR JSON": '"op": "reduce"', "P0": "c0:L1", "e-graph": "RedTree", "chosen program": "c0:LC", "Triton": "@triton.jit",
    }  # fmt: skip
    lacking = [n for n, sign in parts.items() if sign not in text]
    return not lacking, f"lacks {', '.join(lacking)}" if lacking else f"softmax: {', '.join(parts)}; {len(text.splitlines())} lines"


LINES: list[tuple[str, Callable[[], tuple[bool, str]]]] = [
    ("clean clone: make demo and make test", clean_clone),
    ("the corpus with all checks; other targets compile; time and memory", corpus_checked),
    ("the matrix of extractors, seeds and families", matrix),
    ("mutants of emitted source are caught", mutants),
    ("a process without eqkir.kir emits, verifies and interprets the same program", without_kir),
    ("speed on the H200", gpu),
    ("docs/architecture.md walks through softmax", worked_example),
]
