"""Scans in every position: along a store, backwards, exclusive, under another index map, of a scan, inside a reduction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqkir.kir.builder import Builder
from eqkir.program.abstract import Abstract
from eqkir.program.construct import construct
from tests.construct.ordered import close, f32, run_all

SIZES = [(3, 5), (1, 1), (4, 4), (2, 0), (0, 3), (5, 1)]


def two_views(body: Callable[[Builder, Any, Any, Any], Any], out: str = "MN") -> Abstract:
    k = Builder("k")
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", tuple({"M": M, "N": N}[c] for c in out))
    k.noalias(X, Y)
    Y[(slice(None),) * len(out)] = body(k, X[:, :], M, N)
    return construct(k.build())


def check(body: Callable[..., Any], want: Callable[[np.ndarray], np.ndarray], out: str = "MN", sizes: Any = SIZES) -> Abstract:
    p = two_views(body, out)
    for seed, (m, n) in enumerate(sizes):
        x = f32(m, n)
        y = np.zeros(tuple({"M": m, "N": n}[c] for c in out), np.float32)
        run_all(p, {"X": x, "Y": y}, seed=seed)
        close(y, want(x))
    return p


def np_scan(x: np.ndarray, axis: int, exclusive: bool, reverse: bool, fn: Any = np.cumsum) -> np.ndarray:
    x = np.flip(x, axis) if reverse else x
    y = fn(x, axis=axis) if fn is np.cumsum else fn.accumulate(x, axis=axis)
    if exclusive:
        y = np.roll(y, 1, axis)
        index: list[Any] = [slice(None)] * x.ndim
        index[axis] = slice(0, 1)
        y[tuple(index)] = 0 if fn is np.cumsum else -np.inf
    return np.flip(y, axis) if reverse else y


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_built_in_scans(axis: int, exclusive: bool, reverse: bool) -> None:
    p = check(lambda k, x, M, N: x.cumsum(axis, exclusive, reverse), lambda x: np_scan(x, axis, exclusive, reverse))
    assert not [v for v in p.abi.views if v.role == "workspace"], "a store is traversed as its scan runs"
    check(lambda k, x, M, N: x.cummax(axis, exclusive, reverse), lambda x: np_scan(x, axis, exclusive, reverse, np.maximum))


def affine(first: Any, then: Any) -> Any:
    (a, b), (c, d) = first, then
    return c * a, c * b + d


def np_affine(x: np.ndarray) -> np.ndarray:
    y, h = np.zeros_like(x), np.zeros(x.shape[0], np.float32)
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t]) * h + x[:, t]
        y[:, t] = h
    return y


def test_a_generic_scan_keeps_its_order() -> None:
    check(lambda k, x, M, N: k.scan((x.tanh(), x), 1, affine)[1], np_affine)
    check(lambda k, x, M, N: k.scan((x.tanh(), x), 1, affine, (1.0, 0.0))[1], np_affine)
    check(lambda k, x, M, N: k.scan((x.tanh(), x), 1, affine, (1.0, 0.0), reverse=True)[1], lambda x: np_affine(x[:, ::-1])[:, ::-1])
    shifted = lambda x: np.concatenate([np.zeros_like(x[:, :1]), np_affine(x)[:, :-1]], 1)  # noqa: E731
    check(lambda k, x, M, N: k.scan((x.tanh(), x), 1, affine, (1.0, 0.0), exclusive=True)[1], shifted)


def test_scans_in_both_directions() -> None:
    check(lambda k, x, M, N: x.cumsum(1) + x.cumsum(1, False, True), lambda x: np_scan(x, 1, False, False) + np_scan(x, 1, False, True))


def test_a_scan_of_a_scan() -> None:
    check(lambda k, x, M, N: x.cumsum(0).cumsum(1), lambda x: x.cumsum(0).cumsum(1))
    check(lambda k, x, M, N: (x.cumsum(1).cumsum(1) * 0.5).cumsum(0), lambda x: (x.cumsum(1).cumsum(1) * 0.5).cumsum(0))


def test_a_scan_under_another_index_map() -> None:
    check(lambda k, x, M, N: x.cumsum(1).T, lambda x: x.cumsum(1).T, "NM")
    check(lambda k, x, M, N: x.cumsum(1).T.reshape(M, N), lambda x: x.cumsum(1).T.reshape(x.shape))
    check(lambda k, x, M, N: x.reshape(M * N).cumsum(0).reshape(M, N), lambda x: x.reshape(-1).cumsum().reshape(x.shape))
    turned = lambda k, x, M, N: x.cumsum(1).gather((k.indices(M)[:, None], k.value(N) - 1 - k.indices(N)))  # noqa: E731
    check(turned, lambda x: x.cumsum(1)[:, ::-1])


def test_reductions_of_scans() -> None:
    check(lambda k, x, M, N: x.cumsum(1).max(1), lambda x: x.cumsum(1).max(1, initial=-np.inf), "M")
    check(lambda k, x, M, N: x.cumsum(1).sum(0), lambda x: x.cumsum(1).sum(0), "N")
    check(lambda k, x, M, N: x.cumsum(1, False, True).sum(1), lambda x: np_scan(x, 1, False, True).sum(1), "M")
    check(lambda k, x, M, N: k.contract(x.cumsum(1), x, [(1, 1)]), lambda x: x.cumsum(1) @ x.T, "MM")
    check(lambda k, x, M, N: x.sum(0).cumsum(0), lambda x: x.sum(0).cumsum(), "N")


def test_a_scan_and_what_it_scans_share_a_store() -> None:
    p = check(lambda k, x, M, N: x - x.cumsum(1) / (1.0 + x.sum(1, keepdims=True)), lambda x: x - x.cumsum(1) / (1 + x.sum(1)[:, None]))
    assert [g.axes for g in p.groups] == [("i0",)]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("fn", ["argmax", "argmin"])
def test_arg_reductions(axis: int, fn: str) -> None:
    p = two_views(lambda k, x, M, N: k.arg_reduce(fn, x.floor(), axis)[1].cast("f32"), "NM"[axis])
    for m, n in ((3, 5), (1, 1), (4, 4)):
        x, y = f32(m, n), np.zeros((n, m)[axis], np.float32)
        x[1:2, 1:2] = np.nan
        run_all(p, {"X": x, "Y": y})
        close(y, getattr(np, fn)(np.floor(x), axis))


def test_the_arg_reduction_of_nothing() -> None:
    p = two_views(lambda k, x, M, N: k.arg_reduce("argmax", x, 1, "i32")[1].cast("f32"), "M")
    y = np.zeros(2, np.float32)
    run_all(p, {"X": f32(2, 0), "Y": y})
    assert (y == np.float32(2**31 - 1)).all()


def test_histogram_counts_what_is_valid() -> None:
    k = Builder("k")
    M, N, B = k.symbols("M", "N", "B")
    X, V, Y = k.view("X", "in", "i32", (M, N)), k.view("V", "in", "bool", (N,)), k.view("Y", "out", "i8", (B,))
    k.noalias(X, V, Y)
    Y[:] = k.histogram(X[:, :], B, V[:], "i8")
    p = construct(k.build())
    rng = np.random.default_rng(1)
    for m, n, b in ((3, 200, 4), (0, 3, 2), (2, 0, 3), (1, 5, 0)):
        x, valid, y = rng.integers(0, max(b, 1), (m, n), np.int32), rng.random(n) < 0.8, np.zeros(b, np.int8)
        x[:, ~valid] = 1000
        run_all(p, {"X": x, "V": valid, "Y": y}, {"B": b})
        want = np.bincount(x[:, valid].reshape(-1), minlength=b)[:b] if b else np.zeros(0)
        np.testing.assert_array_equal(y, want.astype(np.int8))


def test_join() -> None:
    want = lambda x: np.stack([x, 2 * x], -1).reshape(len(x), 2, x.shape[1]).sum(1)  # noqa: E731
    check(lambda k, x, M, N: x.join(x * 2.0).reshape(M, N * 2).reshape(M, 2, N).sum(1), want, "MN")
