"""Real kernels: every extractor agrees with the proved optimum's bound, and the exact ones with each other."""

from __future__ import annotations

import pytest

from eqkir.extract.check import check_legal
from eqkir.extract.extractors import extract
from eqkir.extract.plain.lower import lower
from eqkir.extract.plain.prepare import prepare
from eqkir.extract.plain.protocol import plain_extractor
from eqkir.extract.plain.rowwise import bounds, solve_rows, solve_whole
from eqkir.extract.problem import Problem

from ..extract import programs


@pytest.mark.parametrize("name", ["softmax", "gemm", "two"])
def test_extractors_of_kernels(name: str) -> None:
    _, _, p = programs.made(name)
    default = extract(p, "greedy-dag")[0]
    found = {x: solve_rows(p, plain_extractor(x), 20.0) for x in ("ilp", "frontier", "beam")}
    low = float(bounds(p).min())
    for x, r in found.items():
        assert r.selection is not None and low <= r.cost * (1 + 1e-9), x
        check_legal(p, r.selection, r.row)
        assert r.cost == pytest.approx(p.cost(r.selection, r.row))
        assert r.bound <= default.cost * (1 + 1e-9)
    assert found["ilp"].status == "optimal"
    if found["frontier"].status == "optimal":
        assert found["frontier"].cost == pytest.approx(found["ilp"].cost)
    assert found["ilp"].cost <= default.cost * (1 + 1e-9)


@pytest.mark.parametrize("name", ["softmax", "two"])
def test_lowering_a_kernel_keeps_what_selections_cost(name: str) -> None:
    _, _, p = programs.made(name)
    for c in extract(p, "greedy-dag")[:8]:
        lo = lower(p, c.row)
        assert prepare(lo.plain).feasible
        assert lo.plain.cost(lo.drop(c.selection)) == pytest.approx(c.cost)
        assert lo.lift(lo.drop(c.selection)) == c.selection


@pytest.mark.parametrize("name", ["softmax", "two"])
def test_whole_graph_solving_finds_the_same_optimum(name: str) -> None:
    _, _, p = programs.made(name)
    few = Problem(p.graph, p.rows[:4], p.weight[:, :4], {e: s[:4] for e, s in p.scale.items()})
    whole, fast = solve_whole(few, plain_extractor("ilp"), 60.0), solve_rows(few, plain_extractor("ilp"), 60.0)
    assert whole.status == fast.status == "optimal" and whole.solved == 4
    assert whole.cost == pytest.approx(fast.cost)


def test_extractors_without_time_return_the_greedy_choice_and_say_so() -> None:
    _, _, p = programs.made("gemm")
    r = solve_rows(p, plain_extractor("beam"), 0.0)
    assert r.status == "timeout" and r.cost == pytest.approx(extract(p, "greedy-dag")[0].cost) and "greedy" in r.note
