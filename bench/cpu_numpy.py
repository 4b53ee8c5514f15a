"""What eqkir's native kernels are timed beside, in numpy: each peer prepares its temporaries and returns the call that is timed, which
writes the outputs in place (``out=``) and allocates as little as numpy lets it. Neither is the reference of anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = dict[str, Any]
Peer = Callable[[Arrays, dict[str, Any]], Callable[[], None]]
PEERS: dict[str, Peer] = {}


def peer(*names: str) -> Callable[[Peer], Peer]:
    """Register a peer under the names of kernels."""

    def register(f: Peer) -> Peer:
        for n in names:
            PEERS[n] = f
        return f

    return register


@peer("relu_f32")
def relu(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    return lambda: np.maximum(v["X"], np.float32(0), out=v["Y"])


@peer("swish_f32")
def swish(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    def go() -> None:
        y = v["Y"]
        np.negative(v["X"], out=y)
        np.exp(y, out=y)
        y += 1
        np.divide(v["X"], y, out=y)

    return go


@peer("gelu_tanh_f32")
def gelu_tanh(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    def go() -> None:
        x, y = v["X"], v["Y"]
        np.multiply(x, x, out=y)
        y *= np.float32(0.044715)
        y += 1
        y *= x
        y *= np.float32(math.sqrt(2 / math.pi))
        np.tanh(y, out=y)
        y += 1
        y *= x
        y *= np.float32(0.5)

    return go


@peer("softmax_f32")
def softmax(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    m = np.empty((v["X"].shape[0], 1), np.float32)

    def go() -> None:
        y = v["Y"]
        np.max(v["X"], axis=1, keepdims=True, out=m)
        np.subtract(v["X"], m, out=y)
        np.exp(y, out=y)
        np.sum(y, axis=1, keepdims=True, out=m)
        y /= m

    return go


@peer("log_softmax_f32")
def log_softmax(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    m, t = np.empty((v["X"].shape[0], 1), np.float32), np.empty_like(v["X"])

    def go() -> None:
        y = v["Y"]
        np.max(v["X"], axis=1, keepdims=True, out=m)
        np.subtract(v["X"], m, out=y)
        np.exp(y, out=t)
        np.sum(t, axis=1, keepdims=True, out=m)
        np.log(m, out=m)
        y -= m

    return go


@peer("batch_norm_infer_f32")
def batch_norm(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    def go() -> None:
        scale = v["W"] / np.sqrt(v["variance"] + np.float32(s["eps"]))
        np.multiply(v["X"], scale[:, None], out=v["Y"])
        v["Y"] += (v["B"] - v["mean"] * scale)[:, None]

    return go


def _standardise(x: Any, y: Any, axes: tuple[int, ...], eps: float, square: Any) -> None:
    np.subtract(x, np.mean(x, axis=axes, keepdims=True), out=y)
    np.multiply(y, y, out=square)
    y /= np.sqrt(np.mean(square, axis=axes, keepdims=True) + np.float32(eps))


@peer("group_norm_f32")
def group_norm(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    t = np.empty_like(v["X"])

    def go() -> None:
        _standardise(v["X"], v["Y"], (2, 3), s["eps"], t)
        v["Y"] *= v["W"][:, :, None]
        v["Y"] += v["B"][:, :, None]

    return go


@peer("instance_norm_f32")
def instance_norm(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    t = np.empty_like(v["X"])
    return lambda: _standardise(v["X"], v["Y"], (2, 3), s["eps"], t)


def _reduction(f: Callable[..., Any], axis: int | tuple[int, ...]) -> Peer:
    return lambda v, s: lambda: f(v["X"], axis=axis, out=v["Y"])


PEERS |= {
    "global_max_pool_f32": _reduction(np.max, (2, 3)), "sum_inner_f32": _reduction(np.sum, 2), "sum_middle_f32": _reduction(np.sum, 1),
    "sum_outer_f32": _reduction(np.sum, 0), "mean_inner_f32": _reduction(np.mean, 2), "max_inner_f32": _reduction(np.max, 2),
    "max_outer_f32": _reduction(np.max, 0), "prod_inner_f32": _reduction(np.prod, 2), "argmax_inner_f32": _reduction(np.argmax, 2),
    "cumsum_f32": _reduction(np.cumsum, 1), "cummax_f32": _reduction(np.maximum.accumulate, 1),
    "gemm_f32": lambda v, s: lambda: np.matmul(v["A"], v["B"], out=v["Y"]),
    "add_in_place": lambda v, s: lambda: np.add(v["X"], np.float32(1), out=v["X"]),
    "transpose_add_f32": lambda v, s: lambda: np.add(v["A"], v["B"].T, out=v["Y"]),
}  # fmt: skip


@peer("variance_f32")
def variance(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    t = np.empty_like(v["X"])

    def go() -> None:
        np.mean(v["X"], axis=1, out=v["U"])
        np.subtract(v["X"], v["U"][:, None], out=t)
        np.multiply(t, t, out=t)
        np.mean(t, axis=1, out=v["Y"])

    return go


@peer("adamw_f32")
def adamw(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    f = {n: np.float32(x) for n, x in s.items() if isinstance(x, float)}
    t, u = np.empty_like(v["W"]), np.empty_like(v["W"])

    def go() -> None:
        w, m, k, g = v["W"], v["M"], v["V"], v["G"]
        m *= f["beta1"]
        np.multiply(g, 1 - f["beta1"], out=t)
        m += t
        k *= f["beta2"]
        np.multiply(g, g, out=t)
        np.multiply(t, 1 - f["beta2"], out=t)
        k += t
        np.divide(k, f["c2"], out=t)
        np.sqrt(t, out=t)
        np.add(t, f["eps"], out=t)
        np.divide(m, f["c1"], out=u)
        np.divide(u, t, out=t)
        np.multiply(t, f["rate"], out=t)
        w *= 1 - f["rate"] * f["decay"]
        w -= t

    return go


@peer("sgd_momentum_f32")
def sgd(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    rate, momentum, decay = (np.float32(s[n]) for n in ("rate", "momentum", "decay"))
    t = np.empty_like(v["W"])

    def go() -> None:
        w, m = v["W"], v["M"]
        np.multiply(w, decay, out=t)
        np.add(t, v["G"], out=t)
        m *= momentum
        m += t
        if s.get("nesterov"):
            np.add(t, momentum * m, out=t)
            np.multiply(t, rate, out=t)
        else:
            np.multiply(m, rate, out=t)
        w -= t

    return go


@peer("three_reductions")
def three(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    def go() -> None:
        np.sum(v["X"], axis=1, out=v["S"])
        np.max(v["X"], axis=0, out=v["T"])
        np.multiply(v["X"], np.float32(0.5), out=v["Y"])

    return go


@peer("column_scale")
def column_scale(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    def go() -> None:
        np.multiply(v["U"][:, None], v["V"], out=v["Y"])
        np.add(v["X"][:, ::-1], v["Y"], out=v["Y"])

    return go


@peer("integer_mix")
def integer_mix(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    t, u = np.empty_like(v["X"]), np.empty_like(v["X"])

    def go() -> None:
        x, y, z = v["X"], v["Y"], v["Z"]
        np.floor_divide(x, 7, out=y)
        y *= 16
        np.remainder(x, -5, out=t)
        y += t
        np.right_shift(x, 3, out=t)
        y -= t
        np.bitwise_and(x, 0xFF, out=t)
        np.left_shift(x, 2, out=u)
        np.bitwise_xor(t, u, out=t)
        y += t
        np.copyto(z, x, casting="unsafe")
        np.right_shift(z, 1, out=z)
        np.bitwise_or(z, 0x80, out=z)

    return go


@peer("sign_and_fma")
def sign_and_fma(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    def go() -> None:
        y = v["Y"]
        y *= v["X"]
        y += 1
        np.copysign(y, v["X"], out=y)

    return go


@peer("pairwise_distance_f32")
def pairwise(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    def go() -> None:
        x, c, y = v["X"], v["C"], v["Y"]
        np.matmul(x, c.T, out=y)
        y *= -2
        y += np.einsum("ij,ij->i", x, x)[:, None]
        y += np.einsum("ij,ij->i", c, c)
        np.maximum(y, 0, out=y)
        np.sqrt(y, out=y)

    return go


@peer("two_outputs")
def two_outputs(v: Arrays, s: dict[str, Any]) -> Callable[[], None]:
    def go() -> None:
        np.multiply(v["X"], np.float32(2), out=v["Y"])
        np.exp(v["U"], out=v["V"])

    return go
