"""The arithmetic of reports."""

from __future__ import annotations

from math import isnan

import pytest

from eqkir.lab.cells import COLUMNS
from eqkir.lab.figures import default_claim, exponent, groups, ranks, relative, spearman, summaries
from eqkir.lab.scaling import grown
from eqkir.lab.svg import Axis, Series, plot


def row(**more: str) -> dict[str, str]:
    return dict.fromkeys(COLUMNS, "") | {"instance": "k", "kind": "kernel", "cost_model": "m", "cpu_seconds": "0.1", "enodes": "9"} | more


def test_gaps_and_bounds() -> None:
    rows = [
        row(extractor="greedy-dag", status="heuristic", cost="102", bound="50"),
        row(extractor="ilp", status="optimal", cost="100", bound="100"),
        row(extractor="worst", status="heuristic", cost="90"),  # takes no part in the best known
        row(extractor="ilp", status="timeout", cost="10", bound="4", instance="j"),
        row(extractor="greedy-dag", status="failed", instance="j"),
    ]
    j, k = groups(rows)
    assert (k.best, k.best_line, k.bound, k.closed) == (100.0, 3, 100.0, True) and k.cells[0].gap == pytest.approx(0.02)
    assert not j.closed and j.open_gap == pytest.approx(1.5)
    by = {s.extractor: s for s in summaries([j, k])}
    assert by["greedy-dag"].status == {"failed": 1, "heuristic": 1} and by["greedy-dag"].within == 0.0
    claim = default_claim([k], lambda _: 2)
    assert claim["groups"] == 1 and claim["within"] == 0.0 and claim["misses"] == [(("k", "m"), pytest.approx(0.02))]
    assert default_claim([k], lambda _: 1)["groups"] == 0


def test_relative_gaps_of_costs_below_zero() -> None:
    assert relative(-5.0, -10.0) == 0.5 and relative(3.0, 3.0) == 0.0 and relative(2.0, 0.0) == 1.0


def test_fitted_exponents() -> None:
    fit = exponent([(x, 3.0 * x**1.5) for x in (10.0, 100.0, 1000.0)])
    assert fit is not None and fit[:2] == (pytest.approx(3.0), pytest.approx(1.5))
    assert exponent([(1.0, 1.0), (2.0, 2.0)]) is None


def test_rank_correlation() -> None:
    assert ranks([3.0, 1.0, 3.0]) == [2.5, 1.0, 2.5]
    assert spearman([1, 2, 3, 4], [10, 20, 30, 25]) == pytest.approx(0.8)
    assert isnan(spearman([1, 1], [1, 2]))


def test_plots_show_what_the_axes_can() -> None:
    text = plot(
        [Series("a<b", [(1, 2, "n"), (0, 5, ""), (100, 3, "")]), Series("s", [(1, 1, ""), (9, 2, "")], "steps")], Axis("x", True), Axis("y")
    )
    assert text.count("<circle") == 2 and "a&lt;b" in text and text.count("<path") == 1


def test_a_grown_kernel_grows() -> None:
    assert len(grown(3).model_dump_json()) > len(grown(1).model_dump_json())
