"""Row normalisations: workloads 7 and 8."""

from __future__ import annotations

from corpus.pointwise import matrices
from eqkir.kir.builder import Builder, kernel
from eqkir.kir.model import Kernel


def softmax(dtype: str) -> Kernel:
    @kernel(name=f"softmax_{dtype}")
    def softmax(k: Builder) -> None:
        X, Y = matrices(k, dtype, "X")
        x = X[:, :].cast("f32") if dtype != "f32" else X[:, :]
        m = x.max(axis=1, keepdims=True)
        e = (x - m).exp()
        y = e / e.sum(axis=1, keepdims=True)
        Y[:, :] = y.cast(dtype) if dtype != "f32" else y

    return softmax


softmax_f32, softmax_bf16 = softmax("f32"), softmax("bf16")


@kernel(name="log_softmax_f32")
def log_softmax(k: Builder) -> None:
    X, Y = matrices(k, "f32", "X")
    x = X[:, :]
    shifted = x - x.max(axis=1, keepdims=True)
    Y[:, :] = shifted - shifted.exp().sum(axis=1, keepdims=True).log()


@kernel(name="log_softmax_bf16")
def log_softmax_bf16(k: Builder) -> None:
    X, Y = matrices(k, "bf16", "X")
    x = X[:, :].cast("f32")
    shifted = x - x.max(axis=1, keepdims=True)
    Y[:, :] = (shifted - shifted.exp().sum(axis=1, keepdims=True).log()).cast("bf16")


@kernel(name="layer_norm_bf16")
def layer_norm(k: Builder) -> None:
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "bf16", (M, N)), k.view("Y", "out", "bf16", (M, N))
    W, B = k.view("W", "in", "bf16", (N,)), k.view("B", "in", "bf16", (N,))
    eps = k.scalar("eps", "f32")
    k.noalias(X, W, B, Y)
    x = X[:, :].cast("f32")
    d = x - x.sum(axis=1, keepdims=True) / N
    var = (d * d).sum(axis=1, keepdims=True) / N
    Y[:, :] = (d * (var + eps).rsqrt() * W[:].cast("f32") + B[:].cast("f32")).cast("bf16")


@kernel(name="rms_norm_bf16")
def rms_norm(k: Builder) -> None:
    M, N = k.symbols("M", "N")
    X, W, Y = k.view("X", "in", "bf16", (M, N)), k.view("W", "in", "bf16", (N,)), k.view("Y", "out", "bf16", (M, N))
    eps = k.scalar("eps", "f32")
    k.noalias(X, W, Y)
    x = X[:, :].cast("f32")
    scale = ((x * x).sum(axis=1, keepdims=True) / N + eps).rsqrt()
    Y[:, :] = (x * scale * W[:].cast("f32")).cast("bf16")


@kernel(name="fused_add_rms_norm_bf16")
def fused_add_rms_norm(k: Builder) -> None:
    """The residual is updated in place, and its normalised sum is a second output."""
    M, N = k.symbols("M", "N")
    X, R = k.view("X", "in", "bf16", (M, N)), k.view("R", "inout", "bf16", (M, N))
    W, Y = k.view("W", "in", "bf16", (N,)), k.view("Y", "out", "bf16", (M, N))
    eps = k.scalar("eps", "f32")
    k.noalias(X, R, W, Y)
    r = (X[:, :].cast("f32") + R[:, :].cast("f32")).cast("bf16")
    R[:, :] = r
    x = r.cast("f32")
    scale = ((x * x).sum(axis=1, keepdims=True) / N + eps).rsqrt()
    Y[:, :] = (x * scale * W[:].cast("f32")).cast("bf16")
