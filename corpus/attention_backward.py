"""Attention backward and linear attention: workloads 34 and 35."""

from __future__ import annotations

from collections.abc import Sequence

from eqkir.kir.builder import Builder, DomainRef, Value, ViewRef, kernel

State = Sequence[Value]
BATCH = [(0, 0), (1, 1)]


def add(left: State, right: State) -> State:
    return tuple(a + b for a, b in zip(left, right, strict=True))


@kernel(name="attention_delta_bf16")
def attention_delta(k: Builder) -> None:
    """Row sums of O · dO."""
    B, H, S, D = k.symbols("B", "H", "S", "D")
    O, DO = k.view("O", "in", "bf16", (B, H, S, D)), k.view("DO", "in", "bf16", (B, H, S, D))
    Y = k.view("Y", "out", "f32", (B, H, S))
    k.noalias(O, DO, Y)
    Y[:, :, :] = (O[:, :, :, :].cast("f32") * DO[:, :, :, :].cast("f32")).sum(axis=3)


def operands(k: Builder) -> tuple[list[ViewRef], list[ViewRef], Value]:
    """(Q K V dO), (LSE Delta), scale; causal with as many queries as keys."""
    B, H, S, D = k.symbols("B", "H", "S", "D")
    wide = [k.view(n, "in", "bf16", (B, H, S, D)) for n in ("Q", "K", "V", "DO")]
    rows = [k.view(n, "in", "f32", (B, H, S)) for n in ("LSE", "delta")]
    return wide, rows, k.scalar("scale", "f32")


def gradient(q: Value, key: Value, value: Value, do: Value, lse: Value, delta: Value, seen: Value, scale: Value) -> tuple[Value, Value]:
    """(probabilities, gradient of the scaled scores), both [B, H, queries, keys]; recomputed from the log-sum-exp."""
    k = q.k
    scores = k.contract(q, key, [(3, 3)], BATCH) * scale
    p = k.where(seen, (scores - lse[..., None]).exp(), 0.0)
    dp = k.contract(do, value, [(3, 3)], BATCH)
    return p, p * (dp - delta[..., None]) * scale


@kernel(name="attention_backward_dq_bf16")
def attention_backward_dq(k: Builder) -> None:
    """A fold over keys."""
    (Q, K, V, DO), (LSE, delta), scale = operands(k)
    DQ = k.view("DQ", "out", "bf16", Q.shape)
    k.noalias(Q, K, V, DO, LSE, delta, DQ)
    B, H, S, D = Q.shape
    q, do, lse, dl, rows = Q[:, :, :, :], DO[:, :, :, :], LSE[:, :, :], delta[:, :, :], k.indices(S)

    def summarize(s: DomainRef, key: Value, value: Value) -> State:
        seen = k.indices(s) <= rows[:, None]
        _, ds = gradient(q, key, value, do, lse, dl, seen, scale)
        return (k.contract(ds.cast("bf16"), key, [(3, 2)], BATCH),)

    (dq,) = k.region_fold(S, [(K[:, :, :, :], 2), (V[:, :, :, :], 2)], (k.full((B, H, S, D), 0.0, "f32"),), summarize, add)
    DQ[:, :, :, :] = dq.cast("bf16")


@kernel(name="attention_backward_dkdv_bf16")
def attention_backward_dkdv(k: Builder) -> None:
    """A fold over queries with two outputs."""
    (Q, K, V, DO), (LSE, delta), scale = operands(k)
    DK, DV = k.view("DK", "out", "bf16", Q.shape), k.view("DV", "out", "bf16", Q.shape)
    k.noalias(Q, K, V, DO, LSE, delta, DK, DV)
    B, H, S, D = Q.shape
    key, value, columns = K[:, :, :, :], V[:, :, :, :], k.indices(S)

    def summarize(s: DomainRef, q: Value, do: Value, lse: Value, dl: Value) -> State:
        seen = columns <= k.indices(s)[:, None]
        p, ds = gradient(q, key, value, do, lse, dl, seen, scale)
        dk, dv = (k.contract(a.cast("bf16"), b, [(2, 2)], BATCH) for a, b in ((ds, q), (p, do)))
        return dk, dv

    zero = k.full((B, H, S, D), 0.0, "f32")
    slices = [(Q[:, :, :, :], 2), (DO[:, :, :, :], 2), (LSE[:, :, :], 2), (delta[:, :, :], 2)]
    dk, dv = k.region_fold(S, slices, (zero, zero), summarize, add)
    DK[:, :, :, :], DV[:, :, :, :] = dk.cast("bf16"), dv.cast("bf16")


@kernel(name="linear_attention_causal_bf16")
def linear_attention_causal(k: Builder) -> None:
    """o[t] = q[t] Σ_{u <= t} k[u]ᵀ v[u]: the sum runs as a state through slices of time. The last state is an output too."""
    B, H, S, D, E = k.symbols("B", "H", "S", "D", "E")
    Q, K = k.view("Q", "in", "bf16", (B, H, S, D)), k.view("K", "in", "bf16", (B, H, S, D))
    V, O = k.view("V", "in", "bf16", (B, H, S, E)), k.view("O", "out", "bf16", (B, H, S, E))
    F = k.view("F", "out", "f32", (B, H, D, E))
    k.noalias(Q, K, V, O, F)

    def summarize(s: DomainRef, q: Value, key: Value, value: Value) -> State:
        return (k.contract(key, value, [(2, 2)], BATCH),)

    def emit(s: DomainRef, q: Value, key: Value, value: Value, state: State) -> State:
        t = k.indices(s)
        scores = k.where(t <= t[:, None], k.contract(q, key, [(3, 3)], BATCH), 0.0)
        inside = k.contract(scores.cast("bf16"), value, [(3, 2)], BATCH)
        return (k.contract(q.cast("f32"), state[0], [(3, 2)], BATCH) + inside,)

    zero = (k.full((B, H, D, E), 0.0, "f32"),)
    slices = [(Q[:, :, :, :], 2), (K[:, :, :, :], 2), (V[:, :, :, :], 2)]
    (o,), (last,) = k.region_scan(S, slices, zero, zero, summarize, add, add, emit, out_axes=(2,))
    O[:, :, :, :], F[:, :, :, :] = o.cast("bf16"), last


KERNELS = [attention_delta, attention_backward_dq, attention_backward_dkdv, linear_attention_causal]
