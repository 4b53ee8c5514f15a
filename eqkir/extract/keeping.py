"""Candidates that keep values between passes. What keeping a value costs depends on whether it is made anyway, in a loop before; of that
the additive weights of one alternative know nothing, so it is tried on whole selections, whose exact costs are then compared."""

from __future__ import annotations

from collections.abc import Sequence

from eqkir.extract.extractors import Candidate
from eqkir.extract.graph import FrozenGraph, Selection
from eqkir.extract.problem import Problem


def keeping(p: Problem, candidates: Sequence[Candidate], structures: int, variants: int) -> list[Candidate]:
    """The first so many structures, under all rows that picked them, with values kept that the selection makes in an earlier loop: each
    alone (so many at most), and all."""
    g = p.graph
    kept = [(c, j, n.kids[0]) for c, ns in enumerate(g.classes) for j, n in enumerate(ns) if n.op == "FKept"]
    if not kept:
        return []
    taken = list(dict.fromkeys(c.key for c in candidates))[:structures]
    out: list[Candidate] = []
    for c in candidates:
        if c.key not in taken:
            continue
        may = [(k, j) for k, j, source in kept if k in c.selection and source in c.selection and j in p.legal(k, c.row)]
        for new in (*({k: j} for k, j in may[:variants]), *([dict(may)] if len(may) > 1 else [])):
            s = reachable(g, {**c.selection, **new})
            out.append(Candidate(s, c.row, p.cost(s, c.row)))
    return out


def reachable(g: FrozenGraph, chosen: Selection) -> Selection:
    """The part of a closed choice that the root needs."""
    out: Selection = {}
    todo = [g.root]
    while todo:
        c = todo.pop()
        if c not in out:
            out[c] = chosen[c]
            todo += g.classes[c][chosen[c]].kids
    return dict(sorted(out.items()))
