"""Scalar arguments as the 64-bit words that task functions read: the value's bits in its dtype, zero-extended (index: 64 bits)."""

from __future__ import annotations

import ctypes
import math
import operator
import struct
from collections.abc import Callable
from typing import Any, Final

#: precision with the hidden bit, least exponent of a normal number, bits of the exponent field, whether there are infinities
NARROW: Final = {"f16": (11, -14, 5, True), "bf16": (8, -126, 8, True), "f8e4m3fn": (4, -6, 4, False), "f8e5m2": (3, -14, 5, True)}
SIZES: Final = {"f16": 2, "bf16": 2, "f8e4m3fn": 1, "f8e5m2": 1, "bool": 1, "index": 8}


def itemsize(dtype: str) -> int:
    """Bytes of an element."""
    return SIZES.get(dtype) or int(dtype[1:]) // 8


def limits(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer dtype. Raises KeyError for another dtype."""
    if dtype == "index":
        return -(1 << 63), (1 << 63) - 1
    if dtype[0] not in "iu" or not dtype[1:].isdecimal():
        raise KeyError(dtype)
    w = int(dtype[1:])
    return (0, (1 << w) - 1) if dtype[0] == "u" else (-(1 << w - 1), (1 << w - 1) - 1)


def integer(name: str, value: Any, dtype: str) -> int:
    """The argument as an integer of its dtype. Raises ValueError."""
    try:
        n = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} = {value!r} is not an integer") from None
    low, high = limits(dtype)
    if not low <= n <= high:
        raise ValueError(f"{name} = {n} is outside [{low}, {high}]")
    return n


def _f64(x: float) -> int:
    word: int = struct.unpack("<Q", struct.pack("<d", x))[0]
    return word


def _f32(x: float) -> int:
    word: int = struct.unpack("<I", bytes(ctypes.c_float(x)))[0]
    return word


def narrow(x: float, dtype: str) -> int:
    """The bits of `x` rounded once, to nearest even. Overflow gives an infinity, in f8e4m3fn NaN."""
    p, emin, exponent, infinite = NARROW[dtype]
    sign = int(math.copysign(1.0, x) < 0) << (p - 1 + exponent)
    top = (1 << exponent) - 1
    if x != x:
        return sign | (top << p - 1) | (1 << p - 2 if infinite else (1 << p - 1) - 1)
    over = sign | (top << p - 1 if infinite else (1 << p - 1 + exponent) - 1)
    if math.isinf(x):
        return over
    e = max(math.frexp(x)[1] - 1, emin)
    m = round(math.ldexp(abs(x), p - 1 - e))
    if m >> p:
        m, e = m >> 1, e + 1
    field = e - emin + 1 if m >> p - 1 else 0
    bits = (field << p - 1) | (m & (1 << p - 1) - 1)
    return over if field > top or (infinite and field == top) or (not infinite and bits >= (1 << p - 1 + exponent) - 1) else sign | bits


def encoder(name: str, dtype: str) -> Callable[[Any], int]:
    """From an argument to its word. The function raises ValueError, or TypeError where a number is wanted."""
    if dtype == "bool":
        return lambda v: int(bool(v))
    if dtype == "f64":
        return lambda v: _f64(float(v))
    if dtype == "f32":
        return lambda v: _f32(float(v))
    if dtype in NARROW:
        return lambda v: narrow(float(v), dtype)
    mask = (1 << (64 if dtype == "index" else int(dtype[1:]))) - 1
    return lambda v: integer(name, v, dtype) & mask
