"""Losses: workload 15."""

from __future__ import annotations

from eqkir.kir.builder import Builder, Value, kernel


def log_sum_exp(x: Value) -> Value:
    """Over axis 1, kept."""
    m = x.max(axis=1, keepdims=True)
    return m + (x - m).exp().sum(axis=1, keepdims=True).log()


@kernel(name="logsumexp_bf16")
def logsumexp(k: Builder) -> None:
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "bf16", (M, N)), k.view("Y", "out", "f32", (M,))
    k.noalias(X, Y)
    Y[:] = log_sum_exp(X[:, :].cast("f32")).reshape(M)


@kernel(name="cross_entropy_bf16")
def cross_entropy(k: Builder) -> None:
    """-log softmax at the label; a label outside 0 .. N - 1 is ignored and gives 0."""
    M, N = k.symbols("M", "N")
    X, T, Y = k.view("X", "in", "bf16", (M, N)), k.view("T", "in", "i64", (M,)), k.view("Y", "out", "f32", (M,))
    k.noalias(X, T, Y)
    label = T[:].cast("index")
    counted = (label >= 0) & (label < N)
    picked = X.load((k.indices(M), label), valid=counted).cast("f32")
    Y[:] = k.where(counted, log_sum_exp(X[:, :].cast("f32")).reshape(M) - picked, 0.0)


@kernel(name="kl_div_bf16")
def kl_div(k: Builder) -> None:
    """Σ t (log t - x) over a row, x log-probabilities; a zero target counts nothing."""
    M, N = k.symbols("M", "N")
    X, T, Y = k.view("X", "in", "bf16", (M, N)), k.view("T", "in", "bf16", (M, N)), k.view("Y", "out", "f32", (M,))
    k.noalias(X, T, Y)
    t = T[:, :].cast("f32")
    positive = t > 0.0
    safe = k.where(positive, t, 1.0)
    Y[:] = k.where(positive, t * (safe.log() - X[:, :].cast("f32")), 0.0).sum(axis=1)


@kernel(name="mse_partials_bf16")
def mse_partials(k: Builder) -> None:
    """Sum of squared differences of each part."""
    P, R = k.symbols("P", "R")
    X, T, Y = k.view("X", "in", "bf16", (P, R)), k.view("T", "in", "bf16", (P, R)), k.view("Y", "out", "f32", (P,))
    k.noalias(X, T, Y)
    d = X[:, :].cast("f32") - T[:, :].cast("f32")
    Y[:] = (d * d).sum(axis=1)


KERNELS = [logsumexp, cross_entropy, kl_div, mse_partials]
