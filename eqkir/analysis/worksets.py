"""Worksets and execution groups: which stores form a group, which axes are its instances, and in which phases its stores run.

The rules (a conflict is a pair of accesses of one alias class, one of them a store, not provably disjoint):

1. Stores that share a computed producer, or that conflict with each other or with what the other reads, form one group.
2. Instance axes of a group are free in every index map of its stores, bound by none of its structured operations, and separate every
   conflict: two instances never touch the same element. Axes of points of one `parallel` separate the accesses made in it to one view,
   because conflicting effects of different points are illegal there. Nothing separates different views that may alias (one instance),
   but for atomic operations of one kind whose order nobody sees.
3. Inside an instance, stores run in phases (`eqkir.analysis.phases`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqkir.analysis.coords import Facts, determined, disjoint
from eqkir.base.expr import Expr, coords

Scope = frozenset[tuple[str, str]]  # (parallel point, its axis)


@dataclass(frozen=True)
class Read:
    """A load below a store. `spans`: for each way to it, the free axes of what is computed before it is used: of the load itself, or of
    the outermost structured operation around it; `inner` tells which."""

    node: int
    view: str
    alias: int
    version: int
    ixs: tuple[Expr, ...]
    free: frozenset[str]
    direct: bool  # reached without a structured operation around it
    spans: frozenset[frozenset[str]]  # free axes of the outermost structured operations around it
    opaque: bool = False  # has data-dependent coordinates
    scope: Scope = frozenset()
    inner: tuple[str, ...] = ()  # axes of the ordered loops inside which its version lives
    late: bool = False  # read at the end of a step, by the next states of an ordered loop
    under: tuple[int, ...] = ()  # loads that its coordinates or its validity depend on


@dataclass(frozen=True)
class Write:
    """A store. `axes`: its whole iteration space, outermost first; `mapped`: those its index map (data operands included) depends on."""

    view: str
    alias: int
    version: int
    ixs: tuple[Expr, ...]
    axes: tuple[str, ...]
    mapped: frozenset[str]
    bound: frozenset[str]
    producers: frozenset[int]
    reads: tuple[Read, ...] = ()
    opaque: bool = False
    scope: Scope = frozenset()
    atomic: bool = False  # its own points may meet
    order: str = ""  # memory order of an atomic operation
    effect: bool = True  # of the kernel; otherwise it fills a workspace
    also: tuple[Write, ...] = ()  # what it writes besides: the workspace of old values
    inner: tuple[str, ...] = ()  # axes of the ordered loops around it
    combines: str = ""  # mode of an atomic operation whose order among others of its kind nobody sees

    def nest(self, own: Sequence[str]) -> tuple[str, ...]:
        """Axes traversed inside an instance."""
        return tuple(a for a in self.axes if a not in own)


def parts(a: Read | Write) -> tuple[Read | Write, ...]:
    """All that an access touches."""
    return (a, *a.also) if isinstance(a, Write) else (a,)


def conflict(a: Read | Write, b: Write, facts: Facts) -> bool:
    """Whether the two may touch one element."""
    return any(_meet(x, y, facts) for x in parts(a) for y in parts(b))


def _meet(a: Read | Write, b: Read | Write, facts: Facts) -> bool:
    if a.alias != b.alias:
        return False
    return a.view != b.view or a.opaque or b.opaque or not disjoint(a.ixs, b.ixs, facts)


def ordered(a: Write, b: Write) -> bool:
    """Whether `b`, after `a` in program order, may not come first: different operations of one point of a `parallel`, where a release
    comes after what is before it, and an acquire before what is after it."""
    fenced = a.order in ("acquire", "acq_rel") or b.order in ("release", "acq_rel")
    return fenced and a.effect and b.effect and bool(a.scope & b.scope)


# ------------------------------------------------------------------------------------------------ groups
def groups(writes: Sequence[Write], facts: Facts) -> list[tuple[int, ...]]:
    """Indices of the stores of each group, in program order."""
    root = list(range(len(writes)))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    producer: dict[int, int] = {}
    classes: dict[int, list[int]] = {}
    for i, w in enumerate(writes):
        for p in sorted(w.producers):
            j = producer.setdefault(p, i)
            root[find(i)] = find(j)
        for alias in sorted({*(x.alias for x in parts(w)), *(r.alias for r in w.reads)}):
            classes.setdefault(alias, []).append(i)
        for j in range(i):
            if ordered(writes[j], w):
                root[find(i)] = find(j)
    for members in classes.values():
        for n, i in enumerate(members):
            for j in members[:n]:
                if find(i) != find(j) and _related(writes[i], writes[j], facts):
                    root[find(i)] = find(j)
    out: dict[int, list[int]] = {}
    for i in range(len(writes)):
        out.setdefault(find(i), []).append(i)
    return sorted(tuple(sorted(v)) for v in out.values())


def _related(a: Write, b: Write, facts: Facts) -> bool:
    return conflict(a, b, facts) or any(conflict(r, b, facts) for r in a.reads) or any(conflict(r, a, facts) for r in b.reads)


# ------------------------------------------------------------------------------------------------ instances
def instance_axes(writes: Sequence[Write], facts: Facts) -> tuple[str, ...]:
    """Axes of the instances of a group, in the order of its first store."""
    bound = frozenset().union(*(w.bound for w in writes))
    own = tuple(a for a in writes[0].axes if a not in bound and all(a in w.mapped for w in writes))
    pairs: list[tuple[Read | Write, Write]] = []
    for i, w in enumerate(writes):
        pairs += [(v, w) for v in writes[:i] if conflict(v, w, facts)]
        pairs += [(r, w) for v in writes for r in v.reads if conflict(r, w, facts)]
    changed = True
    while own and changed:
        kept = set(own)
        for a, b in pairs:
            kept &= separates(a, b, tuple(x for x in own if x in kept), facts)
        changed = len(kept) < len(own)
        own = tuple(a for a in own if a in kept)
    return own


def separates(a: Read | Write, b: Write, own: Sequence[str], facts: Facts) -> frozenset[str]:
    """Axes in `own` such that the two accesses touch different elements in instances that differ in one of them (or are atomic, and the
    author lets them meet)."""
    out = frozenset(own)
    for x in parts(a):
        for y in parts(b):
            out &= _separates(x, y, own, facts) if _meet(x, y, facts) else out
    return out


def _separates(a: Read | Write, b: Read | Write, own: Sequence[str], facts: Facts) -> frozenset[str]:
    apart = a.view == b.view or isinstance(a, Write) and isinstance(b, Write) and bool(a.combines) and a.combines == b.combines
    out = frozenset(axis for _, axis in a.scope & b.scope) & frozenset(own) if apart else frozenset[str]()
    if a.view == b.view:
        same = [x for x, y in zip(a.ixs, b.ixs, strict=True) if x == y and coords(x) and coords(x) <= set(own)]
        out |= determined(same, own, facts)
    return out


__all__ = ["Read", "Scope", "Write", "conflict", "groups", "instance_axes", "ordered", "parts", "separates"]
