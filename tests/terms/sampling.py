"""Random acyclic selections, independent of the package's extractors."""

from __future__ import annotations

import random

from eqkir.extract.graph import FrozenGraph, Selection


def ranks(g: FrozenGraph) -> dict[int, int]:
    """Height of the smallest term of each class."""
    rank: dict[int, int] = {}
    level = 0
    while True:
        new = [c for c, ns in enumerate(g.classes) if c not in rank and any(all(k in rank for k in n.kids) for n in ns)]
        if not new:
            return rank
        level += 1
        rank.update(dict.fromkeys(new, level))


def sample(g: FrozenGraph, rng: random.Random) -> Selection:
    """One selection: classes are decided once, depth first; a choice that would close a cycle is passed over."""
    chosen: Selection = {}
    opened: set[int] = set()

    def go(c: int) -> bool:
        if c in chosen:
            return True
        if c in opened:
            return False
        opened.add(c)
        for j in rng.sample(range(len(g.classes[c])), len(g.classes[c])):
            if all(go(k) for k in g.classes[c][j].kids):
                chosen[c] = j
                break
        opened.discard(c)
        return c in chosen

    assert go(g.root)
    return chosen
