"""The one check that every selection passes, whatever extractor made it. It reads and refuses; it repairs nothing."""

from __future__ import annotations

from math import inf

from eqkir.base.diagnostics import fail, register
from eqkir.extract.graph import FrozenGraph, Selection
from eqkir.extract.problem import Problem

ROOT = register(
    "EQK-EXTRACT-ROOT",
    "selection without the root",
    "An extractor returned a selection that chooses nothing for the root class of the e-graph.",
)
FOREIGN = register(
    "EQK-EXTRACT-FOREIGN",
    "choice outside its class",
    "An extractor chose an e-node that the class does not have, or named a class that the e-graph does not have.",
)
OPEN = register(
    "EQK-EXTRACT-OPEN", "selection is not closed", "A chosen e-node has an operand class for which the selection chooses nothing."
)
CYCLE = register("EQK-EXTRACT-CYCLE", "cyclic selection", "The chosen e-nodes depend on themselves, so they denote no finite program.")
ILLEGAL = register("EQK-EXTRACT-ILLEGAL", "illegal choice", "A chosen e-node is illegal under the row that the selection was made for.")


def check(graph: FrozenGraph, selection: Selection) -> None:
    """Right root, every choice within its class, every reachable class chosen, acyclic.

    Raises `EqkirError`: EQK-EXTRACT-ROOT, EQK-EXTRACT-FOREIGN, EQK-EXTRACT-OPEN, EQK-EXTRACT-CYCLE.
    """
    n = len(graph.classes)
    if graph.root not in selection:
        raise fail(ROOT, f"class {graph.root} is the root and has no choice", stage="extract")
    for c in sorted(selection):
        if not 0 <= c < n or not 0 <= selection[c] < len(graph.classes[c]):
            raise fail(FOREIGN, f"class {c} has no alternative {selection[c]}", stage="extract")
    done: set[int] = set()
    open_: set[int] = set()
    work = [(graph.root, False)]
    while work:
        c, leaving = work.pop()
        if leaving:
            open_.discard(c)
            done.add(c)
            continue
        if c in done:
            continue
        if c in open_:
            raise fail(CYCLE, f"class {c} depends on itself", stage="extract")
        if c not in selection:
            raise fail(OPEN, f"class {c} is used and has no choice", stage="extract")
        open_.add(c)
        work.append((c, True))
        for k in graph.classes[c][selection[c]].kids:
            if k in open_:
                raise fail(CYCLE, f"class {k} depends on itself through class {c}", stage="extract")
            if k not in done:
                work.append((k, False))


def check_legal(problem: Problem, selection: Selection, row: int) -> None:
    """`check`, and that every choice is legal under the row. Raises `EqkirError`, EQK-EXTRACT-ILLEGAL besides."""
    check(problem.graph, selection)
    for c, j in sorted(selection.items()):
        if problem.weight[problem.first[c] + j, row] == inf:
            raise fail(ILLEGAL, f"alternative {j} of class {c} is illegal under row {problem.rows[row]}", stage="extract")
