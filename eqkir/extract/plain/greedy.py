"""Greedy extraction, bottom up: tree cost (Knuth's generalisation of Dijkstra's algorithm) and DAG cost over sets of classes.

Both decide classes children first. Inside a component of several classes the class that is cheapest now is decided next and for good, so
the order of decisions is an order of the choice: it is acyclic whatever the costs. For tree cost and costs that are not negative, that
is the optimum; for DAG cost it is a heuristic.
"""

from __future__ import annotations

import heapq

import numpy as np

from eqkir.extract.plain.bits import weight_of
from eqkir.extract.plain.graph import Choice
from eqkir.extract.plain.prepare import Option, Prepared
from eqkir.extract.plain.protocol import Claims, Clock, Outcome


class Greedy:
    """Choices and the order in which classes were decided (kids first). `share`: count what two operands share once."""

    def __init__(self, p: Prepared, share: bool) -> None:
        self.p, self.share = p, share
        size = max(p.options, default=0) + 1
        self.cost: dict[int, float] = {}
        self.sets: dict[int, int] = {}
        self.own = np.zeros(size)
        self.pick: dict[int, Option] = {}
        self.order: list[int] = []
        for comp in p.components:
            if len(comp) == 1:
                c = comp[0]
                self._decide(c, min(((self._total(o), i) for i, o in enumerate(p.options[c])), key=lambda x: x))
            else:
                self._component(comp)

    def _total(self, o: Option) -> float:
        if not o.kids:
            return o.cost
        total = o.cost + self.cost[o.kids[0]]
        if not self.share:
            return total + sum(self.cost[k] for k in o.kids[1:])
        acc = self.sets[o.kids[0]]
        for k in o.kids[1:]:
            s = self.sets[k]
            total += self.cost[k] - weight_of(acc & s, self.own)
            acc |= s
        return total

    def _decide(self, c: int, best: tuple[float, int]) -> None:
        o = self.p.options[c][best[1]]
        self.cost[c], self.pick[c], self.own[c] = best[0], o, o.cost
        self.order.append(c)
        if self.share:
            s = 1 << c
            for k in o.kids:
                s |= self.sets[k]
            self.sets[c] = s

    def _component(self, comp: list[int]) -> None:
        inside = set(comp)
        users: dict[int, list[tuple[int, int]]] = {}
        missing: dict[tuple[int, int], int] = {}
        heap: list[tuple[float, int, int]] = []
        for c in comp:
            for i, o in enumerate(self.p.options[c]):
                within = [k for k in o.kids if k in inside]
                missing[c, i] = len(within)
                for k in within:
                    users.setdefault(k, []).append((c, i))
                if not within:
                    heapq.heappush(heap, (self._total(o), c, i))
        while heap:
            total, c, i = heapq.heappop(heap)
            if c in self.pick:
                continue
            self._decide(c, (total, i))
            for d, j in users.get(c, ()):
                missing[d, j] -= 1
                if not missing[d, j] and d not in self.pick:
                    heapq.heappush(heap, (self._total(self.p.options[d][j]), d, j))

    @property
    def choice(self) -> Choice:
        return {c: o.index for c, o in self.pick.items()}


class GreedyTree:
    """Least tree cost; shared classes are paid for wherever they are used."""

    name, claims = "greedy-tree", Claims("tree", negative=True)

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome:
        return Outcome(p.graph.restricted(Greedy(p, False).choice), "heuristic")


class GreedyDag:
    """Per class the alternative whose set of classes below weighs least."""

    name, claims = "greedy-dag", Claims("dag", negative=True)

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome:
        return Outcome(p.graph.restricted(Greedy(p, True).choice), "heuristic")


def start(p: Prepared, warm: Choice | None = None) -> tuple[Choice, float, list[int]]:
    """The cheapest of greedy DAG, greedy tree and `warm`: the choice for every class, its cost, and an order of the classes (kids first)
    that it follows. `warm` only counts where its alternatives are still there."""
    dag, tree = Greedy(p, True), Greedy(p, False)
    found = [(p.graph.cost(x), i, x, g.order) for i, g in enumerate((dag, tree)) if (x := p.graph.unified(g.choice))]
    cost, _, choice, order = min(found, key=lambda f: f[:2])
    if p.graph.tied:
        order = _follow(p, choice, order)
    if warm is not None:
        left = {c: {o.index for o in os} for c, os in p.options.items()}
        both = choice | warm
        known = all(j in left.get(c, ()) for c, j in warm.items())
        if known and p.graph.unified(both) == both and (total := p.graph.cost(warm)) < cost:
            return both, total, _follow(p, both, order)
    return choice, cost, order


def _follow(p: Prepared, choice: Choice, order: list[int]) -> list[int]:
    """An order, kids first, for a choice whose reached part is acyclic; the rest keeps the given order."""
    out: dict[int, None] = {}
    for root in p.graph.roots:
        stack = [(root, iter(p.graph.classes[root][choice[root]].kids))]
        while stack:
            c, rest = stack[-1]
            k = next((k for k in rest if k not in out), None)
            if k is None:
                stack.pop()
                out.setdefault(c)
            else:
                stack.append((k, iter(p.graph.classes[k][choice[k]].kids)))
    return [*out, *(c for c in order if c not in out)]


def ordered_options(p: Prepared, order: list[int]) -> tuple[dict[int, list[Option]], list[int], bool]:
    """The options that respect an order inside components (their kids come earlier), a total order of all classes (kids first), and
    whether no option fell away."""
    place = {c: i for i, c in enumerate(order)}
    comp = p.component
    whole = True
    options: dict[int, list[Option]] = {}
    for c, os in p.options.items():
        options[c] = os
        if c in p.cyclic:
            kept = [o for o in os if all(comp[k] != comp[c] or place[k] < place[c] for k in o.kids)]
            whole = whole and len(kept) == len(os)
            options[c] = kept
    total = sorted(p.options, key=lambda c: (comp[c], place[c]))
    return options, total, whole
