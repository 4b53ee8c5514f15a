"""Pointwise lets and index expressions as functions of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqkir.program import interp_scalar as S
from eqkir.program.interp_memory import Array
from eqkir.program.model import Let


def select(c: Array, a: Array, b: Array) -> Array:
    return np.where(c, a, b)


def pointwise_function(x: Let, src: str) -> Callable[..., Array]:
    """The pointwise function of a let whose first operand has dtype `src`."""
    match x.op:
        case "Un":
            fn = x.attrs[0]
            return lambda a: S.unary(fn, a, src)
        case "Bin":
            fn = x.attrs[0]
            return lambda a, b: S.binary(fn, a, b, src)
        case "Tri" if x.attrs[0] == "select":
            return select
        case "Tri":
            return lambda a, b, c: S.fma(a, b, c, src)
        case "Cast":
            return lambda a: S.cast(a, src, x.dtype)
    return lambda a: S.bitcast(a, x.dtype)


def _divide(f: Any) -> Callable[[Any, Any], Any]:
    return lambda a, b: f(a, np.where(np.asarray(b) == 0, 1, b))


EXPR: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "floordiv": _divide(np.floor_divide),
    "mod": _divide(np.mod), "min": np.minimum, "max": np.maximum, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
    "select": np.where,
}  # fmt: skip
