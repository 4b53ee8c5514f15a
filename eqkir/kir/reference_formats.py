"""Reference evaluators of operations on encoded numbers (`kir.encodings`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqkir.kir import elementwise, encodings
from eqkir.kir.floats import Array
from eqkir.kir.reference_machine import Reference, rule
from eqkir.kir.reference_structured import product


def decoded(m: Reference, op: Any) -> tuple[Array, Array]:
    """The scaled operands as ``[B, M, G C]`` and ``[B, G C, N]``."""
    lhs = encodings.elements(m.env[op.lhs], op.lhs_format, 3) * encodings.scale(m.env[op.lhs_scale])[..., None]
    rhs = encodings.elements(m.env[op.rhs], op.rhs_format, 2) * encodings.scale(m.env[op.rhs_scale])[:, :, None]
    k = lhs.shape[2] * lhs.shape[3]
    return lhs.reshape(*lhs.shape[:2], k), rhs.reshape(rhs.shape[0], k, rhs.shape[3])


@rule("scaled_contract")
def scaled_contract(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = product(m, *decoded(m, op), "f32")


@rule("sparse_contract")
def sparse_contract(m: Reference, op: Any) -> None:
    """Row by row: the present elements of lhs with the members of rhs that they belong to."""
    lhs, rhs = (elementwise.cast(m.env[x], op.acc) for x in (op.lhs, op.rhs))
    present = chosen(encodings.places(m.env[op.meta], op.pattern), rhs)  # [B, M, K / 2, N]
    out = product(m, lhs[:, :, None, :], present, op.acc)
    m.env[op.results[0]] = out[:, :, 0, :]


def chosen(places: Array, rhs: Array) -> Array:
    """``[B, M, J]`` places and ``[B, K, N]`` to ``[B, M, J, N]``."""
    batch = max(places.shape[0], rhs.shape[0])
    lanes = np.arange(batch)[:, None, None]
    out: Array = rhs[lanes if rhs.shape[0] > 1 else np.zeros_like(lanes), np.broadcast_to(places, (batch, *places.shape[1:]))]
    return out


@rule("quantize")
def quantize(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = encodings.quantize_q8k(m.env[op.x])


def quantized(x: Array, y: Array) -> Array:
    """`encodings.dot_q4k_q8k` with a batch axis in front."""
    rank = max(x.ndim, y.ndim)
    x, y = (a.reshape(a.shape[0], *[1] * (rank - a.ndim), *a.shape[1:]) for a in (x, y))
    return encodings.dot_q4k_q8k(x, y)


@rule("quantized_dot")
def quantized_dot(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = quantized(m.env[op.lhs], m.env[op.rhs])
