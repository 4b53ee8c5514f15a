"""Roles of axes, computed from the index-notation program: what row templates select on. No role names a kernel or an operation of the
source.

==============  ==============================================================================================
own, loop, seg  the axis' kind; a seg axis has the roles of its members besides
contiguous      of the axes of one execution group, the last coordinate of most accesses, weighted by bytes
contracted      bound by a contraction
matrix          contracted, where both operands have a free axis that the other lacks (else ``vector``)
left, right     free in the first / second operand only of some contraction
batch           free in both operands of a contraction
reduced         bound by a reduction
folded          reduced, or contracted and ``vector``
adjacent        of one execution group, the last coordinate but one of most accesses, weighted by bytes
minor           the last coordinate of some access
packed          owned by instances, where a loop around a store finds its members and what is computed there counts for these alone
searched        of groups that find their members among rows that instances own: their loop may be searched for those that a block meets
dotted          bound by a sum of products of i32
keyed           owned by instances: a sum takes in what is not zero in one member of it alone, which a value names (a histogram's bins)
counted         counts members from where a group starts
sparse          owned by instances: the groups whose members are counted
short, narrow   known extent of at most 32, at most 256
==============  ==============================================================================================
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from eqkir.base.dtypes import itemsize
from eqkir.base.expr import Expr, coords
from eqkir.extract.extents import Extents
from eqkir.program.abi import is_member, slice_axis
from eqkir.program.abstract import BOUND, Abstract, Put, VNode, bound_axis

#: largest extents of the roles ``short`` and ``narrow``
SHORT, NARROW = 32, 256


def axis_roles(abstract: Abstract, extents: Extents) -> dict[str, frozenset[str]]:
    """Roles of every axis. Extents that are not known count with their default (`Extents.estimate`) in the byte weights."""
    roles: dict[str, set[str]] = {a.name: {a.kind} for a in abstract.axes}
    for n in abstract.nodes:
        if n.op not in BOUND:
            continue
        axis = bound_axis(n)
        if n.op in ("Red", "RedN"):
            roles[axis] |= {"reduced", "folded"}
            factor = abstract.nodes[n.args[0]]
            if n.op == "Red" and n.attrs[0] == "sum" and factor.op == "Bin" and factor.attrs[0] == "mul" and factor.dtype == "i32":
                roles[axis].add("dotted")
            for x in sorted(_keyed(abstract, n)):
                roles[x].add("keyed")
            continue
        a, b = abstract.free(n.args[0]), abstract.free(n.args[1])
        roles[axis] |= {"contracted", "matrix"} if a - b - {axis} and b - a - {axis} else {"contracted", "vector", "folded"}
        for name, free in (("left", a - b), ("right", b - a), ("batch", (a & b) - {axis})):
            for x in sorted(free - {axis}):
                roles[x].add(name)
    for group in abstract.groups:
        puts = [p for phase in group.phases for p in phase]
        nodes = [abstract.nodes[i] for i in _below(abstract, puts)]
        accesses = [(p.view, p.ixs) for p in puts] + [(n.attrs[0], n.attrs[2]) for n in nodes if n.op == "Load"]
        last, before = _weights(abstract, accesses, -1, extents), _weights(abstract, accesses, -2, extents)
        for x in last:
            roles[x].add("minor")
        contiguous = _heaviest(last)
        if contiguous is not None:
            roles[contiguous].add("contiguous")
            before.pop(contiguous, None)
        adjacent = _heaviest(before)
        if adjacent is not None:
            roles[adjacent].add("adjacent")
    for _, _, on in (abstract.ranges.bounds if abstract.ranges else {}).values():
        for x in sorted(abstract.free(on)) if on >= 0 else ():
            if abstract.axis(x).kind == "own":
                roles[x].add("packed")
    for _, same, counts in abstract.ranges.counted if abstract.ranges else ():
        roles[counts].add("counted")
        for owner in sorted(abstract.free(same)):
            if abstract.axis(owner).kind == "own":
                roles[owner].add("sparse")
    for x, confined in (abstract.ranges.met if abstract.ranges else {}).items():
        roles[x].add("searched")
        for m in confined:
            roles[m.row].add("packed")
    for seg, members in ((slice_axis(x), x) for x in sorted(roles) if is_member(x)):
        if seg in roles:  # a slice's parameters are those of its members
            roles[seg] |= roles[members] - {"mem"}
    for ax in abstract.axes:
        bound = extents.bound(ax.extent)
        if bound is not None and bound <= SHORT:
            roles[ax.name].add("short")
        if bound is not None and bound <= NARROW:
            roles[ax.name].add("narrow")
    return {a: frozenset(r) for a, r in roles.items()}


def _keyed(abstract: Abstract, n: VNode) -> set[str]:
    """Axes that instances own, with whose coordinate a sum's operand compares what it counts: ``select(eq(key, coordinate) and …, …)``."""
    nodes, out = abstract.nodes, set[str]()
    if n.op != "Red" or n.attrs[0] != "sum" or nodes[n.args[0]].op != "Tri":
        return out
    todo = [nodes[n.args[0]].args[0]]
    while todo:
        c = nodes[todo.pop()]
        if c.op == "Bin" and c.attrs[0] == "and":
            todo += c.args
        elif c.op == "Bin" and c.attrs[0] == "eq":
            found = {str(e.args[0]) for a in c.args if nodes[a].op == "Index" and (e := nodes[a].attrs[0]).op == "coord"}
            out |= {x for x in found if abstract.axis(x).kind == "own"}
    return out


def _weights(abstract: Abstract, accesses: list[tuple[str, tuple[Expr, ...]]], k: int, extents: Extents) -> dict[str, float]:
    """Bytes of the accesses by the axes in their `k`-th coordinate."""
    known = {a.name for a in abstract.axes}
    out: dict[str, float] = defaultdict(float)
    for view, ixs in accesses:
        if len(ixs) < -k:
            continue
        n = float(itemsize(abstract.abi.view(view).dtype))
        for a in sorted(frozenset().union(*(coords(e) for e in ixs)) & known):
            n *= extents.estimate(abstract.axis(a).extent)
        for a in sorted(coords(ixs[k]) & known):
            out[a] += n
    return dict(out)


def _heaviest(weights: dict[str, float]) -> str | None:
    """The axis with most bytes; the first by name among equals."""
    return min(weights, key=lambda a: (-weights[a], a)) if weights else None


def _below(abstract: Abstract, puts: Iterable[Put]) -> list[int]:
    """Nodes that the puts use, ascending."""
    seen: set[int] = set()
    todo = [i for p in puts for i in (p.value, p.valid, *p.deps)]
    while todo:
        i = todo.pop()
        if i not in seen:
            seen.add(i)
            todo += abstract.nodes[i].args
    return sorted(seen)
