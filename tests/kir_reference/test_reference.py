"""The reference interpreter: exact dtype semantics, invalid input, memory and races."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.base.dtypes import NUMPY
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.reference import Choices, run
from tests.kir_reference.support import call, indices, kernel, op, pointwise, refuses, view, whole


def unary(fn: str, dtype: str, out: str | None = None):
    return pointwise({"A": dtype}, out or dtype, [op("unary", "r", fn=fn, x="x_A")], "r")


def binary(fn: str, dtype: str):
    return pointwise({"A": dtype, "B": dtype}, dtype, [op("binary", "r", fn=fn, x="x_A", y="x_B")], "r")


def cast(src: str, dst: str):
    return pointwise({"A": src}, dst, [op("cast", "r", x="x_A", dtype=dst)], "r")


# ------------------------------------------------------------------------------------------------ integers
def test_integers_wrap_and_division_floors() -> None:
    a, b = np.asarray([127, -128, -7, 7, -7], np.int8), np.asarray([1, 1, 2, -2, -2], np.int8)
    assert call(binary("add", "i8"), A=a, B=b).tolist() == [-128, -127, -5, 5, -9]
    assert call(binary("floordiv", "i8"), A=a, B=b).tolist() == [127, -128, -4, -4, 3]
    assert call(binary("mod", "i8"), A=a, B=b).tolist() == [0, 0, 1, -1, -1]
    assert call(unary("neg", "i8"), A=a).tolist() == [-127, -128, 7, -7, 7]
    assert call(unary("abs", "i8"), A=a).tolist() == [127, -128, 7, 7, 7]


@pytest.mark.parametrize("fn", ["floordiv", "mod"])
def test_integer_division_without_result_is_invalid(fn: str) -> None:
    for x, y in ((1, 0), (-128, -1)):
        with refuses("INTEGER"):
            call(binary(fn, "i8"), A=np.asarray([x], np.int8), B=np.asarray([y], np.int8))


def test_shifts_need_an_amount_within_the_width() -> None:
    a = np.asarray([-128, 64, 1], np.int8)
    assert call(binary("shr", "i8"), A=a, B=np.asarray([7, 6, 0], np.int8)).tolist() == [-1, 1, 1]
    assert call(binary("shl", "i8"), A=a, B=np.asarray([0, 1, 7], np.int8)).tolist() == [-128, -128, -128]
    for n in (8, -1):
        with refuses("INTEGER"):
            call(binary("shl", "i8"), A=a[:1], B=np.asarray([n], np.int8))


# ------------------------------------------------------------------------------------------------ casts
def test_casts_truncate_wrap_and_refuse() -> None:
    x = np.asarray([1.9, -1.9, 2147483520.0, -2147483648.0], np.float32)
    assert call(cast("f32", "i32"), A=x).tolist() == [1, -1, 2147483520, -2147483648]
    assert call(cast("i32", "u8"), A=np.asarray([-1, 256, 511], np.int32)).tolist() == [255, 0, 255]
    for v in (np.nan, np.inf, 2147483648.0):
        with refuses("CAST"):
            call(cast("f32", "i32"), A=np.asarray([v], np.float32))
    with refuses("CAST"):
        call(cast("f32", "u32"), A=np.asarray([-1.0], np.float32))
    assert call(cast("f32", "u32"), A=np.asarray([-0.9], np.float32)).tolist() == [0]


def test_a_cast_through_a_narrow_type_overflows() -> None:
    k = pointwise({"A": "f32"}, "f32", [op("cast", "h", x="x_A", dtype="f16"), op("cast", "r", x="h", dtype="f32")], "r")
    assert call(k, A=np.asarray([1e5, 65519.0, -0.0], np.float32)).tolist() == [np.inf, 65504.0, 0.0]
    assert np.signbit(call(k, A=np.asarray([-0.0], np.float32)))[0]


# ------------------------------------------------------------------------------------------------ floats
def test_maximum_propagates_nan_and_maximum_num_drops_a_lone_one() -> None:
    a, b = np.asarray([np.nan, 1, np.nan, 2], np.float32), np.asarray([1, np.nan, np.nan, 3], np.float32)
    np.testing.assert_array_equal(call(binary("maximum", "f32"), A=a, B=b), [np.nan, np.nan, np.nan, 3])
    np.testing.assert_array_equal(call(binary("minimum_num", "f32"), A=a, B=b), [1, 1, np.nan, 2])


def test_signed_zeros_survive() -> None:
    z = np.asarray([-0.0, 0.0], np.float32)
    assert np.signbit(call(unary("neg", "f32"), A=z)).tolist() == [False, True]
    assert np.signbit(call(unary("sqrt", "f32"), A=z)).tolist() == [True, False]
    assert np.signbit(call(binary("mul", "f32"), A=z, B=np.ones(2, np.float32))).tolist() == [True, False]
    assert np.signbit(call(unary("ceil", "f32"), A=np.asarray([-0.5], np.float32)))[0]


def test_subnormals_are_kept() -> None:
    tiny = np.asarray([1e-45, 1e-40, -1e-42], np.float32)
    assert (call(binary("mul", "f32"), A=tiny, B=np.ones(3, np.float32)) == tiny).all()
    assert (call(unary("exp", "f32"), A=np.asarray([-100.0], np.float32)) > 0).all()


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e5m2"])
def test_narrow_floats_compute_in_f32_and_round_once(dtype: str) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(500).astype(NUMPY[dtype]) for _ in range(2))
    for fn, f in (("add", np.add), ("mul", np.multiply), ("div", np.divide)):
        with np.errstate(all="ignore"):
            want = f(a.astype(np.float32), b.astype(np.float32)).astype(NUMPY[dtype])
        np.testing.assert_array_equal(call(binary(fn, dtype), A=a, B=b).astype(float), want.astype(float))
    with np.errstate(all="ignore"):
        want = np.exp(a.astype(np.float64)).astype(np.float32).astype(NUMPY[dtype])
    np.testing.assert_array_equal(call(unary("exp", dtype), A=a).astype(float), want.astype(float))


def test_functions_at_infinities_and_zeros() -> None:
    x = np.asarray([np.inf, -np.inf, 0.0, np.nan], np.float32)
    want = {
        "exp": [np.inf, 0, 1, np.nan],
        "log": [np.inf, np.nan, -np.inf, np.nan],
        "tanh": [1, -1, 0, np.nan],
        "rsqrt": [0, np.nan, np.inf, np.nan],
        "sigmoid": [1, 0, 0.5, np.nan],
        "erf": [1, -1, 0, np.nan],
        "erfc": [0, 2, 1, np.nan],
        "lgamma": [np.inf, np.inf, np.inf, np.nan],
        "i0": [np.inf, np.inf, 1, np.nan],
        "sin": [np.nan, np.nan, 0, np.nan],
        "expm1": [np.inf, -1, 0, np.nan],
    }
    for fn, row in want.items():
        np.testing.assert_array_equal(call(unary(fn, "f32"), A=x), np.asarray(row, np.float32), fn)


def test_i0_agrees_with_its_series() -> None:
    from fractions import Fraction

    for v in (0.5, 3.0, 7.75, 8.25, 30.0, 85.0):
        q, term, total = Fraction(v) ** 2 / 4, Fraction(1), Fraction(1)
        for k in range(1, 300):
            term = term * q / (k * k)
            total += term
        got = float(call(unary("i0", "f64"), A=np.asarray([v]))[0])
        assert abs(Fraction(got) - total) <= 8 * Fraction(float(np.spacing(float(total))))


# ------------------------------------------------------------------------------------------------ reductions
def reduction(fn: str, dtype: str, out: str, axes: list[int]):
    kept = [s for i, s in enumerate(["M", "N"]) if i not in axes]
    return whole({"A": dtype}, (out, kept), [op("reduce", "r", xs=["x_A"], axes=axes, fn=fn)], "r", ["M", "N"], "M N")


def test_sum_widens_and_wraps() -> None:
    a = np.full((3, 300), 127, np.int8)
    assert call(reduction("sum", "i8", "i32", [1]), shape=(3,), A=a).tolist() == [38100] * 3
    b = np.full((2, 3), 2**30, np.int32)
    assert call(reduction("sum", "i32", "i32", [1]), shape=(2,), A=b).tolist() == [-(2**30)] * 2
    c = np.full((1, 4096), 1, ml_dtypes.bfloat16)
    assert call(reduction("sum", "bf16", "f32", [1]), shape=(1,), A=c).tolist() == [4096.0]


def test_empty_reductions_give_the_identity() -> None:
    for fn, want in (("sum", 0), ("max", -np.inf), ("min", np.inf), ("prod", 1)):
        assert call(reduction(fn, "f32", "f32", [1]), shape=(2,), A=np.zeros((2, 0), np.float32)).tolist() == [want] * 2
    assert call(reduction("all", "bool", "bool", [0, 1]), shape=(), A=np.zeros((0, 3), bool)).tolist() is True


def test_max_propagates_nan_wherever_it_stands() -> None:
    a = np.zeros((4, 5), np.float32)
    a[1, 0], a[2, 4] = np.nan, np.nan
    assert np.isnan(call(reduction("max", "f32", "f32", [1]), shape=(4,), A=a)).tolist() == [False, True, True, False]


def argmax(order: str = "lt"):
    args = [{"id": i, "dtype": d} for i, d in (("av", "f32"), ("ai", "index"), ("bv", "f32"), ("bi", "index"))]
    body = [
        op("compare", "gt", fn="gt", x="av", y="bv"), op("compare", "eq", fn="eq", x="av", y="bv"),
        op("compare", "lt", fn=order, x="ai", y="bi"),
        op("binary", "tie", fn="and", x="eq", y="lt"), op("binary", "left", fn="or", x="gt", y="tie"),
        op("select", "v", cond="left", x="av", y="bv"), op("select", "i", cond="left", x="ai", y="bi"),
    ]  # fmt: skip
    reduce = op(
        "reduce",
        "rv ri",
        xs=["x_A", "at"],
        axes=[1],
        identities=["bottom", "last"],
        combine={"args": args, "body": body, "yields": ["v", "i"]},
    )
    pre = [
        op("constant", "bottom", dtype="f32", value="-inf"), op("constant", "last", dtype="index", value=2**62),
        op("broadcast", "at", x="i1", shape=["M", "N"]), reduce, op("cast", "r", x="ri", dtype="i64"),
    ]  # fmt: skip
    return whole({"A": "f32"}, ("i64", ["M"]), pre, "r", ["M", "N"], "M N")


@pytest.mark.parametrize("order", ["plain", "reversed", "pairwise"])
def test_generic_reduction_of_tuples_is_argmax_with_lowest_index(order: str) -> None:
    a = np.random.default_rng(1).integers(0, 4, (6, 9)).astype(np.float32)
    y = ViewArg.of(np.zeros(6, np.int64))
    run(argmax(), {"A": ViewArg.of(a), "Y": y}, choices=Choices(order))  # type: ignore[arg-type]
    np.testing.assert_array_equal(y.array(), a.argmax(1))


def test_contract_accumulates_in_the_named_dtype() -> None:
    k = kernel(
        [view("A", "in", "i8", "B", "M", "K"), view("W", "in", "i8", "K", "B"), view("Y", "out", "i32", "B", "M")],
        [
            *indices(["B", "M", "K"]), op("load", "a", view="A", coords=["i0", "i1", "i2"]),
            op("reshape", "c0", x="j0", shape=[1, "B"]), op("reshape", "c1", x="j2", shape=["K", 1]),
            op("load", "w", view="W", coords=["c1", "c0"]),
            op("contract", "r", lhs="a", rhs="w", reduce=[[2, 0]], batch=[[0, 1]], acc="i32"),
            op("reshape", "s0", x="j0", shape=["B", 1]), op("store", view="Y", coords=["s0", "j1"], value="r"),
        ],
        "B M K",
    )  # fmt: skip
    rng = np.random.default_rng(0)
    a, w = rng.integers(-128, 128, (3, 4, 200)).astype(np.int8), rng.integers(-128, 128, (200, 3)).astype(np.int8)
    want = np.einsum("bmk,kb->bm", a.astype(np.int64), w.astype(np.int64))
    np.testing.assert_array_equal(call(k, shape=(3, 4), A=a, W=w), want)
    assert call(k, shape=(3, 4), A=a[:, :, :0], W=w[:0]).tolist() == [[0] * 4] * 3


# ------------------------------------------------------------------------------------------------ memory
COPY = pointwise({"A": "f32"}, "f32", [], "x_A")


def test_any_strides_offsets_and_zero_strides_for_reads() -> None:
    m = np.arange(20, dtype=np.float32)
    for offset, stride in ((3, 2), (19, -3), (7, 0)):
        y = ViewArg.of(np.zeros(5, np.float32))
        run(COPY, {"A": ViewArg(m, offset, (5,), (stride,)), "Y": y})
        np.testing.assert_array_equal(y.array(), m[offset + stride * np.arange(5)])


def shift(dtype: str = "f32"):
    """out[i] = in[i - 1], whole tensor."""
    body = [
        *indices(["N"]), op("constant", "one", dtype="index", value=1), op("constant", "zero", dtype="index", value=0),
        op("binary", "p", fn="sub", x="i0", y="one"), op("compare", "ok", fn="ge", x="p", y="zero"),
        op("constant", "f", dtype=dtype, value=9), op("load", "v", view="A", coords=["p"], valid="ok", fill="f"),
        op("store", view="Y", coords=["i0"], value="v"),
    ]  # fmt: skip
    return kernel([view("A", "in", dtype, "N"), view("Y", "out", dtype, "N")], body, "N")


def test_a_load_is_a_snapshot_even_when_views_alias() -> None:
    m = np.arange(6, dtype=np.float32)
    args = {"A": ViewArg(m, 0, (5,), (1,)), "Y": ViewArg(m, 1, (5,), (1,))}
    run(shift(), args)
    np.testing.assert_array_equal(m, [0, 9, 0, 1, 2, 3])


def test_an_invalid_element_touches_nothing() -> None:
    assert call(shift(), A=np.arange(4, dtype=np.float32)).tolist() == [9, 0, 1, 2]


def test_a_valid_access_out_of_bounds_is_diagnosed() -> None:
    k = pointwise(
        {"A": "f32"},
        "f32",
        [op("constant", "c", dtype="index", value=1), op("binary", "p", fn="add", x="i0", y="c"), op("load", "v", view="A", coords=["p"])],
        "v",
    )
    with refuses("BOUNDS"):
        call(k, A=np.zeros(3, np.float32))


def test_negative_coordinates_do_not_wrap() -> None:
    k = pointwise(
        {"A": "f32"},
        "f32",
        [op("constant", "c", dtype="index", value=1), op("binary", "p", fn="sub", x="i0", y="c"), op("load", "v", view="A", coords=["p"])],
        "v",
    )
    with refuses("BOUNDS"):
        call(k, A=np.zeros(3, np.float32))


def test_an_unwritten_out_element_is_unreadable() -> None:
    body = [*indices(["N"]), op("load", "v", view="Y", coords=["i0"]), op("store", view="Y", coords=["i0"], value="v")]
    with refuses("READ-OUT"):
        run(kernel([view("Y", "out", "f32", "N")], body, "N"), {"Y": ViewArg.of(np.zeros(3, np.float32))})
    twice = [*indices(["N"]), op("constant", "c", dtype="f32", value=2.0), op("store", view="Y", coords=["i0"], value="c"), *body[3:]]
    run(kernel([view("Y", "out", "f32", "N")], twice, "N"), {"Y": ViewArg.of(np.zeros(3, np.float32))})


def test_a_store_must_be_injective() -> None:
    body = [
        *indices(["N"]),
        op("constant", "c", dtype="f32", value=2.0),
        op("constant", "z", dtype="index", value=0),
        op("binary", "p", fn="mul", x="i0", y="z"),
    ]
    k = kernel([view("Y", "out", "f32", "N")], [*body, op("store", view="Y", coords=["p"], value="c")], "N")
    with refuses("INJECTIVE"):
        run(k, {"Y": ViewArg.of(np.zeros(3, np.float32))})
    run(k, {"Y": ViewArg.of(np.zeros(1, np.float32))})
    with refuses("INJECTIVE"):  # a zero stride of a written view
        run(COPY, {"A": ViewArg.of(np.zeros(3, np.float32)), "Y": ViewArg(np.zeros(1, np.float32), 0, (3,), (0,))})


def points(body: list[dict], role: str = "inout"):
    region = {"args": [{"id": "p", "dtype": "index"}], "body": body}
    pre = [
        op("domain", "d", end="N"),
        op("constant", "one", dtype="index", value=1),
        op("constant", "two", dtype="index", value=2),
        op("constant", "zero", dtype="index", value=0),
    ]
    return kernel([view("X", role, "f32", "N")], [*pre, op("parallel", domains=["d"], body=region)], "N")


def neighbour(delta: str):
    """X[p] = X[(p + delta) mod N], one point an element."""
    return points([
        op("extent", "n", extent="N"), op("binary", "s", fn="add", x="p", y=delta), op("binary", "q", fn="mod", x="s", y="n"),
        op("load", "v", view="X", coords=["q"]), op("store", view="X", coords=["p"], value="v"),
    ])  # fmt: skip


def test_points_that_read_what_another_writes_are_diagnosed() -> None:
    for n, delta, legal in ((5, "one", False), (1, "one", True), (5, "zero", True), (2, "two", True)):
        x = {"X": ViewArg.of(np.arange(n, dtype=np.float32))}
        if legal:
            run(neighbour(delta), x)
        else:
            with refuses("RACE"):
                run(neighbour(delta), x)


def test_points_that_write_one_element_are_diagnosed() -> None:
    k = points(
        [
            op("binary", "q", fn="floordiv", x="p", y="two"),
            op("constant", "c", dtype="f32", value=1.0),
            op("store", view="X", coords=["q"], value="c"),
        ]
    )
    with refuses("RACE"):
        run(k, {"X": ViewArg.of(np.zeros(4, np.float32))})


def test_a_point_may_read_what_it_wrote() -> None:
    k = points([
        op("cast", "f", x="p", dtype="f32"), op("store", view="X", coords=["p"], value="f"), op("load", "v", view="X", coords=["p"]),
        op("binary", "w", fn="add", x="v", y="v"), op("store", view="X", coords=["p"], value="w"),
    ], "out")  # fmt: skip
    x = ViewArg.of(np.zeros(4, np.float32))
    run(k, {"X": x})
    assert x.array().tolist() == [0, 2, 4, 6]


def test_nested_parallel_blames_the_right_level() -> None:
    inner = {
        "args": [{"id": "q", "dtype": "index"}],
        "body": [op("cast", "f", x="q", dtype="f32"), op("store", view="X", coords=["q"], value="f")],
    }
    outer = [op("domain", "e", end="N"), op("parallel", domains=["e"], body=inner)]
    x = {"X": ViewArg.of(np.zeros(3, np.float32))}
    with refuses("RACE"):
        run(points(outer), x)
    run(points(outer), {"X": ViewArg.of(np.zeros(1, np.float32))})


def test_views_of_different_dtypes_may_share_bytes() -> None:
    raw = np.zeros(8, np.uint8)
    k = kernel(
        [view("A", "in", "u8", "N"), view("Y", "out", "f32", "M")],
        [
            *indices(["M"]),
            op("constant", "c", dtype="f32", value=1.0),
            op("store", view="Y", coords=["i0"], value="c"),
            op("load", "v", view="A", coords=["i0"]),
        ],
        "N M",
    )
    run(k, {"A": ViewArg(raw, 0, (8,), (1,)), "Y": ViewArg(raw.view(np.float32), 0, (2,), (1,))})
    assert raw.view(np.float32).tolist() == [1.0, 1.0]


def test_a_race_through_another_view_of_the_same_bytes_is_found() -> None:
    region = {"args": [{"id": "p", "dtype": "index"}], "body": [
        op("load", "v", view="A", coords=["p"]), op("cast", "f", x="v", dtype="f32"), op("store", view="Y", coords=["p"], value="f"),
    ]}  # fmt: skip
    k = kernel(
        [view("A", "in", "u8", "N"), view("Y", "out", "f32", "N")],
        [op("domain", "d", end="N"), op("parallel", domains=["d"], body=region)],
        "N",
    )
    raw = np.zeros(16, np.uint8)
    with refuses("RACE"):
        run(k, {"A": ViewArg(raw, 0, (4,), (1,)), "Y": ViewArg(raw.view(np.float32), 0, (4,), (1,))})
    run(k, {"A": ViewArg(raw, 0, (4,), (4,)), "Y": ViewArg(raw.view(np.float32), 0, (4,), (1,))})


# ------------------------------------------------------------------------------------------------ the call
def test_arguments_are_checked() -> None:
    a, y = ViewArg.of(np.zeros(3, np.float32)), ViewArg.of(np.zeros(3, np.float32))
    with refuses("ARGS"):
        run(COPY, {"A": a})
    with refuses("ARGS"):
        run(COPY, {"A": ViewArg.of(np.zeros(3)), "Y": y})
    with refuses("ARGS"):
        run(COPY, {"A": ViewArg.of(np.zeros((3, 1), np.float32)), "Y": y})
    with refuses("SYMBOL"):
        run(COPY, {"A": a, "Y": ViewArg.of(np.zeros(4, np.float32))})
    with refuses("SYMBOL"):
        run(COPY, {"A": a, "Y": y}, symbols={"N": 4})
    with refuses("MEMORY"):
        run(COPY, {"A": ViewArg(a.memory, 1, (3,), (1,)), "Y": y})


def test_declared_relations_and_noalias_are_checked() -> None:
    params = [view("A", "in", "f32", "N"), view("Y", "out", "f32", "M")]
    body = [*indices(["N"]), op("load", "v", view="A", coords=["i0"]), op("store", view="Y", coords=["i0"], value="v")]
    k = kernel(params, body, "N M", equal=[["N", "M"]], noalias=[["A", "Y"]])
    m = np.zeros(8, np.float32)
    run(k, {"A": ViewArg(m, 0, (4,), (1,)), "Y": ViewArg(m, 4, (4,), (1,))})
    with refuses("NOALIAS"):
        run(k, {"A": ViewArg(m, 0, (4,), (1,)), "Y": ViewArg(m, 3, (4,), (1,))})
    with refuses("SYMBOL"):
        run(k, {"A": ViewArg(m, 0, (4,), (1,)), "Y": ViewArg(m, 4, (3,), (1,))})
    odd = kernel(params, body, "M", equal=[], noalias=[])
    assert odd.symbols[0].id == "M"


def test_diagnoses_point_into_the_kernel() -> None:
    with pytest.raises(EqkirError) as e:
        run(points([op("load", "v", view="X", coords=["two"])]), {"X": ViewArg.of(np.zeros(1, np.float32))})
    assert e.value.diagnostics[0].pointer == "/body/4/body/body/0"


def test_cloned_arguments_share_memory_as_the_originals_do() -> None:
    m = np.arange(6, dtype=np.float32)
    args = {"A": ViewArg(m, 0, (5,), (1,)), "Y": ViewArg(m[1:], 0, (5,), (1,))}
    copy = clone(args)
    run(shift(), copy)  # type: ignore[arg-type]
    np.testing.assert_array_equal(m, np.arange(6))
    np.testing.assert_array_equal(copy["A"].memory, [0, 9, 0, 1, 2, 3])  # type: ignore[attr-defined]


def test_every_operation_has_a_rule_in_both_evaluators() -> None:
    from eqkir.kir.envelope import Enveloper
    from eqkir.kir.model import OPERATIONS
    from eqkir.kir.reference import Reference

    for op_name in (
        "constant",
        "extent",
        "domain",
        "indices",
        "load",
        "store",
        "unary",
        "binary",
        "compare",
        "fma",
        "select",
        "cast",
        "bitcast",
    ):
        assert op_name in OPERATIONS
    assert set(OPERATIONS) <= set(Reference.rules) and set(OPERATIONS) <= set(Enveloper.rules)
