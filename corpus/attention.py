"""Attention as folds over keys, forward: workloads 30 to 33."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqkir.kir.builder import Builder, DomainRef, Value, kernel
from eqkir.kir.model import Kernel

State = Sequence[Value]


def weights(scores: Value, top: Value) -> Value:
    """exp(scores - top), 0 where nothing is visible (top = -inf)."""
    k = scores.k
    return k.where(top == float("-inf"), 0.0, (scores - top).exp())


def merge(left: State, right: State) -> State:
    """Softmax states (maximum, sum, weighted sum) of two runs of keys; the last has one more axis."""
    (ma, la, oa), (mb, lb, ob) = left, right
    m = ma.maximum(mb)
    a, b = weights(ma, m), weights(mb, m)
    return m, la * a + lb * b, oa * a[..., None] + ob * b[..., None]


def empty(k: Builder, rows: Sequence[Any], width: Any) -> State:
    """The softmax state of no keys."""
    return k.full(rows, float("-inf"), "f32"), k.full(rows, 0.0, "f32"), k.full((*rows, width), 0.0, "f32")


def summary(scores: Value, v: Value, pairs: Sequence[tuple[int, int]], batch: Sequence[tuple[int, int]]) -> State:
    """The softmax state of a slice: keys along the last axis of `scores`."""
    top = scores.max(axis=-1)
    p = weights(scores, top[..., None])
    return top, p.sum(axis=-1), scores.k.contract(p.cast(v.dtype), v, pairs, batch)


def normalised(state: State) -> Value:
    """The weighted mean; 0 where nothing was visible."""
    _, total, o = state
    k = o.k
    t = total[..., None]
    return k.where(t == 0.0, 0.0, o / k.where(t == 0.0, 1.0, t))


def attention(name: str, mask: str = "none", bias: bool = False) -> Kernel:
    """Q [B, H, S, D], K and V [B, H, T, D]; masks: none, causal (the last query sees all keys), window (causal, of W keys)."""

    @kernel(name=name)
    def fwd(k: Builder) -> None:
        B, H, S, T, D = k.symbols("B", "H", "S", "T", "D")
        Q, O = k.view("Q", "in", "bf16", (B, H, S, D)), k.view("O", "out", "bf16", (B, H, S, D))
        K, V = k.view("K", "in", "bf16", (B, H, T, D)), k.view("V", "in", "bf16", (B, H, T, D))
        bias_ = [k.view("bias", "in", "f32", (H, S, T))] if bias else []
        scale = k.scalar("scale", "f32")
        window = k.scalar("window", "i32").cast("index") if mask == "window" else None
        k.noalias(Q, K, V, *bias_, O)
        q, last = Q[:, :, :, :], k.indices(S) + (T - S)

        def summarize(s: DomainRef, key: Value, value: Value, *more: Value) -> State:
            scores = k.contract(q, key, [(3, 3)], [(0, 0), (1, 1)]) * scale
            if more:
                scores = scores + more[0]
            at = k.indices(s)
            if mask != "none":
                seen = at <= last[:, None]
                if window is not None:
                    seen = seen & (at > last[:, None] - window)
                scores = k.where(seen, scores, float("-inf"))
            return summary(scores, value, [(3, 2)], [(0, 0), (1, 1)])

        slices = [(K[:, :, :, :], 2), (V[:, :, :, :], 2), *((v[:, :, :], 2) for v in bias_)]
        state = k.region_fold(T, slices, empty(k, (B, H, S), D), summarize, merge)
        O[:, :, :, :] = normalised(state).cast("bf16")

    return fwd


@kernel(name="attention_gqa_bf16")
def attention_gqa(k: Builder) -> None:
    """G query heads share one key head; causal."""
    B, H, G, S, T, D = k.symbols("B", "H", "G", "S", "T", "D")
    Q, O = k.view("Q", "in", "bf16", (B, H, G, S, D)), k.view("O", "out", "bf16", (B, H, G, S, D))
    K, V = k.view("K", "in", "bf16", (B, H, T, D)), k.view("V", "in", "bf16", (B, H, T, D))
    scale = k.scalar("scale", "f32")
    k.noalias(Q, K, V, O)
    q, last = Q[:, :, :, :, :], k.indices(S) + (T - S)

    def summarize(s: DomainRef, key: Value, value: Value) -> State:
        scores = k.contract(q, key, [(4, 3)], [(0, 0), (1, 1)]) * scale
        scores = k.where(k.indices(s) <= last[:, None], scores, float("-inf"))
        return summary(scores, value, [(4, 2)], [(0, 0), (1, 1)])

    state = k.region_fold(T, [(K[:, :, :, :], 2), (V[:, :, :, :], 2)], empty(k, (B, H, G, S), D), summarize, merge)
    O[:, :, :, :, :] = normalised(state).cast("bf16")


@kernel(name="softmax_attention_bf16")
def softmax_attention(k: Builder) -> None:
    """Without a fold: scores, softmax, weighted sum; causal."""
    B, H, S, T, D = k.symbols("B", "H", "S", "T", "D")
    Q, O = k.view("Q", "in", "bf16", (B, H, S, D)), k.view("O", "out", "bf16", (B, H, S, D))
    K, V = k.view("K", "in", "bf16", (B, H, T, D)), k.view("V", "in", "bf16", (B, H, T, D))
    scale = k.scalar("scale", "f32")
    k.noalias(Q, K, V, O)
    both = [(0, 0), (1, 1)]
    scores = k.contract(Q[:, :, :, :], K[:, :, :, :], [(3, 3)], both) * scale
    scores = k.where(k.indices(T) <= (k.indices(S) + (T - S))[:, None], scores, float("-inf"))
    top = scores.max(axis=3, keepdims=True)
    e = weights(scores, top)
    total = e.sum(axis=3, keepdims=True)
    p = k.where(total == 0.0, 0.0, e / k.where(total == 0.0, 1.0, total))
    O[:, :, :, :] = k.contract(p.cast("bf16"), V[:, :, :, :], [(3, 2)], both).cast("bf16")


# ------------------------------------------------------------------------------------------------ decoding
@kernel(name="attention_decode_paged_bf16")
def attention_decode_paged(k: Builder) -> None:
    """One query a sequence, keys in pages of 64 found through a table; each part takes `span` keys and leaves its softmax state."""
    B, H, G, D, P = k.symbols("B", "H", "G", "D", "P")
    pages, slots = k.symbols("pages", "slots")
    Q = k.view("Q", "in", "bf16", (B, H, G, D))
    K, V = k.view("K", "in", "bf16", (pages, 64, H, D)), k.view("V", "in", "bf16", (pages, 64, H, D))
    table, lengths = k.view("table", "in", "i32", (B, slots)), k.view("lengths", "in", "i32", (B,))
    O, M, L = k.view("O", "out", "f32", (B, H, G, P, D)), k.view("M", "out", "f32", (B, H, G, P)), k.view("L", "out", "f32", (B, H, G, P))
    scale, span = k.scalar("scale", "f32"), k.constexpr("span", 128)
    k.noalias(Q, K, V, table, lengths, O, M, L)
    keys = k.domain(slots * 64)
    with k.parallel(B, H, P) as (b, h, p):
        q = Q[b, h, :, :]
        length = lengths[b].cast("index")
        begin = p * span
        part = keys[begin : (begin + span).minimum(length)]

        def summarize(s: DomainRef) -> State:
            at = k.indices(s)
            page = K.assume_in_bounds(table[b, at // 64].cast("index"), 0)
            key = K[page[:, None], (at % 64)[:, None], h, k.indices(D)]
            value = V[page[:, None], (at % 64)[:, None], h, k.indices(D)]
            return summary(k.contract(q, key, [(1, 1)]) * scale, value, [(1, 0)], [])

        m, total, o = k.region_fold(part, [], empty(k, (G,), D), summarize, merge)
        M[b, h, :, p], L[b, h, :, p], O[b, h, :, p, :] = m, total, o


@kernel(name="attention_combine_bf16")
def attention_combine(k: Builder) -> None:
    """Softmax states of P parts to one output."""
    B, H, G, D, P = k.symbols("B", "H", "G", "D", "P")
    O, M, L = k.view("O", "in", "f32", (B, H, G, P, D)), k.view("M", "in", "f32", (B, H, G, P)), k.view("L", "in", "f32", (B, H, G, P))
    Y = k.view("Y", "out", "bf16", (B, H, G, D))
    k.noalias(O, M, L, Y)
    m = M[:, :, :, :]
    w = weights(m, m.max(axis=3, keepdims=True))
    total = (L[:, :, :, :] * w).sum(axis=3)
    o = (O[:, :, :, :, :] * w[..., None]).sum(axis=3)
    Y[:, :, :, :] = normalised((total, total, o)).cast("bf16")


@kernel(name="varlen_attention_bf16")
def varlen_attention(k: Builder) -> None:
    """Sequences packed along T, each attending to itself, causal; `offsets` holds their bounds."""
    T, H, D = k.symbols("T", "H", "D")
    E = k.symbol("E", min=1)
    Q, K, V, O = (k.view(n, r, "bf16", (T, H, D)) for n, r in (("Q", "in"), ("K", "in"), ("V", "in"), ("O", "out")))
    offsets, scale = k.view("offsets", "in", "i32", (E,)), k.scalar("scale", "f32")
    k.noalias(Q, K, V, offsets, O)
    tokens = k.domain(T)
    with k.parallel(E - 1, H) as (g, h):
        members = k.members(tokens, offsets, g)
        q, at = Q[members, h, :], k.indices(members)

        def summarize(s: DomainRef) -> State:
            scores = k.contract(q, K[s, h, :], [(1, 1)]) * scale
            scores = k.where(k.indices(s) <= at[:, None], scores, float("-inf"))
            return summary(scores, V[s, h, :], [(1, 0)], [])

        state = k.region_fold(members, [], empty(k, (members,), D), summarize, merge)
        O[members, h, :] = normalised(state).cast("bf16")


@kernel(name="mla_decode_bf16")
def mla_decode(k: Builder) -> None:
    """Scores from a compressed cache and a rotary part; the compressed cache is the value too."""
    B, H, T, C, R = k.symbols("B", "H", "T", "C", "R")
    QC, QR = k.view("QC", "in", "bf16", (B, H, C)), k.view("QR", "in", "bf16", (B, H, R))
    KC, KR = k.view("KC", "in", "bf16", (B, T, C)), k.view("KR", "in", "bf16", (B, T, R))
    lengths, O = k.view("lengths", "in", "i32", (B,)), k.view("O", "out", "bf16", (B, H, C))
    scale = k.scalar("scale", "f32")
    k.noalias(QC, QR, KC, KR, lengths, O)
    qc, qr, length = QC[:, :, :], QR[:, :, :], lengths[:].cast("index")

    def summarize(s: DomainRef, c: Value, r: Value) -> State:
        scores = (k.contract(qc, c, [(2, 2)], [(0, 0)]) + k.contract(qr, r, [(2, 2)], [(0, 0)])) * scale
        scores = k.where(k.indices(s) < length[:, None, None], scores, float("-inf"))
        return summary(scores, c, [(2, 1)], [(0, 0)])

    state = k.region_fold(T, [(KC[:, :, :], 1), (KR[:, :, :], 1)], empty(k, (B, H), C), summarize, merge)
    O[:, :, :] = normalised(state).cast("bf16")


@kernel(name="keys_to_cache_bf16")
def keys_to_cache(k: Builder) -> None:
    """Keys into a cache laid out by heads, with the largest magnitude of each for a later scale."""
    T, H, D = k.symbols("T", "H", "D")
    K, C = k.view("K", "in", "bf16", (T, H, D)), k.view("C", "out", "bf16", (H, T, D))
    A = k.view("A", "out", "f32", (H, T))
    k.noalias(K, C, A)
    x = K[:, :, :].cast("f32").transpose(1, 0, 2)
    A[:, :] = x.abs().max(axis=2)
    C[:, :, :] = x.cast("bf16")


KERNELS = [
    attention("attention_fwd_bf16"), attention("attention_causal_bf16", "causal"), attention("attention_window_bf16", "window"),
    attention("attention_bias_bf16", bias=True), attention_gqa, softmax_attention, attention_decode_paged, attention_combine,
    varlen_attention, mla_decode, keys_to_cache,
]  # fmt: skip
