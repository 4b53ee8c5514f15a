"""Numbers that enclose every legal result: the representation under the error envelope (see `interval_arithmetic` and its siblings).

A float element is an interval ``[lo, hi]`` with ends on the grid of its dtype (f64 here), which holds what *any* legal
implementation computes. Correctly rounded operations are monotone in each operand, so rounding the exact ends encloses them, and
exact operands stay exact: ``lo == hi`` says the bits are certain, the sign of zero included; ``[-0.0, +0.0]`` is a zero of
unknown sign. `nan` marks elements that are certainly NaN, `amb` (ambiguous) those of which nothing is known (their interval is
`[-inf, inf]`, so that no operation takes it for certain). Integers and bools are exact or ambiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from eqkir.base.dtypes import FLOATS
from eqkir.kir.elementwise import NAME
from eqkir.kir.floats import FORMATS, NARROW, Array, grid, ulp
from eqkir.kir.machine import spread, to_rank
from eqkir.kir.reference_codes import Trap

Mask = Array | None  # None: nowhere


class Start(NamedTuple):
    """A sum that may begin its accumulator at another operand: exact bounds of the sum, sum of magnitudes, number of terms."""

    lo: Array
    hi: Array
    size: Array
    n: int


@dataclass(frozen=True, slots=True, eq=False)
class Num:
    """A tensor of enclosures; arrays have the batch axis in front. Integers and bools have ``lo is hi`` in their own dtype."""

    dtype: str
    lo: Array
    hi: Array
    nan: Mask = None
    amb: Mask = None
    raw: tuple[Array, Array] | None = None  # ends of a float product before rounding (it may be fused)
    start: Start | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.lo.shape)


def both(*masks: Mask) -> Mask:
    """Elementwise or."""
    out: Mask = None
    for m in masks:
        out = m if out is None else out if m is None else out | m
    return out


def move(f: Callable[[Array], Array], x: Num) -> Num:
    """Pure data movement: `f` on every array of the enclosure."""
    lo = f(x.lo)
    nan, amb = (None if m is None else f(m) for m in (x.nan, x.amb))
    raw = None if x.raw is None else (f(x.raw[0]), f(x.raw[1]))
    start = None if x.start is None else Start(f(x.start.lo), f(x.start.hi), f(x.start.size), x.start.n)
    return Num(x.dtype, lo, lo if x.hi is x.lo else f(x.hi), nan, amb, raw, start)


def at(x: Num, index: Any) -> Num:
    """Indexed like a numpy array."""
    return move(lambda a: a[index], x)


def plain(x: Num) -> Num:
    """Without the freedom to fuse what made it."""
    return x if x.raw is None and x.start is None else replace(x, raw=None, start=None)


def settled(x: Num) -> Num:
    """Drop empty masks; open the intervals of ambiguous floats."""
    nan = x.nan if x.nan is not None and x.nan.any() else None
    amb = x.amb if x.amb is not None and x.amb.any() else None
    if amb is None or x.dtype not in FLOATS:
        return replace(x, nan=nan, amb=amb)
    return replace(x, lo=np.where(amb, -np.inf, x.lo), hi=np.where(amb, np.inf, x.hi), nan=nan, amb=amb)


def less(m: Mask, without: Mask) -> Mask:
    """m and not without."""
    return m if m is None or without is None else m & ~without


def flags(m: Mask) -> Array:
    """A mask as an array that broadcasts."""
    return np.zeros(1, bool) if m is None else m


def exact(a: Array) -> Num:
    """Values known exactly."""
    dtype = NAME[a.dtype]
    if dtype not in FLOATS:
        return Num(dtype, a, a)
    v = a.astype(np.float64)
    nan = np.isnan(v)
    if not nan.any():
        return Num(dtype, v, v)
    v = np.where(nan, 0.0, v)
    return Num(dtype, v, v, nan)


def known(x: Num) -> Array:
    """Elements whose bits are certain."""
    k = (x.lo == x.hi) & (np.signbit(x.lo) == np.signbit(x.hi)) if x.dtype in FLOATS else np.ones(x.shape, bool)
    for m in (x.nan, x.amb):
        k = k if m is None else k & ~m
    return np.asarray(k)


def zero_signs(lo: Array, hi: Array, certain: Array) -> tuple[Array, Array]:
    """Zeros whose sign is not certain become [-0.0, +0.0]."""
    loose = (lo == 0) & (hi == 0) & ~certain
    if not loose.any():
        return lo, hi
    return np.where(loose, -0.0, lo), np.where(loose, 0.0, hi)


_REALS = False


@contextmanager
def enclosing_reals() -> Iterator[None]:
    """Inside, every operation encloses its real result as well as the rounded ones (exact operations stay exact)."""
    global _REALS
    before, _REALS = _REALS, True
    try:
        yield
    finally:
        _REALS = before


def reals() -> bool:
    """Whether `enclosing_reals` is in force."""
    return _REALS


def finish(dtype: str, lo: Array, hi: Array, certain: Array, nan: Mask, amb: Mask, direct: bool = False, exact_op: bool = False) -> Num:
    """Round exact (outward) ends to the grid.

    `certain`: the operands' bits were certain, so the sign of a zero is; `direct`: also one rounding without f32; `exact_op`:
    the ends are on the grid already.
    """
    ends = [(grid(lo, dtype), grid(hi, dtype))]
    if direct and dtype in NARROW:
        ends.append((grid(lo, dtype, False), grid(hi, dtype, False)))
    low, high = np.minimum(ends[0][0], ends[-1][0]), np.maximum(ends[0][1], ends[-1][1])
    if _REALS and not exact_op:
        low = np.where(low > lo, grid(low - ulp(low, dtype), dtype), low)
        high = np.where(high < hi, grid(high + ulp(high, dtype), dtype), high)
    low, high = zero_signs(low, high, certain)
    bad = np.isnan(low) | np.isnan(high)
    if dtype == "f8e4m3fn":  # overflow is invalid input: certain -> trap, possible -> nothing is known
        over = (np.isinf(low) | np.isinf(high)) & ~flags(nan) & ~flags(amb)
        if (over & (low == high)).any():
            raise Trap("CAST", "overflow of f8e4m3fn, which has no infinity; clamp explicitly")
        amb = both(amb, over)
    amb = less(both(amb, bad if bad.any() else None), nan)
    if nan is not None:
        low, high = np.where(nan, 0.0, low), np.where(nan, 0.0, high)
    return settled(Num(dtype, low, high, nan, amb))


def gamma(n: int, u: float) -> float:
    """n u / (1 - n u), the bound for n roundings (Higham, Accuracy and Stability of Numerical Algorithms, 3.1)."""
    return n * u / (1 - n * u) if n * u < 1 else float("inf")


def unit(dtype: str) -> float:
    """Unit roundoff of one operation of `dtype`; narrow dtypes round twice (f32, then their own)."""
    u = FORMATS[dtype].u
    return u + 2.0**-23 if dtype in NARROW else u


def outward(lo: Array, hi: Array) -> tuple[Array, Array]:
    """One f64 step outward; zeros and infinities are exact."""
    return (
        np.where((lo == 0) | np.isinf(lo), lo, np.nextafter(lo, -np.inf)),
        np.where((hi == 0) | np.isinf(hi), hi, np.nextafter(hi, np.inf)),
    )


def joined(*nums: Num) -> list[Num]:
    """Operands broadcast to one shape."""
    shape = spread([n.lo for n in nums])[0].shape
    return [n if n.shape == shape else move(lambda a: to_rank(a, shape), n) for n in nums]


def stacked(parts: Sequence[Num], axis: int) -> Num:
    """Enclosures of one dtype joined along an axis that they have."""

    def mask(pick: str) -> Mask:
        masks = [getattr(p, pick) for p in parts]
        if all(v is None for v in masks):
            return None
        return np.concatenate([np.zeros(p.shape, bool) if v is None else v for p, v in zip(parts, masks, strict=True)], axis)

    n = max(p.shape[0] for p in parts)
    if axis and any(p.shape[0] != n for p in parts):
        parts = [at(p, np.zeros(n, np.int64)) if p.shape[0] == 1 else p for p in parts]
    lo = np.concatenate([p.lo for p in parts], axis)
    hi = np.concatenate([p.hi for p in parts], axis) if parts[0].dtype in FLOATS else lo
    return Num(parts[0].dtype, lo, hi, mask("nan"), mask("amb"))
