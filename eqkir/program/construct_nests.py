"""Loops around values: no axis is traversed inside a loop over itself, and scans stand in the innermost loop over their axis.

A structured operation stands in the innermost enclosing loop whose axis its result depends on. ``x·Σ_n x + max_m x`` stored over (m, n)
reduces over m inside the loop over m, because the maximum depends on n, which is traversed inside m: the maximum is renamed to an
axis m' of the same extent. (Where m is not bound otherwise, it may then become an instance axis.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from eqkir.analysis.coords import normal
from eqkir.base.diagnostics import fail
from eqkir.base.expr import Coord, Expr, substitute
from eqkir.program.abi import is_member, member_axis, members_of
from eqkir.program.abstract import BOUND, Abstract, VNode, axes_in, bound_axis
from eqkir.program.construct_codes import NODES, STAGE, STEP_LIMIT
from eqkir.program.construct_states import below, copied
from eqkir.program.construct_values import Values
from eqkir.program.lower import SCANS, scan_axis

#: loops around a place, outermost first; axes of one tier may stand in any order
Tiers = tuple[frozenset[str], ...]


def scanned(p: Abstract, roots: Sequence[int]) -> frozenset[str]:
    """Axes along which values below are scanned."""
    found = {scan_axis(p.nodes[i]) for i in below(p, roots) if p.nodes[i].op in SCANS}
    return frozenset(a for a in found if not is_member(a))  # a scan along a slice stays inside it


def tiers(ixs: Sequence[Expr], own: Iterable[str], last: frozenset[str] = frozenset()) -> Tiers:
    """Loops of a store: the axes inside an instance, in the order in which its index map names them, those in `last` at the end."""
    seen = {*own, *last}
    out: list[frozenset[str]] = []
    for e in ixs:
        new = frozenset(a for a in axes_in(e) if not is_member(a)) - seen
        seen |= new
        out += [new] if new else []
    named = dict.fromkeys(a for e in ixs for a in sorted(axes_in(e)) if a in last)
    return (*out, *(frozenset((a,)) for a in named))


def operands(p: Abstract, i: int, path: Tiers) -> Iterator[tuple[int, Tiers]]:
    """The operands of a node at this place, with their places."""
    n = p.nodes[i]
    loops = ("Fold", "While", "State", "WState")
    c = n.attrs[1] if n.op in ("RedN", "ScanN") else n.attrs[2] if n.op in loops else 0
    inner = path
    if n.op in BOUND and not is_member(bound_axis(n)):
        inner = (*path, frozenset((bound_axis(n),)))
    for k, a in enumerate(n.args):
        match n.op:
            case "RedN":
                yield a, inner if c <= k < 2 * c else path
            case "Fold" | "While":
                yield a, inner if k >= c else path
            case "State" | "WState" | "ScanN":
                yield a, path if c <= k < 2 * c or (n.op == "WState" and k == 2 * c) else path[:-1]
            case "ConAcc":
                yield a, inner if k < 2 else path
            case _:
                yield a, inner


def places(p: Abstract, stores: Iterable[tuple[tuple[int, ...], Tiers]]) -> Iterator[tuple[int, Tiers]]:
    """Every node with the loops around it that it depends on, truncated at the innermost."""
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
        yield i, path
        todo += operands(p, i, path)


def twice(p: Abstract, stores: Iterable[tuple[tuple[int, ...], Tiers]]) -> dict[int, frozenset[str]]:
    """Structured operations that would traverse their axis inside a loop over it -> axes of the loops around them."""
    out: dict[int, frozenset[str]] = {}
    for i, path in places(p, stores):
        if p.nodes[i].op in BOUND:
            around = frozenset().union(*path)
            if bound_axis(p.nodes[i]) in around:
                out[i] = out.get(i, frozenset()) | around
    return out


def misplaced(p: Abstract, stores: Iterable[tuple[tuple[int, ...], Tiers]]) -> list[int]:
    """Scans and states that do not stand in the innermost loop over their axis; of generic scans, the components."""
    out: dict[int, None] = {}
    for i, path in places(p, stores):
        n = p.nodes[i]
        source = p.nodes[n.args[0]] if n.op == "Pick" else n
        inside = source.op in SCANS and is_member(scan_axis(source))
        if source.op in SCANS and not inside and n.op != "ScanN" and (not path or path[-1] != {scan_axis(source)}):
            out[i] = None
    return sorted(out)


class Renamer:
    """Rebuilds values with other bound axes."""

    def __init__(self, v: Values, conflicts: dict[int, frozenset[str]], stored: frozenset[str]) -> None:
        self.v, self.p, self.conflicts, self.stored = v, v.program, conflicts, stored
        self.done: dict[int, int] = {}

    def node(self, root: int) -> int:
        """The value with every conflicting operation below it renamed."""
        for i in below(self.p, root):
            if i in self.done:
                continue
            n = self.p.nodes[i]
            new = copied(self.v, n, n.attrs, tuple(self.done[a] for a in n.args), i)
            self.done[i] = self.renamed(new, self.conflicts[i]) if i in self.conflicts else new
        return self.done[root]

    def renamed(self, i: int, around: frozenset[str]) -> int:
        """The operation over the lowest axis of its extent that no store uses, no loop around traverses and nothing captures."""
        n = self.p.nodes[i]
        old = bound_axis(n)
        avoid = set(self.stored | around | frozenset().union(*(self.p.free(a) for a in n.args)))
        for j in below(self.p, i):
            if self.p.nodes[j].op in BOUND and old in self.p.free(j):
                avoid.add(bound_axis(self.p.nodes[j]))
        if self.v.kind_of[old] == "seg":
            new, _ = self.v.slices(self.v.pool_of[old], avoid)
        else:
            new = self.v.axis(self.v.pool_of[old], avoid, self.v.kind_of[old])
        at = BOUND[n.op]
        attrs = (*n.attrs[:at], new, *n.attrs[at + 1 :])
        memo, names = self.substitute(n.args, old, new, (n.attrs[1],) if n.op in ("Fold", "While") else ())
        if n.op in ("Fold", "While"):
            attrs = (new, names[n.attrs[1]], n.attrs[2])
        return copied(self.v, n, attrs, tuple(memo[a] for a in n.args), i)

    def substitute(self, roots: Sequence[int], old: str, new: str, loops: Sequence[str]) -> tuple[dict[int, int], dict[str, str]]:
        """Copies of the nodes below with the free axis `old` replaced; loops whose states change get names of their own."""
        nodes = below(self.p, roots)
        loopy = ("Fold", "While", "State", "WState")
        changing = [n.attrs[1] for i in nodes if (n := self.p.nodes[i]).op in loopy and old in self.p.free(i)]
        names = {y: f"{y}:{old}>{new}" for y in (*loops, *changing)}
        to = {old: new}
        for k, a in enumerate(members_of(old, tuple(self.v.kind_of))):
            to[a] = self.v.members(new, [member_axis(new, j) for j in range(k)])
        env: dict[Expr, Expr] = {Coord(a): Coord(b) for a, b in to.items()}
        memo: dict[int, int] = {}
        for i in nodes:
            n = self.p.nodes[i]
            args = tuple(memo[a] for a in n.args)
            attrs = renamed(n, lambda e: normal(substitute(e, env)), lambda a: to.get(a, a), lambda y: names.get(y, y))
            if n.op in BOUND and bound_axis(n) == old:  # a binder of its own
                attrs, args = n.attrs, n.args
            memo[i] = i if (attrs, args) == (n.attrs, n.args) else copied(self.v, n, attrs, args, i)
        return memo, names


def renamed(n: VNode, expr: Any, axis: Any, loop: Any, view: Any = lambda name: name) -> tuple[Any, ...]:
    """The attributes of a node under other names of axes, loops and views."""
    match n.op:
        case "Index":
            return (expr(n.attrs[0]),)
        case "Load":
            return (view(n.attrs[0]), n.attrs[1], tuple(map(expr, n.attrs[2])))
        case "Scan":
            return (n.attrs[0], axis(n.attrs[1]))
        case "ScanN":
            return (axis(n.attrs[0]), n.attrs[1])
        case "State" | "WState":
            return (axis(n.attrs[0]), loop(n.attrs[1]), *n.attrs[2:])
        case "Form":
            return (loop(n.attrs[0]), n.attrs[1], tuple(sorted(map(axis, n.attrs[2]))))
        case "Fold" | "While":
            return (axis(n.attrs[0]), loop(n.attrs[1]), n.attrs[2])
    if n.op in BOUND:
        at = BOUND[n.op]
        return (*n.attrs[:at], axis(n.attrs[at]), *n.attrs[at + 1 :])
    return n.attrs


__all__ = ["Renamer", "Tiers", "misplaced", "renamed", "scanned", "tiers", "twice"]
