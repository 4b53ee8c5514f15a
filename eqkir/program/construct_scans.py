"""Scans. A scan is a forward inclusive one along the axis that its result is read at; a reversed one runs along a store's axis that is
traversed backwards; an exclusive one scans the elements before. Read at any other place it is kept in a workspace."""

from __future__ import annotations

from eqkir.base import dtypes
from eqkir.base.dtypes import WIDENED
from eqkir.base.expr import ONE, ZERO, Expr, emax, eq
from eqkir.kir import model as kir
from eqkir.program.abi import members_of
from eqkir.program.construct_env import Ixs, Steps, construction
from eqkir.program.construct_keep import kept, own_axes, plain
from eqkir.program.construct_loops import both, choice
from eqkir.program.construct_ops import bound, combined
from eqkir.program.construct_values import Values

BUILT_IN = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}


@construction("scan", "xs axis fn exclusive reverse identities combine")
def _scan(v: Values, op: kir.Scan, n: int, ixs: Ixs) -> Steps:
    id, d = op.results[n], op.axis
    extent, e = v.pinned(v.shape(id)[d]), ixs[d]
    others = frozenset().union(*(v.axes_of(x) for i, x in enumerate(ixs) if i != d))
    if extent == ONE:
        return (yield from _along(v, op, n, ixs, None))
    if v.is_slice(extent):
        return (yield from _along(v, op, n, ixs, _members(v, op, extent, e, others)))
    axis = plain(v, v.fold(extent - ONE - e) if op.reverse else e, extent)
    if axis is not None and axis not in others:
        v.wishes.setdefault(axis, set()).add("reverse" if op.reverse and e != v.coordinate(axis) else "forward")
        return (yield from _along(v, op, n, ixs, axis))
    if op.reverse and (mirror := plain(v, e, extent)) is not None:
        v.wishes.setdefault(mirror, set()).add("reverse")
    own, taken = own_axes(v, id, ixs, (d,))
    if op.reverse:
        own = (*own[:d], v.fold(extent - ONE - own[d]), *own[d + 1 :])
    node = yield id, own
    return kept(v, node, own, ixs, v.effects.pointers[id])


def _members(v: Values, op: kir.Scan, extent: Expr, at: Expr, others: frozenset[str]) -> str:
    """The mem axis of a scan along a slice, which stays inside the slice. Where a slice begins is no position of a scan's own: prefixes
    that are exclusive, or run backwards, have none."""
    seg = v.env.slice(extent.args[0]) if extent.op == "sym" else None
    found = [a for a in members_of(seg, v.kind_of) if v.coordinate(a) == at and a not in others] if seg else []
    if op.exclusive or op.reverse or not found:
        raise v.uncut(extent, "a scan along a slice that is exclusive, reversed or read elsewhere", "region_scan")
    return found[0]


def _along(v: Values, op: kir.Scan, n: int, ixs: Ixs, axis: str | None) -> Steps:
    """The scan along an axis; None: of one element."""
    d = op.axis
    at, first = ixs, v.const(False, "bool")
    if op.exclusive:
        c = v.coordinate(axis) if axis else ZERO
        before = emax(c - ONE, ZERO)
        at = (*ixs[:d], v.fold(v.pinned(v.shape(op.results[n])[d]) - ONE - before if op.reverse else before), *ixs[d + 1 :])
        first = v.index(eq(c, ZERO), (), "bool")
    if op.fn is not None:
        fn = BUILT_IN[op.fn]
        x = yield op.xs[0], at
        dtype = v.program.nodes[x].dtype
        wide = WIDENED.get(dtype, dtype) if fn == "sum" else dtype
        x = x if wide == dtype else v.make("Cast", (wide,), (x,), wide)
        neutral = v.program.const(dtypes.identity(fn, wide), wide)
        x = choice(v, first, neutral, x)
        return x if axis is None else v.make("Scan", (fn, axis), (v.spread(x, axis, neutral),), wide)
    return (yield from _generic(v, op, n, at, first, axis))


def _generic(v: Values, op: kir.Scan, n: int, at: Ixs, first: int, axis: str | None) -> Steps:
    """Without identities the state says besides whether it holds anything."""
    assert op.combine is not None
    k = len(op.xs)
    elems, idents = [], []
    for x in op.xs:
        elems.append((yield x, at))
    for i in op.identities:
        idents.append((yield i, ()))
    if idents:
        elems = [choice(v, first, i, e) for i, e in zip(idents, elems, strict=True)]
    if axis is None:
        return elems[n]
    comb = yield from combined(v, op.combine, k)
    if not idents:
        nodes = v.program.nodes
        idents = [*(v.const(0, nodes[e].dtype) for e in elems), v.const(False, "bool")]
        left, right = (v.make("Arg", (side, k), (), "bool") for side in "lr")
        forms = [[v.make("Arg", (side, i), (), nodes[e].dtype) for i, e in enumerate(elems)] for side in "lr"]
        joint = [choice(v, right, c, a) for c, a in zip(comb, forms[0], strict=True)]
        comb = [*(choice(v, left, c, b) for c, b in zip(joint, forms[1], strict=True)), v.make("Bin", ("or",), (left, right), "bool")]
        elems = [*elems, v.const(True, "bool")]
    members = [v.spread(e, axis, i) for e, i in zip(elems, idents, strict=True)]
    t = v.make("ScanN", (axis, len(elems)), (*idents, *members, *comb), "tuple")
    return v.make("Pick", (n,), (t,), v.program.nodes[elems[n]].dtype)


@construction("arg_reduce", "fn x axis dtype")
def _arg_reduce(v: Values, op: kir.ArgReduce, n: int, ixs: Ixs) -> Steps:
    """A reduction of (value, position): the better value wins, NaN over numbers, and of equals the lower position."""
    extent = v.shape(op.x)[op.axis]
    x, axis = bound(v, extent, v.taken(op.results[n], ixs))
    value = yield op.x, (*ixs[: op.axis], x, *ixs[op.axis :])
    dtype = v.program.nodes[value].dtype
    where = v.index(x, (), "index")
    where = where if op.dtype == "index" else v.make("Cast", (op.dtype,), (where,), op.dtype)
    worst = v.program.const(dtypes.identity("max" if op.fn == "argmax" else "min", dtype), dtype)
    far = v.program.const(dtypes.identity("min", op.dtype), op.dtype)
    (lv, li), (rv, ri) = ((v.make("Arg", (s, 0), (), dtype), v.make("Arg", (s, 1), (), op.dtype)) for s in "lr")

    def b(fn: str, p: int, q: int) -> int:
        return v.make("Bin", (fn,), (p, q), "bool")

    wins, ties = b("gt" if op.fn == "argmax" else "lt", lv, rv), b("eq", lv, rv)
    if dtype in dtypes.FLOATS:
        ln, rn = (v.make("Un", ("isnan",), (a,), "bool") for a in (lv, rv))
        wins, ties = b("or", wins, b("and", ln, v.make("Un", ("not",), (rn,), "bool"))), b("or", ties, b("and", ln, rn))
    takes = b("or", wins, b("and", ties, b("lt", li, ri)))
    pick = [v.make("Tri", ("select",), (takes, p, q), t) for p, q, t in ((lv, rv, dtype), (li, ri, op.dtype))]
    elems = [v.spread(e, axis, i) for e, i in ((value, worst), (where, far))]
    t = v.make("RedN", (axis, 2), (worst, far, *elems, *pick), "tuple")
    return v.make("Pick", (n,), (t,), (dtype, op.dtype)[n])


@construction("histogram", "x bins valid dtype")
def _histogram(v: Values, op: kir.Histogram, n: int, ixs: Ixs) -> Steps:
    """Of each bin: the sum over all members of 1 where the member is valid and its value is the bin."""
    taken = v.taken(op.results[0], ixs)
    at, axes = [], []
    for extent in v.shape(op.x):
        x, axis = bound(v, extent, taken)
        at.append(x)
        axes.append(axis)
    value = v.widened((yield op.x, tuple(at)))
    hit = v.make("Bin", ("eq",), (value, v.index(ixs[0], (), "index")), "bool")
    if op.valid is not None:
        hit = both(v, (yield op.valid, v.align(op.valid, tuple(at))), hit)
    out = choice(v, hit, v.const(1, op.dtype), v.const(0, op.dtype))
    for axis in reversed(axes):
        out = v.make("Red", ("sum", axis), (v.spread(out, axis),), op.dtype)
    return out


@construction("join", "x y")
def _join(v: Values, op: kir.Join, n: int, ixs: Ixs) -> Steps:
    c = v.index(eq(ixs[-1], ZERO), (), "bool")
    x = yield v.operand(op.x, ixs[:-1])
    y = yield v.operand(op.y, ixs[:-1])
    return choice(v, c, x, y)


def turn(v: Values, extent: Expr, axis: str, wish: str, avoid: frozenset[str]) -> tuple[Expr, tuple[str, ...]]:
    """How a store traverses a dimension: (position, axes) backwards, or in slices."""
    if wish == "reverse":
        return v.fold(v.pinned(extent) - ONE - v.coordinate(axis)), (axis,)
    seg, mem = v.slices(extent, avoid)
    return v.coordinate(mem), (seg, mem)


__all__ = ["turn"]
