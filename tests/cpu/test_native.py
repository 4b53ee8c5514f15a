"""Native code computes what the reference computes, whatever tasks its instances are cut into; artifacts are loaded and called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqkir.targets.cpu import host_level

ROOT = Path(__file__).parents[2]
pytest.importorskip("mojo")
pytestmark = pytest.mark.skipif(not host_level(), reason="no described level of this machine")
#: a map, a reduction, a contraction of narrow floats, an atomic operation
SAMPLE = ("relu_f32", "softmax_f32", "gemm_nn_bf16", "bit_flags_u32")


def optimized(names: tuple[str, ...], out: Path, *words: str) -> list[dict[str, Any]]:
    files = [str(ROOT / "corpus" / "json" / f"{n}.json") for n in names]
    command = [sys.executable, "-m", "eqkir", "optimize", *files, "--target", "mojo:native", "--json", "-o", str(out), *words]
    r = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    rows = [json.loads(line) for line in r.stdout.splitlines() if line.startswith("{")]
    return [x for x in rows if "kernel" in x]


def test_every_check_passes_and_the_artifacts_can_be_called(tmp_path: Path) -> None:
    rows = optimized(SAMPLE, tmp_path, "--check", "all")
    assert [r["kernel"] for r in rows] == list(SAMPLE)
    for r in rows:
        assert r["status"] == "ok" and set(r["checks"].values()) == {"ok"}, r
        assert set(r["checks"]) == {"static", "numeric", "tasks", "compile", "native"}
    from eqkir.runtime.native import load

    k = load(tmp_path / "softmax_f32")
    x = np.random.default_rng(0).standard_normal((7, 300)).astype(np.float32)
    y = np.empty_like(x)
    k(x, y)
    e = np.exp(x - x.max(1, keepdims=True))
    assert np.allclose(y, e / e.sum(1, keepdims=True), rtol=1e-6)


def test_a_program_without_rules_runs_natively(tmp_path: Path) -> None:
    (row,) = optimized(("softmax_f32",), tmp_path, "--check", "all", "--without", "all")
    assert row["status"] == "ok" and row["checks"]["native"] == "ok"
