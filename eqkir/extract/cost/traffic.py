"""Bytes that a segment moves: through L2, and from and to DRAM with reuse between re-reads and between instances.

For one access (a view at one index map) of a segment with N instances, of which C = resident * S run at a time::

    request     N * executions * active lanes * bytes of an element           what instances ask for
    footprint   bytes one instance touches: own axes by their block, loop axes whole
    unique      bytes all instances touch: every axis of the coordinates whole
    l2          request * max(1, sector / (run * bytes)); 1 where the innermost loop runs along the last coordinate (its sectors stay in L1)
    dram        first read:  unique                                   where no instance axis is missing from the coordinates,
                                                                       or all data that instances share fits half of L2
                             waves * distinct tiles of a wave * footprint     else (within [unique, request])
                both times 1 + sector / (run * bytes): short runs open more DRAM pages
                re-read:     0 where C * footprint of all views fits half of L2, else as the first read

A *wave* is C consecutive program ids; its distinct tiles are counted by decoding them (`eqkir.extract.cost.space`), whatever the order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqkir.base.dtypes import itemsize
from eqkir.base.expr import Expr, coords
from eqkir.extract.cost.space import decode, distinct
from eqkir.extract.cost.space import size as order_size
from eqkir.extract.cost.strides import contiguous_axes, run_length
from eqkir.extract.cost.walk import Shape, Visit
from eqkir.program.abi import axis_of
from eqkir.program.model import Let, Segment, Store, order_labels
from eqkir.targets import Target

#: programs decoded to count the distinct tiles of a wave
WAVE_CAP = 4096
#: fraction of L2 that data waiting for reuse may fill
L2_SHARE = 0.5


@dataclass(slots=True)
class Access:
    visit: Visit
    view: str
    store: bool
    request: float
    footprint: float
    unique: float
    l2: float
    dram: float = 0.0
    labels: tuple[str, ...] = ()  # instance labels in the coordinates
    gaps: float = 1.0  # cost factor of short runs
    shared: bool = False


def _parts(v: Visit) -> list[tuple[str, tuple[Expr, ...], bool, bool]]:
    """(view, index map, whether it is written, whether atomically)."""
    if isinstance(v.item, Store):
        kept = [(v.item.into, v.item.at, True, False)] if v.item.into else []
        return [(v.item.view, v.item.ixs, True, v.item.mode != "store"), *kept]
    return [(v.item.attrs[0], v.item.attrs[2], False, False)] if isinstance(v.item, Let) and v.item.op == "Load" else []


def accesses(shape: Shape, target: Target, s: Segment, items: list[Visit], concurrent: float) -> list[Access]:
    """Every access of the segment with its bytes. `concurrent`: programs that run at a time on the whole machine."""
    n = shape.instances(s)
    instance = order_labels(s.order)
    own = {axis_of(x): x for x in instance}
    out: list[Access] = []
    for v, (view, ixs, store, atomic) in [(x, p) for x in items for p in _parts(x)]:
        axes = sorted(frozenset().union(*(coords(e) for e in ixs)) & shape.axes.keys())
        size = itemsize(shape.program.abi.view(view).dtype)
        labels = {axis_of(x): x for x in v.labels}
        request = n * v.trips * shape.product(v.labels, active=True) * size
        footprint = unique = float(size)
        for a in axes:
            unique *= shape.extent(a)
            footprint *= shape.active(own[a]) if a in own else shape.extent(a)
        dims = shape.dims(view)
        total = float(size)
        for d in dims:
            total *= d
        unique = min(unique, total) if axes else min(float(size), total)
        walked = bool(v.loops) and v.loops[-1].axis in contiguous_axes(ixs)
        run = run_length(ixs, lambda a, labels=labels: shape.active(labels[a]) if a in labels else 1.0, dims)  # type: ignore[misc]
        expansion = 1.0 if walked else max(1.0, target.sector_bytes / (run * size))
        used = tuple(x for x in instance if axis_of(x) in axes)
        shared = any(axis_of(x) not in axes and shape.pieces(x) > 1 for x in instance)
        gaps = 1.0 + target.sector_bytes / max(run * size, 4.0 * target.sector_bytes if walked else 0.0)
        # what is atomic is read and written where it lies, in L2
        out.append(Access(v, view, store, request, footprint, unique, request * expansion * (2 if atomic else 1), 0.0, used, gaps, shared))
    _dram(shape, target, s, out, n, concurrent)
    return out


def _dram(shape: Shape, target: Target, s: Segment, out: list[Access], n: float, concurrent: float) -> None:
    room = L2_SHARE * target.l2_bytes
    hot = sum({(a.view, a.labels): a.unique for a in out if a.shared and not a.store}.values())
    at_once = max(1.0, min(concurrent, n))
    held = at_once * sum({(a.view, _ixs(a)): a.footprint for a in out if not a.shared}.values())
    wave = None
    seen: set[tuple[str, tuple[Expr, ...]]] = set()
    for a in out:
        key = (a.view, _ixs(a))
        first = key not in seen
        seen.add(key)
        if not first and not a.store and (a.shared or held <= room):
            continue
        if not a.shared or a.store or hot <= room:
            a.dram = max(a.unique, n * a.footprint) if not a.shared else a.unique
            a.dram = min(a.dram, a.request) if not a.shared else a.dram
            continue
        if wave is None:
            wave = _wave(shape, s, at_once)
        tiles = distinct(wave, a.labels)
        a.dram = min(max(a.unique, n / at_once * tiles * a.footprint), a.request)


def _ixs(a: Access) -> tuple[Expr, ...]:
    return next((ixs for view, ixs, _, _ in _parts(a.visit) if view == a.view), ())


def _wave(shape: Shape, s: Segment, at_once: float) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    blocks = {x: int(shape.pieces(x)) for x in order_labels(s.order)}
    count = order_size(s.order, blocks)
    lid = np.arange(min(count, int(at_once), WAVE_CAP), dtype=np.int64)
    return decode(s.order, lid, blocks, max(1, shape.program.bindings.get(f"G:{s.group}", 1)))
