"""CP-SAT of OR-tools (extra ``cpsat``). It works on integers: costs are scaled and rounded down, so its bound holds for the true costs,
and "optimal" is said when the recomputed cost meets that bound within `protocol.TOLERANCE`."""

from __future__ import annotations

from importlib import import_module
from math import floor, inf, isfinite
from typing import Any

from eqkir.base.diagnostics import fail
from eqkir.extract.plain.graph import Choice
from eqkir.extract.plain.greedy import start
from eqkir.extract.plain.model import cycle_in, integer_program, levels
from eqkir.extract.plain.prepare import Prepared, trimmed
from eqkir.extract.plain.protocol import ABSENT, PATIENCE, TOLERANCE, Claims, Clock, Outcome

#: what the warm start costs after scaling
SCALE = 1e11


class CpSat:
    """Minimises the DAG cost exactly where time suffices."""

    name, claims = "cpsat", Claims("dag", optimal=True, negative=True, ties=True)

    def __init__(self) -> None:
        try:
            self.api: Any = import_module("ortools.sat.python.cp_model")
        except ImportError:
            raise fail(ABSENT, "OR-tools is not installed", accepted="pip install 'eqkir[cpsat]'", stage="extract") from None

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome:
        cp_model = self.api
        best, cost, _ = start(p, warm)
        if cost <= p.bound:
            return Outcome(p.graph.restricted(best), "optimal", bound=p.bound)
        small = trimmed(p, cost)
        if not small.feasible:
            return Outcome(p.graph.restricted(best), "optimal", bound=cost)
        m = integer_program(small)
        factor = SCALE / max(abs(cost), sum(abs(c) for c in m.cost if c < 0)) if cost else 1.0
        model = cp_model.CpModel()
        xs = [model.new_bool_var(f"x{c}_{i}") for c, i in m.x]
        for row, lo, up in m.rows:
            expr = sum(int(a) * xs[v] for v, a in row.items())
            if lo is not None:
                model.add(expr >= int(lo))
            if up is not None:
                model.add(expr <= int(up))
        ts = {c: model.new_int_var(0, m.top[c], f"t{c}") for c in m.level}
        for above, below, users in m.arcs:
            for v in users:
                model.add(ts[above] >= ts[below] + 1).only_enforce_if(xs[v])
        model.minimize(sum(floor(a * factor) * x for a, x in zip(m.cost, xs, strict=True)))
        level = levels(small, best)
        for x, value in zip(xs, m.start(best), strict=True):
            model.add_hint(x, int(value))
        for c, t in ts.items():
            model.add_hint(t, level.get(c, 0))
        solver = cp_model.CpSolver()
        solver.parameters.max_deterministic_time = max(1e-3, clock.left)
        solver.parameters.max_time_in_seconds = max(1e-3, PATIENCE * clock.left)
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed % (1 << 31)
        status = solver.solve(model)
        known = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)  # else the solver's bound may be a placeholder
        bound = float(solver.best_objective_bound / factor) if known else -inf
        note = ""
        if known:
            choice = m.choice([float(solver.value(x)) for x in xs])
            if not cycle_in(small, choice) and (c2 := p.graph.cost(choice)) < cost:
                best, cost = choice, c2
        figures = {"variables": float(len(xs) + len(ts)), "branches": float(solver.num_branches)}
        bound = bound if isfinite(bound) else -inf
        if status == cp_model.INFEASIBLE:
            return Outcome(p.graph.restricted(best), "optimal", bound=cost, figures=figures)
        if status == cp_model.MODEL_INVALID:
            return Outcome(p.graph.restricted(best), "failed", note="the solver refuses the model", figures=figures)
        closed = cost - bound <= TOLERANCE * abs(cost)
        if status == cp_model.OPTIMAL and not closed:
            note = "rounding leaves a gap"
        said = "optimal" if closed else "timeout" if status != cp_model.OPTIMAL else "heuristic"
        return Outcome(p.graph.restricted(best), said, bound=bound, note=note, figures=figures)
