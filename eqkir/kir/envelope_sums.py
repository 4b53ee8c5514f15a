"""Elements of memory that are added to in any order and grouping (derivation: docs/numerics.md)."""

from __future__ import annotations

import numpy as np

from eqkir.kir import interval_arithmetic as arithmetic
from eqkir.kir.envelope_machine import Cells, Sums
from eqkir.kir.floats import FORMATS, Array
from eqkir.kir.interval import Num, at, both, finish, settled, unit


def _gamma(n: Array, u: float) -> Array:
    return np.where(n * u < 0.5, n * u / (1 - np.minimum(n * u, 0.5)), np.inf)


def _filled(m: Array | None, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape, bool) if m is None else np.broadcast_to(m, shape)


def add_in_any_order(cells: Cells, dtype: str, index: Array, value: Num, may: Array) -> None:
    """Add ``value[i]`` to element ``index[i]`` (which may repeat); where `may`, it is in doubt whether.

    n additions in any tree, over however many operations, stay within gamma_n times the sum of magnitudes of the exact sum.
    """
    if not index.size:
        return
    if cells.sums is None:
        zeros = np.zeros(cells.lo.size)
        cells.sums = Sums(zeros.copy(), zeros.copy(), zeros.copy(), np.zeros(cells.lo.size, np.int64))
    s = cells.sums
    where, inverse = np.unique(index, return_inverse=True)
    inverse = inverse.reshape(-1)
    before = cells.num(dtype, where)
    fresh = s.n[where] == 0
    finite = np.isfinite(before.lo) & np.isfinite(before.hi)
    start = ((before.lo, s.lo), (before.hi, s.hi))
    s.lo[where], s.hi[where] = (np.where(fresh, np.where(finite, b, 0.0), o[where]) for b, o in start)
    s.size[where] = np.where(fresh, np.maximum(np.abs(s.lo[where]), np.abs(s.hi[where])), s.size[where])
    nan, amb = (_filled(x, value.shape) for x in (value.nan, value.amb))
    plain = np.isfinite(value.lo) & np.isfinite(value.hi) & ~nan & ~amb
    lo, hi = (np.where(plain, v, 0.0) for v in (value.lo, value.hi))
    lo, hi = np.where(may, np.minimum(lo, 0.0), lo), np.where(may, np.maximum(hi, 0.0), hi)
    n = s.n[where] + np.bincount(inverse, minlength=len(where))
    s.size[where] += np.bincount(inverse, np.maximum(np.abs(lo), np.abs(hi)), len(where))
    computed = s.size[where] * _gamma(n + 1.0, 2.0**-53)
    s.lo[where] += np.bincount(inverse, lo, len(where)) - computed
    s.hi[where] += np.bincount(inverse, hi, len(where)) + computed
    s.n[where] = n
    slack = s.size[where] * _gamma(n.astype(np.float64), unit(dtype))
    total = finish(dtype, s.lo[where] - slack, s.hi[where] + slack, np.zeros(len(where), bool), None, None)
    once = (n == 1) & ~np.bincount(inverse, may, len(where)).astype(bool)
    if once.any():  # a single addition: its own rounding
        order = np.argsort(inverse, kind="stable")
        first = order[np.searchsorted(inverse[order], np.arange(len(where)))]
        one = arithmetic.add(before, at(value, first))
        lo_, hi_ = np.where(once, one.lo, total.lo), np.where(once, one.hi, total.hi)
        total = Num(dtype, lo_, hi_, None if one.nan is None else one.nan & once, None if one.amb is None else one.amb & once)
    growth = s.size[where] * (1 + _gamma(n.astype(np.float64), unit(dtype))) >= FORMATS[dtype].max
    amb_out = both(total.amb, growth & ~once)
    total = Num(dtype, total.lo, total.hi, total.nan, amb_out)
    out = _special(total, before, value, nan, amb, may, inverse, once)
    state = s.n[where].copy()
    cells.put(where, out)
    s.n[where] = state


def _special(total: Num, before: Num, value: Num, nan: Array, amb: Array, may: Array, inverse: Array, once: Array) -> Num:
    """NaN, infinities and unknown terms: certain where one decides, ambiguous otherwise."""
    n = len(total.lo)

    def some(flag: Array, of_cell: Array) -> Array:
        return (np.bincount(inverse, flag, n) > 0) | of_cell

    bnan, bamb = _filled(before.nan, (n,)), _filled(before.amb, (n,))
    sure = ~may & ~nan & ~amb
    plain_before = ~bnan & ~bamb
    up = some(sure & (value.lo == np.inf), plain_before & (before.lo == np.inf))
    down = some(sure & (value.hi == -np.inf), plain_before & (before.hi == -np.inf))
    maybe_inf = some(~nan & ~amb & (np.isinf(value.lo) | np.isinf(value.hi)), plain_before & (np.isinf(before.lo) | np.isinf(before.hi)))
    certain_inf = some(sure & np.isinf(value.lo) & (value.lo == value.hi), plain_before & np.isinf(before.lo) & (before.lo == before.hi))
    loose = some(~nan & ~amb & (np.isinf(value.lo) | np.isinf(value.hi)) & ~(sure & (value.lo == value.hi)),
                 plain_before & (np.isinf(before.lo) | np.isinf(before.hi)) & (before.lo != before.hi))  # fmt: skip
    is_nan = some(nan & ~may, bnan) | (up & down)
    unknown = (some(amb | (nan & may), bamb) | loose | (maybe_inf & ~certain_inf)) & ~is_nan
    lo = np.where(up, np.inf, np.where(down, -np.inf, total.lo))
    hi = np.where(down, -np.inf, np.where(up, np.inf, total.hi))
    decided = up | down | is_nan
    known_amb = _filled(total.amb, (n,)) & ~decided
    is_nan = is_nan | (_filled(total.nan, (n,)) & once)
    lo, hi = np.where(is_nan, 0.0, lo), np.where(is_nan, 0.0, hi)
    return settled(Num(total.dtype, lo, hi, is_nan, (unknown | known_amb) & ~is_nan))
