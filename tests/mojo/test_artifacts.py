"""From a KIR file to a call: artifacts of the CPU family, `eqkir.load`, bound and checked calls, the engine `native`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eqkir
from eqkir.base.diagnostics import EqkirError
from eqkir.emit.mojo import toolchain
from eqkir.emit.mojo.native import FILES
from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel
from eqkir.runtime.native import LoadError
from eqkir.runtime.native import load as load_native

pytestmark = [pytest.mark.compile, pytest.mark.skipif(not toolchain.available(), reason="no Mojo compiler")]
ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "corpus" / "json"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "eqkir", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out")
    result = eqkir.optimize(CORPUS / "sgd_momentum_f32.json", target="mojo:native", out=folder, jobs=0)
    assert result.ok, result.kernels[0].diagnostics
    return folder / "sgd_momentum_f32"


def test_artifacts_hold_native_code(out: Path) -> None:
    assert {p.name for p in out.iterdir()} == {*FILES, "manifest.json", "program.json", "report.json"}
    told = json.loads((out / "native.json").read_text())
    assert told["kernel"] == "sgd_momentum_f32" and str(ROOT) not in (out / "native.json").read_text()


def test_a_loaded_kernel_computes(out: Path) -> None:
    kernel = eqkir.load(out)
    names = [v["name"] for v in kernel.native.told["views"]]
    shapes = {v["name"]: len(v["shape"]) for v in kernel.native.told["views"]}
    r = np.random.default_rng(0)
    arrays = {n: r.standard_normal((1000,) * shapes[n]).astype(np.float32) for n in names}
    again, before = ({n: a.copy() for n, a in arrays.items()} for _ in range(2))
    scalars = {s["name"]: 0.25 for s in kernel.native.told["scalars"]}
    kernel.bind(**arrays, **scalars)()
    kernel.native(*again.values(), *scalars.values())
    assert all(np.array_equal(arrays[n], again[n]) for n in names)
    changed = [v["name"] for v in kernel.native.told["views"] if v["role"] != "in"]
    assert changed and all(np.isfinite(arrays[n]).all() and not np.array_equal(arrays[n], before[n]) for n in changed)


def test_loading_needs_no_compiler_and_no_optimizer(out: Path) -> None:
    code = f"import sys, eqkir\neqkir.load({str(out)!r}).native\n"
    code += "heavy = {'egglog', 'pydantic', 'ml_dtypes', 'z3', 'typer', 'mojo', 'rich'}\n"
    code += "assert not heavy & {m.split('.')[0] for m in sys.modules}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_engine_native_agrees_with_the_reference() -> None:
    done = command("run", str(CORPUS / "index_add_f32.json"), "--engine", "native", "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    assert json.loads(done.stdout)["ok"]


def test_the_engine_native_wants_a_cpu() -> None:
    done = command("run", str(CORPUS / "relu_f32.json"), "--engine", "native", "--target", "triton:nvidia-b200")
    assert done.returncode != 0 and "mojo:native" in done.stderr + done.stdout


def test_a_kernel_without_native_code_says_so(tmp_path: Path) -> None:
    result = eqkir.optimize(CORPUS / "relu_f32.json", target="mojo:native", jobs=0)
    with pytest.raises(EqkirError, match="has no folder"):
        result.kernels[0].bind()


def pointwise(name: str, fn: str, output: str = "Y") -> Kernel:
    k = Builder(name)
    (n,) = k.symbols("N")
    x, y = k.view("X", "in", "f32", (n,)), k.view(output, "out", "f32", (n,))
    k.noalias(x, y)
    y[:] = getattr(x[:], fn)(0.0)
    return k.build()


def ran(folder: Path) -> list[float]:
    x, y = np.array([-1.0, 2.0], np.float32), np.zeros(2, np.float32)
    eqkir.load(folder).native(x, y)
    out: list[float] = y.tolist()
    return out


def test_a_folder_that_is_written_again_runs_what_it_says(tmp_path: Path) -> None:
    """In one process: the loader of the system knows libraries by their paths."""
    for fn, expected in (("maximum", [0.0, 2.0]), ("minimum", [-1.0, 0.0])):
        assert eqkir.optimize(pointwise("clamped", fn), target="mojo:native", out=tmp_path, jobs=0).ok
        assert ran(tmp_path / "clamped") == expected


def test_native_code_of_an_older_kernel_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert eqkir.optimize(pointwise("clamped", "maximum"), target="mojo:native", out=tmp_path, jobs=0).ok
    old = (tmp_path / "clamped" / "native.json").read_text()
    monkeypatch.setattr(toolchain, "available", lambda: False)
    eqkir.optimize(pointwise("clamped", "minimum"), target="mojo:native", out=tmp_path, jobs=0, check="static")
    assert not (tmp_path / "clamped" / "native.json").exists()
    with pytest.raises(LoadError):
        load_native(tmp_path / "clamped")
    (tmp_path / "clamped" / "native.json").write_text(old)  # as a crash between two writes would leave it
    with pytest.raises(LoadError):
        load_native(tmp_path / "clamped")


@pytest.mark.parametrize("name", ["len", "ValueError", "max", "eqk_in"])
def test_any_name_of_an_argument_will_do(tmp_path: Path, name: str) -> None:
    assert eqkir.optimize(pointwise("clamped", "maximum", name), target="mojo:native", out=tmp_path, jobs=0).ok
    assert ran(tmp_path / "clamped") == [0.0, 2.0]
