"""Layers of models that take several kernels."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from corpus.host.launch import Array, Launch

BF16 = ml_dtypes.bfloat16


def layer_norm_backward(launch: Launch, x: Array, dy: Array, w: Array, mean: Array, rstd: Array, parts: int) -> tuple[Array, Array, Array]:
    """(dx, dw, db) of rows [M, N]; M is a multiple of `parts`, whose sums are added in a second kernel."""
    n = x.shape[1]
    dx = np.empty_like(x)
    launch("layer_norm_backward_dx_bf16", X=x, DY=dy, W=w, mean=mean, rstd=rstd, DX=dx)
    dws, dbs = np.empty((parts, n), np.float32), np.empty((parts, n), np.float32)
    split = {"mean": mean.reshape(parts, -1), "rstd": rstd.reshape(parts, -1)}
    launch("layer_norm_backward_dwdb_bf16", X=x.reshape(parts, -1, n), DY=dy.reshape(parts, -1, n), **split, DW=dws, DB=dbs)
    dw, db = np.empty(n, np.float32), np.empty(n, np.float32)
    launch("sum_parts_f32", X=dws, Y=dw)
    launch("sum_parts_f32", X=dbs, Y=db)
    return dx, dw, db


def attention_decode(launch: Launch, q: Array, k: Array, v: Array, table: Array, lengths: Array, scale: float, parts: int) -> Array:
    """One query a sequence, q [B, H, G, D], over pages k, v [pages, 64, H, D]; `parts` times 128 keys cover every length."""
    b, h, g, d = q.shape
    o, m, total = np.empty((b, h, g, parts, d), np.float32), np.empty((b, h, g, parts), np.float32), np.empty((b, h, g, parts), np.float32)
    launch("attention_decode_paged_bf16", Q=q, K=k, V=v, table=table, lengths=lengths, scale=scale, O=o, M=m, L=total)
    y = np.empty(q.shape, BF16)
    launch("attention_combine_bf16", O=o, M=m, L=total, Y=y)
    return y


def attention_backward(
    launch: Launch, q: Array, k: Array, v: Array, o: Array, do: Array, lse: Array, scale: float
) -> tuple[Array, Array, Array]:
    """(dq, dk, dv) of causal attention, all [B, H, S, D]; lse [B, H, S] is the log-sum-exp of the scaled scores."""
    delta = np.empty(lse.shape, np.float32)
    launch("attention_delta_bf16", O=o, DO=do, Y=delta)
    shared = {"Q": q, "K": k, "V": v, "DO": do, "LSE": lse, "delta": delta, "scale": scale}
    dq, dk, dv = (np.empty_like(q) for _ in range(3))
    launch("attention_backward_dq_bf16", **shared, DQ=dq)
    launch("attention_backward_dkdv_bf16", **shared, DK=dk, DV=dv)
    return dq, dk, dv


def mamba2(launch: Launch, x: Array, b: Array, c: Array, a: Array, dt: Array) -> tuple[Array, Array]:
    """(y, last state) of x [B, C, L, H, P], b and c [B, C, L, N], running sums a and steps dt [B, H, C, L]; C chunks of L."""
    batch, chunks, _, heads, width = x.shape
    states = np.empty((batch, chunks, heads, width, b.shape[-1]), np.float32)
    before, last = np.empty_like(states), np.empty((batch, heads, width, b.shape[-1]), np.float32)
    launch("mamba2_chunk_state_bf16", X=x, Bm=b, A=a, DT=dt, Y=states)
    launch("mamba2_state_passing_f32", X=states, G=np.ascontiguousarray(a[..., -1]), Y=before, F=last)
    y = np.empty_like(x)
    launch("mamba2_chunk_scan_bf16", X=x, Bm=b, Cm=c, A=a, DT=dt, S=before.astype(BF16), Y=y)
    return y, last


def gated_delta(launch: Launch, q: Array, k: Array, v: Array, beta: Array, g: Array) -> tuple[Array, Array]:
    """(o, last state) of q, k [B, H, C, L, D], v [B, H, C, L, E], beta and running log-decays g [B, H, C, L]."""
    w, u, o = np.empty_like(k), np.empty_like(v), np.empty_like(v)
    launch("gated_delta_prepare_f32", K=k, V=v, beta=beta, G=g, W=w, U=u)
    last = np.empty((*k.shape[:2], k.shape[-1], v.shape[-1]), np.float32)
    launch("gated_delta_rule_f32", Q=q, K=k, W=w, U=u, G=g, O=o, F=last)
    return o, last


def moe(launch: Launch, x: Array, experts: Array, weights: Array) -> tuple[Array, Array]:
    """x [T, D] times the weights [E, D, N] of each token's expert (i32 [T]): rows sorted by expert, and the place of each token."""
    tokens, width, count = len(x), weights.shape[2], len(weights)
    places, counts = np.empty(tokens, np.int32), np.empty(count, np.int32)
    offsets = np.full(count + 1, tokens, np.int32)
    launch("moe_align", I=experts, places=places, counts=counts, offsets=offsets[:-1])
    rows = np.empty_like(x)
    launch("moe_sort", X=x, places=places, Y=rows)
    y = np.empty((tokens, width), BF16)
    launch("moe_grouped_gemm_bf16", A=rows, W=weights, offsets=offsets, Y=y)
    return y, places
