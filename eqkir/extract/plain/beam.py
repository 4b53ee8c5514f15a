"""Beam search from the roots: classes are decided users first; a state is what was chosen and which classes are still to be decided.

States are compared by the cost of the whole choice that results when the open classes are completed greedily, so the best state is a
solution at every step, and a beam of one state is no worse than the greedy choice. On cycles only alternatives that respect the order of
the greedy choice are looked at.
"""

from __future__ import annotations

import numpy as np

from eqkir.extract.plain.bits import members, weight_of
from eqkir.extract.plain.graph import Choice
from eqkir.extract.plain.greedy import ordered_options, start
from eqkir.extract.plain.prepare import Prepared
from eqkir.extract.plain.protocol import Claims, Clock, Outcome

#: states kept after each decision
WIDTH = 24

Trail = tuple["Trail", int, int] | None


class Beam:
    """`WIDTH` states a step."""

    name, claims = "beam", Claims("dag", negative=True, cycles="restricted")

    def __init__(self, width: int = WIDTH) -> None:
        self.width = width

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome:
        choice, least, order = start(p, warm)
        options, total, _ = ordered_options(p, order)
        place = {c: i for i, c in enumerate(total)}
        kids = [[sum(1 << place[k] for k in o.kids) for o in options[c]] for c in total]
        greedy = [next(i for i, o in enumerate(options[c]) if o.index == choice[c]) for c in total]
        own = np.array([options[c][g].cost for c, g in zip(total, greedy, strict=True)])
        closed: list[int] = []  # what the greedy completion of a class consists of
        for i in range(len(total)):
            bits = 1 << i
            for k in members(kids[i][greedy[i]]):
                bits |= closed[k]
            closed.append(bits)
        roots = sum(1 << place[r] for r in set(p.graph.roots))
        states: dict[int, tuple[float, float, Trail]] = {roots: (least, 0.0, None)}  # open set -> (score, paid, trail)
        best: tuple[float, int, Trail] = (least, roots, None)

        def score(mask: int, paid: float) -> float:
            below = 0
            for i in members(mask):
                below |= closed[i]
            return paid + weight_of(below, own)

        stopped = False
        while any(states):
            if clock.over:
                stopped = True
                break
            i = max(mask.bit_length() for mask in states) - 1  # the next class, users first
            bit = 1 << i
            nxt: dict[int, tuple[float, float, Trail]] = {}
            for mask, (s, paid, trail) in states.items():
                if not mask & bit:
                    if mask not in nxt or nxt[mask][1] > paid:
                        nxt[mask] = (s, paid, trail)
                    continue
                for j, o in enumerate(options[total[i]]):
                    m, cost = mask & ~bit | kids[i][j], paid + o.cost
                    if m not in nxt or nxt[m][1] > cost:
                        value = s if j == greedy[i] else score(m, cost)
                        nxt[m] = (value, cost, (trail, i, j))
                        if value < best[0]:
                            best = (value, m, nxt[m][2])
            kept = sorted(nxt.items(), key=lambda x: (x[1][0], x[0]))[: self.width]
            states = dict(kept)
        picked = dict(choice)
        trail = best[2]
        while trail is not None:
            trail, i, j = trail
            picked[total[i]] = options[total[i]][j].index
        return Outcome(p.graph.restricted(picked), "timeout" if stopped else "heuristic")
