"""Scans along the slices of folds: each stays inside its slice, whatever the slices are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.kir.builder import Builder, Value
from eqkir.kir.model import Kernel
from eqkir.program.construct import construct
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
def test_prefixes_that_depend_on_where_a_slice_begins_are_refused(how: dict[str, bool]) -> None:
    with pytest.raises(EqkirError, match="EQK-CON-SLICE"):
        construct(running("cumsum", **how))
