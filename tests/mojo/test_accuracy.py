"""The functions of f32 and f64 within kir.md's limits, against wider arithmetic with no code in common, and their values at the ends.

Near its zeros `lgamma` is promised nothing relatively: there the error is counted in ulps of the magnitude where the promise begins.
"""

from __future__ import annotations

import ctypes
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.emit.mojo import ops, toolchain
from eqkir.emit.mojo.build import Built, Module, build
from eqkir.emit.mojo.library import needed
from eqkir.kir.floats import FUNCTIONS, ulp
from eqkir.kir.interval_functions import LGAMMA_NEAR_ZERO, TRIG_LIMIT, TRIGONOMETRIC, ULPS
from eqkir.runtime.machine import features
from tests.mojo.opsuite import Case, Suite

pytestmark = [pytest.mark.compile, pytest.mark.skipif(not toolchain.available(), reason="no Mojo compiler")]
Array = np.ndarray[Any, Any]
#: functions of f32 that are the rounded function of f64: a sweep that takes the latter for the truth would compare them with themselves
ROUNDED = tuple(f for f in ops.FUNCTIONS if f"eqk_{f}_f64" in needed({f"eqk_{f}_f32"}))
#: functions of f32 whose pieces are looked up where the machine has the permutation; others have polynomials instead
TABULATED = tuple(f for f in ops.FUNCTIONS if any(h.startswith("eqk_t_") for h in needed({f"eqk_{f}_f32"})))
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


@pytest.fixture(scope="module")
def older() -> Suite:
    """The functions without tables."""
    if not {"avx2", "fma", "f16c", "bmi2"} <= (features() or frozenset()):
        pytest.skip("no x86-64-v3")
    return Suite([c for c in CASES if c.dtype == "f32" and c.attrs[0] in TABULATED], cpu="x86-64-v3")


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
    if fn in TRIGONOMETRIC:
        parts += [r.uniform(-TRIG_LIMIT, TRIG_LIMIT, n), np.arange(1, 41000) * (np.pi / 2)]
    if fn == "lgamma":
        parts.append(-r.integers(1, 40, n) + r.standard_normal(n) * np.exp2(-r.uniform(0, 40, n)))
    x = np.concatenate(parts).astype(NUMPY[dtype])
    return promised(fn, x)


def promised(fn: str, x: Array) -> Array:
    """The operands for which there is an accuracy."""
    return x[~(np.abs(x) > TRIG_LIMIT)] if fn in TRIGONOMETRIC else x


def errors(fn: str, x: Array, got: Array, dtype: str) -> Array:
    """Error / limit; infinite where one is NaN or infinite and the other is not."""
    want = truth(fn, x)
    with np.errstate(all="ignore"):
        near = want.astype(x.dtype)
        size = near.astype(np.float64)
        u = ulp(np.maximum(np.abs(size), LGAMMA_NEAR_ZERO) if fn == "lgamma" else size, dtype)
        error = np.abs(got.astype(want.dtype) - want) / u
        base, slope = ULPS[fn]
        limit = base + (slope * np.abs(x) if slope else 0.0)
        same = (got == near) | (np.isnan(got) & np.isnan(near))
        out = np.where(same, 0.0, np.where(np.isfinite(got) & np.isfinite(near), error, np.inf) / limit)
        top = np.finfo(x.dtype).max  # at the border of overflow the largest number and infinity are neighbours
        close = np.abs(near) >= top * (1 - 4 * np.finfo(x.dtype).eps)
        return np.where((np.abs(got) == top) & np.isinf(near) | np.isinf(got) & close, 0.0, out)


def ends(suite: Suite, fn: str, dtype: str) -> None:
    """The values of `ENDS`, NaN, and f(x) = x of the smallest numbers where that is so to first order."""
    case, t = Case("Un", (fn,), (dtype,), dtype), NUMPY[dtype]
    x = np.array([0.0, -0.0, INF, -INF, NAN], t)
    got = suite.run(case, x)
    want = np.array([*ENDS[fn], NAN], t)
    assert np.array_equal(got, want, equal_nan=True), (x, got, want)
    assert np.array_equal(np.signbit(got[:4][want[:4] == 0]), np.signbit(want[:4][want[:4] == 0]))
    if ENDS[fn][:2] == (0.0, -0.0) and fn != "erf":
        tiny = np.arange(1, 200, dtype=f"u{t.itemsize}").view(t)
        assert np.array_equal(suite.run(case, tiny), tiny) and np.array_equal(suite.run(case, -tiny), -tiny)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_function_is_as_accurate_as_promised(suite: Suite, case: Case) -> None:
    fn, dtype = case.attrs[0], case.dtype
    x = inputs(fn, dtype)
    got = suite.run(case, x)
    e = errors(fn, x, got, dtype)
    worst = int(np.argmax(e))
    assert e[worst] <= 1, (x[worst], got[worst])


@pytest.mark.parametrize("fn", TABULATED)
def test_polynomials_are_as_accurate_as_promised_where_there_is_no_permutation(older: Suite, fn: str) -> None:
    x = inputs(fn, "f32")
    e = errors(fn, x, older.run(Case("Un", (fn,), ("f32",), "f32"), x), "f32")
    worst = int(np.argmax(e))
    assert e[worst] <= 1, x[worst]
    ends(older, fn, "f32")


@pytest.mark.parametrize("fn", ["erf", "tanh"])
def test_nothing_exceeds_one(suite: Suite, fn: str) -> None:
    lo, hi = (int(np.float32(v).view(np.uint32)) for v in (2, 12))
    x = np.arange(lo, hi, 3, dtype=np.uint32).view(np.float32)
    y = suite.run(Case("Un", (fn,), ("f32",), "f32"), x)
    assert y.max() == 1 and (y > 0.96).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ends_and_subnormal_numbers(suite: Suite, case: Case) -> None:
    ends(suite, case.attrs[0], case.dtype)


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
    swept_here = [f for f in ops.FUNCTIONS if f not in ROUNDED]
    for fn in swept_here:
        skip = f"eqk_abs_f32[W](x).gt(F({TRIG_LIMIT}))" if fn in TRIGONOMETRIC else "SIMD[DType.bool, W](fill=False)"
        limit, slope = map(float, ULPS[fn])
        text = SWEEP.format(fn=fn, limit=limit, slope=slope, skip=skip)
        modules.append(text.replace("eqk_lane_u32", "kt_lane_u32"))
    (built,) = build([Module("sweeps", "\n".join([LANES.replace("eqk_lane_u32", "kt_lane_u32"), *modules]))], "native")
    assert isinstance(built, Built), built
    library = ctypes.CDLL(str(built.library))
    for fn in swept_here:
        out[fn] = getattr(library, built.symbol(f"kt_{fn}"))
        out[fn].argtypes, out[fn].restype = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t], None
    return out


def swept(f: Any, lo: int, hi: int) -> tuple[float, int, str]:
    words = np.zeros(3, np.float64)
    f(words.ctypes.data, lo, hi)
    first = np.array([words.view(np.int64)[2]], np.uint32).view(np.float32)[0]
    return float(words[0]), int(words.view(np.int64)[1]), f"first near {first!r}"


def against_the_reference(suite: Suite, fn: str, lo: int, hi: int, step: int) -> None:
    """Every `step`-th operand of f32 with bits lo … hi - 1 against arithmetic in f64 that has no code of the provider's."""
    x = promised(fn, np.arange(lo, hi, step, dtype=np.uint32).view(np.float32))
    got = suite.run(Case("Un", (fn,), ("f32",), "f32"), x)
    e = errors(fn, x, got, "f32")
    worst = int(np.argmax(e)) if e.size else -1
    assert worst < 0 or e[worst] <= 1, (x[worst], got[worst])


STARTS = (0, 0x33000000, 0x3F000000, 0x42B00000, 0x7F000000, 0xBF000000, 0xC2C00000, 0xFF700000)


@pytest.mark.parametrize("fn", ops.FUNCTIONS)
def test_a_piece_of_f32(sweeps: dict[str, Any], suite: Suite, fn: str) -> None:
    """2**20 operands around each of some exponents (every 61st of them for the rounded functions): the slow sweep in little."""
    for start in STARTS:
        if fn in ROUNDED:
            against_the_reference(suite, fn, start, start + (1 << 20), 61)
        else:
            worst, wrong, first = swept(sweeps[fn], start, start + (1 << 20))
            assert worst <= 1 and not wrong, (hex(start), worst, wrong, first)


@pytest.mark.slow
@pytest.mark.parametrize("fn", ops.FUNCTIONS)
def test_all_of_f32(sweeps: dict[str, Any], suite: Suite, fn: str) -> None:
    """All 2**32 operands; of the rounded functions every 509th."""
    if fn in ROUNDED:
        for start in range(0, 1 << 32, 1 << 26):
            against_the_reference(suite, fn, start, start + (1 << 26), 509)
    else:
        worst, wrong, first = swept(sweeps[fn], 0, 1 << 32)
        assert worst <= 1 and not wrong, (worst, wrong, first)


def test_the_polynomials_are_those_of_their_tool() -> None:
    from tools.polynomials import TARGET, source

    assert TARGET.read_text(encoding="utf-8") == source()


def test_the_tables_are_those_of_their_tool() -> None:
    from tools.tables import TARGET, source

    assert TARGET.read_text(encoding="utf-8") == source()
