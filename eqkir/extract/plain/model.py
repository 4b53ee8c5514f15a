"""The integer program of an extraction problem, as both solvers see it.

One binary x for every alternative; the sum over a class is at most 1, and 1 for classes that every choice contains. An alternative needs
its operands: for a class c and an operand class k, the alternatives of c that use k sum to at most the sum of k. Cycles: inside a
component, levels t with t_c >= t_k + 1 wherever a chosen alternative of c uses k; two classes that use each other are cut directly.
Where costs may be negative, a class that is no root needs a user, so that nothing is chosen that the roots do not reach. Tied classes
that are both chosen agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from eqkir.extract.plain.graph import Choice
from eqkir.extract.plain.prepare import Prepared


@dataclass
class IntegerProgram:
    """`x[c, i]`: variable of option i of class c; `rows`: (coefficients, lower, upper), None where unbounded; `level[c]`: number of the
    level variable of a class on a cycle, `top[c]` its upper bound; `arcs`: (c, k, variables) for the levels."""

    p: Prepared
    x: dict[tuple[int, int], int] = field(default_factory=dict)
    cost: list[float] = field(default_factory=list)
    rows: list[tuple[dict[int, float], float | None, float | None]] = field(default_factory=list)
    level: dict[int, int] = field(default_factory=dict)
    top: dict[int, int] = field(default_factory=dict)
    arcs: list[tuple[int, int, list[int]]] = field(default_factory=list)

    def choice(self, values: list[float]) -> Choice:
        """The alternatives whose variable is (nearly) 1."""
        return {c: self.p.options[c][i].index for (c, i), v in self.x.items() if values[v] > 0.5}

    def start(self, choice: Choice) -> list[float]:
        """Values of the variables for the reached part of a choice."""
        part = self.p.graph.restricted(choice)
        return [1.0 if part.get(c) == self.p.options[c][i].index else 0.0 for c, i in self.x]


def integer_program(p: Prepared) -> IntegerProgram:
    """The program of a prepared e-graph (feasible)."""
    m = IntegerProgram(p)
    for c, os in p.options.items():
        for i, o in enumerate(os):
            m.x[c, i] = len(m.cost)
            m.cost.append(o.cost)
    needed = 0
    for r in p.graph.roots:
        needed |= p.required[r]
    users: dict[int, dict[int, float]] = {}
    of = {c: [m.x[c, i] for i in range(len(os))] for c, os in p.options.items()}
    for c, os in p.options.items():
        must = bool(needed >> c & 1)
        m.rows.append((dict.fromkeys(of[c], 1.0), 1.0 if must else None, 1.0))
        using: dict[int, list[int]] = {}
        for i, o in enumerate(os):
            for k in o.kids:
                using.setdefault(k, []).append(m.x[c, i])
                users.setdefault(k, {})[m.x[c, i]] = 1.0
        for k, xs in using.items():
            if not needed >> k & 1:
                m.rows.append((dict.fromkeys(xs, 1.0) | dict.fromkeys(of[k], -1.0), None, 0.0))
            if p.component[k] == p.component[c]:
                m.arcs.append((c, k, xs))
    if p.negative:
        for c in p.options:
            if c not in p.graph.roots:
                m.rows.append((dict.fromkeys(of[c], 1.0) | dict.fromkeys(users.get(c, {}), -1.0), None, 0.0))
    for comp in p.components:
        if len(comp) > 1:
            for c in comp:
                m.level[c], m.top[c] = len(m.level), len(comp) - 1
    both = {(c, k): xs for c, k, xs in m.arcs}
    for (c, k), xs in both.items():
        if c < k and (k, c) in both:
            m.rows.append((dict.fromkeys([*xs, *both[k, c]], 1.0), None, 1.0))
    for group in p.graph.tied:
        alive = [c for c in group if c in p.options]
        for a, b in zip(alive, alive[1:]):
            for i, o in enumerate(p.options[a]):
                others = [m.x[b, j] for j, q in enumerate(p.options[b]) if q.index != o.index]
                if others:
                    m.rows.append((dict.fromkeys([m.x[a, i], *others], 1.0), None, 1.0))
    return m


def cycle_in(p: Prepared, choice: Choice) -> list[int]:
    """Classes of a cycle that a closed choice follows from the roots, in order; empty when there is none."""
    done: set[int] = set()
    for root in p.graph.roots:
        path: list[int] = []
        on: set[int] = set()
        stack = [(root, iter(p.graph.classes[root][choice[root]].kids))]
        path.append(root)
        on.add(root)
        while stack:
            c, rest = stack[-1]
            k = next((k for k in rest if k not in done), None)
            if k is None:
                stack.pop()
                path.pop()
                on.discard(c)
                done.add(c)
            elif k in on:
                return path[path.index(k) :]
            else:
                path.append(k)
                on.add(k)
                stack.append((k, iter(p.graph.classes[k][choice[k]].kids)))
    return []


def levels(p: Prepared, choice: Choice) -> dict[int, int]:
    """Level of every reached class within its component (operands lower)."""
    out: dict[int, int] = {}
    for root in p.graph.roots:
        stack = [(root, iter(p.graph.classes[root][choice[root]].kids))]
        while stack:
            c, rest = stack[-1]
            k = next((k for k in rest if k not in out), None)
            if k is not None:
                stack.append((k, iter(p.graph.classes[k][choice[k]].kids)))
                continue
            stack.pop()
            inside = [out[k] for k in p.graph.classes[c][choice[c]].kids if p.component.get(k) == p.component[c]]
            out[c] = max((x + 1 for x in inside), default=0)
    return out
