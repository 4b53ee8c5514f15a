"""Factorisations of many small matrices, one an instance: workload 50."""

from __future__ import annotations

from eqkir.kir.builder import Builder, kernel


@kernel(name="cholesky_f32")
def cholesky(k: Builder) -> None:
    """A = L Lᵀ, column after column; only the lower triangle of A is read."""
    B, N = k.symbols("B", "N")
    A, Y = k.view("A", "in", "f32", (B, N, N)), k.view("Y", "out", "f32", (B, N, N))
    k.noalias(A, Y)
    rows = k.domain(N)
    with k.parallel(B) as b:
        low = k.buffer("f32", (N, N), 0.0)
        with k.for_(rows) as loop:
            j = loop.i
            before, after = rows[0:j], rows[j + 1 : N]
            row = low[j, before]
            pivot = (A[b, j, j] - (row * row).sum(axis=0)).sqrt()
            low[j, j] = pivot
            low[after, j] = (A[b, after, j] - k.contract(low[after, before], row, [(1, 0)])) / pivot
        Y[b, :, :] = low[:, :]


@kernel(name="triangular_solve_f32")
def triangular_solve(k: Builder) -> None:
    """L Y = X by forward substitution, for all right-hand sides at once."""
    B, N, R = k.symbols("B", "N", "R")
    L, X, Y = k.view("L", "in", "f32", (B, N, N)), k.view("X", "in", "f32", (B, N, R)), k.view("Y", "out", "f32", (B, N, R))
    k.noalias(L, X, Y)
    rows = k.domain(N)
    with k.parallel(B) as b:
        y = k.buffer("f32", (N, R))
        with k.for_(rows) as loop:
            i = loop.i
            before = rows[0:i]
            known = k.contract(L[b, i, before], y[before, :], [(0, 0)])
            y[i, :] = (X[b, i, :] - known) / L[b, i, i]
        Y[b, :, :] = y[:, :]


@kernel(name="householder_qr_f32")
def householder_qr(k: Builder) -> None:
    """A = Q R: R in place of A, column after column; V holds the reflectors, tau their factors."""
    B, N = k.symbols("B", "N")
    A, V, tau = k.view("A", "inout", "f32", (B, N, N)), k.view("V", "out", "f32", (B, N, N)), k.view("tau", "out", "f32", (B, N))
    k.noalias(A, V, tau)
    rows = k.domain(N)
    with k.parallel(B) as b:
        r = k.buffer("f32", (N, N), A[b, :, :])
        with k.for_(rows) as loop:
            j = loop.i
            rest = rows[j:N]
            x = r[rest, j]
            norm = (x * x).sum(axis=0).sqrt()
            head = r[j, j]
            alpha = k.where(head > 0.0, -norm, norm)
            v = k.where(k.indices(rest) == j, x - alpha, x)
            square = (v * v).sum(axis=0)
            factor = k.where(square == 0.0, 0.0, 2.0 / k.where(square == 0.0, 1.0, square))
            along = k.contract(v, r[rest, rest], [(0, 0)])
            r[rest, rest] = r[rest, rest] - v[:, None] * along * factor
            V[b, :, j] = k.full((N,), 0.0, "f32")
            V[b, rest, j] = v
            tau[b, j] = factor
        A[b, :, :] = r[:, :]


KERNELS = [cholesky, triangular_solve, householder_qr]
