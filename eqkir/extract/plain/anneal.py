"""Simulated annealing over whole choices: change one reached class, recompute the DAG cost, take it by Metropolis' rule.

The number of steps follows from the graph, so that a run that the clock does not stop is a function of its seed.
"""

from __future__ import annotations

import math
import random

from eqkir.extract.plain.graph import Choice
from eqkir.extract.plain.greedy import start
from eqkir.extract.plain.prepare import Option, Prepared
from eqkir.extract.plain.protocol import Claims, Clock, Outcome

#: steps a class that has several alternatives, the least and the most of all
STEPS, LEAST, MOST = 60, 600, 60_000
#: first and last temperature, in parts of the mean absolute difference of two alternatives of a class
HOT, COLD = 1.0, 0.001


class Anneal:
    """Starts from the greedy choice; remembers the best."""

    name, claims = "anneal", Claims("dag", negative=True)

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome:
        rng = random.Random(seed)
        choice, cost, _ = start(p, warm)
        by_index = {c: {o.index: o for o in os} for c, os in p.options.items()}
        now = {c: by_index[c][j] for c, j in choice.items()}
        spread = [max(o.cost for o in os) - min(o.cost for o in os) for os in p.options.values() if len(os) > 1]
        if not spread:
            return Outcome(p.graph.restricted(choice), "heuristic")
        scale = sum(spread) / len(spread) or abs(cost) / max(1, len(spread)) or 1.0
        best, best_cost = dict(now), cost
        steps = min(MOST, max(LEAST, STEPS * len(spread)))
        reached = self._walk(p, now)
        assert reached is not None
        movable = [c for c in reached[1] if len(p.options[c]) > 1]
        for step in range(steps):
            if clock.over:
                return self._result(p, best, "timeout", step)
            if not movable:
                break
            c = rng.choice(movable)
            old = now[c]
            new = rng.choice([o for o in p.options[c] if o is not old])
            now[c] = new
            walked = self._walk(p, now)
            temperature = scale * HOT * (COLD / HOT) ** (step / steps)
            if walked is None or (walked[0] > cost and rng.random() >= math.exp((cost - walked[0]) / temperature)):
                now[c] = old
                continue
            cost = walked[0]
            movable = [d for d in walked[1] if len(p.options[d]) > 1]
            if cost < best_cost:
                best, best_cost = dict(now), cost
        return self._result(p, best, "heuristic", steps)

    @staticmethod
    def _result(p: Prepared, now: dict[int, Option], status: str, steps: int) -> Outcome:
        return Outcome(p.graph.restricted({c: o.index for c, o in now.items()}), status, figures={"steps": float(steps)})

    @staticmethod
    def _walk(p: Prepared, now: dict[int, Option]) -> tuple[float, list[int]] | None:
        """Cost and classes of what the roots reach, None where it is cyclic."""
        cyclic = p.cyclic
        total, done, out = 0.0, set(), []
        if not cyclic:
            todo = list(p.graph.roots)
            done = set(todo)
            todo = list(done)
            while todo:
                c = todo.pop()
                o = now[c]
                total += o.cost
                out.append(c)
                for k in o.kids:
                    if k not in done:
                        done.add(k)
                        todo.append(k)
            return total, out
        open_: set[int] = set()
        for root in p.graph.roots:
            if root in done:
                continue
            stack = [(root, iter(now[root].kids))]
            open_.add(root)
            while stack:
                at, rest = stack[-1]
                kid = next(rest, None)
                if kid is None:
                    stack.pop()
                    open_.discard(at)
                    done.add(at)
                    out.append(at)
                    total += now[at].cost
                elif kid in open_:
                    return None
                elif kid not in done:
                    open_.add(kid)
                    stack.append((kid, iter(now[kid].kids)))
        return total, out
