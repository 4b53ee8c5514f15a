"""Random and worst choices: what an extractor is to be compared with, and what a verifier is to be tested with."""

from __future__ import annotations

import random

from eqkir.extract.plain.graph import Choice
from eqkir.extract.plain.greedy import Greedy, ordered_options
from eqkir.extract.plain.prepare import Option, Prepared
from eqkir.extract.plain.protocol import Claims, Clock, Outcome


class Random:
    """For every class a random alternative among those that come later in a random order of decision."""

    name, claims = "random", Claims("none", negative=True)

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome:
        rng = random.Random(seed)
        pick: Choice = {}
        for comp in p.components:
            inside = set(comp) if len(comp) > 1 else set()
            todo = list(comp)
            while todo:  # classes of a component become ready as their kids are decided
                ready = [(c, fit) for c in todo if (fit := [o for o in p.options[c] if all(k not in inside or k in pick for k in o.kids)])]
                c, fit = rng.choice(ready)
                pick[c] = rng.choice(fit).index
                todo.remove(c)
        return Outcome(p.graph.restricted(pick), "heuristic")


class Worst:
    """Greedily the dearest alternative by tree cost, among those that respect the order of the tree-cheapest choice (so it is acyclic)."""

    name, claims = "worst", Claims("-dag", negative=True)

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome:
        options, order, _ = ordered_options(p, Greedy(p, False).order)
        total: dict[int, float] = {}
        pick: Choice = {}

        def cost(o: Option) -> float:
            return min(1e300, o.cost + sum(total[k] for k in o.kids))

        for c in order:
            best = max(options[c], key=lambda o: (cost(o), -o.index))
            total[c], pick[c] = cost(best), best.index
        return Outcome(p.graph.restricted(pick), "heuristic")
