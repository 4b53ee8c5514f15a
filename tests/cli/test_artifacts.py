"""Artifacts are whole or absent, and equal content gives equal bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.driver.artifacts import canonical, write_atomic, write_kernel
from eqkir.driver.options import CHECKS, Options
from eqkir.driver.shapes import parse_shapes


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    p = tmp_path / "x"
    write_atomic(p, "old")

    def broken(*a):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError):
        write_atomic(p, "new")
    assert p.read_text() == "old" and [f.name for f in tmp_path.iterdir()] == ["x"]


def test_the_manifest_is_written_last_and_an_old_one_goes_first(tmp_path, monkeypatch):
    write_kernel(tmp_path, "s", "p", {"n": 1}, {})
    seen = []
    import eqkir.driver.artifacts as a

    real = a.write_atomic
    monkeypatch.setattr(a, "write_atomic", lambda p, t: (seen.append((p.name, (tmp_path / "manifest.json").exists())), real(p, t)))
    a.write_kernel(tmp_path, "s2", "p", {"n": 2}, {})
    assert [n for n, _ in seen] == ["kernel.py", "program.json", "report.json", "manifest.json"]
    assert not any(there for _, there in seen)


def test_a_killed_writer_never_leaves_a_half_written_file(tmp_path):
    code = (
        "import sys; from pathlib import Path; from eqkir.driver.artifacts import write_atomic\n"
        "print('go', flush=True)\n"
        "while True:\n"
        "    for c in 'ab': write_atomic(Path(sys.argv[1]), c * 1_000_000)\n"
    )
    target = tmp_path / "f"
    for _ in range(3):
        p = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)
        assert p.stdout is not None
        p.stdout.readline()
        while not target.exists():
            pass
        p.send_signal(signal.SIGKILL)
        p.wait()
        text = target.read_text()
        assert len(text) == 1_000_000 and len(set(text)) == 1


def test_canonical_json_is_sorted_and_refuses_nan():
    assert canonical({"b": 1, "a": [1]}) == '{\n  "a": [\n    1\n  ],\n  "b": 1\n}\n'
    with pytest.raises(ValueError):
        canonical({"x": float("nan")})


def test_shapes_are_parsed_or_refused():
    assert parse_shapes(["M=4096,N=7", "eps=1e-5", "MODE=fast", "FLAG=true"]) == {
        **{"M": 4096, "N": 7, "eps": 1e-5},
        **{"MODE": "fast", "FLAG": True},
    }
    for bad in ("M", "M=", "=3", "M=1,M=2", "a b=1", "M=1,,N=2", "", "M=\uff11", "é=1", "M=9223372036854775808", "x=1e999"):
        with pytest.raises(EqkirError) as e:
            parse_shapes([bad])
        assert e.value.diagnostics[0].code == "EQK-RUN-SHAPE"


def test_every_check_level_contains_the_static_one():
    assert all("static" in c for k, c in CHECKS.items() if k != "none")
    with pytest.raises(EqkirError):
        Options(check="some")
