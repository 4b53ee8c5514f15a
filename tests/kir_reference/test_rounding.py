"""Conversions and fused multiply-add round once, to nearest even, in every dtype."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from eqkir.base.dtypes import INTS, NUMPY
from eqkir.kir import elementwise, floats
from eqkir.kir.reference_codes import Trap
from tests.kir_reference.support import nearest


def hard_values(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """f64 values at, and a hair beside, midpoints of `dtype`, subnormals and overflow included."""
    f = floats.FORMATS[dtype]
    base = np.ldexp(rng.integers(2 ** (f.p - 1), 2**f.p, 60).astype(float) + 0.5, rng.integers(f.emin - f.p, int(np.log2(f.max)) - f.p, 60))
    low = (rng.integers(0, 2**f.p, 20) + 0.5) * f.tiny
    beside = [v * s for v in (base, low) for s in (1.0, 1 + 2.0**-50, 1 - 2.0**-50, 1 + 2.0**-26, 1 - 2.0**-26)]
    x = np.concatenate([*beside, np.asarray([f.tiny / 2, f.tiny * 0.75])])
    return np.concatenate([x, -x])


@pytest.mark.parametrize("dtype", floats.NARROW)
def test_narrowing_from_f64_rounds_once(dtype: str) -> None:
    x = hard_values(dtype, np.random.default_rng(1))
    x = x[np.abs(x) <= floats.FORMATS[dtype].max]
    got = elementwise.cast(x, dtype).astype(np.float64)
    want = np.asarray([nearest(Fraction(float(v)), dtype) for v in x])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(floats.grid(x, dtype, through_f32=False), want)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "f8e5m2"])
@pytest.mark.parametrize("source", sorted(INTS))
def test_integers_convert_to_nearest_even(source: str, dtype: str) -> None:
    info = np.iinfo(NUMPY[source])
    rng = np.random.default_rng(2)
    powers = [s * (2**k + d) for k in range(64) for d in (-1, 0, 1) for s in (1, -1)]
    ties = [(2 * m + 1) << k | e for k in range(2, 50) for m in map(int, rng.integers(2**9, 2**12, 2)) for e in (0, 1)]
    x = np.asarray(sorted({v for v in (*powers, *ties, info.min, info.max) if info.min <= v <= info.max}), NUMPY[source])
    got = elementwise.cast(x, dtype)
    for v, g in zip(x, got, strict=True):
        if dtype in ("f32", "f64"):
            lo, hi = (np.nextafter(g, s * NUMPY[dtype].type(np.inf)) for s in (-1, 1))
            assert abs(Fraction(float(g)) - int(v)) <= min(abs(Fraction(float(n)) - int(v)) for n in (lo, hi))
        else:
            assert float(g) == nearest(Fraction(int(v)), dtype), (int(v), g)


def test_constants_beyond_2_53_round_once() -> None:
    tie = (2**24 + 1) << 40
    assert float(elementwise.constant(tie, "f32")) == float(2**24 << 40)
    assert float(elementwise.constant(tie + 1, "f32")) == float((2**24 + 2) << 40)


def test_fma_rounds_once() -> None:
    rng = np.random.default_rng(3)
    for dtype, exponents in ((np.float32, 60), (np.float64, 400)):
        x, y = (np.ldexp(rng.standard_normal(400), rng.integers(-exponents, exponents, 400)).astype(dtype) for _ in range(2))
        z = (-(x.astype(np.float64) * y) * (1 + rng.choice([0.0, 2.0**-23, 2.0**-40, 3.0], 400))).astype(dtype)
        z[:40] = np.ldexp(1.0, rng.integers(-140, -100, 40)).astype(dtype)
        got = floats.fma(x, y, z)
        for a, b, c, g in zip(x, y, z, got, strict=True):
            exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
            if np.isinf(g):
                assert abs(exact) > Fraction(float(np.finfo(dtype).max))
                continue
            lo, hi = (np.nextafter(g, dtype(s * np.inf)) for s in (-1, 1))
            near = [abs(Fraction(float(n)) - exact) for n in (lo, hi) if np.isfinite(n)]
            assert abs(Fraction(float(g)) - exact) <= min(near)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_of_special_values_follows_ieee(dtype: type) -> None:
    values = np.asarray([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny], dtype)
    x, y, z = (v.reshape(-1) for v in np.meshgrid(values, values, values))
    with np.errstate(all="ignore"):
        got = floats.fma(x, y, z)
        plain = x.astype(np.longdouble) * y + z
        want = plain.astype(dtype)
    np.testing.assert_array_equal(got, want)
    zero = (got == 0) & (want == 0) & (plain == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


def mixed(rng: np.random.Generator, n: int) -> np.ndarray:
    """f64: normal numbers, small multiples of powers of two (ties), any bits, borders."""
    small = rng.integers(-8, 9, n) * 2.0 ** rng.integers(-30, 30, n)
    borders = rng.choice(
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 1.7e308, 2.0**-1022, 1 + 2**-52, 1 - 2**-53, 2.0**53 + 2], n
    )
    raw = np.frombuffer(rng.bytes(8 * n), np.float64)
    kind = rng.integers(0, 5, n)
    return np.select([kind == 0, kind == 1, kind == 2], [small, borders, raw], np.ldexp(rng.standard_normal(n), rng.integers(-60, 60, n)))


def test_f64_fma_has_the_bits_of_the_rational_result() -> None:
    rng, n = np.random.default_rng(4), 20000
    with np.errstate(all="ignore"):
        x, y, z = mixed(rng, n), mixed(rng, n), mixed(rng, n)
        near = -(x * y)  # cancels, but for a few last places
        z = np.select([rng.integers(0, 3, n) == 0, rng.integers(0, 2, n) == 0], [near, near * (1 + 2.0**-52 * rng.integers(-3, 4, n))], z)
        plain = x * y + z
    got = floats.fma(x, y, z)
    for a, b, c, g, p in zip(x.tolist(), y.tolist(), z.tolist(), got.tolist(), plain.tolist(), strict=True):
        if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
            assert g == (c if np.isfinite(a) and np.isfinite(b) else p) or (g != g and (p != p or c != c))
            continue
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        try:
            want = exact.numerator / exact.denominator  # correctly rounded
        except OverflowError:
            want = np.inf if exact > 0 else -np.inf
        assert g == want, (a, b, c)


def test_f8e4m3fn_overflow_is_invalid_and_f8e5m2_overflow_is_infinite() -> None:
    assert np.isinf(elementwise.cast(np.asarray([1e6], np.float32), "f8e5m2").astype(np.float32)).all()
    assert float(elementwise.cast(np.asarray([463.0], np.float32), "f8e4m3fn")[0]) == 448.0
    for v in (480.0, 1e6, np.inf):
        with pytest.raises(Trap):
            elementwise.cast(np.asarray([v], np.float32), "f8e4m3fn")
    assert np.isnan(elementwise.cast(np.asarray([np.nan], np.float32), "f8e4m3fn").astype(np.float32)).all()
