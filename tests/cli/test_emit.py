"""Programs stand on their own: where `eqkir.kir` cannot be imported and origins are stripped, they verify, run and emit the same code."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eqkir
from eqkir.kir.helpers import link
from eqkir.kir.inputs import make_inputs
from eqkir.kir.load import load_file
from eqkir.kir.memory import ViewArg
from eqkir.kir.model import Constexpr
from tests.cli.conftest import CORPUS, ROOT

ENTRIES = json.loads((ROOT / "tests" / "corpus_shapes.json").read_text())

KERNELS = ["softmax_bf16", "gemm_nn_bf16", "two_outputs", "shift_in_place", "argmax_inner_f32", "constexpr_epsilon"]

#: emits, verifies and interprets every program.json of a folder; importing anything of KIR is an error
CHILD = """
import json, sys
from pathlib import Path
import numpy as np

class NoKir:
    def find_spec(self, name, path=None, target=None):
        if name == "eqkir.kir" or name.startswith("eqkir.kir."):
            raise ImportError(f"{name} is out of reach")

sys.meta_path.insert(0, NoKir())
from eqkir.driver import programs
from eqkir.driver.abi_inputs import buffers
from eqkir.emit.triton import emit
from eqkir.program.interp import run
from eqkir.program.verify import verify
from eqkir.cli.emit import main

for path in sorted(Path(sys.argv[1]).glob("*/program.json")):
    p = programs.read(path)
    assert not p.origins
    assert not verify(p)
    with np.load(path.parent / "inputs.npz") as inputs:
        args, symbols = buffers(p.abi, json.loads((path.parent / "values.json").read_text()), dict(inputs), 0)
    assert not run(p, args, symbols).unwritten, path.parent.name
    assert main(path, path.parent / "again.py") == 0
assert not [m for m in sys.modules if m.startswith("eqkir.kir")]
"""


def write_inputs(folder: Path, name: str) -> None:
    """Valid input of a kernel: offsets that rise, permutations, and whatever else it may count on."""
    kernel, entry = link(load_file(CORPUS / f"{name}.json")).kernels[0], ENTRIES[name]
    symbols = entry["test"][1]
    constexprs = {p.id: p.default for p in kernel.params if isinstance(p, Constexpr)}
    args = make_inputs(kernel, symbols, 3, "plain", constexprs, entry.get("scalars"), entry.get("data"))
    roles = {p.id: p.role for p in kernel.params if p.kind == "view"}
    views = {n: a.array() for n, a in args.items() if isinstance(a, ViewArg) and roles[n] != "out"}
    np.savez(folder / "inputs.npz", **{n: a if a.dtype.isbuiltin == 1 else a.view(f"u{a.dtype.itemsize}") for n, a in views.items()})
    scalars = {n: a.item() for n, a in args.items() if not isinstance(a, ViewArg)}
    (folder / "values.json").write_text(json.dumps({**symbols, **scalars}))


def emitted(folder: Path, names: list[str]) -> dict[str, eqkir.KernelResult]:
    """Artifacts with the origins of program.json stripped."""
    out = {}
    for name in names:
        k = eqkir.optimize(CORPUS / f"{name}.json", out=folder, check="none")[name]
        assert k.ok, k.diagnostics
        data = json.loads(k.program_json)
        assert data["origins"], name
        (folder / name / "program.json").write_text(json.dumps({**data, "origins": {}}))
        write_inputs(folder / name, name)
        out[name] = k
    return out


def compare(folder: Path, names: list[str]) -> None:
    results = emitted(folder, names)
    r = subprocess.run([sys.executable, "-c", CHILD, str(folder)], capture_output=True, text=True, timeout=600)
    assert r.returncode == 0, r.stderr
    for name, k in results.items():
        again = (folder / name / "again.py").read_text()
        assert ast.dump(ast.parse(again)) == ast.dump(ast.parse(k.source)), name


def test_the_same_source_without_kir_and_origins(tmp_path):
    compare(tmp_path, KERNELS)


@pytest.mark.slow
def test_the_same_source_without_kir_and_origins_for_the_whole_corpus(tmp_path):
    compare(tmp_path, sorted(p.stem for p in CORPUS.glob("*.json")))


def test_emit_refuses_what_is_no_program(cli, tmp_path):
    (tmp_path / "p.json").write_text("{")
    (tmp_path / "q.json").write_text('{"program": 1}')
    for name, code in (("p.json", "EQK-RUN-PROGRAM"), ("q.json", "EQK-PRG-JSON"), ("r.json", "EQK-RUN-PROGRAM")):
        r = cli("emit", name)
        assert r.returncode == 1 and code in r.stderr and "Traceback" not in r.stderr
