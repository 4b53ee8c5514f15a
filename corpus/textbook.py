"""Attention as textbooks write it, with no fold and no guard: softmax of a matrix of scores, times the values."""

from __future__ import annotations

from eqkir.kir.builder import Builder, Value, kernel


def attended(scores: Value, v: Value, batch: int) -> Value:
    """softmax(scores) @ v along the last axis of scores [heads, queries, keys] (or without heads: `batch` leading axes of both)."""
    e = (scores - scores.max(axis=-1, keepdims=True)).exp()
    p = (e / e.sum(axis=-1, keepdims=True)).cast(v.dtype)
    return scores.k.contract(p, v, [(batch + 1, batch)], [(i, i) for i in range(batch)])


@kernel(name="key_norm_attention_f32")
def key_norm_attention(k: Builder) -> None:
    """One head, whose keys are first divided by the root of their mean square."""
    S, T, D = k.symbols("S", "T", "D")
    Q, O = k.view("Q", "in", "f32", (S, D)), k.view("O", "out", "f32", (S, D))
    K, V = k.view("K", "in", "f32", (T, D)), k.view("V", "in", "f32", (T, D))
    scale = k.scalar("scale", "f32")
    k.noalias(Q, K, V, O)
    x = K[:, :]
    unit = x * ((x * x).sum(axis=1, keepdims=True) / D + 1e-6).rsqrt()
    O[:, :] = attended(k.contract(Q[:, :], unit, [(1, 1)]) * scale, V[:, :], 0)


@kernel(name="alibi_attention_bf16")
def alibi_attention(k: Builder) -> None:
    """Scores fall with the distance (Press et al. 2022); later keys get a large negative score."""
    H, S, T, D = k.symbols("H", "S", "T", "D")
    Q, O = k.view("Q", "in", "bf16", (H, S, D)), k.view("O", "out", "bf16", (H, S, D))
    K, V = k.view("K", "in", "bf16", (H, T, D)), k.view("V", "in", "bf16", (H, T, D))
    slope, scale = k.view("slope", "in", "f32", (H,)), k.scalar("scale", "f32")
    k.noalias(Q, K, V, slope, O)
    s, t = k.indices(S)[:, None], k.indices(T)
    later = t > s
    distance = k.where(later, t - s, s - t).cast("f32")
    scores = k.contract(Q[:, :, :], K[:, :, :], [(2, 2)], [(0, 0)]) * scale - slope[:][:, None, None] * distance
    O[:, :, :] = attended(k.where(~later, scores, -1.0e9), V[:, :, :], 1).cast("bf16")


KERNELS = [key_norm_attention, alibi_attention]
