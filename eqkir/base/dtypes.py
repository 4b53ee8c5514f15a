"""The dtypes of KIR (kir.md section 2) and their facts. Nothing here depends on another stage."""

from __future__ import annotations

from typing import Final, Literal

import ml_dtypes
import numpy as np

DType = Literal["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2", "index"]

NUMPY: Final[dict[str, np.dtype]] = {
    "bool": np.dtype(np.bool_), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64), "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64), "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn), "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "index": np.dtype(np.int64),
}  # fmt: skip

SIGNED: Final = frozenset({"i8", "i16", "i32", "i64", "index"})
UNSIGNED: Final = frozenset({"u8", "u16", "u32", "u64"})
INTS: Final = SIGNED | UNSIGNED
FLOATS: Final = frozenset({"f16", "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2"})
ALL: Final = tuple(NUMPY)

#: accumulator of built-in `sum` / `cumsum` (kir.md section 5); a dtype that is not listed keeps itself
WIDENED: Final[dict[str, str]] = {
    "i8": "i32", "i16": "i32", "u8": "u32", "u16": "u32", "f8e4m3fn": "f32", "f8e5m2": "f32", "f16": "f32", "bf16": "f32",
}  # fmt: skip


def itemsize(dtype: str) -> int:
    """Bytes of one element."""
    return NUMPY[dtype].itemsize


def bits(dtype: str) -> int:
    """Bits of one element (8 for bool)."""
    return 8 * itemsize(dtype)


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def is_int(dtype: str) -> bool:
    return dtype in INTS


def literal(value: float | int | bool, dtype: str) -> str:
    """The canonical text of `value` rounded to `dtype`: one text per value, so that equal constants are one term.

    Floats print as the shortest decimal of the exact (f64) value (``0.0 -0.0 inf -inf nan``), integers in decimal
    after wrapping, bools as ``true`` / ``false``.
    """
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in FLOATS:
        with np.errstate(all="ignore"):
            v = float(np.asarray(value, np.float64).astype(NUMPY[dtype]).astype(np.float64))
        return "nan" if v != v else repr(v)
    w = bits(dtype)
    n = int(value) & ((1 << w) - 1)
    return str(n - (1 << w) if dtype in SIGNED and n >> (w - 1) else n)


def identity(fn: str, dtype: str) -> str:
    """The canonical text of the neutral element of a built-in reduction (kir.md section 4) in its accumulator's dtype."""
    match fn:
        case "sum":
            return literal(0, dtype)
        case "prod":
            return literal(1, dtype)
        case "any" | "all":
            return literal(fn == "all", "bool")
    if dtype in FLOATS:
        big = float("inf") if dtype != "f8e4m3fn" else 448.0
        return literal(-big if fn == "max" else big, dtype)
    lo, hi = (-(1 << bits(dtype) - 1), (1 << bits(dtype) - 1) - 1) if dtype in SIGNED else (0, (1 << bits(dtype)) - 1)
    return literal(lo if fn == "max" else hi, dtype)


def parse(text: str, dtype: str) -> float | int | bool:
    """Inverse of `literal`."""
    if dtype == "bool":
        return text == "true"
    return float(text) if dtype in FLOATS else int(text)
