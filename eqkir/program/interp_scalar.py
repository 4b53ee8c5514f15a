"""Pointwise semantics of the program interpreter on numpy arrays, exact per dtype (kir.md section 5).

Operations below f32 compute in f32 and round once. f32 transcendentals are computed in f64 and rounded (error <= 0.5 ulp and a bit).
Nothing raises on values: garbage in inactive lanes is legal, so invalid casts, shifts and divisions give some value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from eqkir.base.dtypes import FLOATS, INTS, NUMPY, SIGNED

Array = np.ndarray[Any, np.dtype[Any]]
NARROW = FLOATS - {"f32", "f64"}
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def wide(x: Array, dtype: str) -> Array:
    """Floats below f32 as f32; everything else unchanged."""
    return x.astype(F32) if dtype in NARROW else x


def narrow(x: Array, dtype: str) -> Array:
    """One rounding to `dtype`."""
    t = NUMPY[dtype]
    return x if x.dtype == t else x.astype(t)


# ------------------------------------------------------------------------------------------------ casts
def odd_f32(x: Array) -> Array:
    """f64 rounded to f32 *to odd*, so that a second rounding to a narrower format is right (Boldo and Melquiond 2008)."""
    y = x.astype(F32)
    back = y.astype(F64)
    inexact = np.isfinite(x) & np.isfinite(y) & (back != x)
    toward = np.where(np.abs(back) > np.abs(x), np.nextafter(y, np.float32(0)), y)  # truncated
    bits = toward.view(np.uint32)
    out = np.where(inexact, bits | np.uint32(1), y.view(np.uint32))
    return out.view(F32)


def _int_to_f64_odd(x: Array) -> Array:
    """Integers as f64, rounded to odd beyond 2^53."""
    if x.dtype.itemsize < 8:
        return x.astype(F64)
    big = (x >= 2**53) | (x <= -(2**53)) if x.dtype.kind == "i" else x >= 2**53
    sticky = (x & x.dtype.type(0xFFFF)) != 0
    high = (x >> x.dtype.type(16)) | sticky.astype(x.dtype)
    return np.where(big, high.astype(F64) * 65536.0, x.astype(F64))


def cast(x: Array, src: str, dst: str) -> Array:
    """int -> int modulo, int -> float and float -> float nearest-even, float -> int truncating."""
    if src == dst or NUMPY[src] == NUMPY[dst]:
        return x
    t = NUMPY[dst]
    if dst == "bool":
        return np.asarray(wide(x, src) != 0)
    if src == "bool":
        return x.astype(np.int8).astype(t) if dst in INTS else x.astype(F32).astype(t)
    if src in INTS and dst in INTS:
        return x.astype(t)
    if src in INTS:
        return x.astype(t) if dst in ("f32", "f64") else odd_f32(_int_to_f64_odd(x)).astype(t)
    if dst in INTS:
        y = np.trunc(wide(x, src).astype(F64))
        w = NUMPY[dst].itemsize * 8
        lo, hi = (-(2.0 ** (w - 1)), 2.0 ** (w - 1)) if dst in SIGNED else (0.0, 2.0**w)
        return np.where((y >= lo) & (y < hi), y, 0.0).astype(t)
    if src == "f64" and dst in NARROW:
        return odd_f32(x).astype(t)
    return wide(x, src).astype(t)


def bitcast(x: Array, dtype: str) -> Array:
    return np.ascontiguousarray(x).view(NUMPY[dtype]) if x.ndim else x.reshape(1).view(NUMPY[dtype]).reshape(())


# ------------------------------------------------------------------------------------------------ special functions
def _each(f: Callable[[float], float]) -> Callable[[Array], Array]:
    u = np.frompyfunc(f, 1, 1)
    return lambda x: np.asarray(u(np.asarray(x, F64)), F64)


def _lgamma1(x: float) -> float:
    if math.isnan(x):
        return x
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _i0(x: Array) -> Array:
    y = np.asarray(np.i0(np.where(np.isfinite(x), x, 0.0)), F64).reshape(x.shape)
    return np.where(np.isnan(x), np.nan, np.where(np.isinf(x), np.inf, y))


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


TRANSCENDENTAL: dict[str, Callable[[Array], Array]] = {
    "rsqrt": lambda x: 1.0 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log1p": np.log1p,
    "expm1": np.expm1, "sigmoid": _sigmoid, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "atan": np.arctan, "erf": _each(math.erf), "erfc": _each(math.erfc), "i0": _i0, "lgamma": _each(_lgamma1),
    "exp2_fast": np.exp2, "tanh_fast": np.tanh,
}  # fmt: skip
EXACT: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "round_even": np.rint,
}  # fmt: skip
#: ulps of f32 by which the approximate operations are off here: more than the exact ones may be, less than `approximate` permits
FAST_ULPS = {"exp2_fast": 3, "tanh_fast": 2**12, "div_fast": 1}
TESTS: dict[str, Callable[[Array], Array]] = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}


def unary(fn: str, x: Array, dtype: str) -> Array:
    """`dtype` is the operand's."""
    if fn == "not":
        return np.logical_not(x) if dtype == "bool" else np.invert(x)
    if fn in TESTS:
        return TESTS[fn](wide(x, dtype))
    if dtype not in FLOATS:
        return EXACT[fn](x)
    if fn in EXACT:
        return narrow(EXACT[fn](wide(x, dtype)), dtype)
    y = TRANSCENDENTAL[fn](wide(x, dtype).astype(F64))
    return y if dtype == "f64" else narrow(_off(fn, y.astype(F32)), dtype)


def _off(fn: str, y: Array) -> Array:
    """f32 results of an approximate operation, moved toward zero by its ulps; zeros, subnormals, infinities and NaN stay."""
    n = FAST_ULPS.get(fn, 0)
    if not n:
        return y
    size = np.abs(y)
    inside = (size >= 2.0**-100) & np.isfinite(y)
    return np.where(inside, np.copysign((size.view(np.int32) - np.int32(n)).view(F32), y), y).astype(F32)


# ------------------------------------------------------------------------------------------------ binary
def _extreme(pick: Callable[[Array, Array], Array], fn: str, x: Array, y: Array) -> Array:
    z = pick(x, y)
    both = (x == 0) & (y == 0)
    if np.any(both):  # IEEE 754-2019: maximum(-0, +0) = +0, minimum(-0, +0) = -0
        z = np.where(both, x + y if fn.startswith("max") else -((-x) + (-y)), z)
    return z


_PICK = {"maximum": np.maximum, "minimum": np.minimum, "maximum_num": np.fmax, "minimum_num": np.fmin}
_ARITH = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "div_fast": np.true_divide}
_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def binary(fn: str, x: Array, y: Array, dtype: str) -> Array:
    """`dtype` is the operands'; comparisons give bool."""
    if fn in _COMPARE:
        return _COMPARE[fn](wide(x, dtype), wide(y, dtype))
    if dtype == "bool":
        return {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "maximum": np.logical_or, "minimum": np.logical_and,
                "maximum_num": np.logical_or, "minimum_num": np.logical_and}[fn](x, y)  # fmt: skip
    if dtype in FLOATS:
        a, b = wide(x, dtype), wide(y, dtype)
        return narrow(_extreme(_PICK[fn], fn, a, b) if fn in _PICK else _off(fn, _ARITH[fn](a, b)), dtype)
    match fn:
        case "floordiv" | "mod":
            safe = np.where(y == 0, y.dtype.type(1), y)
            return np.floor_divide(x, safe) if fn == "floordiv" else np.mod(x, safe)
        case "and" | "or" | "xor":
            return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[fn](x, y)
        case "shl" | "shr":
            n = np.clip(y, 0, 8 * x.dtype.itemsize - 1)
            return np.left_shift(x, n) if fn == "shl" else np.right_shift(x, n)
    return (_PICK[fn] if fn in _PICK else _ARITH[fn])(x, y)


# ------------------------------------------------------------------------------------------------ fused multiply-add
def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _odd_add(a: Array, b: Array) -> Array:
    """a + b in f64 rounded to odd."""
    s, e = _two_sum(a, b)
    even = (s.view(np.int64) & 1) == 0
    step = np.where((e > 0) == (s > 0), 1, -1).astype(np.int64)  # toward the error, in magnitude
    return np.where((e != 0) & even & np.isfinite(s), (s.view(np.int64) + step).view(F64), s)


def _fma64_exact(a: float, b: float, c: float) -> float:
    try:
        v = Fraction(a) * Fraction(b) + Fraction(c)
    except (ValueError, OverflowError):
        return a * b + c
    if v == 0:
        return a * b + c
    try:
        return v.numerator / v.denominator
    except OverflowError:
        return math.inf if v > 0 else -math.inf


def _fma64(a: Array, b: Array, c: Array) -> Array:
    """f64 fma, correctly rounded (Boldo and Melquiond 2008, algorithm Fma); exact rationals where exponents are extreme."""
    a, b, c = (np.array(x, F64) for x in np.broadcast_arrays(a, b, c))
    split = 134217729.0
    p = a * b
    ah = a * split - (a * split - a)
    bh = b * split - (b * split - b)
    al, bl = a - ah, b - bh
    e = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    uh, ul = _two_sum(c, e)
    th, tl = _two_sum(p, uh)
    z = th + _odd_add(tl, ul)
    mags = [np.abs(x) for x in (a, b, p, c, z)]
    safe = (p != 0) & np.logical_and.reduce([(m < 1e290) for m in mags]) & (mags[2] > 1e-270) & (mags[4] > 1e-270)
    if not safe.all():
        bad = ~safe
        z[bad] = [_fma64_exact(x, y, w) for x, y, w in zip(a[bad].tolist(), b[bad].tolist(), c[bad].tolist(), strict=True)]
    return z


def fma(x: Array, y: Array, z: Array, dtype: str) -> Array:
    """x * y + z with one rounding (below f32: one in f32, one to the dtype)."""
    if dtype not in FLOATS:
        return x * y + z
    if dtype == "f64":
        return _fma64(x, y, z)
    x, y, z = (np.asarray(wide(v, dtype), F64) for v in (x, y, z))
    product, addend = np.broadcast_arrays(np.atleast_1d(x * y), z)  # the product has 48 bits: exact
    return narrow(_odd_add(product, addend).astype(F32), dtype)


# ------------------------------------------------------------------------------------------------ reductions' combine and identity
COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}


def combine(fn: str, x: Array, y: Array, dtype: str) -> Array:
    return binary(COMBINE[fn], x, y, dtype)


def identity(fn: str, dtype: str) -> Any:
    """The neutral element of a built-in reduction as a numpy scalar of the dtype."""
    t = NUMPY[dtype]
    if fn in ("sum", "any"):
        return t.type(0)
    if fn in ("prod", "all"):
        return t.type(1)
    if dtype == "bool":
        return t.type(fn == "min")
    if dtype in FLOATS:
        if dtype == "f8e4m3fn":  # no infinity: the largest magnitude
            return t.type(-448.0 if fn == "max" else 448.0)
        return t.type(-np.inf if fn == "max" else np.inf)
    info = np.iinfo(t)
    return t.type(info.min if fn == "max" else info.max)
