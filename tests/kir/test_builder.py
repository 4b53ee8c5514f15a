"""The builder: readable Python becomes verified KIR; mistakes name the statement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.kir import Builder, Kernel, TensorType, check_kernel, kernel
from eqkir.kir.ops import Constant, Domain, Indices, Load, Parallel, Store
from eqkir.kir.reference import ViewArg, run


def call(k: Kernel, constexprs: dict[str, Any] | None = None, **args: Any) -> dict[str, np.ndarray]:
    """Run on copies of arrays; the arrays afterwards."""
    views = {n: ViewArg.of(a) if isinstance(a, np.ndarray) else a for n, a in args.items()}
    run(k, views, constexprs=constexprs or {})
    return {n: v.array() for n, v in views.items() if isinstance(v, ViewArg)}


def vector(k: Builder, dtype: str = "f32", out: str | None = None) -> tuple[Any, Any, Any]:
    (n,) = k.symbols("N")
    return n, k.view("X", "in", dtype, (n,)), k.view("Y", "out", out or dtype, (n,))


def test_operators_take_numbers_and_extents_of_the_other_dtype() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vector(k)
        x = X[:]
        Y[:] = (1 - x) * 2 / n + abs(-x) + (x + n)

    x = np.array([0.5, -2.0, 3.0, 7.25], np.float32)
    got = call(f, X=x, Y=np.zeros_like(x))["Y"]
    np.testing.assert_array_equal(got, (1 - x) * 2 / np.float32(4) + abs(-x) + (x + 4))


def test_integer_and_bit_operators() -> None:
    @kernel
    def f(k: Builder) -> None:
        _, X, Y = vector(k, "i32")
        x = X[:]
        Y[:] = ((x // 3) ^ (x % 7)) + ((x & 12) | 1) + (x << 2) - (x >> 1) + ~x

    x = np.array([-9, -1, 0, 5, 1000], np.int32)
    want = ((x // 3) ^ (x % 7)) + ((x & 12) | 1) + (x << 2) - (x >> 1) + ~x
    np.testing.assert_array_equal(call(f, X=x, Y=np.zeros_like(x))["Y"], want)


def test_constants_and_coordinates_are_shared_and_unary_methods_exist() -> None:
    @kernel
    def f(k: Builder) -> None:
        _, X, Y = vector(k)
        x = X[:]
        Y[:] = (x * 2.0).exp().log1p().maximum(2.0)

    count = [type(o) for o in f.body]
    assert count.count(Domain) == count.count(Indices) == count.count(Constant) == 1


def test_comparisons_and_where() -> None:
    @kernel
    def f(k: Builder) -> None:
        _, X, Y = vector(k)
        x = X[:]
        Y[:] = k.where((x > 0) & (x != 2) | ~(x >= -1), x, 9)

    x = np.array([-3, -1, 0, 1, 2, np.nan], np.float32)
    np.testing.assert_array_equal(call(f, X=x, Y=np.zeros_like(x))["Y"], np.array([-3, 9, 9, 1, 9, np.nan], np.float32))


def test_slices_domains_and_scalars_as_coordinates() -> None:
    @kernel
    def f(k: Builder) -> None:
        m, n = k.symbol("M", min=3), k.symbol("N", min=2)
        X, Y = k.view("X", "in", "f32", (m, n)), k.view("Y", "inout", "f32", (n,))
        k.noalias(X, Y)
        row = X[2, 1:n]
        Y[k.domain(0, n - 1)] = row + X[0, 0 : n - 1]

    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    got = call(f, X=x, Y=np.full(5, -1, np.float32))["Y"]
    np.testing.assert_array_equal(got, [*(x[2, 1:] + x[0, :-1]), -1])


def test_index_tensors_broadcast_together() -> None:
    @kernel
    def f(k: Builder) -> None:
        m, n = k.symbols("M", "N")
        X, Y = k.view("X", "in", "f32", (m, n)), k.view("Y", "out", "f32", (n, m))
        i, j = k.indices(m), k.indices(n)
        Y[j[:, None], i] = X[i[None, :], j[:, None]]

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(call(f, X=x, Y=np.zeros((3, 2), np.float32))["Y"], x.T)


def test_parallel_as_a_block_and_as_a_decorator() -> None:
    @kernel
    def f(k: Builder) -> None:
        m, n = k.symbols("M", "N")
        X, Y, Z = k.view("X", "in", "i32", (m, n)), k.view("Y", "out", "i32", (m, n)), k.view("Z", "out", "i32", (m,))
        k.noalias(X, Y, Z)
        with k.parallel(m, n) as (i, j):
            Y[i, j] = X[i, j] + j.cast("i32")

        @k.parallel(m)
        def _(i: Any) -> None:
            Z[i] = X[i, :].sum(axis=0)

    assert [type(o) for o in f.body if isinstance(o, Parallel)] == [Parallel, Parallel]
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    got = call(f, X=x, Y=np.zeros_like(x), Z=np.zeros(2, np.int32))
    np.testing.assert_array_equal(got["Y"], x + np.arange(3))
    np.testing.assert_array_equal(got["Z"], x.sum(1))


def test_values_of_a_parallel_stay_inside() -> None:
    with pytest.raises(EqkirError, match="EQK-KIR-SCOPE"):

        @kernel
        def f(k: Builder) -> None:
            n, X, Y = vector(k)
            with k.parallel(n) as i:
                x = X[i]
            Y[:] = x


@pytest.mark.parametrize("axis", [0, 1])
def test_arg_reductions_nan_wins_lowest_index_wins_ties(axis: int) -> None:
    @kernel
    def f(k: Builder) -> None:
        m, n = k.symbols("M", "N")
        kept = (m, n)[1 - axis]
        X = k.view("X", "in", "f32", (m, n))
        outs = [k.view(c, "out", d, (kept,)) for c, d in zip("AIBJ", ("f32", "i64", "f32", "index"), strict=True)]
        k.noalias(X, *outs)
        A, I, B, J = outs
        A[:], I[:] = k.argmax(X[:, :], axis, "i64")
        B[:], J[:] = k.argmin(X[:, :], axis)

    rng = np.random.default_rng(5)
    x = rng.integers(-2, 3, (6, 7)).astype(np.float32)
    x[2, 3] = x[4, 3] = x[2, 5] = np.nan
    x[1] = -np.inf
    x[5] = np.inf
    n = x.shape[1 - axis]
    got = call(f, X=x, A=np.zeros(n, np.float32), I=np.zeros(n, np.int64), B=np.zeros(n, np.float32), J=np.zeros(n, np.int64))
    np.testing.assert_array_equal(got["I"], x.argmax(axis))
    np.testing.assert_array_equal(got["J"], x.argmin(axis))
    np.testing.assert_array_equal(got["A"], x.max(axis))
    np.testing.assert_array_equal(got["B"], x.min(axis))


def test_scalars_and_constexprs() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vector(k)
        begin, factor = k.scalar("begin", "i32"), k.scalar("factor", "f32")
        mode = k.constexpr("mode", "twice", ("once", "twice"))
        half = k.constexpr("half", 0.5)
        i = k.indices(n)
        y = k.where(mode == "twice", X[:] * 2.0, X[:]) * factor + half.cast("f32")
        Y[:] = k.where(i >= begin.cast("index"), y, 0.0)

    x = np.arange(4, dtype=np.float32)
    once = call(f, {"mode": "once"}, X=x, Y=np.zeros_like(x), begin=1, factor=3.0)["Y"]
    np.testing.assert_array_equal(once, [0, 3.5, 6.5, 9.5])
    np.testing.assert_array_equal(call(f, X=x, Y=np.zeros_like(x), begin=0, factor=3.0)["Y"], x * 6 + 0.5)


def test_generic_reduce_may_return_a_single_value() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, _ = vector(k)
        Z = k.view("Z", "out", "f32", ())
        (z,) = k.reduce((X[:],), 0, (0.0,), lambda l, r: l[0] + r[0])
        Z[()] = z

    x = np.arange(5, dtype=np.float32)
    assert call(f, X=x, Y=np.zeros_like(x), Z=np.zeros((), np.float32))["Z"] == 10


def test_valid_and_fill_reach_the_operation() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vector(k)
        i = k.indices(n)
        Y.store(i, X.load(i + 1, valid=i + 1 < n, fill=-1), valid=i >= 0)

    load, store = (o for o in f.body if isinstance(o, (Load, Store)))
    assert load.valid and load.fill and store.valid  # type: ignore[union-attr]
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(call(f, X=x, Y=np.zeros_like(x))["Y"], [1, 2, -1])


def test_the_builders_types_are_those_of_inference() -> None:
    seen: dict[str, TensorType] = {}

    @kernel
    def f(k: Builder) -> None:
        m, n = k.symbols("M", "N")
        X, Y = k.view("X", "in", "bf16", (m, n)), k.view("Y", "out", "f32", (n, m))
        x = X[:, :]
        y = x.T.cast("f32")
        Y[:, :] = y.reshape(n * m).reshape((n, m))
        seen.update({v.id: k.type(v.id) for v in (x, y)})

    types = check_kernel(f)
    assert {i: types[i] for i in seen} == seen


def test_the_location_is_the_authors_line() -> None:
    @kernel
    def f(k: Builder) -> None:
        _, X, Y = vector(k)
        Y[:] = X[:].exp()  # here

    line = next(i for i, text in enumerate(open(__file__, encoding="utf-8"), 1) if text.rstrip().endswith("# here") and "exp" in text)
    assert {(o.loc.file, o.loc.line) for o in f.body if o.loc} == {("test_builder.py", line)}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (lambda k, n, X, Y: X[:] + k.indices(n), "DTYPE"),
        (lambda k, n, X, Y: X[:, :], "COORDS"),
        (lambda k, n, X, Y: X[:][0], "BUILD"),
        (lambda k, n, X, Y: k.matmul(X[:], X[:]), "BUILD"),
        (lambda k, n, X, Y: bool(X[:] > 0), "BUILD"),
        (lambda k, n, X, Y: k.domain(X[:]), "BUILD"),
        (lambda k, n, X, Y: X[:].reshape(n + 1), "SHAPE"),
        (lambda k, n, X, Y: X[:].sum(axis=3), "AXIS"),
        (lambda k, n, X, Y: X[X[:].cast("i32"), :], "COORDS"),
        (lambda k, n, X, Y: k.reduce((X[:],), 0, (0.0,), lambda l, r: l[0] < r[0]), "REGION"),
        (lambda k, n, X, Y: k.reduce((X[:],), 0, (0.0,), lambda l, r: k.value(n, "f32") + r[0]), "REGION"),
    ],
)
def test_mistakes_are_diagnosed_where_they_are_written(body: Any, code: str) -> None:
    with pytest.raises(EqkirError) as e:

        @kernel
        def f(k: Builder) -> None:
            n, X, Y = vector(k)
            body(k, n, X, Y)
            Y[:] = X[:]

    assert e.value.diagnostics[0].code == f"EQK-KIR-{code}"
    assert e.value.diagnostics[0].file == "test_builder.py" and e.value.diagnostics[0].line


def test_softmax_is_short() -> None:
    @kernel
    def softmax(k: Builder) -> None:
        R, C = k.symbols("R", "C")
        X, Y = k.view("X", "in", "f32", (R, C)), k.view("Y", "out", "f32", (R, C))
        k.noalias(X, Y)
        x = X[:, :]
        e = (x - x.max(axis=1, keepdims=True)).exp()
        Y[:, :] = e / e.sum(axis=1, keepdims=True)

    x = np.random.default_rng(0).normal(size=(3, 9)).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(call(softmax, X=x, Y=np.zeros_like(x))["Y"], e / e.sum(1, keepdims=True), rtol=1e-6)
