"""A unit from outside: a distribution registers it, rows of the user name it, extraction chooses it where it wins, it runs natively."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eqkir.targets.cpu import host_level

HERE = Path(__file__).parent
CORPUS = HERE.parents[1] / "corpus" / "json"
ROWS = HERE / "rows.json"
SHAPES = ("--shape", "M=64,N=64,K=2048")


def eqkir(*arguments: str, installed: bool = True) -> subprocess.CompletedProcess[str]:
    """The command line, where the distribution is installed or is not."""
    path = [str(HERE.parents[1]), *([str(HERE)] if installed else [])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    return subprocess.run([sys.executable, "-m", "eqkir", *arguments], env=env, capture_output=True, text=True, timeout=900)


def done_by(folder: Path) -> set[str]:
    """Who does the operations of the program in a folder of artifacts."""

    def walk(x: object) -> set[str]:
        if isinstance(x, dict):
            found = {x["by"]} if isinstance(x.get("by"), str) else set()
            return found.union(*(walk(v) for v in x.values()))
        return set().union(*(walk(v) for v in x)) if isinstance(x, list) else set()

    return walk(json.loads((folder / "program.json").read_text()))


@pytest.mark.skipif(not host_level(), reason="no described level of this machine")
def test_a_unit_from_another_distribution_is_chosen_where_it_wins_and_runs(tmp_path: Path) -> None:
    pytest.importorskip("mojo")
    files = [str(CORPUS / f"{name}.json") for name in ("gemv_bf16", "gemm_f32")]
    r = eqkir("optimize", *files, "--target", "mojo:native", "--rows", str(ROWS), *SHAPES, "--check", "all", "--json", "-o", str(tmp_path))
    assert r.returncode == 0, r.stdout + r.stderr
    found = {o["kernel"]: o for o in map(json.loads, r.stdout.splitlines()) if "kernel" in o}
    assert {o["status"] for o in found.values()} == {"ok"} and all(o["checks"]["native"] == "ok" for o in found.values())
    assert done_by(tmp_path / "gemv_bf16") == {"contract_dealt"}, "one row at a time: products wait for each other"
    assert done_by(tmp_path / "gemm_f32") == {"contract_loop"}, "a tile of results: nothing waits"


def test_rows_may_name_what_is_installed_alone(tmp_path: Path) -> None:
    file = str(CORPUS / "gemv_bf16.json")
    r = eqkir("optimize", file, "--target", "mojo:x86-64-v4", "--rows", str(ROWS), "--check", "none", installed=False)
    assert r.returncode != 0 and "EQK-EXTRACT-ROW" in r.stdout + r.stderr and "contract_dealt" in r.stdout + r.stderr
