"""Attention forward and backward: workloads 30 to 35.

Rows of scores are made a block of heads at a time. Kernels store the weights in bf16 before they multiply values, each relative to a
running maximum that depends on the tiling: `rounding` bounds it.
"""

from __future__ import annotations

import math
from typing import Any

from references.core import Out, Sizes, Views, formula, rounding

BF16 = 8
#: elements of scores at once
BLOCK = 1 << 28


class Rows:
    """Softmax over rows of scores [n, S, T]: value, scale and slack of the weighted values [n, S, E]; all of one block of heads."""

    def __init__(self, xp: Any, scores: Any, wide: Any, v: Any, seen: Any, normalise: bool = True) -> None:
        """`wide` bounds the magnitudes behind a score; `seen` masks, None: all."""
        if seen is not None:
            scores, wide = xp.where(seen, scores, -math.inf), xp.where(seen, wide, 0.0)
        top = xp.amax(scores, -1, True)
        top = xp.where(top == -math.inf, 0.0, top)
        p = xp.exp(scores - top)
        self.total = xp.sum(p, -1, True)
        if normalise:
            p = p / xp.where(self.total == 0.0, 1.0, self.total)
        self.top = xp.amax(scores, -1)
        self.spread = xp.amax(wide, -1, True)
        self.value = xp.einsum("nst,nte->nse", p, v)
        magnitudes = xp.einsum("nst,nte->nse", p, abs(v))
        self.scale = magnitudes * (2.0 + self.spread)
        self.slack = rounding(xp, BF16, magnitudes, xp.einsum("nst,nte->nse", p * p, v * v))


def attend(xp: Any, q: Any, k: Any, v: Any, scale: float, seen: Any = None, bias: Any = None) -> Out:
    """q [n, S, D], k [n, T, D], v [n, T, E]; bias [n, S, T]."""
    n, rows, t = q.shape[0], q.shape[1], k.shape[1]
    step = max(1, BLOCK // max(1, rows * t))
    blocks = []
    for i in range(0, n, step):
        a, b = q[i : i + step], k[i : i + step]
        scores, wide = xp.einsum("nsd,ntd->nst", a, b) * scale, xp.einsum("nsd,ntd->nst", abs(a), abs(b)) * scale
        if bias is not None:
            scores, wide = scores + bias[i : i + step], wide + abs(bias[i : i + step])
        blocks.append(Rows(xp, scores, wide, v[i : i + step], seen))
    if not blocks:
        return Out(xp.full((0, rows, v.shape[2]), 0.0))
    value, size, slack = (xp.concat([getattr(b, name) for b in blocks], 0) for name in ("value", "scale", "slack"))
    return Out(value, size, max(t, q.shape[2]), slack)


def shaped(o: Out, shape: tuple[int, ...]) -> Out:
    if o.scale is None:
        return Out(o.value.reshape(shape))
    return Out(o.value.reshape(shape), o.scale.reshape(shape), o.n, o.slack.reshape(shape))


def mask(xp: Any, kind: str, s: Sizes) -> Any:
    if kind not in ("causal", "window"):
        return None
    at, last = xp.arange(s["T"]), (xp.arange(s["S"]) + (s["T"] - s["S"]))[:, None]
    seen = at <= last
    return seen & (at > last - s["window"]) if kind == "window" else seen


def forward(kind: str) -> Any:
    def call(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
        b, h, rows, d = v["Q"].shape
        q, k, value = (v[n].reshape(b * h, v[n].shape[2], d) for n in ("Q", "K", "V"))
        bias = None
        if kind == "bias":
            bias = xp.broadcast(v["bias"], (b, h, rows, s["T"])).reshape(b * h, rows, s["T"])
        return {"O": shaped(attend(xp, q, k, value, s["scale"], mask(xp, kind, s), bias), (b, h, rows, d))}

    return call


for _name, _kind in (
    ("attention_fwd_bf16", "none"),
    ("attention_causal_bf16", "causal"),
    ("attention_window_bf16", "window"),
    ("attention_bias_bf16", "bias"),
    ("softmax_attention_bf16", "causal"),
):
    formula(_name)(forward(_kind))


@formula("attention_gqa_bf16")
def attention_gqa(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    b, h, g, rows, d = v["Q"].shape
    t = s["T"]
    k, value = (xp.broadcast(v[n][:, :, None], (b, h, g, t, d)).reshape(b * h * g, t, d) for n in ("K", "V"))
    o = attend(xp, v["Q"].reshape(b * h * g, rows, d), k, value, s["scale"], mask(xp, "causal", s))
    return {"O": shaped(o, (b, h, g, rows, d))}


@formula("varlen_attention_bf16")
def varlen_attention(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    bounds = [int(xp.item(x)) for x in v["offsets"]]
    parts = []
    for begin, end in zip(bounds, bounds[1:]):
        q, k, value = (xp.permute(v[n][begin:end], 1, 0, 2) for n in ("Q", "K", "V"))
        seen = xp.arange(end - begin) <= xp.arange(end - begin)[:, None]
        o = attend(xp, q, k, value, s["scale"], seen) if end > begin else Out(q, abs(q), 1, abs(q))
        parts.append([xp.permute(x, 1, 0, 2) for x in (o.value, o.scale, o.slack)] if o.scale is not None else [])
    value, size, slack = (xp.concat([p[i] for p in parts if p], 0) for i in range(3))
    return {"O": Out(value, size, max(bounds[-1], s["D"]), slack)}


@formula("attention_decode_paged_bf16")
def attention_decode_paged(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    b, h, g, d = v["Q"].shape
    span, parts, t = s["span"], s["P"], s["slots"] * 64
    lanes, at = xp.arange(parts * span).reshape(parts, span), xp.arange(parts * span)
    o, m, total = [], [], []
    for i in range(b):
        length = min(int(xp.item(v["lengths"][i])), t)
        fine = xp.where(at < t, at, 0)
        page = v["table"][i][fine // 64]
        k, value = (v[n][page, fine % 64] for n in ("K", "V"))  # [keys, H, D]
        k, value = (xp.permute(x.reshape(parts, span, h, d), 0, 2, 1, 3).reshape(parts * h, span, d) for x in (k, value))
        q = xp.broadcast(v["Q"][i], (parts, h, g, d)).reshape(parts * h, g, d)
        seen = xp.broadcast((lanes < length)[:, None, None], (parts, h, 1, span)).reshape(parts * h, 1, span)
        scores, wide = xp.einsum("nsd,ntd->nst", q, k) * s["scale"], xp.einsum("nsd,ntd->nst", abs(q), abs(k)) * s["scale"]
        r = Rows(xp, scores, wide, value, seen, normalise=False)
        sizes = r.total[..., 0] * (2.0 + r.spread[..., 0])
        o.append([xp.permute(x.reshape(parts, h, g, d), 1, 2, 0, 3) for x in (r.value, r.scale, r.slack)])
        m.append([xp.permute(x.reshape(parts, h, g), 1, 2, 0) for x in (r.top, r.spread[..., 0])])
        total.append([xp.permute(x.reshape(parts, h, g), 1, 2, 0) for x in (r.total[..., 0], sizes)])
    if not b:
        return {"O": xp.full((0, h, g, parts, d), 0.0), "M": xp.full((0, h, g, parts), 0.0), "L": xp.full((0, h, g, parts), 0.0)}
    n = max(span, d)
    o3, m2, t2 = ([xp.stack([p[i] for p in x], 0) for i in range(len(x[0]))] for x in (o, m, total))
    return {"O": Out(o3[0], o3[1], n, o3[2]), "M": Out(m2[0], m2[1], d), "L": Out(t2[0], t2[1], n)}


@formula("key_norm_attention_f32")
def key_norm_attention(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    k = v["K"] / xp.sqrt(xp.sum(v["K"] * v["K"], 1, True) / max(s["D"], 1) + 1e-6)
    o = attend(xp, v["Q"][None], k[None], v["V"][None], s["scale"])
    return {"O": shaped(o, tuple(v["Q"].shape))}


@formula("alibi_attention_bf16")
def alibi_attention(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """A score of -1e9 weighs exactly 0 beside that of the first key, which every row sees."""
    d = xp.f64(xp.arange(s["S"])[:, None] - xp.arange(s["T"]))
    bias = -v["slope"][:, None, None] * abs(d)
    return {"O": attend(xp, v["Q"], v["K"], v["V"], s["scale"], seen=d >= 0.0, bias=bias)}


@formula("keys_to_cache_bf16")
def keys_to_cache(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    k = xp.permute(v["K"], 1, 0, 2)
    return {"C": Out(k, n=0), "A": Out(xp.amax(abs(k), 2), n=0)}


@formula("attention_combine_bf16")
def attention_combine(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    m = v["M"]
    top = xp.amax(m, 3, True)
    w = xp.where(m == -math.inf, 0.0, xp.exp(m - xp.where(top == -math.inf, 0.0, top)))
    spread = 2.0 + xp.amax(xp.where(m == -math.inf, 0.0, abs(m)), 3, True)
    total = xp.sum(v["L"] * w, 3, True)
    share = w[..., None] / xp.where(total == 0.0, 1.0, total)[..., None]
    return {"Y": Out(xp.sum(v["O"] * share, 3), 2.0 * spread * xp.sum(abs(v["O"]) * share, 3), s["P"])}


@formula("mla_decode_bf16")
def mla_decode(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    seen = xp.arange(s["T"]) < v["lengths"][:, None, None]
    scores, wide = (
        (xp.einsum("bhc,btc->bht", f(v["QC"]), f(v["KC"])) + xp.einsum("bhr,btr->bht", f(v["QR"]), f(v["KR"]))) * s["scale"]
        for f in (lambda x: x, abs)
    )
    r = Rows(xp, scores, wide, v["KC"], seen)
    return {"O": Out(r.value, r.scale, max(s["T"], s["C"] + s["R"]), r.slack)}


# ------------------------------------------------------------------------------------------------ backward
@formula("attention_delta_bf16")
def attention_delta(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(xp.sum(v["O"] * v["DO"], 3), xp.sum(abs(v["O"] * v["DO"]), 3), s["D"])}


def gradients(xp: Any, v: Views, s: Sizes, i: int) -> tuple[Any, Any, Any, Any]:
    """Of batch entry i: probabilities and gradients of the scores [H, S, S], and the magnitudes behind each."""
    q, k, value, do = (v[n][i] for n in ("Q", "K", "V", "DO"))
    at = xp.arange(s["S"])
    seen, lse, delta = at <= at[:, None], v["LSE"][i][..., None], v["delta"][i][..., None]
    p = xp.where(seen, xp.exp(xp.einsum("hsd,htd->hst", q, k) * s["scale"] - lse), 0.0)
    spread = 2.0 + xp.einsum("hsd,htd->hst", abs(q), abs(k)) * s["scale"] + abs(lse)
    ds = p * (xp.einsum("hsd,htd->hst", do, value) - delta) * s["scale"]
    return p, ds, p * spread, p * spread * (xp.einsum("hsd,htd->hst", abs(do), abs(value)) + abs(delta)) * s["scale"]


def weighted(xp: Any, form: str, a: Any, size: Any, b: Any, n: int) -> Out:
    """A contraction of `a`, stored in bf16 on the way, whose elements have these magnitudes behind them."""
    slack = rounding(xp, BF16, xp.einsum(form, abs(a), abs(b)), xp.einsum(form, a * a, b * b))
    return Out(xp.einsum(form, a, b), xp.einsum(form, size, abs(b)), n, slack)


def stacked(xp: Any, parts: list[Out], like: Any) -> Out:
    if not parts:
        return Out(like)
    value, size, slack = (xp.stack([getattr(p, name) for p in parts], 0) for name in ("value", "scale", "slack"))
    return Out(value, size, parts[0].n, slack)


@formula("attention_backward_dq_bf16")
def attention_backward_dq(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    parts = []
    for i in range(s["B"]):
        _, ds, _, size = gradients(xp, v, s, i)
        parts.append(weighted(xp, "hst,htd->hsd", ds, size, v["K"][i], max(s["S"], s["D"])))
    return {"DQ": stacked(xp, parts, v["Q"])}


@formula("attention_backward_dkdv_bf16")
def attention_backward_dkdv(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    keys, values = [], []
    for i in range(s["B"]):
        p, ds, p_size, size = gradients(xp, v, s, i)
        keys.append(weighted(xp, "hst,hsd->htd", ds, size, v["Q"][i], max(s["S"], s["D"])))
        values.append(weighted(xp, "hst,hsd->htd", p, p_size, v["DO"][i], max(s["S"], s["D"])))
    return {"DK": stacked(xp, keys, v["Q"]), "DV": stacked(xp, values, v["Q"])}


@formula("linear_attention_causal_bf16")
def linear_attention_causal(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    b, h, t, d = v["Q"].shape
    e, at = v["V"].shape[3], xp.arange(t)
    q, k, value = v["Q"].reshape(b * h, t, d), v["K"].reshape(b * h, t, d), v["V"].reshape(b * h, t, e)
    seen, parts = at <= at[:, None], []
    step = max(1, BLOCK // max(1, t * t))
    for i in range(0, b * h, step):
        a, c, w = q[i : i + step], k[i : i + step], value[i : i + step]
        scores = xp.where(seen, xp.einsum("nsd,ntd->nst", a, c), 0.0)
        size = xp.where(seen, xp.einsum("nsd,ntd->nst", abs(a), abs(c)), 0.0)
        parts.append(weighted(xp, "nst,nte->nse", scores, size, w, max(t, d)))
    last = Out(xp.einsum("nsd,nse->nde", k, value), xp.einsum("nsd,nse->nde", abs(k), abs(value)), t)
    state = Out(last.value.reshape(b, h, d, e), last.scale.reshape(b, h, d, e), t)
    if not parts:
        return {"O": v["V"], "F": state}
    o = [xp.concat([getattr(p, name) for p in parts], 0).reshape(b, h, t, e) for name in ("value", "scale", "slack")]
    return {"O": Out(o[0], o[1], max(t, d), o[2]), "F": state}
