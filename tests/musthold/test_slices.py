"""Scans along the slices of folds: each stays inside its slice, whatever the slices are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from eqkir.kir.builder import Builder, Value
from eqkir.kir.model import Kernel
from eqkir.program.construct import construct
from tests.construct.test_one_slice import attention
from tests.musthold.four_ways import agree, dense

RNG = np.random.default_rng(3)


def running(scan: str, **how: Any) -> Kernel:
    """Row-wise prefixes of X [M, N] as a region scan whose emit scans its slice."""
    k = Builder("running")
    M, N = k.symbols("M", "N")
    X, Y, F = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N)), k.view("F", "out", "i32", (M,))
    k.noalias(X, Y, F)
    least = -(2**31) if scan == "cummax" else 0
    start = k.full((M,), least, "i32")

    def total(s: Any, x: Value) -> Value:
        return x.max(axis=1) if scan == "cummax" else x.sum(axis=1)

    def both(a: Sequence[Value], b: Sequence[Value]) -> Value:
        return k.maximum(a[0], b[0]) if scan == "cummax" else a[0] + b[0]

    def emit(s: Any, x: Value, before: Sequence[Value]) -> Value:
        y = getattr(x, scan)(1, **how)
        return k.maximum(y, before[0][:, None]) if scan == "cummax" else y + before[0][:, None]

    (y,), (f,) = k.region_scan(N, [(X[:, :], 1)], (start,), (start,), total, both, both, emit, out_axes=(1,))
    Y[:, :], F[:] = y, f
    return k.build()


@pytest.mark.parametrize("scan", ["cumsum", "cummax"])
def test_scans_along_slices(scan: str) -> None:
    cases = []
    for m, n in ((1, 1), (3, 7), (2, 130), (0, 5), (3, 0)):
        x = RNG.integers(-99, 99, (m, n)).astype(np.int32)
        cases.append((dense(X=x, Y=np.full((m, n), 7, np.int32), F=np.full(m, 7, np.int32)), {"M": m, "N": n}))
    agree(running(scan), cases)


@pytest.mark.parametrize("how", [{"exclusive": True}, {"reverse": True}])
def test_prefixes_that_depend_on_where_a_slice_begins_are_made_in_one_slice(how: dict[str, bool]) -> None:
    """Where a slice is cut has no place in a prefix; what a lawful kernel makes of it does not depend on that."""
    k = Builder("prefixes")
    M, N = k.symbols("M", "N")
    X, Y, F = k.view("X", "in", "i32", (M, N)), k.view("Y", "out", "i32", (M, N)), k.view("F", "out", "i32", (M,))
    k.noalias(X, Y, F)
    start = k.full((M,), 5, "i32")

    def emit(s: Any, x: Value, before: Sequence[Value]) -> Value:
        y = x.cumsum(1, **how)
        inside = y + x if "exclusive" in how else x.sum(axis=1)[:, None] - y + x
        return inside + before[0][:, None]

    def both(a: Sequence[Value], b: Sequence[Value]) -> Value:
        return a[0] + b[0]

    (y,), (f,) = k.region_scan(
        N, [(X[:, :], 1)], (k.full((M,), 0, "i32"),), (start,), lambda s, x: x.sum(axis=1), both, both, emit, out_axes=(1,)
    )
    Y[:, :], F[:] = y, f
    kernel = k.build()
    assert construct(kernel).whole

    def exact(args: Any, got: Any) -> None:
        want = 5 + np.cumsum(args["X"].array(), 1)
        np.testing.assert_array_equal(got["Y"], want)
        np.testing.assert_array_equal(got["F"], want[:, -1] if want.shape[1] else np.full(want.shape[0], 5))

    cases = []
    for m, n in ((1, 1), (3, 7), (2, 40), (3, 0)):
        x = RNG.integers(-99, 99, (m, n)).astype(np.int32)
        cases.append((dense(X=x, Y=np.full((m, n), 7, np.int32), F=np.full(m, 7, np.int32)), {"M": m, "N": n}))
    agree(kernel, cases, exact)


def test_a_state_that_all_outputs_read_along_an_axis() -> None:
    """Exact linear attention, whose state is read along one of its axes, four ways."""
    cases = []
    for t, d, e in ((1, 1, 1), (5, 3, 2), (18, 2, 3), (0, 2, 2), (3, 0, 2)):
        q, key, v = (RNG.integers(-9, 9, s).astype(np.int32) for s in ((t, d), (t, d), (t, e)))
        out = dense(Q=q, K=key, V=v, O=np.full((t, e), 7, np.int32), F=np.full((d, e), 7, np.int32))
        cases.append((out, {"T": t, "D": d, "E": e}))

    def exact(args: Any, got: Any) -> None:
        q, key, v = (args[n].array() for n in "QKV")
        states = 1 + np.cumsum(key[:, :, None] * v[:, None, :], 0)
        np.testing.assert_array_equal(got["O"], (q[:, :, None] * states).sum(1))
        np.testing.assert_array_equal(got["F"], states[-1] if len(states) else np.ones(got["F"].shape))

    agree(attention("once"), cases, exact)
