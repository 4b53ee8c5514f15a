"""How much an e-graph offers: the number of legal structures (parameters erased) and of distinct decoded programs in a sample."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from eqkir.extract.graph import Selection
from eqkir.extract.problem import Problem
from eqkir.extract.sampling import random_selection

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class StructureCount:
    """`exact` is False where the count stopped at the cap: then at least `count` structures exist."""

    count: int
    exact: bool


def count_structures(p: Problem, cap: int = 20_000) -> StructureCount:
    """Number of distinct acyclic selections (reachable part) whose alternatives are each legal under some row.

    Dynamic programming over classes, users before operands; a state is the set of classes that are needed and not yet decided. With more
    than `cap` states, or inside cycles of the e-graph, the count is a lower bound (alternatives inside a cycle are left out)."""
    g = p.graph
    legal = np.isfinite(p.weight).any(1)
    place = {c: i for i, c in enumerate(c for comp in p.components for c in comp)}
    component = {c: i for i, comp in enumerate(p.components) for c in comp}
    alive: dict[int, list[tuple[int, ...]]] = {}
    exact = True
    for c in place:
        alts = []
        for j, n in enumerate(g.classes[c]):
            if not legal[p.first[c] + j] or c in n.kids:
                continue
            if any(component[k] == component[c] for k in n.kids):
                exact = False
            elif all(alive[k] for k in n.kids):
                alts.append(n.kids)
        alive[c] = alts
    if not alive[g.root]:
        return StructureCount(0, exact)
    todo: Counter[int] = Counter({1 << place[g.root]: 1})
    by_place = {i: c for c, i in place.items()}
    masks = {c: [sum(1 << place[k] for k in dict.fromkeys(kids)) for kids in alive[c]] for c in place}
    for i in range(place[g.root], -1, -1):
        nxt: Counter[int] = Counter()
        for state, m in todo.items():
            if not state >> i & 1:
                nxt[state] += m
            else:
                rest = state & ~(1 << i)
                for mask in masks[by_place[i]]:
                    nxt[rest | mask] += m
        todo = nxt
        if len(todo) > cap:
            return StructureCount(sum(todo.values()), False)
    return StructureCount(sum(todo.values()), exact)


def structures(p: Problem, cap: int = 20_000) -> int:
    """`count_structures` as a number (a lower bound past the cap)."""
    return count_structures(p, cap).count


def sample_digests(p: Problem, n: int, decode: Callable[[Selection, int], P], digest: Callable[[P], str], seed: int = 0) -> Counter[str]:
    """Digests of `n` random selections under random rows, with how often each came up. `decode(selection, row)` builds the program."""
    rng = random.Random(seed)
    out: Counter[str] = Counter()
    for _ in range(n):
        row = rng.randrange(len(p.rows))
        s = random_selection(p, row, rng)
        if s is not None:
            out[digest(decode(s, row))] += 1
    return out
