"""Contractions: workloads 19 to 23."""

from __future__ import annotations

from corpus.pointwise import gelu_tanh
from eqkir.kir.builder import Builder, kernel
from eqkir.kir.model import Kernel


def gemm(name: str, layout: str, dtype: str, acc: str, out: str) -> Kernel:
    """Y[M, N] = A B; layout nn: A[M, K] B[K, N], nt: B[N, K], tn: A[K, M]."""

    @kernel(name=name)
    def gemm(k: Builder) -> None:
        M, N, K = k.symbols("M", "N", "K")
        A = k.view("A", "in", dtype, (K, M) if layout == "tn" else (M, K))
        B = k.view("B", "in", dtype, (N, K) if layout == "nt" else (K, N))
        Y = k.view("Y", "out", out, (M, N))
        k.noalias(A, B, Y)
        pair = (0 if layout == "tn" else 1, 1 if layout == "nt" else 0)
        y = k.contract(A[:, :], B[:, :], [pair], acc=acc)
        Y[:, :] = y if out == acc else y.cast(out)

    return gemm


@kernel(name="gemm_bias_gelu_bf16")
def gemm_bias_gelu(k: Builder) -> None:
    M, N, K = k.symbols("M", "N", "K")
    A, B = k.view("A", "in", "bf16", (M, K)), k.view("B", "in", "bf16", (K, N))
    bias, Y = k.view("bias", "in", "bf16", (N,)), k.view("Y", "out", "bf16", (M, N))
    k.noalias(A, B, bias, Y)
    y = k.matmul(A[:, :], B[:, :]) + bias[:].cast("f32")
    Y[:, :] = gelu_tanh(y).cast("bf16")


@kernel(name="dual_gemm_swiglu_bf16")
def dual_gemm_swiglu(k: Builder) -> None:
    M, N, K = k.symbols("M", "N", "K")
    A, Y = k.view("A", "in", "bf16", (M, K)), k.view("Y", "out", "bf16", (M, N))
    G, U = k.view("G", "in", "bf16", (K, N)), k.view("U", "in", "bf16", (K, N))
    k.noalias(A, G, U, Y)
    a = A[:, :]
    g, u = k.matmul(a, G[:, :]), k.matmul(a, U[:, :])
    Y[:, :] = (g * g.sigmoid() * u).cast("bf16")


@kernel(name="batched_gemm_bf16")
def batched_gemm(k: Builder) -> None:
    P, M, N, K = k.symbols("P", "M", "N", "K")
    A, B, Y = k.view("A", "in", "bf16", (P, M, K)), k.view("B", "in", "bf16", (P, K, N)), k.view("Y", "out", "bf16", (P, M, N))
    k.noalias(A, B, Y)
    Y[:, :, :] = k.matmul(A[:, :, :], B[:, :, :]).cast("bf16")


@kernel(name="head_gemm_bf16")
def head_gemm(k: Builder) -> None:
    """Grouped by head: Y[T, H, E] = Σ_D X[T, H, D] W[H, D, E]; the batch axis is in the middle of X and Y."""
    T, H, D, E = k.symbols("T", "H", "D", "E")
    X, W, Y = k.view("X", "in", "bf16", (T, H, D)), k.view("W", "in", "bf16", (H, D, E)), k.view("Y", "out", "bf16", (T, H, E))
    k.noalias(X, W, Y)
    y = k.contract(X[:, :, :], W[:, :, :], reduce=[(2, 1)], batch=[(1, 0)])
    Y[:, :, :] = y.transpose(1, 0, 2).cast("bf16")


@kernel(name="gemv_bf16")
def gemv(k: Builder) -> None:
    M, K = k.symbols("M", "K")
    A, x, y = k.view("A", "in", "bf16", (M, K)), k.view("X", "in", "bf16", (K,)), k.view("Y", "out", "bf16", (M,))
    k.noalias(A, x, y)
    y[:] = k.contract(A[:, :], x[:], [(1, 0)]).cast("bf16")


@kernel(name="skinny_gemm_bf16")
def skinny_gemm(k: Builder) -> None:
    """M <= 16 rows: bound by the weights' bytes."""
    M = k.symbol("M", max=16)
    N, K = k.symbols("N", "K")
    A, B, Y = k.view("A", "in", "bf16", (M, K)), k.view("B", "in", "bf16", (K, N)), k.view("Y", "out", "bf16", (M, N))
    k.noalias(A, B, Y)
    Y[:, :] = k.matmul(A[:, :], B[:, :]).cast("bf16")


KERNELS = [
    gemm("gemm_nn_bf16", "nn", "bf16", "f32", "bf16"),
    gemm("gemm_nt_bf16", "nt", "bf16", "f32", "bf16"),
    gemm("gemm_tn_bf16", "tn", "bf16", "f32", "bf16"),
    gemm("gemm_f32", "nn", "f32", "f32", "f32"),
    gemm("gemm_i8", "nn", "i8", "i32", "i32"),
    gemm("gemm_fp8", "nt", "f8e4m3fn", "f32", "bf16"),
]
