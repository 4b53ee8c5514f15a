"""Exact pointwise semantics of kir.md section 5 on numpy arrays of the KIR dtypes. Raises `Trap` on invalid input."""

from __future__ import annotations

from typing import Final

import numpy as np

from eqkir.base.dtypes import FLOATS, INTS, NUMPY, SIGNED, bits
from eqkir.kir import floats
from eqkir.kir.floats import Array, narrow
from eqkir.kir.reference_codes import Trap

#: numpy dtype -> KIR dtype (``index`` is held as i64)
NAME: Final[dict[np.dtype, str]] = {v: k for k, v in NUMPY.items() if k != "index"}


def compute(x: Array) -> Array:
    """The array in the dtype that arithmetic runs in: f32 for the narrow floats, else its own."""
    return x.astype(np.float32) if NAME[x.dtype] in floats.NARROW else x


def unary(fn: str, x: Array) -> Array:
    dtype = NAME[x.dtype]
    if fn == "neg":
        return np.asarray(np.negative(x))
    if fn == "abs":
        return np.asarray(np.abs(x))
    if fn == "not":
        return np.logical_not(x) if dtype == "bool" else np.invert(x)
    wide = compute(x)
    if fn in ("isnan", "isinf", "isfinite"):
        return np.asarray({"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}[fn](wide))
    if fn in floats.ROUNDING:
        return narrow(floats.ROUNDING[fn](wide), dtype)
    if fn == "sqrt":
        return narrow(np.sqrt(wide), dtype)
    return narrow(floats.function(fn, wide), dtype)


def _extremum(fn: str, x: Array, y: Array) -> Array:
    """maximum / minimum propagate NaN, the _num forms drop a lone NaN; +0 counts as greater than -0."""
    f = {"maximum": np.maximum, "minimum": np.minimum, "maximum_num": np.fmax, "minimum_num": np.fmin}[fn]
    r = f(x, y)
    if x.dtype.kind != "f":
        return np.asarray(r)
    zero = x + y if fn.startswith("max") else -(-x - y)
    return np.where((x == 0) & (y == 0), zero, r)


def binary(fn: str, x: Array, y: Array) -> Array:
    dtype = NAME[x.dtype]
    if dtype in FLOATS:
        a, b = compute(x), compute(y)
        match fn:
            case "add":
                return narrow(a + b, dtype)
            case "sub":
                return narrow(a - b, dtype)
            case "mul":
                return narrow(a * b, dtype)
            case "div":
                return narrow(a / b, dtype)
        return narrow(_extremum(fn, a, b), dtype)
    match fn:
        case "add" | "sub" | "mul":
            return np.asarray({"add": np.add, "sub": np.subtract, "mul": np.multiply}[fn](x, y))
        case "and" | "or" | "xor":
            return np.asarray({"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[fn](x, y))
        case "floordiv" | "mod":
            return _divide(fn, dtype, x, y)
        case "shl" | "shr":
            if bool(np.any((y < 0) | (y >= bits(dtype)))):
                raise Trap("INTEGER", f"shift amount outside [0, {bits(dtype)})")
            return np.asarray(np.left_shift(x, y) if fn == "shl" else np.right_shift(x, y))
    return _extremum(fn, x, y)


def _divide(fn: str, dtype: str, x: Array, y: Array) -> Array:
    if bool(np.any(y == 0)):
        raise Trap("INTEGER", "integer division by zero")
    if dtype in SIGNED and bool(np.any((y == -1) & (x == np.iinfo(x.dtype).min))):
        raise Trap("INTEGER", "signed minimum divided by -1")
    return np.asarray(np.floor_divide(x, y) if fn == "floordiv" else np.mod(x, y))


def compare(fn: str, x: Array, y: Array) -> Array:
    f = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}[fn]
    return np.asarray(f(compute(x), compute(y)))


def fma(x: Array, y: Array, z: Array) -> Array:
    return narrow(floats.fma(*np.broadcast_arrays(compute(x), compute(y), compute(z))), NAME[x.dtype])


def cast(x: Array, dtype: str) -> Array:
    """int -> int modulo; int -> float and narrowing to nearest even, once; float -> int truncates; to bool: x != 0."""
    src = NAME[x.dtype]
    if NUMPY[dtype] == x.dtype:
        return x
    if dtype == "bool":
        return np.asarray(compute(x) != 0)
    if src in FLOATS:
        wide = x.astype(np.float64)
        return narrow(wide, dtype) if dtype in FLOATS else _truncate(wide, dtype)
    if dtype in INTS:
        return x.astype(NUMPY[dtype])
    return x.astype(np.float64) if dtype == "f64" else narrow(floats.odd_f64(x.astype(np.int64) if src == "bool" else x), dtype)


def _truncate(x: Array, dtype: str) -> Array:
    t = np.trunc(x)
    info = np.iinfo(NUMPY[dtype])
    if not bool(np.all((t >= float(info.min)) & (t < 2.0 ** (bits(dtype) - (dtype in SIGNED))))):
        raise Trap("CAST", f"NaN, an infinity or a value out of range of {dtype}")
    return t.astype(NUMPY[dtype])


def bitcast(x: Array, dtype: str) -> Array:
    return np.ascontiguousarray(x).view(NUMPY[dtype])


def constant(value: bool | int | float | str, dtype: str) -> Array:
    """A literal as a 0-d array of `dtype`; `value` may be ``"nan" "inf" "-inf"``. Integers wrap."""
    if dtype == "bool":
        return np.asarray(bool(value))
    if dtype in FLOATS:
        v = value if isinstance(value, int) and not isinstance(value, bool) else float(value)
        exact = np.asarray(float(v), np.float64) if isinstance(v, float) or abs(v) < 2**53 else np.asarray(_odd_int(v), np.float64)
        return narrow(exact, dtype) if dtype != "f64" else np.asarray(float(value), np.float64)
    n = int(value) & ((1 << bits(dtype)) - 1)
    return np.asarray(n - (1 << bits(dtype)) if dtype in SIGNED and n >> (bits(dtype) - 1) else n, NUMPY[dtype])


def _odd_int(v: int) -> float:
    """An integer rounded to odd at 53 bits."""
    shift = abs(v).bit_length() - 53
    m = (abs(v) >> shift) | bool(abs(v) & ((1 << shift) - 1))
    try:
        return float(m << shift) * (-1 if v < 0 else 1)
    except OverflowError:
        return float("-inf") if v < 0 else float("inf")
