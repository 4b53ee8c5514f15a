"""Types: extents are equal when they provably are, and every operation's result has the stated dtype and shape."""

from __future__ import annotations

import itertools
import random

import pytest

from eqkir.base.expr import Expr, Int, Sym, binary, evaluate
from eqkir.kir import DomainType, Extents, Symbol, TensorType, check_kernel, load_bytes
from eqkir.kir.types import Type
from tests.kir.kit import VIEWS, found, op, text

M, N = Sym("M"), Sym("N")


def types(*body: object, **kernel: object) -> dict[str, Type]:
    return check_kernel(load_bytes(text(*body, **kernel)).kernels[0])


def random_extent(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([Sym("A"), Sym("B"), Sym("C"), Int(rng.randint(-3, 9))])
    fn = rng.choice(["add", "sub", "mul", "add", "sub", "mul", "floordiv", "mod", "min", "max"])
    a = random_extent(rng, depth - 1)
    return binary(fn, a, Int(rng.randint(1, 6)) if fn in ("floordiv", "mod") else random_extent(rng, depth - 1))


def test_the_normal_form_keeps_the_value_and_equality_is_never_wrong() -> None:
    rng = random.Random(3)
    x = Extents([Symbol(id="A", multiple_of=6), Symbol(id="B", min=2), Symbol(id="C"), Symbol(id="D", max=5)], [("D", "C")])
    pool = [random_extent(rng, rng.randint(0, 4)) for _ in range(250)]
    envs = [{"A": 6 * rng.randint(0, 5), "B": rng.randint(2, 9), "C": (c := rng.randint(0, 5)), "D": c} for _ in range(25)]
    for e in pool:
        for env in envs:
            assert evaluate(x.canon(e), env) == evaluate(e, env)
        assert x.canon(x.canon(e)) == x.canon(e)
        if x.nonneg(e):
            assert all(evaluate(e, env) >= 0 for env in envs)
    for a, b in itertools.combinations(pool[:120], 2):
        if x.equal(a, b):
            assert all(evaluate(a, env) == evaluate(b, env) for env in envs)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (M * N, N * M), ((M + N) * 2, N + M + N + M), (M * 4 // 4, M), ((M * 4 + 3) // 4, M), ((M + 8) % 4, M % 4),
        (Sym("D") // 8 * 8, Sym("D")), (Sym("E"), M), ((Sym("D") // 2) * 2, Sym("D")), (M + 1 - 1, M),
    ],
)  # fmt: skip
def test_extents_that_are_equal(a: Expr, b: Expr) -> None:
    x = Extents([Symbol(id="M"), Symbol(id="N"), Symbol(id="D", multiple_of=16), Symbol(id="E")], [("E", "M")])
    assert x.equal(a, b)


@pytest.mark.parametrize(("a", "b"), [(M, N), (M * 2, M + 2), (M // 2 * 2, M), (M, Int(1)), (Sym("D") // 3 * 3, Sym("D"))])
def test_extents_that_are_not_known_to_be_equal(a: Expr, b: Expr) -> None:
    x = Extents([Symbol(id="M"), Symbol(id="N"), Symbol(id="D", multiple_of=16)])
    assert not x.equal(a, b)


@pytest.mark.parametrize(("begin", "end", "step"), [(b, e, s) for b in (0, 1, 4, -2) for e in (0, 3, 7) for s in (1, 2, 3)])
def test_the_length_of_a_domain_is_that_of_range(begin: int, end: int, step: int) -> None:
    x = Extents([Symbol(id="A"), Symbol(id="B")])
    assert x.length(Int(begin), Int(end), step).value == len(range(begin, end, step))
    n = x.length(Sym("A"), Sym("B"), step)
    assert evaluate(n, {"A": begin, "B": end}) == len(range(begin, end, step))


def test_a_whole_axis_has_the_extent_of_the_axis() -> None:
    assert Extents([Symbol(id="M")]).length(Int(0), M, 1) == M


def test_results_of_the_operations() -> None:
    t = types(
        op("reduce", "rs", xs=["x"], axes=[1], fn="sum"),
        op("cast", "h", x="x", dtype="bf16"),
        op("reduce", "hs", xs=["h"], axes=[0], fn="sum"),
        op("reduce", "hm", xs=["h"], axes=[0, 1], fn="max"),
        op("transpose", "xt", x="x", perm=[1, 0]),
        op("contract", "xx", lhs="h", rhs="h", reduce=[[1, 1]], acc="f32"),
        op("contract", "xb", lhs="h", rhs="h", reduce=[[1, 1]], batch=[[0, 0]], acc="f32"),
        op("reshape", "xf", x="x", shape=[["mul", "N", "M"]]),
        op("binary", "rx", fn="add", x="r", y="c"),
        op("compare", "rc", fn="lt", x="r", y="c"),
        op("unary", "nan", fn="isnan", x="x"),
        op("bitcast", "bits", x="x", dtype="u32"),
        op("full", "f0", value="one", shape=[0, "N"]),
        op("reduce", "f1", xs=["f0"], axes=[0], fn="prod"),
        op("broadcast", "b", x="c", shape=[3, "M", "N"]),
        op("domain", "d", begin="s1", end="M", step=2),
        op("extent", "e", extent=["add", "M", 1]),
        params=[*VIEWS, {"kind": "scalar", "id": "s1", "dtype": "i32"}],
    )
    want = {
        "rs": TensorType("f32", (M,)), "hs": TensorType("f32", (N,)), "hm": TensorType("bf16"), "xt": TensorType("f32", (N, M)),
        "xx": TensorType("f32", (M, M)), "xb": TensorType("f32", (M,)), "xf": TensorType("f32", (M * N,)),
        "rx": TensorType("index", (M, N)), "rc": TensorType("bool", (M, N)), "nan": TensorType("bool", (M, N)),
        "bits": TensorType("u32", (M, N)), "f1": TensorType("f32", (N,)), "b": TensorType("index", (Int(3), M, N)),
        "e": TensorType("index"),
    }  # fmt: skip
    assert {k: t[k] for k in want} == want
    d = t["d"]
    assert isinstance(d, DomainType) and evaluate(d.length, {"s1": 9, "M": 4}) == 0 and evaluate(d.length, {"s1": 1, "M": 4}) == 2


def test_contract_result_is_batch_then_lhs_then_rhs() -> None:
    t = types(
        op("broadcast", "a", x="x", shape=[5, "M", "N"]),
        op("broadcast", "b", x="x", shape=[7, 5, "M", "N"]),
        op("contract", "y", lhs="a", rhs="b", reduce=[[2, 3]], batch=[[0, 1]], acc="f32"),
    )
    assert t["y"] == TensorType("f32", (Int(5), M, Int(7), M))


def test_declared_equal_symbols_are_one_extent() -> None:
    square = op("binary", "q", fn="add", x="im", y="c")
    assert [d.code for d in found(text(square))] == ["EQK-KIR-SHAPE"]
    assert found(text(square, equal=[["M", "N"]])) == []
    assert types(square, equal=[["N", "M"]])["q"] == TensorType("index", (M,))


def test_size_one_and_zero_broadcast() -> None:
    t = types(
        op("full", "z", value="one", shape=[0]), op("full", "o", value="one", shape=[1]), op("binary", "q", fn="add", x="z", y="o"),
        op("binary", "w", fn="add", x="x", y="o"),
    )  # fmt: skip
    assert t["q"] == TensorType("f32", (Int(0),)) and t["w"] == TensorType("f32", (M, N))


def test_an_extent_with_too_many_terms_is_refused() -> None:
    sums = ["add", ["add", "M", "N"], 1]
    e = sums
    for _ in range(60):
        e = ["mul", e, sums]
    assert [d.code for d in found(text(op("extent", "q", extent=e)))] == ["EQK-KIR-EXTENT"]
