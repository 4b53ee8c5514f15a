"""Ordered control: carries, states before a step, leaving a loop, branches, `while`, records, helpers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.kir.builder import Builder
from eqkir.program.abstract import Abstract
from eqkir.program.construct import construct
from tests.construct.ordered import close, f32, run_all


def built(fill: Callable[[Builder], None]) -> Abstract:
    k = Builder("k")
    fill(k)
    return construct(k.build())


def refused(fill: Callable[[Builder], None]) -> str:
    k = Builder("k")
    fill(k)
    with pytest.raises(EqkirError) as e:
        construct(k.build())
    d = e.value.diagnostics[0]
    assert d.pointer
    return d.code


def recurrence(k: Builder) -> None:
    M, T = k.symbols("M", "T")
    A, B = k.view("A", "in", "f32", (M, T)), k.view("B", "in", "f32", (M, T))
    Y, H = k.view("Y", "out", "f32", (M, T)), k.view("H", "out", "f32", (M,))
    k.noalias(A, B, Y, H)
    with k.for_(T, k.full((M,), 1.0)) as loop:
        h = loop.carried[0] * A[:, loop.i] + B[:, loop.i]
        Y[:, loop.i] = h
        loop.yield_(h)
    H[:] = loop.result


@pytest.mark.parametrize("m,t", [(3, 4), (1, 1), (2, 0), (0, 3)])
def test_a_recurrence_stores_every_state_and_the_last(m: int, t: int) -> None:
    p = built(recurrence)
    assert [(a.name, a.kind) for a in p.axes] == [("i0", "own"), ("c0", "strict")]
    a, b, y, h = f32(m, t), f32(m, t), np.zeros((m, t), np.float32), np.zeros(m, np.float32)
    run_all(p, {"A": a, "B": b, "Y": y, "H": h})
    s, want = np.ones(m, np.float32), np.zeros((m, t), np.float32)
    for i in range(t):
        s = s * a[:, i] + b[:, i]
        want[:, i] = s
    close(y, want)
    close(h, s)


def test_carries_of_different_shapes_depend_on_each_other() -> None:
    def fill(k: Builder) -> None:
        M, T, E = k.symbols("M", "T", "E")
        X, V = k.view("X", "in", "f32", (M, T)), k.view("V", "in", "f32", (T, E))
        Y, S = k.view("Y", "out", "f32", (M, E)), k.view("S", "out", "f32", (M,))
        k.noalias(X, V, Y, S)
        with k.for_(T, k.full((M,), 0.0), k.full((M, E), 0.0)) as loop:
            total, o = loop.carried
            x = X[:, loop.i]
            loop.yield_(total + x, o * 0.5 + (x + total)[:, None] * V[loop.i, :])
        Y[:, :] = loop.results[1] / (1.0 + loop.results[0][:, None] * loop.results[0][:, None])
        S[:] = loop.results[0]

    p = built(fill)
    x, v, y, s = f32(3, 4), f32(4, 2), np.zeros((3, 2), np.float32), np.zeros(3, np.float32)
    run_all(p, {"X": x, "V": v, "Y": y, "S": s})
    t, o = np.zeros(3, np.float32), np.zeros((3, 2), np.float32)
    for i in range(4):
        o = o * 0.5 + (x[:, i] + t)[:, None] * v[i]
        t = t + x[:, i]
    close(s, t)
    close(y, o / (1 + t * t)[:, None])


def test_a_carry_at_mirrored_places_is_two_states() -> None:
    def fill(k: Builder) -> None:
        M, T = k.symbols("M", "T")
        X, Y = k.view("X", "in", "f32", (M,)), k.view("Y", "out", "f32", (M,))
        k.noalias(X, Y)
        with k.for_(T, X[:]) as loop:
            h = loop.carried[0]
            loop.yield_(h * 2.0 - h.gather((k.value(M) - 1 - k.indices(M),)))
        Y[:] = loop.result

    p = built(fill)
    x, y = f32(5), np.zeros(5, np.float32)
    run_all(p, {"X": x, "Y": y}, {"T": 3})
    for _ in range(3):
        x = 2 * x - x[::-1]
    close(y, x)


def test_a_carry_along_a_reduced_axis_is_kept_in_memory() -> None:
    def fill(k: Builder) -> None:
        M, T = k.symbols("M", "T")
        W, Y = k.view("W", "in", "f32", (M, M)), k.view("Y", "out", "f32", (M,))
        k.noalias(W, Y)
        with k.for_(T, k.full((M,), 1.0)) as loop:
            loop.yield_(k.contract(W[:, :], loop.carried[0], [(1, 0)]))
        Y[:] = loop.result

    p = built(fill)
    assert set(p.inner.values()) == {tuple(p.ordered.values())} and len(p.ordered) == 1


def test_a_shifted_carry_is_kept_in_memory() -> None:
    def fill(k: Builder) -> None:
        M, T = k.symbols("M", "T")
        Y = k.view("Y", "out", "f32", (M,))
        i = k.indices(M)
        with k.for_(T, k.full((M,), 1.0)) as loop:
            loop.yield_(loop.carried[0].gather((i - 1,), valid=i > 0) + 1.0)
        Y[:] = loop.result

    p = built(fill)
    assert set(p.inner.values()) == {tuple(p.ordered.values())} and len(p.ordered) == 1


def test_nested_loops_over_one_extent() -> None:
    def fill(k: Builder) -> None:
        (T,) = k.symbols("T")
        X, Y = k.view("X", "in", "f32", (T, T)), k.view("Y", "out", "f32", (T,))
        k.noalias(X, Y)
        with k.for_(T, k.const(0.0, "f32")) as outer:
            with k.for_(T, outer.carried[0]) as inner:
                inner.yield_(inner.carried[0] * 0.5 + X[outer.i, inner.i])
            Y[outer.i] = inner.result
            outer.yield_(inner.result + 1.0)

    p = built(fill)
    x, y = f32(4, 4), np.zeros(4, np.float32)
    run_all(p, {"X": x, "Y": y})
    s, want = 0.0, []
    for i in range(4):
        for j in range(4):
            s = s * 0.5 + x[i, j]
        want.append(s)
        s += 1
    close(y, np.asarray(want, np.float32))


def test_a_loop_inside_a_reduction_and_a_scan_of_states() -> None:
    def fill(k: Builder) -> None:
        M, T = k.symbols("M", "T")
        X, Y, Z = k.view("X", "in", "f32", (M, T)), k.view("Y", "out", "f32", (T,)), k.view("Z", "out", "f32", ())
        k.noalias(X, Y, Z)
        with k.for_(T, k.full((M,), 0.0)) as loop:
            h = loop.carried[0] * 0.5 + X[:, loop.i]
            Y[loop.i] = h.cumsum(0).max(0)
            loop.yield_(h)
        Z.store((), loop.result.sum(0))

    p = built(fill)
    assert [v.name for v in p.abi.views if v.role == "workspace"], "a state that is scanned is kept"
    x, y, z = f32(3, 4), np.zeros(4, np.float32), np.zeros((), np.float32)
    run_all(p, {"X": x, "Y": y, "Z": z})
    h = np.zeros(3, np.float32)
    for i in range(4):
        h = h * 0.5 + x[:, i]
        close(y[i], h.cumsum().max())
    close(z, h.sum())


def leaving(how: str) -> Callable[[Builder], None]:
    def fill(k: Builder) -> None:
        M, T = k.symbols("M", "T")
        X, Y, C = k.view("X", "in", "f32", (M, T)), k.view("Y", "out", "f32", (M,)), k.view("C", "inout", "f32", (M, T))
        k.noalias(X, Y, C)
        with k.parallel(M) as m:
            with k.for_(T, k.const(0.0, "f32")) as loop:
                x = X[m, loop.i]
                if how == "break":
                    loop.break_if(x > 1.0, loop.carried[0] - 10.0)
                else:
                    loop.continue_if(x > 1.0, loop.carried[0] - 10.0)
                C[m, loop.i] = loop.carried[0]
                with k.if_(x < -0.5):
                    loop.continue_if(x < -1.0)
                    C[m, loop.i] = 7.0
                loop.yield_(loop.carried[0] + x)
            Y[m] = loop.result

    return fill


@pytest.mark.parametrize("how", ["break", "continue"])
def test_leaving_a_loop(how: str) -> None:
    p = built(leaving(how))
    x, y, c = f32(9, 6) * 1.2, np.zeros(9, np.float32), np.full((9, 6), 5.0, np.float32)
    run_all(p, {"X": x, "Y": y, "C": c})
    want, wc = np.zeros(9, np.float32), np.full((9, 6), 5.0, np.float32)
    for m in range(9):
        s = np.float32(0)
        for t in range(6):
            if x[m, t] > 1:
                s = s - 10
                if how == "break":
                    break
                continue
            wc[m, t] = s
            if x[m, t] < -0.5:
                if x[m, t] < -1:
                    continue
                wc[m, t] = 7
            s = s + x[m, t]
        want[m] = s
    close(y, want)
    close(c, wc)


def test_loads_after_a_break_touch_nothing() -> None:
    """The row has an end: reading past it would be out of bounds."""

    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        L, X, Y = k.view("L", "in", "i32", (1,)), k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (1,))
        k.noalias(L, X, Y)
        n = L[0]
        with k.for_(100, k.const(0.0, "f32")) as loop:
            loop.break_if(loop.i.cast("i32") >= n, loop.carried[0])
            loop.yield_(loop.carried[0] + X[loop.i])
        Y[0] = loop.result

    p = built(fill)
    x, y = f32(5), np.zeros(1, np.float32)
    run_all(p, {"L": np.asarray([5], np.int32), "X": x, "Y": y})
    close(y, x.sum(keepdims=True))


def test_while_runs_as_often_as_each_element_needs() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y, Z = k.view("X", "in", "i32", (N,)), k.view("Y", "out", "i32", (N,)), k.view("Z", "out", "i32", (N,))
        k.noalias(X, Y, Z)
        with k.parallel(N) as i:
            with k.while_(X[i], k.const(0, "i32")) as loop:
                x, n = loop.test(loop.carried[0] > 1)
                loop.break_if(n >= 9, x * 0 - 1, n)
                odd = x % 2 == 1
                loop.yield_(k.where(odd, 3 * x + 1, x // 2), n + 1)
            Y[i] = loop.results[1]
            Z[i] = loop.results[0]

    p = built(fill)
    x = np.asarray([1, 0, 2, 3, 6, 7, 27, 8], np.int32)
    y, z = np.zeros(8, np.int32), np.zeros(8, np.int32)
    run_all(p, {"X": x, "Y": y, "Z": z})
    for v, got, last in zip(x.tolist(), y, z, strict=True):
        n = 0
        while v > 1:
            if n >= 9:
                v = -1
                break
            v, n = (3 * v + 1 if v % 2 else v // 2), n + 1
        assert (got, last) == (n, v)


def test_branches_choose_values_and_guard_effects() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y, Z = k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (N,)), k.view("Z", "inout", "f32", (N,))
        k.noalias(X, Y, Z)
        with k.parallel(N) as i:
            with k.if_(i > 0) as b:
                b.yield_(X[i - 1])
            with b.otherwise():
                b.yield_(-1.0)
            Y[i] = b.results[0]
            with k.if_(X[i] > 0.0) as c:
                with k.if_(i % 2 == 0):
                    Z[i] = 1.0
                with k.if_(i % 2 == 1):
                    Z[i] = Z[i] + 2.0
            with c.otherwise():
                Z[i] = 3.0

    p = built(fill)
    x, y, z = f32(8), np.zeros(8, np.float32), np.full(8, 9.0, np.float32)
    run_all(p, {"X": x, "Y": y, "Z": z})
    close(y, np.concatenate([[-1], x[:-1]]))
    close(z, np.where(x > 0, np.where(np.arange(8) % 2 == 0, 1, 11), 3))


def test_records_through_loops_and_branches() -> None:
    def fill(k: Builder) -> None:
        M, T = k.symbols("M", "T")
        X, Y = k.view("X", "in", "f32", (M, T)), k.view("Y", "out", "f32", (M,))
        k.noalias(X, Y)
        state = k.record(total=k.full((M,), 0.0), inner=k.tuple_of(k.full((M,), 1.0), k.const(0, "i32")))
        with k.for_(T, state) as loop:
            s = loop.carried[0]
            x = X[:, loop.i]
            grown = k.record(total=s["total"] + x, inner=k.tuple_of(s["inner"][0] * 0.5, s["inner"][1] + 1))
            with k.if_(loop.i % 2 == 0) as b:
                b.yield_(grown)
            with b.otherwise():
                b.yield_(s)
            loop.yield_(b.results[0])
        r = loop.result
        Y[:] = r["total"] * r["inner"][0] + r["inner"][1].cast("f32")

    p = built(fill)
    x, y = f32(3, 5), np.zeros(3, np.float32)
    run_all(p, {"X": x, "Y": y})
    close(y, x[:, ::2].sum(1) * 0.125 + 3)


def test_a_store_that_another_iteration_may_touch_makes_its_loop_ordered() -> None:
    def shifted(k: Builder) -> None:
        (T,) = k.symbols("T")
        X = k.view("X", "inout", "f32", (T,))
        with k.for_(k.domain(1, T)) as loop:
            X[loop.i] = X[loop.i - 1] * 0.5

    def same(k: Builder) -> None:
        (T,) = k.symbols("T")
        X, Y = k.view("X", "in", "f32", (T,)), k.view("Y", "out", "f32", (1,))
        k.noalias(X, Y)
        with k.for_(T) as loop:
            Y[0] = X[loop.i]

    def inside_while(k: Builder) -> None:
        X = k.view("X", "inout", "i32", (1,))
        with k.while_(X[0]) as loop:
            (x,) = loop.test(loop.carried[0] > 0)
            X[0] = x
            loop.yield_(x - 1)

    assert [list(built(f).ordered) for f in (shifted, same, inside_while)] == [["@0"], ["@0"], ["@1"]]


def test_iterations_without_carries_are_instances() -> None:
    def fill(k: Builder) -> None:
        (T,) = k.symbols("T")
        X = k.view("X", "inout", "f32", (T,))
        with k.for_(T) as loop:
            X[loop.i] = X[loop.i] * 0.5
            X[loop.i] = X[loop.i] + 1.0

    p = built(fill)
    assert [g.axes for g in p.groups] == [("i0",)]
    x = f32(5)
    want = x * 0.5 + 1
    run_all(p, {"X": x})
    close(x, want)


def test_helpers_are_inlined_before() -> None:
    from eqkir.kir.builder import helper, module
    from eqkir.kir.helpers import link

    @helper({"x": ("f32", ("N",)), "s": "f32"})
    def scaled(k: Any, x: Any, s: Any) -> Any:
        return x * s + x.sum(0)

    k = Builder("k")
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(X, Y)
    with k.parallel(M) as m:
        Y[m, :] = k.call(scaled, X[m, :], k.const(2.0, "f32"))
    p = construct(link(module(k.build(), helpers=[scaled])).kernels[0])
    x, y = f32(3, 4), np.zeros((3, 4), np.float32)
    run_all(p, {"X": x, "Y": y})
    close(y, x * 2 + x.sum(1, keepdims=True))
