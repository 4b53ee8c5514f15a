"""Atomics, scatters, histograms: any order is legal, old values are what no order decides, counts wrap, races are diagnosed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.inputs import special_values
from eqkir.kir.memory import ViewArg
from eqkir.kir.reference import run
from tests.kir_reference.support import call, constant, indices, kernel, op, refuses, region, view, within


def scatter(name: str, dtype: str, parallel: bool, results: str = "", **more: Any) -> Any:
    """``NAME`` of X[i] into Y[I[i]] for all i, valid where I[i] >= 0; results are stored to O (and S)."""
    index = ["i"] if parallel else ["i0"]
    inner = [
        op("load", "c", view="I", coords=index),
        op("load", "x", view="X", coords=index),
        constant("z", "i32", 0),
        op("compare", "ok", fn="ge", x="c", y="z"),
        op(name, results, view="Y", coords=["c"], value="x", valid="ok", **more),
    ]
    params = [view("I", "in", "i32", "N"), view("X", "in", dtype, "N"), view("Y", "inout", dtype, "B")]
    for r, (v, d) in zip(results.split(), (("O", dtype), ("S", "bool"))):
        params.append(view(v, "out", d, "N"))
        inner.append(op("store", view=v, coords=index, value=r))
    if not parallel:
        return kernel(params, [*indices(["N"]), *inner], "N B")
    return kernel(params, [op("domain", "d", end="N"), op("parallel", domains=["d"], body=region("i", inner))], "N B")


def arguments(k: Any, i: Any, x: Any, y: Any) -> dict[str, Any]:
    out = {p.id: ViewArg.of(np.zeros(len(i), NUMPY[p.dtype])) for p in k.params}
    return out | {"I": ViewArg.of(np.asarray(i, np.int32)), "X": ViewArg.of(x), "Y": ViewArg.of(y)}


def cases(rng: np.random.Generator, dtype: str, n: int = 40) -> tuple[Any, Any, Any]:
    i = rng.integers(-1, 6, n)
    if dtype in ("i32", "u8", "i64"):
        return i, rng.integers(0, 100, n).astype(NUMPY[dtype]), rng.integers(0, 100, 6).astype(NUMPY[dtype])
    return i, rng.standard_normal(n).astype(NUMPY[dtype]), rng.standard_normal(6).astype(NUMPY[dtype])


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("fn", ["add", "mul", "max", "min", "and", "or", "xor"])
def test_scatter_reductions_lie_within_in_any_order(fn: str, parallel: bool) -> None:
    rng = np.random.default_rng(3)
    for dtype in ("i32", "u8") + (() if fn in ("and", "or", "xor") else ("f32", "f16", "f64")):
        k = scatter("scatter_reduce", dtype, parallel, fn=fn)
        args = arguments(k, *cases(rng, dtype))
        e = within(k, args)
        assert not e["Y"].ambiguous.any()
        if dtype == "f32" and fn == "add":
            i, x, y = (args[n].array().astype(float) for n in "IXY")
            want = y + np.bincount(i[i >= 0].astype(int), x[i >= 0], 6)
            assert (e["Y"].bound < 1e-5).all() and (np.abs(e["Y"].value - want) <= e["Y"].bound + 1e-9).all()
            assert not compare(e, {"Y": (want + 1e-3).astype(np.float32)}).ok


@pytest.mark.parametrize("fn", ["add", "max", "min", "and", "or", "xor", "exchange"])
def test_atomic_updates_lie_within_in_any_order(fn: str) -> None:
    rng = np.random.default_rng(4)
    for parallel in (False, True):
        for dtype in ("i32",) + (("f32", "f64") if fn in ("add", "max", "min", "exchange") else ()):
            k = scatter(f"atomic_{fn}", dtype, parallel, "old")
            e = within(k, arguments(k, *cases(rng, dtype)))
            if fn != "exchange":
                assert not e["Y"].ambiguous.any()
            args = arguments(k, np.arange(6), *cases(rng, dtype, 6)[1:])  # every element once
            e = within(k, args)
            assert not e["Y"].ambiguous.any() and not e["O"].ambiguous.any() and (e["O"].value == args["Y"].array()).all()


def test_old_values_of_elements_that_several_touch_are_in_doubt() -> None:
    k = scatter("atomic_add", "i32", True, "old")
    args = arguments(k, [0, 1, 0, -1], np.ones(4, np.int32), np.asarray([5, 7], np.int32))
    e = within(k, args)
    assert e["O"].ambiguous.tolist() == [True, False, True, False] and e["O"].value[[1, 3]].tolist() == [7, 0]
    assert e["Y"].value.tolist() == [7, 8]


@pytest.mark.parametrize("read", ["atomic_load", "atomic_min"])
def test_an_old_value_is_in_doubt_where_another_point_updates_later_and_looks_at_nothing(read: str) -> None:
    """Each point gets an old value first, then updates the element without asking what was there."""
    own = {} if read == "atomic_load" else {"value": "x"}
    body = [
        op("load", "j", view="I", coords=["i"]), op("load", "x", view="X", coords=["i"]), op(read, "old", view="Y", coords=["j"], **own),
        op("store", view="O", coords=["i"], value="old"), op("atomic_min", view="Y", coords=["j"], value="x"),
    ]  # fmt: skip
    params = [view(n, "in", "i32", "N") for n in "IX"] + [view("Y", "inout", "i32", "B"), view("O", "out", "i32", "N")]
    k = kernel(params, [op("domain", "d", end="N"), op("parallel", domains=["d"], body=region("i", body))], "N B")
    made = {"I": [3, 1, 1], "X": [-8, -4, -3], "Y": [0, -1, 2, -2], "O": [0] * 3}
    e = within(k, {n: ViewArg.of(np.asarray(v, np.int32)) for n, v in made.items()})
    assert e["O"].ambiguous.tolist() == [False, True, True] and e["O"].value[0] == -2
    assert e["Y"].value.tolist() == [0, -4, 2, -8]


def test_special_values_in_sums_of_any_order() -> None:
    k = scatter("scatter_reduce", "f32", True, fn="add")
    rng = np.random.default_rng(5)
    values = special_values("f32")
    for _ in range(20):
        x = np.where(rng.random(30) < 0.2, rng.choice(values, 30), rng.standard_normal(30)).astype(np.float32)
        within(k, arguments(k, rng.integers(-1, 9, 30), x, np.where(rng.random(9) < 0.2, np.inf, 1).astype(np.float32)))
    e = within(k, arguments(k, [0, 0, 1, 1, 2], np.asarray([np.inf, 1, np.inf, -np.inf, 3], np.float32), np.zeros(3, np.float32)))
    assert e["Y"].lo[0] == e["Y"].hi[0] == np.inf and np.isnan(e["Y"].lo[1]) and e["Y"].lo[2] == e["Y"].hi[2] == 3


def test_sums_over_several_operations_share_one_bound() -> None:
    """Two scatters to one element inside a parallel: their terms interleave."""
    body = [constant("o", "index", 0), op("load", "x", view="X", coords=["i"]), op("load", "w", view="W", coords=["i"])]
    body += [op("scatter_reduce", view="Y", coords=["o"], value=v, fn="add") for v in "xw"]
    k = kernel(
        [view("X", "in", "f32", "N"), view("W", "in", "f32", "N"), view("Y", "inout", "f32", 1)],
        [op("domain", "d", end="N"), op("parallel", domains=["d"], body=region("i", body))],
        "N",
    )
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((2, 200)).astype(np.float32) * 100
    args = {"X": ViewArg.of(x), "W": ViewArg.of(w), "Y": ViewArg.of(np.ones(1, np.float32))}
    e = within(k, args)
    for _ in range(50):
        s = np.float32(1)
        for v in rng.permutation(np.concatenate([x, w])):
            s = np.float32(s + v)
        assert compare(e, {"Y": np.asarray([s])}).ok


def cas(parallel: bool) -> Any:
    index = ["i"] if parallel else ["i0"]
    inner = [op("load", n.lower(), view=n, coords=index) for n in "IEX"]
    inner += [op("atomic_compare_exchange", "old won", view="Y", coords=["i_"], expected="e", value="x", order="acq_rel")]
    inner[0]["results"] = ["i_"]
    inner += [op("store", view="O", coords=index, value="old"), op("store", view="S", coords=index, value="won")]
    params = [view("I", "in", "i32", "N"), view("E", "in", "i32", "N"), view("X", "in", "i32", "N"), view("Y", "inout", "i32", "B")]
    params += [view("O", "out", "i32", "N"), view("S", "out", "bool", "N")]
    body = [op("domain", "d", end="N"), op("parallel", domains=["d"], body=region("i", inner))] if parallel else [*indices(["N"]), *inner]
    return kernel(params, body, "N B")


@pytest.mark.parametrize("parallel", [False, True])
def test_compare_exchange(parallel: bool) -> None:
    k = cas(parallel)

    def args(i: list[int]) -> dict[str, Any]:
        made = {
            n: ViewArg.of(np.asarray(v, np.int32))
            for n, v in (("I", i), ("E", [0, 0, 9]), ("X", [5, 6, 7]), ("Y", [0, 1, 9]), ("O", [0] * 3))
        }
        return {**made, "S": ViewArg.of(np.zeros(3, bool))}

    a = args([0, 1, 2])
    e = within(k, a)
    assert not any(v.ambiguous.any() for v in e.values())
    run(k, a)
    assert a["Y"].array().tolist() == [5, 1, 7] and a["O"].array().tolist() == [0, 1, 9] and a["S"].array().tolist() == [True, False, True]
    e = within(k, args([0, 0, 2]))  # who comes first is open
    assert e["Y"].ambiguous.tolist() == [True, False, False] and e["S"].ambiguous.tolist() == [True, True, False]


def test_updates_of_two_kinds_that_meet_are_ambiguous() -> None:
    body = [
        constant("o", "index", 0),
        constant("v", "i32", 3),
        op("atomic_exchange", "a", view="Y", coords=["o"], value="v"),
        op("atomic_add", "b", view="Y", coords=["o"], value="v"),
    ]
    k = kernel(
        [view("Y", "inout", "i32", 1), view("X", "in", "i32", "N")],
        [op("domain", "d", end="N"), op("parallel", domains=["d"], body=region("i", body))],
        "N",
    )

    def args(n: int) -> dict[str, Any]:
        return {"Y": ViewArg.of(np.zeros(1, np.int32)), "X": ViewArg.of(np.zeros(n, np.int32))}

    assert envelope(k, args(1))["Y"].value.tolist() == [6] and not envelope(k, args(1))["Y"].ambiguous.any()
    assert envelope(k, args(3))["Y"].ambiguous.all()


def test_flags_that_all_points_set_alike_are_certain() -> None:
    body = [constant("o", "index", 0), constant("v", "i32", 1), op("atomic_store", view="Y", coords=["o"], value="v", order="release")]
    k = kernel([view("Y", "out", "i32", 1)], [op("domain", "d", end=5), op("parallel", domains=["d"], body=region("i", body))])
    e = within(k, {"Y": ViewArg.of(np.zeros(1, np.int32))})
    assert e["Y"].value.tolist() == [1] and not e["Y"].ambiguous.any()


def test_plain_accesses_do_not_mix_with_updates_of_other_points() -> None:
    for other in (
        op("load", "p", view="Y", coords=["o"]),
        op("store", view="Y", coords=["o"], value="v"),
        op("scatter_reduce", view="Y", coords=["o"], value="v", fn="max"),
    ):
        body = [
            constant("o", "index", 0),
            constant("v", "i32", 1),
            op("scatter_reduce", view="Y", coords=["o"], value="v", fn="add"),
            other,
        ]
        k = kernel([view("Y", "inout", "i32", 1)], [op("domain", "d", end=2), op("parallel", domains=["d"], body=region("i", body))])
        with refuses("RACE"):
            run(k, {"Y": ViewArg.of(np.zeros(1, np.int32))})


def test_a_scatter_in_doubt_changes_its_element_or_not() -> None:
    pre = [
        op("load", "x", view="X", coords=["i"]),
        op("unary", "e", fn="exp", x="x"),
        op("load", "b", view="B", coords=["i"]),
        op("compare", "c", fn="lt", x="e", y="b"),
        constant("o", "index", 0),
        op("scatter_reduce", view="Y", coords=["o"], value="x", valid="c", fn="add"),
    ]
    k = kernel(
        [view("X", "in", "f32", "N"), view("B", "in", "f32", "N"), view("Y", "inout", "f32", 1)],
        [op("domain", "d", end="N"), op("parallel", domains=["d"], body=region("i", pre))],
        "N",
    )
    one = np.ones(3, np.float32)
    args = {"X": ViewArg.of(one), "B": ViewArg.of(np.asarray([0, np.exp(one[0]), 9], np.float32)), "Y": ViewArg.of(np.zeros(1, np.float32))}
    e = within(k, args)
    assert 0.99 < e["Y"].lo[0] < 1.01 and 1.99 < e["Y"].hi[0] < 2.01


# ------------------------------------------------------------------------------------------------ histogram
def histogram(dtype: str = "i32", valid: bool = False) -> Any:
    body = [
        *indices(["N"]),
        op("load", "x", view="A", coords=["i0"]),
        constant("z", "i32", 0),
        op("compare", "ok", fn="ge", x="x", y="z"),
        op("histogram", "h", x="x", bins="B", dtype=dtype, **({"valid": "ok"} if valid else {})),
        op("domain", "db", end="B"),
        op("indices", "jb", domain="db"),
        op("store", view="Y", coords=["jb"], value="h"),
    ]
    return kernel([view("A", "in", "i32", "N"), view("Y", "out", dtype, "B")], body, "N B")


def test_histograms_count_valid_values_and_wrap() -> None:
    x = np.asarray([0, 2, 2, 1, 2], np.int32)
    assert call(histogram(), A=x, shape=(4,)).tolist() == [1, 1, 3, 0]
    assert call(histogram("u8"), A=np.ones(300, np.int32), shape=(2,)).tolist() == [0, 44]
    y = np.asarray([-5, 2, -1], np.int32)
    assert call(histogram(valid=True), A=y, shape=(3,)).tolist() == [0, 0, 1]
    assert call(histogram(), A=y[:0], shape=(3,)).tolist() == [0, 0, 0]
    for bad in (y, np.asarray([3], np.int32)):
        with refuses("BOUNDS"):
            call(histogram(), A=bad, shape=(3,))
    within(histogram(valid=True), {"A": ViewArg.of(y), "Y": ViewArg.of(np.zeros(3, np.int32))})
