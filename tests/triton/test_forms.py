"""Every operation on every dtype that it has: exact ones bit by bit, casts with one rounding, NaN and signed zeros as kir.md says."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from eqkir.base.dtypes import FLOATS, INTS, NUMPY
from tests.triton import programs as P
from tests.triton.against import Trial, check_all, poisoned

#: arrays hold NaNs and infinities on purpose, and numpy warns when it casts them
pytestmark = [pytest.mark.interpreter, pytest.mark.filterwarnings("ignore:.*encountered in cast:RuntimeWarning")]
RNG = np.random.default_rng(11)


def values(dtype: str, n: int = 0) -> np.ndarray:
    """All values of 8-bit dtypes; else special values and random bits."""
    t = NUMPY[dtype]
    if dtype == "bool":
        return np.array([False, True, True, False])
    if t.itemsize == 1:
        return np.arange(256, dtype=np.uint8).view(t)
    raw = RNG.integers(0, 256, (n or 600) * t.itemsize, dtype=np.uint8).view(t)
    if dtype in FLOATS:
        special = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 2.5, 3.5, 65519.9, 65520.0, 448.0, 3.4e38], np.float64).astype(t)
        tiny = np.array([1, 2, 3], f"u{t.itemsize}").view(t)
        near = (RNG.standard_normal(200) * 4).astype(t)
        return np.concatenate([special, tiny, near, raw])
    edge = np.array([0, 1, 2, 7, np.iinfo(t).max, np.iinfo(t).max - 1, np.iinfo(t).min], t)
    powers = np.array([(1 << k) + d for k in range(8 * t.itemsize - 1) for d in (0, 1)], np.uint64).astype(t)
    return np.concatenate([edge, powers, raw])


def valid(x: np.ndarray, src: str, dst: str) -> np.ndarray:
    """Inputs of a cast that kir.md calls valid."""
    if src in FLOATS and dst in INTS:
        v = x.astype(np.float64)
        info = np.iinfo(NUMPY[dst])
        return x[np.isfinite(v) & (v > float(info.min) - 1) & (v < float(info.max))]
    if dst == "f8e4m3fn" and src != "f8e4m3fn":
        return x[~(np.abs(x.astype(np.float64)) > 448)] if src != "bool" else x
    return x


def test_casts_between_all_dtypes_round_once() -> None:
    trials = []
    for src in NUMPY:
        for dst in NUMPY:
            if src != dst:
                x = valid(values(src), src, dst)
                trials.append(Trial(f"{src}->{dst}", P.casting(src, dst, 1024), {"x": x, "y": poisoned([x.size], NUMPY[dst])}))
    check_all(trials)


def test_bitcasts() -> None:
    trials = []
    for src, dst in [
        ("f32", "i32"),
        ("u32", "f32"),
        ("f16", "u16"),
        ("bf16", "i16"),
        ("f64", "i64"),
        ("i8", "u8"),
        ("f8e5m2", "u8"),
        ("u8", "f8e4m3fn"),
    ]:
        x = values(src)
        x = x[~np.isnan(x.astype(np.float64))] if src in FLOATS else x
        trials.append(Trial(f"{src} as {dst}", P.casting(src, dst, 1024, bits=True), {"x": x, "y": poisoned([x.size], NUMPY[dst])}))
    check_all(trials)


def pairs(dtype: str, fn: str) -> tuple[np.ndarray, np.ndarray]:
    x = values(dtype)
    y = RNG.permutation(x)
    if dtype in FLOATS:
        s = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan]).astype(NUMPY[dtype])
        x, y = np.concatenate([x, np.repeat(s, 6)]), np.concatenate([y, np.tile(s, 6)])
    if fn in ("floordiv", "mod"):
        y = np.where(y == 0, 3, y).astype(x.dtype)
        if x.dtype.kind == "i":
            y = np.where((x == np.iinfo(x.dtype).min) & (y == -1), 2, y).astype(x.dtype)
    if fn in ("shl", "shr"):
        y = (np.abs(y.astype(np.float64)).astype(np.uint64) % np.uint64(8 * x.itemsize)).astype(x.dtype)
    return x, y


def test_binary_operations() -> None:
    floats = ("add", "sub", "mul", "div", "maximum", "minimum", "maximum_num", "minimum_num", "eq", "ne", "lt", "le", "gt", "ge")
    ints = (*(f for f in floats if f not in ("div",)), "floordiv", "mod", "and", "or", "xor", "shl", "shr")
    trials = []
    for dtype in NUMPY:
        fns = floats if dtype in FLOATS else ints if dtype in INTS else ("and", "or", "xor", "eq", "ne")
        for fn in fns:
            x, y = pairs(dtype, fn)
            if dtype == "f8e4m3fn" and fn in ("add", "sub", "mul", "div"):  # overflow is invalid there
                with np.errstate(all="ignore"):
                    f = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[fn](
                        x.astype(np.float32), y.astype(np.float32)
                    )
                x, y = x[np.abs(f) <= 448], y[np.abs(f) <= 448]
            out = np.bool_ if fn in ("eq", "ne", "lt", "le", "gt", "ge") else NUMPY[dtype]
            trials.append(Trial(f"{fn} {dtype}", P.binary(fn, dtype, 1024), {"x": x, "y": y, "z": poisoned([x.size], out)}))
    check_all(trials)


#: functions whose error grows with the argument (kir.md, section 5): 1.2 |x| ulp besides
GROWING = ("exp", "sigmoid")


def test_unary_operations() -> None:
    """Functions of f32 are evaluated in f64 by both interpreters: what is checked is the composition, and narrow dtypes round once."""
    from eqkir.program.ops import UNARY

    trials = []
    for fn in UNARY:
        for dtype in NUMPY:
            if fn == "not":
                ok = dtype in INTS or dtype == "bool"
            elif fn in ("neg", "abs"):
                ok = dtype != "bool"
            else:
                ok = dtype in FLOATS
            if not ok:
                continue
            x = values(dtype)
            if dtype == "f8e4m3fn":
                x = x[np.abs(x.astype(np.float32)) <= 4]
                if fn in ("lgamma", "log", "log2", "rsqrt", "log1p"):
                    x = x[x.astype(np.float32) > 0]
            exact = fn in ("neg", "abs", "not", "sqrt", "floor", "ceil", "round_even", "isnan", "isinf", "isfinite")
            out = np.bool_ if fn.startswith("is") else NUMPY[dtype]

            def bound(arrays: dict[str, np.ndarray], t: np.dtype = NUMPY[dtype], fn: str = fn) -> dict[str, np.ndarray]:
                eps = float(ml_dtypes.finfo(t).eps)
                far = np.abs(arrays["x"].astype(np.float64)) if fn in GROWING and t == np.float32 else 0.0
                with np.errstate(all="ignore"):
                    return {"y": (2 + 1.2 * far) * eps * scale(fn, arrays["x"]) + float(ml_dtypes.finfo(t).smallest_subnormal)}

            trials.append(
                Trial(
                    f"{fn} {dtype}",
                    P.unary(fn, dtype, 1024),
                    {"x": x, "y": poisoned([x.size], out)},
                    bound=(lambda a: {}) if exact else bound,
                )
            )
    check_all(trials)


def scale(fn: str, x: np.ndarray) -> np.ndarray:
    """Magnitude of the result, where two correct evaluations may differ by an ulp."""
    import math

    v = x.astype(np.float64)
    f = {
        "rsqrt": lambda t: 1 / np.sqrt(t), "sigmoid": lambda t: 1 / (1 + np.exp(-t)), "erf": np.vectorize(math.erf),
        "erfc": np.vectorize(math.erfc),
        "i0": np.i0, "asin": np.arcsin, "atan": np.arctan, "lgamma": lambda t: np.vectorize(_lgamma)(t),
    }.get(fn) or getattr(np, fn)  # fmt: skip
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.abs(np.asarray(f(np.where(np.isfinite(v), v, 0.0)), np.float64)), posinf=0.0)


def _lgamma(t: float) -> float:
    import math

    try:
        return math.lgamma(t)
    except (ValueError, OverflowError):
        return 0.0


def test_fused_multiply_add_has_one_rounding() -> None:
    trials = []
    for dtype in ("f16", "bf16", "f32"):
        b, d = P.Block(), ("i:OB",)
        args = tuple(b.load(v, ("i",), d, dtype) for v in "xyz")
        b.store("o", ("i",), b.let("Tri", ("fma",), args, d, dtype), d)
        a = P.abi("fma", *((v, "in", dtype, ("N",)) for v in "xyz"), ("o", "out", dtype, ("N",)))
        p = P.program(a, "i=N/own", ("TAx", "i:OB"), b, B_i=1024)
        x, y = values(dtype), RNG.permutation(values(dtype))
        with np.errstate(all="ignore"):
            z = -(x.astype(np.float32) * y.astype(np.float32)).astype(NUMPY[dtype])  # cancellation
        n = min(x.size, y.size)
        trials.append(Trial(dtype, p, {"x": x[:n], "y": y[:n], "z": z[:n], "o": poisoned([n], NUMPY[dtype])}))
    check_all(trials)


def test_constants_keep_value_and_sign() -> None:
    trials = []
    for dtype, texts in {
        "f32": ("-0.0", "0.0", "inf", "-inf", "nan", "1e-45", "3.4028234663852886e+38", "0.1"),
        "f64": ("-0.0", "5e-324", "0.1", "-inf"),
        "f16": ("-0.0", "65504.0", "6e-08"), "bf16": ("-0.0", "3.3895313892515355e+38"), "f8e5m2": ("-0.0", "57344.0"),
        "f8e4m3fn": ("-0.0", "448.0"),
        "u64": (str(2**64 - 1), "0"), "i64": (str(-(2**63)), str(2**63 - 1)), "u32": (str(2**32 - 1),),
        "i8": ("-128",), "bool": ("true", "false"),
    }.items():  # fmt: skip
        for text in texts:
            b, d = P.Block(), ("i:OB",)
            b.store("y", ("i",), b.const(text, dtype), d)
            p = P.program(P.abi("const", ("y", "out", dtype, ("N",))), "i=N/own", ("TAx", "i:OB"), b, B_i=16)
            trials.append(Trial(f"{dtype} {text}", p, {"y": np.zeros(3, NUMPY[dtype]) if dtype == "bool" else poisoned([3], NUMPY[dtype])}))
    check_all(trials)


def test_reductions_of_every_dtype() -> None:
    trials = []
    for dtype in NUMPY:
        fns = ("any", "all") if dtype == "bool" else ("max", "min", "prod", "sum")
        for fn in fns:
            if fn == "sum" and dtype not in ("i32", "i64", "u32", "u64", "f32", "f64", "index"):
                continue
            if fn == "prod" and dtype in FLOATS:
                continue  # any tree: not comparable bit by bit
            for form, mode in (("W", "tree"), ("LC", "tree"), ("LC", "lanes"), ("L1", "tree")):
                r, c = "r:O1", f"c:{form}"
                top = P.Block()
                b = top if form == "W" else top.body()
                x = b.load("x", ("r", "c"), (r, c), dtype)
                if form == "W":
                    v = top.let("RedTree", (fn, c), (x,), (r,), dtype)
                else:
                    v = top.new()
                    top.loop(c, b, (P.Carry(v, "RedLoop", (fn, mode), (x,), (), (r,), dtype),))
                top.store("y", ("r",), v, (r,))
                a = P.abi(f"{fn}_{dtype}", ("x", "in", dtype, ("M", "N")), ("y", "out", dtype, ("M",)))
                p = P.program(a, "r=M/own c=N/loop", ("TAx", r), top, F_c=32, C_c=8)
                data = values(dtype)
                data = data[np.isfinite(data.astype(np.float64))] if dtype in FLOATS else data
                data = np.resize(data, (3, 21))
                if fn == "sum" and dtype in FLOATS:
                    data = RNG.integers(-8, 8, (3, 21)).astype(NUMPY[dtype])  # exact in any order
                rows = data.copy()
                if dtype in FLOATS and fn != "sum":
                    rows[1, 20] = np.nan
                trials.append(
                    Trial(
                        f"{fn} {dtype} {form} {mode}",
                        p,
                        {"x": rows, "y": poisoned([3], NUMPY[dtype]) if dtype != "bool" else np.zeros(3, bool)},
                    )
                )
                trials.append(
                    Trial(
                        f"{fn} {dtype} empty",
                        p,
                        {"x": rows[:, :0], "y": poisoned([3], NUMPY[dtype]) if dtype != "bool" else np.zeros(3, bool)},
                    )
                )
    check_all(trials)
