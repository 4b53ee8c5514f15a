"""Enclosures of cumulative sums: every prefix as a sum in any tree (see `interval_reduce`)."""

from __future__ import annotations

import numpy as np

from eqkir.kir.floats import FORMATS, Array
from eqkir.kir.interval import Num, both, finish, less, outward, unit
from eqkir.kir.interval_reduce import wide_float


def _gamma(n: Array, u: float) -> Array:
    """n u / (1 - n u) elementwise."""
    return np.where(n * u < 1, n * u / (1 - np.minimum(n * u, 0.5)), np.inf) if bool(np.any(n * u >= 0.5)) else n * u / (1 - n * u)


def cumsum(x: Num, acc: str) -> Num:
    """Inclusive prefix sums of the last axis; `acc` is the accumulator's dtype. Prefix k has k additions."""
    n, fmt = x.shape[-1], FORMATS[acc]
    hide = both(x.nan, x.amb)
    lo, hi = (np.where(np.isfinite(v), v, 0.0) if hide is None else np.where(hide | np.isinf(v), 0.0, v) for v in (x.lo, x.hi))
    wide, u = wide_float(acc)
    k = np.arange(n, dtype=np.float64)  # additions of the prefix
    size = np.cumsum(np.maximum(np.abs(lo), np.abs(hi)), -1, dtype=wide) * (1 + _gamma(k + 1, u))
    computed = np.where(k > 0, size * _gamma(k + 2, u), 0)
    slack = size * _gamma(k, unit(acc))
    out_lo, out_hi = np.cumsum(lo, -1, dtype=wide) - computed - slack, np.cumsum(hi, -1, dtype=wide) + computed + slack
    out_lo, out_hi, size = (v.astype(np.float64) for v in (out_lo, out_hi, size))
    more = k > 0
    wider = outward(out_lo, out_hi)
    out_lo, out_hi = np.where(more, wider[0], out_lo), np.where(more, wider[1], out_hi)
    nan = None if x.nan is None else np.logical_or.accumulate(x.nan, -1)
    amb = None if x.amb is None else np.logical_or.accumulate(x.amb, -1)
    overflow = size * (1 + _gamma(k, unit(acc))) >= fmt.max
    if overflow.any():
        signed = np.logical_and.accumulate(lo >= 0, -1) | np.logical_and.accumulate(hi <= 0, -1)
        amb = both(amb, overflow & ~signed & more)
    positive = np.logical_and.accumulate((x.lo == 0) & ~np.signbit(x.lo) & ~np.signbit(x.hi), -1)
    up, down = x.hi == np.inf, x.lo == -np.inf
    if up.any() or down.any():
        may_up, may_down = (np.logical_or.accumulate(v, -1) for v in (up, down))
        must_up, must_down = (np.logical_or.accumulate(v, -1) for v in (up & (x.lo == np.inf), down & (x.hi == -np.inf)))
        nan, amb = both(nan, must_up & must_down), both(amb, may_up & may_down & ~(must_up & must_down))
        out_lo = np.where(must_up, np.inf, np.where(may_down, -np.inf, out_lo))
        out_hi = np.where(must_down, -np.inf, np.where(may_up, np.inf, out_hi))
    return finish(acc, out_lo, out_hi, positive, nan, less(amb, nan))
