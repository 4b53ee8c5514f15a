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
from eqkir.extract.labels import Bools, Floats
from eqkir.extract.plain.bits import members
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
    """A lower bound of the total under every row, from below: an alternative costs at least its weight and the dearest of its operands'
    bounds; a segment's body, and what lies outside of segments, at least the least weights of all classes that it cannot do without."""
    g, w, n = p.graph, p.weight, p.weight.shape[1]
    alive = np.isfinite(w).any(1)
    least = [w[p.first[c] : p.first[c] + len(ns)].min(0) if ns else np.full(n, inf) for c, ns in enumerate(g.classes)]
    required = _required(p, alive)
    segments = {c for c, ns in enumerate(g.classes) if any(p.first[c] + j in p.scale for j in range(len(ns)))}
    outside = _outside(p, segments)
    heavy = sum(1 << c for c in range(len(least)) if c in segments or least[c].any())
    sums: dict[int, Floats] = {}  # by bit set: alternatives of a segment often differ in the order of the same stores only
    low: dict[int, Floats] = {}
    none = np.zeros(n)  # also of what a class without legal alternatives "requires": everything
    for comp in p.components:
        for c in comp:
            low[c] = least[c]
            if len(comp) > 1:
                continue
            best = np.full(n, inf)
            for j, node in enumerate(g.classes[c]):
                e = p.first[c] + j
                if not alive[e] or c in node.kids:
                    continue
                below = np.zeros(n)
                for k in node.kids:
                    below = np.maximum(below, low[k])
                if e in p.scale or c in outside:
                    needed = 0
                    for k in node.kids:
                        needed |= required[k]
                    below = np.maximum(below, _sum(needed & heavy, sums, low, least, segments, none))
                if e in p.scale:
                    with np.errstate(invalid="ignore"):
                        below = np.where(p.scale[e] > 0, p.scale[e] * below, 0.0)
                best = np.minimum(best, w[e] + below)
            low[c] = best
    return np.asarray(low[g.root])


def _sum(needed: int, known: dict[int, Floats], low: dict[int, Floats], least: list[Floats], segments: set[int], none: Floats) -> Floats:
    """The sum of bounds over a bit set of classes: of segments their own, of others their least weights."""
    if needed not in known:
        known[needed] = sum((low.get(d, none) if d in segments else least[d] for d in members(needed)), none)
    return known[needed]


def _required(p: Problem, alive: Bools) -> dict[int, int]:
    """Bit set of the classes that every legal selection of a class contains; a segment stands for its body."""
    every = (1 << len(p.graph.classes)) - 1
    out: dict[int, int] = {}
    for comp in p.components:
        for c in comp:
            out[c] = every
        changed = True
        while changed:
            changed = False
            for c in comp:
                new = every
                for j, node in enumerate(p.graph.classes[c]):
                    e = p.first[c] + j
                    if alive[e] and c not in node.kids:
                        below = 0
                        for k in node.kids if e not in p.scale else ():
                            below |= out[k]
                        new &= below
                new |= 1 << c
                if new != out[c]:
                    out[c], changed = new, len(comp) > 1
    return out


def _outside(p: Problem, segments: set[int]) -> set[int]:
    """Classes that the root reaches without entering a segment, segments left out."""
    seen, todo = {p.graph.root} - segments, [p.graph.root]
    while todo:
        c = todo.pop()
        for node in p.graph.classes[c] if c not in segments else ():
            for k in node.kids:
                if k not in seen and k not in segments:
                    seen.add(k)
                    todo.append(k)
    return seen


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
        if x.claims.objective in ("dag", "tree") and low[r] >= best * (1 - 1e-12):
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
    if out.selection is None and stopped and x.claims.objective == "dag":  # what it would have started from
        out.selection, out.row, out.cost = firsts[order[0]], order[0], exact[order[0]]
        out.note = out.note or "no row was finished: the greedy choice"
    out.bound = min(left) if not downward else -inf
    slack = TOLERANCE * max(abs(out.cost), 1e-300)
    if proving and out.selection is not None and out.bound >= out.cost - slack:
        out.status, out.bound = "optimal", min(out.bound, out.cost)
    elif stopped:
        out.status = "timeout"
    out.seconds, out.cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    return out


def solve_whole(p: Problem, x: PlainExtractor, limit: float = 60.0, seed: int = 0) -> RowOutcome:
    """Extract under every row, one by one, each from nothing: no row is left out by its bound, none has a first selection. This is what a
    solver costs on the whole graph; `solve_rows` shows what decomposition by rows and warm starts save."""
    wall, cpu = time.perf_counter(), time.process_time()
    clock, n = Clock(limit), len(p.rows)
    out = RowOutcome(None, -1, inf, -inf, "heuristic")
    left = [-inf] * n
    for r in range(n):
        if clock.over:
            break
        lo = lower(p, r)
        got = solve(prepare(lo.plain), x, clock.left, seed)
        out.solved += 1
        left[r] = inf if got.status == "infeasible" else got.bound
        if got.choice is not None and got.cost < out.cost:
            s = lo.lift(got.choice)
            check_legal(p, s, r)
            out.selection, out.row, out.cost = s, r, p.cost(s, r)
    out.bound = min(left)
    proved = out.selection is not None and out.bound >= out.cost - TOLERANCE * max(abs(out.cost), 1e-300)
    out.status = "optimal" if proved else "timeout" if clock.over else "infeasible" if out.selection is None else "heuristic"
    out.bound = min(out.bound, out.cost)
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
