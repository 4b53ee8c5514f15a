"""Enclosures of memory: loads, stores, buffers, gathers. What may or may not happen leaves either contents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from eqkir.base.dtypes import NUMPY
from eqkir.kir import interval
from eqkir.kir import interval_decision as decision
from eqkir.kir.envelope_machine import Enveloper, cells_of, rule
from eqkir.kir.floats import Array
from eqkir.kir.interval import Num, both, exact, joined, move
from eqkir.kir.machine import spread, to_rank
from eqkir.kir.memory import Access, Resource, outside
from eqkir.kir.reference_codes import Trap
from eqkir.kir.reference_ops import aligned_coords, elements, shaped_by, to_shape


def steering(m: Enveloper, op: Any) -> tuple[Array | None, Array | None]:
    """Where an access is in doubt: ambiguous coordinates, ambiguous validity (aligned by the caller)."""
    doubts = [m.env[c].amb for c in op.coords]
    coord = [d for d in doubts if d is not None]
    valid = m.env[op.valid].amb if op.valid else None
    return (np.logical_or.reduce(spread(coord)) if coord else None), valid


def flag(a: Array | None, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape, bool) if a is None else to_rank(a, shape)


def certain_reads(m: Enveloper, op: Any) -> tuple[list[Array], Array | None, Array | None, Array | None]:
    """Coordinates, validity of a read that surely happens, and where its coordinates or its validity are in doubt."""
    doubt, unsure = steering(m, op)
    valid = m.env[op.valid].lo if op.valid else None
    if unsure is not None and valid is not None:  # the result is ambiguous there
        valid = valid & ~unsure
    if doubt is not None:
        valid = ~doubt if valid is None else np.logical_and(*spread([valid, ~doubt]))
    return [m.env[c].lo for c in op.coords], valid, doubt, unsure


def fill_of(m: Enveloper, op: Any, dtype: str) -> Num:
    return m.env[op.fill] if op.fill else exact(np.zeros(1, NUMPY[dtype]))


def doubtful(value: Num, doubt: Array | None, unsure: Array | None) -> Num:
    """Nothing is known where an access was in doubt."""
    if doubt is None and unsure is None:
        return value
    amb = both(value.amb, flag(doubt, value.shape) | flag(unsure, value.shape))
    return interval.settled(replace(value, amb=amb, nan=interval.less(value.nan, amb)))


@rule("load")
def load(m: Enveloper, op: Any) -> None:
    r = m.resource(op.view)
    fill = fill_of(m, op, r.dtype)
    coords, valid, doubt, unsure = certain_reads(m, op)
    coords, valid, (shaped,) = aligned_coords(coords, valid, [fill.lo])
    a = m.locate(r, coords, shaped_by(valid, shaped))
    m.memory.check_written(r, a)
    m.note(r, a, "read")
    cells, at = m.locate_cells(r)
    if cells.lo.size == 0:
        m.env[op.results[0]] = move(lambda v: to_rank(v, a.address.shape), fill)
        return
    value = cells.num(r.dtype, a.address + at)
    if a.valid is not None:
        value = decision.select(exact(a.valid), *joined(value, fill))
    m.env[op.results[0]] = doubtful(value, doubt, unsure)


@rule("gather")
def gather(m: Enveloper, op: Any) -> None:
    x = interval.plain(m.env[op.x])
    fill = fill_of(m, op, x.dtype)
    coords, valid, doubt, unsure = certain_reads(m, op)
    coords, valid, (shaped,) = aligned_coords(coords, valid, [fill.lo])
    index, ok = elements(coords, shaped_by(valid, shaped), x.shape, op.x)
    value = move(lambda a: a[index] if a.size else np.zeros(index[0].shape, a.dtype), x)
    if ok is not None:
        value = decision.select(exact(ok), *joined(value, fill))
    m.env[op.results[0]] = doubtful(value, doubt, unsure)


# ------------------------------------------------------------------------------------------------ writes
class Target:
    """Where a write goes: its elements (flat), those that are in doubt, and the values written there."""

    def __init__(self, m: Enveloper, op: Any, *names: str) -> None:
        doubt, unsure = steering(m, op)
        valid = m.env[op.valid].lo if op.valid else None
        if unsure is not None and valid is not None:
            valid = valid | unsure
        if doubt is not None:
            valid = ~doubt if valid is None else np.logical_and(*spread([valid, ~doubt]))
        self.r: Resource = m.resource(op.view)
        given: list[Num] = [interval.plain(m.env[getattr(op, n)]) for n in names]
        coords, valid, _ = aligned_coords([m.env[c].lo for c in op.coords], valid, [v.lo for v in given])
        self.access: Access = m.locate(self.r, coords, valid)
        shape = self.access.address.shape
        self.shape, self.lost = shape, doubt is not None and bool(doubt.any())
        self.doubt, self.unsure = doubt, unsure
        self.keep = np.ones(shape, bool) if self.access.valid is None else self.access.valid
        self.cells, self.at = m.locate_cells(self.r)
        self.index = (self.access.address + self.at)[self.keep]
        self.may = flag(unsure, shape)[self.keep] | m.doubt
        self.values: list[Num] = []
        for v in given:
            try:
                self.values.append(move(lambda a: to_rank(a, shape)[self.keep], v))
            except ValueError:
                raise Trap("SHAPE", f"value of shape {v.shape[1:]} stored at coordinates of shape {shape[1:]}") from None

    def scatter_lost(self) -> None:
        """An element somewhere in the resource was written, nobody knows which."""
        if self.lost:
            lo, hi = self.at, self.at + self.cells.lo.size
            if not self.r.copies:
                view_lo, view_hi = span(self.r)
                lo, hi = self.at + view_lo, self.at + view_hi
            self.cells.forget(np.arange(lo, hi))

    def either(self, new: Num, old: Num) -> Num:
        """The new contents where the write is certain, either elsewhere."""
        if not self.may.any():
            return new
        return decision.select(Num("bool", np.ones(new.shape, bool), np.ones(new.shape, bool), None, self.may), new, old)


def span(r: Resource) -> tuple[int, int]:
    """Lowest and one past the highest element address of a view."""
    if 0 in r.shape:
        return r.offset, r.offset
    reach = [(n - 1) * s for n, s in zip(r.shape, r.strides, strict=True)]
    return r.offset + sum(min(x, 0) for x in reach), r.offset + sum(max(x, 0) for x in reach) + 1


@rule("unique_scatter")
@rule("store")
def store(m: Enveloper, op: Any) -> None:
    t = Target(m, op, "value")
    m.note(t.r, t.access, "write")
    m.memory.mark_written(t.r, t.access, distinct=True)
    old = t.cells.num(t.r.dtype, t.index) if t.may.any() else t.values[0]
    t.cells.put(t.index, t.either(t.values[0], old))
    t.scatter_lost()


@rule("buffer")
def buffer(m: Enveloper, op: Any) -> None:
    name, shape = op.results[0], m.shape(op.shape)
    r = m.buffers[name] = m.memory.allocate(name, op.dtype, shape, m.batch)
    m.env[f"@{name}"] = m.every()
    whole = (m.batch, *shape)
    if op.init is None:
        cells = cells_of(exact(r.memory))
        cells.forget(np.arange(cells.lo.size))
    else:
        init = move(lambda a: np.broadcast_to(to_shape(a, shape), whole).reshape(-1), interval.plain(m.env[op.init]))
        cells = cells_of(init)
        r.allocation.written[...] = True
    m.keep(r, cells)


@rule("assume_in_bounds")
def assume_in_bounds(m: Enveloper, op: Any) -> None:
    x, n = m.env[op.x], m.resource(op.view).shape[op.axis]
    bad = outside(x.lo, n)
    if x.amb is not None:
        bad = bad & ~np.broadcast_to(x.amb, bad.shape)
    if bad.any():
        raise Trap("BOUNDS", f"{op.x} is assumed to be a coordinate on axis {op.axis} of {op.view}, whose extent is {n}, but is not")
    m.env[op.results[0]] = x
