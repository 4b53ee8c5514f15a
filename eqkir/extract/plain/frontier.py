"""Exact extraction by dynamic programming over open sets, children never looked at twice.

Classes are decided users first; all partial choices that leave the same set of classes open are one state, of which the cheapest is kept.
The number of states follows the width of the graph, not its size. States that cannot beat the best known choice fall away (paid cost +
least costs of everything that the open classes require). Past `CAP` states the worst are dropped; then the result is a heuristic one, and
the least bound of a dropped state is still a bound. On cycles only alternatives that respect an order are looked at: nothing is proved
there.
"""

from __future__ import annotations

from math import inf

import numpy as np

from eqkir.extract.plain.beam import Trail
from eqkir.extract.plain.bits import members, weight_of
from eqkir.extract.plain.graph import Choice
from eqkir.extract.plain.greedy import ordered_options, start
from eqkir.extract.plain.prepare import Prepared
from eqkir.extract.plain.protocol import Claims, Clock, Outcome

CAP = 6000


class Frontier:
    """Proves optimality where the graph is acyclic and at most `cap` states were open at once."""

    name, claims = "frontier", Claims("dag", optimal=True, negative=True, cycles="restricted")

    def __init__(self, cap: int = CAP) -> None:
        self.cap = cap

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome:
        choice, least, order = start(p, warm)
        if not p.negative and least <= p.bound:
            return Outcome(p.graph.restricted(choice), "optimal", bound=p.bound)
        options, total, whole = ordered_options(p, order)
        place = {c: i for i, c in enumerate(total)}
        kids = [[sum(1 << place[k] for k in o.kids) for o in options[c]] for c in total]
        cheapest = np.array([min(o.cost for o in options[c]) for c in total])
        free = sum(x for x in cheapest.tolist() if x < 0)
        need = [sum(1 << place[c] for c in members(p.required[c0])) for c0 in total]
        states: dict[int, tuple[float, Trail]] = {sum(1 << place[r] for r in set(p.graph.roots)): (0.0, None)}
        dropped, stopped, most = inf, False, 1
        limit = least * (1 + 1e-12) if least > 0 else least

        def bound(mask: int, paid: float) -> float:
            below = 0
            for i in members(mask):
                below |= need[i]
            if p.negative:
                return float(paid + weight_of(below, np.maximum(cheapest, 0.0)) + free)
            return float(paid + weight_of(below, cheapest))

        while any(states):
            if clock.over:
                stopped = True
                break
            i = max(mask.bit_length() for mask in states) - 1
            bit = 1 << i
            os = options[total[i]]
            nxt: dict[int, tuple[float, Trail]] = {}
            for mask, (paid, trail) in states.items():
                if not mask & bit:
                    if mask not in nxt or nxt[mask][0] > paid:
                        nxt[mask] = (paid, trail)
                    continue
                rest = mask & ~bit
                for j, o in enumerate(os):
                    m, cost = rest | kids[i][j], paid + o.cost
                    if m not in nxt or nxt[m][0] > cost:
                        nxt[m] = (cost, (trail, i, j))
            if len(nxt) > 64 and len(os) > 1:
                nxt = {m: s for m, s in nxt.items() if bound(m, s[0]) <= limit}
            most = max(most, len(nxt))
            if len(nxt) > self.cap:
                ranked = sorted((bound(m, s[0]), m) for m, s in nxt.items())
                dropped = min(dropped, ranked[self.cap][0])
                nxt = {m: nxt[m] for _, m in ranked[: self.cap]}
            states = nxt
        figures = {"states": float(most)}
        if stopped:
            low = min((bound(m, s[0]) for m, s in states.items()), default=least)
            proved = min(low, dropped, least) if whole else -inf
            return Outcome(p.graph.restricted(choice), "timeout", bound=proved, figures=figures)
        found, trail = states.get(0, (inf, None))
        picked = dict(choice)
        if found < least:
            while trail is not None:
                trail, i, j = trail
                picked[total[i]] = options[total[i]][j].index
        best = min(found, least)
        proved = min(best, dropped) if whole else -inf
        return Outcome(p.graph.restricted(picked), "optimal" if whole and dropped >= best else "heuristic", bound=proved, figures=figures)
