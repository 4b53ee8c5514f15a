"""What `approximate` and `flush_to_zero` permit one operation of f32 (docs/numerics.md): the only place where those limits stand.

kir.md names the permissions without numbers. The limits are those that hardware approximations state of themselves: a quotient
within 2 ulp (a divisor beyond 2^126 may count as infinite), exp2 within 2^-22.5 relatively, tanh within 2^-11 relatively.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eqkir.kir.floats import Array, ulp
from eqkir.kir.interval import Num, both, finish, flags, less, plain, settled, zero_signs

#: permitted error in ulps: of the correctly rounded quotient, of the functions beside their usual one
APPROXIMATE: Final[dict[str, float]] = {"div": 2, "exp2": 4, "tanh": 2.0**13}
DIVISOR_LIMIT: Final = 2.0**126
SMALLEST_NORMAL: Final = 2.0**-126


def flush(x: Array) -> Array:
    """f32 with subnormals replaced by zeros of their sign."""
    return np.where(np.abs(x) < np.float32(SMALLEST_NORMAL), np.copysign(np.float32(0), x), x).astype(x.dtype)


def flushed(x: Num) -> Num:
    """Subnormals kept or replaced by zeros of their sign."""
    lo = np.where((x.lo > 0) & (x.lo < SMALLEST_NORMAL), 0.0, x.lo)
    hi = np.where((x.hi < 0) & (x.hi > -SMALLEST_NORMAL), -0.0, x.hi)
    return Num(x.dtype, lo, hi, x.nan, x.amb)


def loosened(x: Num, ulps: float, dtype: str = "f32") -> Num:
    """Moved by up to so many ulps of `dtype`; zeros and infinities that are certain stay."""
    size = np.maximum(np.abs(x.lo), np.abs(x.hi))
    e = ulps * ulp(size, dtype)
    sure = (x.lo == x.hi) & ((x.lo == 0) | np.isinf(x.lo))
    wide = np.isfinite(e) & ~sure
    lo, hi = np.where(wide, x.lo - e, x.lo), np.where(wide, x.hi + e, x.hi)
    low_only = ~sure & np.isinf(size) & np.isfinite(x.lo)
    lo = np.where(low_only, x.lo - ulps * ulp(np.where(np.isfinite(x.lo), x.lo, 0.0), dtype), lo)
    return finish(x.dtype, lo, hi, sure & (np.signbit(x.lo) == np.signbit(x.hi)), x.nan, x.amb)


def permitted(op: Any, f: Callable[..., Num], *operands: Num) -> Num:
    """`f` on the operands under the permissions of the operation."""
    given = [flushed(plain(x)) for x in operands] if op.flush_to_zero else list(operands)
    out = f(*given)
    if op.approximate:
        out = loosened(plain(out), APPROXIMATE[op.fn])
        if op.fn == "div":
            out = _huge_divisor(out, *given)
    return flushed(plain(out)) if op.flush_to_zero else out


def _huge_divisor(out: Num, x: Num, y: Num) -> Num:
    """A divisor beyond the limit may count as infinite: zero, or NaN under an infinity."""
    huge = (np.maximum(np.abs(y.lo), np.abs(y.hi)) > DIVISOR_LIMIT) & ~flags(y.amb)
    huge = huge & ~((y.lo == y.hi) & np.isinf(y.lo))
    if not huge.any():
        return out
    lo, hi = np.where(huge, np.minimum(out.lo, 0.0), out.lo), np.where(huge, np.maximum(out.hi, 0.0), out.hi)
    lo, hi = zero_signs(lo, hi, ~huge)
    unsure = huge & (np.isinf(x.lo) | np.isinf(x.hi))
    return settled(Num(out.dtype, lo, hi, out.nan, less(both(out.amb, unsure), out.nan)))
