"""Enclosures of every operation: the arithmetic of `kir.interval` applied along the shapes of `kir.reference_ops`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from eqkir.base.dtypes import FLOATS, WIDENED, bits
from eqkir.kir import elementwise, interval, interval_functions, interval_reduce
from eqkir.kir import interval_arithmetic as arithmetic
from eqkir.kir import interval_decision as decision
from eqkir.kir.envelope_generic import generic
from eqkir.kir.envelope_machine import Enveloper, rule
from eqkir.kir.floats import Array
from eqkir.kir.interval import Num, both, exact, joined, move, stacked
from eqkir.kir.interval_permissions import loosened, permitted
from eqkir.kir.randomness import philox, uniform
from eqkir.kir.reference_ops import reshaped, to_shape, transposed
from eqkir.kir.reference_structured import matrices, to_back


@rule("constant")
def constant(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = exact(elementwise.constant(op.value, op.dtype).reshape(1))


@rule("unary")
def unary(m: Enveloper, op: Any) -> None:
    m.env[op.results[0]] = permitted(op, lambda x: interval_functions.unary(op.fn, x), m.env[op.x])


@rule("binary")
def binary(m: Enveloper, op: Any) -> None:
    x, y = joined(m.env[op.x], m.env[op.y])
    out = permitted(op, lambda a, b: _binary(op.fn, a, b, op.x == op.y), x, y)
    m.env[op.results[0]] = _annihilated(out, x, y) if op.fn == "mul" and m.zero_products and x.dtype in FLOATS else out


def _annihilated(out: Num, x: Num, y: Num) -> Num:
    """A product under ``zero_products``: that of a zero and an infinity or NaN may be either."""

    def special(v: Num) -> Array:
        odd = np.isinf(v.lo) | np.isinf(v.hi)
        return odd if v.nan is None else odd | v.nan

    zero = [(v.lo == 0) & (v.hi == 0) & (True if v.nan is None else ~v.nan) & (True if v.amb is None else ~v.amb) for v in (x, y)]
    doubt = np.broadcast_to((zero[0] & special(y)) | (zero[1] & special(x)), out.shape)
    if not doubt.any():
        return out
    nan = None if out.nan is None else np.broadcast_to(out.nan, out.shape) & ~doubt
    amb = doubt if out.amb is None else doubt | out.amb
    lo, hi = np.where(doubt, -np.inf, out.lo), np.where(doubt, np.inf, out.hi)
    return Num(out.dtype, lo, hi, nan, amb)


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
    x, out = m.env[op.x], decision.cast(m.env[op.x], op.dtype)
    if op.results[0] in m.weights and {x.dtype, op.dtype} <= FLOATS and bits(op.dtype) < bits(x.dtype):
        out = loosened(out, 1, op.dtype)  # e / s rounded, or e rounded and divided later: half an ulp each
    m.env[op.results[0]] = out


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


@rule("join")
def join(m: Enveloper, op: Any) -> None:
    x, y = (interval.plain(v) for v in joined(m.env[op.x], m.env[op.y]))
    m.env[op.results[0]] = stacked([move(lambda a: a[..., None], v) for v in (x, y)], -1)


# ------------------------------------------------------------------------------------------------ random numbers
def _words(m: Enveloper, op: Any) -> tuple[Array, Array | None]:
    seed, counter = joined(m.env[op.seed], m.env[op.counter])
    return philox(seed.lo, counter.lo), both(seed.amb, counter.amb)


@rule("random_bits")
def random_bits(m: Enveloper, op: Any) -> None:
    words, amb = _words(m, op)
    m.env[op.results[0]] = Num("u32", words, words, None, amb)


@rule("random_uniform")
def random_uniform(m: Enveloper, op: Any) -> None:
    words, amb = _words(m, op)
    m.env[op.results[0]] = interval.settled(replace(exact(uniform(words)), amb=amb))


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
    m.env[op.results[0]] = move(lambda v: v.reshape(v.shape[0], *shape), interval_reduce.contract(a, b, op.acc, m.zero_products))
