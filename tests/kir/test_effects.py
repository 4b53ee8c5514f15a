"""Conflicts between unordered points: what is provable is refused, what is sound or undecidable passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.kir import Builder, kernel


def built(body: Callable[..., None]) -> list[str]:
    """Codes of a kernel over X[M, N] in, Y[M, N] inout, Z[N] inout i32, V[N] in i32."""
    try:

        @kernel
        def f(k: Builder) -> None:
            m, n = k.symbols("M", "N")
            X, Y = k.view("X", "in", "f32", (m, n)), k.view("Y", "inout", "f32", (m, n))
            Z, V = k.view("Z", "inout", "i32", (n,)), k.view("V", "in", "i32", (n,))
            body(k, m, n, X, Y, Z, V)

    except EqkirError as e:
        return [d.code.removeprefix("EQK-KIR-") for d in e.diagnostics]
    return []


def row_sums_to_one(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    with k.parallel(m, n) as (i, j):
        Z[j] = i.cast("i32")


def sum_of_points(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    with k.parallel(n, 2) as (i, j):
        Z.store(i + j, 1, valid=None)


def twice_the_point(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    with k.parallel(k.domain(0, n, 2), 2) as (i, j):
        Z.store(i + 2 * j, 1)


def mixed_radix(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    with k.parallel(k.domain(0, n, 2), 2) as (i, j):
        Z[i + j] = 1


def neighbour_written(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    with k.parallel(n) as i:
        Z[i] = 1
        Z[i + 1] = 2


def neighbour_read(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    with k.parallel(k.domain(1, n)) as i:
        Z[i] = Z[i - 1]


def halves(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    with k.parallel(k.domain(0, n, 2)) as i:
        Z[i] = 1
        Z[i + 1] = 2


def own_element(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    with k.parallel(n) as i:
        Z[i] = Z[i] + V[i]
        Z[i] = Z[i] * 2


def data_dependent(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    with k.parallel(n) as i:
        Z[V[i]] = 1


def guarded(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    with k.parallel(m, n) as (i, j):
        Z.store(j, 1, valid=i == 0)


def whole_tensor_collapse(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    i, j = k.indices(m), k.indices(n)
    Z.store(j + (i * 0)[:, None], k.full((m, n), 1, "i32"))


def whole_tensor_sum(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    i, j = k.indices(m), k.indices(n)
    Z.store(j + i[:, None], k.full((m, n), 1, "i32"))


def whole_tensor_reversed(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    Z[n - 1 - k.indices(n)] = V[:]


def transposed_rows(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    i, j = k.indices(m), k.indices(n)
    Y[i[:, None].T, j[:, None]] = X[:, :].T


def rows_of_a_loop(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    with k.parallel(m) as i:
        Y[i, :] = X[i, :] - Y[i, :].max(axis=0)


def single_point(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    with k.parallel(1) as i:
        Z[i] = 1
        Z[0 * i] = 2


def beyond_the_end(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    Z[:] = Z[k.domain(0, n + 1)].sum(0) + V[:]


def in_bounds_by_a_mask(k, m, n, X, Y, Z, V):  # type: ignore[no-untyped-def]
    i = k.indices(k.domain(0, n + 1))
    Z[:] = Z.load(i, valid=i < n).sum(0) + V[:]


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (row_sums_to_one, ["CONFLICT"]), (sum_of_points, ["CONFLICT", "BOUNDS"]), (twice_the_point, ["CONFLICT"]), (mixed_radix, []),
        (neighbour_written, ["CONFLICT", "BOUNDS"]), (neighbour_read, ["CONFLICT"]), (halves, []), (own_element, []), (data_dependent, []),
        (guarded, []), (whole_tensor_collapse, ["CONFLICT"]), (whole_tensor_sum, ["CONFLICT"]), (whole_tensor_reversed, []),
        (transposed_rows, []), (rows_of_a_loop, []), (single_point, []), (beyond_the_end, ["BOUNDS"]), (in_bounds_by_a_mask, []),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)  # fmt: skip
def test_provable_conflicts_alone_are_refused(body: Callable[..., None], codes: list[str]) -> None:
    assert sorted(built(body)) == sorted(codes)
