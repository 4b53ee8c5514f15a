"""Enclosures of every operation: the arithmetic of `kir.interval` applied along the shapes of `kir.reference_ops`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY, WIDENED
from eqkir.kir import elementwise, interval, interval_functions, interval_reduce
from eqkir.kir.envelope import Enveloper, rule
from eqkir.kir.floats import Array, grid
from eqkir.kir.interval import Num, both, exact, move
from eqkir.kir.machine import spread
from eqkir.kir.reference_codes import Trap
from eqkir.kir.reference_ops import aligned_coords, reshaped, to_shape, transposed
from eqkir.kir.reference_structured import fold, leaves, matrices, to_back

#: generic reductions up to this length are followed along three trees, longer ones along two
SHORT = 256
#: safety factor on the radius over the followed trees (docs/numerics.md)
TREES = 2.0


def joined(*nums: Num) -> list[Num]:
    """Operands broadcast to one shape."""
    shape = spread([n.lo for n in nums])[0].shape
    return [n if n.shape == shape else move(lambda a: to_rank(a, shape), n) for n in nums]


def to_rank(a: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast with batch axis: missing axes go behind it."""
    return np.broadcast_to(a.reshape(a.shape[0], *[1] * (len(shape) - a.ndim), *a.shape[1:]), shape)


@rule("constant")
def constant(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = exact(elementwise.constant(op.value, op.dtype).reshape(1))


@rule("unary")
def unary(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = interval_functions.unary(op.fn, m.env[op.x])


@rule("binary")
def binary(m: Enveloper, op: Any) -> None:
    x, y = joined(m.env[op.x], m.env[op.y])
    m.env[op.results[0]] = _binary(op.fn, x, y, op.x == op.y)


def _binary(fn: str, x: Num, y: Num, same: bool) -> Num:
    if x.dtype not in FLOATS:
        return interval.logic(fn, x, y) if x.dtype == "bool" and fn in ("and", "or", "xor") else interval.integer(fn, x, y)
    match fn:
        case "add":
            return interval.add(x, y)
        case "sub":
            return interval.add(x, interval.neg(y))
        case "mul":
            return interval.mul(x, y, same)
        case "div":
            return interval.div(x, y)
    return interval.extremum(fn, x, y)


@rule("compare")
def compare(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = interval.compare(op.fn, *joined(m.env[op.x], m.env[op.y]))


@rule("fma")
def fma(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = interval.fma(*joined(m.env[op.x], m.env[op.y], m.env[op.z]))


@rule("select")
def select(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = interval.select(*joined(m.env[op.cond], m.env[op.x], m.env[op.y]))


@rule("cast")
def cast(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = interval.cast(m.env[op.x], op.dtype)


@rule("bitcast")
def bitcast(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = interval.bitcast(m.env[op.x], op.dtype)


# ------------------------------------------------------------------------------------------------ shape
@rule("full")
def full(m: Enveloper, op: Any) -> None:
    shape = m.shape(op.shape)
    m.env[op.results[0]] = move(lambda a: to_shape(a, shape), m.env[op.value])


@rule("broadcast")
def broadcast(m: Enveloper, op: Any) -> None:
    shape = m.shape(op.shape)
    m.env[op.results[0]] = move(lambda a: to_shape(a, shape), m.env[op.x])


@rule("reshape")
def reshape(m: Enveloper, op: Any) -> None:
    shape = m.shape(op.shape)
    m.env[op.results[0]] = move(lambda a: reshaped(a, shape), m.env[op.x])


@rule("transpose")
def transpose(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = move(lambda a: transposed(a, op.perm), m.env[op.x])


# ------------------------------------------------------------------------------------------------ memory
def _steering(m: Enveloper, op: Any) -> tuple[Array | None, Array | None]:
    """Where an access is in doubt: ambiguous coordinates, ambiguous validity (aligned by the caller)."""
    doubts = [m.env[c].amb for c in op.coords]
    coord = [d for d in doubts if d is not None]
    valid = m.env[op.valid].amb if op.valid else None
    return (np.logical_or.reduce(spread(coord)) if coord else None), valid


def _flag(a: Array | None, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape, bool) if a is None else to_rank(a, shape)


@rule("load")
def load(m: Enveloper, op: Any) -> None:
    param = m.binding.params[op.view]
    fill = m.env[op.fill] if op.fill else exact(np.zeros(1, NUMPY[param.dtype]))
    doubt, unsure = _steering(m, op)
    valid = m.env[op.valid].lo if op.valid else None
    if unsure is not None and valid is not None:  # reads where it may be valid; the result is ambiguous there
        valid = valid & ~unsure
    if doubt is not None:
        valid = ~doubt if valid is None else np.logical_and(*spread([valid, ~doubt]))
    coords, valid, (shaped,) = aligned_coords([m.env[c].lo for c in op.coords], valid, [fill.lo])
    if valid is not None:
        valid = np.broadcast_to(valid, np.broadcast_shapes(valid.shape, (1, *shaped.shape[1:])))
    a = m.memory.locate(op.view, coords, valid, m.batch)
    m.memory.read(op.view, param.role, a)
    cells, at = m.locate(op.view)
    if cells.lo.size == 0:
        m.env[op.results[0]] = move(lambda v: to_rank(v, a.address.shape), fill)
        return
    index = a.address + at
    lo, hi, nan, amb = cells.lo[index], cells.hi[index], cells.nan[index], cells.amb[index]
    value = Num(param.dtype, lo, hi if param.dtype in FLOATS else lo, nan if nan.any() else None, amb if amb.any() else None)
    if a.valid is not None:
        value = interval.select(exact(a.valid), *joined(value, fill))
    if doubt is not None or unsure is not None:
        amb = both(value.amb, _flag(doubt, value.shape) | _flag(unsure, value.shape))
        value = interval.settled(replace(value, amb=amb, nan=interval.less(value.nan, amb)))
    m.env[op.results[0]] = value


@rule("store")
def store(m: Enveloper, op: Any) -> None:
    doubt, unsure = _steering(m, op)
    valid = m.env[op.valid].lo if op.valid else None
    if unsure is not None and valid is not None:
        valid = valid | unsure
    if doubt is not None:
        valid = ~doubt if valid is None else np.logical_and(*spread([valid, ~doubt]))
    value = m.env[op.value]
    coords, valid, _ = aligned_coords([m.env[c].lo for c in op.coords], valid, [value.lo])
    a = m.memory.locate(op.view, coords, valid, m.batch)
    try:
        value = move(lambda v: to_rank(v, a.address.shape), value)
    except ValueError:
        raise Trap("SHAPE", f"value of shape {value.shape[1:]} stored at coordinates of shape {a.address.shape[1:]}") from None
    m.memory.write(op.view, a)
    cells, at = m.locate(op.view)
    keep = np.ones(a.address.shape, bool) if a.valid is None else a.valid
    index = (a.address + at)[keep]
    old = cells.amb[index]
    cells.lo[index], cells.hi[index] = value.lo[keep], value.hi[keep]
    cells.nan[index] = False if value.nan is None else value.nan[keep]
    cells.amb[index] = False if value.amb is None else value.amb[keep]
    if unsure is not None:
        cells.forget(index[_flag(unsure, a.address.shape)[keep] | old])
    if doubt is not None and doubt.any():  # somewhere in the view
        lo, hi = m.binding.views[op.view].span()
        cells.forget(np.arange(lo + at, hi + at))


# ------------------------------------------------------------------------------------------------ structured
@rule("reduce")
def reduce(m: Enveloper, op: Any) -> None:
    if op.combine is not None:
        _generic(m, op)
        return
    x = m.env[op.xs[0]]
    acc = WIDENED.get(x.dtype, x.dtype) if op.fn == "sum" else x.dtype
    m.env[op.results[0]] = interval_reduce.builtin(op.fn, move(lambda a: to_back(a, op.axes), x), acc)


@rule("contract")
def contract(m: Enveloper, op: Any) -> None:
    x, y = (interval.cast(replace(m.env[k], raw=None, start=None), op.acc) for k in (op.lhs, op.rhs))
    a = move(lambda v: matrices(v, np.broadcast_to(y.lo, y.shape), op)[0], x)
    b = move(lambda v: matrices(np.broadcast_to(x.lo, x.shape), v, op)[1], y)
    shape = matrices(x.lo, y.lo, op)[2]
    m.env[op.results[0]] = move(lambda v: v.reshape(v.shape[0], *shape), interval_reduce.contract(a, b, op.acc))


def _generic(m: Enveloper, op: Any) -> None:
    """A declared associative and commutative combine, followed along several trees with the reals enclosed (docs/numerics.md)."""
    xs = joined(*(m.env[x] for x in op.xs))
    n, others = _members(xs[0], op.axes)
    count, batch = int(np.prod(others, dtype=np.int64)), m.batch
    start = [m.env[i] for i in op.identities]
    if n == 0 or count == 0:
        out = [move(lambda v: to_rank(v, (batch, *others)), i) for i in start]
    else:
        flat = [move(lambda v: leaves([v], op.axes, batch)[0][0], x) for x in xs]
        with m.nested(count), interval.enclosing_reals():
            call = _combiner(m, op)
            item = _items(flat)
            trees = [fold(call, item, n, order) for order in ("pairwise", *(("reversed",) if n <= SHORT else ()))]
            first = [m.repeat(i, count) if i.shape[0] > 1 else i for i in start]
            trees.append(fold(call, lambda k: first if k == 0 else item(k - 1), n + 1, "forward"))
        wide = [[move(lambda v: np.broadcast_to(v, (batch * count,)), c) for c in t] for t in trees]
        out = [move(lambda v: v.reshape(batch, *others), _hull([t[c] for t in wide])) for c in range(len(start))]
    m.env.update(zip(op.results, out, strict=True))


def _members(x: Num, axes: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    n = int(np.prod([x.shape[k + 1] for k in axes], dtype=np.int64))
    return n, tuple(s for k, s in enumerate(x.shape[1:]) if k not in axes)


def _combiner(m: Enveloper, op: Any) -> Callable[[list[Num], list[Num]], list[Num]]:
    return lambda a, b: m.call(op.combine, [*a, *b])


def _items(flat: Sequence[Num]) -> Callable[[int], list[Num]]:
    return lambda k: [move(lambda v: v[k], f) for f in flat]


def _hull(trees: Sequence[Num]) -> Num:
    """One component over the followed trees: certain when all agree, else the largest radius times `TREES` about the first."""
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
    low = np.where(sharp | ~finite, lo, grid(mid - radius, dtype))
    high = np.where(sharp | ~finite, hi, grid(mid + radius, dtype))
    low, high = interval.zero_signs(low, high, signs.all((0, 1)) | ~signs.any((0, 1)))
    amb = interval.less(amb, nan)
    return interval.settled(Num(dtype, low, high, nan, amb))
