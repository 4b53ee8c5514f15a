"""Integer programming by HiGHS (extra ``ilp``): a warm start, a bound, and an honest status.

Costs are scaled so that the warm start costs `SCALE`, which keeps the solver's absolute tolerances far below a part in 1e9; gaps are set
to zero. "optimal" is said when the solver says so and the recomputed cost meets its bound.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from math import inf, isfinite
from typing import Any

import numpy as np

from eqkir.base.diagnostics import fail
from eqkir.extract.plain.graph import Choice
from eqkir.extract.plain.greedy import start
from eqkir.extract.plain.model import IntegerProgram, cycle_in, integer_program, levels
from eqkir.extract.plain.prepare import Prepared, trimmed
from eqkir.extract.plain.protocol import ABSENT, PATIENCE, TOLERANCE, Claims, Clock, Outcome

SCALE = 1e4


class Ilp:
    """Minimises the DAG cost exactly where time suffices."""

    name, claims = "ilp", Claims("dag", optimal=True, negative=True, ties=True)

    def __init__(self) -> None:
        try:
            self.api: Any = import_module("highspy")
        except ImportError:
            raise fail(ABSENT, "HiGHS is not installed", accepted="pip install 'eqkir[ilp]'", stage="extract") from None

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome:
        best, cost, _ = start(p, warm)
        if cost <= p.bound:
            return Outcome(p.graph.restricted(best), "optimal", bound=p.bound)
        small = trimmed(p, cost)
        if not small.feasible:  # nothing is cheaper
            return Outcome(p.graph.restricted(best), "optimal", bound=cost)
        m = integer_program(small)
        return _Run(self.api, small, m, clock, seed, best, cost).solve()


@contextmanager
def _quiet() -> Iterator[None]:
    """Send what native code prints nowhere."""
    sys.stdout.flush()
    kept, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(null)


class _Run:
    def __init__(self, api: Any, p: Prepared, m: IntegerProgram, clock: Clock, seed: int, best: Choice, cost: float) -> None:
        self.api = api
        self.p, self.m, self.clock, self.seed, self.best, self.cost = p, m, clock, seed, best, cost
        self.factor = SCALE / abs(cost) if cost else 1.0
        self.nodes = 0.0

    def solve(self) -> Outcome:
        h = self._highs()
        bound = -inf
        while True:
            if self.clock.left < 1e-3:
                return self._stopped(bound)
            h.setOptionValue("time_limit", PATIENCE * float(self.clock.left) + h.getRunTime())
            h.run()
            info, status = h.getInfo(), h.modelStatusToString(h.getModelStatus())
            self.nodes += max(0.0, float(info.mip_node_count))
            low = float(info.mip_dual_bound) / self.factor
            bound = max(bound, low) if isfinite(low) and abs(low) < 1e290 else bound
            if info.primal_solution_status == 2:  # a feasible point
                choice = self.m.choice(list(h.getSolution().col_value))
                if cycle := cycle_in(self.p, choice):  # within the tolerance of the levels: cut it off and go on
                    self._cut(h, choice, cycle)
                    continue
                if (c := self.p.graph.cost(choice)) < self.cost:
                    self.best, self.cost = choice, c
            if status == "Optimal":
                done = self.cost - bound <= TOLERANCE * max(abs(self.cost), abs(bound))
                return self._outcome("optimal" if done else "heuristic", bound, "" if done else "tolerances leave a gap")
            if status == "Infeasible":  # under the cut at the warm start's cost
                return self._outcome("optimal", self.cost)
            if status in ("Time limit reached", "Interrupted by user"):
                return self._stopped(bound)
            return self._outcome("failed", bound, status)

    def _stopped(self, bound: float) -> Outcome:
        closed = isfinite(bound) and self.cost - bound <= 1e-9 * abs(self.cost)
        return self._outcome("optimal" if closed else "timeout", bound)

    def _outcome(self, status: str, bound: float, note: str = "") -> Outcome:
        m = self.m
        figures = {"variables": float(len(m.x) + len(m.level)), "rows": float(len(m.rows) + len(m.arcs)), "nodes": self.nodes}
        return Outcome(self.p.graph.restricted(self.best), status, bound=bound, note=note, figures=figures)

    def _highs(self) -> Any:
        highspy = self.api
        m, n = self.m, len(self.m.x)
        lp = highspy.HighsLp()
        rows = list(m.rows)
        for c, k, xs in m.arcs:
            s = m.top[c] + 1.0
            rows.append(({n + m.level[c]: 1.0, n + m.level[k]: -1.0} | dict.fromkeys(xs, -s), 1.0 - s, None))
        lp.num_col_, lp.num_row_ = n + len(m.level), len(rows)
        lp.col_cost_ = np.array([*(c * self.factor for c in m.cost), *([0.0] * len(m.level))])
        lp.col_lower_ = np.zeros(lp.num_col_)
        lp.col_upper_ = np.array([1.0] * n + [float(m.top[c]) for c in m.level])
        lp.integrality_ = [highspy.HighsVarType.kInteger] * n + [highspy.HighsVarType.kContinuous] * len(m.level)
        lp.row_lower_ = np.array([-highspy.kHighsInf if lo is None else lo for _, lo, _ in rows])
        lp.row_upper_ = np.array([highspy.kHighsInf if up is None else up for _, _, up in rows])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(r) for r, _, _ in rows)]).astype(np.int32)
        lp.a_matrix_.index_ = np.array([v for r, _, _ in rows for v in r], np.int32)
        lp.a_matrix_.value_ = np.array([a for r, _, _ in rows for a in r.values()])
        with _quiet():  # a first instance prints a banner before it can be told not to
            h = highspy.Highs()
        h.silent()
        for option, value in {
            "output_flag": False, "threads": 1, "parallel": "off", "random_seed": self.seed % (1 << 31), "mip_rel_gap": 0.0,
            "mip_abs_gap": 1e-7, "mip_feasibility_tolerance": 1e-7,
        }.items():  # fmt: skip
            h.setOptionValue(option, value)
        h.passModel(lp)
        h.cbMipInterrupt += self._interrupt
        h.cbSimplexInterrupt += self._interrupt
        level = levels(self.p, self.best) if m.level else {}
        part = self.p.graph.restricted(self.best)
        if all(any(o.index == j for o in self.p.options.get(c, ())) for c, j in part.items()):
            point = highspy.HighsSolution()
            point.col_value = [*m.start(self.best), *(float(level.get(c, 0)) for c in m.level)]
            h.setSolution(point)
        return h

    def _interrupt(self, event: Any) -> None:
        if self.clock.over:
            event.interrupt()

    def _cut(self, h: Any, choice: Choice, cycle: list[int]) -> None:
        """No choice follows all arcs of this cycle."""
        xs = []
        for c, k in zip(cycle, [*cycle[1:], cycle[0]]):
            xs += [self.m.x[c, i] for i, o in enumerate(self.p.options[c]) if k in o.kids]
        index = np.array(sorted(set(xs)), np.int32)
        h.addRow(0.0, float(len(cycle) - 1), len(index), index, np.ones(len(index)))
