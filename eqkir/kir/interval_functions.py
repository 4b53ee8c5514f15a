"""Enclosures of the functions of kir.md section 5, from its accuracy table; the one place where those limits are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from eqkir.base.dtypes import FLOATS
from eqkir.kir import elementwise, floats
from eqkir.kir.floats import FUNCTIONS, NARROW, Array, ulp
from eqkir.kir.interval import Num, both, finish, known, less, outward, reals
from eqkir.kir.interval_arithmetic import neg

#: permitted error in ulps, as (constant, per unit of |x|)
ULPS: Final[dict[str, tuple[float, float]]] = {
    "rsqrt": (2, 0), "exp": (2, 1.2), "exp2": (2, 0), "log": (2, 0), "log2": (2, 0), "log1p": (2, 0), "sigmoid": (4, 1.2),
    "tanh": (4, 0), "expm1": (4, 0), "sin": (4, 0), "cos": (4, 0), "tan": (4, 0), "asin": (4, 0), "atan": (4, 0), "erf": (4, 0),
    "erfc": (8, 0), "i0": (8, 0), "lgamma": (8, 0),
}  # fmt: skip
#: lowest and highest argument of the real function; NaN outside
RANGE: Final[dict[str, tuple[float, float]]] = {
    "sqrt": (0, np.inf), "rsqrt": (0, np.inf), "log": (0, np.inf), "log2": (0, np.inf), "log1p": (-1, np.inf), "asin": (-1, 1),
}  # fmt: skip
DECREASING: Final = ("rsqrt", "erfc")
NONNEGATIVE: Final = ("exp", "exp2", "sigmoid", "sqrt", "rsqrt", "erfc")
EXACT_AT_ZERO: Final = ("rsqrt", "exp", "exp2", "log", "log2", "log1p", "tanh", "expm1", "sin", "cos", "tan", "asin", "atan", "erf")
TRIGONOMETRIC: Final = ("sin", "cos", "tan")
TRIG_LIMIT: Final = 2.0**16  # no accuracy is promised beyond
#: lgamma's accuracy is promised away from its zeros: here, where |lgamma| is at least this
LGAMMA_NEAR_ZERO: Final = 2.0**-4
LGAMMA_MIN: Final = (1.4616321449683622, -0.12148629053584961)
#: relative error of the wide evaluation itself, in units of 2^-52 (f64 functions of numpy and libm; i0 and lgamma are series)
WIDE_ULPS: Final = 16.0


def unary(fn: str, x: Num) -> Num:
    """The enclosure of a unary function."""
    if fn == "neg":
        return neg(x)
    if x.dtype not in FLOATS:
        v = elementwise.unary(fn, x.lo)
        return Num(x.dtype, v, v, None, x.amb)
    if fn == "abs":
        inside = (x.lo <= 0) & (x.hi >= 0)
        a, b = np.abs(x.lo), np.abs(x.hi)
        return Num(x.dtype, np.where(inside, 0.0, np.minimum(a, b)), np.maximum(a, b), x.nan, x.amb)
    if fn in ("isnan", "isinf", "isfinite"):
        return _classify(fn, x)
    if fn in floats.ROUNDING:
        f = floats.ROUNDING[fn]
        lo, hi = f(x.lo), f(x.hi)
        return finish(x.dtype, lo, hi, known(x) | (x.hi < 0) | (x.lo > 0), x.nan, x.amb, exact_op=True)
    return _function(fn, x)


def _classify(fn: str, x: Num) -> Num:
    nan = np.zeros(x.shape, bool) if x.nan is None else np.broadcast_to(x.nan, x.shape)
    some = np.isinf(x.lo) | np.isinf(x.hi)
    inf = (x.lo == x.hi) & some
    v = {"isnan": nan, "isinf": inf & ~nan, "isfinite": ~inf & ~nan}[fn]
    unsure = None if fn == "isnan" or not (some & ~inf).any() else some & ~inf & ~nan
    return Num("bool", v, v, None, both(x.amb, unsure))


def _wide(fn: str) -> Callable[[Array], Array]:
    """The function in the widest precision, as f64."""
    return lambda v: np.asarray(FUNCTIONS[fn](v.astype(np.longdouble))).astype(np.float64)


def _function(fn: str, x: Num) -> Num:
    f: Callable[[Array], Array] = _wide(fn) if x.dtype == "f64" and fn != "sqrt" else FUNCTIONS[fn]
    nan, amb = x.nan, x.amb
    low, high = RANGE.get(fn, (-np.inf, np.inf))
    if fn in RANGE:
        outside, straddles = (x.hi < low) | (x.lo > high), (x.lo < low) | (x.hi > high)
        nan, amb = both(nan, outside), both(amb, straddles & ~outside)
    if fn == "rsqrt":  # a zero of unknown sign
        amb = both(amb, (x.lo <= 0) & (x.hi >= 0) & ~known(x))
    a, b = (np.where(v < low, low, np.where(v > high, high, v)) for v in (x.lo, x.hi))  # keeps -0.0
    lo, hi = f(a), f(b)
    if fn in DECREASING:
        lo, hi = hi, lo
    if fn in TRIGONOMETRIC:
        lo, hi, undefined, unsure = _trigonometric(fn, a, b, lo, hi)
        nan, amb = both(nan, undefined), both(amb, unsure)
    elif fn == "i0":
        lo, hi = np.where((a <= 0) & (b >= 0), 1.0, np.minimum(lo, hi)), np.maximum(lo, hi)
    elif fn == "lgamma":
        lo, hi, unsure = _lgamma(a, b, lo, hi)
        amb = both(amb, unsure)
    if fn == "sqrt":
        if x.dtype != "f64" or reals():
            lo, hi = outward(lo, hi)
        return finish(x.dtype, lo, hi, known(x), nan, less(amb, nan))
    # ±0 and ±inf have the values that C defines, without error
    at_inf = np.isinf(x.lo) & (np.isinf(lo) | np.isin(np.abs(lo), (0.0, 1.0, 2.0)))
    special = (x.lo == x.hi) & (lo == hi) & (at_inf | ((x.lo == 0) if fn in EXACT_AT_ZERO else False))
    lo, hi = _widen(fn, x, lo, hi, special)
    return finish(x.dtype, lo, hi, known(x), nan, less(amb, nan))


def _widen(fn: str, x: Num, lo: Array, hi: Array, special: Array) -> tuple[Array, Array]:
    base, slope = ULPS[fn]
    size = np.maximum(np.abs(lo), np.abs(hi))
    n = base + (slope * np.maximum(np.abs(x.lo), np.abs(x.hi)) if slope else 0.0)
    dtype = "f32" if x.dtype in NARROW else x.dtype
    e = n * ulp(size, dtype) + size * WIDE_ULPS * 2.0**-52
    wide = np.isfinite(e) & ~special
    out_lo, out_hi = np.where(wide, lo - e, lo), np.where(wide, hi + e, hi)
    limitless = ~special & np.isinf(size) & np.isfinite(lo)  # the upper end overflowed, the lower did not
    if limitless.any():
        e_lo = n * ulp(lo, dtype) + np.abs(lo) * WIDE_ULPS * 2.0**-52
        out_lo = np.where(limitless & np.isfinite(e_lo), lo - e_lo, out_lo)
    if fn in NONNEGATIVE:
        out_lo = np.where((out_lo < 0) & ~special, 0.0, out_lo)
    return out_lo, out_hi


def _trigonometric(fn: str, a: Array, b: Array, lo: Array, hi: Array) -> tuple[Array, Array, Array, Array]:
    """sin and cos move at most as far as their argument; tan is increasing between poles. NaN at infinities."""
    undefined = np.isinf(a) & (a == b)
    unsure = (np.maximum(np.abs(a), np.abs(b)) > TRIG_LIMIT) & ~undefined
    point = a == b
    if fn == "tan":
        cell_a, cell_b = (np.floor(v / np.pi + 0.5) for v in (a, b))
        unsure = unsure | (~point & ((cell_a != cell_b) | (lo > hi)))
        return np.minimum(lo, hi), np.maximum(lo, hi), undefined, unsure
    reach = np.where(point, 0.0, (b - a) * (1 + 2.0**-50))
    low, high = np.minimum(lo, hi) - reach, np.maximum(lo, hi) + reach
    return np.where(point, low, np.maximum(low, -1.0)), np.where(point, high, np.minimum(high, 1.0)), undefined, unsure


def _lgamma(a: Array, b: Array, lo: Array, hi: Array) -> tuple[Array, Array, Array]:
    """lgamma is convex on (0, inf); elsewhere only exact arguments are followed."""
    point = a == b
    low, high = np.minimum(lo, hi), np.maximum(lo, hi)
    low = np.where((a < LGAMMA_MIN[0]) & (b > LGAMMA_MIN[0]), LGAMMA_MIN[1], low)
    near = (low < LGAMMA_NEAR_ZERO) & (high > -LGAMMA_NEAR_ZERO)
    return low, high, (~point & (a <= 0)) | near
