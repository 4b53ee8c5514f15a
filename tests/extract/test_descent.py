"""Descent from a greedy choice: what it finds, that it never worsens, and that it stays legal and acyclic."""

from __future__ import annotations

import random

import pytest

from eqkir.extract.check import check_legal
from eqkir.extract.descent import EQUAL, Descent
from eqkir.extract.extractors import extract
from eqkir.extract.greedy import greedy, selection
from eqkir.extract.problem import Problem

from .graphs import best, graph, node, problem, random_problem


def improved(p: Problem, row: int = 0, **kw: int) -> tuple[float, float]:
    """Cost of the greedy selection under a row, and after descent."""
    picks = greedy(p)
    s = selection(p, picks, row)
    assert s is not None
    found = Descent(p, **kw).improve(s, row, picks[:, row].tolist())
    check_legal(p, found, row)
    return p.cost(s, row), p.cost(found, row)


def pair(shared: float) -> Problem:
    """Two classes that may each be a leaf of 2 or 1 over the shared class 3."""
    g = graph((node(1, 2),), (node(tag=1), node(3, tag=2)), (node(tag=3), node(3, tag=4)), (node(),))
    return problem(g, [1, 2, 1, 2, 1, shared])


def test_two_ties_are_one_gain() -> None:
    """Each class alone breaks even (1 + 1 against 2); both together save 1."""
    p = pair(1)
    before, after = improved(p)
    assert before == 5 and after == 4 == best(p, 0)
    assert extract(p, "greedy-dag")[0].cost == 4


def test_ties_that_gain_nothing_are_forgotten() -> None:
    g = graph((node(1, 2),), (node(tag=1), node(tag=2)), (node(tag=3), node(tag=4)))
    p = problem(g, [1, 2, 2, 3, 2])
    picks = greedy(p)
    s = {0: 0, 1: 0, 2: 0}  # class 2 can gain, class 1 only walk
    assert Descent(p).improve(s, 0, picks[:, 0].tolist()) == {0: 0, 1: 0, 2: 1}
    best_already = {0: 0, 1: 0, 2: 1}
    assert Descent(p).improve(best_already, 0, picks[:, 0].tolist()) is best_already


def test_without_visits_nothing_happens() -> None:
    before, after = improved(pair(1), left=0)
    assert before == after == 5


@pytest.mark.parametrize("seed", range(60))
def test_never_worse_and_never_below_the_optimum(seed: int) -> None:
    rng = random.Random(seed)
    p = random_problem(rng, rng.randint(3, 8), cycles=0.3 if seed % 2 else 0.0)
    picks = greedy(p)
    for row in range(len(p.rows)):
        if (s := selection(p, picks, row)) is not None:
            found = Descent(p).improve(s, row, picks[:, row].tolist())
            check_legal(p, found, row)
            assert best(p, row) * (1 - EQUAL) <= p.cost(found, row) <= p.cost(s, row)


def test_it_closes_most_of_what_greedy_leaves() -> None:
    """Random graphs without cycles: sums of costs, optimum ≤ descent < greedy."""
    total = [0.0, 0.0, 0.0]
    for seed in range(200):
        rng = random.Random(seed)
        p = random_problem(rng, 8, nrows=1, illegal=0.0, segment=False)
        before, after = improved(p)
        total = [a + b for a, b in zip(total, (best(p, 0), after, before), strict=True)]
    assert total[0] <= total[1] < total[2]
    assert total[1] - total[0] <= 0.5 * (total[2] - total[0])
