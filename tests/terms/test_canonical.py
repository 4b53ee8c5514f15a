"""Numbering of frozen graphs as arrays: what is dropped, and that the order of what came in does not count."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest

from eqkir.extract.graph import FrozenGraph
from eqkir.program.abstract import Abstract
from eqkir.rules.load import load_rules
from eqkir.rules.saturate import REALISED, Limits, _Run
from eqkir.terms.canonical import Flat, Numbered, Static, numbered, productive, reachable
from eqkir.terms.decode import DecodeError, Memory, decode
from eqkir.terms.engine import session
from eqkir.terms.freeze import freeze
from tests.terms.samples import SAMPLES
from tests.terms.sampling import sample

#: class -> alternatives (what it says, operands)
Rows = list[list[tuple[str, list[int]]]]


def flat(rows: Rows, order: list[int], said: list[str]) -> Flat:
    """Classes renumbered by `order`, alternatives in the order of classes there."""
    nodes = [(order[c], said.index(s), [order[k] for k in ks]) for c in np.argsort(order).tolist() for s, ks in rows[c]]
    width = max(len(ks) for _, _, ks in nodes)
    kids = np.array([ks + [-1] * (width - len(ks)) for _, _, ks in nodes])
    statics: list[Static] = [(s, None, None, (), "") for s in said]
    return Flat(len(rows), statics, np.array([c for c, _, _ in nodes]), np.array([s for _, s, _ in nodes]), kids)


def seen(rows: Rows, order: list[int], said: list[str]) -> list[list[tuple[str, tuple[int, ...]]]]:
    """Classes in their final order, by text."""
    f = flat(rows, order, said)
    n: Numbered = numbered(reachable(productive(f), order[0]), order[0])
    out = []
    for a, b in zip(n.first, n.first[1:], strict=False):
        at = zip(n.static[a:b].tolist(), n.kids[a:b].tolist(), strict=True)
        out.append([(f.statics[s][0], tuple(k for k in ks if k >= 0)) for s, ks in at])
    return out


#: 0 the root; 3 and 4 need each other and have no finite term; 5 is not reachable; 6 and 7 differ below only
ROWS: Rows = [
    [("f", [1, 6]), ("f", [1, 7]), ("g", [3])],
    [("c", []), ("b", [2]), ("b", [2])],
    [("a", [])],
    [("h", [4])],
    [("h", [3]), ("h", [4])],
    [("f", [1, 1])],
    [("u", [8])],
    [("u", [2])],
    [("d", [])],
]


def test_what_no_finite_term_uses_and_what_is_not_reached_is_dropped() -> None:
    said = sorted({s for ns in ROWS for s, _ in ns})
    found = seen(ROWS, list(range(len(ROWS))), said)
    assert len(found) == 6 and [s for s, _ in found[0]] == ["f", "f"]
    assert [len(ns) for ns in found if "b" in dict(ns)] == [2]  # equal alternatives are there once


def test_numbers_follow_from_structure_alone() -> None:
    said = sorted({s for ns in ROWS for s, _ in ns})
    first = seen(ROWS, list(range(len(ROWS))), said)
    rng = random.Random(3)
    for _ in range(20):
        order, words = list(range(len(ROWS))), list(said)
        rng.shuffle(order)
        rng.shuffle(words)
        rows = [rng.sample(ns, len(ns)) for ns in ROWS]
        assert seen(rows, order, words) == first


@pytest.fixture(scope="module", params=["softmax", "gemm"])
def grown(request: pytest.FixtureRequest) -> tuple[Abstract, FrozenGraph]:
    p = SAMPLES[request.param]()
    run = _Run(p, load_rules(), Limits())
    with session() as e:
        root = run.start(e)
        for _ in range(6):
            if not run.step(e)[0]:
                break
        counted = {n: len(f.rows) for n, f in e.egraph.freeze().functions.items() if n in REALISED}
        assert {n: k for n, k in e.sizes().items() if n in REALISED} == counted
        return p, freeze(e, root, p.abi)


def test_a_graph_survives_pickling(grown: tuple[Abstract, FrozenGraph]) -> None:
    assert pickle.loads(pickle.dumps(grown[1])) == grown[1]


def test_phases_from_memory_are_those_that_would_be_laid_out(grown: tuple[Abstract, FrozenGraph]) -> None:
    p, g = grown
    memory, rng, decoded = Memory(), random.Random(5), 0
    row = {f"{k}:{a.name}": 16 for a in p.axes for k in "BCF"} | {f"{k}:g{i}": 4 for k in "GP" for i in range(9)}
    picks = [sample(g, rng) for _ in range(12)]
    for pick in [*picks, *picks]:
        try:
            plain = decode(g, pick, p, row, {})
        except DecodeError:
            with pytest.raises(DecodeError):
                decode(g, pick, p, row, {}, memory=memory)
            continue
        assert decode(g, pick, p, row, {}, memory=memory) == plain
        decoded += 1
    assert decoded and memory.phases
