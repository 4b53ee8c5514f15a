"""Bad input ends in coded diagnostics that point into the JSON, with exit status 1, and harms no other kernel."""

from __future__ import annotations

import json
import random

import pytest

from eqkir.base.diagnostics import CODES
from eqkir.driver.files import kir_files
from eqkir.driver.outcome import Outcome
from eqkir.driver.scan import Task, scan
from tests.cli.conftest import CORPUS

RELU = json.loads((CORPUS / "relu_f32.json").read_text())


def kernel(**changes):
    return {**RELU["kernels"][0], **changes}


def body(i, **changes):
    ops = [dict(o) for o in RELU["kernels"][0]["body"]]
    ops[i] |= changes
    return kernel(body=ops)


def module(*kernels):
    return json.dumps({"kir": 1, "name": "m", "kernels": list(kernels)}).encode()


JUNK = {
    "empty": b"",
    "not utf-8": b"\xff\xfe\x00{",
    "not json": b"{'kir': 1}",
    "truncated": module(kernel())[:-40],
    "nan": b'{"kir": NaN}',
    "deep": b"[" * 100_000,
    "a list": b"[1, 2]",
    "no version": b'{"kernels": []}',
    "a newer version": b'{"kir": 99, "kernels": []}',
    "kernels of the wrong type": b'{"kir": 1, "kernels": {"a": 1}}',
    "10 MB of spaces": b" " * 10_000_000,
    "10 MB of numbers": b"[" + b"1," * 5_000_000 + b"1]",
    "10 MB of junk": random.Random(0).randbytes(10_000_000),
    "unknown operation": module(body(-1, op="teleport")),
    "unknown field": module(body(-1, wrong=1)),
    "dangling id": module(body(-1, value="nobody")),
    "unknown view": module(body(-1, view="Z")),
    "view of a wrong dtype": module(kernel(params=[{**RELU["kernels"][0]["params"][0], "dtype": "f33"}])),
    "kernel is a string": module("relu"),
}


@pytest.mark.parametrize("name", JUNK)
def test_junk_is_diagnosed_with_a_registered_code(name, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(JUNK[name])
    found = scan(str(path))
    assert len(found) == 1 and isinstance(found[0], Outcome)
    assert found[0].status == "failed" and found[0].diagnostics
    for d in found[0].diagnostics:
        assert d["code"] in CODES and d["message"] and d["file"] == str(path)


def test_a_broken_kernel_harms_no_other(tmp_path):
    path = tmp_path / "m.json"
    path.write_bytes(module(kernel(name="a"), body(-1, value="nobody") | {"name": "b"}, kernel(name="c"), {"name": 3}, kernel(name="a")))
    found = scan(str(path))
    assert [type(t) for t in found] == [Task, Outcome, Task, Outcome, Outcome]
    pointers = [t.diagnostics[0]["pointer"] for t in found if isinstance(t, Outcome)]
    assert [p.split("/")[2] for p in pointers] == ["1", "3", "4"]
    assert found[4].diagnostics[0]["code"] == "EQK-KIR-NAME" and found[4].diagnostics[0]["line"] == 1


def test_a_missing_file_is_one_failure_among_others(cli, tmp_path):
    r = cli("check", "nowhere.json", CORPUS / "relu_f32.json", "--json")
    lines = [json.loads(x) for x in r.stdout.splitlines()]
    assert r.returncode == 1
    assert [x["status"] for x in lines] == ["failed", "ok"] and lines[0]["diagnostics"][0]["code"] == "EQK-KIR-FILE"


def test_a_folder_gives_its_modules_and_broken_files_but_no_other_json(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "k.json").write_bytes(module(kernel()))
    (tmp_path / "a.json").write_bytes(b"{broken")
    (tmp_path / "settings.json").write_bytes(b'{"colour": 1}')
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "k.json").write_bytes(module(kernel()))
    assert [p.name for p in kir_files([tmp_path, tmp_path / "a.json"])] == ["a.json", "k.json"]


@pytest.mark.parametrize(
    "words",
    [
        ["optimize"],
        ["optimize", "x.json", "--no-such-option"],
        ["optimize", "x.json", "--target", "triton:abacus"],
        ["optimize", "x.json", "--target", "mojo:cpu"],
        ["optimize", "x.json", "--without", "gravity"],
        ["optimize", "x.json", "--extractor", "oracle"],
        ["optimize", "x.json", "--cost-model", "money"],
        ["optimize", "x.json", "--permit", "everything"],
        ["optimize", "x.json", "--check", "some"],
        ["optimize", "x.json", "--shape", "M"],
        ["optimize", "x.json", "--limit", "patience=3"],
        ["optimize", "."],
        ["show", "x.json", "--stage", "soul"],
        ["run", "x.json", "--engine", "steam"],
        ["errors", "EQK-NOPE"],
        ["fly"],
    ],
    ids=" ".join,
)
def test_usage_errors_exit_2_without_a_traceback(cli, words):
    r = cli(*words)
    assert r.returncode == 2, r.stderr
    assert "Traceback" not in r.stderr and r.stderr.strip()


def test_every_diagnostic_is_explained(cli):
    listed = cli("errors")
    assert listed.returncode == 0
    codes = [line.split()[0] for line in listed.stdout.splitlines()]
    assert len(codes) > 50 and "EQK-RUN-INTERNAL" in codes and "EQK-KIR-JSON" in codes
    one = cli("errors", "eqk-kir-json")
    assert one.returncode == 0 and "RFC 8259" in one.stdout
