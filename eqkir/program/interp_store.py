"""Stores and atomic operations of the program interpreter: who writes, where old values are kept, who may meet in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from eqkir.program.abi import axis_of
from eqkir.program.interp_memory import Array, Write
from eqkir.program.model import Store, order_labels

if TYPE_CHECKING:
    from eqkir.program.interp_exec import Batch, Compiler

#: (batch, old values, active lanes or None, instance of each lane)
Keep = Callable[["Batch", Array, "Array | None", Array], None]


def store(k: Compiler, x: Store, where: str) -> Callable[[Batch], None]:
    """A store, or an atomic operation."""
    dims = k.lanes(x.dims)
    view = k.views[x.view]
    place = k.place(view, x.ixs, x.dims, dims, x.places, where)
    value, valid = k.operand(x.value, dims), k.operand(x.valid, dims)
    live, sizes = k.active(x.dims if k.structured else (), dims), k.sizes(dims)
    k.site += 1
    site, time, going = k.opts.site(k.site), k.time(x.view, x.version), k.going(dims)
    expected = k.operand(x.expected, dims) if x.expected >= 0 else None
    keep = kept(k, x, dims, where) if x.into else None
    domain, part = sharing(k, x, dims)

    def go(b: Batch) -> None:
        act = meet(live(b), going(b))
        mask = valid(b) if act is None else valid(b) & act
        e = place(b, mask)
        shape = (b.ids.size, *sizes)
        mask = np.broadcast_to(mask, shape)
        ids = np.broadcast_to(b.ids.reshape((-1,) + (1,) * len(sizes)), shape)
        given, w = np.broadcast_to(value(b), shape)[mask], Write(time(b), site, x.mode, where, domain)
        if not x.atomic:
            view.store(np.broadcast_to(e, shape)[mask], given, w, ids[mask])
            return
        expects = np.broadcast_to(expected(b), shape)[mask] if expected else None
        inside = np.broadcast_to(part(b), shape)[mask]
        how = (k.opts.order == "reversed", keep is None)
        old = view.atomic(np.broadcast_to(e, shape)[mask], given, expects, w, ids[mask], inside, how)
        if keep:
            found = np.zeros(shape, old.dtype)
            found[mask] = old
            keep(b, found, act, ids)

    return go


def kept(k: Compiler, x: Store, dims: tuple[str, ...], where: str) -> Keep:
    """Stores the old values of an atomic operation in its workspace, where lanes are active."""
    view, live = k.views[x.into], k.operand(x.live, dims)
    place = k.place(view, x.at, x.dims, dims, (), where)
    k.site += 1
    site, time = k.opts.site(k.site), k.time(x.into, 1)

    def go(b: Batch, old: Array, act: Array | None, ids: Array) -> None:
        on = np.broadcast_to(live(b) if act is None else live(b) & act, old.shape)
        e = np.broadcast_to(place(b, on), old.shape)
        view.store(e[on], old[on], Write(time(b), site, "store", where), ids[on])

    return go


def sharing(k: Compiler, x: Store, dims: tuple[str, ...]) -> tuple[int, Callable[[Batch], Array]]:
    """The number of an atomic operation's sharing domain (-1: it has none), and in which part of it each lane stands: instances of one
    part differ along shared axes only."""
    one = np.zeros((1,) * (1 + len(dims)), np.int64)
    own = [axis_of(d) for d in order_labels(k.segment.order)]
    shared = tuple(t for t in x.shared if t.split("#")[0] in own)
    if not shared:
        return -1, lambda b: one
    apart = [a for a in own if a not in {t.split("#")[0] for t in shared}]
    places: list[tuple[Any, int]] = [(k.coordinate(a, x.dims, dims), max(k.extent[a], 1)) for a in apart]

    def go(b: Batch) -> Array:
        out = one
        for f, n in places:
            out = out * n + f(b)
        return out

    return k.opts.domain((k.segment.group, shared)), go


def meet(a: Array | None, b: Array | None) -> Array | None:
    """Both sets; None is everything."""
    return b if a is None else a if b is None else a & b


__all__ = ["meet", "store"]
