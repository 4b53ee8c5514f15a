"""Enclosures of reductions and contractions over every tree and permutation; operands have the reduced axis last.

A sum of n terms in any tree differs from the exact sum of its (possibly inexact) terms by at most gamma_{n-1} * sum |x_i|
(Higham, Accuracy and Stability of Numerical Algorithms, 4.2), with the unit roundoff of the accumulator's dtype, provided that no
partial sum overflows; partial sums are bounded by (1 + gamma) sum |x_i|. Sums never underflow inexactly, products may.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.kir import elementwise
from eqkir.kir.floats import FORMATS, Array
from eqkir.kir.interval import Num, Start, both, exact, finish, gamma, less, outward, unit
from eqkir.kir.interval_arithmetic import fused_ends
from eqkir.kir.reference_structured import accumulate


def builtin(fn: str, x: Num, acc: str) -> Num:
    """Built-in reduction of the last axis; `acc` is the accumulator's dtype."""
    amb = None if x.amb is None else np.any(x.amb, -1)
    if x.dtype not in FLOATS:
        if fn in ("any", "all") and x.amb is not None:
            sure = (x.lo == (fn == "any")) & ~x.amb
            decided = np.any(sure, -1)
            v = np.where(decided, fn == "any", np.any(x.lo, -1) if fn == "any" else np.all(x.lo, -1))
            return Num("bool", v, v, None, less(amb, decided))
        v = accumulate(fn, elementwise.cast(x.lo, acc), "plain")
        return Num(acc, v, v, None, amb)
    nan = None if x.nan is None else np.any(x.nan, -1)
    amb = less(amb, nan)
    if x.shape[-1] == 0:
        return exact(accumulate(fn, np.zeros(x.shape, NUMPY[acc]), "plain"))
    if fn in ("max", "min"):
        return _extremum(fn, x, nan, amb)
    if fn == "prod":
        return _product(x, nan, amb)
    ends = fused_ends(x) if acc == x.dtype else (x.lo, x.hi)
    return _sum(replace(x, lo=ends[0], hi=ends[1]), acc, nan, amb, x.raw is not None and acc == x.dtype)


def _extremum(fn: str, x: Num, nan: Array | None, amb: Array | None) -> Num:
    f = np.maximum if fn == "max" else np.minimum
    fill = -np.inf if fn == "max" else np.inf
    hide = both(x.nan, x.amb)
    lo, hi = (v if hide is None else np.where(hide, fill, v) for v in (x.lo, x.hi))
    low, high = f.reduce(lo, -1), f.reduce(hi, -1)
    certain = np.ones(low.shape, bool)
    if ((high == 0) & (low == 0)).any():  # certain when every zero that could win is exact, and all have one sign
        rival = (hi if fn == "max" else lo) == 0
        loose = rival & ((lo != hi) | (np.signbit(lo) != np.signbit(hi)))
        certain = ~np.any(loose, -1) & ~(np.any(rival & np.signbit(lo), -1) & np.any(rival & ~np.signbit(lo), -1))
    return finish(x.dtype, low, high, certain, nan, amb, exact_op=True)


def wide_float(dtype: str) -> tuple[type, float]:
    """The float that sums are evaluated in, and its unit roundoff."""
    wide: type = np.longdouble if dtype == "f64" else np.float64
    return wide, float(np.finfo(wide).eps) / 2


def _sum(x: Num, acc: str, nan: Array | None, amb: Array | None, fused: bool) -> Num:
    """Sum of the last axis. `fused`: the terms are products, which may also form a contraction (n roundings, free start)."""
    n, fmt = x.shape[-1], FORMATS[acc]
    hide = both(x.nan, x.amb)
    lo, hi = (np.where(np.isfinite(v), v, 0.0) if hide is None else np.where(hide | np.isinf(v), 0.0, v) for v in (x.lo, x.hi))
    wide, u = wide_float(acc)
    size = np.sum(np.maximum(np.abs(lo), np.abs(hi)), -1, dtype=wide) * (1 + gamma(n, u))
    growth = gamma(n if fused else n - 1, unit(acc)) if n > 1 else 0.0
    computed, slack = (size * gamma(n + 1, u) if n > 1 else size * 0), size * growth
    base_lo, base_hi = np.sum(lo, -1, dtype=wide) - computed, np.sum(hi, -1, dtype=wide) + computed
    out_lo, out_hi, base_lo, base_hi, size = (v.astype(np.float64) for v in (base_lo - slack, base_hi + slack, base_lo, base_hi, size))
    if n > 1:
        out_lo, out_hi = outward(out_lo, out_hi)
    overflow = size * (1 + growth) >= fmt.max
    if overflow.any():  # a partial sum may overflow, and terms of the other sign may follow
        amb = both(amb, overflow & ~(np.all(lo >= 0, -1) | np.all(hi <= 0, -1)))
    positive = np.all((x.lo == 0) & ~np.signbit(x.lo) & ~np.signbit(x.hi), -1)  # else a start at +0 may change a zero's sign
    out_lo, out_hi, nan, amb = _infinities(x, out_lo, out_hi, nan, amb)
    out = finish(acc, out_lo, out_hi, positive, nan, less(amb, nan))
    return replace(out, start=Start(*outward(base_lo, base_hi), size, n)) if fused else out


def _infinities(x: Num, lo: Array, hi: Array, nan: Array | None, amb: Array | None) -> tuple[Array, Array, Array | None, Array | None]:
    """Infinite terms of a sum: one sign wins, both signs are NaN; a term that may be infinite opens the end on its side."""
    up, down = x.hi == np.inf, x.lo == -np.inf
    if not (up.any() or down.any()):
        return lo, hi, nan, amb
    may_up, may_down = np.any(up, -1), np.any(down, -1)
    must_up, must_down = np.any(up & (x.lo == np.inf), -1), np.any(down & (x.hi == -np.inf), -1)
    nan = both(nan, must_up & must_down)
    amb = both(amb, may_up & may_down & ~(must_up & must_down))
    lo = np.where(must_up, np.inf, np.where(may_down, -np.inf, lo))
    hi = np.where(must_down, -np.inf, np.where(may_up, np.inf, hi))
    return lo, hi, nan, amb


def _product(x: Num, nan: Array | None, amb: Array | None) -> Num:
    """Product in any tree: relative error gamma_{n-1}, and where a partial product may be subnormal, one absolute rounding for each
    of them, amplified by at most the product of the factors above 1. Ambiguous where a partial product may overflow.
    """
    n, fmt = x.shape[-1], FORMATS[x.dtype]
    hide = both(x.nan, x.amb)
    a, b = (v if hide is None else np.where(hide, 1.0, v) for v in (x.lo, x.hi))
    small = np.where((a <= 0) & (b >= 0), 0.0, np.minimum(np.abs(a), np.abs(b)))
    large = np.maximum(np.abs(a), np.abs(b))
    top = np.prod(np.maximum(large, 1.0), -1)
    bottom = np.prod(np.minimum(np.where(small == 0, 1.0, small), 1.0), -1)
    crossing = np.any((small == 0) & (large > 0), -1)
    safe = top * (1 + gamma(n, unit(x.dtype))) < fmt.max
    g = gamma(n - 1, unit(x.dtype)) + gamma(n + 1, 2.0**-53)
    low, high = np.prod(small, -1), np.prod(large, -1)
    deep = np.all(large > 0, -1) & (crossing | ~(bottom * (1 - gamma(n, unit(x.dtype))) > 2.0**fmt.emin))
    sink = np.where(deep & safe, 4 * n * fmt.tiny * top * (1 + 2 * g), 0.0)  # of the tree, and of this evaluation
    low, high = low * (1 - min(g, 1.0)) - sink, high * (1 + g) + sink
    odd = np.sum(b < 0, -1) % 2 == 1
    lo = np.where(crossing, -high, np.where(odd, -high, low))
    hi = np.where(crossing, high, np.where(odd, -low, high))
    if n == 1:
        return finish(x.dtype, x.lo[..., 0], x.hi[..., 0], np.ones(lo.shape, bool), nan, amb)
    return finish(x.dtype, lo, hi, np.zeros(lo.shape, bool), nan, less(both(amb, ~safe), nan))


# ------------------------------------------------------------------------------------------------ contract
def contract(a: Num, b: Num, acc: str, zero_products: bool = False) -> Num:
    """``[…, M, K] @ […, K, N]`` in `acc`: products rounded or exact, any tree, the start free for a following add.

    `zero_products`: the product of a zero and an infinity or NaN may count as zero.
    """
    if acc not in FLOATS:
        v = np.matmul(a.lo, b.lo)
        amb = None
        if a.amb is not None or b.amb is not None:
            amb = _any(a.amb, np.ones(b.shape, bool), a.shape) | _any_right(b.amb, a.shape, b.shape)
        return Num(acc, v, v, None, amb)
    k, fmt = a.shape[-1], FORMATS[acc]
    if k == 0:
        none = exact(np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), NUMPY[acc]))
        return replace(none, start=Start(none.lo, none.hi, none.lo, 0))
    wide, u = wide_float(acc)
    (ca, ra, oa), (cb, rb, ob) = _centre(a), _centre(b)
    mid = np.matmul(ca.astype(wide), cb.astype(wide))
    size = np.matmul(np.abs(ca) + ra, np.abs(cb) + rb) * (1 + gamma(2 * k, 2.0**-53))
    radius = np.zeros(1)
    if ra.any() or rb.any():
        radius = np.matmul(np.abs(ca), rb) + np.matmul(ra, np.abs(cb) + rb)
        radius = radius * (1 + gamma(4 * k, 2.0**-53))
    computed = size * gamma(2 * k, u) if k > 1 or acc == "f64" else size * 0  # one product of narrower floats is exact
    nonzero = size > 0 if acc != "f64" else np.matmul(((np.abs(ca) + ra) > 0) * 1.0, ((np.abs(cb) + rb) > 0) * 1.0) > 0
    room = np.where(nonzero, 2 * k * fmt.tiny, 0.0) if k > 1 or acc == "f64" else np.zeros(1)  # products that underflow
    slack = size * gamma(k, unit(acc)) + room if k > 1 or acc == "f64" else np.zeros(1)  # else `finish` rounds the one product
    base_lo, base_hi = outward((mid - radius - computed).astype(np.float64), (mid + radius + computed).astype(np.float64))
    lo, hi = base_lo - slack, base_hi + slack
    over = size * (1 + gamma(k, unit(acc))) >= fmt.max
    if k == 1:
        over = np.zeros(lo.shape, bool)
    nan, amb = None, over if over.any() else None
    if oa is not None or ob is not None:
        lo, hi, nan, amb = _special(a, b, lo, hi, amb, zero_products)
    out = finish(acc, lo, hi, np.zeros(lo.shape, bool), nan, less(amb, nan))
    return replace(out, start=Start(base_lo - room, base_hi + room, size, k))


def _centre(x: Num) -> tuple[Array, Array, Array | None]:
    """Midpoint, outward radius, and the elements without a finite interval (replaced by 0), None when there are none."""
    odd = both(x.nan, x.amb)
    inf = np.isinf(x.lo) | np.isinf(x.hi)
    odd = both(odd, inf) if inf.any() else odd
    lo, hi = (v if odd is None else np.where(odd, 0.0, v) for v in (x.lo, x.hi))
    mid = np.where(lo == hi, lo, lo / 2 + hi / 2)
    radius = np.where(lo == hi, 0.0, np.maximum(hi - mid, mid - lo) * (1 + 2.0**-50))
    return mid, radius, odd


def _any(flag: Array | None, other: Array, shape: tuple[int, ...]) -> Array:
    left = np.zeros(shape, np.float32) if flag is None else np.broadcast_to(flag, shape).astype(np.float32)
    return np.asarray(np.matmul(left, other.astype(np.float32)) > 0)


def _any_right(flag: Array | None, left: tuple[int, ...], right: tuple[int, ...]) -> Array:
    f = np.zeros(right, np.float32) if flag is None else np.broadcast_to(flag, right).astype(np.float32)
    return np.asarray(np.matmul(np.ones(left, np.float32), f) > 0)


def _special(
    a: Num, b: Num, lo: Array, hi: Array, amb: Array | None, zero_products: bool
) -> tuple[Array, Array, Array | None, Array | None]:
    """NaN and infinite factors: certain results where signs are certain, ambiguous otherwise."""

    def flags(x: Num) -> dict[str, Array]:
        none = np.zeros(x.shape, bool)
        nan, unknown = (none if m is None else np.broadcast_to(m, x.shape) for m in (x.nan, x.amb))
        plain = ~nan & ~unknown
        up, down = plain & (x.lo == np.inf), plain & (x.hi == -np.inf)
        maybe = plain & (np.isinf(x.lo) | np.isinf(x.hi)) & ~up & ~down
        pos, neg, zero = plain & (x.lo > 0), plain & (x.hi < 0), plain & (x.lo == 0) & (x.hi == 0)
        return {"nan": nan, "up": up, "down": down, "odd": unknown | maybe, "pos": pos, "neg": neg, "zero": zero, "all": ~none}

    f, g = flags(a), flags(b)
    f["unsure"], g["unsure"] = (~(s["pos"] | s["neg"] | s["zero"] | s["nan"]) for s in (f, g))

    def some(*pairs: tuple[str, str]) -> Array:
        return np.asarray(sum(np.matmul(f[p].astype(np.float32), g[q].astype(np.float32)) for p, q in pairs) > 0)

    up = some(("up", "pos"), ("down", "neg"), ("pos", "up"), ("neg", "down"))
    down = some(("up", "neg"), ("down", "pos"), ("pos", "down"), ("neg", "up"))
    doubt = some(("odd", "all"), ("all", "odd"), ("up", "unsure"), ("down", "unsure"), ("unsure", "up"), ("unsure", "down"))
    annihilated = (("up", "zero"), ("down", "zero"), ("zero", "up"), ("zero", "down"))
    if zero_products:
        f["other"], g["other"] = ~f["zero"], ~g["zero"]
        nan = some(("nan", "other"), ("other", "nan")) | (up & down)
        doubt = doubt | some(*annihilated, ("nan", "zero"), ("zero", "nan"))
    else:
        nan = some(("nan", "all"), ("all", "nan"), *annihilated) | (up & down)
    lo, hi = np.where(up, np.inf, np.where(down, -np.inf, lo)), np.where(up, np.inf, np.where(down, -np.inf, hi))
    return lo, hi, nan, both(amb, doubt)
