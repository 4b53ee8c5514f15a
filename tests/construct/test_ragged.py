"""Data coordinates, updates that combine, and domains whose bounds are data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.kir.builder import Builder
from eqkir.program.abstract import Abstract
from tests.construct.ordered import close, f32, run_all
from tests.construct.test_control import built, refused

rng = np.random.default_rng(5)


def test_gather_reads_a_value_at_data_coordinates() -> None:
    def fill(k: Builder) -> None:
        V, N, D = k.symbols("V", "N", "D")
        I, W, Y = k.view("I", "in", "i32", (N,)), k.view("W", "in", "f32", (V, D)), k.view("Y", "out", "f32", (N, D))
        Z = k.view("Z", "out", "f32", (N,))
        k.noalias(I, W, Y, Z)
        i = I[:]
        table = W[:, :] * 2.0
        ok = (i >= 0) & (i < k.value(V, "i32"))
        Y[:, :] = table.gather((i[:, None], k.indices(D)), valid=ok[:, None], fill=-1.0)
        Z[:] = table.cumsum(0).sum(1).gather((i,), valid=ok)

    p = built(fill)
    i, w = np.asarray([0, 3, -5, 1, 99, 3], np.int32), f32(4, 3)
    y, z = np.zeros((6, 3), np.float32), np.zeros(6, np.float32)
    run_all(p, {"I": i, "W": w, "Y": y, "Z": z})
    ok = (i >= 0) & (i < 4)
    close(y, np.where(ok[:, None], 2 * w[np.where(ok, i, 0)], -1))
    close(z, np.where(ok, (2 * w).cumsum(0).sum(1)[np.where(ok, i, 0)], 0))


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("fn", ["add", "max", "min"])
def test_scatters_combine(fn: str, atomic: bool) -> None:
    def fill(k: Builder) -> None:
        V, N, D = k.symbols("V", "N", "D")
        I, X, Y = k.view("I", "in", "i32", (N,)), k.view("X", "in", "f32", (N, D)), k.view("Y", "inout", "f32", (V, D))
        k.noalias(I, X, Y)
        at = (I[:][:, None], k.indices(D))
        ok = (I[:] >= 0)[:, None]
        if atomic:
            getattr(Y, f"atomic_{fn}")(at, X[:, :], valid=ok)
        else:
            Y.scatter_reduce(fn, at, X[:, :], valid=ok)

    p = built(fill)
    assert [len(g.axes) for g in p.groups] == [2] and p.groups[0].phases[0][0].mode == fn
    i, x, y = rng.integers(-1, 4, 20).astype(np.int32), f32(20, 2), f32(4, 2)
    want = y.copy()
    f = {"add": np.add, "max": np.maximum, "min": np.minimum}[fn]
    f.at(want, i[i >= 0], x[i >= 0])
    run_all(p, {"I": i, "X": x, "Y": y})
    close(y, want)


def test_a_scatter_after_a_fill_and_before_a_read() -> None:
    def fill(k: Builder) -> None:
        V, N = k.symbols("V", "N")
        I, Y, Z = k.view("I", "in", "i32", (N,)), k.view("Y", "inout", "i32", (V,)), k.view("Z", "out", "i32", (V,))
        k.noalias(I, Y, Z)
        Y[:] = k.full((V,), 0, "i32")
        Y.scatter_reduce("add", I[:], 1)
        Z[:] = Y[:].cumsum(0)

    p = built(fill)
    assert [(len(g.axes), len(g.phases)) for g in p.groups] == [(0, 3)]
    i, y, z = rng.integers(0, 4, 20).astype(np.int32), np.full(4, 9, np.int32), np.zeros(4, np.int32)
    run_all(p, {"I": i, "Y": y, "Z": z})
    np.testing.assert_array_equal(z, np.bincount(i, minlength=4).cumsum())


def test_a_counter_counts_every_point() -> None:
    def fill(k: Builder) -> None:
        N, M = k.symbols("N", "M")
        Y = k.view("Y", "inout", "i32", (1,))
        with k.parallel(N, M):
            Y.atomic_add(0, k.const(1, "i32"))

    p = built(fill)
    y = np.asarray([5], np.int32)
    run_all(p, {"Y": y}, {"N": 3, "M": 4})
    assert y[0] == 17


def test_unique_scatter_is_a_store() -> None:
    def fill(k: Builder) -> None:
        N, D = k.symbols("N", "D")
        I, X, Y = k.view("I", "in", "i32", (N,)), k.view("X", "in", "f32", (N, D)), k.view("Y", "out", "f32", (N, D))
        k.noalias(I, X, Y)
        Y.unique_scatter((I[:][:, None], k.indices(D)), X[:, :] * 2.0)

    p = built(fill)
    i, x, y = rng.permutation(6).astype(np.int32), f32(6, 2), np.zeros((6, 2), np.float32)
    run_all(p, {"I": i, "X": x, "Y": y})
    close(y[i], 2 * x)


def test_updates_with_results_and_orders_keep_their_old_values() -> None:
    def used(k: Builder) -> None:
        C, Y = k.view("C", "inout", "i32", (1,)), k.view("Y", "out", "i32", (1,))
        k.noalias(C, Y)
        Y[0] = C.atomic_add(0, k.const(1, "i32"), order="release") + C.atomic_exchange(0, k.const(40, "i32"))

    p = built(used)
    c, y = np.array([5], np.int32), np.zeros(1, np.int32)
    run_all(p, {"C": c, "Y": y})
    assert (c[0], y[0]) == (40, 11)
    assert [x.order for g in p.groups for ph in g.phases for x in ph] == ["release", "relaxed", ""]


def test_scattered_products_are_refused() -> None:
    def product(k: Builder) -> None:
        C = k.view("C", "inout", "f32", (1,))
        C.scatter_reduce("mul", k.const(0, "index"), k.const(2.0, "f32"))

    assert refused(product) == "EQK-CON-ATOMIC"


# ------------------------------------------------------------------------------------------------ ragged members
def ragged(body: Callable[..., None]) -> Abstract:
    """Groups O[g] : O[g + 1] of the rows of X [T, D]."""

    def fill(k: Builder) -> None:
        G, T, D = k.symbols("G", "T", "D")
        H = k.symbol("H", min=1)
        O, X = k.view("O", "in", "i32", (H,)), k.view("X", "in", "f32", (T, D))
        Y, Z = k.view("Y", "out", "f32", (G, D)), k.view("Z", "inout", "f32", (T, D))
        k.noalias(O, X, Y, Z)
        rows = k.domain(T)
        with k.parallel(G) as g:
            body(k, g, rows[O[g].cast("index") : O[g + 1].cast("index")], X, Y, Z)

    return built(fill)


OFFSETS = [([0, 2, 2, 5], 5), ([1, 3, 3, 3], 4), ([0, 0], 0), ([2, 4], 7)]


def check(p: Abstract, y_of: Callable[[np.ndarray], Any], z_of: Callable[[np.ndarray], Any] | None = None) -> None:
    for seed, (offsets, t) in enumerate(OFFSETS * 3):
        o, x = np.asarray(offsets, np.int32), f32(t, 2)
        y, z = np.zeros((len(o) - 1, 2), np.float32), f32(t, 2)
        wz = z.copy()
        run_all(p, {"O": o, "X": x, "Y": y, "Z": z}, seed=seed)
        for g in range(len(o) - 1):
            part = x[o[g] : o[g + 1]]
            close(y[g], y_of(part))
            if z_of is not None:
                wz[o[g] : o[g + 1]] = z_of(part)
        close(z, wz)


def test_reductions_over_members() -> None:
    def body(k: Builder, g: Any, part: Any, X: Any, Y: Any, Z: Any) -> None:
        Y[g, :] = X[part, :].sum(0) + X[part, :].max(0).maximum(-9.0)

    check(ragged(body), lambda x: x.sum(0) + np.maximum(x.max(0, initial=-np.inf), -9))


def test_softmax_over_members_stores_to_members() -> None:
    def body(k: Builder, g: Any, part: Any, X: Any, Y: Any, Z: Any) -> None:
        x = X[part, :]
        e = (x - x.max(0, keepdims=True)).exp()
        Z[part, :] = e / e.sum(0, keepdims=True)
        Y[g, :] = k.contract(x.T, x * 2.0, [(1, 0)]).sum(1)

    soft = lambda x: np.exp(x - x.max(0, initial=-np.inf)) / np.exp(x - x.max(0, initial=-np.inf)).sum(0)  # noqa: E731
    check(ragged(body), lambda x: (x.T @ x * 2).sum(1), soft)


def test_scans_along_members() -> None:
    def body(k: Builder, g: Any, part: Any, X: Any, Y: Any, Z: Any) -> None:
        x = X[part, :]
        Z[part, :] = x.cumsum(0) + x.cumsum(0, False, True)
        Y[g, :] = x.cumsum(0).max(0).maximum(-9.0)

    both = lambda x: x.cumsum(0) + x[::-1].cumsum(0)[::-1]  # noqa: E731
    check(ragged(body), lambda x: np.maximum(x.cumsum(0).max(0, initial=-np.inf), -9), both)


def test_an_ordered_loop_over_members() -> None:
    def body(k: Builder, g: Any, part: Any, X: Any, Y: Any, Z: Any) -> None:
        with k.for_(part, k.full((X.shape[1],), 1.0)) as loop:
            h = loop.carried[0] * 0.5 + X[loop.i, :]
            loop.yield_(h)
        Y[g, :] = loop.result

    def want(x: np.ndarray) -> np.ndarray:
        h = np.ones(2, np.float32)
        for r in x:
            h = h * 0.5 + r
        return h

    check(ragged(body), want)


def test_a_fold_over_members() -> None:
    def body(k: Builder, g: Any, part: Any, X: Any, Y: Any, Z: Any) -> None:
        zero = k.full((X.shape[1],), 0.0)
        low = k.full((X.shape[1],), float("-inf"))
        merge = lambda a, b: (a[0] + b[0], a[1].maximum(b[1]))  # noqa: E731
        s, m = k.region_fold(
            part, [(X[part, :], 0)], (zero, low), lambda s, x: (x.sum(0), (x + k.indices(s).cast("f32")[:, None]).max(0)), merge
        )
        Y[g, :] = s + m.maximum(-9.0) * 0.0

    check(ragged(body), lambda x: x.sum(0))


def test_a_domain_without_a_bound_is_refused() -> None:
    def fill(k: Builder) -> None:
        (N,) = k.symbols("N")
        L, X, Y = k.view("L", "in", "i32", (1,)), k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (1,))
        k.noalias(L, X, Y)
        d = k.domain(0, L[0].cast("index"))
        Y[0] = X[d].sum(0)

    assert refused(fill) == "EQK-CON-EXTENT"
    assert EqkirError
