"""The protocol of extractors over plain e-graphs, and their registry (built in, or the entry point group ``eqkir.plain_extractors``).

An extractor says what it claims before it runs (`Claims`) and what came out after (`Outcome`). `solve` is how everybody calls one: it
measures, checks the choice (`check`) and lets no claim through that the figures do not support.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import entry_points
from math import inf, isfinite
from typing import Any, Protocol, runtime_checkable

from eqkir.base.diagnostics import fail, register
from eqkir.extract.extractors import UNKNOWN
from eqkir.extract.plain.check import check
from eqkir.extract.plain.graph import Choice, Plain
from eqkir.extract.plain.prepare import Prepared, prepare

CLAIM = register(
    "EQK-EXTRACT-CLAIM",
    "a claim that does not hold",
    "An extractor reported a choice as optimal whose recomputed cost is above its own lower bound, or a bound above the cost of a choice.",
)
ABSENT = register(
    "EQK-EXTRACT-ABSENT", "extractor needs an extra", "The solver that the extractor uses is not installed; the message names the extra."
)

#: relative difference of a proved optimum and its bound that floating point solvers are granted
TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Claims:
    """`objective`: what it minimises (``tree``, ``dag``, ``none``, ``-dag`` for the worst); `optimal`: whether it can prove optimality;
    `negative`: whether it takes costs below zero; `cycles`: ``exact``, or ``restricted`` where it looks at part of the choices only;
    `ties`: whether it keeps tied classes equal."""

    objective: str
    optimal: bool = False
    negative: bool = False
    cycles: str = "exact"
    ties: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """`status`: ``optimal`` (proved), ``heuristic`` (ended by itself, nothing claimed), ``timeout`` (stopped; the best so far),
    ``infeasible`` (proved: some root has no finite derivation), ``declined`` (not what it claims), ``failed``.

    `bound`: a proved lower bound of the DAG cost, -inf where none; `cost` inf without a choice."""

    choice: Choice | None
    status: str
    cost: float = inf
    bound: float = -inf
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    note: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


class Clock:
    """A limit in seconds of this process's CPU time, from now: on a busy machine an extractor gets as far as on an idle one."""

    def __init__(self, seconds: float) -> None:
        self.start = time.process_time()
        self.seconds = seconds

    @property
    def spent(self) -> float:
        return time.process_time() - self.start

    @property
    def left(self) -> float:
        return max(0.0, self.seconds - self.spent)

    @property
    def over(self) -> bool:
        return self.spent >= self.seconds


#: wall time that a foreign solver gets at most, as a multiple of its CPU time
PATIENCE = 20.0


@runtime_checkable
class PlainExtractor(Protocol):
    """`run` ends by itself soon after the clock is over. `warm` is a choice to start from (may be left alone)."""

    name: str
    claims: Claims

    def run(self, p: Prepared, clock: Clock, seed: int, warm: Choice | None) -> Outcome: ...


#: name -> module and class; modules are imported when they are asked for (extras)
_BUILT_IN: dict[str, tuple[str, str]] = {
    "greedy-tree": ("greedy", "GreedyTree"),
    "greedy-dag": ("greedy", "GreedyDag"),
    "egglog-tree": ("native", "EgglogTree"),
    "egglog-dag": ("native", "EgglogDag"),
    "beam": ("beam", "Beam"),
    "anneal": ("anneal", "Anneal"),
    "frontier": ("frontier", "Frontier"),
    "ilp": ("ilp", "Ilp"),
    "cpsat": ("cpsat", "CpSat"),
    "random": ("simple", "Random"),
    "worst": ("simple", "Worst"),
}


def names() -> list[str]:
    """Names of all extractors of plain e-graphs."""
    return sorted({*_BUILT_IN, *(e.name for e in entry_points(group="eqkir.plain_extractors"))})


def plain_extractor(name: str) -> PlainExtractor:
    """Raises `EqkirError`: EQK-EXTRACT-EXTRACTOR (unknown), EQK-EXTRACT-ABSENT (an extra is missing)."""
    if name in _BUILT_IN:
        module, cls = _BUILT_IN[name]
        made: Any = getattr(import_module(f"eqkir.extract.plain.{module}"), cls)()
        return made  # type: ignore[no-any-return]
    for e in sorted(entry_points(group="eqkir.plain_extractors"), key=lambda e: e.name):
        if e.name == name:
            made = e.load()
            return made() if isinstance(made, type) else made  # type: ignore[no-any-return]
    raise fail(UNKNOWN, f"unknown extractor {name!r}", accepted=", ".join(names()), stage="extract")


def solve(g: Plain | Prepared, extractor: str | PlainExtractor, limit: float = 10.0, seed: int = 0, warm: Choice | None = None) -> Outcome:
    """Run an extractor and check what it says. Raises `EqkirError` for a choice that fails the check and for false claims
    (EQK-EXTRACT-CLAIM)."""
    x = plain_extractor(extractor) if isinstance(extractor, str) else extractor
    wall, cpu = time.perf_counter(), time.process_time()
    clock = Clock(limit)
    p = g if isinstance(g, Prepared) else prepare(g)
    if not p.feasible:
        out = Outcome(None, "infeasible")
    elif p.negative and not x.claims.negative:
        out = Outcome(None, "declined", note="costs below zero")
    else:
        out = x.run(p, clock, seed, warm)
    out = replace(out, seconds=time.perf_counter() - wall, cpu_seconds=time.process_time() - cpu)
    return audited(p, x, out)


def audited(p: Prepared, x: PlainExtractor, out: Outcome) -> Outcome:
    """The outcome with its cost recomputed and, where the preparation knows a better one, its bound. Raises `EqkirError`."""
    bound = max(out.bound, p.bound) if p.feasible else out.bound
    if out.choice is None:
        if out.status == "optimal":
            raise fail(CLAIM, f"{x.name}: optimal without a choice", stage="extract")
        return replace(out, bound=bound)
    cost = check(p.graph, out.choice, ties=x.claims.ties)
    slack = TOLERANCE * max(1e-300, abs(cost), abs(bound) if isfinite(bound) else 0.0)
    if x.claims.objective != "-dag" and bound > cost + slack and not p.graph.tied:
        raise fail(CLAIM, f"{x.name}: bound {bound} above the cost {cost} of its choice", stage="extract")
    if out.status == "optimal":
        if not x.claims.optimal:
            raise fail(CLAIM, f"{x.name} does not claim to prove optimality", stage="extract")
        if cost > bound + slack:
            raise fail(CLAIM, f"{x.name}: optimal at {cost}, but its bound is {bound}", stage="extract")
    return replace(out, choice=p.graph.restricted(out.choice), cost=cost, bound=min(bound, cost) if not p.graph.tied else bound)
