"""An extraction problem: a frozen graph, weights of every e-node under every row, and the order in which classes can be decided.

The cost of a selection under row r is additive over *distinct* chosen classes (shared classes count once), except that the body of a
segment is multiplied by its instances::

    total = sum over classes outside segments of weight
          + sum over segments of (weight + scale * sum over distinct classes of its body of weight)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from eqkir.extract.components import components
from eqkir.extract.graph import FrozenGraph, Selection
from eqkir.extract.labels import Bools, Floats
from eqkir.extract.rows import Row


@dataclass
class Problem:
    """`weight[e, r]` is inf where e-node e is illegal under row r; `scale[e]` only for segments (array over rows)."""

    graph: FrozenGraph
    rows: Sequence[Row]
    weight: Floats
    scale: dict[int, Floats] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # `Legality.notes`
    refused: list[Mapping[str, Bools]] = field(default_factory=list, repr=False)  # `Legality.refused`
    _ranks: dict[int, dict[int, int]] = field(default_factory=dict, repr=False)
    _legal: dict[int, dict[int, list[int]]] = field(default_factory=dict, repr=False)

    @cached_property
    def first(self) -> list[int]:
        """Number of the first e-node of every class."""
        out, e = [], 0
        for ns in self.graph.classes:
            out.append(e)
            e += len(ns)
        return out

    @cached_property
    def components(self) -> list[list[int]]:
        """Strongly connected components of the classes reachable from the root, children first; classes ascend in each."""
        return components(dict(enumerate(self.graph.operands)), [self.graph.root])

    @cached_property
    def cyclic(self) -> frozenset[int]:
        """Classes in components of several classes (a class that contains itself directly only loses that alternative)."""
        return frozenset(c for comp in self.components if len(comp) > 1 for c in comp)

    def cost(self, selection: Selection, row: int) -> float:
        """The total of a selection under a row, by the formula above; inf where something is illegal."""
        g, w = self.graph, self.weight
        total, seen, todo = 0.0, {g.root}, [g.root]
        while todo:
            c = todo.pop()
            n = g.classes[c][selection[c]]
            e = self.first[c] + selection[c]
            total += float(w[e, row])
            if e in self.scale:
                inner, stack = set(n.kids), list(dict.fromkeys(n.kids))
                body = 0.0
                while stack:
                    d = stack.pop()
                    body += float(w[self.first[d] + selection[d], row])
                    for k in g.classes[d][selection[d]].kids:
                        if k not in inner:
                            inner.add(k)
                            stack.append(k)
                total += float(self.scale[e][row]) * body
                continue
            for k in n.kids:
                if k not in seen:
                    seen.add(k)
                    todo.append(k)
        return total

    def legal(self, c: int, row: int) -> list[int]:
        """The alternatives of class `c` that are legal under `row`, do not contain the class itself, and have operands with derivations."""
        known = self._legal.setdefault(row, {})
        if c not in known:
            ranks, first = self.ranks(row), self.first[c]
            finite = (self.weight[first : first + len(self.graph.classes[c]), row] < inf).tolist()
            known[c] = [j for j, n in enumerate(self.graph.classes[c]) if finite[j] and c not in n.kids and all(k in ranks for k in n.kids)]
        return known[c]

    def ranks(self, row: int) -> dict[int, int]:
        """Well-founded height of every class that has a finite legal derivation under `row`; alternatives of least height give an acyclic
        choice."""
        if row in self._ranks:
            return self._ranks[row]
        g = self.graph
        finite = (self.weight[:, row] < inf).tolist()
        rank: dict[int, int] = {}
        for comp in self.components:
            changed = True
            while changed:  # once, but for cycles
                changed = False
                for c in comp:
                    first, least = self.first[c], rank.get(c, -1)
                    for j, n in enumerate(g.classes[c]):
                        if not finite[first + j]:
                            continue
                        height = 0
                        for k in n.kids:
                            if k not in rank or k == c:
                                break
                            height = max(height, rank[k] + 1)
                        else:
                            if least < 0 or height < least:
                                least = height
                    if least >= 0 and rank.get(c) != least:
                        rank[c] = least
                        changed = len(comp) > 1
        self._ranks[row] = rank
        return rank
