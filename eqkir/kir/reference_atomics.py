"""Reference evaluators: atomics, scatters and histograms. Elements of one operation act in the order that `Choices.order` says."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqkir.base.dtypes import NUMPY
from eqkir.kir import elementwise
from eqkir.kir.floats import Array
from eqkir.kir.memory import Access, Resource, occurrences
from eqkir.kir.reference_codes import Trap
from eqkir.kir.reference_machine import Reference, rule
from eqkir.kir.reference_ops import aligned_coords, operands_of, placed, to_shape

#: function of an update -> the pointwise function
FUNCTIONS = {"max": "maximum", "min": "minimum"}


def apply(fn: str, old: Array, value: Array) -> Array:
    """The new contents. ``exchange`` takes the value."""
    return value if fn == "exchange" else elementwise.binary(FUNCTIONS.get(fn, fn), old, value)


def located(m: Reference, op: Any, *fields: str) -> tuple[Resource, Access, list[Array]]:
    """Resource, elements, and operands at the coordinates' shape."""
    r = m.resource(op.view)
    coords, valid, given = aligned_coords(*operands_of(m, op), [m.env[getattr(op, f)] for f in fields])
    a = m.locate(r, coords, valid)
    return r, a, [placed(op, v, a) for v in given]


def members(a: Access) -> tuple[Array, Array]:
    """The valid elements: their addresses, and where they stand in the flattened access."""
    flat = a.address.reshape(-1)
    at = np.arange(flat.size) if a.valid is None else np.flatnonzero(a.valid)
    return flat[at], at


def rounds(m: Reference, a: Access) -> list[tuple[Array, Array]]:
    """Groups of valid elements with distinct addresses, in the order in which they act: (addresses, places in the access)."""
    address, at = members(a)
    if m.choices.order == "reversed":
        address, at = address[::-1], at[::-1]
    return [(address[g], at[g]) for g in occurrences(address)]


@rule("atomic_load")
def atomic_load(m: Reference, op: Any) -> None:
    r, a, _ = located(m, op)
    m.memory.check_written(r, a)
    m.note(r, a, "atomic load")
    value = r.memory[a.address] if r.memory.size else np.zeros(a.address.shape, r.memory.dtype)
    m.env[op.results[0]] = value if a.valid is None else np.where(a.valid, value, np.zeros(1, r.memory.dtype))


@rule("atomic_store")
def atomic_store(m: Reference, op: Any) -> None:
    r, a, (value,) = located(m, op, "value")
    m.note(r, a, "atomic exchange")
    m.memory.mark_written(r, a, distinct=False)
    flat = value.reshape(-1)
    for address, at in rounds(m, a):
        r.memory[address] = flat[at]


def update(m: Reference, op: Any) -> None:
    """``atomic_FN``: the old values, and the new contents."""
    fn = op.op.removeprefix("atomic_")
    r, a, (value,) = located(m, op, "value")
    m.memory.check_written(r, a)
    m.note(r, a, f"atomic {fn}")
    m.memory.mark_written(r, a, distinct=False)
    flat, old = value.reshape(-1), np.zeros(a.address.size, r.memory.dtype)
    for address, at in rounds(m, a):
        old[at] = r.memory[address]
        r.memory[address] = apply(fn, old[at], flat[at])
    if op.results:
        m.env[op.results[0]] = old.reshape(a.address.shape)


for _name in ("exchange", "add", "max", "min", "and", "or", "xor"):
    rule(f"atomic_{_name}")(update)


def same_bits(x: Array, y: Array) -> Array:
    """Elementwise equality of bits."""
    u = f"u{x.dtype.itemsize}"
    return np.asarray(np.ascontiguousarray(x).view(u) == np.ascontiguousarray(y).view(u))


@rule("atomic_compare_exchange")
def compare_exchange(m: Reference, op: Any) -> None:
    r, a, (expected, value) = located(m, op, "expected", "value")
    m.memory.check_written(r, a)
    m.note(r, a, "atomic compare_exchange")
    m.memory.mark_written(r, a, distinct=False)
    want, flat = expected.reshape(-1), value.reshape(-1)
    old, success = np.zeros(a.address.size, r.memory.dtype), np.zeros(a.address.size, bool)
    for address, at in rounds(m, a):
        old[at] = r.memory[address]
        success[at] = same_bits(old[at], want[at])
        r.memory[address] = np.where(success[at], flat[at], old[at])
    m.env.update(zip(op.results, (old.reshape(a.address.shape), success.reshape(a.address.shape)), strict=True))


@rule("scatter_reduce")
def scatter_reduce(m: Reference, op: Any) -> None:
    """One after another, or (``pairwise``) the values of an element among themselves first."""
    r, a, (value,) = located(m, op, "value")
    m.memory.check_written(r, a)
    m.note(r, a, f"reduce {op.fn}")
    m.memory.mark_written(r, a, distinct=False)
    flat = value.reshape(-1)
    groups = rounds(m, a)
    if m.choices.order != "pairwise" or not groups:
        for address, at in groups:
            r.memory[address] = apply(op.fn, r.memory[address], flat[at])
        return
    total, place = flat[groups[0][1]].copy(), {int(x): k for k, x in enumerate(groups[0][0])}
    for address, at in groups[1:]:
        k = np.asarray([place[int(x)] for x in address])
        total[k] = apply(op.fn, total[k], flat[at])
    address = groups[0][0]
    r.memory[address] = apply(op.fn, r.memory[address], total)


# ------------------------------------------------------------------------------------------------ histogram
def counted(x: Array, valid: Array | None, bins: int, dtype: str) -> Array:
    """``[batch, bins]`` wrapping counts. Traps on a valid value outside 0 .. bins - 1."""
    batch = x.shape[0] if valid is None else max(x.shape[0], valid.shape[0])
    x = np.broadcast_to(x, (batch, *x.shape[1:])).reshape(batch, -1)
    ok = np.ones(x.shape, bool) if valid is None else np.broadcast_to(valid, (batch, *valid.shape[1:])).reshape(batch, -1)
    bad = ok & ((x < 0) | (x >= bins))
    if bad.any():
        raise Trap("BOUNDS", f"value {int(x[bad][0])} in a histogram of {bins} bins")
    lanes = np.broadcast_to(np.arange(batch)[:, None], x.shape)
    flat = lanes[ok] * bins + x[ok].astype(np.int64)
    return np.bincount(flat, minlength=batch * bins).reshape(batch, bins).astype(np.int64).astype(NUMPY[dtype])


@rule("histogram")
def histogram(m: Reference, op: Any) -> None:
    x, bins = m.env[op.x], m.shape([op.bins])[0]
    valid = to_shape(m.env[op.valid], x.shape[1:]) if op.valid else None
    m.env[op.results[0]] = counted(x, valid, bins, op.dtype)
