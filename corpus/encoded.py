"""Encoded weights and activations: workloads 24 to 27 and 46."""

from __future__ import annotations

from eqkir.kir.builder import Builder, Value, kernel

E4M3_MAX = 448.0


@kernel(name="weight_only_int4_bf16")
def weight_only_int4(k: Builder) -> None:
    """Groups of 128 weights along K, eight 4-bit codes a word, a scale and a zero point a group and column."""
    M, N, G = k.symbols("M", "N", "G")
    X, Q = k.view("X", "in", "bf16", (M, G, 128)), k.view("Q", "in", "u32", (G, 16, N))
    S, Z, Y = k.view("S", "in", "bf16", (G, N)), k.view("Z", "in", "u8", (G, N)), k.view("Y", "out", "bf16", (M, N))
    k.noalias(X, Q, S, Z, Y)
    g, c, n = k.indices(G)[:, None, None], k.indices(128)[:, None], k.indices(N)
    word = Q[g, c // 8, n]
    code = (word >> ((c % 8) * 4).cast("u32")) & 15
    w = (code.cast("i32") - Z[:, :].cast("i32")[:, None, :]).cast("f32") * S[:, :].cast("f32")[:, None, :]
    Y[:, :] = k.contract(X[:, :, :], w.cast("bf16"), [(1, 0), (2, 1)]).cast("bf16")


@kernel(name="scaled_gemm_mxfp8")
def scaled_gemm_mxfp8(k: Builder) -> None:
    """Blocks of 32 e4m3 elements with an e8m0 scale each."""
    M, N, G = k.symbols("M", "N", "G")
    A, SA = k.view("A", "in", "f8e4m3fn", (M, G, 32)), k.view("SA", "in", "u8", (M, G))
    B, SB, Y = k.view("B", "in", "f8e4m3fn", (G, 32, N)), k.view("SB", "in", "u8", (G, N)), k.view("Y", "out", "bf16", (M, N))
    k.noalias(A, SA, B, SB, Y)
    Y[:, :] = k.scaled_contract(A[:, :, :], SA[:, :], B[:, :, :], SB[:, :]).cast("bf16")


@kernel(name="scaled_gemm_nvfp4")
def scaled_gemm_nvfp4(k: Builder) -> None:
    """Blocks of 16 e2m1 elements, two a byte, with an f32 scale each."""
    M, N, G = k.symbols("M", "N", "G")
    A, SA = k.view("A", "in", "u8", (M, G, 8)), k.view("SA", "in", "f32", (M, G))
    B, SB, Y = k.view("B", "in", "u8", (G, 8, N)), k.view("SB", "in", "f32", (G, N)), k.view("Y", "out", "bf16", (M, N))
    k.noalias(A, SA, B, SB, Y)
    Y[:, :] = k.scaled_contract(A[:, :, :], SA[:, :], B[:, :, :], SB[:, :], "e2m1", "e2m1").cast("bf16")


@kernel(name="sparse_2to4_gemm_f16")
def sparse_2to4_gemm(k: Builder) -> None:
    """Two of four elements of A are present; `E` holds their places."""
    M, N, G = k.symbols("M", "N", "G")
    A, E = k.view("A", "in", "f16", (M, G, 2)), k.view("E", "in", "u8", (M, G, 2))
    B, Y = k.view("B", "in", "f16", (G, 4, N)), k.view("Y", "out", "f16", (M, N))
    k.noalias(A, E, B, Y)
    a, e, b = A[:, :, :].reshape(M, G * 2), E[:, :, :].reshape(M, G * 2), B[:, :, :].reshape(G * 4, N)
    Y[:, :] = k.sparse_contract(a, e, b).cast("f16")


@kernel(name="sparse_1to2_gemm_f32")
def sparse_1to2_gemm(k: Builder) -> None:
    M, N, G = k.symbols("M", "N", "G")
    A, E = k.view("A", "in", "f32", (M, G)), k.view("E", "in", "u8", (M, G))
    B, Y = k.view("B", "in", "f32", (G, 2, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(A, E, B, Y)
    Y[:, :] = k.sparse_contract(A[:, :], E[:, :], B[:, :, :].reshape(G * 2, N), "one_of_two")


@kernel(name="q8k_quantize")
def q8k_quantize(k: Builder) -> None:
    (R,) = k.symbols("R")
    X, Y = k.view("X", "in", "f32", (R, 256)), k.view("Y", "out", "u8", (R, 292))
    k.noalias(X, Y)
    Y[:, :] = k.quantize(X[:, :])


@kernel(name="q4k_gemv")
def q4k_gemv(k: Builder) -> None:
    N, R = k.symbols("N", "R")
    W, X, Y = k.view("W", "in", "u8", (N, R, 144)), k.view("X", "in", "u8", (R, 292)), k.view("Y", "out", "f32", (N,))
    k.noalias(W, X, Y)
    Y[:] = k.quantized_dot(W[:, :, :], X[:, :])


# ------------------------------------------------------------------------------------------------ fp8 activations
def to_fp8(x: Value, axis: int) -> tuple[Value, Value]:
    """(x / scale as e4m3, scale with the axis kept); the scale makes the largest magnitude 448, and is 1 where all is zero."""
    k = x.k
    peak = x.abs().max(axis=axis, keepdims=True).maximum(0.0)
    scale = k.where(peak == 0.0, 1.0, peak / E4M3_MAX)
    return (x / scale).maximum(-E4M3_MAX).minimum(E4M3_MAX).cast("f8e4m3fn"), scale


@kernel(name="fp8_quantize_per_token")
def fp8_quantize_per_token(k: Builder) -> None:
    M, N = k.symbols("M", "N")
    X, Y, S = k.view("X", "in", "bf16", (M, N)), k.view("Y", "out", "f8e4m3fn", (M, N)), k.view("S", "out", "f32", (M,))
    k.noalias(X, Y, S)
    y, scale = to_fp8(X[:, :].cast("f32"), 1)
    Y[:, :] = y
    S[:] = scale.reshape(M)


@kernel(name="fp8_quantize_per_group")
def fp8_quantize_per_group(k: Builder) -> None:
    """Groups of 128 along a row."""
    M, G = k.symbols("M", "G")
    X, Y = k.view("X", "in", "bf16", (M, G, 128)), k.view("Y", "out", "f8e4m3fn", (M, G, 128))
    S = k.view("S", "out", "f32", (M, G))
    k.noalias(X, Y, S)
    y, scale = to_fp8(X[:, :, :].cast("f32"), 2)
    Y[:, :, :] = y
    S[:, :] = scale.reshape(M, G)


@kernel(name="rms_norm_fp8")
def rms_norm_fp8(k: Builder) -> None:
    """RMS norm, its rows scaled to e4m3."""
    M, N = k.symbols("M", "N")
    X, W = k.view("X", "in", "bf16", (M, N)), k.view("W", "in", "bf16", (N,))
    Y, S = k.view("Y", "out", "f8e4m3fn", (M, N)), k.view("S", "out", "f32", (M,))
    eps = k.scalar("eps", "f32")
    k.noalias(X, W, Y, S)
    x = X[:, :].cast("f32")
    x = x * ((x * x).sum(axis=1, keepdims=True) / N + eps).rsqrt() * W[:].cast("f32")
    y, scale = to_fp8(x, 1)
    Y[:, :] = y
    S[:] = scale.reshape(M)


KERNELS = [
    weight_only_int4, scaled_gemm_mxfp8, scaled_gemm_nvfp4, sparse_2to4_gemm, sparse_1to2_gemm, q8k_quantize, q4k_gemv,
    fp8_quantize_per_token, fp8_quantize_per_group, rms_norm_fp8,
]  # fmt: skip
