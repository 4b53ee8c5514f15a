"""Comparison of reductions, contractions and scans: operands along the bound axis, neutral elements, combine regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eqkir.base.expr import TRUE, Coord, Expr, conj, le, lt
from eqkir.program.abi import is_member, members_of, slice_axis
from eqkir.program.abstract import bound_axis
from eqkir.program.construction.codes import Fault
from eqkir.program.construction.relation import At, Body, Term, Val, choose, const, given, number

if TYPE_CHECKING:
    from eqkir.program.construction.compare import Compare, Faults, Sigma


def position(c: Compare, extent: Expr, axis: str, x: Expr, v: Val, sigma: Sigma) -> tuple[Expr, Expr] | None:
    """(position along a dimension of this extent, where it is one) of a coordinate of an axis; None where the axis does not cover it.

    Along a slice only its members count: those of the loop's axis, or of a slice of which a member stands (at the point ``sigma``) where
    an output is emitted.
    """
    if axis not in c.axes:
        return None
    for f in v.frame.chain():
        if extent.op == "sym" and extent.args[0] in f.slices:
            id, cut = f.slices[extent.args[0]]
            if not is_member(axis):
                return None
            length = c.r.length(id, v.frame)
            if isinstance(cut, Expr):
                own = [position(c, length, a, sigma.get(a, Coord(a)), v, sigma) for a in members_of(slice_axis(axis), c.axes)]
                if not any(p is not None and c.equal(cut, p[0]) for p in own):
                    return None
            elif slice_axis(axis) != cut.axis:
                return None
            return position(c, length, axis, x, v, sigma)
    have = c.axes[axis].extent
    if c.r.known(extent):
        return (x, TRUE) if extent == have or c.reason.equal(extent, have) else None
    found = c.r.source(extent)
    if found is None or c.r.extent(found[1].length) != have:
        return None
    part, whole = found
    begin, end, first = (c.r.resolved(e, v, v.frame) for e in (part.begin, part.end, whole.begin))
    return x + first - begin, conj(le(begin, first + x), lt(first + x, end))


def operand(c: Compare, node: int, sigma: Sigma, neutral: str, where: Expr) -> tuple[int, Faults]:
    """The operand of a reduction behind the choice of the neutral element for coordinates that are no members."""
    n = c.nodes[node]
    if n.op == "Tri" and n.attrs == ("select",):
        last = c.nodes[n.args[2]]
        have = c.at(n.args[0], sigma)
        if c.equal(where, have):
            if last.op == "Const" and last.attrs[0] == neutral:
                return n.args[1], ()
            if c.reason.simple(where) != TRUE:
                return n.args[1], c.fault(
                    "structured-complete", f"%{node}: coordinates that are no members give %{n.args[2]}, not {neutral}"
                )
    if c.reason.simple(where) == TRUE:
        return node, ()
    return node, c.fault("narrowing-explicit", f"%{node}: the coordinates that are no members are not excluded by {where}")


@dataclass(frozen=True)
class Bound:
    """A binder's position along its dimension, where it is one, and the point inside the binder."""

    x: Expr
    where: Expr
    inner: dict[str, Expr]


def bound(c: Compare, body: Body, j: int, axis: str, node: int, sigma: Sigma, v: Val) -> Bound | None:
    """The binder of dimension `j`; None where its axis does not cover the dimension."""
    x = c.fresh(axis, node, sigma)
    found = position(c, body.extents[j], axis, x, v, sigma)
    return None if found is None else Bound(found[0], found[1], {**sigma, axis: x})


def uncovered(c: Compare, body: Body, j: int, axis: str, node: int) -> Faults:
    return c.fault("structured-complete", f"%{node} runs over {axis}, which does not cover {body.extents[j]}")


def here(body: Body, t: Term) -> Val:
    return Val("", (), (), body.frame, t.given)


def red(c: Compare, t: Term, node: int, sigma: Sigma, xs: At = ()) -> Faults:
    """Built-in reductions: one axis each, nested in the order of the dimensions."""
    fn, body = t.attrs
    n = c.nodes[node]
    if n.op != "Red" or n.attrs[0] != fn or n.dtype != t.dtype:
        return c.fault("structured-complete", f"%{node} is {n.op} {n.attrs[:1]} {n.dtype} instead of the reduction {fn} {t.dtype}")
    got = bound(c, body, len(xs), n.attrs[1], node, sigma, here(body, t))
    if got is None:
        return uncovered(c, body, len(xs), n.attrs[1], node)
    x, where, inner = got.x, got.where, got.inner
    xs = (*xs, x)
    neutral = c.r.head(body.neutral[0])
    last = len(xs) == len(body.extents)
    if last and t.dtype in ("bool", "index"):
        k = choose(number(where, "bool"), given(body.operands(xs)[0], (where,)), neutral, t.dtype)
        return c.match(k, n.args[0], inner)
    arg, faults = operand(c, n.args[0], inner, neutral.attrs[0], where)
    if faults:
        return faults
    more = Term(t.head, t.attrs, t.kids, t.dtype, (*t.given, where) if where != TRUE else t.given)
    return c.match(given(body.operands(xs)[0], more.given), arg, inner) if last else red(c, more, arg, inner, xs)


def con(c: Compare, t: Term, node: int, sigma: Sigma, xs: At = ()) -> Faults:
    """The last pair is the contraction's axis; the others are sums around it."""
    (body,) = t.attrs
    n = c.nodes[node]
    last = len(xs) + 1 == len(body.extents)
    want = ("Con", None) if last else ("Red", "sum")
    if n.op != want[0] or n.dtype != t.dtype or (not last and n.attrs[0] != "sum"):
        return c.fault("structured-complete", f"%{node} is {n.op} {n.dtype} instead of a contraction in {t.dtype}")
    got = bound(c, body, len(xs), bound_axis(n), node, sigma, here(body, t))
    if got is None:
        return uncovered(c, body, len(xs), bound_axis(n), node)
    x, where, inner = got.x, got.where, got.inner
    xs = (*xs, x)
    more = t if where == TRUE else Term(t.head, t.attrs, t.kids, t.dtype, (*t.given, where))
    if not last:
        arg, faults = operand(c, n.args[0], inner, const(0, t.dtype).attrs[0], where)
        return faults or con(c, more, arg, inner, xs)
    out: list[Fault] = []
    for k, a in zip(body.operands(xs), n.args, strict=True):
        arg, faults = operand(c, a, inner, const(0, c.nodes[a].dtype).attrs[0], where)
        out += faults or c.match(given(k, more.given), arg, inner)
    return tuple(out)


def redn(c: Compare, t: Term, node: int, sigma: Sigma) -> Faults:
    i, body = t.attrs
    n = c.nodes[node]
    if n.op != "Pick" or n.attrs != (i,) or c.nodes[n.args[0]].op != "RedN":
        return c.fault("structured-complete", f"%{node} is {n.op} instead of component {i} of a reduction")
    return reduced(c, body, t, n.args[0], sigma, ())


def reduced(c: Compare, body: Body, t: Term, node: int, sigma: Sigma, xs: At) -> Faults:
    """A reduction of several components: all of them, whichever is read."""
    n = c.nodes[node]
    k = len(body.neutral)
    if n.op != "RedN" or n.attrs[1] != k or len(n.args) != 3 * k or len(body.combine) != k:
        return c.fault("structured-complete", f"%{node} has not {k} components with identities and a combine region")
    key = id(body), node, c.restricted(node, sigma), xs
    if key in c.reduced:
        return c.reduced[key]
    c.reduced[key] = ()
    got = bound(c, body, len(xs), n.attrs[0], node, sigma, here(body, t))
    if got is None:
        return uncovered(c, body, len(xs), n.attrs[0], node)
    x, where, inner = got.x, got.where, got.inner
    xs = (*xs, x)
    out = region(c, body, n.args[2 * k :], f"%{node}")
    out += identities(c, body, t, n.args[:k], sigma, f"%{node}")
    last = len(xs) == len(body.extents)
    elems = body.operands(xs) if last else ()
    for i, a in enumerate(n.args[k : 2 * k]):
        arg, faults = chosen(c, a, inner, n.args[i], where)
        out += faults
        if faults:
            continue
        if last:
            out += c.match(given(elems[i], (*t.given, where)), arg, inner)
            continue
        p = c.nodes[arg]
        if p.op != "Pick" or p.attrs != (i,):
            out += c.fault("structured-complete", f"%{arg} is {p.op} instead of component {i}")
        else:
            out += reduced(c, body, t, p.args[0], inner, xs)
    c.reduced[key] = out
    c.journal.append(lambda: c.reduced.pop(key, None))
    return out


def chosen(c: Compare, node: int, sigma: Sigma, neutral: int, where: Expr) -> tuple[int, Faults]:
    """As `operand`, of an identity that is a value."""
    n = c.nodes[node]
    if n.op == "Tri" and n.attrs == ("select",) and n.args[2] == neutral and c.equal(where, c.at(n.args[0], sigma)):
        return n.args[1], ()
    if c.reason.simple(where) == TRUE:
        return node, ()
    return node, c.fault("narrowing-explicit", f"%{node}: the coordinates that are no members are not excluded by {where}")


def region(c: Compare, body: Body, comb: Sequence[int], what: str) -> Faults:
    faults = tuple(f for y, a in zip(body.combine, comb, strict=True) for f in c.match(y, a, {}))
    return c.fault("structured-complete", f"{what} combines otherwise: {faults[0].message}") if faults else ()


def identities(c: Compare, body: Body, t: Term, ids: Sequence[int], sigma: Sigma, what: str) -> Faults:
    faults = tuple(f for y, a in zip(body.neutral, ids, strict=True) for f in c.match(y, a, sigma))
    return c.fault("structured-complete", f"{what} has another identity: {faults[0].message}") if faults else ()


def scan(c: Compare, t: Term, node: int, sigma: Sigma) -> Faults:
    """The prefix that ends at the point's own position."""
    first, at, body = t.attrs
    n = c.nodes[node]
    if t.head == "ScanN":
        if n.op != "Pick" or n.attrs != (first,) or c.nodes[n.args[0]].op != "ScanN":
            return c.fault("structured-complete", f"%{node} is {n.op} instead of component {first} of a scan")
        node = n.args[0]
        n = c.nodes[node]
        axis, k = n.attrs
    else:
        if n.op != "Scan" or n.attrs[0] != first:
            return c.fault("structured-complete", f"%{node} is {n.op} {n.attrs[:1]} instead of a scan of {first}")
        axis, k = n.attrs[1], 1
    if t.head == "ScanN" and (k != len(body.neutral) or len(n.args) != 3 * k or k != len(body.combine)):
        return c.fault("structured-complete", f"%{node} has not {len(body.neutral)} components with identities and a combine region")
    v = here(body, t)
    own = position(c, body.extents[0], axis, sigma.get(axis, Coord(axis)), v, sigma)
    if own is None:
        return c.fault("structured-complete", f"%{node} runs over {axis}, which does not cover {body.extents[0]}")
    if not c.equal(at, own[0], t.given):
        return c.fault("coordinates-equivalent", f"the scan %{node} is read at {own[0]} instead of {at}")
    got = bound(c, body, 0, axis, node, sigma, v)
    if got is None:
        return uncovered(c, body, 0, axis, node)
    x, where, inner = got.x, got.where, got.inner
    elems = [given(e, (*t.given, where)) for e in body.operands((x,))]
    if t.head == "Scan":
        if t.dtype in ("bool", "index"):
            return c.match(choose(number(where, "bool"), elems[0], body.neutral[0], t.dtype), n.args[0], inner)
        arg, faults = operand(c, n.args[0], inner, c.r.head(body.neutral[0]).attrs[0], where)
        return faults or c.match(elems[0], arg, inner)
    out = region(c, body, n.args[2 * k :], f"%{node}") + identities(c, body, t, n.args[:k], sigma, f"%{node}")
    for i, a in enumerate(n.args[k : 2 * k]):
        arg, faults = chosen(c, a, inner, n.args[i], where)
        out += faults or c.match(elems[i], arg, inner)
    return out


def loads_of(c: Compare, node: int) -> set[tuple[str, int]]:
    """(view, version) of the loads below a node, through workspaces."""
    out: set[tuple[str, int]] = set()
    seen: set[int] = set()
    todo = [node]
    while todo:
        i = todo.pop()
        if i in seen:
            continue
        seen.add(i)
        n = c.nodes[i]
        if n.op == "Load" and n.attrs[0] in c.workspaces:
            todo += [r for p in c.fills.get(n.attrs[0], ()) for r in (p.value, p.valid, *p.deps)]
        elif n.op == "Load":
            out.add((n.attrs[0], n.attrs[1]))
        todo += n.args
    return out


__all__ = ["con", "position", "red", "redn", "loads_of", "scan"]
