"""Ranges of ordered axes: outside which members a reduction or fold takes in nothing, as facts for rules.

A predicate such as ``c <= i + k`` or ``offsets[g] <= c`` (an `Index` node, affine in the coordinate c with an integer weight) bounds
its true members by a half space. On the other side the values that depend on the predicate are known: a select takes its alternative, a
masked load its fill, and constants propagate (`Idle`). Where the operand of an operation that binds c becomes the neutral element there,
or a traversal keeps its states, the members beyond the bound may be skipped; `with_ranges` records such operations and, for each axis,
the bounds that hold for all of them, as values without the axis. Nothing is narrowed here: that is the choice of rules (ruleset
``narrow``). A loop may be left out altogether where no lane's result is observed, because the only stores of it are invalid there
(`demands`): a block of packed rows then does the work of the groups that it meets.

``0 * x`` is 0 for integers. For floats it is NaN where x is an infinity or a NaN, so a product with one zero factor counts as zero
only under the permission ``zero_products``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eqkir.base import expr as E
from eqkir.base.dtypes import FLOATS, NUMPY, identity, parse
from eqkir.base.expr import Dep, Expr, atoms, coords, substitute
from eqkir.program.abi import members_of, slice_axis
from eqkir.program.abstract import BOUND, Abstract, VNode, bound_axis
from eqkir.program.counted import counted
from eqkir.program.half_spaces import Bound, exact, half_spaces, simple
from eqkir.program.interp_pointwise import pointwise_function
from eqkir.program.lower import SCANS, reachable, scan_axis
from eqkir.program.meetings import Meeting, meetings

PERMISSION = "zero_products"
KINDS = ("loop", "seg", "strict")
MOST = 4  # bounds of one side that are combined

Known = Any  # a numpy array of one element, an int (the node that the value is), or None


@dataclass
class Ranges:
    """`bounds`: axis -> nodes of the first member and of the end (values of dtype index, not clamped), and of where results are observed
    at all (bool); -1 for what the axis has not; `narrows`: (operation, axis) whose members outside are neutral; `slices`: seg axes
    offered to rules whose folds have the bounds of the axis that they slice; `met`: loop axis around stores -> half spaces of owned axes to
    which they are confined (`eqkir.program.meetings`); `counted`: a reduction, the same over members counted from its lower bound, and the
    axis that counts (`eqkir.program.counted`); `copies`: (node of the source, the same value at a counted member)."""

    bounds: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    narrows: tuple[tuple[int, str], ...] = ()
    slices: tuple[str, ...] = ()
    met: dict[str, tuple[Meeting, ...]] = field(default_factory=dict)
    counted: tuple[tuple[int, int, str], ...] = ()
    copies: tuple[tuple[int, int], ...] = ()


class Idle:
    """Values at the members of an axis beyond one bound: constants, or the node that they are."""

    def __init__(self, p: Abstract, axis: str, false: frozenset[int], zero_products: bool) -> None:
        self.p, self.axis, self.false, self.zero_products = p, axis, false, zero_products
        self.axes = {axis, *members_of(axis, (a.name for a in p.axes))}
        self.memo: dict[int, Known] = {}

    def of(self, i: int) -> Known:
        if i not in self.memo:
            self.memo[i] = self._of(i, self.p.nodes[i])
        return self.memo[i]

    def const(self, i: int) -> Any:
        """The constant, or None."""
        v = self.of(i)
        return None if isinstance(v, int) else v

    def zero(self, i: int) -> bool:
        v = self.const(i)
        return v is not None and not np.asarray(v, np.float64).any()

    def product(self, a: int, b: int, dtype: str) -> bool:
        """Whether a product is zero."""
        if dtype in FLOATS and not self.zero_products:
            return self.zero(a) and self.zero(b)
        return self.zero(a) or self.zero(b)

    def _of(self, i: int, n: VNode) -> Known:
        a = n.args
        if n.op == "Const":
            return np.array([parse(n.attrs[0], n.dtype)]).astype(NUMPY[n.dtype])
        if n.op == "Form" or not self.p.free(i) & self.axes:  # one value for all members
            return i
        match n.op:
            case "Index" if i in self.false:
                return np.array([False])
            case "Load":
                valid = self.const(a[0])
                return self.of(a[1]) if valid is not None and not valid[0] else None
            case "Tri" if n.attrs[0] == "select":
                c, x, y = (self.of(j) for j in a)
                if c is not None and not isinstance(c, int):
                    return x if c[0] else y
                return x if alike(x, y) else None
            case "Bin" if n.dtype == "bool" and n.attrs[0] in ("and", "or"):
                stop = n.attrs[0] == "or"
                if any(v is not None and bool(v[0]) == stop for v in map(self.const, a)):
                    return np.array([stop])
            case "Bin" if n.attrs[0] == "mul" and self.product(a[0], a[1], n.dtype):
                return np.zeros(1, NUMPY[n.dtype])
            case "Red":
                return self.const(a[0]) if neutral(n.attrs[0], n.dtype, self.const(a[0])) else None
            case "Con":
                return np.zeros(1, NUMPY[n.dtype]) if self.product(a[0], a[1], n.dtype) else None
        if n.op in ("Un", "Bin", "Tri", "Cast", "Bitcast"):
            args = [self.const(j) for j in a]
            if args and all(v is not None for v in args):
                with np.errstate(all="ignore"):
                    return np.asarray(pointwise_function(n, self.p.nodes[a[0]].dtype)(*args))  # type: ignore[arg-type]
        return None

    def neutral_operand(self, n: VNode) -> bool:
        """Whether a structured operation takes in nothing there."""
        a = n.args
        match n.op:
            case "Red":
                return neutral(n.attrs[0], n.dtype, self.const(a[0]))
            case "Con" | "ConAcc":
                return self.product(a[0], a[1], n.dtype)
            case "RedN":
                c = n.attrs[1]
                return self.equal(a[:c], a[c : 2 * c])
            case "Fold":
                _, key, c = n.attrs
                if all(self.keeps(a[c + j], key, j) for j in range(c)):
                    return True
                return self.p.axis(self.axis).kind == "seg" and self.equal(a[:c], a[2 * c :])
        return False

    def keeps(self, i: int, key: str, component: int) -> bool:
        v = self.of(i)
        return isinstance(v, int) and self.p.nodes[v].attrs[:2] == (key, component)

    def equal(self, idents: Sequence[int], values: Sequence[int]) -> bool:
        """Whether values are the (constant) identities, component by component."""
        return len(idents) == len(values) and all(
            self.const(v) is not None and alike(self.const(k), self.const(v)) for k, v in zip(idents, values, strict=True)
        )


def alike(a: Known, b: Known) -> bool:
    """Whether two known values are one (zeros of either sign are)."""
    if a is None or b is None or isinstance(a, int) or isinstance(b, int):
        return a is not None and isinstance(a, int) and isinstance(b, int) and a == b
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return bool(((x == y) | (np.isnan(x) & np.isnan(y))).all()) if a.dtype.kind not in "biu" else bool((a == b).all())


def neutral(fn: str, dtype: str, value: Any) -> bool:
    """Whether a constant is the neutral element of a built-in reduction."""
    return value is not None and alike(np.array([parse(identity(fn, dtype), dtype)]).astype(NUMPY[dtype]), value)


# ------------------------------------------------------------------------------------------------ per operation
def body(p: Abstract, i: int) -> list[int]:
    """Nodes that an operation evaluates for every member of its axis (some may not depend on it)."""
    n = p.nodes[i]
    c = n.attrs[2] if n.op == "Fold" else n.attrs[1] if n.op == "RedN" else 0
    todo = {"Red": n.args[:1], "RedN": n.args[c : 2 * c], "Fold": n.args[c:]}.get(n.op, n.args[:2])
    seen: set[int] = set()
    stack = list(todo)
    while stack:
        j = stack.pop()
        if j not in seen:
            seen.add(j)
            stack += p.nodes[j].args
    return sorted(seen)


def bounds_of(p: Abstract, i: int, zero_products: bool) -> list[Bound]:
    """The bounds outside which operation `i` takes in nothing, in order of appearance."""
    n = p.nodes[i]
    axis = bound_axis(n)
    members = members_of(axis, (a.name for a in p.axes)) if p.axis(axis).kind == "seg" else (axis,)
    inside = body(p, i)
    if any(p.nodes[j].op in SCANS and scan_axis(p.nodes[j]) == axis for j in inside):
        return []
    found: dict[Bound, set[int]] = {}
    for j in inside:
        m = p.nodes[j]
        for member in members if m.op == "Index" and m.dtype == "bool" else ():
            if member not in coords(m.attrs[0]):
                continue
            whole = substitute(m.attrs[0], {Dep(k): Dep(a) for k, a in enumerate(m.args)})
            for b in half_spaces(whole, member):
                if exact(p, b.at) and _outside(p, b.at, p.free(i), axis):
                    found.setdefault(b, set()).add(j)
    good = [b for b, false in found.items() if Idle(p, axis, frozenset(false), zero_products).neutral_operand(n)]
    return [b for side in (False, True) for b in [b for b in good if b.upper == side][:MOST]]


def _outside(p: Abstract, e: Expr, free: frozenset[str], axis: str) -> bool:
    """Whether an expression can be evaluated where the loop over `axis` starts."""
    for a in atoms(e):
        if a.op == "coord" and a.args[0] not in free:
            return False
        if a.op == "dep" and not simple(p, a.args[0], free, axis):
            return False
    return True


def with_ranges(p: Abstract, permissions: Sequence[str] = ()) -> Abstract:
    """The same program with what is known of ranges; nodes keep their numbers, bounds are new ones. `permissions`: of the compile call."""
    zero = PERMISSION in permissions
    q = replace(p, nodes=list(p.nodes), _ids=dict(p._ids), _free=dict(p._free), permissions=tuple(sorted(permissions)))
    puts = [s for g in p.groups for ph in g.phases for s in ph]
    inner = {a for axes in p.inner.values() for a in axes}
    by_axis: dict[str, dict[int, list[Bound]]] = {}
    for i in reachable(p, puts):
        n = p.nodes[i]
        if n.op in BOUND and n.op != "While" and p.axis(bound_axis(n)).kind in KINDS and bound_axis(n) not in inner:
            by_axis.setdefault(bound_axis(n), {})[i] = bounds_of(q, i, zero)
    wanted = demands(p, reachable(p, puts))
    bounds: dict[str, tuple[int, int, int]] = {}
    narrows: list[tuple[int, str]] = []
    slices: list[str] = []
    seg = dict(p.sliced)
    for axis, found in by_axis.items():
        common = _common([b for b in found.values() if b])
        ops = [i for i, b in found.items() if set(common) <= set(b)]
        on = {wanted.get(i, -1) for i in ops}
        where = on.pop() if len(on) == 1 else -1
        if common or where >= 0:
            bounds[axis] = (*_nodes(q, common), where)
            narrows += [(i, axis) for i in ops]
        tops = [b for i, b in found.items() if p.nodes[i].op == "Red" and p.nodes[i].attrs[0] == "max"]
        if axis in seg and tops and zero and (mine := _common(tops)):
            at = seg[axis]
            bounds[at] = (*_nodes(q, mine), -1)
            slices.append(at)
    pairs, copies = counted(q, narrows, bounds)
    q.axes = (*q.axes, *(a for _, _, a in pairs))
    for i, j, a in pairs:
        ends = [b for b in bounds_of(q, j, zero) if b.upper]
        if ends:
            bounds[a.name] = (*_nodes(q, ends), bounds[bound_axis(q.nodes[i])][2])
            narrows.append((j, a.name))
    same = tuple((i, j, a.name) for i, j, a in pairs)
    q.ranges = Ranges(bounds, tuple(narrows), tuple(slices), meetings(p, reachable(p, puts)), same, copies)
    return q


def demands(p: Abstract, live: list[int]) -> dict[int, int]:
    """Operation that binds an axis -> the validity under which alone a store observes its result, where that is one validity that varies
    along a loop around the store, and can be evaluated where the operation starts (an instance owns what it varies with besides).

    The results of such an operation matter to nobody in other lanes: everything between it and the stores is computed lane by lane.
    Operations inside the body of another one are left to that one.
    """
    uses: dict[int, set[int]] = {i: set() for i in live}  # node -> validities, -1: anything else
    for g in p.groups:
        for ph in g.phases:
            for s in ph:
                uses[s.value].add(s.valid)
                for j in (s.valid, *s.deps):
                    uses[j].add(-1)
    kind = {a.name: a.kind for a in p.axes}
    for i in reversed(live):  # users first
        n = p.nodes[i]
        through = set(n.args)
        if n.op == "Load":
            through = {n.args[1]} - {n.args[0], *n.args[2:]}
        elif n.op in ("Index", "While", *SCANS):
            through = set()
        for j in n.args:
            mine = uses[i] if j in through else {-1}
            if n.op in BOUND and any(w < 0 or bound_axis(n) in p.free(w) for w in mine):
                mine = {-1}
            uses[j] |= mine
    inside = {bound_axis(p.nodes[i]) for i in live if p.nodes[i].op in BOUND}
    inside |= {m.name for m in p.axes if m.kind == "mem" and slice_axis(m.name) in inside}
    out = {}
    for i in live:
        n = p.nodes[i]
        if n.op in BOUND and len(uses[i]) == 1 and not p.free(i) & inside:
            (w,) = uses[i]
            around = {a for a in p.free(w) if kind[a] != "own"} if w >= 0 else set()  # loops that the operation has to stand in
            if any(kind[a] in ("loop", "strict") for a in around) and around <= p.free(i) and simple(p, w, p.free(w), bound_axis(n)):
                out[i] = w
    return out


def _common(found: list[list[Bound]]) -> list[Bound]:
    return [b for b in found[0] if all(b in x for x in found)] if found else []


def _nodes(p: Abstract, found: list[Bound]) -> tuple[int, int]:
    return _node(p, [b.at for b in found if not b.upper], "max"), _node(p, [b.at for b in found if b.upper], "min")


def _node(p: Abstract, ats: list[Expr], fn: str) -> int:
    """The node of the tightest of these bounds, or -1."""
    if not ats:
        return -1
    e = ats[0]
    for x in ats[1:]:
        e = E.binary(fn, e, x)
    ids = sorted({a.args[0] for a in atoms(e) if a.op == "dep"})
    e = substitute(e, {Dep(j): Dep(k) for k, j in enumerate(ids)})
    return p.make("Index", (e,), tuple(ids), "index")


__all__ = ["Bound", "Idle", "Ranges", "half_spaces", "with_ranges"]
