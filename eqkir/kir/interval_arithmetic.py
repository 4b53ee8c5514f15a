"""Arithmetic on enclosures: what a correctly rounded, possibly fused operation gives at any operands inside."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqkir.base.dtypes import FLOATS
from eqkir.kir import elementwise, floats
from eqkir.kir.floats import Array
from eqkir.kir.interval import Num, both, finish, gamma, known, reals, unit


def fused_ends(x: Num) -> tuple[Array, Array]:
    """Ends of an addend: a product may be added before it is rounded."""
    return (x.lo, x.hi) if x.raw is None else (np.minimum(x.lo, x.raw[0]), np.maximum(x.hi, x.raw[1]))


def exact_sum(x: Array, y: Array, down: bool, dtype: str) -> Array:
    """x + y rounded outward in f64 where f64 is not enough (for f64 itself: to nearest, which is the operation)."""
    s = x + y
    if dtype == "f64" and not reals():
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
    certain = known(x) & known(y)
    for s, o in ((x, y), (y, x)):
        if s.start is not None and s.start.n == 0:  # started at the other operand and nothing added: that operand, -0.0 too
            certain &= ~((o.lo == 0) & np.signbit(o.lo))
        elif s.start is not None:
            t = s.start
            slack = gamma(t.n + 1, unit(x.dtype)) * (t.size + np.maximum(np.abs(o.lo), np.abs(o.hi)))
            wide = np.isfinite(slack)
            lo = np.where(wide, np.minimum(lo, t.lo + o.lo - slack), lo)
            hi = np.where(wide, np.maximum(hi, t.hi + o.hi + slack), hi)
    fused = x.raw is not None or y.raw is not None
    return finish(x.dtype, lo, hi, certain, nan, amb, direct=fused)


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
    out = finish(x.dtype, *((raw_lo, raw_hi) if reals() else (lo, hi)), certain, nan, amb)
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
    if x.dtype != "f64" or reals():
        lo, hi = _enclose(lo, hi, x, y)
    return finish(x.dtype, lo, hi, certain, nan, amb)


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
        tight = known(x) & known(y) & known(z) & (not reals())
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
