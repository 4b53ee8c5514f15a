"""Contractions, encoded operands, windows and distances: workloads 19 to 29, 46 and 52."""

from __future__ import annotations

import math
from typing import Any

from references.core import Judge, Out, Sizes, Views, accumulated, formula, product
from references.dense import gelu, rms, sigmoid

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@formula("gemm_nn_bf16", "gemm_f32")
def gemm_nn(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": product(xp, "mk,kn->mn", v["A"], v["B"], s["K"])}


@formula("gemm_nt_bf16", "gemm_fp8")
def gemm_nt(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": product(xp, "mk,nk->mn", v["A"], v["B"], s["K"])}


@formula("gemm_tn_bf16")
def gemm_tn(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": product(xp, "km,kn->mn", v["A"], v["B"], s["K"])}


@formula("gemm_i8")
def gemm_i8(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """Sums below 2^53 are exact in f64."""
    return {"Y": xp.i64(xp.einsum("mk,kn->mn", xp.f64(v["A"]), xp.f64(v["B"])))}


@formula("gemm_bias_gelu_bf16")
def gemm_bias_gelu(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    y = product(xp, "mk,kn->mn", v["A"], v["B"], s["K"])
    return {"Y": Out(gelu(xp, y.value + v["bias"]), 1.2 * (y.scale + abs(v["bias"])) + 1.0, s["K"])}


@formula("dual_gemm_swiglu_bf16")
def dual_gemm_swiglu(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    g, u = (product(xp, "mk,kn->mn", v["A"], v[n], s["K"]) for n in ("G", "U"))
    gate = g.value * sigmoid(xp, g.value)
    return {"Y": Out(gate * u.value, 1.2 * (g.scale * abs(u.value) + abs(gate) * u.scale), s["K"])}


@formula("batched_gemm_bf16")
def batched_gemm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": product(xp, "pmk,pkn->pmn", v["A"], v["B"], s["K"])}


@formula("head_gemm_bf16")
def head_gemm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": product(xp, "thd,hde->the", v["X"], v["W"], s["D"])}


@formula("gemv_bf16")
def gemv(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": product(xp, "mk,k->m", v["A"], v["X"], s["K"])}


@formula("skinny_gemm_bf16")
def skinny_gemm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": product(xp, "mk,kn->mn", v["A"], v["B"], s["K"])}


# ------------------------------------------------------------------------------------------------ encoded operands
@formula("weight_only_int4_bf16")
def weight_only_int4(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    m, n, g = s["M"], s["N"], s["G"]
    code = xp.stack([(v["Q"] >> (4 * i)) & 15 for i in range(8)], 2).reshape(g, 128, n)  # eight codes a word, low first
    w = xp.rounded(xp.f64(code - v["Z"][:, None, :]) * v["S"][:, None, :], "bf16")
    return {"Y": product(xp, "mk,kn->mn", v["X"].reshape(m, g * 128), w.reshape(g * 128, n), g * 128)}


def e8m0(xp: Any, code: Any) -> Any:
    return xp.exp2(xp.f64(code) - 127.0)


@formula("scaled_gemm_mxfp8")
def scaled_gemm_mxfp8(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    k = s["G"] * 32
    a = (v["A"] * e8m0(xp, v["SA"])[:, :, None]).reshape(s["M"], k)
    b = (v["B"] * e8m0(xp, v["SB"])[:, None, :]).reshape(k, s["N"])
    return {"Y": product(xp, "mk,kn->mn", a, b, k)}


def e2m1(xp: Any, code: Any) -> Any:
    table = xp.asarray([*E2M1, *(-x for x in E2M1)])
    return xp.f64(table)[code]


@formula("scaled_gemm_nvfp4")
def scaled_gemm_nvfp4(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    m, n, k = s["M"], s["N"], s["G"] * 16
    a = xp.stack([v["A"] & 15, v["A"] >> 4], 3).reshape(m, s["G"], 16)
    b = xp.stack([v["B"] & 15, v["B"] >> 4], 2).reshape(s["G"], 16, n)
    a = (e2m1(xp, a) * v["SA"][:, :, None]).reshape(m, k)
    b = (e2m1(xp, b) * v["SB"][:, None, :]).reshape(k, n)
    return {"Y": product(xp, "mk,kn->mn", a, b, k)}


@formula("sparse_2to4_gemm_f16")
def sparse_2to4_gemm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    dense = xp.sum(xp.where(v["E"][..., None] == xp.arange(4), v["A"][..., None], 0.0), 2)
    return {"Y": product(xp, "mgc,gcn->mn", dense, v["B"], 2 * s["G"])}


@formula("sparse_1to2_gemm_f32")
def sparse_1to2_gemm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    dense = xp.where(v["E"][..., None] == xp.arange(2), v["A"][..., None], 0.0)
    return {"Y": product(xp, "mgc,gcn->mn", dense, v["B"], s["G"])}


@formula("q8k_quantize")
def q8k_quantize(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """Every rounding is the format's: all bytes are compared."""
    x = xp.f32(v["X"])
    top = xp.amax(abs(x), 1)
    signed = xp.where(xp.amin(x, 1) == -top, -top, top)
    zero = signed == 0
    inverse = xp.f32(xp.full((), -127.0)) / xp.where(zero, xp.f32(xp.full((), 1.0)), signed)
    step = xp.where(zero, xp.f32(xp.full((), 0.0)), xp.f32(xp.full((), 1.0)) / inverse)
    q = xp.rint(xp.where(zero[:, None], xp.f32(xp.full((), 0.0)), x * inverse[:, None]))
    q = xp.i64(xp.maximum(xp.minimum(q, 127), -128))
    sums = xp.sum(q.reshape(-1, 16, 16), 2)
    parts = [xp.octets(step, "f32"), xp.octets(q, "i8").reshape(-1, 256), xp.octets(sums, "i16").reshape(-1, 32)]
    return {"Y": xp.concat(parts, 1)}


@formula("q4k_gemv")
def q4k_gemv(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """Every rounding is the format's, sums over records in order: one unit of f32."""
    w, x = v["W"], v["X"]
    d, low = xp.from_octets(w[..., 0:2], "f16"), xp.from_octets(w[..., 2:4], "f16")
    a, b, c = w[..., 4:8], w[..., 8:12], w[..., 12:16]
    scales = xp.concat([a & 63, (c & 15) | ((a >> 6) << 4)], -1)
    minima = xp.concat([b & 63, (c >> 4) | ((b >> 6) << 4)], -1)
    byte = w[..., 16:].reshape(*w.shape[:2], 4, 32)
    code = xp.stack([byte & 15, byte >> 4], 3).reshape(*w.shape[:2], 8, 32)
    step, q = xp.from_octets(x[..., 0:4], "f32"), signed8(x[..., 4:260])
    sums = xp.from_octets(x[..., 260:].reshape(-1, 16, 2), "i16")
    dot = xp.sum(scales * xp.sum(code * q.reshape(-1, 8, 32), -1), -1)
    less = xp.sum(minima * xp.sum(sums.reshape(-1, 8, 2), -1), -1)
    terms = xp.f32(step) * (xp.f32(d * xp.f64(dot)) - xp.f32(low * xp.f64(less)))
    y = xp.f32(xp.full((s["N"],), 0.0))
    for r in range(s["R"]):
        y = y + terms[:, r]
    return {"Y": Out(xp.f64(y), n=0)}


def signed8(x: Any) -> Any:
    """Bytes as i8."""
    return ((x + 128) & 255) - 128


def to_fp8(xp: Any, x: Any, axis: int, n: int) -> tuple[Out, Out]:
    """The largest magnitude becomes 448; the quotient is compared as the f64 value that e4m3 rounds."""
    peak = xp.amax(abs(x), axis, True)
    scale = xp.where(peak == 0.0, 1.0, peak / 448.0)
    return Out(x / scale, n=n), Out(scale[..., 0], n=n)


@formula("fp8_quantize_per_token", "fp8_quantize_per_group")
def fp8_quantize(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    y, scale = to_fp8(xp, v["X"], v["X"].ndim - 1, 1)
    return {"Y": y, "S": scale}


@formula("rms_norm_fp8")
def rms_norm_fp8(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    y, scale = to_fp8(xp, rms(xp, v["X"], v["W"], s["eps"]), 1, s["N"])
    return {"Y": y, "S": scale}


# ------------------------------------------------------------------------------------------------ windows
@formula("conv2d_direct_f16")
def conv2d_direct(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    b, c, h, w = v["X"].shape
    x = xp.full((b, c, h + 2, w + 2), 0.0)
    x[:, :, 1 : h + 1, 1 : w + 1] = v["X"]
    y = scale = 0.0
    for i in range(3):
        for j in range(3):
            part = product(xp, "bchw,oc->bohw", x[:, :, i : i + h, j : j + w], v["K"][:, :, i, j], 1)
            y, scale = y + part.value, scale + part.scale
    return {"Y": Out(y, scale, 9 * c)}


@formula("depthwise_causal_conv1d_bf16")
def depthwise_causal_conv1d(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    b, t, c = v["X"].shape
    x = xp.concat([xp.full((b, 3, c), 0.0), v["X"]], 1)
    parts = [x[:, j : j + t] * v["K"][j] for j in range(4)]
    return {"Y": Out(parts[0] + parts[1] + parts[2] + parts[3], abs(parts[0]) + abs(parts[1]) + abs(parts[2]) + abs(parts[3]))}


@formula("max_pool2d_f32")
def max_pool2d(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    h, w, place = s["H"], s["W"], xp.arange(9)
    row = xp.arange(s["P"])[:, None] * 2 + place // 3 - 1  # [P, 9]
    column = xp.arange(s["Q"])[:, None] * 2 + place % 3 - 1
    row, column = row[:, None, :], column[None, :, :]
    inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
    flat = xp.where(inside, row * w + column, 0)
    planes = v["X"].reshape(s["B"], s["C"], h * w)
    x = xp.where(inside, planes[:, :, flat], -math.inf)
    at = xp.argmax(x, 4)
    p, q = xp.arange(s["P"])[:, None], xp.arange(s["Q"])
    return {"Y": Out(xp.amax(x, 4), n=0), "I": (p * 2 + at // 3 - 1) * w + (q * 2 + at % 3 - 1)}


# ------------------------------------------------------------------------------------------------ distances
@formula("kmeans_assign_f32")
def kmeans_assign(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """A center whose distance is the smallest up to the rounding of both."""
    x, c = v["X"], v["C"]
    norm = xp.sum(c * c, 1)
    d = norm - 2.0 * xp.einsum("mk,nk->mn", x, c)
    length = xp.sqrt(xp.sum(x * x, 1))[:, None]
    bound = accumulated(s["K"], norm + 2.0 * length * xp.sqrt(norm))  # |x|·|c| <= ‖x‖ ‖c‖
    least = xp.amin(d + bound, 1)

    def worst(got: Views) -> Any:
        at = got["I"]
        fine = (at >= 0) & (at < s["N"])
        i = xp.where(fine, at, 0)
        m = xp.arange(s["M"])
        return xp.where(fine & (d[m, i] - bound[m, i] <= least), 0.0, math.inf)

    return {"I": Judge(worst)}


@formula("pairwise_distance_f32")
def pairwise_distance(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x, c = v["X"], v["C"]
    xx, cc = xp.sum(x * x, 1)[:, None], xp.sum(c * c, 1)
    cross = product(xp, "mk,nk->mn", x, c, s["K"])
    d = xp.maximum(xx + cc - 2.0 * cross.value, 0.0)
    bound = accumulated(s["K"], xx + cc + 2.0 * cross.scale)
    return {"Y": Out(xp.sqrt(d), n=1, slack=xp.sqrt(d + bound) - xp.sqrt(xp.maximum(d - bound, 0.0)))}
