"""The matrix for the CPU: every cell computes what the reference computes, on the program and the task interpreter, a sample natively."""

from __future__ import annotations

import pytest

from eqkir.emit.mojo import toolchain
from eqkir.targets.cpu import host_level
from tests.matrix import cells, native
from tools.matrix import NATIVELY, run_matrix, table

TARGET = "mojo:x86-64-v4"
CONFIGS = ["chosen", "worst", "random-0", "random-1", "without-own", "without-realize", "without-all"]


@pytest.mark.parametrize("name", ["softmax_f32", "shift", "sum_middle_f32", "integer_mix"])
def test_a_kernel_is_right_in_every_configuration(name: str) -> None:
    row = cells.row(name, CONFIGS, 2, TARGET)
    bad = [f"{c.config}: {f}" for c in row for f in c.faults]
    assert not bad, "\n".join(bad)
    assert all(c.cases >= 2 for c in row), "each cell ran on both interpreters"
    assert len({c.digest for c in row}) >= 3, "the configurations are different programs"


@pytest.mark.compile
@pytest.mark.skipif(not toolchain.available() or not host_level(), reason="no Mojo compiler, or no described level of this machine")
def test_native_code_of_chosen_and_random_programs_is_right() -> None:
    got = native.run(["integer_mix", "softmax_f32"], 1, "mojo:native", ("chosen", "random-0"))
    bad = [f"{c.kernel} {c.config}: {f}" for c in got for f in c.faults]
    assert not bad, "\n".join(bad)
    assert len(got) == 4 and all(c.cases for c in got)


def test_a_sample_is_spread_over_the_corpus() -> None:
    names = cells.kernels()
    few = native.sample(names, NATIVELY)
    assert len(set(few)) == NATIVELY and few == sorted(few) and names.index(few[-1]) > len(names) * 0.9
    assert native.sample(names[:3], 5) == names[:3]


@pytest.mark.slow
def test_the_whole_matrix() -> None:
    summary = run_matrix(jobs=2, target="mojo:native")
    print("\n" + table(summary))
    assert summary["cells"] == len(cells.kernels()) * len(cells.configurations())
    assert summary["ok"], table(summary)
    assert summary["native"]["cells"] == NATIVELY * len(native.CONFIGS)
