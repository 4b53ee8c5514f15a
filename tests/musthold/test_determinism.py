"""The same input gives the same bytes, in one process or many, whatever PYTHONHASHSEED."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from eqkir.base.expr import Coord, Dep, Int, Sym, atoms, lt
from tests.matrix.cells import REPRESENTATIVE, ROOT, kernels

SCRIPT = """
import json, sys
from eqkir.driver.artifacts import digest
from eqkir.driver.programs import dumps
from eqkir.emit.triton import emit
from tests.matrix.cells import Subject

out = {}
for name in sys.argv[1].split(","):
    for config in sys.argv[2].split(","):
        subject = Subject(name)
        program = subject.program(config)
        artifact = emit(program)
        out[f"{name} {config}"] = [digest(dumps(program)), digest(artifact if isinstance(artifact, str) else artifact.source)]
print(json.dumps(out))
"""


def digests(names: list[str], configs: list[str], seed: str) -> dict[str, list[str]]:
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    r = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, ",".join(names), ",".join(configs)],
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        cwd="/",
    )
    assert r.returncode == 0, r.stderr[-2000:]
    out: dict[str, list[str]] = json.loads(r.stdout.splitlines()[-1])
    return out


def test_program_and_source_have_the_same_bytes_under_every_hash_seed() -> None:
    names = list(REPRESENTATIVE[:5])
    configs = ["chosen", "worst", "random-5", "without-own"]
    first = digests(names, configs, "0")
    assert len(first) == len(names) * len(configs)
    for seed in ("1", "4242"):
        again = digests(list(reversed(names)), configs, seed)
        assert again == first, sorted(k for k in first if first[k] != again[k])


def test_programs_whose_bounds_are_data_have_the_same_bytes_under_every_hash_seed() -> None:
    """Operands that one index expression takes from memory are made in one order, loops between them are narrowed in one way."""
    names = ["csr_spmv_f32", "varlen_attention_bf16", "moe_grouped_gemm_bf16", "attention_decode_paged_bf16"]
    first = digests(names, ["chosen"], "0")
    for seed in ("2", "5"):
        again = digests(list(reversed(names)), ["chosen"], seed)
        assert again == first, sorted(k for k in first if first[k] != again[k])


def test_atoms_come_in_order_of_appearance_each_once() -> None:
    e = lt(Coord("z") + Dep(1) * Int(3), Dep(0) + Sym("N") + Coord("z"))
    assert atoms(e) == (Coord("z"), Dep(1), Dep(0), Sym("N"))


@pytest.mark.slow
def test_the_whole_corpus_has_the_same_bytes_under_every_hash_seed() -> None:
    names = kernels()
    first = digests(names, ["chosen", "worst", "random-0"], "7")
    assert digests(names, ["chosen", "worst", "random-0"], "31") == first
