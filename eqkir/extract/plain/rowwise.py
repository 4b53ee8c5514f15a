"""Plain extractors on problems with many rows: row by row, most promising first, rows that cannot win left out.

A row's bound is computed for all rows at once (`bounds`); the vectorised greedy extractor gives every row a first selection. Rows are taken
in the order of those costs. The outcome is optimal when every row was either solved to optimality or has a bound that is not below the
best selection.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import inf

import numpy as np

from eqkir.extract.check import check_legal
from eqkir.extract.extractors import Candidate
from eqkir.extract.graph import Selection
from eqkir.extract.greedy import greedy, selection
from eqkir.extract.labels import Floats
from eqkir.extract.plain.lower import lower
from eqkir.extract.plain.prepare import prepare
from eqkir.extract.plain.protocol import TOLERANCE, Clock, PlainExtractor, plain_extractor, solve
from eqkir.extract.problem import Problem


@dataclass
class RowOutcome:
    """The best selection over the rows, its row and its exact total; `status` and `bound` as in `Outcome`, over all rows.
    `solved`: rows that were extracted from, `pruned`: rows left out by their bound."""

    selection: Selection | None
    row: int
    cost: float
    bound: float
    status: str
    solved: int = 0
    pruned: int = 0
    proved: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    note: str = ""
    every: list[tuple[Selection, int, float]] = field(default_factory=list)  # the selection of each row that was solved


def bounds(p: Problem) -> Floats:
    """A lower bound of the total under every row: the least weights of the classes that every selection contains, bodies multiplied."""
    g, w = p.graph, p.weight
    alive = np.isfinite(w).any(1)
    least = np.array([w[p.first[c] : p.first[c] + len(ns)].min(0) if ns else np.full(w.shape[1], inf) for c, ns in enumerate(g.classes)])
    required: dict[int, int] = {}
    every = (1 << len(g.classes)) - 1
    for comp in p.components:
        for c in comp:
            required[c] = every
        changed = True
        while changed:
            changed = False
            for c in comp:
                new = every
                for j, n in enumerate(g.classes[c]):
                    if alive[p.first[c] + j] and c not in n.kids:
                        below = 0
                        for k in n.kids:
                            below |= required[k]
                        new &= below
                new |= 1 << c
                if new != required[c]:
                    required[c], changed = new, len(comp) > 1
    segments = {c for c, ns in enumerate(g.classes) if any(p.first[c] + j in p.scale for j in range(len(ns)))}
    total = np.zeros(w.shape[1])
    outside = _outside(p, required)
    for c in outside:
        if c not in segments:
            total = total + least[c]
            continue
        best = np.full(w.shape[1], inf)
        for j, n in enumerate(g.classes[c]):
            e = p.first[c] + j
            body = 0
            for k in n.kids:
                body |= required[k]
            inner = sum((least[d] for d in range(len(g.classes)) if body >> d & 1), np.zeros(w.shape[1]))
            with np.errstate(invalid="ignore"):
                best = np.fmin(best, w[e] + p.scale[e] * inner if e in p.scale else w[e])
        total = total + best
    return np.asarray(total)


def _outside(p: Problem, required: dict[int, int]) -> list[int]:
    """Classes that every selection contains outside of segments: those that the root requires when segments count as leaves."""
    g = p.graph
    out: dict[int, set[int]] = {}
    alive = np.isfinite(p.weight).any(1)
    for comp in p.components:
        for c in comp:
            sets = []
            for j, n in enumerate(g.classes[c]):
                e = p.first[c] + j
                if alive[e] and c not in n.kids:
                    sets.append(set().union(*(out.get(k, {k}) for k in n.kids)) if e not in p.scale else set())
            out[c] = set.intersection(*sets) | {c} if sets else {c}
    return sorted(out[g.root])


def solve_rows(p: Problem, x: PlainExtractor, limit: float = 0.5, seed: int = 0, most: int | None = None) -> RowOutcome:
    """Extract row by row for `limit` seconds (at most `most` rows). Raises `EqkirError` for a selection that fails the check."""
    wall, cpu = time.perf_counter(), time.process_time()
    clock = Clock(limit)
    picks = greedy(p, True)
    firsts = {r: s for r in range(len(p.rows)) if (s := selection(p, picks, r)) is not None}
    exact = {r: p.cost(s, r) for r, s in firsts.items()}
    low = bounds(p)
    downward = x.claims.objective == "-dag"
    order = sorted(firsts, key=lambda r: (-exact[r] if downward else exact[r], r))
    if not order:
        return RowOutcome(None, -1, inf, inf, "infeasible")
    out = RowOutcome(None, -1, inf, -inf, "heuristic")
    left = [float(low[r]) for r in order]  # bound of every row so far
    stopped = False
    proving = x.claims.optimal
    best = inf
    if proving:  # the greedy selections are the incumbents
        best = exact[order[0]]
        out.selection, out.row, out.cost = firsts[order[0]], order[0], best
    for i, r in enumerate(order):
        if clock.over or (most is not None and i >= most):
            stopped = stopped or clock.over
            break
        if proving and low[r] >= best * (1 - 1e-12):
            out.pruned += 1
            continue
        lo = lower(p, r)
        share = clock.left if proving else clock.left / max(1, min(len(order), most or len(order)) - i)
        got = solve(prepare(lo.plain), x, share, seed, lo.drop(firsts[r]) if x.claims.objective != "-dag" else None)
        out.solved += 1
        stopped = stopped or got.status == "timeout"
        left[i] = max(left[i], got.bound)
        if got.choice is None:
            out.note = out.note or f"{got.status} {got.note}".strip()
            continue
        s = lo.lift(got.choice)
        check_legal(p, s, r)
        cost = p.cost(s, r)
        out.every.append((s, r, cost))
        if got.status == "optimal" and got.bound >= cost * (1 - TOLERANCE):
            out.proved += 1
        if out.selection is None or ((cost > out.cost) if downward else (cost < out.cost)):
            out.selection, out.row, out.cost = s, r, cost
            best = cost
    out.bound = min(left) if not downward else -inf
    slack = TOLERANCE * max(abs(out.cost), 1e-300)
    if proving and out.selection is not None and out.bound >= out.cost - slack:
        out.status, out.bound = "optimal", min(out.bound, out.cost)
    elif stopped:
        out.status = "timeout"
    out.seconds, out.cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    return out


class RowByRow:
    """A plain extractor as an extractor of problems: the selections of the rows that it solved, cheapest first. `LIMIT` CPU seconds a
    kernel; where that stops it, what is chosen depends on the machine."""

    ranked = True
    LIMIT = 30.0

    def __init__(self, name: str) -> None:
        self.name, self._made = name, plain_extractor(name)

    def extract(self, problem: Problem, seed: int) -> list[Candidate]:
        r = solve_rows(problem, self._made, self.LIMIT, seed)
        found = [Candidate(s, row, cost) for s, row, cost in r.every]
        if r.selection is not None and not any(c.row == r.row for c in found):
            found.append(Candidate(r.selection, r.row, r.cost))
        return sorted(found, key=lambda c: (c.cost, c.row))
