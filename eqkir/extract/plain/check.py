"""The one check that every choice from a plain e-graph passes, whatever extractor made it. It reads, refuses and recomputes the cost; it
repairs nothing, and shares no code with any extractor."""

from __future__ import annotations

from math import fsum, isfinite

from eqkir.base.diagnostics import fail, register
from eqkir.extract.check import CYCLE, FOREIGN, OPEN, ROOT
from eqkir.extract.plain.graph import Choice, Plain

SUBSUMED = register("EQK-EXTRACT-SUBSUMED", "subsumed choice", "An extractor chose an e-node that the e-graph marks as subsumed.")
TIE = register(
    "EQK-EXTRACT-TIE",
    "one class, two choices",
    "Two places of a plain e-graph stand for one class of the graph that it was lowered from, and a choice takes different alternatives.",
)


def check(g: Plain, choice: Choice, ties: bool = False) -> float:
    """The DAG cost of a choice, after: every root chosen, every choice within its class and not subsumed, every reachable class chosen,
    nothing depends on itself; with `ties`, tied classes agree.

    Raises `EqkirError`: EQK-EXTRACT-ROOT, -FOREIGN, -SUBSUMED, -OPEN, -CYCLE, -TIE.
    """
    for r in g.roots:
        if r not in choice:
            raise fail(ROOT, f"root class {_name(g, r)} has no choice", stage="extract")
    for c, j in sorted(choice.items()):
        if not 0 <= c < len(g.classes) or not 0 <= j < len(g.classes[c]):
            raise fail(FOREIGN, f"class {c} has no alternative {j}", stage="extract")
        if g.classes[c][j].subsumed:
            raise fail(SUBSUMED, f"alternative {j} of class {_name(g, c)} is subsumed", stage="extract")
    state: dict[int, bool] = {}  # True: all below is done
    costs: list[float] = []
    for root in g.roots:
        stack = [(root, iter((root,)))]
        while stack:
            c, rest = stack[-1]
            k = next(rest, None)
            if k is None:
                stack.pop()
                state[c] = True
                continue
            if state.get(k) is True:
                continue
            if k in state:
                if k == root and len(stack) == 1:
                    continue
                raise fail(CYCLE, f"class {_name(g, k)} depends on itself", stage="extract")
            if k not in choice:
                raise fail(OPEN, f"class {_name(g, k)} is used and has no choice", stage="extract")
            state[k] = False
            alt = g.classes[k][choice[k]]
            costs.append(alt.cost)
            stack.append((k, iter(alt.kids)))
    if ties:
        for group in g.tied:
            if len({choice[c] for c in group if c in state}) > 1:
                raise fail(TIE, f"classes {', '.join(_name(g, c) for c in group)} stand for one and differ", stage="extract")
    total = fsum(costs)
    assert isfinite(total), "costs of a plain e-graph are finite"
    return total


def _name(g: Plain, c: int) -> str:
    return g.names[c] if 0 <= c < len(g.names) else str(c)
