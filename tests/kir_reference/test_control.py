"""Ordered control: lanes that part and join, carries, early exits, buffers, run-time extents; conditions in doubt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqkir.kir.envelope import compare, envelope
from eqkir.kir.memory import ViewArg
from eqkir.kir.reference import run
from tests.kir_reference.support import call, constant, indices, kernel, op, refuses, region, view, within

N = [op("domain", "d", end="N")]


def points(body: list[dict[str, Any]], params: list[dict[str, Any]], symbols: str = "N") -> Any:
    """`body` for every point i < N in parallel."""
    return kernel(params, [*N, op("parallel", domains=["d"], body=region("i", body))], symbols)


def load(name: str, view_: str, *coords: str, **more: Any) -> dict[str, Any]:
    return op("load", name, view=view_, coords=list(coords), **more)


def store(view_: str, value: str, *coords: str, **more: Any) -> dict[str, Any]:
    return op("store", view=view_, coords=list(coords), value=value, **more)


XY = [view("X", "in", "i64", "N"), view("Y", "out", "i64", "N")]


def collatz() -> Any:
    """Steps of the Collatz sequence, with a `while` for every point."""
    step = [
        constant("one", "i64", 1),
        constant("two", "i64", 2),
        constant("three", "i64", 3),
        op("binary", "odd", fn="mod", x="b0", y="two"),
        op("compare", "isodd", fn="eq", x="odd", y="one"),
        op(
            "if",
            "next",
            cond="isodd",
            then=region("", [op("binary", "m", fn="mul", x="b0", y="three"), op("binary", "u", fn="add", x="m", y="one")], "u"),
            otherwise=region("", [op("binary", "h", fn="floordiv", x="b0", y="two")], "h"),
        ),
        op("binary", "n1", fn="add", x="b1", y="one"),
    ]
    return points(
        [
            load("x", "X", "i"),
            constant("z", "i64", 0),
            op(
                "while",
                "v n",
                inits=["x", "z"],
                cond=region("a0:i64 a1:i64", [constant("o", "i64", 1), op("compare", "go", fn="ne", x="a0", y="o")], "go"),
                body=region("b0:i64 b1:i64", step, "next n1"),
            ),
            store("Y", "n", "i"),
        ],
        XY,
    )


def test_lanes_run_a_while_as_often_as_they_need() -> None:
    x = np.asarray([1, 2, 3, 7, 27], np.int64)
    assert call(collatz(), X=x).tolist() == [0, 1, 7, 16, 111]
    assert not within(collatz(), {"X": ViewArg.of(x), "Y": ViewArg.of(np.zeros(5, np.int64))})["Y"].ambiguous.any()
    assert call(collatz(), X=x[:0]).tolist() == []


def searching(kind: str) -> Any:
    """The first (break) or the number of (continue) negative elements of a row, and a store of what was seen."""
    inner = [
        load("x", "A", "i", "j"),
        constant("zero", "i64", 0),
        constant("one", "i64", 1),
        op("compare", "neg", fn="lt", x="x", y="zero"),
        op("compare", "pos", fn="ge", x="x", y="zero"),
        op("cast", "jj", x="j", dtype="i64"),
        op("break", cond="neg", values=["jj"]) if kind == "break" else op("continue", cond="pos", values=["c"]),
        store("S", "one", "i", "j"),
        op("binary", "more", fn="add", x="c", y="one"),
    ]
    out = "c" if kind == "break" else "more"
    body = [
        op("domain", "cols", end="M"),
        constant("start", "i64", -1 if kind == "break" else 0),
        op("for", "r", domain="cols", inits=["start"], body=region("j c:i64", inner, out)),
        store("Y", "r", "i"),
    ]
    return points(body, [view("A", "in", "i64", "N", "M"), view("S", "inout", "i64", "N", "M"), view("Y", "out", "i64", "N")], "N M")


def test_break_and_continue_act_by_point() -> None:
    a = np.asarray([[1, -2, 3], [4, 5, 6], [-7, -8, 9]], np.int64)
    for kind, want, seen in (("break", [1, -1, 0], [[1, 0, 0], [1, 1, 1], [0, 0, 0]]), ("continue", [1, 0, 2], (a < 0).astype(int))):
        args = {"A": ViewArg.of(a), "S": ViewArg.of(np.zeros_like(a)), "Y": ViewArg.of(np.zeros(3, np.int64))}
        e = within(searching(kind), args)
        assert not e["Y"].ambiguous.any() and not e["S"].ambiguous.any()
        run(searching(kind), args)
        assert args["Y"].array().tolist() == want and args["S"].array().tolist() == np.asarray(seen).tolist()


def test_an_ordered_loop_carries_in_order() -> None:
    """h = h * x + 1 in f32: a strict recurrence stays exact on exact data."""
    step = [
        load("x", "X", "j"),
        constant("one", "f32", 1.0),
        op("binary", "m", fn="mul", x="h", y="x"),
        op("binary", "n", fn="add", x="m", y="one"),
    ]
    body = [*N, constant("z", "f32", 0.5), op("for", "r", domain="d", inits=["z"], body=region("j h:f32", step, "n")), store("Y", "r")]
    k = kernel([view("X", "in", "f32", "N"), view("Y", "out", "f32")], body, "N")
    x = np.asarray([2, 3, 0.5, 7], np.float32)
    assert call(k, X=x, shape=()) == ((((0.5 * 2 + 1) * 3 + 1) * 0.5 + 1) * 7 + 1)
    rng = np.random.default_rng(1)
    x = rng.uniform(-0.9, 0.9, 300).astype(np.float32)
    e = within(k, {"X": ViewArg.of(x), "Y": ViewArg.of(np.zeros((), np.float32))})
    assert e["Y"].bound < 1e-5
    assert call(k, X=x[:0], shape=()) == 0.5


def test_loops_see_stores_of_earlier_iterations() -> None:
    """Prefix sums in place, one element an iteration."""
    step = [
        constant("one", "index", 1),
        op("binary", "p", fn="sub", x="j", y="one"),
        load("a", "X", "j"),
        load("b", "X", "p"),
        op("binary", "s", fn="add", x="a", y="b"),
        store("X", "s", "j"),
    ]
    k = kernel([view("X", "inout", "i32", "N")], [op("domain", "e", begin=1, end="N"), op("for", domain="e", body=region("j", step))], "N")
    x = {"X": ViewArg.of(np.arange(6, dtype=np.int32))}
    assert not within(k, x)["X"].ambiguous.any()
    run(k, x)
    assert x["X"].array().tolist() == [0, 1, 3, 6, 10, 15]


# ------------------------------------------------------------------------------------------------ run-time extents
def ragged() -> Any:
    """Sum of members[O[i] : O[i + 1]] for every group i."""
    body = [
        constant("one", "index", 1),
        op("binary", "i1", fn="add", x="i", y="one"),
        load("b", "O", "i"),
        load("e", "O", "i1"),
        op("cast", "bi", x="b", dtype="index"),
        op("cast", "ei", x="e", dtype="index"),
        op("subregion", "part", domain="all", begin="bi", end="ei"),
        op("indices", "m", domain="part"),
        load("x", "V", "m"),
        op("reduce", "s", xs=["x"], axes=[0], fn="sum"),
        op("extent", "n", extent="part"),
        op("cast", "nf", x="n", dtype="f32"),
        op("binary", "t", fn="add", x="s", y="nf"),
        store("Y", "t", "i"),
    ]
    params = [view("O", "in", "i32", "P"), view("V", "in", "f32", "T"), view("Y", "out", "f32", "N")]
    return kernel(params, [*N, op("domain", "all", end="T"), op("parallel", domains=["d"], body=region("i", body))], "N P T")


def test_ragged_members_stay_within_their_group() -> None:
    v = np.arange(10, dtype=np.float32)
    for offsets in ([0, 3, 3, 10], [0, 0, 10, 10], [2, 4, 6, 8]):
        args = {"O": ViewArg.of(np.asarray(offsets, np.int32)), "V": ViewArg.of(v), "Y": ViewArg.of(np.zeros(3, np.float32))}
        assert not within(ragged(), args)["Y"].ambiguous.any()
        run(ragged(), args)
        assert args["Y"].array().tolist() == [v[a:b].sum() + b - a for a, b in zip(offsets, offsets[1:])]
    args["O"] = ViewArg.of(np.asarray([0, 3, 3, 11], np.int32))
    with refuses("BOUNDS"):
        run(ragged(), args)
    with refuses("BOUNDS"):
        envelope(ragged(), args)
    args["O"] = ViewArg.of(np.asarray([5, 3, 20, 10], np.int32))  # empty parts never clamp and never fail
    args["O"].array()[2] = 3
    run(ragged(), args)


# ------------------------------------------------------------------------------------------------ buffers
def buffered(init: bool, first: str = "j") -> Any:
    """Reverse a row through a buffer of each point."""
    body = [
        constant("z", "f32", 7.0),
        op("buffer", "buf", dtype="f32", shape=["M"], **({"init": "z"} if init else {})),
        op("domain", "cols", end="M"),
        op("indices", "j", domain="cols"),
        op("extent", "m", extent="M"),
        constant("one", "index", 1),
        op("binary", "last", fn="sub", x="m", y="one"),
        op("binary", "r", fn="sub", x="last", y="j"),
        load("x", "A", "i", "j"),
        store("buf", "x" if first == "j" else "z", first),
        load("y", "buf", "r"),
        store("Y", "y", "i", "j"),
    ]
    return points(body, [view("A", "in", "f32", "N", "M"), view("Y", "out", "f32", "N", "M")], "N M")


def test_every_point_has_its_own_buffer() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    for init in (False, True):
        np.testing.assert_array_equal(call(buffered(init), A=a), a[:, ::-1])
        assert not within(buffered(init), {"A": ViewArg.of(a), "Y": ViewArg.of(np.zeros_like(a))})["Y"].bound.any()


def test_a_buffer_is_read_after_it_was_written() -> None:
    args = {"A": ViewArg.of(np.zeros((3, 4), np.float32)), "Y": ViewArg.of(np.zeros((3, 4), np.float32))}
    for f in (run, envelope):
        with refuses("READ-BUFFER"):
            f(buffered(False, first="last"), args)  # type: ignore[operator]
    k = points(
        [op("buffer", "b", dtype="f32", shape=[2]), constant("o", "index", 0), load("x", "b", "o"), store("Y", "x", "i")],
        [view("Y", "out", "f32", "N")],
    )
    with refuses("READ-BUFFER"):
        run(k, {"Y": ViewArg.of(np.zeros(3, np.float32))})


def test_a_buffer_is_new_in_every_iteration() -> None:
    step = [
        op("buffer", "b", dtype="i32", shape=[1], init="z"),
        constant("o", "index", 0),
        constant("one", "i32", 1),
        load("x", "b", "o"),
        op("binary", "y", fn="add", x="x", y="one"),
        store("b", "y", "o"),
        load("w", "b", "o"),
        store("Y", "w", "j"),
    ]
    k = kernel([view("Y", "out", "i32", "N")], [*N, constant("z", "i32", 0), op("for", domain="d", body=region("j", step))], "N")
    y = {"Y": ViewArg.of(np.zeros(4, np.int32))}
    assert not within(k, y)["Y"].ambiguous.any()
    run(k, y)
    assert y["Y"].array().tolist() == [1] * 4


def test_points_of_an_inner_parallel_share_the_buffer_outside() -> None:
    inner = [op("cast", "v", x="i", dtype="i32"), store("b", "v", "q"), load("x", "b", "q"), store("Y", "x", "q", "i")]
    body = [op("buffer", "b", dtype="i32", shape=["N"]), op("parallel", domains=["d"], body=region("q", inner))]
    k = points(body, [view("Y", "out", "i32", "N", "N")])
    np.testing.assert_array_equal(_run(k), np.tile(np.arange(4), (4, 1)))
    inner[1] = store("b", "v", "i")
    with refuses("RACE"):
        _run(points(body, [view("Y", "out", "i32", "N", "N")]))


def _run(k: Any) -> Any:
    y = {"Y": ViewArg.of(np.zeros((4, 4), np.int32))}
    within(k, y)
    run(k, y)
    return y["Y"].array()


# ------------------------------------------------------------------------------------------------ records
def test_records_are_carried_chosen_and_taken_apart() -> None:
    step = [
        op("get_field", "fa", x="r", name="a"),
        op("get_field", "fb", x="r", name="b"),
        op("binary", "sum", fn="add", x="fa", y="fb"),
        op("make_record", "next", names=["a", "b"], values=["fb", "sum"]),
    ]
    record = {"id": "r", "dtype": "record", "fields": [{"name": "a", "dtype": "i64"}, {"name": "b", "dtype": "i64"}]}
    body = [
        load("x", "X", "i"),
        constant("zero", "i64", 0),
        constant("one", "i64", 1),
        op("make_record", "s", names=["a", "b"], values=["zero", "one"]),
        op("cast", "n", x="x", dtype="index"),
        op("domain", "t", end="n"),
        op("for", "f", domain="t", inits=["s"], body={"args": [{"id": "k", "dtype": "index"}, record], "body": step, "yields": ["next"]}),
        op("get_field", "y", x="f", name="a"),
        store("Y", "y", "i"),
    ]
    k = points(body, XY)
    x = np.asarray([0, 1, 10, 3, 10], np.int64)
    assert call(k, X=x).tolist() == [0, 1, 55, 2, 55]
    assert not within(k, {"X": ViewArg.of(x), "Y": ViewArg.of(np.zeros(5, np.int64))})["Y"].ambiguous.any()


# ------------------------------------------------------------------------------------------------ doubt
def near(body: list[dict[str, Any]]) -> Any:
    """For every i: e = exp(x[i]), whose comparison with a nearby bound is in doubt; then `body`."""
    pre = [load("x", "X", "i"), load("b", "B", "i"), op("unary", "e", fn="exp", x="x"), op("compare", "c", fn="lt", x="e", y="b")]
    params = [view("X", "in", "f32", "N"), view("B", "in", "f32", "N"), view("Y", "inout", "f32", "N"), view("Z", "inout", "i32", "N")]
    return points([*pre, *body], params)


def near_args() -> dict[str, Any]:
    x = np.asarray([1, 1, 1], np.float32)
    b = np.asarray([0, np.exp(np.float32(1)), 9], np.float32)
    return {"X": ViewArg.of(x), "B": ViewArg.of(b), "Y": ViewArg.of(np.full(3, 5, np.float32)), "Z": ViewArg.of(np.full(3, 5, np.int32))}


def test_a_branch_in_doubt_leaves_either_result_and_either_contents() -> None:
    k = near(
        [
            constant("two", "f32", 2.0),
            constant("three", "f32", 3.0),
            constant("n", "i32", 9),
            op(
                "if",
                "r",
                cond="c",
                then=region("", [store("Z", "n", "i"), op("binary", "t", fn="add", x="two", y="three")], "t"),
                otherwise=region("", [op("binary", "u", fn="sub", x="two", y="three")], "u"),
            ),
            store("Y", "r", "i"),
        ]
    )
    e = within(k, near_args())
    assert e["Y"].lo.tolist() == [-1, -1, 5] and e["Y"].hi.tolist() == [-1, 5, 5]
    assert e["Z"].ambiguous.tolist() == [False, True, False] and e["Z"].value[[0, 2]].tolist() == [5, 9]


def test_an_exit_in_doubt_leaves_either_carries() -> None:
    for kind in ("break", "continue"):
        step = [op(kind, cond="c", values=["h"]), constant("one", "f32", 1.0), op("binary", "g", fn="add", x="h", y="one")]
        k = near(
            [
                op("domain", "t", end=3),
                constant("z", "f32", 0.0),
                op("for", "r", domain="t", inits=["z"], body=region("q h:f32", step, "g")),
                store("Y", "r", "i"),
            ]
        )
        e = within(k, near_args())
        assert e["Y"].lo.tolist() == [3, 0, 0] and e["Y"].hi.tolist() == [3, 3, 0]


def test_invalid_input_in_doubt_is_no_error_but_ambiguous() -> None:
    bad = [constant("q", "i32", 0), op("binary", "w", fn="floordiv", x="n", y="q"), store("Z", "w", "i")]
    k = near([constant("n", "i32", 9), op("if", cond="c", then=region("", bad))])
    args = near_args()
    args["B"].array()[2] = 0
    e = envelope(k, args)
    assert e["Z"].ambiguous.all()
    args["B"].array()[2] = 9
    with refuses("INTEGER"):
        envelope(k, args)


def newton(limit: float) -> Any:
    """Square roots by Newton's iteration until the step is small."""
    cond = [constant("tol", "f32", limit), op("compare", "go", fn="gt", x="c1", y="tol")]
    step = [
        constant("half", "f32", 0.5),
        op("binary", "q", fn="div", x="x", y="b0"),
        op("binary", "s", fn="add", x="b0", y="q"),
        op("binary", "n", fn="mul", x="s", y="half"),
        op("binary", "df", fn="sub", x="n", y="b0"),
        op("unary", "ad", fn="abs", x="df"),
    ]
    return points(
        [
            load("x", "X", "i"),
            constant("big", "f32", 1e30),
            op("while", "r err", inits=["x", "big"], cond=region("c0:f32 c1:f32", cond, "go"), body=region("b0:f32 b1:f32", step, "n ad")),
            store("Y", "r", "i"),
        ],
        [view("X", "in", "f32", "N"), view("Y", "out", "f32", "N")],
    )


def test_a_while_whose_end_is_in_doubt_stays_useful() -> None:
    x = np.linspace(0.1, 50, 40).astype(np.float32)
    e = within(newton(1e-4), {"X": ViewArg.of(x), "Y": ViewArg.of(np.zeros(40, np.float32))})
    assert not e["Y"].ambiguous.any() and (np.abs(e["Y"].value - np.sqrt(x)) + e["Y"].bound < 1e-3).all()
    assert not compare(e, {"Y": (np.sqrt(x) * 1.01).astype(np.float32)}).ok


def test_an_endless_loop_is_diagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqkir.kir.machine_control.ENDLESS", 50)
    k = kernel([view("Y", "out", "f32", "N")], [op("while", cond=region("", [constant("t", "bool", True)], "t"), body=region("", []))], "N")
    with refuses("ENDLESS"):
        run(k, {"Y": ViewArg.of(np.zeros(3, np.float32))})


# ------------------------------------------------------------------------------------------------ races through lanes that parted
def test_races_are_found_across_branches() -> None:
    parity = [
        constant("two", "index", 2),
        constant("o", "index", 0),
        op("binary", "p", fn="mod", x="i", y="two"),
        op("compare", "c", fn="eq", x="p", y="o"),
        constant("v", "f32", 1.0),
    ]
    body = [*parity, op("if", cond="c", then=region("", [store("Y", "v", "o")]), otherwise=region("", [load("x", "Y", "o")]))]
    k = points(body, [view("Y", "inout", "f32", "N")])
    run(k, {"Y": ViewArg.of(np.zeros(1, np.float32))})
    with refuses("RACE"):
        run(k, {"Y": ViewArg.of(np.zeros(2, np.float32))})


def test_a_unique_scatter_checks_its_claim() -> None:
    body = [*indices(["N"]), load("c", "I", "i0"), load("x", "X", "i0"), op("unique_scatter", view="Y", coords=["c"], value="x")]
    k = kernel([view("I", "in", "i32", "N"), view("X", "in", "f32", "N"), view("Y", "inout", "f32", "N")], body, "N")
    args = {
        "I": ViewArg.of(np.asarray([2, 0, 1], np.int32)),
        "X": ViewArg.of(np.asarray([5, 6, 7], np.float32)),
        "Y": ViewArg.of(np.zeros(3, np.float32)),
    }
    within(k, args)
    run(k, args)
    assert args["Y"].array().tolist() == [6, 7, 5]
    args["I"].array()[0] = 1
    with refuses("INJECTIVE"):
        run(k, args)


def test_assumed_bounds_are_checked() -> None:
    body = [*indices(["N"]), load("c", "I", "i0"), op("assume_in_bounds", "s", x="c", view="Y", axis=0), store("Y", "c", "s")]
    k = kernel([view("I", "in", "i32", "N"), view("Y", "inout", "i32", "N")], body, "N")
    args = {"I": ViewArg.of(np.asarray([2, 0, 1], np.int32)), "Y": ViewArg.of(np.zeros(3, np.int32))}
    within(k, args)
    args["I"].array()[0] = 3
    for f in (run, envelope):
        with refuses("BOUNDS"):
            f(k, args)  # type: ignore[operator]
