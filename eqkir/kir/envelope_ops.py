"""Enclosures of every operation: the arithmetic of `kir.interval` applied along the shapes of `kir.reference_ops`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY, WIDENED
from eqkir.kir import elementwise, interval, interval_functions, interval_reduce
from eqkir.kir import interval_arithmetic as arithmetic
from eqkir.kir import interval_decision as decision
from eqkir.kir.envelope import Enveloper, rule
from eqkir.kir.envelope_generic import generic
from eqkir.kir.floats import Array
from eqkir.kir.interval import Num, both, exact, joined, move, to_rank
from eqkir.kir.machine import spread
from eqkir.kir.reference_codes import Trap
from eqkir.kir.reference_ops import aligned_coords, reshaped, to_shape, transposed
from eqkir.kir.reference_structured import matrices, to_back


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
        return decision.logic(fn, x, y) if x.dtype == "bool" and fn in ("and", "or", "xor") else decision.integer(fn, x, y)
    match fn:
        case "add":
            return arithmetic.add(x, y)
        case "sub":
            return arithmetic.add(x, arithmetic.neg(y))
        case "mul":
            return arithmetic.mul(x, y, same)
        case "div":
            return arithmetic.div(x, y)
    return arithmetic.extremum(fn, x, y)


@rule("compare")
def compare(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = decision.compare(op.fn, *joined(m.env[op.x], m.env[op.y]))


@rule("fma")
def fma(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = arithmetic.fma(*joined(m.env[op.x], m.env[op.y], m.env[op.z]))


@rule("select")
def select(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = decision.select(*joined(m.env[op.cond], m.env[op.x], m.env[op.y]))


@rule("cast")
def cast(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = decision.cast(m.env[op.x], op.dtype)


@rule("bitcast")
def bitcast(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = decision.bitcast(m.env[op.x], op.dtype)


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
        value = decision.select(exact(a.valid), *joined(value, fill))
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
        generic(m, op)
        return
    x = m.env[op.xs[0]]
    acc = WIDENED.get(x.dtype, x.dtype) if op.fn == "sum" else x.dtype
    m.env[op.results[0]] = interval_reduce.builtin(op.fn, move(lambda a: to_back(a, op.axes), x), acc)


@rule("contract")
def contract(m: Enveloper, op: Any) -> None:
    x, y = (decision.cast(replace(m.env[k], raw=None, start=None), op.acc) for k in (op.lhs, op.rhs))
    a = move(lambda v: matrices(v, np.broadcast_to(y.lo, y.shape), op)[0], x)
    b = move(lambda v: matrices(np.broadcast_to(x.lo, x.shape), v, op)[1], y)
    shape = matrices(x.lo, y.lo, op)[2]
    m.env[op.results[0]] = move(lambda v: v.reshape(v.shape[0], *shape), interval_reduce.contract(a, b, op.acc))
