"""Every cell of the matrix verifies and computes what the reference computes, on both interpreters; chosen and random ones compile."""

from __future__ import annotations

from typing import Any

import pytest

from tests.matrix import cells, provider
from tools.matrix import run_matrix, table


def report(summary: dict[str, Any]) -> None:
    print("\n" + table(summary))
    for engine in ("program", "interpreter", "compile"):
        s = summary if engine == "program" else summary.get(engine)
        if s:
            print(f"distinct digests on the {engine} engine: {s['digests']} of {s['cells']} cells")


@pytest.mark.parametrize("name", cells.REPRESENTATIVE)
def test_a_representative_kernel_is_right_in_every_configuration(name: str) -> None:
    configs = list(cells.configurations(seeds=3))
    row = cells.row(name, configs, 3)
    assert [c.config for c in row] == configs
    bad = [f"{c.config}: {f}" for c in row for f in c.faults]
    assert not bad, "\n".join(bad)
    assert all(c.cases for c in row), "every cell ran at least one case"
    assert len({c.digest for c in row}) >= 5, "the configurations are different programs"


@pytest.mark.interpreter
def test_representative_kernels_are_right_on_the_provider_interpreter() -> None:
    got = provider.interpret(cells.REPRESENTATIVE[:8], 1)
    bad = [f"{c.kernel} {c.config}: {f}" for c in got for f in c.faults]
    assert not bad, "\n".join(bad)
    assert all(c.cases for c in got)


def test_the_cases_of_a_kernel_cover_every_shape_in_every_variant() -> None:
    subject = cells.Subject("gemm_bias_gelu_bf16")
    cases = subject.cases()
    shapes, variants = {c.symbols for c in cases}, {c.variant for c in cases}
    assert len(set(cases)) == len(cases) == len(shapes) * len(variants)
    configs = cells.configurations()
    seen = {c for i in range(len(configs)) for c in cells.window(cases, i, 4)}
    assert seen == set(cases), "the cells of one kernel together run every case"


@pytest.mark.slow
def test_the_whole_matrix() -> None:
    summary = run_matrix(jobs=2)
    report(summary)
    names = len(cells.kernels())
    assert summary["cells"] == names * len(cells.configurations())
    assert summary["ok"], table(summary)
    assert summary["interpreter"]["cells"] == names * 4 and summary["compile"]["cells"] == names * 2
