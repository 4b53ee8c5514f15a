"""Whatever a user does to the command line ends in one coded line and an exit status, never in a traceback or a wait."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.cli.guard import guarded
from eqkir.driver.files import writable_file, writable_folder
from eqkir.driver.options import Options
from eqkir.driver.validate import LARGEST, limit_names, validate
from tests.cli.conftest import CORPUS

RELU = CORPUS / "relu_f32.json"


def refused(r, status, code):
    assert r.returncode == status, r.stderr
    assert "Traceback" not in r.stderr and code in r.stderr and "<module>" not in r.stderr


@pytest.mark.parametrize(
    "text",
    [
        "seconds=inf",
        "job_seconds=1e400",
        "job_seconds=nan",
        "job_seconds=-1",
        "job_seconds=99999999999999",
        "enodes=0",
        "enodes=1.5",
        "seconds=",
    ],
)
def test_a_limit_out_of_range_is_a_usage_error(text, cli):
    refused(cli("optimize", RELU, "--limit", text), 2, "EQK-RUN-USAGE")


def test_every_limit_has_a_bound_and_the_largest_value_passes():
    assert sorted(LARGEST) == sorted(limit_names())
    assert validate(Options(limits=dict(LARGEST))).limits == LARGEST
    for name, most in LARGEST.items():
        for bad in (0, -1, most + 1, float("nan"), float("inf"), True):
            with pytest.raises(EqkirError, match="EQK-RUN-USAGE"):
                validate(Options(limits={name: bad}))


@pytest.mark.parametrize("command", ["check", "emit", "optimize", "show", "run"])
def test_devices_and_pipes_are_not_read(command, cli, tmp_path):
    os.mkfifo(tmp_path / "f.json")
    for path in ("/dev/zero", "f.json"):
        refused(cli(command, path), 1, "not a regular file")


@pytest.mark.parametrize("words", [["check", RELU, "--json"], ["show", RELU, "--stage", "kir"], ["schema"]], ids=lambda w: w[0])
def test_a_full_device_is_one_coded_line(words):
    with open("/dev/full", "w") as full:
        r = subprocess.run([sys.executable, "-m", "eqkir", *map(str, words)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=100)
    refused(r, 1, "EQK-RUN-IO")
    assert len(r.stderr.splitlines()) == 1


def test_an_ascii_terminal_gets_the_table(cli):
    r = cli("optimize", RELU, "--without", "all", "--check", "none", env={"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
    assert r.returncode == 0 and "relu" in r.stdout, r.stderr


def test_places_that_cannot_be_written_are_refused_before_any_work(cli, tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in ("file", "/dev/null", "/proc/x", "file/below"):
        refused(cli("optimize", RELU, "-o", out), 2, "EQK-RUN-OUTPUT")
    refused(cli("run", RELU, "--save", "/nope/x.npz"), 2, "EQK-RUN-OUTPUT")
    refused(cli("emit", "nothing.json", "-o", "/dev/null"), 2, "EQK-RUN-OUTPUT")
    assert (tmp_path / "file").read_text() == "mine" and os.path.exists("/dev/null") and not os.path.isfile("/dev/null")
    writable_folder(tmp_path / "a" / "b")
    writable_file(tmp_path / "file")
    with pytest.raises(EqkirError, match="EQK-RUN-OUTPUT"):
        writable_file(tmp_path)


def test_inputs_that_are_no_npz_are_refused(cli, tmp_path):
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04junk")
    for path in ("x.npz", "/dev/zero", "nowhere.npz"):
        refused(cli("run", RELU, "--inputs", path), 2, "EQK-RUN-INPUTS")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(MemoryError(), 1, "EQK-RUN-MEMORY"), (OSError(5, "bad"), 1, "EQK-RUN-IO"), (KeyError("a\nb"), 1, "EQK-RUN-INTERNAL"),
     (BaseException("panic"), 1, "EQK-RUN-INTERNAL")],
)  # fmt: skip
def test_any_exception_becomes_one_line(error, status, code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def work():
        raise error

    assert guarded(work) == status
    err = capsys.readouterr().err
    assert code in err and len(err.splitlines()) == 1
    if code == "EQK-RUN-INTERNAL":
        assert "Traceback" in next(tmp_path.glob("eqkir-failures/traceback-*.txt")).read_text()


def test_a_program_and_a_module_are_told_apart(cli, tmp_path):
    refused(cli("emit", RELU), 1, "use `eqkir optimize`")
    (tmp_path / "p.json").write_text(json.dumps({"program": 1, "segments": []}))
    refused(cli("check", "p.json"), 1, "this is a program.json")


def test_the_help_names_what_is_registered(cli):
    from eqkir.extract.cost import cost_models
    from eqkir.extract.extractors import extractors
    from eqkir.rules.load import PERMISSIONS

    text = " ".join(cli("optimize", "--help", env={"COLUMNS": "400"}).stdout.split())
    for name in (*PERMISSIONS, *extractors(), *cost_models(), *limit_names()):
        assert name in text, name


def test_a_rule_file_among_the_paths_is_pointed_out(cli):
    refused(cli("optimize", RELU, "mine.egg"), 2, "did you mean --rules")


def test_a_result_is_shown_in_one_line():
    from eqkir.api import KernelResult, Result

    k = KernelResult("relu", "r.json", "ok", "done", (), "source " * 999, "p" * 999, {}, {"cost": 5.0, "cost_unit": "ns"})
    assert repr(Result((k,))) == "<Result: 1 of 1 ok: <relu: ok at done, cost 5 ns>>"
