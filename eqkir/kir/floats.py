"""Floating-point formats: exact rounding to every dtype, ulps, fused multiply-add, and the scalar functions in wide precision.

Rounding through an intermediate format is made exact with *round to odd* (Boldo and Melquiond, "Emulation of FMA and correctly
rounded sums: proved algorithms using rounding to odd", 2008): a value rounded to odd at p + 2 or more bits rounds again correctly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

from eqkir.base.dtypes import NUMPY
from eqkir.kir.reference_codes import Trap

Array = np.ndarray[Any, Any]


class Format(NamedTuple):
    """A binary format: precision in bits (hidden one included), exponent of the smallest normal number, largest finite value."""

    p: int
    emin: int
    max: float

    @property
    def u(self) -> float:
        """Unit roundoff 2^-p."""
        return 2.0**-self.p

    @property
    def tiny(self) -> float:
        """Smallest subnormal."""
        return 2.0 ** (self.emin - self.p + 1)


FORMATS: Final[dict[str, Format]] = {
    "f8e4m3fn": Format(4, -6, 448.0),
    "f8e5m2": Format(3, -14, 57344.0),
    "f16": Format(11, -14, 65504.0),
    "bf16": Format(8, -126, float(np.finfo(np.float32).max) * (1 - 2.0**-8) / (1 - 2.0**-24)),
    "f32": Format(24, -126, float(np.finfo(np.float32).max)),
    "f64": Format(53, -1022, float(np.finfo(np.float64).max)),
}
NARROW: Final = ("f16", "bf16", "f8e4m3fn", "f8e5m2")  # computed in f32 and rounded once


def odd_f32(x: Array) -> Array:
    """f64 -> f32 rounded to odd."""
    y = np.asarray(x.astype(np.float32))
    back = y.astype(np.float64)
    inexact = (back != x) & ~np.isnan(x)
    toward = np.where(np.abs(back) > np.abs(x), np.nextafter(y, np.float32(0)), y).astype(np.float32)
    bits = (toward.view(np.uint32) | np.uint32(1)).view(np.float32)
    return np.where(inexact, np.where((toward == 0) & inexact, np.copysign(np.float32(2.0**-149), x), bits), y).astype(np.float32)


def odd_f64(x: Array) -> Array:
    """64-bit integers -> f64 rounded to odd (exact below 2^53)."""
    y = x.astype(np.float64)
    if x.dtype.itemsize < 8:
        return y
    mag = np.where(x < 0, (~x.astype(np.uint64)) + np.uint64(1), x.astype(np.uint64)) if x.dtype.kind == "i" else x
    sticky = (mag & np.uint64(0x7FF)) != 0
    high = ((mag >> np.uint64(11)) | sticky.astype(np.uint64)).astype(np.float64) * 2048.0
    return np.where(mag >> np.uint64(53) != 0, np.where(x < 0, -high, high), y)


def narrow(x: Array, dtype: str) -> Array:
    """f64 (or wider) -> `dtype`, one rounding to nearest even, overflow to infinity. Traps on overflow of f8e4m3fn."""
    with np.errstate(all="ignore"):
        if dtype in ("f64", "f32", "f16") or x.dtype == np.float32:
            out = x.astype(NUMPY[dtype])
        else:
            out = odd_f32(x.astype(np.float64)).astype(NUMPY[dtype])
    if dtype == "f8e4m3fn" and bool(np.any(np.isnan(out.astype(np.float32)) & ~np.isnan(x))):
        raise Trap("CAST", "overflow of f8e4m3fn, which has no infinity; clamp explicitly")
    return out


def grid(x: Array, dtype: str, through_f32: bool = True) -> Array:
    """f64 values rounded to `dtype`'s grid, as f64; narrow dtypes by way of f32 (kir.md section 5) unless told otherwise.

    f8e4m3fn overflows to infinity here, which `envelope` treats as undecided.
    """
    if dtype == "f64":
        return x
    y = x.astype(np.float32)
    if dtype == "f32":
        return y.astype(np.float64)
    out = (y if through_f32 else odd_f32(x)).astype(NUMPY[dtype]).astype(np.float64)
    if dtype == "f8e4m3fn":
        out = np.where(np.isnan(out) & ~np.isnan(x), np.copysign(np.inf, x), out)
    return out


def ulp(x: Array, dtype: str) -> Array:
    """Spacing of `dtype` at |x| (f64): 2^(floor(log2 |x|) - p + 1), at least the smallest subnormal; inf at inf."""
    f = FORMATS[dtype]
    _, e = np.frexp(np.where(np.isfinite(x), x, 0.0))
    spacing = np.ldexp(1.0, np.maximum(np.where(x == 0, f.emin, e - 1), f.emin) - f.p + 1)
    return np.where(np.isfinite(x), spacing, np.inf)


def two_sum_error(x: Array, y: Array, s: Array) -> Array:
    """The exact error x + y - s of s = fl(x + y) (Knuth)."""
    t = s - x
    return np.asarray((x - (s - t)) + (y - t))


def _fma_exact(a: float, b: float, c: float) -> float:
    """a * b + c with one rounding to f64."""
    product = math.isfinite(a) and math.isfinite(b)
    if product and not math.isfinite(c):
        return c  # a finite product may overflow, but not to an infinity of its own
    if not product or a == 0 or b == 0:
        return a * b + c
    r = Fraction(a) * Fraction(b) + Fraction(c)
    if r == 0:
        return 0.0
    try:
        return r.numerator / r.denominator
    except OverflowError:
        return math.inf if r > 0 else -math.inf


def _fma_f64(x: Array, y: Array, z: Array) -> Array:
    """x * y + z of f64, rounded once: x y = p + q exactly (Dekker's product), then p + (q + z) with the inner sum rounded to odd
    (Boldo and Melquiond, 2008). By rationals where an exponent is so large or small that an intermediate result is no longer exact."""
    with np.errstate(all="ignore"):
        p = x * y
        plain = ~(np.isfinite(x) & np.isfinite(y) & np.isfinite(z)) | (x == 0) | (y == 0) | ((z == 0) & (p != 0))
        size = [np.abs(v) for v in (x, y, z, p)]
        mild = (size[0] < 2.0**990) & (size[1] < 2.0**990) & (size[3] > 2.0**-900) & (size[3] < 2.0**1000)
        mild &= (size[2] > 2.0**-900) & (size[2] < 2.0**1000)
        (xh, xl), (yh, yl) = _halves(x), _halves(y)
        q = ((xh * yh - p) + xh * yl + xl * yh) + xl * yl
        low = q + z
        low_error = two_sum_error(q, z, low)
        high = p + low
        rest = two_sum_error(p, low, high)
        tail = rest + low_error
        odd = np.nextafter(tail, np.where(two_sum_error(rest, low_error, tail) < 0, -np.inf, np.inf))
        inexact = two_sum_error(rest, low_error, tail) != 0
        tail = np.where(inexact & ((tail.view(np.int64) & 1) == 0), odd, tail)
        out = np.where(plain, np.where(np.isfinite(x) & np.isfinite(y) & ~np.isfinite(z), z, p + z), high + tail)
    for at in map(tuple, np.argwhere(~plain & ~mild)):
        out[at] = _fma_exact(float(x[at]), float(y[at]), float(z[at]))
    return np.asarray(out)


def _halves(x: Array) -> tuple[Array, Array]:
    """x as a sum of two numbers of at most 26 bits (Veltkamp)."""
    c = x * 134217729.0
    high = c - (c - x)
    return high, x - high


def fma(x: Array, y: Array, z: Array) -> Array:
    """x * y + z with one rounding, for f32 or f64 arrays of one dtype."""
    if x.dtype == np.float64:
        return _fma_f64(x, y, z)
    p, c = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)  # the product is exact
    s = p + c
    err = two_sum_error(p, c, s)
    inexact = np.isfinite(s) & (err != 0)
    down = np.nextafter(s, np.where(err < 0, -np.inf, np.inf))  # the neighbour on the side of the exact sum
    even = (s.view(np.int64) & 1) == 0
    return np.where(inexact & even, down, s).astype(np.float32)


# ------------------------------------------------------------------------------------------------ functions in wide precision
def _scalar(f: Callable[[float], float]) -> Callable[[Array], Array]:
    def g(v: Any) -> float:
        try:
            return f(float(v))
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    u = np.frompyfunc(g, 1, 1)

    def h(x: Array) -> Array:
        out: Array = np.asarray(u(x)).astype(np.float64).astype(x.dtype)
        return out

    return h


def _rsqrt(x: Array) -> Array:
    return np.asarray(1 / np.sqrt(x))


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(np.isnan(x), x, np.where(x < 0, e / (1 + e), 1 / (1 + e)))


def _lgamma(v: float) -> float:
    if math.isinf(v) or (v <= 0 and v == math.floor(v)):
        return math.inf
    return math.lgamma(v)


def _i0(x: Array) -> Array:
    a = np.abs(x.astype(np.float64))
    out = np.i0(np.where(np.isfinite(a), a, 0.0)).reshape(x.shape)
    result: Array = np.where(np.isnan(a), a, np.where(a > 713.0, _i0_large(a), out)).astype(x.dtype)
    return result


def _i0_large(a: Array) -> Array:
    """I0 by its asymptotic series (Abramowitz and Stegun 9.7.1); for a > 700 the fourth term is below 2^-40."""
    a = np.clip(a, 1.0, 2000.0)  # overflows long before
    series = 1 + 1 / (8 * a) + 9 / (128 * a**2) + 225 / (3072 * a**3) + 11025 / (98304 * a**4)
    return np.exp(a / 2) * (np.exp(a / 2) / np.sqrt(2 * np.pi * a)) * series


FUNCTIONS: Final[dict[str, Callable[[Array], Array]]] = {
    "sqrt": np.sqrt, "rsqrt": _rsqrt, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "log1p": np.log1p, "expm1": np.expm1, "sigmoid": _sigmoid, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "atan": np.arctan, "erf": _scalar(math.erf), "erfc": _scalar(math.erfc), "i0": _i0, "lgamma": _scalar(_lgamma),
}  # fmt: skip
ROUNDING: Final[dict[str, Callable[[Array], Array]]] = {"floor": np.floor, "ceil": np.ceil, "round_even": np.rint}


def function(name: str, x: Array) -> Array:
    """A function of kir.md section 5 in the dtype of `x`, well inside its accuracy: f32 from f64, f64 from the widest float."""
    wide = x.astype(np.longdouble if x.dtype == np.float64 else np.float64)
    return np.asarray(FUNCTIONS[name](wide)).astype(x.dtype)
