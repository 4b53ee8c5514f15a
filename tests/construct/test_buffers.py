"""Buffers of a kernel: one for each point and step, in a workspace."""

from __future__ import annotations

import numpy as np

from eqkir.kir.builder import Builder
from tests.construct.ordered import close, f32, run_all
from tests.construct.test_control import built


def test_a_buffer_holds_what_is_read_under_other_index_maps() -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N))
        k.noalias(X, Y)
        b = k.buffer("f32", (N, M))
        b[:, :] = X[:, :].T.exp()
        Y[:, :] = b[:, :].T + b[:, :].sum(0)[:, None]

    p = built(fill)
    assert [(v.role, v.dtype) for v in p.abi.views if v.name not in "XY"] == [("workspace", "f32")]
    x, y = f32(3, 4), np.zeros((3, 4), np.float32)
    run_all(p, {"X": x, "Y": y})
    close(y, np.exp(x) + np.exp(x).sum(1, keepdims=True))


def test_each_point_has_a_buffer_of_its_own_filled_once() -> None:
    def fill(k: Builder) -> None:
        M, N = k.symbols("M", "N")
        X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, 4))
        k.noalias(X, Y)
        with k.parallel(M) as m:
            counts = k.buffer("i32", (4,), 0)
            counts.scatter_reduce("add", X[m, :], 1)
            Y[m, :] = counts[:] + counts[0]

    p = built(fill)
    assert [g.axes for g in p.groups] == [("i0",)]
    x, y = np.random.default_rng(0).integers(0, 4, (5, 9)).astype(np.int32), np.zeros((5, 4), np.int32)
    run_all(p, {"X": x, "Y": y})
    want = np.stack([np.bincount(r, minlength=4) for r in x])
    np.testing.assert_array_equal(y, want + want[:, :1])


def test_each_step_has_a_buffer_of_its_own() -> None:
    def fill(k: Builder) -> None:
        T, N = k.symbols("T", "N")
        X, Y = k.view("X", "in", "f32", (T, N)), k.view("Y", "out", "f32", (T, N))
        k.noalias(X, Y)
        with k.for_(T) as loop:
            b = k.buffer("f32", (N,))
            b[:] = X[loop.i, :] * 2.0
            Y[loop.i, :] = b.load(k.value(N) - 1 - k.indices(N))

    p = built(fill)
    x, y = f32(3, 4), np.zeros((3, 4), np.float32)
    run_all(p, {"X": x, "Y": y})
    close(y, 2 * x[:, ::-1])


def test_a_part_of_a_domain_that_grows_with_the_step() -> None:
    """The bounds of a subregion are the loop's point."""

    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        X, Y = k.view("X", "in", "f32", (N, N)), k.view("Y", "out", "f32", (N,))
        k.noalias(X, Y)
        rows = k.domain(N)
        x = X[:, :] * 2.0
        with k.for_(rows, k.const(0.0, "f32")) as loop:
            before = rows[0 : loop.i]
            s = x.gather((loop.i, k.indices(before))).sum(0) + loop.carried[0]
            Y[loop.i] = s
            loop.yield_(s * 0.5)

    p = built(fill)
    x, y = f32(5, 5), np.zeros(5, np.float32)
    run_all(p, {"X": x, "Y": y})
    s, want = 0.0, []
    for i in range(5):
        want.append(2 * x[i, :i].sum() + s)
        s = want[-1] * 0.5
    close(y, np.asarray(want, np.float32))


def test_a_buffer_that_lives_through_steps_makes_its_loop_ordered() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        Y = k.view("Y", "out", "f32", (N,))
        b = k.buffer("f32", (N,), 1.0)
        with k.for_(k.domain(1, N)) as loop:
            b[loop.i] = b[loop.i - 1] * 0.5
        Y[:] = b[:]

    p = built(fill)
    assert set(p.inner.values()) == {tuple(p.ordered.values())} and len(p.ordered) == 1
