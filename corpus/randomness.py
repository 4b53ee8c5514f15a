"""Counter-based random numbers: workloads 43 and 44."""

from __future__ import annotations

from eqkir.kir.builder import Builder, Value, kernel


def kept(k: Builder, seed: Value, counter: Value, p: Value) -> Value:
    """Whether an element survives dropout with probability 1 - p."""
    return k.random_uniform(seed, counter.cast("u64")) >= p


@kernel(name="dropout_bf16")
def dropout(k: Builder) -> None:
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", "bf16", (N,)), k.view("Y", "out", "bf16", (N,))
    seed, p = k.scalar("seed", "u64"), k.scalar("p", "f32")
    k.noalias(X, Y)
    Y[:] = k.where(kept(k, seed, k.indices(N), p), X[:].cast("f32") / (1.0 - p), 0.0).cast("bf16")


@kernel(name="dropout_add_rms_norm_bf16")
def dropout_add_rms_norm(k: Builder) -> None:
    """The residual plus the dropped-out input, in place, and its RMS norm."""
    M, N = k.symbols("M", "N")
    X, R = k.view("X", "in", "bf16", (M, N)), k.view("R", "inout", "bf16", (M, N))
    W, Y = k.view("W", "in", "bf16", (N,)), k.view("Y", "out", "bf16", (M, N))
    seed, p, eps = k.scalar("seed", "u64"), k.scalar("p", "f32"), k.scalar("eps", "f32")
    k.noalias(X, R, W, Y)
    counter = k.indices(M)[:, None] * N + k.indices(N)
    x = k.where(kept(k, seed, counter, p), X[:, :].cast("f32") / (1.0 - p), 0.0)
    r = (x + R[:, :].cast("f32")).cast("bf16")
    R[:, :] = r
    y = r.cast("f32")
    scale = ((y * y).sum(axis=1, keepdims=True) / N + eps).rsqrt()
    Y[:, :] = (y * scale * W[:].cast("f32")).cast("bf16")


@kernel(name="monte_carlo_pi_partials")
def monte_carlo_pi(k: Builder) -> None:
    """Of `draws` points a part, those inside the unit circle."""
    (P,) = k.symbols("P")
    Y = k.view("Y", "out", "i64", (P,))
    seed, draws = k.scalar("seed", "u64"), k.scalar("draws", "i32")
    point = k.indices(P)[:, None] * draws.cast("index") + k.indices(k.domain(draws))
    x, y = k.random_uniform(seed, (point * 2).cast("u64")), k.random_uniform(seed, (point * 2 + 1).cast("u64"))
    Y[:] = (x * x + y * y <= 1.0).cast("i64").sum(axis=1)


@kernel(name="random_words_u32")
def random_words(k: Builder) -> None:
    """The bits themselves."""
    M, N = k.symbols("M", "N")
    Y = k.view("Y", "out", "u32", (M, N))
    seed = k.scalar("seed", "u64")
    Y[:, :] = k.random_bits(seed, (k.indices(M)[:, None] * N + k.indices(N)).cast("u64"))


KERNELS = [dropout, dropout_add_rms_norm, monte_carlo_pi, random_words]
