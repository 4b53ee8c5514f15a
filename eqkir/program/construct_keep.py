"""Values that exist along their own axis only, read elsewhere: kept in a workspace of the invocation.

A scan (or the state of a loop) is a value inside the loop over its axis. Where it is read otherwise, it is written to a workspace at
coordinates of its own, in an earlier phase, and read from there.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqkir.base.diagnostics import fail
from eqkir.base.expr import Coord, Expr, coords
from eqkir.program.abi import members_of, slice_axis
from eqkir.program.abstract import axes_in
from eqkir.program.construct_codes import SCAN, SLICE, STAGE
from eqkir.program.construct_effect import Effect
from eqkir.program.construct_env import Ixs
from eqkir.program.construct_memory import inbounds, members, together
from eqkir.program.construct_states import below, open_forms
from eqkir.program.construct_values import Values
from eqkir.program.construct_whole import Whole


def plain(v: Values, e: Expr, extent: Expr) -> str | None:
    """The axis whose coordinates a dimension of this extent is read at, one by one."""
    axes = sorted(coords(e))
    if (
        len(axes) == 1
        and v.kind_of[axes[0]] in ("loop", "strict")
        and v.pool_of[axes[0]] == v.pinned(extent)
        and v.coordinate(axes[0]) == e
    ):
        return axes[0]
    return None


def own_axes(v: Values, id: str, ixs: Ixs, free: Sequence[int] = ()) -> tuple[Ixs, set[str]]:
    """Coordinates to keep a value at: those that are asked for, where each is an axis of its own; new axes for dimensions in `free`."""
    taken: set[str] = set(v.env.axes)
    taken |= {v.point_axis[p] for p in v.effects.scopes[id.split("/")[0]] if p in v.point_axis}
    shape = v.shape(id)
    keep: dict[int, str] = {}
    for d, (e, extent) in enumerate(zip(ixs, shape, strict=True)):
        axis = None if d in free else plain(v, e, extent)
        if axis is not None and axis not in taken:
            keep[d] = axis
            taken.add(axis)
    at: list[Expr] = []
    for d, extent in enumerate(shape):
        if d in keep:
            at.append(v.coordinate(keep[d]))
            continue
        x, axis = v.dimension(extent, taken)
        taken |= {axis} if axis else set()
        at.append(x)
    return tuple(at), taken


def kept(v: Values, node: int, own: Ixs, ixs: Ixs, pointer: str) -> int:
    """A load of the value `node`, which was made at `own`, at other indices."""
    p, free = v.program, v.program.free(node)
    if open_forms(p, node):
        raise fail(SCAN, "a scan inside an ordered loop is read under another index map than its own", pointer, stage=STAGE)
    place: list[Expr] = []
    where: list[Expr] = []
    shape: list[Expr] = []
    used: set[str] = set()
    for x, e in zip(own, ixs, strict=True):
        for a in sorted(coords(x) & free):
            # x is the coordinate plus or minus what does not depend on it: solved for the coordinate at e
            offset, mirror = v.fold(x - Coord(a)), v.fold(x + Coord(a))
            if any(a == x.axis for x in v.ordered.values()):
                continue
            place.append(Coord(a))
            where.append(v.fold(mirror - e) if a in coords(offset) else v.fold(e - offset))
            shape.append(v.extent_of[a])
            used |= {a, slice_axis(a)}
    steps = [r for r, x in v.ordered.items() if x.axis in free]
    inner = v.effects.around((*v.effects.loops[steps[-1]].outer, steps[-1])) if steps else ()
    for a in sorted(free - used - set(v.stepped(inner)), key=number):
        if members_of(a, free):
            continue
        if v.kind_of[a] == "seg":
            ops = {v.cutting[m.attrs[1]] for m in (p.nodes[i] for i in below(p, node)) if m.op == "State" and m.attrs[0] == a}
            raise Whole(ops, fail(SLICE, "a state of slices is read inside another loop", pointer, stage=STAGE))
        place.insert(0, Coord(a))
        where.insert(0, Coord(a))
        shape.insert(0, v.extent_of[a])
    n = p.nodes[node]
    key = (node, tuple(place))
    name = v.workspaces.get(key)
    # an axis that it is kept along and read at another place of is no point's, though points may have the same axis
    scope = frozenset((q, a) for q, a in v.point_axis.items() if a in free - used and q in v.at)
    if name is None:
        name = v.workspaces[key] = f"@ws{len(v.workspaces)}"
        v.views_kept[name] = n.dtype, tuple(shape)
        valid = members(v, v.const(True, "bool"), (), free)
        order = tuple(a for e in place for a in sorted(axes_in(e), key=number))
        v.inner.update({(name, n): inner[:n] for n in range(1, len(inner) + 1)} | {(name, len(inner) + 1): inner})
        v.kept[name] = Effect(name, v.alias_of(name), len(inner) + 1, tuple(place), (), node, valid, order, scope, pointer, inner=inner)
    exprs, deps = together(v, where)
    valid = inbounds(v, members(v, v.const(True, "bool"), ixs), exprs, deps, shape, False)
    load = v.make("Load", (name, len(inner) + 1, exprs), (valid, v.const(0, n.dtype), *deps), n.dtype)
    v.load_scopes[load] = v.load_scopes.get(load, scope) & scope
    v.load_loops.setdefault(load, frozenset())
    return load


def number(axis: str) -> tuple[int, int, int]:
    """Order of construction's axis names ``a<pool>.<number>`` (then ``.m``, ``.m1``, … for members)."""
    a, b, *mem = axis[1:].split(".")
    return int(a), int(b), 1 + int(mem[0][1:] or 0) if mem else 0


def needed(v: Values, stores: Sequence[Effect]) -> list[Effect]:
    """The effects that fill workspaces which the stores read, directly or not, in the order of their names."""
    found: set[str] = set()
    todo = list(stores)
    while todo:
        e = todo.pop()
        for i in below(v.program, list(e.roots)):
            n = v.program.nodes[i]
            if n.op == "Load" and n.attrs[0] in v.kept and n.attrs[0] not in found:
                found.add(n.attrs[0])
                todo.append(v.kept[n.attrs[0]])
    return [e for name, e in v.kept.items() if name in found]


__all__ = ["kept", "needed", "number", "own_axes", "plain", "together"]
