"""A wheel carries rules, targets and types, and works from any directory."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import CORPUS, ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return next(out.glob("*.whl"))


@pytest.mark.slow
def test_a_wheel_holds_rules_targets_and_types(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for p in (ROOT / "rulesets").glob("*.egg"):
        assert f"eqkir/_rulesets/{p.name}" in names
    for folder in ("data", "rows"):
        for p in (ROOT / "eqkir" / "targets" / folder).glob("*.json"):
            assert f"eqkir/targets/{folder}/{p.name}" in names
    for p in (ROOT / "eqkir" / "authoring" / "page").iterdir():
        assert f"eqkir/authoring/page/{p.name}" in names
    assert "eqkir/py.typed" in names
    assert any(n.endswith("licenses/LICENSE") for n in names)
    assert not any(n.startswith(("tests/", "corpus/", "bench/")) for n in names)


@pytest.mark.slow
def test_an_installed_wheel_works_from_an_empty_directory(wheel, tmp_path):
    site, work = tmp_path / "site", tmp_path / "work"
    work.mkdir()
    zipfile.ZipFile(wheel).extractall(site)
    program = (
        "import eqkir, pathlib; from eqkir.base.resources import data_dir\n"
        f"assert pathlib.Path(eqkir.__file__).is_relative_to({str(site)!r})\n"
        f"assert data_dir('rulesets').is_relative_to({str(site)!r})\n"
        f"r = eqkir.optimize({str(CORPUS / 'softmax_bf16.json')!r}, out='out')\n"
        "assert r.ok and r['softmax_bf16'].source, r\n"
        "assert eqkir.load('out/softmax_bf16').program == r['softmax_bf16'].program\n"
    )
    env = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", program], cwd=work, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
