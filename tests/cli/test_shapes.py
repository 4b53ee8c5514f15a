"""`--shape`: names and values are looked at before any work; a shape that the machine cannot hold is refused."""

from __future__ import annotations

import json

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.cli.text import stop_warning, stopped
from eqkir.driver.bundle import write_bundle
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.shapes import check, check_memory
from tests.cli.conftest import CORPUS

RELU = CORPUS / "relu_f32.json"
SYMBOL = json.loads(RELU.read_text())["kernels"][0]["symbols"][0]["id"]


@pytest.mark.parametrize("command", ["optimize", "run", "show"])
@pytest.mark.parametrize(
    ("text", "code"), [("NOBODY=3", "EQK-RUN-USAGE"), (f"{SYMBOL}=x", "EQK-RUN-SHAPE"), (f"{SYMBOL}=1,", "EQK-RUN-SHAPE")]
)
def test_names_that_no_kernel_has_and_extents_that_are_no_integers_are_usage_errors(command, text, code, cli):
    r = cli(command, RELU, "--shape", text)
    assert r.returncode == 2 and code in r.stderr and "Traceback" not in r.stderr, r.stderr


def test_a_shape_beyond_memory_is_one_coded_line(cli):
    r = cli("run", RELU, "--shape", f"{SYMBOL}=4000000000000000000")
    assert r.returncode == 1 and "EQK-RUN-MEMORY" in r.stderr and len(r.stderr.splitlines()) == 1, r.stderr


def test_arrays_are_measured_without_being_made():
    check_memory([((3, 5), 4), ((0, 1 << 62), 8)])
    with pytest.raises(EqkirError, match="EQK-RUN-MEMORY"):
        check_memory([((1 << 40, 1 << 20), 4)])


def test_a_name_that_is_an_extent_in_one_kernel_and_a_value_in_another_takes_both():
    check({"n": 3, "eps": "x"}, ["n"], ["eps"])
    check({"n": 0.5}, ["n"], ["n"])
    with pytest.raises(EqkirError, match="EQK-RUN-SHAPE"):
        check({"n": True}, ["n"], [])


def test_the_replay_command_repeats_the_values_of_its_kernel_exactly(tmp_path):
    o = Options(shapes={SYMBOL: 7, "OTHER": 3}, limits={"enodes": 1234567, "seconds": 0.1})
    command = write_bundle(tmp_path, "relu", RELU.read_text(), o, "")[1]
    assert f"--shape {SYMBOL}=7 " in command and "OTHER" not in command and "enodes=1234567 " in command and "seconds=0.1" in command


def test_a_search_cut_short_is_visible(cli):
    r = cli("optimize", RELU, "--check", "none", "--limit", "iterations=1")
    assert r.returncode == 0 and "warning: relu" in r.stderr and "stopped by iterations" in r.stderr, r.stderr
    assert "stopped by" in r.stdout
    done = Outcome("k", "f.json", saturation={"stop": "saturated", "message": "", "reproducible": True})
    assert stopped(done) == stop_warning(done) == stopped(Outcome("k", "f.json")) == ""
    late = Outcome("k", "f.json", saturation={"stop": "error", "message": "a\nb", "reproducible": False})
    assert stop_warning(late).count("\n") == 0 and "(a b)" in stop_warning(late)
