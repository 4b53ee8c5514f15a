"""From an extraction problem and one of its rows to a plain e-graph, and back.

The body of a segment counts `scale` times, and classes of two bodies count in each. So every class of a body is repeated for every
segment class and every scale of it (its *place*), with its weights multiplied; the alternatives of a segment that multiply alike share
one copy. Costs then simply add up: a choice of the plain graph in which all copies of a class agree costs what the selection costs in the
problem, and every selection is such a choice. Copies are declared `tied`; where an extractor leaves ties alone, its bound is a bound of
the problem and `lift` makes the copies agree.

Illegal alternatives are left out. Where something is infinite (an unbounded scale), the alternative counts as illegal.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from eqkir.base.diagnostics import fail, register
from eqkir.extract.graph import Selection
from eqkir.extract.plain.graph import Alt, Choice, Plain
from eqkir.extract.problem import Problem

NESTED = register(
    "EQK-EXTRACT-NESTED",
    "a segment on a cycle",
    "A class with a segment depends on itself through the segment's body, so a body would stand in two places at once. Programs have no "
    "such segments.",
)

#: where a class stands: None outside segments, else (segment class, scale)
Place = tuple[int, float] | None


@dataclass
class Lowered:
    """`plain` and, for each of its classes, the class of the problem and the index of every alternative there."""

    plain: Plain
    origin: list[int]
    index: list[tuple[int, ...]]

    def lift(self, choice: Choice) -> Selection:
        """The selection that a choice means (ties made equal), reachable part."""
        choice = self.plain.unified(choice)
        out: Selection = {}
        for c in self.plain.reached(choice):
            out.setdefault(self.origin[c], self.index[c][choice[c]])
        return dict(sorted(out.items()))

    def drop(self, selection: Selection) -> Choice:
        """The choice that a selection means, in every copy of its classes; classes that the selection does not have are left out."""
        out: Choice = {}
        for c, o in enumerate(self.origin):
            if o in selection and selection[o] in self.index[c]:
                out[c] = self.index[c].index(selection[o])
        return self.plain.restricted(out)


def lower(p: Problem, row: int) -> Lowered:
    """The plain e-graph of a problem under one row. Raises `EqkirError`, EQK-EXTRACT-NESTED."""
    if bad := sorted(c for c in p.cyclic if any(p.first[c] + j in p.scale for j in range(len(p.graph.classes[c])))):
        raise fail(NESTED, f"class {bad[0]} has a segment and lies on a cycle", stage="extract")
    g, w = p.graph, p.weight[:, row]
    number: dict[tuple[int, Place], int] = {}
    todo: list[tuple[int, Place]] = []

    def ask(c: int, place: Place) -> int:
        key = (c, place)
        if key not in number:
            number[key] = len(number)
            todo.append(key)
        return number[key]

    root = ask(g.root, None)
    classes: list[tuple[Alt, ...]] = []
    origin: list[int] = []
    index: list[tuple[int, ...]] = []
    i = 0
    while i < len(todo):
        c, place = todo[i]
        i += 1
        alts, js = [], []
        for j, n in enumerate(g.classes[c]):
            e = p.first[c] + j
            inner, factor = place, 1.0 if place is None else place[1]
            if place is None and e in p.scale:
                inner = (c, float(p.scale[e][row]))
            cost = float(w[e]) * factor if w[e] < inf else inf
            if c in n.kids or not cost < inf or (inner is not None and not inner[1] < inf):
                continue
            alts.append(Alt(n.op, cost, tuple(ask(k, inner) for k in n.kids)))
            js.append(j)
        classes.append(tuple(alts))
        origin.append(c)
        index.append(tuple(js))
    copies: dict[int, list[int]] = {}
    for d, o in enumerate(origin):
        if len(index[d]) > 1:
            copies.setdefault(o, []).append(d)
    tied = tuple(tuple(ds) for ds in copies.values() if len(ds) > 1)
    names = [str(o) if pl is None else f"{o}@{pl[0]}x{pl[1]:g}" for (o, pl) in todo]
    return Lowered(Plain(classes, (root,), names, tied), origin, index)
