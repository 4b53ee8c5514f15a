"""Numbers that enclose every legal result: pointwise arithmetic of the error envelope.

A float element is an interval ``[lo, hi]`` with ends on the grid of its dtype (f64 here), which holds what *any* legal
implementation computes. Correctly rounded operations are monotone in each operand, so rounding the exact ends encloses them, and
exact operands stay exact: ``lo == hi`` says the bits are certain, the sign of zero included; ``[-0.0, +0.0]`` is a zero of
unknown sign. `nan` marks elements that are certainly NaN, `amb` (ambiguous) those of which nothing is known (their interval is
`[-inf, inf]`, so that no operation takes it for certain). Integers and bools are exact or ambiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from eqkir.base.dtypes import FLOATS, INTS, NUMPY, SIGNED, bits
from eqkir.kir import elementwise, floats
from eqkir.kir.elementwise import NAME
from eqkir.kir.floats import NARROW, Array, grid, ulp
from eqkir.kir.reference_codes import Trap

Mask = Array | None  # None: nowhere


class Start(NamedTuple):
    """A sum that may begin its accumulator at another operand: exact bounds of the sum, sum of magnitudes, number of terms."""

    lo: Array
    hi: Array
    size: Array
    n: int


@dataclass(frozen=True, slots=True, eq=False)
class Num:
    """A tensor of enclosures; arrays have the batch axis in front. Integers and bools have ``lo is hi`` in their own dtype."""

    dtype: str
    lo: Array
    hi: Array
    nan: Mask = None
    amb: Mask = None
    raw: tuple[Array, Array] | None = None  # ends of a float product before rounding (it may be fused)
    start: Start | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.lo.shape)


def both(*masks: Mask) -> Mask:
    """Elementwise or."""
    out: Mask = None
    for m in masks:
        out = m if out is None else out if m is None else out | m
    return out


def move(f: Callable[[Array], Array], x: Num) -> Num:
    """Pure data movement: `f` on every array of the enclosure."""
    lo = f(x.lo)
    nan, amb = (None if m is None else f(m) for m in (x.nan, x.amb))
    raw = None if x.raw is None else (f(x.raw[0]), f(x.raw[1]))
    start = None if x.start is None else Start(f(x.start.lo), f(x.start.hi), f(x.start.size), x.start.n)
    return Num(x.dtype, lo, lo if x.hi is x.lo else f(x.hi), nan, amb, raw, start)


def settled(x: Num) -> Num:
    """Drop empty masks; open the intervals of ambiguous floats."""
    nan = x.nan if x.nan is not None and x.nan.any() else None
    amb = x.amb if x.amb is not None and x.amb.any() else None
    if amb is None or x.dtype not in FLOATS:
        return replace(x, nan=nan, amb=amb)
    return replace(x, lo=np.where(amb, -np.inf, x.lo), hi=np.where(amb, np.inf, x.hi), nan=nan, amb=amb)


def less(m: Mask, without: Mask) -> Mask:
    """m and not without."""
    return m if m is None or without is None else m & ~without


def exact(a: Array) -> Num:
    """Values known exactly."""
    dtype = NAME[a.dtype]
    if dtype not in FLOATS:
        return Num(dtype, a, a)
    v = a.astype(np.float64)
    nan = np.isnan(v)
    if not nan.any():
        return Num(dtype, v, v)
    v = np.where(nan, 0.0, v)
    return Num(dtype, v, v, nan)


def known(x: Num) -> Array:
    """Elements whose bits are certain."""
    k = (x.lo == x.hi) & (np.signbit(x.lo) == np.signbit(x.hi)) if x.dtype in FLOATS else np.ones(x.shape, bool)
    for m in (x.nan, x.amb):
        k = k if m is None else k & ~m
    return np.asarray(k)


def zero_signs(lo: Array, hi: Array, certain: Array) -> tuple[Array, Array]:
    """Zeros whose sign is not certain become [-0.0, +0.0]."""
    loose = (lo == 0) & (hi == 0) & ~certain
    if not loose.any():
        return lo, hi
    return np.where(loose, -0.0, lo), np.where(loose, 0.0, hi)


_REALS = False


@contextmanager
def enclosing_reals() -> Iterator[None]:
    """Inside, every operation encloses its real result as well as the rounded ones (exact operations stay exact)."""
    global _REALS
    before, _REALS = _REALS, True
    try:
        yield
    finally:
        _REALS = before


def reals() -> bool:
    """Whether `enclosing_reals` is in force."""
    return _REALS


def finish(
    dtype: str, lo: Array, hi: Array, certain: Array, nan: Mask, amb: Mask, direct: bool = False, exact_op: bool = False
) -> Num:
    """Round exact (outward) ends to the grid.

    `certain`: the operands' bits were certain, so the sign of a zero is; `direct`: also one rounding without f32; `exact_op`:
    the ends are on the grid already.
    """
    ends = [(grid(lo, dtype), grid(hi, dtype))]
    if direct and dtype in NARROW:
        ends.append((grid(lo, dtype, False), grid(hi, dtype, False)))
    low, high = np.minimum(ends[0][0], ends[-1][0]), np.maximum(ends[0][1], ends[-1][1])
    if _REALS and not exact_op:
        low = np.where(low > lo, grid(low - ulp(low, dtype), dtype), low)
        high = np.where(high < hi, grid(high + ulp(high, dtype), dtype), high)
    low, high = zero_signs(low, high, certain)
    bad = np.isnan(low) | np.isnan(high)
    if dtype == "f8e4m3fn":  # overflow is invalid input: certain -> trap, possible -> nothing is known
        over = (np.isinf(low) | np.isinf(high)) & ~(False if nan is None else nan) & ~(False if amb is None else amb)
        if (over & (low == high)).any():
            raise Trap("CAST", "overflow of f8e4m3fn, which has no infinity; clamp explicitly")
        amb = both(amb, over)
    amb = less(both(amb, bad if bad.any() else None), nan)
    if nan is not None:
        low, high = np.where(nan, 0.0, low), np.where(nan, 0.0, high)
    return settled(Num(dtype, low, high, nan, amb))


def fused_ends(x: Num) -> tuple[Array, Array]:
    """Ends of an addend: a product may be added before it is rounded."""
    return (x.lo, x.hi) if x.raw is None else (np.minimum(x.lo, x.raw[0]), np.maximum(x.hi, x.raw[1]))


def exact_sum(x: Array, y: Array, down: bool, dtype: str) -> Array:
    """x + y rounded outward in f64 where f64 is not enough (for f64 itself: to nearest, which is the operation)."""
    s = x + y
    if dtype == "f64" and not _REALS:
        return s
    err = floats.two_sum_error(x, y, s)
    lost = np.isinf(s) & np.isfinite(x) & np.isfinite(y)
    off = ((err < 0) if down else (err > 0)) | lost
    return np.where(off, np.nextafter(s, -np.inf if down else np.inf), s) if off.any() else s


def add(x: Num, y: Num) -> Num:
    """x + y, either operand possibly a fused product, a sum possibly started at the other operand."""
    (xl, xh), (yl, yh) = fused_ends(x), fused_ends(y)
    nan, amb = both(x.nan, y.nan), both(x.amb, y.amb)
    lo, hi = exact_sum(xl, yl, True, x.dtype), exact_sum(xh, yh, False, x.dtype)
    opposite = ((xh == np.inf) & (yl == -np.inf)) | ((xl == -np.inf) & (yh == np.inf))
    if opposite.any():
        sure = opposite & (xl == xh) & (yl == yh)
        nan, amb = both(nan, sure), both(amb, opposite & ~sure)
    for s, o in ((x, y), (y, x)):
        if s.start is not None:
            t, u = s.start, floats.FORMATS[x.dtype].u
            slack = gamma(t.n + 1, u) * (t.size + np.maximum(np.abs(o.lo), np.abs(o.hi)))
            wide = np.isfinite(slack)
            lo = np.where(wide, np.minimum(lo, t.lo + o.lo - slack), lo)
            hi = np.where(wide, np.maximum(hi, t.hi + o.hi + slack), hi)
    fused = x.raw is not None or y.raw is not None
    return finish(x.dtype, lo, hi, known(x) & known(y), nan, amb, direct=fused)


def gamma(n: int, u: float) -> float:
    """n u / (1 - n u), the bound for n roundings (Higham, Accuracy and Stability of Numerical Algorithms, 3.1)."""
    return n * u / (1 - n * u) if n * u < 1 else float("inf")


def neg(x: Num) -> Num:
    if x.dtype not in FLOATS:
        return replace(x, lo=(v := elementwise.unary("neg", x.lo)), hi=v)
    raw = None if x.raw is None else (-x.raw[1], -x.raw[0])
    return Num(x.dtype, -x.hi, -x.lo, x.nan, x.amb, raw)


def _candidates(f: np.ufunc, x: Num, y: Num) -> tuple[Array, Array]:
    c = [f(a, b) for a in (x.lo, x.hi) for b in (y.lo, y.hi)]
    return np.fmin(np.fmin(c[0], c[1]), np.fmin(c[2], c[3])), np.fmax(np.fmax(c[0], c[1]), np.fmax(c[2], c[3]))


def mul(x: Num, y: Num, square: bool = False) -> Num:
    """x * y; `square`: both are the same value."""
    nan, amb = both(x.nan, y.nan), both(x.amb, y.amb)
    for a, b in ((x, y), (y, x)):
        inf = (a.lo == -np.inf) | (a.hi == np.inf)
        if inf.any():
            undefined = inf & (b.lo <= 0) & (b.hi >= 0)
            sure = undefined & (a.lo == a.hi) & (b.lo == b.hi)
            nan, amb = both(nan, sure), both(amb, undefined & ~sure)
    lo, hi = _candidates(np.multiply, x, y)
    if square:
        lo = np.where((x.lo <= 0) & (x.hi >= 0), 0.0, lo)
    certain = known(x) & known(y)
    raw_lo, raw_hi = _enclose(lo, hi, x, y) if x.dtype == "f64" else (lo, hi)
    if square:
        raw_lo = np.maximum(raw_lo, 0.0)
    out = finish(x.dtype, *((raw_lo, raw_hi) if _REALS else (lo, hi)), certain, nan, amb)
    lo, hi = raw_lo, raw_hi
    if out.nan is not None:
        lo, hi = np.where(out.nan, 0.0, lo), np.where(out.nan, 0.0, hi)
    if out.amb is not None:
        lo, hi = np.where(out.amb, -np.inf, lo), np.where(out.amb, np.inf, hi)
    return replace(out, raw=(lo, hi))


def div(x: Num, y: Num) -> Num:
    nan, amb = both(x.nan, y.nan), both(x.amb, y.amb)
    certain = known(x) & known(y)
    spans = (y.lo <= 0) & (y.hi >= 0)
    if spans.any():
        pole = spans & (y.lo == 0) & (y.hi == 0)
        sure = pole & (x.lo == 0) & (x.hi == 0)
        away = pole & ((x.lo > 0) | (x.hi < 0)) & (np.signbit(y.lo) == np.signbit(y.hi))
        nan, amb = both(nan, sure), both(amb, spans & ~sure & ~away)
    inf = ((x.lo == -np.inf) | (x.hi == np.inf)) & ((y.lo == -np.inf) | (y.hi == np.inf))
    if inf.any():
        sure = inf & (x.lo == x.hi) & (y.lo == y.hi)
        nan, amb = both(nan, sure), both(amb, inf & ~sure)
    lo, hi = _candidates(np.divide, x, y)
    if x.dtype != "f64" or _REALS:
        lo, hi = _enclose(lo, hi, x, y)
    return finish(x.dtype, lo, hi, certain, nan, amb)


def outward(lo: Array, hi: Array) -> tuple[Array, Array]:
    """One f64 step outward; zeros and infinities are exact."""
    return (
        np.where((lo == 0) | np.isinf(lo), lo, np.nextafter(lo, -np.inf)),
        np.where((hi == 0) | np.isinf(hi), hi, np.nextafter(hi, np.inf)),
    )


def _enclose(lo: Array, hi: Array, x: Num, y: Num) -> tuple[Array, Array]:
    """Ends of x * y or x / y, rounded in f64 (perhaps to zero or infinity), one step outward within the certain sign.

    A certain zero or infinity among the operands makes an exact result.
    """
    keep = np.zeros(lo.shape, bool)
    for v in (x, y):
        keep |= (v.lo == v.hi) & ((v.lo == 0) | np.isinf(v.lo))
    plus = ((x.lo >= 0) & (y.lo >= 0)) | ((x.hi <= 0) & (y.hi <= 0))
    minus = ((x.lo >= 0) & (y.hi <= 0)) | ((x.hi <= 0) & (y.lo >= 0))
    low, high = np.nextafter(lo, -np.inf), np.nextafter(hi, np.inf)
    low, high = np.where(plus & (low < 0), 0.0, low), np.where(minus & (high > 0), -0.0, high)
    return np.where(keep, lo, low), np.where(keep, hi, high)


def fma(x: Num, y: Num, z: Num) -> Num:
    """x * y + z with one rounding (narrow dtypes: by way of f32 or directly)."""
    p = mul(x, y)
    if x.dtype == "f64":
        tight = known(x) & known(y) & known(z) & (not _REALS)
        loose = add(replace(p, lo=p.raw[0], hi=p.raw[1], raw=p.raw), z) if p.raw else p
        sharp = floats.fma(*(np.broadcast_to(v.lo, p.shape) for v in (x, y, z)))
        low, high = np.where(tight, sharp, loose.lo), np.where(tight, sharp, loose.hi)
        return finish("f64", low, high, tight, loose.nan, loose.amb, exact_op=True)
    if p.raw is not None:
        p = replace(p, lo=p.raw[0], hi=p.raw[1])
    lo, hi = exact_sum(p.lo, z.lo, True, x.dtype), exact_sum(p.hi, z.hi, False, x.dtype)
    opposite = ((p.hi == np.inf) & (z.lo == -np.inf)) | ((p.lo == -np.inf) & (z.hi == np.inf))
    sure = opposite & (p.lo == p.hi) & (z.lo == z.hi)
    nan, amb = both(p.nan, z.nan, sure), both(p.amb, z.amb, opposite & ~sure)
    return finish(x.dtype, lo, hi, known(x) & known(y) & known(z), nan, amb, direct=True)


def extremum(fn: str, x: Num, y: Num) -> Num:
    """maximum / minimum propagate NaN, the _num forms drop a lone certain NaN; between zeros the sign is free."""
    f = np.maximum if fn.startswith("max") else np.minimum
    lo, hi = f(x.lo, y.lo), f(x.hi, y.hi)
    same = (np.signbit(x.lo) == np.signbit(y.lo)) & (np.signbit(x.hi) == np.signbit(y.hi)) & (x.lo == x.hi) & (y.lo == y.hi)
    apart = (x.lo > y.hi) | (y.lo > x.hi)
    nan, amb = both(x.nan, y.nan), both(x.amb, y.amb)
    if fn.endswith("_num") and nan is not None:
        xn, yn = (np.zeros(lo.shape, bool) if v.nan is None else np.broadcast_to(v.nan, lo.shape) for v in (x, y))
        lo = np.where(xn, y.lo, np.where(yn, x.lo, lo))
        hi = np.where(xn, y.hi, np.where(yn, x.hi, hi))
        same, nan = same | (xn ^ yn), xn & yn
    elif fn.endswith("_num"):
        nan = None
    # where one operand is certainly larger, the result is that operand, its zero sign included
    certain = same | apart
    return finish(x.dtype, lo, hi, certain, nan, amb, exact_op=True)


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
        ends = (x.lo, x.hi) if _REALS else (grid(x.lo, dtype, False), grid(x.hi, dtype, False))  # narrowing rounds once
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
