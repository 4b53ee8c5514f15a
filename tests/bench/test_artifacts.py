"""Artifacts of the benchmark run in the provider's interpreter and compile without a device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
CHOSEN = ("--only", "sum_inner_f32", "--only", "embedding_bf16", "--only", "dual_gemm_swiglu_bf16", "--only", "fp8_quantize_per_token")


def bench(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / "gpu.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, cwd=BENCH.parent, timeout=300)


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench")
    done = bench("emit", "--out", str(out), *CHOSEN)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.interpreter
def test_artifacts_are_right_in_the_interpreter(emitted: Path) -> None:
    done = bench("dry", "--artifacts", str(emitted))
    assert done.returncode == 0 and "4 of 4 right" in done.stdout, done.stdout + done.stderr


@pytest.mark.interpreter
def test_a_wrong_artifact_is_noticed(emitted: Path, tmp_path: Path) -> None:
    (folder,) = emitted.glob("sum_inner*")
    copy = tmp_path / folder.name
    (copy / "00").mkdir(parents=True)
    (copy / "workload.json").write_text((folder / "workload.json").read_text())
    (copy / "00" / "manifest.json").write_text((folder / "00" / "manifest.json").read_text())
    source = (folder / "00" / "kernel.py").read_text()
    assert "(a + b)" in source
    (copy / "00" / "kernel.py").write_text(source.replace("(a + b)", "(a + b) * 1.0625"))
    done = bench("dry", "--artifacts", str(tmp_path))
    assert done.returncode == 1 and "wrong" in done.stdout, done.stdout + done.stderr


@pytest.mark.compile
def test_artifacts_compile_ahead_without_a_device(emitted: Path, tmp_path: Path) -> None:
    done = bench("run", "--artifacts", str(emitted), "--jobs", "2", "--budget", "0", TRITON_CACHE_DIR=str(tmp_path))
    assert "compiled 4 of 4" in done.stdout, done.stdout + done.stderr
    assert len(list(tmp_path.rglob("*.cubin"))) == 4
    assert done.stdout.count("not run: out of time") == 4
