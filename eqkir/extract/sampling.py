"""Selections by depth-first choice: every class is decided once, in an order of preference over its legal alternatives."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf

import numpy as np

from eqkir.extract.graph import Selection
from eqkir.extract.labels import Floats
from eqkir.extract.problem import Problem

#: steps after which a sample stops following preferences and takes alternatives of least rank (only cycles of the e-graph get there)
BUDGET = 40


def sample(p: Problem, row: int, prefer: Callable[[int, list[int]], list[int]]) -> Selection | None:
    """One acyclic selection, None where the root has no legal derivation.

    `prefer(c, legal)` orders the legal alternatives of class c. An alternative whose operand is still open (a cycle) is skipped.
    Following least ranks always ends, so the root always gets its choice when it is feasible at all."""
    g, ranks = p.graph, p.ranks(row)
    if g.root not in ranks:
        return None
    chosen: Selection = {}
    steps, limit = 0, BUDGET * (len(ranks) + 1)
    open_: set[int] = set()
    frames: list[tuple[int, list[int]]] = []

    def enter(c: int) -> None:
        legal = p.legal(c, row)
        order = prefer(c, legal) if steps < limit else [j for j in legal if all(ranks[k] < ranks[c] for k in g.classes[c][j].kids)]
        open_.add(c)
        frames.append((c, order[::-1]))

    enter(g.root)
    while frames:
        steps += 1
        c, rest = frames[-1]
        j = rest[-1] if rest else -1
        kids = g.classes[c][j].kids if rest else ()
        waiting = next((k for k in kids if k not in chosen), None)
        if not rest or waiting is None:
            if rest:
                chosen[c] = j
            open_.discard(c)
            frames.pop()
            if not rest and frames:  # c failed under the present open classes: the user's alternative is dropped
                frames[-1][1].pop()
        elif waiting in open_:
            rest.pop()
        else:
            enter(waiting)
    return _reachable(p, chosen) if g.root in chosen else None


def _reachable(p: Problem, chosen: Selection) -> Selection:
    out: Selection = {}
    todo = [p.graph.root]
    while todo:
        c = todo.pop()
        if c not in out:
            out[c] = chosen[c]
            todo += p.graph.classes[c][chosen[c]].kids
    return dict(sorted(out.items()))


def random_selection(p: Problem, row: int, rng: random.Random) -> Selection | None:
    """A random legal alternative for every class."""
    return sample(p, row, lambda c, legal: rng.sample(legal, len(legal)))


def largest(p: Problem) -> Floats:
    """An upper estimate of the largest finite cost of every class and row (tree cost over well-founded derivations; -inf where there is
    none)."""
    g = p.graph
    out = np.full((len(g.classes), p.weight.shape[1]), -inf)
    for comp in p.components:
        for _ in range(1 if len(comp) == 1 else 2):
            for c in comp:
                for j, n in enumerate(g.classes[c]):
                    if c not in n.kids:
                        out[c] = np.maximum(out[c], _value(p, out, p.first[c] + j, n.kids))
    return np.asarray(np.minimum(out, 1e300))


def _value(p: Problem, cost: Floats, e: int, kids: tuple[int, ...]) -> Floats:
    total = np.zeros(p.weight.shape[1])
    for k in dict.fromkeys(kids):
        total = total + cost[k]
    w = p.weight[e]
    with np.errstate(over="ignore", invalid="ignore"):
        full = w + p.scale[e] * total if e in p.scale else w + total
    return np.asarray(np.where((w < inf) & (total > -inf), np.minimum(full, 1e300), -inf))


def worst_selection(p: Problem, row: int, cost: Floats) -> Selection | None:
    """The selection that prefers, class by class, the alternative of largest estimated cost (`largest`)."""

    def prefer(c: int, legal: list[int]) -> list[int]:
        value = {j: float(_value(p, cost, p.first[c] + j, p.graph.classes[c][j].kids)[row]) for j in legal}
        return sorted(legal, key=lambda j: (-value[j], j))

    return sample(p, row, prefer)
