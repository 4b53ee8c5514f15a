"""Rotary embeddings: workload 5."""

from __future__ import annotations

from eqkir.kir.builder import Builder, kernel


@kernel(name="rope_half_bf16")
def rope_half(k: Builder) -> None:
    """Halves rotate against each other; cosines and sines are tabled over the whole head."""
    B, S, H = k.symbols("B", "S", "H")
    D = k.symbol("D", multiple_of=2)
    X, Y = k.view("X", "in", "bf16", (B, S, H, D)), k.view("Y", "out", "bf16", (B, S, H, D))
    C, N = k.view("C", "in", "f32", (S, D)), k.view("N", "in", "f32", (S, D))
    k.noalias(X, C, N, Y)
    d = k.indices(D)
    half = D // 2
    first = d < half
    other = k.where(first, d + half, d - half)
    b, s, h = k.indices(B)[:, None, None, None], k.indices(S)[:, None, None], k.indices(H)[:, None]
    partner = X[b, s, h, other].cast("f32")
    turned = k.where(first, -partner, partner)
    c, n = C[:, :][:, None, :], N[:, :][:, None, :]
    Y[:, :, :, :] = (X[:, :, :, :].cast("f32") * c + turned * n).cast("bf16")


@kernel(name="rope_interleaved_bf16")
def rope_interleaved(k: Builder) -> None:
    """Neighbours (2p, 2p + 1) rotate; the pair is the last axis of the view."""
    B, S, H, P = k.symbols("B", "S", "H", "P")
    X, Y = k.view("X", "in", "bf16", (B, S, H, P, 2)), k.view("Y", "out", "bf16", (B, S, H, P, 2))
    C, N = k.view("C", "in", "f32", (S, P)), k.view("N", "in", "f32", (S, P))
    k.noalias(X, C, N, Y)
    a, b = X[:, :, :, :, 0].cast("f32"), X[:, :, :, :, 1].cast("f32")
    c, n = C[:, :][:, None, :], N[:, :][:, None, :]
    Y[:, :, :, :, :] = (a * c - b * n).join(a * n + b * c).cast("bf16")


KERNELS = [rope_half, rope_interleaved]
