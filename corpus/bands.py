"""Reductions over a part of an axis that depends on the point: triangles, windows, bands."""

from __future__ import annotations

from eqkir.kir.builder import Builder, kernel
from eqkir.kir.model import Kernel


@kernel(name="triangle_sums_f32")
def triangle_sums(k: Builder) -> None:
    """Sums of the rows of a lower triangle."""
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M,))
    k.noalias(X, Y)
    x = k.where(k.indices(N) <= k.indices(M)[:, None], X[:, :], 0.0)
    Y[:] = x.sum(axis=1)


def triangular_gemm(name: str, dtype: str, acc: str) -> Kernel:
    """The lower triangle of L [M, N] times X [N, P]."""

    @kernel(name=name)
    def trmm(k: Builder) -> None:
        M, N, P = k.symbols("M", "N", "P")
        L, X, Y = k.view("L", "in", dtype, (M, N)), k.view("X", "in", dtype, (N, P)), k.view("Y", "out", acc, (M, P))
        k.noalias(L, X, Y)
        low = k.where(k.indices(N) <= k.indices(M)[:, None], L[:, :], k.full((M, N), 0, dtype))
        Y[:, :] = k.contract(low, X[:, :], [(1, 0)], acc=acc)

    return trmm


@kernel(name="sliding_mean_f32")
def sliding_mean(k: Builder) -> None:
    """Means of the last `width` elements up to each one; fewer at the start."""
    M, N = k.symbols("M", "N")
    X, Y, width = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.scalar("width", "i32")
    k.noalias(X, Y)
    points, w = k.domain(N), width.cast("index").maximum(1)
    with k.parallel(M, N) as (m, n):
        window = points[(n + 1 - w).maximum(0) : n + 1]
        Y[m, n] = X[m, window].sum(axis=0) / k.value(window.length).cast("f32")


@kernel(name="banded_matvec_f32")
def banded_matvec(k: Builder) -> None:
    """A times X, of A the band of `below` diagonals below and `above` above the main one."""
    M, N = k.symbols("M", "N")
    A, X, Y = k.view("A", "in", "f32", (M, N)), k.view("X", "in", "f32", (N,)), k.view("Y", "out", "f32", (M,))
    below, above = k.scalar("below", "i32").cast("index"), k.scalar("above", "i32").cast("index")
    k.noalias(A, X, Y)
    columns = k.domain(N)
    with k.parallel(M) as m:
        first = (m - below).maximum(0).minimum(k.value(columns.length))
        band = columns[first : (m + above + 1).minimum(k.value(columns.length)).maximum(first)]
        Y[m] = (A[m, band] * X[band]).sum(axis=0)


KERNELS = [triangular_gemm("triangular_gemm_bf16", "bf16", "f32"), triangular_gemm("triangular_gemm_i8", "i8", "i32")]
