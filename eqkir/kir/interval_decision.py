"""Decisions on enclosures: comparisons, logic, selections, integers and casts. What may go either way is ambiguous."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqkir.base.dtypes import FLOATS, INTS, NUMPY, SIGNED, bits
from eqkir.kir import elementwise
from eqkir.kir.floats import grid
from eqkir.kir.interval import Num, both, exact, finish, known, less, reals, settled, zero_signs
from eqkir.kir.reference_codes import Trap


def compare(fn: str, x: Num, y: Num) -> Num:
    """Three-valued: decided where the intervals decide, else ambiguous."""
    if fn in ("gt", "ge"):
        return compare({"gt": "lt", "ge": "le"}[fn], y, x)
    if x.dtype not in FLOATS:
        v = elementwise.compare(fn, x.lo, y.lo)
        return Num("bool", v, v, None, both(x.amb, y.amb))
    point = (x.lo == x.hi) & (y.lo == y.hi)
    match fn:
        case "lt":
            yes, no = x.hi < y.lo, x.lo >= y.hi
        case "le":
            yes, no = x.hi <= y.lo, x.lo > y.hi
        case _:
            yes, no = point & (x.lo == y.lo), (x.hi < y.lo) | (y.hi < x.lo)
            if fn == "ne":
                yes, no = no, yes
    nan, amb = both(x.nan, y.nan), both(x.amb, y.amb)
    value = yes
    if nan is not None:
        value = np.where(nan, fn == "ne", value)
    unknown = less(both(amb, ~(yes | no)), nan)
    return Num("bool", value, value, None, unknown if unknown is not None and unknown.any() else None)


def logic(fn: str, x: Num, y: Num) -> Num:
    """and / or / xor on bools: a decided operand may decide the result."""
    v = elementwise.binary(fn, x.lo, y.lo)
    amb = both(x.amb, y.amb)
    if amb is not None and fn != "xor":
        dominant = fn == "or"
        decided = np.zeros(v.shape, bool)
        for s in (x, y):
            decided |= (s.lo == dominant) & (True if s.amb is None else ~s.amb)
        v, amb = np.where(decided, dominant, v), amb & ~decided
    return Num("bool", v, v, None, amb)


def select(c: Num, x: Num, y: Num) -> Num:
    """Where the condition is ambiguous the result covers both alternatives (floats), or is ambiguous (integers that differ)."""
    lo, hi = np.where(c.lo, x.lo, y.lo), np.where(c.lo, x.hi, y.hi)
    zeros = np.zeros(1, bool)
    xn, yn, xa, ya = (zeros if m is None else m for m in (x.nan, y.nan, x.amb, y.amb))
    nan, amb = np.where(c.lo, xn, yn), np.where(c.lo, xa, ya)
    if c.amb is not None:
        either = xa | ya | (xn ^ yn)
        if x.dtype in FLOATS:
            low, high = np.minimum(x.lo, y.lo), np.maximum(x.hi, y.hi)
            low, high = zero_signs(low, high, np.signbit(x.lo) == np.signbit(y.lo))
            lo, hi = np.where(c.amb, low, lo), np.where(c.amb, high, hi)
        else:
            either = either | (x.lo != y.lo)
        nan, amb = np.where(c.amb, xn & yn, nan), np.where(c.amb, either, amb)
    nan, amb = np.broadcast_to(nan, lo.shape), np.broadcast_to(amb, lo.shape)
    return settled(Num(x.dtype, lo, hi if x.dtype in FLOATS else lo, nan, amb))


def integer(fn: str, x: Num, y: Num) -> Num:
    """Integer arithmetic; ambiguous lanes compute on harmless operands."""
    amb = both(x.amb, y.amb)
    a, b = x.lo, y.lo
    if amb is not None and fn in ("floordiv", "mod", "shl", "shr"):
        a, b = np.where(amb, a.dtype.type(0), a), np.where(amb, b.dtype.type(1), b)
    v = elementwise.binary(fn, a, b)
    return Num(x.dtype, v, v, None, amb)


# ------------------------------------------------------------------------------------------------ casts
def cast(x: Num, dtype: str) -> Num:
    if dtype == x.dtype or NUMPY[dtype] == NUMPY[x.dtype]:
        return x
    if x.dtype not in FLOATS:
        v = elementwise.cast(np.where(x.amb, x.lo.dtype.type(0), x.lo) if x.amb is not None else x.lo, dtype)
        out = exact(v)
        return settled(replace(out, amb=x.amb, nan=less(out.nan, x.amb)))
    if dtype in FLOATS:
        ends = (x.lo, x.hi) if reals() else (grid(x.lo, dtype, False), grid(x.hi, dtype, False))  # narrowing rounds once
        return finish(dtype, *ends, known(x), x.nan, x.amb)
    if dtype == "bool":
        zero, other = (x.lo == 0) & (x.hi == 0), (x.lo > 0) | (x.hi < 0)
        nan = np.zeros(x.shape, bool) if x.nan is None else x.nan
        v = other | nan
        return Num("bool", v, v, None, both(x.amb, ~(zero | other | nan)))
    return _truncate(x, dtype)


def _truncate(x: Num, dtype: str) -> Num:
    lo, hi = np.trunc(x.lo), np.trunc(x.hi)
    low, high = float(np.iinfo(NUMPY[dtype]).min), 2.0 ** (bits(dtype) - (dtype in SIGNED))
    inside, outside = (lo >= low) & (hi < high), (hi < low) | (lo >= high)
    if x.nan is not None:
        outside = outside | x.nan
    if x.amb is not None:
        outside = outside & ~x.amb
    if outside.any():
        raise Trap("CAST", f"NaN, an infinity or a value out of range of {dtype}")
    amb = both(x.amb, (lo != hi) | ~inside)
    v = np.where(inside, lo, 0.0).astype(NUMPY[dtype])
    return Num(dtype, v, v, None, amb if amb is not None and amb.any() else None)


def bitcast(x: Num, dtype: str) -> Num:
    """Certain bits only (a NaN's payload is not certain)."""
    if x.dtype not in FLOATS:
        v = elementwise.bitcast(np.broadcast_to(x.lo, x.shape), dtype)
        out = exact(v)
        return settled(replace(out, amb=x.amb, nan=less(out.nan, x.amb)))
    bits_ = elementwise.bitcast(x.lo.astype(NUMPY[x.dtype]), dtype)
    sure = known(x)
    amb = None if sure.all() else ~sure
    if dtype in FLOATS:
        out = exact(bits_)
        return settled(replace(out, amb=amb, nan=less(out.nan, amb)))
    assert dtype in INTS
    return Num(dtype, bits_, bits_, None, amb)
