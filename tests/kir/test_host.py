"""Algorithms of several kernels, composed by the host programs, on the reference interpreter."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from corpus import host
from corpus.host.launch import reference
from tests.kir import formulas_dense as dense
from tests.kir import formulas_ordered as ordered

BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(11)


def bf16(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(BF16)


def f32(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def close(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=tolerance)


def wide(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {n: a.astype(np.int64 if a.dtype.kind in "iu" else np.float64) for n, a in arrays.items()}


def test_a_segmented_sum_over_parts_is_that_of_the_whole() -> None:
    keys = np.repeat(np.arange(9), RNG.integers(1, 12, 9)).astype(np.int32)
    keys = np.concatenate([keys, np.full(-len(keys) % 7, 9, np.int32)])
    values = RNG.integers(-9, 9, keys.size).astype(np.int32)
    got = host.segmented_sum(reference, keys, values, 7)
    want = ordered.segmented(ordered.begins(keys[None]), values[None])[0]
    np.testing.assert_array_equal(got, want)


def test_positions_of_nonzero_values() -> None:
    x = RNG.integers(-1, 2, (5, 13)).astype(np.int32)
    out, counts = host.nonzero(reference, x)
    np.testing.assert_array_equal(out[: counts.sum()], np.flatnonzero(x))


def test_layer_norm_backward() -> None:
    x, dy, w, mean, rstd = bf16(12, 7), bf16(12, 7), bf16(7), f32(12), RNG.uniform(0.5, 2, 12).astype(np.float32)
    dx, dw, db = host.layer_norm_backward(reference, x, dy, w, mean, rstd, 4)
    t = wide(X=x, DY=dy, W=w, mean=mean, rstd=rstd)
    close(dx, dense.layer_norm_dx(t)["DX"], 0.03)
    close(dw, (t["DY"] * (t["X"] - t["mean"][:, None]) * t["rstd"][:, None]).sum(0), 1e-4)
    close(db, t["DY"].sum(0), 1e-4)


def test_decoding_over_pages_and_parts() -> None:
    q, k, v = bf16(2, 2, 3, 4), bf16(5, 64, 2, 4), bf16(5, 64, 2, 4)
    table = RNG.integers(0, 5, (2, 4)).astype(np.int32)
    lengths = np.array([201, 3], np.int32)
    got = host.attention_decode(reference, q, k, v, table, lengths, 0.35, 2)
    for b in range(2):
        at = np.arange(lengths[b])
        keys, values = (x[table[b, at // 64], at % 64].astype(np.float64).transpose(1, 0, 2) for x in (k, v))
        close(got[b], dense.attend(q[b].astype(np.float64), keys, values), 0.03)


def test_attention_backward_is_the_gradient() -> None:
    q, k, v, do = (bf16(1, 2, 7, 4) for _ in range(4))
    t = wide(Q=q, K=k, V=v, DO=do)
    seen = dense.causal(7, 7)
    s = np.where(seen, t["Q"] @ np.swapaxes(t["K"], -1, -2) * 0.35, -np.inf)
    lse = np.log(np.exp(s).sum(-1))
    o = dense.attend(t["Q"], t["K"], t["V"], seen)
    dq, dk, dv = host.attention_backward(reference, q, k, v, o.astype(BF16), do, lse.astype(np.float32), 0.35)
    eps = 1e-5
    for name, got in (("Q", dq), ("K", dk), ("V", dv)):
        for at in [(0, 0, 3, 1), (0, 1, 6, 2)]:
            shifted = []
            for sign in (1, -1):
                u = {**t, name: t[name].copy()}
                u[name][at] += sign * eps
                shifted.append((dense.attend(u["Q"], u["K"], u["V"], seen) * t["DO"]).sum())
            close(got[at], (shifted[0] - shifted[1]) / (2 * eps), 0.06)


def test_mamba2_by_chunks_is_the_recurrence() -> None:
    batch, chunks, steps, heads, width, n = 1, 3, 4, 2, 3, 5
    x, b, c = bf16(batch, chunks, steps, heads, width), bf16(batch, chunks, steps, n), bf16(batch, chunks, steps, n)
    dt = RNG.uniform(0.1, 0.5, (batch, heads, chunks, steps)).astype(np.float32)
    step = (-dt).astype(np.float32)
    y, last = host.mamba2(reference, x, b, c, np.cumsum(step, -1, dtype=np.float32), dt)
    t = wide(x=x, b=b, c=c, dt=dt, step=step)
    s = np.zeros((batch, heads, width, n))
    for i in range(chunks):
        for j in range(steps):
            s = s * np.exp(t["step"][:, :, i, j])[..., None, None]
            s = s + np.einsum("bh,bhp,bn->bhpn", t["dt"][:, :, i, j], t["x"][:, i, j], t["b"][:, i, j])
            close(y[:, i, j], np.einsum("bhpn,bn->bhp", s, t["c"][:, i, j]), 0.06)
    close(last, s, 0.06)


def test_the_gated_delta_rule_by_chunks_is_the_recurrence() -> None:
    shape = (1, 2, 3, 4)
    q, k, v = (f32(*shape, n) * 0.5 for n in (5, 5, 3))
    beta, step = RNG.uniform(0, 1, shape).astype(np.float32), RNG.uniform(-0.3, 0, shape).astype(np.float32)
    o, last = host.gated_delta(reference, q, k, v, beta, np.cumsum(step, -1, dtype=np.float32))
    s = np.zeros((1, 2, 5, 3))
    for c in range(3):
        for i in range(4):
            s = s * np.exp(step[:, :, c, i].astype(np.float64))[..., None, None]
            key, rate = k[:, :, c, i].astype(np.float64), beta[:, :, c, i].astype(np.float64)
            error = v[:, :, c, i] - np.einsum("bhd,bhde->bhe", key, s)
            s = s + np.einsum("bh,bhd,bhe->bhde", rate, key, error)
            close(o[:, :, c, i], np.einsum("bhd,bhde->bhe", q[:, :, c, i].astype(np.float64), s), 1e-4)
    close(last, s, 1e-4)


def test_a_mixture_of_experts() -> None:
    x, w = bf16(19, 4), bf16(3, 4, 5)
    experts = RNG.integers(0, 3, 19).astype(np.int32)
    y, places = host.moe(reference, x, experts, w)
    want = np.einsum("td,tdn->tn", x.astype(np.float64), w.astype(np.float64)[experts])
    close(y[places], want, 0.03)
