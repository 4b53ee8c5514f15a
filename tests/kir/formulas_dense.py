"""What the kernels of the corpus compute, in f64 numpy: norms, losses, windows, attention, encodings, optimizers, distances.

`t` holds the inputs by name, integers as i64 and floats as f64, and the run-time scalars; a formula gives the output `Y`, or a dictionary.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np


def softmax_rows(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


def rope_half(t: Any) -> Any:
    x = t["X"]
    h = x.shape[-1] // 2
    turned = np.concatenate([-x[..., h:], x[..., :h]], -1)
    return x * t["C"][None, :, None] + turned * t["N"][None, :, None]


def rope_interleaved(t: Any) -> Any:
    z = (t["X"][..., 0] + 1j * t["X"][..., 1]) * (t["C"] + 1j * t["N"])[None, :, None]
    return np.stack([z.real, z.imag], -1)


def standardised(x: Any, axes: tuple[int, ...]) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def layer_norm_dx(t: Any) -> Any:
    r = t["rstd"][:, None]
    x = (t["X"] - t["mean"][:, None]) * r
    g = t["DY"] * t["W"]
    return {"DX": r * (g - x * (x * g).mean(1, keepdims=True) - g.mean(1, keepdims=True))}


def layer_norm_dwdb(t: Any) -> Any:
    x = (t["X"] - t["mean"][..., None]) * t["rstd"][..., None]
    return {"DW": (t["DY"] * x).sum(1), "DB": t["DY"].sum(1)}


def cross_entropy(t: Any) -> Any:
    x, label = t["X"], t["T"]
    ok = (label >= 0) & (label < x.shape[1])
    if not x.shape[1]:
        return np.zeros(len(x))
    logp = x - np.log(np.exp(x).sum(1, keepdims=True))
    return np.where(ok, -logp[np.arange(len(x)), np.where(ok, label, 0)], 0)


def kl_div(t: Any) -> Any:
    p = t["T"]
    return np.where(p > 0, p * (np.log(np.where(p > 0, p, 1)) - t["X"]), 0).sum(1)


# ------------------------------------------------------------------------------------------------ windows
def conv2d(t: Any) -> Any:
    x = np.pad(t["X"], ((0, 0), (0, 0), (1, 1), (1, 1)))
    b, _, h, w = t["X"].shape
    out = np.zeros((b, len(t["K"]), h, w))
    for i in range(3):
        for j in range(3):
            out += np.einsum("bchw,oc->bohw", x[:, :, i : i + h, j : j + w], t["K"][:, :, i, j])
    return out


def causal_conv(t: Any) -> Any:
    x = np.pad(t["X"], ((0, 0), (3, 0), (0, 0)))
    return sum(x[:, j : j + t["X"].shape[1]] * t["K"][j] for j in range(4))


def max_pool(t: Any) -> Any:
    x, (p, q) = t["X"], t["Y"].shape[2:]
    b, c, h, w = x.shape
    y, at = np.full((b, c, p, q), -np.inf), np.zeros((b, c, p, q), np.int64)
    for i in range(p):
        for j in range(q):
            places = [(r, s) for r in range(2 * i - 1, 2 * i + 2) for s in range(2 * j - 1, 2 * j + 2)]
            at[:, :, i, j] = places[0][0] * w + places[0][1]  # of nothing: the first place
            for r, s in places:
                if 0 <= r < h and 0 <= s < w:
                    better = x[:, :, r, s] > y[:, :, i, j]
                    at[:, :, i, j] = np.where(better, r * w + s, at[:, :, i, j])
                    y[:, :, i, j] = np.where(better, x[:, :, r, s], y[:, :, i, j])
    return {"Y": y, "I": at}


# ------------------------------------------------------------------------------------------------ attention
def attend(q: Any, k: Any, v: Any, seen: Any = True, bias: Any = 0.0, scale: float = 0.35) -> Any:
    """Rows that see nothing are 0."""
    s = np.where(seen, q @ np.swapaxes(k, -1, -2) * scale + bias, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    e = np.where(np.isneginf(s), 0, np.exp(s - np.where(np.isneginf(top), 0, top)))
    total = e.sum(-1, keepdims=True)
    return np.where(total == 0, 0, (e @ v) / np.where(total == 0, 1, total))


def key_norm_attention(t: Any) -> Any:
    k = t["K"] / np.sqrt((t["K"] ** 2).mean(-1, keepdims=True) + 1e-6)
    return {"O": attend(t["Q"], k, t["V"], scale=t["scale"])}


def alibi_attention(t: Any) -> Any:
    d = np.arange(t["Q"].shape[1])[:, None] - np.arange(t["K"].shape[1])
    scores = t["Q"] @ t["K"].swapaxes(1, 2) * t["scale"] - t["slope"][:, None, None] * np.abs(d)
    scores = np.where(d >= 0, scores, -1e9)
    return {"O": softmax_rows(scores) @ t["V"]}


def causal(queries: int, keys: int) -> Any:
    return np.arange(keys) <= (np.arange(queries) + keys - queries)[:, None]


def attention(mask: str) -> Any:
    def f(t: Any) -> Any:
        n, m = t["Q"].shape[-2], t["K"].shape[-2]
        seen = np.ones((n, m), bool) if mask == "none" else causal(n, m)
        if mask == "window":
            seen &= np.arange(m) > (np.arange(n) + m - n)[:, None] - t["window"]
        return {"O": attend(t["Q"], t["K"], t["V"], seen, t.get("bias", 0.0))}

    return f


def gqa(t: Any) -> Any:
    return {"O": attend(t["Q"], t["K"][:, :, None], t["V"][:, :, None], causal(t["Q"].shape[-2], t["K"].shape[-2]))}


def paged(t: Any) -> Any:
    b, h, g, parts, d = t["O"].shape
    m, total, o = np.full((b, h, g, parts), -np.inf), np.zeros((b, h, g, parts)), np.zeros((b, h, g, parts, d))
    for i in range(b):
        for p in range(parts):
            at = np.arange(p * 128, min(p * 128 + 128, int(t["lengths"][i])))
            if not len(at):
                continue
            page = t["table"][i, at // 64]
            for j in range(h):
                s = t["Q"][i, j] @ t["K"][page, at % 64, j].T * 0.35
                m[i, j, :, p] = s.max(1)
                e = np.exp(s - s.max(1, keepdims=True))
                total[i, j, :, p], o[i, j, :, p] = e.sum(1), e @ t["V"][page, at % 64, j]
    return {"M": m, "L": total, "O": o}


def combined(t: Any) -> Any:
    m = t["M"]
    w = np.exp(m - m.max(3, keepdims=True, initial=-np.inf))
    total = (t["L"] * w).sum(3)[..., None]
    return np.where(total == 0, 0, (t["O"] * w[..., None]).sum(3) / np.where(total == 0, 1, total))


def varlen(t: Any) -> Any:
    out = np.zeros(t["Q"].shape)
    for a, b in zip(t["offsets"], t["offsets"][1:], strict=False):
        for h in range(out.shape[1]):
            q, k, v = (t[n][a:b, h] for n in "QKV")
            out[a:b, h] = attend(q, k, v, causal(b - a, b - a))
    return {"O": out}


def mla(t: Any) -> Any:
    q, k = np.concatenate([t["QC"], t["QR"]], -1), np.concatenate([t["KC"], t["KR"]], -1)
    seen = np.arange(k.shape[1]) < t["lengths"][:, None, None]
    return {"O": attend(q, k, t["KC"], seen)}


def backward(t: Any) -> Any:
    n = t["Q"].shape[-2]
    s = t["Q"] @ np.swapaxes(t["K"], -1, -2) * 0.35
    p = np.where(causal(n, n), np.exp(s - t["LSE"][..., None]), 0)
    ds = p * (t["DO"] @ np.swapaxes(t["V"], -1, -2) - t["delta"][..., None]) * 0.35
    return {"DQ": ds @ t["K"], "DK": np.swapaxes(ds, -1, -2) @ t["Q"], "DV": np.swapaxes(p, -1, -2) @ t["DO"]}


def linear_attention(t: Any) -> Any:
    n = t["Q"].shape[-2]
    s = np.where(causal(n, n), t["Q"] @ np.swapaxes(t["K"], -1, -2), 0)
    return {"O": s @ t["V"], "F": np.swapaxes(t["K"], -1, -2) @ t["V"]}


# ------------------------------------------------------------------------------------------------ encodings
def int4(t: Any) -> Any:
    c = np.arange(128)
    code = (t["Q"][:, c // 8] >> (4 * (c % 8))[:, None]) & 15
    w = (code - t["Z"][:, None]) * t["S"][:, None]
    return np.einsum("mgc,gcn->mn", t["X"], w)


def fp8(x: Any) -> Any:
    """(values times scale, scale) along the last axis."""
    peak = np.abs(x).max(-1, initial=0)
    scale = np.where(peak == 0, 1, peak / 448)
    return np.clip(x / scale[..., None], -448, 448).astype(np.float32).astype(ml_dtypes.float8_e4m3fn).astype(np.float64), scale


def rms(x: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def outputs(names: str, values: Any) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def nvfp4(t: Any) -> Any:
    def codes(x: Any, axis: int) -> Any:
        pair = np.stack([E2M1[x & 15], E2M1[x >> 4]], axis + 1)
        shape = list(x.shape)
        shape[axis] *= 2
        return pair.reshape(shape)

    return np.einsum("mgc,mg,gcn,gn->mn", codes(t["A"], 2), t["SA"], codes(t["B"], 1), t["SB"])


def mxfp8(t: Any) -> Any:
    return np.einsum("mgc,mg,gcn,gn->mn", t["A"], 2.0 ** (t["SA"] - 127), t["B"], 2.0 ** (t["SB"] - 127))


def sparse(group: int) -> Any:
    def f(t: Any) -> Any:
        a, e = t["A"], t["E"]
        m, g = a.shape[:2]
        full = np.zeros((m, g, group))
        a, e = (x if x.ndim == 3 else x[..., None] for x in (a, e))
        np.put_along_axis(full, e, a, 2)
        return np.einsum("mgc,gcn->mn", full, t["B"])

    return f


def q8k(t: Any) -> Any:
    x = t["X"].astype(np.float32)
    out = np.zeros((len(x), 292), np.uint8)
    for row, v in enumerate(x):
        big = np.abs(v).max(initial=0)
        extreme = min(v[np.abs(v) == big])
        if extreme == 0:
            continue
        inverse = np.float32(-127) / extreme
        q = np.clip(np.rint(v * inverse), -128, 127).astype(np.int8)
        sums = q.astype("<i2").reshape(16, 16).sum(1).astype("<i2")
        out[row] = np.concatenate([np.array([np.float32(1) / inverse], "<f4").view(np.uint8), q.view(np.uint8), sums.view(np.uint8)])
    return out


def q4k_gemv(t: Any) -> Any:
    w, x = t["W"].astype(np.uint8), t["X"].astype(np.uint8)
    out = np.zeros(len(w), np.float32)
    for n in range(len(w)):
        total = np.float32(0)
        for r in range(len(x)):
            record, q8 = w[n, r], x[r]
            d, low = (record[i : i + 2].copy().view("<f2")[0].astype(np.float32) for i in (0, 2))
            b = record[4:16].astype(int)
            sc = [b[i] & 63 for i in range(4)] + [(b[8 + i] & 15) | (b[i] >> 6) << 4 for i in range(4)]
            mn = [b[4 + i] & 63 for i in range(4)] + [(b[8 + i] >> 4) | (b[4 + i] >> 6) << 4 for i in range(4)]
            i = np.arange(256)
            byte = record[16 + 32 * (i // 64) + i % 32]
            nibble = np.where(i % 64 < 32, byte & 15, byte >> 4).astype(int)
            ds = q8[:4].copy().view("<f4")[0]
            q, sums = q8[4:260].view(np.int8).astype(int), q8[260:].copy().view("<i2").astype(int)
            s = sum(sc[j] * int((nibble * q)[32 * j : 32 * j + 32].sum()) for j in range(8))
            m = sum(mn[j] * int(sums[2 * j] + sums[2 * j + 1]) for j in range(8))
            total = total + ds * (d * np.float32(s) - low * np.float32(m))
        out[n] = total
    return out


# ------------------------------------------------------------------------------------------------ the rest
def adamw(t: Any) -> Any:
    m, v = 0.9 * t["M"] + 0.1 * t["G"], 0.99 * t["V"] + 0.01 * t["G"] ** 2
    w = t["W"] * (1 - 0.01 * 0.1) - 0.01 * (m / 0.19) / (np.sqrt(v / 0.0199) + 1e-5)
    return {"M": m, "V": v, "W": w}


def sgd(t: Any) -> Any:
    g = t["G"] + 0.1 * t["W"]
    m = 0.9 * t["M"] + g
    return {"M": m, "W": t["W"] - 0.01 * m}


def distances(t: Any) -> Any:
    return np.sqrt(((t["X"][:, None] - t["C"]) ** 2).sum(-1))


def sliding(t: Any) -> Any:
    x, w = t["X"], max(1, int(t["width"]))
    return np.stack([x[:, max(0, n + 1 - w) : n + 1].mean(1) for n in range(x.shape[1])], 1) if x.shape[1] else x


def banded(t: Any) -> Any:
    a = t["A"]
    off = np.arange(a.shape[1]) - np.arange(a.shape[0])[:, None]
    return np.where((off >= -int(t["below"])) & (off <= int(t["above"])), a, 0) @ t["X"]


WANT: dict[str, Any] = {
    "triangle_sums_f32": lambda t: np.tril(t["X"]).sum(1), "sliding_mean_f32": sliding, "banded_matvec_f32": banded,
    **dict.fromkeys(("triangular_gemm_bf16", "triangular_gemm_i8"), lambda t: np.tril(t["L"]) @ t["X"]),
    "rope_half_bf16": rope_half, "rope_interleaved_bf16": rope_interleaved,
    "group_norm_f32": lambda t: standardised(t["X"], (2, 3)) * t["W"][..., None] + t["B"][..., None],
    "instance_norm_f32": lambda t: standardised(t["X"], (2, 3)),
    "global_max_pool_f32": lambda t: t["X"].max((2, 3), initial=-np.inf),
    "keys_to_cache_bf16": lambda t: {
        "C": t["K"].swapaxes(0, 1), "A": np.abs(t["K"]).max(2, initial=-np.inf).T,
    },
    "batch_norm_infer_f32": lambda t: (t["X"] - t["mean"][:, None]) / np.sqrt(t["variance"] + 1e-5)[:, None] * t["W"][:, None]
    + t["B"][:, None],
    "layer_norm_backward_dx_bf16": layer_norm_dx, "layer_norm_backward_dwdb_bf16": layer_norm_dwdb,
    "sum_parts_f32": lambda t: t["X"].sum(0),
    "softmax_backward_bf16": lambda t: {"DX": t["Y"] * (t["DY"] - (t["Y"] * t["DY"]).sum(1, keepdims=True))},
    "logsumexp_bf16": lambda t: np.log(np.exp(t["X"]).sum(1)) if t["X"].shape[1] else np.full(len(t["X"]), -np.inf),
    "cross_entropy_bf16": cross_entropy, "kl_div_bf16": kl_div, "mse_partials_bf16": lambda t: ((t["X"] - t["T"]) ** 2).sum(1),
    "conv2d_direct_f16": conv2d, "depthwise_causal_conv1d_bf16": causal_conv, "max_pool2d_f32": max_pool,
    "attention_fwd_bf16": attention("none"), "attention_bias_bf16": attention("none"), "attention_causal_bf16": attention("causal"),
    "attention_window_bf16": attention("window"), "softmax_attention_bf16": attention("causal"), "attention_gqa_bf16": gqa,
    "attention_decode_paged_bf16": paged, "attention_combine_bf16": combined, "varlen_attention_bf16": varlen, "mla_decode_bf16": mla,
    "key_norm_attention_f32": key_norm_attention, "alibi_attention_bf16": alibi_attention,
    "attention_delta_bf16": lambda t: (t["O"] * t["DO"]).sum(-1),
    "attention_backward_dq_bf16": lambda t: {"DQ": backward(t)["DQ"]},
    "attention_backward_dkdv_bf16": lambda t: {n: backward(t)[n] for n in ("DK", "DV")},
    "linear_attention_causal_bf16": linear_attention, "weight_only_int4_bf16": int4, "scaled_gemm_mxfp8": mxfp8,
    "scaled_gemm_nvfp4": nvfp4, "sparse_2to4_gemm_f16": sparse(4), "sparse_1to2_gemm_f32": sparse(2), "q8k_quantize": q8k,
    "q4k_gemv": q4k_gemv, "fp8_quantize_per_token": lambda t: outputs("YS", fp8(t["X"])),
    "fp8_quantize_per_group": lambda t: outputs("YS", fp8(t["X"])), "rms_norm_fp8": lambda t: outputs("YS", fp8(rms(t["X"]) * t["W"])),
    "adamw_f32": adamw, "sgd_momentum_f32": sgd, "pairwise_distance_f32": distances,
    "kmeans_assign_f32": lambda t: {"I": distances(t).argmin(1)},
    "approximate_sigmoid": lambda t: np.tanh(1 / (1 + np.exp2(t["X"] * -1.4426950408889634))),
}  # fmt: skip
LOG2E = math.log2(math.e)
