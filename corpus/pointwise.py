"""Pointwise kernels: workloads 1 to 4 and 6."""

from __future__ import annotations

import math

from eqkir.kir.builder import Builder, ViewRef, kernel
from eqkir.kir.values import Value


def matrices(k: Builder, dtype: str, *names: str, out: str = "Y") -> tuple[ViewRef, ...]:
    """Views of shape [M, N]: the inputs, then the output; pairwise disjoint."""
    M, N = k.symbols("M", "N")
    views = tuple(k.view(n, "out" if n == out else "in", dtype, (M, N)) for n in (*names, out))
    k.noalias(*views)
    return views


def gelu_erf(x: Value) -> Value:
    """x * (1 + erf(x / sqrt 2)) / 2."""
    return 0.5 * x * (1.0 + (x * math.sqrt(0.5)).erf())


def gelu_tanh(x: Value) -> Value:
    """x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2."""
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1.0 + inner.tanh())


@kernel(name="relu_f32")
def relu(k: Builder) -> None:
    X, Y = matrices(k, "f32", "X")
    Y[:, :] = X[:, :].maximum(0.0)


@kernel(name="swish_f32")
def swish(k: Builder) -> None:
    X, Y = matrices(k, "f32", "X")
    x = X[:, :]
    Y[:, :] = x * x.sigmoid()


@kernel(name="gelu_tanh_f32")
def gelu_tanh_f32(k: Builder) -> None:
    X, Y = matrices(k, "f32", "X")
    Y[:, :] = gelu_tanh(X[:, :])


@kernel(name="gelu_erf_f32")
def gelu_erf_f32(k: Builder) -> None:
    X, Y = matrices(k, "f32", "X")
    Y[:, :] = gelu_erf(X[:, :])


@kernel(name="bias_gelu_residual_bf16")
def bias_gelu_residual(k: Builder) -> None:
    M, N = k.symbols("M", "N")
    X, R, Y = k.view("X", "in", "bf16", (M, N)), k.view("R", "in", "bf16", (M, N)), k.view("Y", "out", "bf16", (M, N))
    B = k.view("B", "in", "bf16", (N,))
    k.noalias(X, B, R, Y)
    x = X[:, :].cast("f32") + B[:].cast("f32")
    Y[:, :] = (gelu_tanh(x) + R[:, :].cast("f32")).cast("bf16")


@kernel(name="swiglu_bf16")
def swiglu(k: Builder) -> None:
    A, B, Y = matrices(k, "bf16", "A", "B")
    a = A[:, :].cast("f32")
    Y[:, :] = (a * a.sigmoid() * B[:, :].cast("f32")).cast("bf16")


@kernel(name="geglu_bf16")
def geglu(k: Builder) -> None:
    A, B, Y = matrices(k, "bf16", "A", "B")
    Y[:, :] = (gelu_tanh(A[:, :].cast("f32")) * B[:, :].cast("f32")).cast("bf16")


@kernel(name="transpose_add_f32")
def transpose_add(k: Builder) -> None:
    M, N = k.symbols("M", "N")
    A, B, Y = k.view("A", "in", "f32", (M, N)), k.view("B", "in", "f32", (N, M)), k.view("Y", "out", "f32", (M, N))
    k.noalias(A, B, Y)
    Y[:, :] = A[:, :] + B[:, :].T
