"""Folds and scans over slices: neither the cut nor the parentheses are observable beyond rounding, and all lie within."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqkir.kir.envelope import compare
from eqkir.kir.inputs import make_inputs
from eqkir.kir.memory import ViewArg
from eqkir.kir.reference import Choices, run
from tests.kir_reference.support import constant, indices, kernel, op, region, view, within

CUTS = [
    Choices(o, f, s, seed)
    for o, f, s, seed in (
        ("plain", False, "one", 0),
        ("plain", True, "single", 0),
        ("pairwise", False, "single", 0),
        ("reversed", True, "random", 1),
        ("forward", False, "random", 2),
        ("pairwise", True, "random", 3),
    )
]


def states(dtype: str, *shape: Any, names: str) -> list[dict[str, Any]]:
    return [{"id": n, "dtype": dtype, "shape": list(shape)} for n in names.split()]


def softmax_sum(causal: bool = False) -> Any:
    """Online softmax of scores S[M, N] times values V[N]: the maximum, the scaled sum of exponentials, the weighted sum."""
    summarize = {
        "args": [
            {"id": "sl", "dtype": "domain"},
            {"id": "s", "dtype": "f32", "shape": ["M", "sl"]},
            {"id": "v", "dtype": "f32", "shape": ["sl"]},
            {"id": "rows", "dtype": "index", "shape": ["M", 1]},
        ],
        "body": [
            op("indices", "at", domain="sl"),
            op("compare", "keep", fn="le", x="at", y="rows"),
            constant("minus", "f32", "-inf"),
            op("select", "sm", cond="keep", x="s", y="minus") if causal else op("broadcast", "sm", x="s", shape=["M", "sl"]),
            op("reduce", "mx", xs=["sm"], axes=[1], fn="max"),
            constant("big", "f32", -1e30),
            op("binary", "safe", fn="maximum", x="mx", y="big"),
            op("reshape", "col", x="safe", shape=["M", 1]),
            op("binary", "df", fn="sub", x="sm", y="col"),
            op("unary", "e", fn="exp", x="df"),
            op("reduce", "den", xs=["e"], axes=[1], fn="sum"),
            op("binary", "ev", fn="mul", x="e", y="v"),
            op("reduce", "num", xs=["ev"], axes=[1], fn="sum"),
        ],
        "yields": ["safe", "den", "num"],
    }
    merge = [op("binary", "m", fn="maximum", x="m1", y="m2")]
    for k in "12":
        merge += [op("binary", f"t{k}", fn="sub", x=f"m{k}", y="m"), op("unary", f"w{k}", fn="exp", x=f"t{k}")]
        merge += [op("binary", f"a{k}", fn="mul", x=f"d{k}", y=f"w{k}"), op("binary", f"b{k}", fn="mul", x=f"n{k}", y=f"w{k}")]
    merge += [op("binary", "d", fn="add", x="a1", y="a2"), op("binary", "n", fn="add", x="b1", y="b2")]
    combine = {"args": states("f32", "M", names="m1 d1 n1 m2 d2 n2"), "body": merge, "yields": ["m", "d", "n"]}
    body = [
        *indices(["M", "N"]),
        op("load", "S_", view="S", coords=["i0", "i1"]),
        op("load", "V_", view="V", coords=["j1"]),
        constant("low", "f32", -1e30),
        constant("zero", "f32", 0.0),
        op("full", "im", value="low", shape=["M"]),
        op("full", "iz", value="zero", shape=["M"]),
        op(
            "region_fold",
            "rm rd rn",
            domain="d1",
            xs=["S_", "V_"],
            axes=[1, 0],
            captures=["i0"],
            identity=["im", "iz", "iz"],
            summarize=summarize,
            combine=combine,
        ),
        op("binary", "y", fn="div", x="rn", y="rd"),
        op("store", view="Y", coords=["j0"], value="y"),
    ]
    return kernel([view("S", "in", "f32", "M", "N"), view("V", "in", "f32", "N"), view("Y", "out", "f32", "M")], body, "M N")


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_an_online_softmax_lies_within_for_every_cut(n: int) -> None:
    for causal in (False, True):
        k = softmax_sum(causal)
        args = make_inputs(k, {"M": 5, "N": n}, n)
        e = within(k, args, *CUTS)
        s, v = args["S"].array().astype(float), args["V"].array().astype(float)
        if causal:
            s = np.where(np.arange(n) <= np.arange(5)[:, None], s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        want = (p @ v) / p.sum(1)
        assert not e["Y"].ambiguous.any() and (e["Y"].bound < 2e-4 * (1 + np.abs(want))).all()
        assert compare(e, {"Y": want.astype(np.float32)}).ok
        assert not compare(e, {"Y": (want * 1.01 + 0.01).astype(np.float32)}).ok


def test_a_fold_over_nothing_is_its_identity() -> None:
    k = softmax_sum()
    args = make_inputs(k, {"M": 3, "N": 0}, 0)
    within(k, args, *CUTS)
    run(k, args)
    assert np.isnan(args["Y"].array()).all()  # 0 / 0


def ordered_fold() -> Any:
    """First and last element, and how many: not commutative, exact."""
    last = [
        op("indices", "at", domain="sl"),
        op("reduce", "lo", xs=["at"], axes=[0], fn="min"),
        op("reduce", "hi", xs=["at"], axes=[0], fn="max"),
        op("compare", "isf", fn="eq", x="at", y="lo"),
        op("compare", "isl", fn="eq", x="at", y="hi"),
        constant("z", "i32", 0),
        op("select", "f_", cond="isf", x="x", y="z"),
        op("select", "l_", cond="isl", x="x", y="z"),
        op("reduce", "f", xs=["f_"], axes=[0], fn="sum"),
        op("reduce", "l", xs=["l_"], axes=[0], fn="sum"),
        constant("t", "bool", True),
    ]
    summarize = {
        "args": [{"id": "sl", "dtype": "domain"}, {"id": "x", "dtype": "i32", "shape": ["sl"]}],
        "body": last,
        "yields": ["f", "l", "t"],
    }
    some = [
        op("select", "f3", cond="k1", x="f1", y="f2"),
        op("select", "l3", cond="k2", x="l2", y="l1"),
        op("binary", "k3", fn="or", x="k1", y="k2"),
    ]
    combine = region("f1:i32 l1:i32 k1:bool f2:i32 l2:i32 k2:bool", some, "f3 l3 k3")
    body = [
        *indices(["N"]),
        op("load", "X_", view="X", coords=["i0"]),
        constant("i", "i32", 0),
        constant("no", "bool", False),
        op("region_fold", "a b c", domain="d0", xs=["X_"], axes=[0], identity=["i", "i", "no"], summarize=summarize, combine=combine),
        constant("o", "index", 0),
        constant("u", "index", 1),
        op("store", view="Y", coords=["o"], value="a"),
        op("store", view="Y", coords=["u"], value="b"),
    ]
    return kernel([view("X", "in", "i32", "N"), view("Y", "out", "i32", 2)], body, "N")


def test_the_order_of_slices_is_kept() -> None:
    k = ordered_fold()
    for n in (0, 1, 9):
        args = make_inputs(k, {"N": n}, 1)
        e = within(k, args, *CUTS)
        assert not e["Y"].ambiguous.any()
        x = args["X"].array()
        assert e["Y"].value.tolist() == ([x[0], x[-1]] if n else [0, 0])


def linear_attention() -> Any:
    """Causal linear attention: y[t] = q[t] · Σ_{u ≤ t} k[u] v[u], as a region scan with the state of shape [D]."""
    kv = [op("reshape", "vc", x="v", shape=["sl", 1]), op("binary", "kv", fn="mul", x="k", y="vc")]
    slices = [
        {"id": "sl", "dtype": "domain"},
        {"id": "q", "dtype": "f32", "shape": ["sl", "D"]},
        {"id": "k", "dtype": "f32", "shape": ["sl", "D"]},
        {"id": "v", "dtype": "f32", "shape": ["sl"]},
    ]

    def named(prefix: str, args: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {**a, "id": prefix + a["id"], "shape": [f"{prefix}sl" if e == "sl" else e for e in a["shape"]]}
            if "shape" in a
            else {**a, "id": prefix + a["id"]}
            for a in args
        ]

    summarize = {"args": slices, "body": [*kv, op("reduce", "t", xs=["kv"], axes=[0], fn="sum")], "yields": ["t"]}
    emit = {
        "args": [*named("e_", slices), {"id": "h", "dtype": "f32", "shape": ["D"]}],
        "body": [
            op("reshape", "ev", x="e_v", shape=["e_sl", 1]),
            op("binary", "ekv", fn="mul", x="e_k", y="ev"),
            op("scan", "pre", xs=["ekv"], axis=0, fn="cumsum"),
            op("binary", "st", fn="add", x="pre", y="h"),
            op("binary", "qs", fn="mul", x="e_q", y="st"),
            op("reduce", "out", xs=["qs"], axes=[1], fn="sum"),
        ],
        "yields": ["out"],
    }
    add = [op("binary", "c", fn="add", x="c1", y="c2")]
    apply = [op("binary", "s", fn="add", x="s1", y="tr")]
    body = [
        *indices(["T", "D"]),
        *(op("load", f"{n}_", view=n, coords=["i0", "i1"]) for n in "QK"),
        op("load", "V_", view="V", coords=["j0"]),
        constant("zero", "f32", 0.0),
        op("full", "z", value="zero", shape=["D"]),
        op(
            "region_scan",
            "y final",
            domain="d0",
            xs=["Q_", "K_", "V_"],
            axes=[0, 0, 0],
            identity=["z"],
            init=["z"],
            out_axes=[0],
            summarize=summarize,
            emit=emit,
            combine={"args": states("f32", "D", names="c1 c2"), "body": add, "yields": ["c"]},
            apply={"args": states("f32", "D", names="tr s1"), "body": apply, "yields": ["s"]},
        ),
        op("store", view="Y", coords=["j0"], value="y"),
        op("store", view="H", coords=["j1"], value="final"),
    ]
    ins = [view(n, "in", "f32", "T", "D") for n in "QK"] + [view("V", "in", "f32", "T")]
    return kernel([*ins, view("Y", "out", "f32", "T"), view("H", "out", "f32", "D")], body, "T D")


@pytest.mark.parametrize("t", [0, 1, 6, 19])
def test_a_region_scan_lies_within_for_every_cut(t: int) -> None:
    k = linear_attention()
    args = make_inputs(k, {"T": t, "D": 4}, t)
    e = within(k, args, *CUTS)
    q, key, v = (args[n].array().astype(float) for n in "QKV")
    h = np.cumsum(key * v[:, None], 0)
    want = (q * h).sum(1)
    assert compare({"Y": e["Y"]}, {"Y": want.astype(np.float32)}).ok
    assert not e["Y"].ambiguous.any() and (e["Y"].bound < 1e-4 * (1 + np.abs(q * h).sum(1))).all()
    assert e["H"].written.all() and (t or not e["H"].value.any())
    assert not t or not compare({"Y": e["Y"]}, {"Y": (want + 0.01).astype(np.float32)}).ok


def test_coordinates_in_a_slice_are_absolute() -> None:
    """The sum of the coordinates of a stepped domain."""
    summarize = {
        "args": [{"id": "sl", "dtype": "domain"}],
        "body": [op("indices", "i", domain="sl"), op("reduce", "s", xs=["i"], axes=[0], fn="sum")],
        "yields": ["s"],
    }
    combine = region("a b", [op("binary", "c", fn="add", x="a", y="b")], "c")
    body = [
        op("domain", "d", begin=3, end="N", step=2),
        constant("z", "index", 0),
        op("region_fold", "r", domain="d", identity=["z"], summarize=summarize, combine=combine),
        op("cast", "y", x="r", dtype="i64"),
        op("store", view="Y", value="y", coords=[]),
    ]
    k = kernel([view("X", "in", "f32", "N"), view("Y", "out", "i64")], body, "N")
    for n in (2, 4, 12, 13):
        args = {"X": ViewArg.of(np.zeros(n, np.float32)), "Y": ViewArg.of(np.zeros((), np.int64))}
        assert within(k, args, *CUTS)["Y"].value == sum(range(3, n, 2))


def test_slices_differ_between_points_of_a_parallel() -> None:
    """A fold over members[O[i] : O[i + 1]] inside a parallel, its region reading memory."""
    summarize = {
        "args": [{"id": "sl", "dtype": "domain"}, {"id": "w", "dtype": "f32"}],
        "body": [
            op("indices", "i", domain="sl"),
            op("load", "x", view="V", coords=["i"]),
            op("binary", "xw", fn="mul", x="x", y="w"),
            op("reduce", "s", xs=["xw"], axes=[0], fn="sum"),
        ],
        "yields": ["s"],
    }
    combine = region("a:f32 b:f32", [op("binary", "c", fn="add", x="a", y="b")], "c")
    inner = [
        constant("one", "index", 1),
        op("binary", "p1", fn="add", x="p", y="one"),
        op("load", "b0", view="O", coords=["p"]),
        op("load", "e0", view="O", coords=["p1"]),
        op("cast", "bb", x="b0", dtype="index"),
        op("cast", "ee", x="e0", dtype="index"),
        op("subregion", "part", domain="all", begin="bb", end="ee"),
        constant("z", "f32", 0.0),
        constant("w_", "f32", 1.5),
        op("region_fold", "r", domain="part", captures=["w_"], identity=["z"], summarize=summarize, combine=combine),
        op("store", view="Y", coords=["p"], value="r"),
    ]
    body = [op("domain", "all", end="T"), op("domain", "g", end="G"), op("parallel", domains=["g"], body=region("p", inner))]
    k = kernel([view("O", "in", "i32", "P"), view("V", "in", "f32", "T"), view("Y", "out", "f32", "G")], body, "G P T")
    v = np.arange(20, dtype=np.float32)
    args = {"O": ViewArg.of(np.asarray([0, 5, 5, 6, 20], np.int32)), "V": ViewArg.of(v), "Y": ViewArg.of(np.zeros(4, np.float32))}
    within(k, args, *CUTS)
    run(k, args)
    np.testing.assert_array_equal(args["Y"].array(), [1.5 * v[a:b].sum() for a, b in ((0, 5), (5, 5), (5, 6), (6, 20))])
