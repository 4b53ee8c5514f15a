"""The builder's control, buffers, records, helpers and folds: what is written is what is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.base.expr import Sym
from eqkir.kir import Builder, DomainType, Kernel, RecordType, TensorType, check, helper, kernel, link, load_bytes, module
from eqkir.kir.canonical import canonical, dumps
from eqkir.kir.ops import Call, If, RegionFold, RegionScan
from eqkir.kir.reference import ViewArg, run
from eqkir.kir.types import infer


def call(k: Kernel, helpers: Any = (), **args: Any) -> dict[str, np.ndarray]:
    """Run the linked kernel, read back from its JSON, on copies; the arrays afterwards."""
    m = load_bytes(dumps(module(k, helpers=helpers)).encode())
    assert canonical(m) == canonical(module(k, helpers=helpers))
    check(m)
    views = {n: ViewArg.of(a) if isinstance(a, np.ndarray) else a for n, a in args.items()}
    run(link(m).kernels[0], views)
    return {n: v.array() for n, v in views.items() if isinstance(v, ViewArg)}


def vectors(k: Builder, dtype: str = "f32") -> tuple[Any, Any, Any]:
    (n,) = k.symbols("N")
    X, Y = k.view("X", "in", dtype, (n,)), k.view("Y", "inout", dtype, (n,))
    k.noalias(X, Y)
    return n, X, Y


X5 = np.array([3.0, -1.0, 4.0, 1.0, -5.0], np.float32)


def test_a_loop_with_carries_and_exits() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vectors(k)
        with k.for_(n, 0.0, 0) as loop:
            total, count = loop.carried
            x = X[loop.i]
            loop.continue_if(x < 0.0)
            loop.break_if(total + x > 7.5, total, -count)
            loop.yield_(total + x, count + 1)
        Y[0], Y[1] = loop.results[0], loop.results[1].cast("f32")

    got = call(f, X=X5, Y=np.zeros(5, np.float32))["Y"]
    np.testing.assert_array_equal(got[:2], [7.0, -2.0])


def test_branches_give_values_or_effects() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vectors(k)
        with k.parallel(n) as i:
            x = X[i]
            with k.if_(x > 0.0) as branch:
                branch.yield_(x * 2.0)
            with branch.otherwise():
                branch.yield_(0.0)
            (y,) = k.cond(x > 3.5, lambda: branch.result + 1.0, lambda: branch.result)
            with k.if_(x != 1.0) as effect:
                Y[i] = y
            with effect.otherwise():
                Y[i] = 9.0

    assert sum(isinstance(o, If) for o in f.body[-1].regions()[0].body) == 3
    np.testing.assert_array_equal(call(f, X=X5, Y=np.zeros(5, np.float32))["Y"], [6, 0, 9, 9, 0])


def test_a_while_and_a_buffer() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vectors(k, "i32")
        seen = k.buffer("i32", (n,), 0)
        with k.while_(k.const(0, "index")) as loop:
            (i,) = loop.test((loop.carried[0] < n) & (seen[0] < 3))
            seen[0] = seen[0] + 1
            seen[i] = seen[i] + X[i]
            loop.yield_(i + 1)
        Y[:] = seen[:]

    x = np.array([0, 10, 20, 30], np.int32)
    np.testing.assert_array_equal(call(f, X=x, Y=np.zeros_like(x))["Y"], [3, 10, 20, 0])


def test_run_time_bounds_and_shapes() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vectors(k, "i32")
        d = k.domain(n)
        part = d[X[0].cast("index") : X[1].cast("index")]
        Y[part] = X[part] * 2 + k.indices(part).cast("i32") + k.full((part,), 1, "i32")
        tail = k.domain(X[1], n)
        Y[tail] = k.full((tail,), -1, "i32")

    types = infer(f)
    part = next(t for t in types.values() if isinstance(t, DomainType) and t.source)
    assert part.length.op == "max" and types[str(part.source)] == DomainType(part.begin * 0, Sym("N"), 1, Sym("N"))
    x = np.array([1, 3, 5, 7, 9], np.int32)
    np.testing.assert_array_equal(call(f, X=x, Y=np.zeros_like(x))["Y"], [0, 8, 13, -1, -1])


def test_records_are_carried_and_nested() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vectors(k)
        start = k.record(sum=k.const(0.0, "f32"), best=k.tuple_of(k.const("-inf", "f32"), k.const(-1, "index")))
        with k.for_(n, start) as loop:
            s, x = loop.carried[0], X[loop.i]
            better = x > s["best"][0]
            best = k.tuple_of(k.where(better, x, s["best"][0]), k.where(better, loop.i, s["best"][1]))
            loop.yield_(k.record(sum=s["sum"] + x, best=best))
        r = loop.result
        Y[0], Y[1], Y[2] = r["sum"], r["best"][0], r["best"][1].cast("f32")

    assert any(isinstance(t, RecordType) for t in infer(f).values())
    np.testing.assert_array_equal(call(f, X=X5, Y=np.zeros(5, np.float32))["Y"], [2, 4, 2, 0, 0])


def test_captures_are_found_and_are_the_same_for_both_regions() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vectors(k)
        a, zero = X[0], k.const(0.0, "f32")
        b = a * 2.0
        (y,), _ = k.region_scan(
            n, [X[:]], (zero,), (zero,), lambda s, x: (x * a).sum(), lambda p, q: p[0] + q[0], lambda t, s: t[0] + s[0],
            lambda s, x, before: (x * a).cumsum(0) + before[0] + b,
        )  # fmt: skip
        Y[:] = y

    (op,) = (o for o in f.body if isinstance(o, RegionScan))
    assert len(op.captures) == 2 and len(op.summarize.args) == 4 and len(op.emit.args) == 5
    np.testing.assert_allclose(call(f, X=X5, Y=np.zeros(5, np.float32))["Y"], np.cumsum(X5 * 3) + 6)


def test_a_fold_knows_absolute_coordinates_and_nests() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vectors(k)
        x, d = X[:], k.domain(n)
        zero = k.const(0.0, "f32")

        def inner(s: Any, part: Any) -> Any:
            weighted = part * k.indices(s).cast("f32")
            return k.region_fold(d, [x], (zero,), lambda t, p: p.sum(), lambda a, b: a[0] + b[0])[0] + weighted.sum()

        def outer(s: Any, part: Any) -> Any:
            return (part * k.indices(s).cast("f32")).sum()

        Y[0] = k.region_fold(d, [x], (zero,), outer, lambda a, b: a[0] + b[0])[0]
        total = k.region_fold(k.domain(1), [], (zero,), lambda s: inner(d, x), lambda a, b: a[0] + b[0])
        Y[1] = total[0]

    assert sum(isinstance(o, RegionFold) for o in f.body) == 2
    got = call(f, X=X5, Y=np.zeros(5, np.float32))["Y"]
    want = float((X5 * np.arange(5)).sum())
    np.testing.assert_allclose(got[:2], [want, want + X5.sum()])


@helper({"x": ("f32", ("A",)), "scale": "f32"})
def scaled(k: Builder, x: Any, scale: Any) -> Any:
    return x * scale, x.sum(axis=0)


@helper({"x": ("f32", ("B",))})
def twice(k: Builder, x: Any) -> Any:
    return k.call(scaled, x, 2.0)[0]


@helper({"d": "domain", "i": "index"}, {"M": ("inout", "f32", ("L",))}, effect="effectful")
def bump(k: Builder, d: Any, i: Any, M: Any) -> Any:
    with k.for_(d[i:]) as loop:
        M[loop.i] = M[loop.i] + 1.0
    return k.indices(d).cast("f32").max(axis=0)


def test_helpers_are_typed_for_any_extent_and_inlined_by_link() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vectors(k)
        both = k.call(twice, X[k.domain(0, n)])
        some = k.call(twice, X[k.domain(1, n)])
        Y[k.domain(1, n)] = both.gather((k.indices(n - 1) + 1,)) + some
        Y[0] = k.call(bump, k.domain(n), 3, views=(Y,))

    m = module(f, helpers=[twice, bump])
    assert [h.name for h in m.helpers] == ["scaled", "twice", "bump"]
    assert any(isinstance(o, Call) for o in f.body) and not any(isinstance(o, Call) for o in link(m).kernels[0].body)
    got = call(f, [twice, bump], X=X5, Y=np.zeros(5, np.float32))["Y"]
    np.testing.assert_array_equal(got, [4, *(X5[1:3] * 4), *(X5[3:] * 4 + 1)])


def test_a_pointwise_helper_may_stand_in_a_combine() -> None:
    @helper({"a": "f32", "b": "f32"})
    def mix(k: Builder, a: Any, b: Any) -> Any:
        return a + b

    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vectors(k)
        (y,) = k.scan((X[:],), 0, lambda a, b: k.call(mix, a[0], b[0]))
        Y[:] = y

    np.testing.assert_allclose(call(f, [mix], X=X5, Y=np.zeros(5, np.float32))["Y"], np.cumsum(X5))


def test_atomics_scatters_and_gathers() -> None:
    @kernel
    def f(k: Builder) -> None:
        n, X, Y = vectors(k, "i32")
        C = k.view("C", "inout", "i32", (4,))
        k.noalias(X, Y, C)
        i = k.indices(n)
        old = C.atomic_add((i % 4), X[:])
        Y.unique_scatter(n - 1 - i, X[:].gather((n - 1 - i,)) + old * 0)
        C.scatter_reduce("max", i * 0, X[:])
        before, done = C.atomic_compare_exchange(1, 2, 50)
        C[2] = before + done.cast("i32")

    x = np.array([7, 2, 9, 1], np.int32)
    got = call(f, X=x, Y=np.zeros_like(x), C=np.zeros(4, np.int32))
    np.testing.assert_array_equal(got["Y"], x)
    np.testing.assert_array_equal(got["C"], [9, 50, 3, 1])


def test_types_of_what_is_new() -> None:
    seen: dict[str, TensorType] = {}

    @kernel
    def _(k: Builder) -> None:
        m, n = k.symbols("M", "N")
        X, Y = k.view("X", "in", "bf16", (m, n)), k.view("Y", "out", "f32", (m, n, 2))
        x = X[:, :]
        value, at = k.arg_reduce("argmin", x, 0, "u32")
        kept = {
            "scan": x.cumsum(1), "max": x.cummax(0), "value": value, "at": at, "join": x.join(x), "counts": k.histogram(at, n + 1),
            "dot": k.quantized_dot(k.full((m, 1, 3, 144), 0, "u8"), k.full((n, 3, 292), 0, "u8")), "bits": k.random_bits(1, k.indices(n)),
        }  # fmt: skip
        Y[:, :, :] = kept["join"].cast("f32")
        seen.update({name: k.type(v.id) for name, v in kept.items()})

    m, n = Sym("M"), Sym("N")
    assert str(seen["join"]) == "bf16[M, N, 2]" and str(seen["counts"]) == "i32[(N + 1)]"
    assert seen["scan"] == TensorType("f32", (m, n)) and seen["max"] == TensorType("bf16", (m, n))
    assert seen["value"] == TensorType("bf16", (n,)) and seen["at"] == TensorType("u32", (n,))
    assert seen["dot"] == TensorType("f32", (m, n)) and seen["bits"] == TensorType("u32", (n,))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (lambda k, n, X, Y: k.record(a=X[0])["b"], "RECORD"),
        (lambda k, n, X, Y: k.record(a=X[0]).exp(), "KIND-OF-VALUE"),
        (lambda k, n, X, Y: k.domain(n)[0:n:2], "BUILD"),
        (lambda k, n, X, Y: k.domain(0, n, 2)[0:3], "SUBREGION"),
        (lambda k, n, X, Y: Y.atomic_and(0, 1.0), "ATOMIC"),
        (lambda k, n, X, Y: k.call(scaled, X[:]), "HELPER"),
        (lambda k, n, X, Y: k.call(scaled, X[:].cast("f16"), 1.0), "HELPER"),
        (lambda k, n, X, Y: k.unary("exp", X[:], approximate=True), "APPROXIMATE"),
        (lambda k, n, X, Y: k.region_fold(n, [X[:]], (k.const(0.0, "f32"),), lambda s, x: k.value(s.length).cast("f32"), max), "SLICE"),
        (lambda k, n, X, Y: k.quantize(X[:]), "FORMAT"),
    ],
)
def test_mistakes_are_diagnosed_where_they_are_written(body: Any, code: str) -> None:
    with pytest.raises(EqkirError) as e:

        @kernel
        def f(k: Builder) -> None:
            n, X, Y = vectors(k)
            body(k, n, X, Y)
            Y[:] = X[:]

    assert e.value.diagnostics[0].code == f"EQK-KIR-{code}"
    assert e.value.diagnostics[0].file == "test_builder_control.py" and e.value.diagnostics[0].line
