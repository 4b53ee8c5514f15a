"""Greedy extraction for all rows at once.

Classes are decided children first. Per class and row the cheapest alternative wins. ``greedy-dag`` keeps, per row, the set of weighted
classes below each class and counts a class that two operands share once; ``greedy-tree`` adds operands up. A segment closes its body: its
cost is instances times the body's cost, and nothing below it is shared with another segment. In a component of several classes (a cycle
of the e-graph) the choice minimises tree cost, whose least fixpoint with positive weights is acyclic.

Cost: one pass over the e-nodes; numpy works on (shared classes x rows) blocks only where operands can share at all. Classes of equal cost
and equal sets (the same stores in other phases) have one *value*, and what is made of equal values is made once.
"""

from __future__ import annotations

from hashlib import blake2b
from math import inf

import numpy as np
from numpy.typing import NDArray

from eqkir.extract.graph import ENode, Selection
from eqkir.extract.labels import Bools, Floats
from eqkir.extract.problem import Problem

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
#: added to every weight inside a cycle of the e-graph, so that a cycle is never free
EPSILON = 1e-9
#: value of classes without a legal derivation under any row
NEVER = -1


def greedy(p: Problem, share: bool = True) -> NDArray[np.int64]:
    """``picks[c, r]``: the alternative of class c under row r, -1 where c has no legal derivation (or is unreachable)."""
    return _Greedy(p, share).run()


class _Greedy:
    def __init__(self, p: Problem, share: bool) -> None:
        g = p.graph
        self.p, self.share = p, share
        self.nr = p.weight.shape[1]
        self.columns, self.none = np.arange(self.nr), np.zeros(self.nr)
        self.never = np.full(self.nr, inf)
        n = len(g.classes)
        self.best: list[Floats] = [self.never] * n
        self.own: list[Floats] = [np.zeros(self.nr)] * n  # weight of the chosen alternative itself (a segment: all of it)
        self.nothing: Bytes = np.zeros((0, (self.nr + 7) // 8), np.uint8)
        self.sets: list[Bytes] = [self.nothing] * n  # rows of `below[c]`, eight in a byte
        self.below: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * n  # weighted classes that may occur below c, ascending
        self.bits: list[int] = [0] * n  # the same as a bit set
        self.users = np.bincount([k for ks in g.operands for k in ks], minlength=n).tolist()  # that are not decided yet
        self.value = list(range(n))  # of a class: the first class of equal cost and equal set that is known to be one, or `NEVER`
        #: values of several operands -> (value, set) of a class that has nothing but them
        self.made: dict[tuple[int, ...], tuple[int, Ints, Bytes]] = {}
        self.found: dict[tuple[bytes, int, bytes], int] = {}  # what such a value is -> value
        self.unions: dict[tuple[int, ...], Floats] = {}
        self.free = (~p.weight.any(1)).tolist()  # e-nodes without weight under any row
        self.picks = np.full((n, self.nr), -1, np.int64)
        weighted = [e for e, free in enumerate(self.free) if not free or e in p.scale]
        owner = np.repeat(np.arange(n), [len(ns) for ns in g.classes])
        #: classes that can have a weight: bit i of a set is class heavy[i]
        self.heavy = np.array(sorted({*owner[weighted].tolist(), *p.cyclic}), np.int64)
        self.bit = {c: 1 << i for i, c in enumerate(self.heavy.tolist())}

    def run(self) -> NDArray[np.int64]:
        with np.errstate(invalid="ignore"):
            for comp in self.p.components:
                if len(comp) > 1:
                    self._cycle(comp)
                else:
                    self._decide(comp[0])
                    self._forget(comp[0])
        return self.picks

    def _forget(self, c: int) -> None:
        """Sets that nobody will ask for again, now that `c` is decided."""
        for k in self.p.graph.operands[c]:
            self.users[k] -= 1
            if not self.users[k]:
                self.sets[k] = self.nothing

    # ------------------------------------------------------------------------------------------------ one class
    def _usable(self, c: int) -> list[tuple[int, ENode]]:
        return [(j, n) for j, n in enumerate(self.p.graph.classes[c]) if c not in n.kids]

    def _decide(self, c: int) -> None:
        alts = self._usable(c)
        if len(alts) < 2:
            if not alts or NEVER in (key := tuple([self.value[k] for k in dict.fromkeys(alts[0][1].kids)])):
                self.value[c] = NEVER
            else:
                self._only(c, *alts[0], key)
            return
        first = self.p.first[c]
        totals = self._totals(first, alts)
        i_best = totals.argmin(0)
        best = totals[i_best, self.columns]
        feasible = best < inf
        if not feasible.any():
            self.value[c] = NEVER
            return
        js = np.array([j for j, _ in alts])
        self.best[c] = best
        self.picks[c] = np.where(feasible, js[i_best], -1)
        own = np.zeros(self.nr)
        segment = False
        used = np.unique(i_best[feasible])
        for i in used:
            j, n = alts[i]
            e = first + j
            segment = segment or e in self.p.scale
            own = np.where(i_best == i, totals[i] if e in self.p.scale else self.p.weight[e], own)
        self.own[c] = np.where(feasible, own, 0.0)
        if self.share:
            self._keep_set(c, [alts[i][1] for i in used], used, i_best, feasible, segment)

    def _only(self, c: int, j: int, n: ENode, key: tuple[int, ...]) -> None:
        """`_decide` where there is nothing to choose; `key`: values of the operands."""
        e = self.p.first[c] + j
        segment = e in self.p.scale
        free = bool(key) and self.free[e] and not segment
        if free and len(key) == 1:
            k = n.kids[0]
            self._again(c, j, key[0], self.below[k], self.sets[k])
            return
        if free and key in self.made:
            self._again(c, j, *self.made[key])
            return
        body = self._union_cost(tuple(dict.fromkeys(n.kids)))
        best = self.p.weight[e] + (self.p.scale[e] * body if segment else body)
        feasible = best < inf
        if not feasible.any():
            self.value[c] = NEVER
            return
        self.best[c] = best
        self.picks[c] = np.where(feasible, j, -1)
        self.own[c] = np.where(feasible, best if segment else self.p.weight[e], 0.0)
        if self.share:
            self._keep_set(c, [n], self.columns[:1], self.columns, feasible, segment)
        if free:
            mark = blake2b(self.sets[c].tobytes(), digest_size=20).digest()
            self.value[c] = self.found.setdefault((best.tobytes(), self.bits[c], mark), c)
            self.made[key] = self.value[c], self.below[c], self.sets[c]

    def _again(self, c: int, j: int, value: int, below: Ints, chosen: Bytes) -> None:
        """A class that adds nothing to operands of which `value` was made."""
        self.value[c], self.best[c], self.own[c], self.bits[c] = value, self.best[value], self.none, self.bits[value]
        self.below[c], self.sets[c] = below, chosen
        self.picks[c] = np.where(self.picks[value] >= 0, j, -1)

    def _totals(self, first: int, alts: list[tuple[int, ENode]]) -> Floats:
        """Costs of alternatives of one class, by rows."""
        at = [first + j for j, _ in alts]
        bodies = np.array([self._union_cost(tuple(dict.fromkeys(n.kids))) for _, n in alts])
        for i, e in enumerate(at):
            if e in self.p.scale:
                bodies[i] *= self.p.scale[e]
        out: Floats = self.p.weight[at] + bodies
        return out

    def _union_cost(self, kids: tuple[int, ...]) -> Floats:
        """Cost of the union of the operands' sets; 0 of none."""
        if len(kids) < 2:
            return self.best[kids[0]] if kids else self.none
        key = tuple([self.value[k] for k in kids])
        if key not in self.unions:
            self.unions[key] = self.never if NEVER in key else self._union(kids)
        return self.unions[key]

    def _union(self, kids: tuple[int, ...]) -> Floats:
        total = self.best[kids[0]]
        for k in kids[1:]:
            total = total + self.best[k]
        if not self.share:
            return total
        seen = self.bits[kids[0]]
        clash = 0
        for k in kids[1:]:
            clash |= seen & self.bits[k]
            seen |= self.bits[k]
        if not clash:
            return total
        common = self.heavy[_members(clash)]
        count = np.zeros((len(common), self.nr), np.int8)
        for k in kids:
            if self.bits[k] & clash:
                at = np.searchsorted(self.below[k], common)
                at[at == len(self.below[k])] = 0
                hit = self.below[k][at] == common
                there = self._rows(self.sets[k][at])
                count += there if hit.all() else there & hit[:, None]
        own = np.array([self.own[d] for d in common])
        extra = (np.maximum(count - 1, 0) * own).sum(0)
        return np.where(total < inf, total - extra, inf)

    def _keep_set(
        self, c: int, nodes: list[ENode], used: NDArray[np.int64], i_best: NDArray[np.int64], feasible: Bools, segment: bool
    ) -> None:
        if segment or all(not n.kids for n in nodes):
            bits = 0
        else:
            bits = 0
            for n in nodes:
                for k in n.kids:
                    bits |= self.bits[k]
        self_in = bool(self.own[c].any())
        plain = not segment and not self_in and len(nodes) == 1 and len(set(nodes[0].kids)) == 1
        if plain:  # no weight of its own: the operand's set is its set
            k = nodes[0].kids[0]
            self.bits[c], self.below[c], self.sets[c] = self.bits[k], self.below[k], self.sets[k]
            return
        if self_in:
            bits |= self.bit[c]
        self.bits[c] = bits
        self.below[c] = below = self.heavy[_members(bits)]
        s = np.zeros((len(below), self.nothing.shape[1]), np.uint8)
        if not segment:
            for i, n in zip(used, nodes, strict=True):
                rows = None if len(nodes) == 1 else np.packbits(i_best == i)
                for k in dict.fromkeys(n.kids):
                    if not self.bits[k]:
                        continue
                    at = np.searchsorted(below, self.below[k])
                    s[at] |= self.sets[k] if rows is None else self.sets[k] & rows
        if self_in:
            s[np.searchsorted(below, c)] = np.packbits(feasible)
        self.sets[c] = s

    def _rows(self, packed: Bytes) -> Bytes:
        """Eight rows in a byte as one in each."""
        return np.unpackbits(packed, axis=1, count=self.nr)

    # ------------------------------------------------------------------------------------------------ cycles
    def _cycle(self, comp: list[int]) -> None:
        """Least fixpoint of tree costs inside one component; operands outside count with their own best cost."""
        inside = set(comp)
        value = {c: np.full(self.nr, inf) for c in comp}
        picks = {c: np.full(self.nr, -1, np.int64) for c in comp}
        alts = {c: [(j, n, self.p.weight[self.p.first[c] + j] + EPSILON) for j, n in self._usable(c)] for c in comp}
        changed = True
        while changed:
            changed = False
            for c in comp:
                for j, n, w in alts[c]:
                    total = w
                    for k in dict.fromkeys(n.kids):
                        total = total + (value[k] if k in inside else self.best[k])
                    better = total < value[c]
                    if better.any():
                        value[c] = np.where(better, total, value[c])
                        picks[c] = np.where(better, j, picks[c])
                        changed = True
        for c in comp:
            self.picks[c] = picks[c]
        self._cycle_sets(comp, picks)

    def _cycle_sets(self, comp: list[int], picks: dict[int, NDArray[np.int64]]) -> None:
        """Sets and costs of the chosen (acyclic) alternatives, by iteration to the fixpoint."""
        bits = 0
        for c in comp:
            bits |= self.bit[c]
            for n in self.p.graph.classes[c]:
                for k in n.kids:
                    bits |= self.bits[k]
        below = self.heavy[_members(bits)]
        for c in comp:
            feasible = picks[c] >= 0
            w = np.zeros(self.nr)
            for j in np.unique(picks[c][feasible]):
                w = np.where(picks[c] == j, self.p.weight[self.p.first[c] + j], w)
            self.own[c] = w
            self.bits[c], self.below[c] = bits, below
            self.sets[c] = np.zeros((len(below), self.nothing.shape[1]), np.uint8)
            self.sets[c][np.searchsorted(below, c)] = np.packbits(feasible)
        changed = True
        while changed:
            changed = False
            for c in comp:
                s = self.sets[c].copy()
                for j in np.unique(picks[c][picks[c] >= 0]):
                    rows = np.packbits(picks[c] == j)
                    for k in dict.fromkeys(self.p.graph.classes[c][j].kids):
                        s[np.searchsorted(below, self.below[k])] |= self.sets[k] & rows
                if (s != self.sets[c]).any():
                    self.sets[c] = s
                    changed = True
        own = np.array([self.own[d] for d in below])
        for c in comp:
            self.best[c] = np.where(picks[c] >= 0, (self._rows(self.sets[c]) * own).sum(0), inf)


def _members(bits: int) -> NDArray[np.int64]:
    """The set bits, ascending."""
    n = (bits.bit_length() + 7) // 8
    return (
        np.flatnonzero(np.unpackbits(np.frombuffer(bits.to_bytes(n, "little"), np.uint8), bitorder="little"))
        if bits
        else np.zeros(0, np.int64)
    )


def selection(p: Problem, picks: NDArray[np.int64], row: int) -> Selection | None:
    """The reachable part of one row's picks, None where the root has no legal derivation."""
    col = picks[:, row].tolist()
    if col[p.graph.root] < 0:
        return None
    out: Selection = {}
    todo = [p.graph.root]
    while todo:
        c = todo.pop()
        if c not in out:
            out[c] = col[c]
            todo += p.graph.classes[c][col[c]].kids
    return dict(sorted(out.items()))
