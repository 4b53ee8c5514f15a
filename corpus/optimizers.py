"""Optimizer steps, in place: workload 45."""

from __future__ import annotations

from eqkir.kir.builder import Builder, kernel


@kernel(name="adamw_f32")
def adamw(k: Builder) -> None:
    """Decoupled weight decay; `c1` and `c2` are 1 - beta1^t and 1 - beta2^t."""
    (N,) = k.symbols("N")
    W, M, V = (k.view(n, "inout", "f32", (N,)) for n in ("W", "M", "V"))
    G = k.view("G", "in", "f32", (N,))
    rate, beta1, beta2, eps, decay, c1, c2 = (k.scalar(n, "f32") for n in ("rate", "beta1", "beta2", "eps", "decay", "c1", "c2"))
    k.noalias(W, M, V, G)
    g = G[:]
    m = beta1 * M[:] + (1.0 - beta1) * g
    v = beta2 * V[:] + (1.0 - beta2) * (g * g)
    w = W[:] * (1.0 - rate * decay)
    M[:], V[:] = m, v
    W[:] = w - rate * ((m / c1) / ((v / c2).sqrt() + eps))


@kernel(name="sgd_momentum_f32")
def sgd_momentum(k: Builder) -> None:
    """The momentum's view may alias nothing; Nesterov by a constexpr."""
    (N,) = k.symbols("N")
    W, M, G = k.view("W", "inout", "f32", (N,)), k.view("M", "inout", "f32", (N,)), k.view("G", "in", "f32", (N,))
    rate, momentum, decay = (k.scalar(n, "f32") for n in ("rate", "momentum", "decay"))
    nesterov = k.constexpr("nesterov", False)
    k.noalias(W, M, G)
    w = W[:]
    g = G[:] + decay * w
    m = momentum * M[:] + g
    M[:] = m
    W[:] = w - rate * k.where(nesterov, g + momentum * m, m)


KERNELS = [adamw, sgd_momentum]
