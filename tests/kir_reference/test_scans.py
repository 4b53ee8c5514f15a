"""Scans keep the order, arg-reductions their ties, random bits their definition; all of them lie within their envelope."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.inputs import make_inputs
from eqkir.kir.memory import ViewArg
from eqkir.kir.reference import Choices, run
from tests.kir_reference.support import ORDERS, call, indices, kernel, op, refuses, view, whole, within


def scan(fn: str, dtype: str, out: str | None = None, **more: Any) -> Any:
    return whole({"A": dtype}, (out or dtype, ["M", "N"]), [op("scan", "r", xs=["x_A"], axis=1, fn=fn, **more)], "r", ["M", "N"], "M N")


AFFINE = {
    "args": [{"id": n, "dtype": "f32"} for n in ("a1", "b1", "a2", "b2")],
    "body": [
        op("binary", "a", fn="mul", x="a1", y="a2"),
        op("binary", "t", fn="mul", x="b1", y="a2"),
        op("binary", "b", fn="add", x="t", y="b2"),
    ],
    "yields": ["a", "b"],
}


def recurrence(**more: Any) -> Any:
    """h = a * h + b along the last axis, as a scan of affine maps."""
    body = [
        op("constant", "one", dtype="f32", value=1.0),
        op("constant", "zero", dtype="f32", value=0.0),
        op("scan", "pa pb", xs=["x_A", "x_B"], axis=1, identities=["one", "zero"], combine=AFFINE, **more),
    ]
    return whole({"A": "f32", "B": "f32"}, ("f32", ["M", "N"]), body, "pb", ["M", "N"], "M N")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_built_in_scans(exclusive: bool, reverse: bool) -> None:
    x = np.asarray([[3, -1, 4, 1, -5]], np.int32)
    for fn, f, first in (("cumsum", np.add, 0), ("cumprod", np.multiply, 1), ("cummax", np.maximum, np.iinfo(np.int32).min)):
        y = x[:, ::-1] if reverse else x
        want = f.accumulate(y, 1)
        want = np.concatenate([[[first]], want[:, :-1]], 1) if exclusive else want
        got = call(scan(fn, "i32", exclusive=exclusive, reverse=reverse), A=x)
        np.testing.assert_array_equal(got, want[:, ::-1] if reverse else want)


def test_cumsum_widens_and_wraps() -> None:
    assert call(scan("cumsum", "i8", "i32"), A=np.full((1, 3), 100, np.int8)).tolist() == [[100, 200, 300]]
    assert call(scan("cumsum", "bf16", "f32"), A=np.full((1, 2), 1 + 2**-7, NUMPY["bf16"])).tolist() == [[1.0078125, 2.015625]]
    big = np.full((1, 2), 2**31 - 1, np.int32)
    assert call(scan("cumsum", "i32"), A=big).tolist() == [[2**31 - 1, -2]]


def test_cummax_propagates_nan() -> None:
    np.testing.assert_array_equal(call(scan("cummax", "f32"), A=np.asarray([[1, np.nan, 5]], np.float32)), [[1, np.nan, np.nan]])


@pytest.mark.parametrize("order", ORDERS)
def test_a_generic_scan_keeps_the_order(order: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, 3, 17)).astype(np.float32)
    for reverse in (False, True):
        want = np.zeros((3, 17))
        h = np.zeros(3)
        for k in range(17)[:: -1 if reverse else 1]:
            h = a[:, k].astype(float) * h + b[:, k]
            want[:, k] = h
        k = recurrence(reverse=reverse)
        y = ViewArg.of(np.zeros((3, 17), np.float32))
        run(k, {"A": ViewArg.of(a), "B": ViewArg.of(b), "Y": y}, choices=Choices(order))
        np.testing.assert_allclose(y.array(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 33])
@pytest.mark.parametrize("variant", ["plain", "special"])
def test_scans_lie_within(n: int, variant: str) -> None:
    for fn, dtype, out in (
        ("cumsum", "f32", "f32"),
        ("cumsum", "f16", "f32"),
        ("cumsum", "f64", "f64"),
        ("cumprod", "f32", "f32"),
        ("cummax", "bf16", "bf16"),
        ("cummin", "f32", "f32"),
        ("cumsum", "i16", "i32"),
    ):
        for more in ({}, {"exclusive": True}, {"reverse": True}):
            k = scan(fn, dtype, out, **more)
            e = within(k, make_inputs(k, {"M": 3, "N": n}, 1, variant))
            assert variant == "special" or not e["Y"].ambiguous.any()
    for more in ({}, {"exclusive": True}, {"reverse": True, "exclusive": True}):
        k = recurrence(**more)
        e = within(k, make_inputs(k, {"M": 3, "N": n}, 2, variant))
        if variant == "plain" and n:
            assert not e["Y"].ambiguous.any() and (e["Y"].bound < 1e-4 * (1 + np.abs(e["Y"].value))).all()


def test_a_scan_that_exchanges_operands_lies_outside() -> None:
    k = recurrence()
    args = make_inputs(k, {"M": 3, "N": 12}, 2)
    e = envelope(k, args)
    a, b = args["A"].array().astype(float), args["B"].array().astype(float)
    wrong = np.zeros((3, 12))
    for j in range(1, 12):  # state and element exchanged
        wrong[:, j] = a[:, 0] * b[:, j] + wrong[:, j - 1]
    assert not compare(e, {"Y": wrong.astype(np.float32)}).ok


# ------------------------------------------------------------------------------------------------ arg-reductions
def arg(fn: str, dtype: str = "f32", index: str = "i32") -> Any:
    body = [op("arg_reduce", "v i", fn=fn, x="x_A", axis=1, dtype=index)]
    return whole({"A": dtype}, (index, ["M"]), body, "i", ["M", "N"], "M N")


def test_the_lowest_index_wins_ties_and_nan_wins() -> None:
    x = np.asarray([[1, 3, 3, 0], [np.nan, 5, np.nan, 9], [-0.0, 0.0, -1, 0.0], [-np.inf] * 4], np.float32)
    assert call(arg("argmax"), A=x, shape=(4,)).tolist() == [1, 0, 0, 0]
    assert call(arg("argmin"), A=x, shape=(4,)).tolist() == [3, 0, 2, 0]
    assert call(arg("argmax"), A=np.zeros((2, 0), np.float32), shape=(2,)).tolist() == [2**31 - 1] * 2
    assert call(arg("argmin", "u8", "u32"), A=np.asarray([[7, 0, 255, 0]], np.uint8), shape=(1,)).tolist() == [1]


@pytest.mark.parametrize("fn", ["argmax", "argmin"])
@pytest.mark.parametrize("variant", ["plain", "special"])
def test_arg_reductions_of_exact_data_are_exact(fn: str, variant: str) -> None:
    for dtype in ("f32", "f16", "i8", "u16"):
        k = arg(fn, dtype)
        e = within(k, make_inputs(k, {"M": 5, "N": 37}, 4, variant))
        assert not e["Y"].ambiguous.any()


def test_an_undecided_index_is_ambiguous() -> None:
    body = [op("unary", "f", fn="exp", x="x_A"), op("arg_reduce", "v i", fn="argmax", x="f", axis=1, dtype="i32")]
    k = whole({"A": "f32"}, ("i32", ["M"]), body, "i", ["M", "N"], "M N")
    x = np.asarray([[1, 1 + 2**-23], [1, 2]], np.float32)
    e = within(k, {"A": ViewArg.of(x), "Y": ViewArg.of(np.zeros(2, np.int32))})
    assert e["Y"].ambiguous.tolist() == [True, False]


# ------------------------------------------------------------------------------------------------ join, gather, random numbers
def test_join_adds_a_trailing_axis() -> None:
    k = whole({"A": "f32", "B": "f32"}, ("f32", ["N", 2]), [op("join", "r", x="x_A", y="x_B")], "r", ["N"], "N")
    a, b = np.arange(3, dtype=np.float32), -np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(call(k, A=a, B=b, shape=(3, 2)), np.stack([a, b], -1))
    within(k, make_inputs(k, {"N": 5}, 0, "special"))


def gathering(**more: Any) -> Any:
    body = [*indices(["N"]), op("load", "x", view="A", coords=["i0"]), op("load", "c", view="I", coords=["i0"])]
    body += [op("gather", "r", x="x", coords=["c"], **more), op("store", view="Y", coords=["i0"], value="r")]
    return kernel([view("A", "in", "f32", "N"), view("I", "in", "i32", "N"), view("Y", "out", "f32", "N")], body, "N")


def test_gathers_check_bounds_and_fill() -> None:
    a, i = np.asarray([5, 6, 7], np.float32), np.asarray([2, 0, 2], np.int32)
    assert call(gathering(), A=a, I=i).tolist() == [7, 5, 7]
    with refuses("BOUNDS"):
        call(gathering(), A=a, I=np.asarray([0, 3, 1], np.int32))
    with refuses("BOUNDS"):
        call(gathering(), A=a, I=np.asarray([0, -1, 1], np.int32))


def test_gathers_inside_a_parallel_take_from_their_own_point() -> None:
    body = [op("domain", "p", end="N"), op("domain", "d", end=3), op("indices", "j", domain="d")]
    inner = [
        op("load", "row", view="A", coords=["i", "j"]),
        op("load", "c", view="I", coords=["i"]),
        op("gather", "r", x="row", coords=["c"]),
        op("store", view="Y", coords=["i"], value="r"),
    ]
    body.append(op("parallel", domains=["p"], body={"args": [{"id": "i", "dtype": "index"}], "body": inner, "yields": []}))
    k = kernel([view("A", "in", "f32", "N", 3), view("I", "in", "i64", "N"), view("Y", "out", "f32", "N")], body, "N")
    a, i = np.arange(12, dtype=np.float32).reshape(4, 3), np.asarray([2, 0, 1, 1])
    assert call(k, A=a, I=i, shape=(4,)).tolist() == [2, 3, 7, 10]
    within(k, {"A": ViewArg.of(a), "I": ViewArg.of(i), "Y": ViewArg.of(np.zeros(4, np.float32))})


def philox(seed: int, counters: list[int]) -> Any:
    body = [op("constant", "s", dtype="u64", value=seed), op("random_bits", "r", seed="s", counter="x_A")]
    return call(whole({"A": "u64"}, ("u32", ["N"]), body, "r", ["N"], "N"), A=np.asarray(counters, np.uint64))


def test_philox_gives_the_published_words() -> None:
    assert [f"{w:08x}" for w in philox(0, [0, 1, 2, 3])] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    assert philox(0, [4]).tolist() != philox(0, [0]).tolist()
    # an independent computation in Python integers, seed and counter above 32 bits
    seed, block = 0x1234567890ABCDEF, 0x0123456789ABCDE
    c, k = [block & 0xFFFFFFFF, block >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & 0xFFFFFFFF, (p >> 32) ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    assert philox(seed, [4 * block + w for w in range(4)]).tolist() == c


def test_uniform_numbers_are_the_upper_bits() -> None:
    body = [op("constant", "s", dtype="i32", value=-7), op("random_bits", "b", seed="s", counter="x_A")]
    body += [op("random_uniform", "u", seed="s", counter="x_A")]
    x = np.arange(-3, 50, dtype=np.int64)
    bits = call(whole({"A": "i64"}, ("u32", ["N"]), body, "b", ["N"], "N"), A=x)
    k = whole({"A": "i64"}, ("f32", ["N"]), body, "u", ["N"], "N")
    u = call(k, A=x)
    np.testing.assert_array_equal(u, (bits >> 8) * 2.0**-24)
    assert (u >= 0).all() and (u < 1).all()
    assert not within(k, {"A": ViewArg.of(x), "Y": ViewArg.of(np.zeros(53, np.float32))})["Y"].bound.any()
