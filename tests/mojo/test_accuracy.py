"""The functions of f32 and f64 within kir.md's limits, against wider arithmetic, and their values at the ends."""

from __future__ import annotations

import ctypes
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.emit.mojo import ops, toolchain
from eqkir.emit.mojo.build import Built, Module, build
from eqkir.kir.floats import FUNCTIONS, ulp
from tests.mojo.opsuite import Case, Suite

pytestmark = [pytest.mark.compile, pytest.mark.skipif(not toolchain.available(), reason="no Mojo compiler")]
Array = np.ndarray[Any, Any]
#: kir.md section 5, in ulp
LIMITS = {
    "rsqrt": 2, "exp": 2, "exp2": 2, "log": 2, "log2": 2, "log1p": 2, "sigmoid": 4, "tanh": 4, "expm1": 4, "sin": 4, "cos": 4, "tan": 4,
    "asin": 4, "atan": 4, "erf": 4, "erfc": 8, "i0": 8, "lgamma": 8,
}  # fmt: skip
PRECISE = {
    "erf": mp.erf, "erfc": mp.erfc, "i0": lambda x: mp.besseli(0, x),
    "lgamma": lambda x: mp.inf if x <= 0 and x == mp.floor(x) else mp.re(mp.loggamma(x)),
}  # fmt: skip
CASES = [Case("Un", (f,), (d,), d) for f in ops.FUNCTIONS for d in ("f32", "f64")]
INF, NAN = np.inf, np.nan
#: value at 0, -0, inf, -inf
ENDS = {
    "rsqrt": (INF, -INF, 0.0, NAN), "exp": (1.0, 1.0, INF, 0.0), "exp2": (1.0, 1.0, INF, 0.0), "log": (-INF, -INF, INF, NAN),
    "log2": (-INF, -INF, INF, NAN), "log1p": (0.0, -0.0, INF, NAN), "expm1": (0.0, -0.0, INF, -1.0), "sigmoid": (0.5, 0.5, 1.0, 0.0),
    "tanh": (0.0, -0.0, 1.0, -1.0), "sin": (0.0, -0.0, NAN, NAN), "cos": (1.0, 1.0, NAN, NAN), "tan": (0.0, -0.0, NAN, NAN),
    "asin": (0.0, -0.0, NAN, NAN), "atan": (0.0, -0.0, np.pi / 2, -np.pi / 2), "erf": (0.0, -0.0, 1.0, -1.0), "erfc": (1.0, 1.0, 0.0, 2.0),
    "i0": (1.0, 1.0, INF, INF), "lgamma": (INF, INF, INF, INF),
}  # fmt: skip


@pytest.fixture(scope="module")
def suite() -> Suite:
    return Suite(CASES, size=40)


def truth(fn: str, x: Array) -> Array:
    """In f64 for f32, in extended precision for f64."""
    with np.errstate(all="ignore"):
        if x.dtype == np.float32:
            return FUNCTIONS[fn](x.astype(np.float64))
        if fn not in PRECISE:
            return FUNCTIONS[fn](x.astype(np.longdouble))
    out = np.zeros(x.shape, np.longdouble)
    with mp.workprec(130):
        for k, v in enumerate(x.tolist()):
            y = PRECISE[fn](mp.mpf(v))
            high = float(y)
            out[k] = np.longdouble(high) + np.longdouble(float(y - high)) if np.isfinite(high) else high
    return out


def inputs(fn: str, dtype: str) -> Array:
    """All magnitudes, the ranges where functions bend, neighbourhoods of one, of whole multiples of pi/2 and of negative integers."""
    r, wide = np.random.default_rng(4), dtype == "f64"
    n = 150 if fn == "i0" and wide else 800 if fn in PRECISE and wide else 20000 if wide else 200000
    top = 60 if fn in ("erfc", "lgamma") and wide else 1024 if wide else 128
    scale = 7 if wide else 1
    parts = [
        np.exp2(r.uniform(-top, top, n)) * r.choice([-1, 1], n), np.exp2(top - r.uniform(0, 2, n // 4)),
        r.standard_normal(n) * 3, r.uniform(-1.5, 1.5, n),
        r.uniform(-105 * scale, 90 * scale, n), 1 + r.standard_normal(n) * np.exp2(-r.uniform(0, 30, n)), r.uniform(-30, 40, n),
    ]  # fmt: skip
    if fn in ("sin", "cos", "tan"):
        parts += [r.uniform(-65536, 65536, n), np.arange(1, 41000) * (np.pi / 2)]
    if fn == "lgamma":
        parts.append(-r.integers(1, 40, n) + r.standard_normal(n) * np.exp2(-r.uniform(0, 40, n)))
    x = np.concatenate(parts).astype(NUMPY[dtype])
    return x[np.abs(x) <= 65536] if fn in ("sin", "cos", "tan") else x


def errors(fn: str, x: Array, got: Array, dtype: str) -> Array:
    """Error / limit; infinite where one is NaN or infinite and the other is not."""
    want = truth(fn, x)
    with np.errstate(all="ignore"):
        near = want.astype(x.dtype)
        u = ulp(near.astype(np.float64), dtype)
        error = np.abs(got.astype(want.dtype) - want) / u
        limit = LIMITS[fn] + (1.2 * np.abs(x) if fn in ("exp", "sigmoid") else 0.0)
        same = (got == near) | (np.isnan(got) & np.isnan(near))
        out = np.where(same, 0.0, np.where(np.isfinite(got) & np.isfinite(near), error, np.inf) / limit)
        top = np.finfo(x.dtype).max  # at the border of overflow the largest number and infinity are neighbours
        close = np.abs(near) >= top * (1 - 4 * np.finfo(x.dtype).eps)
        out = np.where((np.abs(got) == top) & np.isinf(near) | np.isinf(got) & close, 0.0, out)
    return np.where(np.abs(want) < 2.0**-4, 0.0, out) if fn == "lgamma" else out


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_function_is_as_accurate_as_promised(suite: Suite, case: Case) -> None:
    fn, dtype = case.attrs[0], case.dtype
    x = inputs(fn, dtype)
    got = suite.run(case, x)
    e = errors(fn, x, got, dtype)
    worst = int(np.argmax(e))
    assert e[worst] <= 1, (x[worst], got[worst])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ends_and_subnormal_numbers(suite: Suite, case: Case) -> None:
    fn, t = case.attrs[0], NUMPY[case.dtype]
    x = np.array([0.0, -0.0, INF, -INF, NAN], t)
    got = suite.run(case, x)
    want = np.array([*ENDS[fn], NAN], t)
    assert np.array_equal(got, want, equal_nan=True), (x, got, want)
    assert np.array_equal(np.signbit(got[:4][want[:4] == 0]), np.signbit(want[:4][want[:4] == 0]))
    if ENDS[fn][:2] == (0.0, -0.0) and fn != "erf":  # f(x) = x to first order
        tiny = np.arange(1, 200, dtype=f"u{t.itemsize}").view(t)
        assert np.array_equal(suite.run(case, tiny), tiny) and np.array_equal(suite.run(case, -tiny), -tiny)


#: of operands with bits lo … hi - 1, the largest error over the limit, and how many results are NaN or infinite where they should not be:
#: the function of f64 is the truth, which is known to a few of its own ulp. Words: worst (f64), count (i64), first such bits
SWEEP = """
@export
def kt_{fn}(words: Int, lo: Int, hi: Int) abi("C"):
    comptime W = 16
    comptime F = SIMD[DType.float32, W]
    comptime G = SIMD[DType.float64, W]
    comptime U = SIMD[DType.uint32, W]
    var w = Pointer[Float64, MutAnyOrigin](unsafe_from_address=words)
    var n = Pointer[Int64, MutAnyOrigin](unsafe_from_address=words)
    var worst = G(0.0)
    var wrong = SIMD[DType.int64, W](0)
    var at = lo
    while at < hi:
        var bits = U(UInt32(at)) + eqk_lane_u32[W]()
        var x = bitcast[DType.float32, W](bits)
        var y = eqk_{fn}_f32[W](x)
        var t = eqk_{fn}_f64[W](x.cast[DType.float64]())
        var near = t.cast[DType.float32]()
        var same = y.eq(near) | (eqk_isnan[DType.float32, W](y) & eqk_isnan[DType.float32, W](near))
        var e = bitcast[DType.uint32, W](near) & 0x7F800000
        e = e.lt(U(0x00800000)).select(U(0x00800000), e)
        var ulp = bitcast[DType.float32, W](e).cast[DType.float64]() * 1.1920928955078125e-07
        var limit = G({limit}) + eqk_abs_f64[W](x.cast[DType.float64]()) * {slope}
        var error = eqk_abs_f64[W](y.cast[DType.float64]() - t) / (ulp * limit)
        var finite = eqk_isfinite_f32[W](y) & eqk_isfinite_f32[W](near)
        var border = (eqk_abs_f32[W](y).ge(F(3.4028229999706047e38)) & eqk_abs_f32[W](near).ge(F(3.4028229999706047e38)))
        var skip = same | {skip}
        worst = (finite & ~skip & error.gt(worst)).select(error, worst)
        var bad = ~(finite | same | border) & ~{skip}
        if bad.reduce_or() and n[unsafe_offset=1] == 0:
            n[unsafe_offset=2] = Int64(at)
        wrong += bad.cast[DType.int64]()
        n[unsafe_offset=1] = wrong.reduce_add()
        at += W
    w[unsafe_offset=0] = worst.reduce_max()
"""
LANES = """
@always_inline
def eqk_lane_u32[W: Int]() -> SIMD[DType.uint32, W]:
    var v = SIMD[DType.uint32, W](0)
    comptime for i in range(W):
        v[i] = UInt32(i)
    return v
"""


@pytest.fixture(scope="module")
def sweeps() -> dict[str, Any]:
    out: dict[str, Any] = {}
    modules = []
    for fn in ops.FUNCTIONS:
        skip = "SIMD[DType.bool, W](fill=False)"
        if fn in ("sin", "cos", "tan"):
            skip = "eqk_abs_f32[W](x).gt(F(65536.0))"
        elif fn == "lgamma":
            skip = "eqk_abs_f64[W](t).lt(G(0.0625))"
        slope = 1.2 if fn in ("exp", "sigmoid") else 0.0
        modules.append(SWEEP.format(fn=fn, limit=float(LIMITS[fn]), slope=slope, skip=skip).replace("eqk_lane_u32", "kt_lane_u32"))
    (built,) = build([Module("sweeps", "\n".join([LANES.replace("eqk_lane_u32", "kt_lane_u32"), *modules]))], "native")
    assert isinstance(built, Built), built
    library = ctypes.CDLL(str(built.library))
    for fn in ops.FUNCTIONS:
        out[fn] = getattr(library, built.symbol(f"kt_{fn}"))
        out[fn].argtypes, out[fn].restype = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t], None
    return out


def swept(f: Any, lo: int, hi: int) -> tuple[float, int, str]:
    words = np.zeros(3, np.float64)
    f(words.ctypes.data, lo, hi)
    first = np.array([words.view(np.int64)[2]], np.uint32).view(np.float32)[0]
    return float(words[0]), int(words.view(np.int64)[1]), f"first near {first!r}"


@pytest.mark.parametrize("fn", ops.FUNCTIONS)
def test_a_piece_of_f32(sweeps: dict[str, Any], fn: str) -> None:
    """2**20 operands around each of some exponents: the slow sweep in little."""
    for start in (0, 0x33000000, 0x3F000000, 0x42B00000, 0x7F000000, 0xBF000000, 0xC2C00000, 0xFF700000):
        worst, wrong, first = swept(sweeps[fn], start, start + (1 << 20))
        assert worst <= 1 and not wrong, (hex(start), worst, wrong, first)


@pytest.mark.slow
@pytest.mark.parametrize("fn", ops.FUNCTIONS)
def test_all_of_f32(sweeps: dict[str, Any], fn: str) -> None:
    """All 2**32 operands."""
    worst, wrong, first = swept(sweeps[fn], 0, 1 << 32)
    assert worst <= 1 and not wrong, (worst, wrong, first)


def test_the_polynomials_are_those_of_their_tool() -> None:
    from tools.polynomials import TARGET, source

    assert TARGET.read_text(encoding="utf-8") == source()
