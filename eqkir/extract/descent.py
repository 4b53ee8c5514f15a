"""Descent: a greedy choice improved class by class under the true total.

Greedy extraction from below decides a class before it knows who else uses what is under it. Where two classes would have to change
together to share something, neither gains alone. Descent looks at whole selections: every class in turn takes each of its other legal
alternatives (what these need besides comes from the greedy choice), and keeps one that costs no more. Ties are walked through, so that
the second class finds what the first one made; a walk that gains nothing is forgotten. Sweeps go on while they gain. Classes on cycles
of the e-graph keep their choice, which leaves every selection acyclic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eqkir.extract.graph import Selection
from eqkir.extract.problem import Problem

#: classes that are looked at for all candidates (30 ms)
VISITS = 30_000
#: relative difference of totals that counts as one
EQUAL = 1e-12


class Descent:
    """Improves selections of one problem until `left` classes were looked at. `picks`: of every class, the alternative that it takes where
    the selection says nothing (-1: it has none)."""

    def __init__(self, p: Problem, left: int = VISITS) -> None:
        self.p, self.left = p, left
        self.place = {c: i for i, c in enumerate(c for comp in p.components for c in comp)}

    def improve(self, selection: Selection, row: int, picks: Sequence[int]) -> Selection:
        """A selection of less cost under `row`, or `selection` itself."""
        first = cost = self.p.cost(selection, row)
        found, gained = selection, True
        while gained and self.left > 0:
            before = cost
            found, cost = self._sweep(found, cost, row, picks, self.p.legal)
            gained = cost < before * (1 - EQUAL)
        if cost >= first * (1 - EQUAL):
            return selection
        back = self._sweep(found, cost, row, picks, lambda c, _: [selection[c]] if c in selection else [])[0]  # ties that led nowhere
        return dict(sorted(back.items()))

    def _sweep(
        self, selection: Selection, cost: float, row: int, picks: Sequence[int], tried: Callable[[int, int], list[int]]
    ) -> tuple[Selection, float]:
        """Every class once, children first, with the alternatives that `tried` gives for it and the row."""
        p = self.p
        for c in sorted(selection, key=self.place.__getitem__):
            if c in p.cyclic or len(p.graph.classes[c]) == 1:
                continue
            for j in tried(c, row):
                if c not in selection or j == selection[c]:
                    continue
                other = self._with(selection, c, j, picks)
                self.left -= len(other)
                if self.left <= 0:
                    return selection, cost
                total = p.cost(other, row)
                if total <= cost * (1 + EQUAL):
                    selection, cost = other, total
        return selection, cost

    def _with(self, selection: Selection, c: int, j: int, picks: Sequence[int]) -> Selection:
        """The selection with alternative j of class c, what that needs besides, and without what nothing needs any more."""
        classes = self.p.graph.classes
        out: Selection = {}
        todo = [self.p.graph.root]
        while todo:
            d = todo.pop()
            if d not in out:
                out[d] = j if d == c else selection[d] if d in selection else picks[d]
                todo += classes[d][out[d]].kids
        return out
