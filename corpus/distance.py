"""Distances and nearest centers: workload 52."""

from __future__ import annotations

from eqkir.kir.builder import Builder, Value, kernel


def squares(x: Value) -> Value:
    """Squared norms of rows."""
    return (x * x).sum(axis=1)


@kernel(name="kmeans_assign_f32")
def kmeans_assign(k: Builder) -> None:
    """The nearest center of each point; the lowest wins ties."""
    M, N, K = k.symbols("M", "N", "K")
    X, C, I = k.view("X", "in", "f32", (M, K)), k.view("C", "in", "f32", (N, K)), k.view("I", "out", "i32", (M,))
    k.noalias(X, C, I)
    c = C[:, :]
    _, at = k.argmin(squares(c) - 2.0 * k.contract(X[:, :], c, [(1, 1)]), 1, "i32")
    I[:] = at


@kernel(name="pairwise_distance_f32")
def pairwise_distance(k: Builder) -> None:
    M, N, K = k.symbols("M", "N", "K")
    X, C, Y = k.view("X", "in", "f32", (M, K)), k.view("C", "in", "f32", (N, K)), k.view("Y", "out", "f32", (M, N))
    k.noalias(X, C, Y)
    x, c = X[:, :], C[:, :]
    d = squares(x)[:, None] + squares(c) - 2.0 * k.contract(x, c, [(1, 1)])
    Y[:, :] = d.maximum(0.0).sqrt()


KERNELS = [kmeans_assign, pairwise_distance]
