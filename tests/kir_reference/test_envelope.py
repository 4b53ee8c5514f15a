"""The envelope holds every legal result, and not the wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.base.dtypes import NUMPY
from eqkir.kir.envelope import Envelope, compare, envelope
from eqkir.kir.floats import FORMATS
from eqkir.kir.interval_functions import ULPS
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Kernel
from eqkir.kir.reference import Choices, run
from tests.kir_reference.support import indices, kernel, op, pointwise, view, whole

LEGAL = [Choices(o, f) for o in ("plain", "forward", "reversed", "pairwise") for f in (False, True)]  # type: ignore[arg-type]


def arguments(k: Kernel, shape: tuple[int, ...] | None = None, **arrays: Any) -> dict[str, Any]:
    """Contiguous arguments; `shape` is that of Y (default: as the first input)."""
    out = next(p for p in k.params if p.id == "Y")
    first = next(iter(arrays.values()))
    y = np.full(first.shape if shape is None else shape, 7).astype(NUMPY[out.dtype])  # type: ignore[union-attr]
    return {**{n: ViewArg.of(a) for n, a in arrays.items()}, "Y": ViewArg.of(y)}


def legal(k: Kernel, args: dict[str, Any]) -> Envelope:
    """Assert that every choice lies within; return the envelope of Y."""
    e = envelope(k, args)
    for choices in LEGAL:
        copy = clone(args)
        run(k, copy, choices=choices)
        verdict = compare(e, {"Y": copy["Y"]})  # type: ignore[dict-item]
        assert verdict.ok, (choices, verdict)
    return e["Y"]


def rejects(e: Envelope, y: np.ndarray) -> int:
    """Number of mismatches."""
    return compare({"Y": e}, {"Y": y.astype(NUMPY[e.dtype])}).mismatches


def mean_and_variance(dtype: str = "f32") -> Kernel:
    """(x - mean) / sqrt(var + eps), two passes, over the last axis."""
    body = [
        op("cast", "x", x="x_A", dtype="f32"), op("reduce", "s", xs=["x"], axes=[1], fn="sum"), op("extent", "n", extent="N"),
        op("cast", "nf", x="n", dtype="f32"), op("binary", "mean", fn="div", x="s", y="nf"), op("reshape", "m1", x="mean", shape=["M", 1]),
        op("binary", "c", fn="sub", x="x", y="m1"), op("binary", "sq", fn="mul", x="c", y="c"),
        op("reduce", "ss", xs=["sq"], axes=[1], fn="sum"),
        op("binary", "var", fn="div", x="ss", y="nf"), op("constant", "eps", dtype="f32", value=1e-5),
        op("binary", "ve", fn="add", x="var", y="eps"),
        op("unary", "rs", fn="rsqrt", x="ve"), op("reshape", "r1", x="rs", shape=["M", 1]), op("binary", "q", fn="mul", x="c", y="r1"),
        op("cast", "r", x="q", dtype=dtype),
    ]  # fmt: skip
    return whole({"A": dtype}, (dtype, ["M", "N"]), body, "r", ["M", "N"], "M N")


def row_sum(fn: str = "sum", dtype: str = "f32") -> Kernel:
    return whole({"A": dtype}, (dtype, ["M"]), [op("reduce", "r", xs=["x_A"], axes=[1], fn=fn)], "r", ["M", "N"], "M N")


def welford() -> Kernel:
    """Population variance by Chan's combine on (mean, m2, count)."""
    names = ["ma", "sa", "na", "mb", "sb", "nb"]
    body = [
        op("binary", "n", fn="add", x="na", y="nb"), op("binary", "d", fn="sub", x="mb", y="ma"),
        op("binary", "w", fn="div", x="nb", y="n"),
        op("binary", "dw", fn="mul", x="d", y="w"), op("binary", "m", fn="add", x="ma", y="dw"), op("binary", "dd", fn="mul", x="d", y="d"),
        op("binary", "ddw", fn="mul", x="dd", y="w"), op("binary", "cross", fn="mul", x="ddw", y="na"),
        op("binary", "t", fn="add", x="sa", y="sb"),
        op("binary", "s", fn="add", x="t", y="cross"),
    ]  # fmt: skip
    combine = {"args": [{"id": i, "dtype": "f32"} for i in names], "body": body, "yields": ["m", "s", "n"]}
    return whole({"A": "f32"}, ("f32", ["M"]), [
        op("constant", "z", dtype="f32", value=0.0), op("constant", "u", dtype="f32", value=1.0),
        op("full", "zs", value="z", shape=["M", "N"]), op("full", "ones", value="u", shape=["M", "N"]),
        op("reduce", "rm rs rn", xs=["x_A", "zs", "ones"], axes=[1], identities=["z", "z", "z"], combine=combine),
        op("binary", "r", fn="div", x="rs", y="rn"),
    ], "r", ["M", "N"], "M N")  # fmt: skip


def gemm(dtype: str, bias: bool) -> Kernel:
    params = [
        view("A", "in", dtype, "M", "K"),
        view("W", "in", dtype, "K", "N"),
        view("C", "in", "f32", "N"),
        view("Y", "out", "f32", "M", "N"),
    ]
    rows = [
        {
            **o,
            "results": [f"a{o['results'][0]}"],
            **({"x": f"a{o['x']}"} if "x" in o else {}),
            **({"domain": f"a{o['domain']}"} if "domain" in o else {}),
        }
        for o in indices(["M", "K"])
    ]
    cols = [
        {
            **o,
            "results": [f"b{o['results'][0]}"],
            **({"x": f"b{o['x']}"} if "x" in o else {}),
            **({"domain": f"b{o['domain']}"} if "domain" in o else {}),
        }
        for o in indices(["K", "N"])
    ]
    out = indices(["M", "N"])
    body = [
        *rows, *cols, *out, op("load", "a", view="A", coords=["ai0", "ai1"]), op("load", "w", view="W", coords=["bi0", "bi1"]),
        op("load", "c", view="C", coords=["j1"]), op("contract", "p", lhs="a", rhs="w", reduce=[[1, 0]], acc="f32"),
        op("binary", "q", fn="add", x="p", y="c"), op("store", view="Y", coords=["i0", "i1"], value="q" if bias else "p"),
    ]  # fmt: skip
    return kernel(params, body, "M N K")


# ------------------------------------------------------------------------------------------------ inside
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("n", [1, 2, 37, 300])
def test_normalisation_lies_within_for_every_tree_and_fusing(dtype: str, n: int) -> None:
    x = (np.random.default_rng(n).standard_normal((5, n)) * 3 + 5).astype(NUMPY[dtype])
    e = legal(mean_and_variance(dtype), arguments(mean_and_variance(dtype), A=x))
    assert not e.ambiguous.any()
    if n > 2:
        assert np.median(e.bound) < 0.02


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_sums_with_cancellation_lie_within(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((50, 257)) * 10.0 ** rng.integers(-6, 7, (50, 257))).astype(NUMPY[dtype])
    e = legal(row_sum(dtype=dtype), arguments(row_sum(dtype=dtype), (50,), A=x))
    exact = np.asarray([float(sum(map(int, (np.ldexp(r.astype(np.longdouble), 200)))) / 2**200) for r in x])
    assert ((exact >= e.lo) & (exact <= e.hi)).all()


def test_welford_lies_within_for_every_order_of_the_data() -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((4, 61)) * 2 + 10).astype(np.float32)
    k = welford()
    e = legal(k, arguments(k, (4,), A=x))
    assert (e.bound < 1e-2 * e.value).all()
    for _ in range(20):
        args = arguments(k, (4,), A=np.ascontiguousarray(rng.permuted(x, axis=1)))
        for choices in LEGAL:
            copy = clone(args)
            run(k, copy, choices=choices)
            assert compare({"Y": e}, {"Y": copy["Y"]}).ok  # type: ignore[dict-item]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_contractions_lie_within(dtype: str) -> None:
    rng = np.random.default_rng(2)
    k = gemm(dtype, bias=False)
    a, w = rng.standard_normal((7, 45)).astype(NUMPY[dtype]), rng.standard_normal((45, 9)).astype(NUMPY[dtype])
    legal(k, arguments(k, (7, 9), A=a, W=w, C=np.zeros(9, np.float32)))


def test_a_contraction_may_start_at_the_addend() -> None:
    rng = np.random.default_rng(3)
    a, w = (rng.standard_normal(s).astype(np.float32) for s in ((6, 40), (40, 5)))
    c = np.full(5, 1e6, np.float32)
    k = gemm("f32", bias=True)
    e = legal(k, arguments(k, (6, 5), A=a, W=w, C=c))
    s = np.broadcast_to(c, (6, 5)).copy()
    for i in range(40):
        s += a[:, i : i + 1] * w[i]
    assert rejects(e, s) == 0


def test_a_contraction_of_no_members_that_starts_at_the_addend_is_the_addend() -> None:
    c = np.asarray([-0.0, 0.0, 1.5, -3e-45, 1e30], np.float32)
    k = gemm("f32", bias=True)
    e = legal(k, arguments(k, (2, 5), A=np.zeros((2, 0), np.float32), W=np.zeros((0, 5), np.float32), C=c))
    assert (e.bound == 0).all() and (e.value == c).all()
    assert rejects(e, np.broadcast_to(c, (2, 5))) == rejects(e, np.broadcast_to(c + np.float32(0), (2, 5))) == 0
    other = np.broadcast_to(np.where(c == 0, -c, np.nextafter(c, np.float32(9))), (2, 5))
    assert rejects(e, other.astype(np.float32)) == 2 * 4  # -0.0 may be +0.0, +0.0 may not be -0.0


def test_exact_data_gives_exact_results() -> None:
    k = pointwise({"A": "f32", "B": "f32"}, "f32", [op("binary", "r", fn="div", x="x_A", y="x_B")], "r")
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(200).astype(np.float32) for _ in range(2))
    e = legal(k, arguments(k, A=a, B=b))
    assert (e.bound == 0).all() and (e.value == (a / b)).all()
    assert rejects(e, np.nextafter(a / b, np.float32(9))) == 200


# ------------------------------------------------------------------------------------------------ outside
def test_wrong_sums_lie_outside() -> None:
    x = np.random.default_rng(5).standard_normal((40, 100)).astype(np.float32)
    k = row_sum()
    e = legal(k, arguments(k, (40,), A=x))
    s = x.sum(1, dtype=np.float64)
    wrong = {"dropped": s - x[:, -1], "twice": s + x[:, 0], "identity": s + 1, "neighbour": np.roll(s, 1)}
    for name, y in wrong.items():
        assert rejects(e, y) >= 38, name
    assert rejects(e, s.astype(np.float16)) > 20


def test_wrong_reductions_lie_outside() -> None:
    x = -np.abs(np.random.default_rng(6).standard_normal((30, 50))).astype(np.float32)
    k = row_sum("max")
    e = legal(k, arguments(k, (30,), A=x))
    assert rejects(e, np.maximum(x.max(1), 0)) == 30  # padded with zero instead of -inf
    y = np.sort(x, 1)[:, -2]
    assert rejects(e, y) == 30
    k = row_sum("prod")
    e = legal(k, arguments(k, (30,), A=x))
    assert rejects(e, x.astype(np.float64).prod(1) * 0.99999) == 30
    assert rejects(e, np.abs(x).astype(np.float64).prod(1) * -1) == 30


def test_wrong_normalisation_and_variance_lie_outside() -> None:
    x = (np.random.default_rng(7).standard_normal((20, 64)) + 3).astype(np.float32)
    k = mean_and_variance()
    e = legal(k, arguments(k, A=x))
    z = x.astype(np.float64)
    for ddof, eps in ((1, 1e-5), (0, 1e-3)):
        y = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, ddof=ddof, keepdims=True) + eps)
        assert rejects(e, y) > 1000
    k = welford()
    e = legal(k, arguments(k, (20,), A=x))
    assert rejects(e, z.var(1, ddof=1)) == 20
    assert rejects(e, z[:, 1:].var(1)) >= 15


def test_wrong_contractions_lie_outside() -> None:
    rng = np.random.default_rng(8)
    a, w = (rng.standard_normal(s).astype(NUMPY["bf16"]) for s in ((12, 64), (64, 10)))
    k = gemm("bf16", bias=False)
    e = legal(k, arguments(k, (12, 10), A=a, W=w, C=np.zeros(10, np.float32)))
    p, q = a.astype(np.float64), w.astype(np.float64)
    assert rejects(e, p @ q) == 0
    assert rejects(e, p[:, :-1] @ q[:-1]) > 110
    assert rejects(e, np.roll(p, 1, 1) @ q) > 110
    assert rejects(e, (p @ q).astype(NUMPY["bf16"]).astype(np.float64)) > 60  # rounded through the wrong dtype


def test_an_unpermitted_intermediate_dtype_lies_outside() -> None:
    k = pointwise({"A": "f32"}, "f32", [op("cast", "h", x="x_A", dtype="f16"), op("cast", "r", x="h", dtype="f32")], "r")
    x = np.random.default_rng(9).standard_normal(50).astype(np.float32)
    assert rejects(legal(k, arguments(k, A=x)), x) > 45


# ------------------------------------------------------------------------------------------------ fusing
def multiply_add(fn: str) -> Kernel:
    body = [op("binary", "p", fn="mul", x="x_A", y="x_B"), op("binary", "r", fn=fn, x="p", y="x_C")]
    return pointwise({"A": "f32", "B": "f32", "C": "f32"}, "f32", body, "r")


@pytest.mark.parametrize("fn", ["add", "sub"])
def test_a_multiply_add_may_fuse_and_nothing_else_fits(fn: str) -> None:
    rng = np.random.default_rng(10)
    a, b = (rng.standard_normal(300).astype(np.float32) for _ in range(2))
    c = ((-1.0 if fn == "add" else 1.0) * (a * b) * (1 + rng.standard_normal(300) * 1e-6)).astype(np.float32)
    e = legal(multiply_add(fn), arguments(multiply_add(fn), A=a, B=b, C=c))
    s = 1.0 if fn == "add" else -1.0
    fused = (a.astype(np.float64) * b + s * c.astype(np.float64)).astype(np.float32)
    plain = a * b + np.float32(s) * c
    assert rejects(e, fused) == 0 and rejects(e, plain) == 0
    assert (fused != plain).sum() > 100
    assert rejects(e, np.nextafter(np.maximum(fused, plain), np.float32(np.inf))) == 300


def test_a_fused_product_does_not_cross_a_cast() -> None:
    body = [
        op("binary", "p", fn="mul", x="x_A", y="x_B"),
        op("cast", "q", x="p", dtype="f32"),
        op("cast", "c", x="x_C", dtype="f32"),
        op("binary", "r", fn="add", x="q", y="c"),
    ]
    k = pointwise({"A": "bf16", "B": "bf16", "C": "bf16"}, "f32", body, "r")
    rng = np.random.default_rng(11)
    a, b, c = (rng.standard_normal(100).astype(NUMPY["bf16"]) for _ in range(3))
    e = legal(k, arguments(k, A=a, B=b, C=c))
    fused = a.astype(np.float32) * b.astype(np.float32) + c.astype(np.float32)
    assert rejects(e, fused) > 80


# ------------------------------------------------------------------------------------------------ functions
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("fn", sorted(ULPS))
def test_functions_are_held_to_their_accuracy(fn: str, dtype: str) -> None:
    rng = np.random.default_rng(12)
    x = (
        rng.uniform(0.05, 0.95, 200)
        if fn == "asin"
        else rng.uniform(0.1, 6, 200) * (1 if fn in ("log", "log2", "rsqrt", "lgamma") else rng.choice([-1, 1], 200))
    )
    x = (np.abs(x) if fn == "log1p" else x).astype(NUMPY[dtype])
    k = pointwise({"A": dtype}, dtype, [op("unary", "r", fn=fn, x="x_A")], "r")
    e = legal(k, arguments(k, A=x))
    if fn not in ("lgamma", "tan"):
        assert not e.ambiguous.any()
    base, slope = ULPS[fn]
    f = FORMATS[dtype]
    v = np.where(e.ambiguous, 1.0, np.abs(e.value))
    ulp = 2.0 ** (np.floor(np.log2(np.maximum(v, 2.0**f.emin))) - f.p + 1)
    limit = base + slope * np.abs(x.astype(np.float64))
    if dtype in ("f32", "f64"):
        slack = 2 if dtype == "f32" else 40
        assert (np.where(e.ambiguous, 0, e.bound) <= (2 * limit + slack) * ulp).all()
    assert rejects(e, (np.where(np.isfinite(e.value), e.value, 1.0) + (3 * limit + 45) * ulp).astype(NUMPY[dtype])) == (~e.ambiguous).sum()


def test_special_arguments_have_certain_results() -> None:
    x = np.asarray([np.inf, -np.inf, 0.0, -0.0, np.nan], np.float32)
    for fn in ("exp", "tanh", "log", "expm1", "sqrt", "rsqrt", "erf", "sin", "atan"):
        k = pointwise({"A": "f32"}, "f32", [op("unary", "r", fn=fn, x="x_A")], "r")
        e = legal(k, arguments(k, A=x))
        assert not e.ambiguous.any() and (e.bound <= (1e-6 if fn == "atan" else 0)).all()


# ------------------------------------------------------------------------------------------------ certainty
def test_the_sign_of_zero_is_checked_where_it_is_fixed() -> None:
    z = np.asarray([0.0, -0.0], np.float32)
    for body, signs in (
        ([op("unary", "r", fn="neg", x="x_A")], [True, False]),
        ([op("cast", "h", x="x_A", dtype="bf16"), op("cast", "r", x="h", dtype="f32")], [False, True]),
        ([op("binary", "r", fn="mul", x="x_A", y="x_A")], [False, False]),
        ([op("unary", "r", fn="abs", x="x_A")], [False, False]),
        ([op("compare", "c", fn="lt", x="x_A", y="x_A"), op("select", "r", cond="c", x="x_A", y="x_A")], [False, True]),
    ):
        k = pointwise({"A": "f32"}, "f32", body, "r")
        e = legal(k, arguments(k, A=z))
        right = np.where(signs, -0.0, 0.0)
        assert rejects(e, right) == 0 and rejects(e, -right) == 2
    k = pointwise({"A": "f32", "B": "f32"}, "f32", [op("binary", "r", fn="maximum", x="x_A", y="x_B")], "r")
    e = legal(k, arguments(k, A=z, B=-z))
    assert rejects(e, z) == 0 and rejects(e, -z) == 0


def test_nan_and_infinity_must_match() -> None:
    x = np.asarray([[np.nan, 1, 2], [np.inf, 1, 2], [np.inf, -np.inf, 0], [3e38, 3e38, 0], [3e38, 3e38, -3e38]], np.float32)
    e = legal(row_sum(), arguments(row_sum(), (5,), A=x))
    assert e.ambiguous.tolist() == [False, False, False, False, True]
    assert rejects(e, np.asarray([np.nan, np.inf, np.nan, np.inf, 3e38])) == 0
    assert rejects(e, np.asarray([3.0, 3e38, np.inf, 1e38, 0])) == 4


def test_a_decision_within_the_bounds_covers_both_alternatives() -> None:
    body = [
        op("reduce", "s", xs=["x_A"], axes=[1], fn="sum"), op("constant", "z", dtype="f32", value=0.0),
        op("compare", "c", fn="gt", x="s", y="z"),
        op("constant", "one", dtype="f32", value=1.0), op("constant", "two", dtype="f32", value=2.0),
        op("select", "r", cond="c", x="one", y="two"),
    ]  # fmt: skip
    k = whole({"A": "f32"}, ("f32", ["M"]), body, "r", ["M", "N"], "M N")
    x = np.random.default_rng(13).standard_normal((3, 50)).astype(np.float32)
    x[1, 0] = 0
    x[1, 0] = -x[1].sum()  # a sum that is zero up to rounding
    e = legal(k, arguments(k, (3,), A=x))
    assert e.bound.tolist() == [0.0, 0.5, 0.0] and not e.ambiguous.any()
    whole_numbers = [
        *body[:-1],
        op("cast", "i", x="one", dtype="i32"),
        op("cast", "j", x="two", dtype="i32"),
        op("select", "r", cond="c", x="i", y="j"),
    ]
    k = whole({"A": "f32"}, ("i32", ["M"]), whole_numbers, "r", ["M", "N"], "M N")
    assert legal(k, arguments(k, (3,), A=x)).ambiguous.tolist() == [False, True, False]


def test_elements_that_are_not_stored_must_stay() -> None:
    body = [
        *indices(["N"]), op("constant", "c", dtype="index", value=2), op("compare", "ok", fn="lt", x="i0", y="c"),
        op("load", "v", view="A", coords=["i0"]), op("store", view="Y", coords=["i0"], value="v", valid="ok"),
    ]  # fmt: skip
    k = kernel([view("A", "in", "f32", "N"), view("Y", "out", "f32", "N")], body, "N")
    e = legal(k, arguments(k, A=np.arange(4, dtype=np.float32)))
    assert e.written.tolist() == [True, True, False, False]
    assert rejects(e, np.asarray([0, 1, 2, 3])) == 2 and rejects(e, np.asarray([0, 1, 7, 7])) == 0


def test_certain_invalid_input_is_diagnosed_and_possible_one_is_ambiguous() -> None:
    body = [op("reduce", "s", xs=["x_A"], axes=[1], fn="sum"), op("cast", "r", x="s", dtype="i32")]
    k = whole({"A": "f32"}, ("i32", ["M"]), body, "r", ["M", "N"], "M N")
    with pytest.raises(EqkirError, match="EQK-REF-CAST"):
        envelope(k, arguments(k, (1,), A=np.full((1, 3), 3e9, np.float32)))
    assert legal(k, arguments(k, (1,), A=np.full((1, 3), 0.7, np.float32))).value.tolist() == [2]
    edge = np.full((1, 10), 0.1, np.float32)  # about 1: truncation to 0 or 1
    assert envelope(k, arguments(k, (1,), A=edge))["Y"].ambiguous.all()


def test_the_verdict_names_the_first_mismatch_and_the_worst_ratio() -> None:
    x = np.random.default_rng(14).standard_normal((4, 90)).astype(np.float32)
    e = legal(row_sum(), arguments(row_sum(), (4,), A=x))
    good = compare({"Y": e}, {"Y": x.sum(1)})
    assert good.ok and 0 < good.worst <= 1 and good.elements == 4
    bad = x.sum(1)
    bad[2] += 1
    verdict = compare({"Y": e}, {"Y": bad})
    assert not verdict.ok and verdict.mismatches == 1 and verdict.worst == np.inf and verdict.first.startswith("Y[2] is")
    with pytest.raises(EqkirError, match="EQK-REF-ARGS"):
        compare({"Y": e}, {"Y": bad.astype(np.float64)})
    with pytest.raises(EqkirError, match="EQK-REF-ARGS"):
        compare({"Y": e}, {})
