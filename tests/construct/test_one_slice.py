"""Folds and scans over slices that are taken in one slice, as the form in slices has no place for what they read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel
from eqkir.kir.types import infer
from eqkir.program.abstract import Abstract
from eqkir.program.construct import construct
from eqkir.program.construction import verify_construction
from eqkir.program.lower import conservative
from tests.construct.ordered import run_all

RNG = np.random.default_rng(11)
SIZES = ((4, 3, 2), (1, 1, 1), (0, 2, 3), (5, 0, 2), (7, 2, 1))


def i32(*shape: int) -> np.ndarray:
    return RNG.integers(-9, 10, shape).astype(np.int32)


def verified(kernel: Kernel) -> Abstract:
    p = construct(kernel)
    assert not verify_construction(kernel, infer(kernel), p, conservative(p))
    return p


def in_one_slice(kernel: Kernel) -> Abstract:
    """The program, which has no loop over slices."""
    p = verified(kernel)
    assert len(p.whole) == 1 and not any(a.kind in ("seg", "mem") for a in p.axes)
    return p


def add(a: Any, b: Any) -> Any:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def attention(read: str) -> Kernel:
    """A state [D, E] of outer products that every output reads along D, once, in another order, or twice."""
    k = Builder("attention")
    T, D, E = k.symbols("T", "D", "E")
    Q, K = k.view("Q", "in", "i32", (T, D)), k.view("K", "in", "i32", (T, D))
    V, O, F = k.view("V", "in", "i32", (T, E)), k.view("O", "out", "i32", (T, E)), k.view("F", "out", "i32", (D, E))
    k.noalias(Q, K, V, O, F)
    zero, one = k.full((D, E), 0, "i32"), k.full((D, E), 1, "i32")

    def emit(s: Any, q: Any, key: Any, value: Any, state: Any) -> Any:
        t, h = k.indices(s), state[0]
        scores = k.where(t <= t[:, None], (q[:, None, :] * key[None, :, :]).sum(axis=2), 0)
        inside = (scores[:, :, None] * value[None, :, :]).sum(axis=1)
        if read == "turned":
            h = h.gather((k.value(D) - 1 - k.indices(D)[:, None], k.indices(E)))
            h = h.gather((k.value(D) - 1 - k.indices(D)[:, None], k.indices(E)))
        before = (q[:, :, None] * h[None, :, :]).sum(axis=1)
        return (before + inside,)

    def summarize(s: Any, q: Any, key: Any, value: Any) -> Any:
        return ((key[:, :, None] * value[:, None, :]).sum(axis=0),)

    slices = [(Q[:, :], 0), (K[:, :], 0), (V[:, :], 0)]
    (o,), (last,) = k.region_scan(T, slices, (zero,), (one,), summarize, add, add, emit, (0,))
    O[:, :], F[:, :] = (o[:, :], last)
    return k.build()


@pytest.mark.parametrize("read", ["once", "turned"])
def test_a_state_is_read_along_a_reduced_axis(read: str) -> None:
    p = in_one_slice(attention(read))
    for seed, (t, d, e) in enumerate(SIZES):
        q, key, v, o, f = i32(t, d), i32(t, d), i32(t, e), np.full((t, e), 7, np.int32), np.full((d, e), 7, np.int32)
        run_all(p, {"Q": q, "K": key, "V": v, "O": o, "F": f}, seed=seed)
        state = np.ones((d, e), np.int32)
        for n in range(t):
            state = state + np.outer(key[n], v[n])
            np.testing.assert_array_equal(o[n], q[n] @ state)
        np.testing.assert_array_equal(f, state)


def sums() -> Kernel:
    """Column sums, and their sum, which is made of them."""
    k = Builder("k")
    M, N = k.symbols("M", "N")
    X, Y, Z = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (N,)), k.view("Z", "out", "i32", (1,))
    k.noalias(X, Y, Z)

    def both(a: Any, b: Any) -> Any:
        c = a[0] + b[0]
        return c, c.sum(axis=0)

    start = k.full((N,), 0, "i32"), k.const(0, "i32")
    y, z = k.region_fold(M, [(X[:, :], 0)], start, lambda s, x: (x.sum(axis=0), x.sum(axis=0).sum(axis=0)), both)
    Y[:] = y
    Z[:] = z
    return k.build()


def test_a_combination_reads_a_state_along_a_reduced_axis() -> None:
    p = in_one_slice(sums())
    for seed, (m, n, _) in enumerate(SIZES):
        x, y_, z_ = i32(m, n), np.full(n, 7, np.int32), np.full(1, 7, np.int32)
        run_all(p, {"X": x, "Y": y_, "Z": z_}, seed=seed)
        np.testing.assert_array_equal(y_, x.sum(0))
        assert z_[0] == x.sum()


def test_a_slice_is_stepped_through() -> None:
    """An affine recurrence: a loop over the slice composes its maps."""
    k = Builder("k")
    M, N = k.symbols("M", "N")
    A, B, Y = k.view("A", "in", "i32", (M, N)), k.view("B", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M,))
    k.noalias(A, B, Y)
    one, zero = k.full((M,), 1, "i32"), k.full((M,), 0, "i32")

    def summarize(s: Any, a: Any, b: Any) -> Any:
        with k.for_(s, k.full((M,), 1, "i32"), k.full((M,), 0, "i32")) as loop:
            p, q = loop.carried
            x, y = A[:, loop.i], B[:, loop.i]
            loop.yield_(p * x, q * x + y)
        return tuple(loop.results)

    _, y = k.region_fold(N, [(A[:, :], 1), (B[:, :], 1)], (one, zero), summarize, lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]))
    Y[:] = y
    p = in_one_slice(k.build())
    for seed, (m, n, _) in enumerate(SIZES):
        a, b, y_ = i32(m, n), i32(m, n), np.full(m, 7, np.int32)
        run_all(p, {"A": a, "B": b, "Y": y_}, seed=seed)
        want = np.zeros(m, np.int32)
        for i in range(n):
            want = want * a[:, i] + b[:, i]
        np.testing.assert_array_equal(y_, want)


def test_a_slice_is_merged_with_another_axis() -> None:
    k = Builder("k")
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (1,))
    k.noalias(X, Y)
    zero = k.const(0, "i32")
    (y,) = k.region_fold(M, [(X[:, :], 0)], (zero,), lambda s, x: (x.reshape(x.shape[0] * x.shape[1]).sum(axis=0),), add)
    Y[:] = y
    p = in_one_slice(k.build())
    for seed, (m, n, _) in enumerate(SIZES):
        x, y_ = i32(m, n), np.full(1, 7, np.int32)
        run_all(p, {"X": x, "Y": y_}, seed=seed)
        assert y_[0] == x.sum()


def test_a_slice_is_cut_into_slices() -> None:
    """The sum of a row, by a fold over the slice inside the summary of a fold."""
    k = Builder("k")
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M,))
    k.noalias(X, Y)
    zero = k.full((M,), 0, "i32")

    def summarize(s: Any, x: Any) -> Any:
        return k.region_fold(s, [(x, 1)], (k.full((M,), 0, "i32"),), lambda t, y: (y.sum(axis=1),), add)

    (y,) = k.region_fold(N, [(X[:, :], 1)], (zero,), summarize, add)
    Y[:] = y
    p = verified(k.build())
    assert len(p.whole) == 1, "the outer one: its slice is the domain that the inner one cuts"
    for seed, (m, n, _) in enumerate(SIZES):
        x, y_ = i32(m, n), np.full(m, 7, np.int32)
        run_all(p, {"X": x, "Y": y_}, seed=seed)
        np.testing.assert_array_equal(y_, x.sum(1))


def test_members_are_known_at_run_time_only() -> None:
    """Each group of rows between loaded offsets, taken in one slice; an empty group keeps the initial state."""
    k = Builder("k")
    R, G, P, D = k.symbols("R", "G", "P", "D")
    X, S, Y = k.view("X", "in", "i32", (R, D)), k.view("S", "in", "i32", (P,)), k.view("Y", "out", "i32", (G,))
    k.noalias(X, S, Y)
    rows = k.domain(R)
    with k.parallel(G) as g:
        members = rows[S[S.assume_in_bounds(g, 0)].cast("index") : S[S.assume_in_bounds(g + 1, 0)].cast("index")]

        def both(a: Any, b: Any) -> Any:
            c = a[0] + b[0]
            return c, c.sum(axis=0)

        start = k.full((D,), 0, "i32"), k.const(0, "i32")
        _, y = k.region_fold(members, [(X[members, :], 0)], start, lambda s, x: (x.sum(axis=0), x.sum(axis=0).sum(axis=0)), both)
        Y[g] = y
    p = in_one_slice(k.build())
    offsets = np.array([0, 2, 2, 5, 6], np.int32)
    x, y_ = i32(6, 3), np.full(4, 7, np.int32)
    run_all(p, {"X": x, "S": offsets, "Y": y_})
    np.testing.assert_array_equal(y_, [x[a:b].sum() for a, b in zip(offsets, offsets[1:], strict=False)])
