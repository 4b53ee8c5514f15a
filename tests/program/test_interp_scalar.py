"""Pointwise semantics against exact rational arithmetic and bit patterns."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.program import interp_scalar as S

BITS = {"f16": np.uint16, "bf16": np.uint16, "f8e4m3fn": np.uint8, "f8e5m2": np.uint8, "f32": np.uint32}


def finite_values(dtype: str) -> np.ndarray:
    """All finite values of a narrow dtype, ascending, as f64."""
    w = BITS[dtype]
    with np.errstate(invalid="ignore"):
        v = np.arange(np.iinfo(w).max + 1).astype(w).view(NUMPY[dtype]).astype(np.float64)
    return np.unique(v[np.isfinite(v)])


def nearest_even(x: Fraction, grid: np.ndarray, dtype: str) -> float:
    """The nearest grid value; on a tie the one with the even bit pattern."""
    k = int(np.searchsorted(grid, float(x)))
    near = sorted(grid[max(k - 2, 0) : k + 2], key=lambda g: abs(Fraction(float(g)) - x))
    a, b = near[0], near[1]
    if abs(Fraction(float(a)) - x) != abs(Fraction(float(b)) - x):
        return float(a)
    return float(a if int(np.array(a).astype(NUMPY[dtype]).view(BITS[dtype])) % 2 == 0 else b)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e4m3fn", "f8e5m2"])
def test_f64_rounds_once_to_narrow_dtypes(dtype: str) -> None:
    rng = np.random.default_rng(0)
    grid = finite_values(dtype)
    i = rng.integers(len(grid) // 4, 3 * len(grid) // 4, 400)
    mid = (grid[i] + grid[i + 1]) / 2
    x = np.concatenate([mid, np.nextafter(mid, np.inf), np.nextafter(mid, -np.inf)])
    got = S.cast(x, "f64", dtype).astype(np.float64)
    assert [float(g) for g in got] == [nearest_even(Fraction(float(v)), grid, dtype) for v in x]


@pytest.mark.parametrize("src", ["i64", "u64", "i32"])
@pytest.mark.parametrize("dst", ["f16", "bf16", "f32"])
def test_integers_round_once(src: str, dst: str) -> None:
    rng = np.random.default_rng(1)
    t = NUMPY[src]
    shifts = rng.integers(0, 8 * t.itemsize - 1, 300).astype(np.uint64)
    x = (rng.integers(0, np.iinfo(t).max, 300, dtype=np.uint64) >> shifts).astype(t)
    x = np.concatenate([x, np.array([0, 1, 2**31 - 1, 257, 65519, 65520]).astype(t)])
    grid = finite_values(dst) if dst != "f32" else None
    with np.errstate(over="ignore"):
        got = S.cast(x, src, dst)
    for v, g in zip(x.tolist(), got.astype(np.float64).tolist(), strict=True):
        if grid is not None and abs(v) > grid[-1]:
            continue
        want = float(np.float32(v)) if grid is None and abs(v) < 2**53 else None
        if grid is not None:
            want = nearest_even(Fraction(v), grid, dst)
        if want is None:
            lo, hi = np.nextafter(np.float32(g), np.float32(-np.inf)), np.nextafter(np.float32(g), np.float32(np.inf))
            assert abs(Fraction(v) - Fraction(g)) <= min(abs(Fraction(v) - Fraction(float(lo))), abs(Fraction(v) - Fraction(float(hi))))
        else:
            assert g == want


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_fma_rounds_once(dtype: str) -> None:
    rng = np.random.default_rng(2)
    t = NUMPY[dtype]
    n = 3000
    a = (rng.standard_normal(n) * 2.0 ** rng.integers(-20, 20, n)).astype(t)
    b = (rng.standard_normal(n) * 2.0 ** rng.integers(-20, 20, n)).astype(t)
    c = (-(a * b) * (1 + rng.integers(-3, 4, n) * np.finfo(t).eps)).astype(t)  # cancellation
    c[: n // 2] = (rng.standard_normal(n // 2) * 2.0 ** rng.integers(-60, 60, n // 2)).astype(t)
    got = S.fma(a, b, c, dtype)
    for x, y, z, g in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        want = exact.numerator / exact.denominator if exact else 0.0  # integer division rounds correctly to f64
        if dtype == "f64":
            assert g == want
        else:
            err = abs(Fraction(g) - exact)
            for other in (np.nextafter(np.float32(g), np.float32(np.inf)), np.nextafter(np.float32(g), np.float32(-np.inf))):
                assert err <= abs(Fraction(float(other)) - exact)


def test_fma_of_special_values() -> None:
    inf, nan = math.inf, math.nan
    x = np.array([inf, 0.0, -0.0, 1.0, nan, 1e308, 1e-200])
    y = np.array([0.0, 1.0, 1.0, inf, 1.0, 10.0, 1e-200])
    z = np.array([1.0, -0.0, -0.0, -inf, 0.0, -inf, 0.0])
    with np.errstate(all="ignore"):
        for dtype in ("f64", "f32"):
            t = NUMPY[dtype]
            got = S.fma(x.astype(t), y.astype(t), z.astype(t), dtype)
            assert np.isnan(got[[0, 3, 4]]).all() and got[1] == 0 and not np.signbit(got[1]) and np.signbit(got[2])
        huge = np.array([1e308, -1e308, 1e308])
        assert S.fma(huge, abs(huge), np.array([0.0, 1.0, -1e308]), "f64").tolist() == [inf, -inf, inf]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_extremes_treat_nan_and_signed_zero_as_ieee(dtype: str) -> None:
    t = NUMPY[dtype]
    a, b = np.array([math.nan, 1.0, -0.0, 0.0]).astype(t), np.array([1.0, math.nan, 0.0, -0.0]).astype(t)
    for fn, zero in (("maximum", False), ("minimum", True)):
        y = S.binary(fn, a, b, dtype).astype(np.float64)
        assert np.isnan(y[:2]).all() and (np.signbit(y[2:]) == zero).all()
        y = S.binary(fn + "_num", a, b, dtype).astype(np.float64)
        assert (y[:2] == 1).all() and (np.signbit(y[2:]) == zero).all()


def test_integers_wrap_and_divide_by_floor() -> None:
    a, b = np.array([127, -128, -7, 7], np.int8), np.array([1, -1, 2, -2], np.int8)
    with np.errstate(all="ignore"):
        assert S.binary("add", a, b, "i8").tolist() == [-128, 127, -5, 5]
        assert S.binary("floordiv", a, b, "i8").tolist()[2:] == [-4, -4]
        assert S.binary("mod", a, b, "i8").tolist()[2:] == [1, -1]
        assert S.binary("shr", np.array([-8], np.int8), np.array([1], np.int8), "i8").tolist() == [-4]
        assert S.cast(np.array([300, -1], np.int64), "i64", "u8").tolist() == [44, 255]


def test_casts_of_garbage_do_not_raise() -> None:
    x = np.array([math.nan, math.inf, -math.inf, 1e30], np.float32)
    for dst in ("i8", "u64", "i64", "bool", "f8e4m3fn"):
        S.cast(x, "f32", dst)
    assert S.cast(np.array([-1.9, 1.9, 255.5], np.float32), "f32", "i32").tolist() == [-1, 1, 255]


@pytest.mark.parametrize("fn", sorted(f for f in S.TRANSCENDENTAL if not f.endswith("_fast")))
def test_f32_functions_are_within_one_ulp(fn: str) -> None:
    rng = np.random.default_rng(3)
    x = np.abs(rng.standard_normal(400)).astype(np.float32)
    x = x % 1 if fn == "asin" else x
    exact = {
        "rsqrt": lambda v: 1 / math.sqrt(v), "sigmoid": lambda v: 1 / (1 + math.exp(-v)),
        "i0": lambda v: sum((v / 2) ** (2 * k) / math.factorial(k) ** 2 for k in range(40)),
    }.get(fn) or getattr(math, fn)  # fmt: skip
    got = S.unary(fn, x, "f32")
    want = np.array([exact(float(v)) for v in x])
    assert (np.abs(got.astype(np.float64) - want) <= np.spacing(np.abs(got)).astype(np.float64)).all()


def test_special_values_of_functions() -> None:
    with np.errstate(all="ignore"):
        x = np.array([math.inf, -math.inf, math.nan], np.float32)
        assert S.unary("exp", x, "f32").tolist()[:2] == [math.inf, 0.0]
        assert S.unary("tanh", x, "f32").tolist()[:2] == [1.0, -1.0]
        assert S.unary("sigmoid", x, "f32").tolist()[:2] == [1.0, 0.0]
        assert S.unary("erf", x, "f32").tolist()[:2] == [1.0, -1.0]
        assert S.unary("i0", x, "f32").tolist()[:2] == [math.inf, math.inf]
        assert S.unary("lgamma", np.array([0.0, -1.0, math.inf], np.float32), "f32").tolist() == [math.inf] * 3
        for fn in ("exp", "tanh", "sigmoid", "erf", "erfc", "i0", "lgamma", "log1p"):
            assert math.isnan(S.unary(fn, x, "f32")[2])
