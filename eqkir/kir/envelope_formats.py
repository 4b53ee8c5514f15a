"""Enclosures of operations on encoded numbers: exact on exact codes, decided where all enclosed values agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from eqkir.kir import encodings, interval, interval_reduce
from eqkir.kir import interval_arithmetic as arithmetic
from eqkir.kir import interval_decision as decision
from eqkir.kir.envelope_machine import Enveloper, rule
from eqkir.kir.floats import Array
from eqkir.kir.interval import Num, both, exact, flags, less, move, plain
from eqkir.kir.interval_functions import unary
from eqkir.kir.reference_codes import Trap
from eqkir.kir.reference_formats import chosen, quantized


def _decoded(x: Num, f: Any) -> Num:
    """f32 values of codes; f8 values are decoded as they are."""
    if x.dtype == "f8e4m3fn":
        return decision.cast(plain(x), "f32")
    out = exact(f(x.lo))
    amb = None if x.amb is None else f(np.where(x.amb, np.uint8(0x11), np.uint8(0))) != 0
    return interval.settled(replace(out, amb=amb, nan=less(out.nan, amb)))


def _scale(x: Num) -> Num:
    if x.dtype == "f32":
        return plain(x)
    out = exact(encodings.scale(x.lo))
    return interval.settled(replace(out, amb=x.amb, nan=less(out.nan, x.amb)))


def _times(x: Num, y: Num) -> Num:
    """The rounded product, broadcasting."""
    a, b = interval.joined(x, y)
    return plain(arithmetic.mul(a, b))


@rule("scaled_contract")
def scaled_contract(m: Enveloper, op: Any) -> None:
    lhs = _decoded(m.env[op.lhs], lambda a: encodings.elements(a, op.lhs_format, 3))
    rhs = _decoded(m.env[op.rhs], lambda a: encodings.elements(a, op.rhs_format, 2))
    left = _times(lhs, interval.at(_scale(m.env[op.lhs_scale]), (..., None)))
    right = _times(rhs, interval.at(_scale(m.env[op.rhs_scale]), (slice(None), slice(None), None)))
    k = left.shape[2] * left.shape[3]
    a = move(lambda v: v.reshape(*v.shape[:2], k), left)
    b = move(lambda v: v.reshape(v.shape[0], k, v.shape[3]), right)
    m.env[op.results[0]] = interval_reduce.contract(a, b, "f32")


@rule("sparse_contract")
def sparse_contract(m: Enveloper, op: Any) -> None:
    lhs, rhs = (decision.cast(plain(m.env[x]), op.acc) for x in (op.lhs, op.rhs))
    meta = m.env[op.meta]
    codes = meta.lo
    if meta.amb is not None:  # a harmless place; its row is ambiguous
        odd = np.arange(codes.shape[-1]) % 2 if op.pattern == "two_of_four" else np.zeros(codes.shape[-1], np.int64)
        group = meta.amb
        if op.pattern == "two_of_four":
            group = np.repeat(group.reshape(*codes.shape[:-1], -1, 2).any(-1), 2, -1)
        codes = np.where(group, odd, codes).astype(np.uint8)
    places = encodings.places(codes, op.pattern)
    present = move(lambda v: chosen(places, v), rhs)
    out = move(lambda v: v[:, :, 0, :], interval_reduce.contract(interval.at(lhs, (slice(None), slice(None), None)), present, op.acc))
    if meta.amb is not None:
        amb = both(out.amb, np.broadcast_to(meta.amb.any(-1)[..., None], out.shape))
        out = interval.settled(replace(out, amb=amb, nan=less(out.nan, amb)))
    m.env[op.results[0]] = out


# ------------------------------------------------------------------------------------------------ q8_K
def _extreme(x: Num) -> Num:
    """The signed value of largest magnitude ``[..., 1]``; ambiguous where values of either sign may be it."""
    low, high = np.where((x.lo <= 0) & (x.hi >= 0), 0.0, np.minimum(np.abs(x.lo), np.abs(x.hi))), np.maximum(np.abs(x.lo), np.abs(x.hi))
    rival = high >= low.max(-1, keepdims=True)
    lo, hi = np.where(rival, x.lo, np.inf).min(-1, keepdims=True), np.where(rival, x.hi, -np.inf).max(-1, keepdims=True)
    tie = np.all(~rival | ((x.lo == x.hi) & (high == high.max(-1, keepdims=True))), -1, keepdims=True)  # exact rivals: the smaller one
    hi = np.where(tie, lo, hi)
    amb = both(None if x.amb is None else x.amb.any(-1, keepdims=True), (lo < 0) & (hi > 0))
    return interval.settled(Num("f32", lo, hi, None, amb))


@rule("quantize")
def quantize(m: Enveloper, op: Any) -> None:
    x = plain(m.env[op.x])
    if x.nan is not None or bool((np.isinf(x.lo) & (x.lo == x.hi)).any()):
        raise Trap("CAST", "q8_K of NaN or of an infinity")
    top = _extreme(x)
    zero = (top.lo == 0) & (top.hi == 0) & ~flags(top.amb)
    safe = Num("f32", np.where(zero, 1.0, top.lo), np.where(zero, 1.0, top.hi), None, top.amb)
    inverse = plain(arithmetic.div(exact(np.full(safe.shape, -127, np.float32)), safe))
    ds = plain(arithmetic.div(exact(np.ones(safe.shape, np.float32)), inverse))
    v = _times(x, inverse)
    rounded = unary("round_even", v)
    clipped = arithmetic.extremum("minimum", arithmetic.extremum("maximum", rounded, exact(np.full(v.shape, -128, np.float32))),
                                  exact(np.full(v.shape, 127, np.float32)))  # fmt: skip
    sure = (clipped.lo == clipped.hi) & ~flags(clipped.amb) & ~flags(clipped.nan)
    sure = sure | zero
    q = np.where(zero, 0, np.where(sure, clipped.lo, 0)).astype(np.int8)
    scale_sure = interval.known(ds) | zero
    value = encodings.pack_q8k(np.where(zero, 0, np.where(scale_sure, ds.lo, 0))[..., 0].astype(np.float32), q)
    sums = np.repeat(sure.reshape(*sure.shape[:-1], 16, 16).all(-1), 2, -1)
    amb = ~np.concatenate([np.repeat(scale_sure, 4, -1), sure, sums], -1)
    m.env[op.results[0]] = Num("u8", value, value, None, amb if amb.any() else None)


@rule("quantized_dot")
def quantized_dot(m: Enveloper, op: Any) -> None:
    x, y = m.env[op.lhs], m.env[op.rhs]
    out = exact(quantized(x.lo, y.lo))
    doubts: list[Array] = [quantized_flag(a, v.amb) for v, a in ((x, x.lo), (y, y.lo)) if v.amb is not None]
    if doubts:
        amb = np.zeros(out.shape, bool)
        for d in doubts:
            amb = amb | d.reshape(d.shape[0], *[1] * (len(out.shape) - d.ndim), *d.shape[1:])
        out = interval.settled(replace(out, amb=amb, nan=less(out.nan, amb)))
    m.env[op.results[0]] = out


def quantized_flag(records: Array, amb: Array) -> Array:
    """Which dots a doubtful byte of these records takes part in."""
    return np.broadcast_to(amb, records.shape).any((-2, -1))
