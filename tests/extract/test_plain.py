"""Extractors of plain e-graphs against brute force: choices are valid, claims hold, bounds are bounds; lowering keeps costs."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from math import inf

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.extract.plain.check import check
from eqkir.extract.plain.graph import Alt, Choice, Plain
from eqkir.extract.plain.lower import lower
from eqkir.extract.plain.prepare import Prepared, prepare, trimmed
from eqkir.extract.plain.protocol import Claims, Clock, Outcome, names, plain_extractor, solve
from eqkir.extract.plain.rowwise import bounds, solve_rows

from . import graphs

NAMES = [n for n in names() if n != "cpsat"]
EXACT = ("ilp", "frontier")


def has_cpsat() -> bool:
    try:
        plain_extractor("cpsat")
    except EqkirError:
        return False
    return True


if has_cpsat():
    NAMES, EXACT = names(), ("ilp", "frontier", "cpsat")


def random_plain(rng: random.Random, cycles: float = 0.0, negative: bool = False) -> Plain:
    n = rng.randint(2, 7)
    classes = []
    for c in range(n):
        alts = []
        for _ in range(rng.randint(1, 3)):
            kids = [rng.randrange(n) if rng.random() < cycles else rng.randrange(c + 1, n) for _ in range(rng.randint(0, 3)) if c < n - 1]
            low = -5 if negative else 0
            alts.append(Alt("f", float(rng.choice([0, rng.uniform(low, 9), rng.randint(low, 9)])), tuple(kids), rng.random() < 0.08))
        classes.append(tuple(alts))
    return Plain(classes, tuple(dict.fromkeys([0, *(rng.randrange(n) for _ in range(rng.randint(0, 2)))])))


def least(g: Plain) -> float:
    """By trying every choice."""
    best = inf
    for js in product(*(range(len(ns)) for ns in g.classes)):
        try:
            best = min(best, check(g, g.restricted(dict(enumerate(js)))))
        except EqkirError:
            continue
    return best


@pytest.mark.parametrize("name", NAMES)
def test_extractors_keep_their_claims(name: str) -> None:
    x = plain_extractor(name)
    proved = 0
    for seed in range(60):
        rng = random.Random(seed)
        g = random_plain(rng, rng.choice([0.0, 0.4]), negative=seed % 4 == 0 and x.claims.negative)
        want, got = least(g), solve(g, x, 5.0, seed)
        assert (got.status == "infeasible") == (want == inf)
        if got.choice is not None:
            assert got.cost >= want - 1e-9 and got.bound <= want + 1e-6
            assert got.cost == pytest.approx(check(g, got.choice))
            if got.status == "optimal":
                proved += 1
                assert got.cost == pytest.approx(want, abs=1e-6)
    assert proved > 25 if name in EXACT else proved == 0


@pytest.mark.parametrize("name", ["ilp", "frontier", "beam", "anneal"])
def test_sharing_is_found(name: str) -> None:
    """Two operands that are dear together, one that they could share."""
    either = (Alt("a", 3.0), Alt("b", 1.0, (3,)))
    s = Plain([(Alt("f", 0.0, (1, 2)),), either, either, (Alt("s", 3.5),)], (0,))
    assert solve(s, "greedy-dag").cost == 6.0
    assert solve(s, name, 5.0).cost == 5.5


def test_preparation_keeps_the_least_cost() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        g = random_plain(rng, rng.choice([0.0, 0.4]), negative=seed % 3 == 0)
        p, want = prepare(g), least(g)
        assert p.feasible == (want < inf)
        if want < inf:
            assert p.bound <= want + 1e-9
            for q in (p, trimmed(p, want)):
                kept = [tuple(replace(a, subsumed=j not in {o.index for o in q.options.get(c, ())}) for j, a in enumerate(ns))
                        for c, ns in enumerate(g.classes)]  # fmt: skip
                assert least(replace(g, classes=kept)) == pytest.approx(want)


@pytest.mark.parametrize(
    ("choice", "code"),
    [
        ({1: 0}, "ROOT"),
        ({0: 0}, "OPEN"),
        ({0: 0, 1: 7}, "FOREIGN"),
        ({0: 0, 1: 1}, "SUBSUMED"),
        ({0: 0, 1: 2}, "CYCLE"),
        ({0: 0, 1: 0, 9: 0}, "FOREIGN"),
    ],
)
def test_the_check_refuses(choice: Choice, code: str) -> None:
    g = Plain([(Alt("f", 1.0, (1,)),), (Alt("a", 1.0), Alt("b", 0.0, (), True), Alt("c", 0.0, (0,)))], (0,))
    with pytest.raises(EqkirError, match=f"EQK-EXTRACT-{code}"):
        check(g, choice)


def test_the_check_recomputes_over_several_roots() -> None:
    g = Plain([(Alt("f", 1.0, (2,)),), (Alt("g", 2.0, (2, 2)),), (Alt("x", 4.0),)], (0, 1))
    assert check(g, {0: 0, 1: 0, 2: 0}) == 7.0


class Liar:
    name, claims = "liar", Claims("dag", optimal=True)

    def __init__(self, status: str, bound: float) -> None:
        self.status, self.bound = status, bound

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome:
        return Outcome({0: 1}, self.status, bound=self.bound)


@pytest.mark.parametrize(("status", "bound"), [("optimal", 1.0), ("heuristic", 3.0)])
def test_false_claims_are_refused(status: str, bound: float) -> None:
    g = Plain([(Alt("a", 1.0, (1,)), Alt("b", 2.0, (2,))), (Alt("x", 1.0),), (Alt("y", 0.5),)], (0,))
    with pytest.raises(EqkirError):  # the choice is open, or the claim false
        solve(g, Liar(status, bound))
    h = Plain([(Alt("a", 1.0), Alt("b", 2.0))], (0,))
    with pytest.raises(EqkirError, match="EQK-EXTRACT-CLAIM"):
        solve(h, Liar(status, bound))


def test_an_extractor_that_is_stopped_says_so() -> None:
    rng = random.Random(3)
    n = 120
    kids = [[tuple(rng.sample(range(c + 1, n), min(3, n - 1 - c))) for _ in range(4)] for c in range(n)]
    classes = [tuple(Alt("f", rng.uniform(1, 9), k) for k in ks) for ks in kids]
    g = Plain(classes, (0,))
    for name in ("ilp", "beam", "anneal", "frontier"):
        got = solve(g, name, 0.0)
        assert got.status == "timeout" and got.choice is not None and got.bound <= got.cost


def test_lowering_keeps_costs_and_bounds() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        cycles = rng.choice([0.0, 0.5])
        p = graphs.random_problem(rng, rng.randint(3, 7), 3, cycles=cycles, segment=not cycles)
        low = bounds(p)
        for r in range(3):
            lo = lower(p, r)
            want = graphs.best(p, r)
            assert low[r] <= want + 1e-9
            assert prepare(lo.plain).feasible == (want < inf)
            for s in graphs.selections(p.graph):
                if p.cost(s, r) < inf:
                    assert check(lo.plain, lo.drop(s), ties=True) == pytest.approx(p.cost(s, r))
                    assert lo.lift(lo.drop(s)) == s


def test_a_class_in_two_bodies_counts_in_both_and_is_chosen_once() -> None:
    g = graphs.graph(
        (graphs.node(1, 2),), (graphs.node(3, op="Seg"),), (graphs.node(3, op="Seg"),), (graphs.node(tag=1), graphs.node(tag=2))
    )
    p = graphs.problem(g, [0.0, 1.0, 1.0, 2.0, 3.0])
    p.scale = {1: p.weight[1] * 10, 2: p.weight[1] * 5}
    lo = lower(p, 0)
    assert len(lo.plain.tied) == 1
    got = solve_rows(p, plain_extractor("ilp"), 5.0)
    assert got.status == "optimal" and got.cost == p.cost({0: 0, 1: 0, 2: 0, 3: 0}, 0) == 2.0 + 15 * 2.0


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("worst", "random")])
def test_row_by_row(name: str) -> None:
    for seed in range(25):
        rng = random.Random(seed)
        cycles = rng.choice([0.0, 0.5])
        p = graphs.random_problem(rng, rng.randint(3, 7), 3, cycles=cycles, segment=not cycles)
        want = min(graphs.best(p, r) for r in range(3))
        got = solve_rows(p, plain_extractor(name), 5.0, seed)
        if got.status == "infeasible":
            assert want == inf
            continue
        assert got.selection is not None and got.cost == pytest.approx(p.cost(got.selection, got.row))
        assert got.bound <= want + 1e-6 and got.cost >= want - 1e-9
        if got.status == "optimal":
            assert got.cost == pytest.approx(want)


def test_unknown_names() -> None:
    with pytest.raises(EqkirError, match="EQK-EXTRACT-EXTRACTOR"):
        plain_extractor("nothing")
