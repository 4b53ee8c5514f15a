"""Extractors are plug-ins: anything with a `name` and `extract(problem, seed)`, here or from the entry point group ``eqkir.extractors``.

==============  ====================================================================================================
greedy-dag      per row the cheapest alternatives, shared classes counted once; the best rows improved by descent
greedy-tree     per row the cheapest alternatives by tree cost
random          a random legal alternative for every class, under a random row
worst           under the row where it is largest, the selection of largest finite legal cost (greedy, top down)
==============  ====================================================================================================
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from math import inf, isfinite
from typing import Protocol, runtime_checkable

import numpy as np

from eqkir.base.diagnostics import fail, register
from eqkir.extract.check import check_legal
from eqkir.extract.descent import Descent
from eqkir.extract.graph import Selection
from eqkir.extract.greedy import greedy, selection
from eqkir.extract.problem import Problem
from eqkir.extract.sampling import largest, random_selection, worst_selection

UNKNOWN = register(
    "EQK-EXTRACT-EXTRACTOR",
    "unknown extractor",
    "The name is neither built in nor registered under the entry point group eqkir.extractors.",
)


#: candidates that descent looks at
IMPROVED = 8


@dataclass(frozen=True)
class Candidate:
    """A selection under a row, with its total by the problem's weights. `row` indexes `Problem.rows`."""

    selection: Selection
    row: int
    cost: float

    @property
    def key(self) -> tuple[tuple[int, int], ...]:
        """Identity of the structure (parameters erased)."""
        return tuple(sorted(self.selection.items()))


@runtime_checkable
class Extractor(Protocol):
    """Proposes candidates, best first; `ranked` says whether cost models may reorder them (else the first one is meant)."""

    name: str
    ranked: bool

    def extract(self, problem: Problem, seed: int) -> list[Candidate]: ...


class Greedy:
    """One candidate a row, cheapest first. With sharing, the first `IMPROVED` are improved by descent."""

    ranked = True

    def __init__(self, name: str, share: bool) -> None:
        self.name, self._share = name, share

    def extract(self, problem: Problem, seed: int) -> list[Candidate]:
        picks = greedy(problem, self._share)
        out = []
        for r in range(len(problem.rows)):
            s = selection(problem, picks, r)
            if s is not None:
                out.append(Candidate(s, r, problem.cost(s, r)))
        out.sort(key=lambda c: (c.cost, c.row))
        if self._share:
            descent = Descent(problem)
            for i, c in enumerate(out[:IMPROVED]):
                better = descent.improve(c.selection, c.row, picks[:, c.row].tolist())
                if better is not c.selection:
                    out[i] = Candidate(better, c.row, problem.cost(better, c.row))
            out.sort(key=lambda c: (c.cost, c.row))
        return out


class Random:
    """`TRIES` random selections under random rows, in the order drawn."""

    name, ranked = "random", False
    TRIES = 16

    def extract(self, problem: Problem, seed: int) -> list[Candidate]:
        rng = random.Random(seed)
        out = []
        for _ in range(self.TRIES):
            r = rng.randrange(len(problem.rows))
            s = random_selection(problem, r, rng)
            if s is not None:
                out.append(Candidate(s, r, problem.cost(s, r)))
        return out


class Worst:
    """Largest finite legal cost first, over the rows of largest estimated cost."""

    name, ranked = "worst", False
    ROWS = 8

    def extract(self, problem: Problem, seed: int) -> list[Candidate]:
        estimate = largest(problem)
        order = np.argsort(-estimate[problem.graph.root], kind="stable")[: self.ROWS]
        out = []
        for r in order.tolist():
            s = worst_selection(problem, r, estimate)
            if s is not None:
                out.append(Candidate(s, r, problem.cost(s, r)))
        return sorted(out, key=lambda c: (-c.cost if isfinite(c.cost) else inf, c.row))


_BUILT_IN: tuple[Extractor, ...] = (Greedy("greedy-dag", True), Greedy("greedy-tree", False), Random(), Worst())


def _plugins() -> Iterable[Extractor]:
    for e in sorted(entry_points(group="eqkir.extractors"), key=lambda e: e.name):
        made = e.load()
        yield made() if isinstance(made, type) else made


def extractors() -> dict[str, Extractor]:
    """Every extractor by name; a plug-in may not take a built-in name."""
    out = {x.name: x for x in _plugins()}
    out.update({x.name: x for x in _BUILT_IN})
    return dict(sorted(out.items()))


def extractor(name: str) -> Extractor:
    """One of `extractors`, or one of plain e-graphs, row by row. Raises `EqkirError`: EQK-EXTRACT-EXTRACTOR, EQK-EXTRACT-ABSENT."""
    known = extractors()
    if name in known:
        return known[name]
    if name not in plain_names():
        raise fail(UNKNOWN, f"unknown extractor {name!r}", accepted=", ".join((*known, *plain_names())), stage="extract")
    from eqkir.extract.plain.rowwise import RowByRow

    return RowByRow(name)


def plain_names() -> list[str]:
    """Extractors of plain e-graphs (`eqkir.extract.plain`) that are not there under the same name for problems."""
    from eqkir.extract.plain.protocol import names

    return [n for n in names() if n not in extractors()]


def extract(problem: Problem, name: str = "greedy-dag", seed: int = 0) -> list[Candidate]:
    """Candidates of an extractor, each checked (`check_legal`), best first. Raises `EqkirError` for a candidate that fails the check."""
    out = extractor(name).extract(problem, seed)
    for c in out:
        check_legal(problem, c.selection, c.row)
    return out
