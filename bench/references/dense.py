"""Pointwise kernels, normalisations, losses and optimizer steps: workloads 1 to 11, 15, 45 and 54."""

from __future__ import annotations

import math
from typing import Any

from references.core import Out, Sizes, Views, formula, pointwise, total, wrapped


def gelu(xp: Any, x: Any) -> Any:
    return 0.5 * x * (1.0 + xp.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))))


def sigmoid(xp: Any, x: Any) -> Any:
    return 1.0 / (1.0 + xp.exp(-x))


# ------------------------------------------------------------------------------------------------ pointwise
@formula("relu_f32")
def relu(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(xp.maximum(v["X"], 0.0), n=0)}


@formula("swish_f32")
def swish(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    return {"Y": pointwise(xp, x * sigmoid(xp, x), x)}


@formula("gelu_tanh_f32")
def gelu_tanh(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": pointwise(xp, gelu(xp, v["X"]), v["X"])}


@formula("gelu_erf_f32")
def gelu_erf(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    return {"Y": pointwise(xp, 0.5 * x * (1.0 + xp.erf(x * math.sqrt(0.5))), x)}


@formula("bias_gelu_residual_bf16")
def bias_gelu_residual(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": pointwise(xp, gelu(xp, v["X"] + v["B"]) + v["R"], v["X"], v["R"], v["B"])}


@formula("swiglu_bf16")
def swiglu(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": pointwise(xp, v["A"] * sigmoid(xp, v["A"]) * v["B"], v["A"], v["B"])}


@formula("geglu_bf16")
def geglu(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": pointwise(xp, gelu(xp, v["A"]) * v["B"], v["A"], v["B"], v["A"] * v["B"])}


@formula("transpose_add_f32")
def transpose_add(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(v["A"] + v["B"].T, n=1)}


@formula("rope_half_bf16")
def rope_half(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x, half = v["X"], s["D"] // 2
    c, n = v["C"][:, None, :], v["N"][:, None, :]
    turned = xp.concat([-x[..., half:], x[..., :half]], -1)
    return {"Y": Out(x * c + turned * n, abs(x * c) + abs(turned * n))}


@formula("rope_interleaved_bf16")
def rope_interleaved(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    a, b = v["X"][..., 0], v["X"][..., 1]
    c, n = v["C"][:, None, :], v["N"][:, None, :]
    scale = [abs(a * c) + abs(b * n), abs(a * n) + abs(b * c)]
    return {"Y": Out(xp.stack([a * c - b * n, a * n + b * c], -1), xp.stack(scale, -1))}


# ------------------------------------------------------------------------------------------------ rows
@formula("softmax_f32", "softmax_bf16")
def softmax(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    below = xp.amax(x, 1, True) - x
    e = xp.exp(-below)
    y = e / xp.sum(e, 1, True)
    return {"Y": Out(y, y * (2.0 + below), s["N"])}


@formula("log_softmax_f32", "log_softmax_bf16")
def log_softmax(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    m = xp.amax(x, 1, True)
    y = x - m - xp.log(xp.sum(xp.exp(x - m), 1, True))
    return {"Y": Out(y, 2.0 * abs(x) + abs(m) + abs(y) + 1.0, s["N"])}


@formula("layer_norm_bf16")
def layer_norm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    value, scale = standardised(xp, v["X"], 1, s["eps"])
    return {"Y": Out(value * v["W"] + v["B"], scale * abs(v["W"]) + abs(v["B"]), s["N"])}


def standardised(xp: Any, x: Any, axes: Any, eps: float) -> tuple[Any, Any]:
    """(x - mean) / sqrt(variance + eps) and the magnitudes behind it."""
    count = math.prod(x.shape[a] for a in (axes if isinstance(axes, tuple) else (axes,)))
    d = x - xp.sum(x, axes, True) / max(count, 1)
    r = 1.0 / xp.sqrt(xp.sum(d * d, axes, True) / max(count, 1) + eps)
    return d * r, (abs(x) + xp.sum(abs(x), axes, True) / max(count, 1)) * r


def rms(xp: Any, x: Any, w: Any, eps: float) -> Any:
    return x / xp.sqrt(xp.sum(x * x, 1, True) / max(x.shape[1], 1) + eps) * w


@formula("rms_norm_bf16")
def rms_norm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(rms(xp, v["X"], v["W"], s["eps"]), n=s["N"])}


@formula("fused_add_rms_norm_bf16")
def fused_add_rms_norm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    r = xp.rounded(v["X"] + v["R"], "bf16")  # the kernel asks for this rounding before the norm
    return {"R": Out(r, n=0), "Y": Out(rms(xp, r, v["W"], s["eps"]), n=s["N"])}


@formula("group_norm_f32")
def group_norm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    value, scale = standardised(xp, v["X"], (2, 3), s["eps"])
    w, b = v["W"][:, :, None], v["B"][:, :, None]
    return {"Y": Out(value * w + b, scale * abs(w) + abs(b), s["C"] * s["L"])}


@formula("instance_norm_f32")
def instance_norm(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(*standardised(xp, v["X"], (2, 3), s["eps"]), s["H"] * s["W"])}


@formula("batch_norm_infer_f32")
def batch_norm_infer(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    k = v["W"] / xp.sqrt(xp.maximum(v["variance"], 0.0) + s["eps"])
    x, k, b, m = v["X"], k[:, None], v["B"][:, None], v["mean"][:, None]
    return {"Y": Out(x * k + (b - m * k), abs(x * k) + abs(b) + abs(m * k))}


@formula("layer_norm_backward_dx_bf16")
def layer_norm_backward_dx(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    n, m, r = max(s["N"], 1), v["mean"][:, None], v["rstd"][:, None]
    x, g = (v["X"] - m) * r, v["DY"] * v["W"]
    wide = (abs(v["X"]) + abs(m)) * abs(r)
    value = (g - (x * (xp.sum(x * g, 1, True) / n) + xp.sum(g, 1, True) / n)) * r
    scale = (abs(g) + wide * (xp.sum(wide * abs(g), 1, True) / n) + xp.sum(abs(g), 1, True) / n) * abs(r)
    return {"DX": Out(value, scale, n)}


@formula("layer_norm_backward_dwdb_bf16")
def layer_norm_backward_dwdb(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    m, r, g = v["mean"][:, :, None], v["rstd"][:, :, None], v["DY"]
    value = xp.sum(g * (v["X"] - m) * r, 1)
    return {"DW": Out(value, xp.sum(abs(g) * (abs(v["X"]) + abs(m)) * abs(r), 1), s["R"]), "DB": total(xp, g, 1)}


@formula("sum_parts_f32")
def sum_parts(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": total(xp, v["X"], 0)}


@formula("softmax_backward_bf16")
def softmax_backward(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    y, g = v["Y"], v["DY"]
    return {"DX": Out(y * (g - xp.sum(y * g, 1, True)), abs(y) * (abs(g) + xp.sum(abs(y * g), 1, True)), s["N"])}


# ------------------------------------------------------------------------------------------------ losses
def log_sum_exp(xp: Any, x: Any) -> tuple[Any, Any]:
    """Over axis 1, and the magnitudes behind it."""
    m = xp.amax(x, 1)
    y = m + xp.log(xp.sum(xp.exp(x - m[:, None]), 1))
    return y, abs(m) + abs(y) + abs(y - m) + 1.0


@formula("logsumexp_bf16")
def logsumexp(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(*log_sum_exp(xp, v["X"]), s["N"])}


@formula("cross_entropy_bf16")
def cross_entropy(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    label, n = v["T"], s["N"]
    counted = (label >= 0) & (label < n)
    y, scale = log_sum_exp(xp, v["X"])
    picked = v["X"][xp.arange(s["M"]), xp.where(counted, label, 0)]
    return {"Y": Out(xp.where(counted, y - picked, 0.0), scale + abs(picked), n)}


@formula("kl_div_bf16")
def kl_div(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x, t = v["X"], v["T"]
    log = xp.log(xp.where(t > 0.0, t, 1.0))
    t = xp.maximum(t, 0.0)
    return {"Y": Out(xp.sum(t * (log - x), 1), xp.sum(t * (abs(log) + abs(x)), 1), s["N"])}


@formula("mse_partials_bf16")
def mse_partials(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    d, wide = v["X"] - v["T"], abs(v["X"]) + abs(v["T"])
    return {"Y": Out(xp.sum(d * d, 1), xp.sum(wide * wide, 1), s["R"])}


# ------------------------------------------------------------------------------------------------ optimizer steps
@formula("adamw_f32")
def adamw(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    g, b1, b2, rate = v["G"], s["beta1"], s["beta2"], s["rate"]
    m, m_scale = b1 * v["M"] + (1.0 - b1) * g, abs(b1 * v["M"]) + abs((1.0 - b1) * g)
    u = b2 * v["V"] + (1.0 - b2) * (g * g)
    root = xp.sqrt(u / s["c2"]) + s["eps"]
    w = v["W"] * (1.0 - rate * s["decay"]) - rate * ((m / s["c1"]) / root)
    return {"M": Out(m, m_scale), "V": Out(u), "W": Out(w, abs(v["W"]) + 2.0 * rate * m_scale / s["c1"] / root)}


@formula("sgd_momentum_f32")
def sgd_momentum(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    g, old = v["G"] + s["decay"] * v["W"], s["momentum"] * v["M"]
    m, m_scale = old + g, abs(old) + abs(v["G"]) + s["decay"] * abs(v["W"])
    step = g + s["momentum"] * m if s.get("nesterov") else m
    return {"M": Out(m, m_scale), "W": Out(v["W"] - s["rate"] * step, abs(v["W"]) + 3.0 * s["rate"] * m_scale)}


# ------------------------------------------------------------------------------------------------ several outputs, hazards
@formula("two_outputs")
def two_outputs(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    e = xp.exp(v["U"])
    return {"Y": Out(v["X"] * 2.0, n=0), "V": Out(e, e * (1.0 + abs(v["U"])))}


@formula("empty_output")
def empty_output(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": total(xp, v["X"], 1), "E": Out(v["Z"] + 1.0)}


@formula("three_reductions")
def three_reductions(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    return {"S": total(xp, x, 1), "T": Out(xp.amax(x, 0), n=0), "Y": Out(x * 0.5, n=0)}


@formula("add_in_place")
def add_in_place(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"X": Out(v["X"] + 1.0, n=1)}


@formula("add_in_place_strided")
def add_in_place_strided(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    return {"X": xp.where(xp.arange(s["N"]) % 2 == 0, wrapped(xp, x * 3 + 1), x)}


@formula("shift")
def shift(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(xp.concat([xp.full((1,), 0.0), v["X"]], 0)[: s["N"]], n=0)}


@formula("shift_in_place")
def shift_in_place(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"X": Out(xp.concat([xp.full((1,), -1.0), v["X"]], 0)[: s["N"]], n=0)}


@formula("parallel_rows")
def parallel_rows(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    t = total(xp, x, 1)
    return {"S": t, "Y": Out(x - t.value[:, None], abs(x) + t.scale[:, None], s["N"])}


@formula("parallel_points")
def parallel_points(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    after = xp.concat([x, xp.full((1,), 7, "i64")], 0)[1:]
    return {"Y": xp.where(xp.arange(s["N"]) % 2 == 1, wrapped(xp, x + after), v["Y"])}


@formula("reshape_heads")
def reshape_heads(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"] * v["W"]
    return {"Y": Out(x / xp.sqrt(xp.sum(x * x, 2, True)), n=s["D"])}


@formula("narrow_round_trip")
def narrow_round_trip(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(xp.rounded(v["X"], "f16") * 2.0, n=0)}


@formula("constexpr_epsilon")
def constexpr_epsilon(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    eps, x = 1e-6 if s["mode"] == "small" else 1e-3, v["X"]
    ms = xp.sum(x * x, 1, True) / max(s["N"], 1)
    return {"Y": Out(x / (xp.sqrt(ms + eps) if s["inside"] else xp.sqrt(ms) + eps), n=s["N"])}


@formula("integer_mix")
def integer_mix(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    y = (x // 7) * 16 + (x % -5) - (x >> 3) + ((x & 0xFF) ^ (x << 2))
    return {"Y": wrapped(xp, y), "Z": ((x & 0xFF) >> 1) | 0x80}


@formula("column_scale")
def column_scale(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x, outer = xp.flip(v["X"], 1), v["U"][:, None] * v["V"]
    return {"Y": Out(x + outer, abs(x) + abs(outer))}
