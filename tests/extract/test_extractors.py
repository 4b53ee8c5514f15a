"""Extractors against brute force; the check; determinism; cycles; infeasible rows."""

from __future__ import annotations

import random
import time
from math import inf, isfinite

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.extract.check import check, check_legal
from eqkir.extract.extractors import Candidate, extract, extractors
from eqkir.extract.greedy import greedy, selection
from eqkir.extract.problem import Problem
from eqkir.extract.sampling import random_selection
from eqkir.extract.structures import count_structures, sample_digests

from .graphs import best, graph, node, problem, random_problem, rows, selections


def code(p: Problem | None, sel: dict[int, int], g: object = None) -> str:
    with pytest.raises(EqkirError) as e:
        check(p.graph if p else g, sel)  # type: ignore[arg-type]
    return e.value.diagnostics[0].code


def test_shared_operand_counts_once() -> None:
    # root -> (a, b), both over the expensive s; or c, d that share nothing and are cheaper as a tree
    g = graph((node(1, 2),), (node(3, tag=1), node(4, tag=2)), (node(3, tag=3), node(5, tag=4)), (node(),), (node(),), (node(),))
    p = problem(g, [1, 1, 1, 1, 1, 10, 7, 7])
    picks = greedy(p)
    s = selection(p, picks, 0)
    assert s is not None and p.cost(s, 0) == pytest.approx(
        min(p.cost(x, 0) for x in selections(g)) + 4
    )  # greedy per class takes 7 twice: 17
    p2 = problem(g, [1, 1, 1, 1, 1, 6, 7, 7])
    s2 = selection(p2, greedy(p2), 0)
    assert s2 is not None and p2.cost(s2, 0) == 9 == best(p2, 0)  # 3 is shared: 1 + 1 + 1 + 6


def test_a_segment_multiplies_its_body_and_closes_it() -> None:
    g = graph((node(1, 2),), (node(3, op="Seg"),), (node(3, op="Seg", tag=1),), (node(),))
    p = problem(g, [0, 1, 1, 5], 2)
    p.scale = {1: np.array([10.0, 1.0]), 2: np.array([100.0, 1.0])}
    picks = greedy(p)
    for row, total in ((0, 1 + 50 + 1 + 500), (1, 12)):
        s = selection(p, picks, row)
        assert s is not None and p.cost(s, row) == total == best(p, row)


@pytest.mark.parametrize("seed", range(60))
def test_never_below_the_optimum_and_exact_on_trees(seed: int) -> None:
    rng = random.Random(seed)
    p = random_problem(rng, rng.randint(3, 7), cycles=0.3 if seed % 2 else 0.0)
    for name in ("greedy-dag", "greedy-tree", "worst", "random"):
        found = {c.row: c for c in extract(p, name, seed)}
        for row in range(len(p.rows)):
            low = best(p, row)
            if row in found:
                c = found[row]
                check_legal(p, c.selection, c.row)
                assert isfinite(c.cost) and c.cost == pytest.approx(p.cost(c.selection, row))
                assert c.cost >= low - 1e-9
            elif name.startswith("greedy"):
                assert low == inf


@pytest.mark.parametrize("seed", range(20))
def test_without_sharing_greedy_is_optimal(seed: int) -> None:
    rng = random.Random(seed)
    classes = []
    n = 0

    def tree(depth: int) -> int:
        nonlocal n
        me = len(classes)
        classes.append(())
        alts = []
        for _ in range(rng.randint(1, 2)):
            n += 1
            alts.append(node(*(tree(depth - 1) for _ in range(rng.randint(0, 2) if depth else 0)), tag=n))
        classes[me] = tuple(alts)  # type: ignore[call-overload]
        return me

    tree(2)
    g = graph(*classes)
    p = Problem(g, rows(2), np.random.default_rng(seed).uniform(1, 9, (g.enodes, 2)))
    for name in ("greedy-dag", "greedy-tree"):
        got = {c.row: c.cost for c in extract(p, name)}
        if np.prod([len(c) for c in classes]) < 5000:
            assert got == {r: pytest.approx(best(p, r)) for r in range(2)}


@pytest.mark.parametrize("seed", range(30))
def test_cyclic_graphs_give_acyclic_choices(seed: int) -> None:
    rng = random.Random(1000 + seed)
    p = random_problem(rng, 12, nrows=4, cycles=0.6, illegal=0.2)
    for name in extractors():
        for c in extract(p, name, seed):
            check(p.graph, c.selection)


def test_a_cycle_without_weight_is_not_free() -> None:
    g = graph((node(1),), (node(2, tag=1), node(tag=2)), (node(1, tag=3),))
    p = problem(g, [0, 0, 5, 0])
    s = selection(p, greedy(p), 0)
    assert s == {0: 0, 1: 1}


def test_check_refuses() -> None:
    g = graph((node(1, 2),), (node(2), node(tag=1)), (node(1, tag=2), node(tag=3)))
    assert code(None, {1: 0}, g) == "EQK-EXTRACT-ROOT"
    assert code(None, {0: 0, 1: 1, 2: 2}, g) == "EQK-EXTRACT-FOREIGN"
    assert code(None, {0: 0, 1: 1, 2: 1, 9: 0}, g) == "EQK-EXTRACT-FOREIGN"
    assert code(None, {0: 0, 1: 1}, g) == "EQK-EXTRACT-OPEN"
    assert code(None, {0: 0, 1: 0, 2: 0}, g) == "EQK-EXTRACT-CYCLE"
    check(g, {0: 0, 1: 0, 2: 1})
    p = problem(g, [1, inf, 1, 1, 1])
    with pytest.raises(EqkirError) as e:
        check_legal(p, {0: 0, 1: 0, 2: 1}, 0)
    assert e.value.diagnostics[0].code == "EQK-EXTRACT-ILLEGAL"


def test_a_self_cycle_is_a_cycle() -> None:
    g = graph((node(0), node(tag=1)))
    assert code(None, {0: 0}, g) == "EQK-EXTRACT-CYCLE"
    assert selection(problem(g, [0, 1]), greedy(problem(g, [0, 1])), 0) == {0: 1}


def test_rows_without_a_legal_program_are_left_out() -> None:
    g = graph((node(1),), (node(tag=1), node(tag=2)))
    w = np.array([[1.0, 1.0, inf], [inf, 2.0, 1.0], [inf, 3.0, 1.0]])
    p = problem(g, w, 3)
    assert [c.row for c in extract(p)] == [1]
    assert extract(p, "worst")[0].cost == 4.0
    assert {c.row for c in extract(p, "random", 3)} == {1}
    assert extract(problem(g, np.full((3, 2), inf), 2)) == []


def test_worst_is_the_largest_on_trees() -> None:
    g = graph((node(1, 2), node(1, tag=1)), (node(tag=2), node(tag=3)), (node(tag=4), node(tag=5)))
    p = problem(g, [1, 20, 2, 3, 4, 5], 1)
    assert extract(p, "worst")[0].cost == max(p.cost(s, 0) for s in selections(g)) == 23


def test_unknown_extractor() -> None:
    with pytest.raises(EqkirError) as e:
        extract(problem(graph((node(),)), [1]), "no-such")
    assert e.value.diagnostics[0].code == "EQK-EXTRACT-EXTRACTOR" and "greedy-dag" in e.value.diagnostics[0].accepted


@pytest.mark.parametrize("seed", range(25))
def test_structure_count_is_exact(seed: int) -> None:
    p = random_problem(random.Random(seed), 7, cycles=0.0, illegal=0.0, segment=False)
    counted = count_structures(p)
    assert counted.exact and counted.count == sum(1 for _ in selections(p.graph))


def test_structure_count_stops_at_its_cap() -> None:
    wide = (
        [(node(*range(1, 13)),)]
        + [(node(13 + i, tag=2 * i), node(25 + i, tag=2 * i + 1)) for i in range(12)]
        + [(node(),) for _ in range(24)]
    )
    p = problem(graph(*wide), [1.0] * (1 + 24 + 24))
    assert count_structures(p).count == 4096 and count_structures(p).exact
    capped = count_structures(p, cap=1)
    assert not capped.exact and 0 < capped.count <= 4096


def test_random_reaches_everything() -> None:
    p = random_problem(random.Random(4), 6, nrows=1, cycles=0.3, illegal=0.0, segment=False)
    rng = random.Random(0)
    seen = {tuple(sorted((random_selection(p, 0, rng) or {}).items())) for _ in range(3000)}
    assert seen == {tuple(sorted(s.items())) for s in selections(p.graph)}
    found = sample_digests(p, 50, lambda s, r: s, lambda s: str(sorted(s.items())))
    assert sum(found.values()) == 50


def test_the_same_problem_gives_the_same_candidates() -> None:
    def run() -> list[list[Candidate]]:
        p = random_problem(random.Random(11), 25, nrows=6, cycles=0.2)
        return [extract(p, name, 5) for name in extractors()]

    assert run() == run()


def test_greedy_does_not_explode() -> None:
    """1.5k e-nodes under 64 rows take about 0.1 s; a hang, not a speed, is looked for."""
    rng = random.Random(2)
    classes = []
    for c in range(600):
        low, high = c + 1, min(600, c + 40)
        kids = [
            tuple(rng.randrange(low, high) for _ in range(rng.choice((1, 1, 2, 2, 3)))) if low < high else ()
            for _ in range(rng.choice((1, 2, 4)))
        ]
        classes.append(tuple(node(*((c + 1,) if j == 0 and c < 599 else ()), *k, tag=j) for j, k in enumerate(kids)))
    g = graph(*classes)
    assert g.enodes > 1200
    p = Problem(g, rows(64), np.random.default_rng(0).uniform(1, 10, (g.enodes, 64)))
    assert len(p.components) == 600
    start = time.process_time()
    greedy(p)
    assert time.process_time() - start < 20
