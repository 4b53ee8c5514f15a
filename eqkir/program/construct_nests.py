"""No axis is traversed inside a loop over itself: structured operations that would be get another axis.

A structured operation stands in the innermost enclosing loop whose axis its result depends on. ``x·Σ_n x + max_m x`` stored over (m, n)
reduces over m inside the loop over m, because the maximum depends on n, which is traversed inside m: the maximum is renamed to an
axis m' of the same extent. (Where m is not bound otherwise, it may then become an instance axis.)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from eqkir.analysis.coords import normal
from eqkir.base.diagnostics import fail
from eqkir.base.expr import Coord, Expr, coords, substitute
from eqkir.program.abstract import BOUND, Abstract, VNode, bound_axis
from eqkir.program.construct_values import NODES, STAGE, STEP_LIMIT, Values

#: loops around a place, outermost first; axes of one tier may stand in any order
Tiers = tuple[frozenset[str], ...]


def tiers(ixs: Sequence[Expr], own: Iterable[str]) -> Tiers:
    """Loops of a store: the axes inside an instance, in the order in which its index map names them."""
    seen = set(own)
    out: list[frozenset[str]] = []
    for e in ixs:
        new = coords(e) - seen
        seen |= new
        out += [new] if new else []
    return tuple(out)


def twice(p: Abstract, stores: Iterable[tuple[tuple[int, ...], Tiers]]) -> dict[int, frozenset[str]]:
    """Structured operations that would traverse their axis inside a loop over it -> axes of the loops around them."""
    out: dict[int, frozenset[str]] = {}
    seen: set[tuple[int, Tiers]] = set()
    todo = [(i, path) for roots, path in stores for i in roots]
    while todo:
        i, path = todo.pop()
        free = p.free(i)
        while path and not path[-1] & free:
            path = path[:-1]
        if (i, path) in seen:
            continue
        seen.add((i, path))
        if len(seen) > STEP_LIMIT:
            raise fail(NODES, "too many loops around values", stage=STAGE)
        n = p.nodes[i]
        if n.op not in BOUND:
            todo += [(a, path) for a in n.args]
            continue
        axis = bound_axis(n)
        around = frozenset().union(*path)
        if axis in around:
            out[i] = out.get(i, frozenset()) | around
        inner = (*path, frozenset((axis,)))
        body = n.args[n.attrs[1] : 2 * n.attrs[1]] if n.op == "RedN" else n.args
        todo += [(a, inner if a in body else path) for a in n.args]
    return out


class Renamer:
    """Rebuilds values with other bound axes."""

    def __init__(self, v: Values, conflicts: dict[int, frozenset[str]], stored: frozenset[str]) -> None:
        self.v, self.p, self.conflicts, self.stored = v, v.program, conflicts, stored
        self.done: dict[int, int] = {}

    def node(self, root: int) -> int:
        """The value with every conflicting operation below it renamed."""
        for i in _below(self.p, root, self.done):
            n = self.p.nodes[i]
            new = self.make(n, n.attrs, tuple(self.done[a] for a in n.args), i)
            self.done[i] = self.renamed(new, self.conflicts[i]) if i in self.conflicts else new
        return self.done[root]

    def renamed(self, i: int, around: frozenset[str]) -> int:
        """The operation over the lowest axis of its extent that no store uses, no loop around traverses and nothing captures."""
        n = self.p.nodes[i]
        old = bound_axis(n)
        avoid = set(self.stored | around | frozenset().union(*(self.p.free(a) for a in n.args)))
        for j in _below(self.p, i, ()):
            if self.p.nodes[j].op in BOUND and old in self.p.free(j):
                avoid.add(bound_axis(self.p.nodes[j]))
        new = self.v.axis(self.v.extent_of[old], avoid)
        at = BOUND[n.op]
        memo: dict[int, int] = {}
        args = tuple(self.substitute(a, old, new, memo) for a in n.args)
        return self.make(n, (*n.attrs[:at], new, *n.attrs[at + 1 :]), args, i)

    def substitute(self, root: int, old: str, new: str, memo: dict[int, int]) -> int:
        """The value with the free axis `old` replaced."""
        env = {Coord(old): Coord(new)}
        for i in _below(self.p, root, memo):
            n = self.p.nodes[i]
            attrs = n.attrs
            if old not in self.p.free(i):
                memo[i] = i
                continue
            if n.op == "Index":
                attrs = (normal(substitute(n.attrs[0], env)),)
            elif n.op == "Load":
                attrs = (*n.attrs[:2], tuple(normal(substitute(e, env)) for e in n.attrs[2]))
            memo[i] = self.make(n, attrs, tuple(memo[a] for a in n.args), i)
        return memo[root]

    def make(self, n: VNode, attrs: tuple[object, ...], args: tuple[int, ...], was: int) -> int:
        i = self.v.make(n.op, attrs, args, n.dtype)
        if n.op == "Load" and i != was:
            self.v.load_scopes[i] = self.v.load_scopes.get(i, self.v.load_scopes[was]) & self.v.load_scopes[was]
        if was in self.p.origins:
            self.p.origins.setdefault(i, self.p.origins[was])
        return i


def _below(p: Abstract, root: int, known: Container[int]) -> list[int]:
    """Nodes below that are not known, ascending (children first)."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        i = todo.pop()
        if i not in seen and i not in known:
            seen.add(i)
            todo += p.nodes[i].args
    return sorted(seen)


__all__ = ["Renamer", "tiers", "twice"]
