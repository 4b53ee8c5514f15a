"""Enclosures of generic reductions: an author's combine followed along several trees (derivation: docs/numerics.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from eqkir.base.dtypes import FLOATS
from eqkir.kir import interval
from eqkir.kir.envelope_machine import Enveloper
from eqkir.kir.floats import Array, grid
from eqkir.kir.interval import Num, at, both, joined, move, unit
from eqkir.kir.machine import to_rank
from eqkir.kir.model import Binary, Cast, Fma, Unary
from eqkir.kir.reference_structured import leaves

#: safety factor on the largest radius over the followed trees
TREES = 2.0
#: roundings at the largest magnitude that another tree may have where the followed ones have none
ROUNDINGS = 8
#: pointwise functions that pass values on or decide; the others round (or may)
DECIDING = (
    "neg", "abs", "not", "isnan", "isinf", "isfinite", "floor", "ceil", "round_even", "and", "or", "xor", "shl", "shr", "floordiv", "mod",
    "maximum", "minimum", "maximum_num", "minimum_num",
)  # fmt: skip


def generic(m: Enveloper, op: Any) -> None:
    """A declared associative and commutative combine, followed along three trees with the reals enclosed (docs/numerics.md)."""
    xs = joined(*(m.env[x] for x in op.xs))
    n, others = _members(xs[0], op.axes)
    count, batch = int(np.prod(others, dtype=np.int64)), m.batch
    start = [m.env[i] for i in op.identities]
    if n == 0 or count == 0:
        out = [move(lambda v: to_rank(v, (batch, *others)), i) for i in start]
    else:
        flat = [move(lambda v: leaves([v], op.axes, batch)[0][0], x) for x in xs]  # [n, batch * count]
        with interval.enclosing_reals():
            trees = [*_sequential(m, op, flat, start, count), _balanced(m, op, flat, count)]
        rooms = _rooms(op, flat, trees)
        out = [move(lambda v: v.reshape(batch, *others), hull([t[c] for t in trees], rooms[c])) for c in range(len(start))]
    m.env.update(zip(op.results, out, strict=True))


def _members(x: Num, axes: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    n = int(np.prod([x.shape[k + 1] for k in axes], dtype=np.int64))
    return n, tuple(s for k, s in enumerate(x.shape[1:]) if k not in axes)


def _sequential(m: Enveloper, op: Any, flat: Sequence[Num], start: Sequence[Num], count: int) -> list[list[Num]]:
    """The two sequential trees, forward and reversed, side by side and both from the identity."""
    n, size = flat[0].shape[0], flat[0].shape[1]
    with m.nested(2 * count):
        state = [move(lambda v: np.broadcast_to(v, (2 * size,)), m.repeat(i, 2 * count)) for i in start]
        ways = [move(lambda v: np.stack([v, v[::-1]], -1).reshape(n, 2 * size), f) for f in flat]
        for k in range(n):
            state = m.call(op.combine, [*state, *(at(w, k) for w in ways)])
    both_ways = [_shaped(_like(c, 2 * size), size, 2) for c in state]
    return [[at(c, (slice(None), k)) for c in both_ways] for k in (0, 1)]


def _balanced(m: Enveloper, op: Any, flat: Sequence[Num], count: int) -> list[Num]:
    """The balanced tree, a level at a time."""
    level = [move(lambda v: v.T, f) for f in flat]
    while (n := level[0].shape[1]) > 1:
        pairs = n // 2
        with m.nested(count * pairs):
            sides = [[_shaped(at(c, (slice(None), slice(k, 2 * pairs, 2))), -1) for c in level] for k in (0, 1)]
            done = [_like(c, p.shape[0]) for c, p in zip(m.call(op.combine, [*sides[0], *sides[1]]), sides[0], strict=True)]
        level = [_append(_shaped(d, -1, pairs), c, 2 * pairs) for d, c in zip(done, level, strict=True)]
    return [at(c, (slice(None), 0)) for c in level]


def _shaped(x: Num, *shape: int) -> Num:
    return move(lambda v: v.reshape(shape), x)


def _like(x: Num, size: int) -> Num:
    return move(lambda v: np.broadcast_to(v, (size,)), x)


def _append(x: Num, rest: Num, start: int) -> Num:
    """`x` followed by the columns of `rest` from `start` on (at most one)."""
    if rest.shape[1] == start:
        return x

    def join(a: Array | None, b: Array | None) -> Array | None:
        if a is None and b is None:
            return None
        a, b = (np.zeros(n.shape, bool) if v is None else v for v, n in ((a, x), (b, rest)))
        return np.concatenate([a, b[:, start:]], 1)

    lo = np.concatenate([x.lo, rest.lo[:, start:]], 1)
    hi = np.concatenate([x.hi, rest.hi[:, start:]], 1) if x.dtype in FLOATS else lo
    return Num(x.dtype, lo, hi, join(x.nan, rest.nan), join(x.amb, rest.amb))


class Room(NamedTuple):
    """What other trees than the followed ones may do to a component that is computed, not chosen: `floor`, the radius that roundings
    at the largest magnitude ask for; `infinite`: an infinity among the members, which other trees may turn into NaN."""

    floor: Array
    infinite: Array


def computed(op: Any) -> list[bool]:
    """Which yields of a combine are computed by rounding operations; the others are chosen among what was given."""
    rounding: set[str] = set()
    for o in op.combine.body:
        rounds = isinstance(o, (Fma, Cast)) or (isinstance(o, (Binary, Unary)) and o.fn not in DECIDING)
        if rounds or any(x in rounding for x in o.operands()):
            rounding.update(o.results)
    return [y in rounding for y in op.combine.yields]


def room(dtype: str, count: Array | int, largest: Array, infinite: Array) -> Room:
    """The room of `count` members whose states have at most the magnitude `largest`."""
    return Room(np.minimum(np.maximum(np.asarray(count) - 1, 0), ROUNDINGS) * unit(dtype) * largest, infinite)


def magnitude(x: Num) -> tuple[Array, Array]:
    """The largest finite |x|, elementwise, and where x may be infinite."""
    size = np.maximum(np.abs(x.lo), np.abs(x.hi)).astype(np.float64)
    amb, nan = (np.zeros(x.shape, bool) if v is None else v for v in (x.amb, x.nan))
    return np.where(np.isfinite(size) & ~nan, size, 0.0), np.isinf(size) & ~amb


def _rooms(op: Any, flat: Sequence[Num], trees: Sequence[Sequence[Num]]) -> list[Room | None]:
    """By component: members lie along axis 0 of `flat`."""
    leaves_ = [magnitude(f) if f.dtype in FLOATS else None for f in flat]
    infinite = np.logical_or.reduce([v[1].any(0) for v in leaves_ if v is not None] or [np.zeros(1, bool)])
    out: list[Room | None] = []
    for c, (leaf, by_rounding) in enumerate(zip(leaves_, computed(op), strict=True)):
        if leaf is None or not by_rounding:
            out.append(None)
            continue
        largest = np.maximum.reduce([leaf[0].max(0), *(magnitude(t[c])[0] for t in trees)])
        out.append(room(flat[c].dtype, flat[c].shape[0], largest, infinite))
    return out


def hull(trees: Sequence[Num], space: Room | None = None) -> Num:
    """One component over the followed trees: certain when all agree, else the largest radius times `TREES` about the first.

    With `space` (the component is computed) the radius is at least its floor, and infinities are ambiguous.
    """
    dtype = trees[0].dtype
    amb = None
    for t in trees:
        amb = both(amb, t.amb)
    if dtype not in FLOATS:
        differ = np.any([t.lo != trees[0].lo for t in trees], 0)
        return Num(dtype, trees[0].lo, trees[0].lo, None, both(amb, differ if differ.any() else None))
    nans = [np.zeros(t.shape, bool) if t.nan is None else t.nan for t in trees]
    nan, some = np.logical_and.reduce(nans), np.logical_or.reduce(nans)
    amb = both(amb, some & ~nan)
    lo, hi = np.minimum.reduce([t.lo for t in trees]), np.maximum.reduce([t.hi for t in trees])
    sharp = lo == hi
    signs = np.signbit([[t.lo, t.hi] for t in trees])
    mid = trees[0].lo / 2 + trees[0].hi / 2
    radius = np.maximum(hi - mid, mid - lo) * TREES
    finite = np.isfinite(lo) & np.isfinite(hi)
    if space is not None:
        radius, sharp = np.maximum(radius, space.floor), sharp & (space.floor == 0)
        amb = both(amb, ~finite & ~nan, nan & space.infinite)
        nan = nan & ~space.infinite
    low = np.where(sharp | ~finite, lo, grid(mid - radius, dtype))
    high = np.where(sharp | ~finite, hi, grid(mid + radius, dtype))
    low, high = interval.zero_signs(low, high, signs.all((0, 1)) | ~signs.any((0, 1)))
    amb = interval.less(amb, nan)
    return interval.settled(Num(dtype, low, high, nan, amb))
