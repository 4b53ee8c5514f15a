"""Encoded numbers, bit by bit (kir.md section 6): e2m1, e8m0, e4m3, and the records q8_K and q4_K."""

from __future__ import annotations

from typing import Final

import numpy as np

from eqkir.base.dtypes import NUMPY
from eqkir.kir.floats import Array
from eqkir.kir.reference_codes import Trap

_E2M1: Final = np.asarray([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
Q8K: Final = 292
Q4K: Final = 144


def e2m1(codes: Array) -> Array:
    """u8 ``[..., C]``, two codes a byte, low nibble first, to f32 ``[..., 2 C]``."""
    nibbles = np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], 2 * codes.shape[-1])
    size = _E2M1[nibbles & 7]
    return np.asarray(np.where(nibbles & 8, -size, size))


def e4m3(codes: Array) -> Array:
    """u8 codes or f8e4m3fn values to f32."""
    return np.ascontiguousarray(codes).view(NUMPY["f8e4m3fn"]).astype(np.float32)


def scale(s: Array) -> Array:
    """A scale as f32: itself, or e8m0 codes (2^(c - 127); 255 is NaN)."""
    if s.dtype == np.float32:
        return s
    return np.where(s == 255, np.float32(np.nan), np.ldexp(np.float64(1), s.astype(np.int32) - 127)).astype(np.float32)


def elements(codes: Array, fmt: str, packed_axis: int) -> Array:
    """Decoded elements of a block-scaled operand as f32; two e2m1 codes share a byte along `packed_axis`."""
    if fmt == "e4m3":
        return e4m3(codes)
    return np.moveaxis(e2m1(np.moveaxis(codes, packed_axis, -1)), -1, packed_axis)


# ------------------------------------------------------------------------------------------------ sparse operands
def places(meta: Array, pattern: str) -> Array:
    """Which of the K members the present elements ``[..., M, K / 2]`` are. Traps on metadata that names no place."""
    j = np.arange(meta.shape[-1])
    size = 2 if pattern == "one_of_two" else 4
    if bool((meta >= size).any()):
        raise Trap("METADATA", f"place {int(meta.max())} in a group of {size}")
    if size == 4 and bool((meta[..., 0::2] >= meta[..., 1::2]).any()):
        raise Trap("METADATA", "the places of a group do not increase")
    return np.asarray(meta.astype(np.int64) + (2 * j if size == 2 else j // 2 * 4))


# ------------------------------------------------------------------------------------------------ q8_K
def extreme(x: Array) -> Array:
    """f32 ``[..., 256]`` to ``[...]``: the signed value of largest magnitude, the smaller one on ties."""
    top = np.abs(x).max(-1)
    return np.where((x.min(-1) == -top), -top, top).astype(np.float32)


def quantize_q8k(x: Array) -> Array:
    """f32 ``[..., 256]`` to records ``[..., 292]`` of u8. Traps where a quotient is NaN."""
    top = extreme(x)
    zero = top == 0
    inverse = np.float32(-127) / np.where(zero, np.float32(1), top)
    ds = np.where(zero, np.float32(0), np.float32(1) / inverse)
    v = np.where(zero[..., None], np.float32(0), x * inverse[..., None])
    if bool(np.isnan(v).any()) or bool(np.isnan(x).any()):
        raise Trap("CAST", "q8_K of NaN or of an infinity")
    q = np.clip(np.rint(v), -128, 127).astype(np.int8)
    return pack_q8k(ds, q)


def pack_q8k(ds: Array, q: Array) -> Array:
    """Records from scales ``[...]`` and i8 values ``[..., 256]``."""
    bsum = q.reshape(*q.shape[:-1], 16, 16).sum(-1, dtype=np.int16)
    parts = [(ds[..., None].astype("<f4"), 4), (q, 256), (bsum.astype("<i2"), 32)]
    return np.concatenate([np.ascontiguousarray(p).view(np.uint8).reshape(*q.shape[:-1], size) for p, size in parts], -1)


def unpack_q8k(records: Array) -> tuple[Array, Array, Array]:
    """``[..., 292]`` to scales f32 ``[...]``, values i64 ``[..., 256]``, sums i64 ``[..., 16]``."""
    r = np.ascontiguousarray(records)
    lead = r.shape[:-1]
    ds = np.ascontiguousarray(r[..., :4]).view("<f4").reshape(lead)
    bsum = np.ascontiguousarray(r[..., 260:]).view("<i2").reshape(*lead, 16)
    return ds.astype(np.float32), r[..., 4:260].view(np.int8).astype(np.int64), bsum.astype(np.int64)


# ------------------------------------------------------------------------------------------------ q4_K
def unpack_q4k(records: Array) -> tuple[Array, Array, Array, Array, Array]:
    """``[..., 144]`` to d, dmin (f32 ``[...]``), scales, mins (i64 ``[..., 8]``), weights (i64 ``[..., 256]``)."""
    r = np.ascontiguousarray(records)
    d, dmin = (np.ascontiguousarray(r[..., k : k + 2]).view("<f2").reshape(r.shape[:-1]).astype(np.float32) for k in (0, 2))
    b = r[..., 4:16].astype(np.int64)
    low, mid, high = b[..., 0:4], b[..., 4:8], b[..., 8:12]
    sc = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], -1)
    mins = np.concatenate([mid & 63, (high >> 4) | (mid >> 6) << 4], -1)
    i = np.arange(256)
    byte = r[..., 16 + 32 * (i // 64) + i % 32].astype(np.int64)
    return d, dmin, sc, mins, np.where(i % 64 < 32, byte & 15, byte >> 4)


def pack_q4k(d: Array, dmin: Array, sc: Array, mins: Array, weights: Array) -> Array:
    """The inverse of `unpack_q4k`; scales and mins below 64, weights below 16."""
    out = np.zeros((*d.shape, Q4K), np.uint8)
    for k, v in ((0, d), (2, dmin)):
        out[..., k : k + 2] = np.ascontiguousarray(v[..., None].astype("<f2")).view(np.uint8)
    out[..., 4:8] = (sc[..., :4] & 63) | (sc[..., 4:] >> 4) << 6
    out[..., 8:12] = (mins[..., :4] & 63) | (mins[..., 4:] >> 4) << 6
    out[..., 12:16] = (sc[..., 4:] & 15) | (mins[..., 4:] & 15) << 4
    w = weights.reshape(*d.shape, 4, 2, 32)
    out[..., 16:] = (w[..., 0, :] | w[..., 1, :] << 4).reshape(*d.shape, 128)
    return out


def dot_q4k_q8k(lhs: Array, rhs: Array) -> Array:
    """Records ``[..., R, 144]`` and ``[..., R, 292]`` (leading axes broadcast) to f32 ``[...]``: every rounding as kir.md states it."""
    d, dmin, sc, mins, w = unpack_q4k(lhs)
    ds, q, bsum = unpack_q8k(rhs)
    s = (sc * (w * q).reshape(*np.broadcast_shapes(w.shape, q.shape)[:-1], 8, 32).sum(-1)).sum(-1)
    t = (mins * bsum.reshape(*bsum.shape[:-1], 8, 2).sum(-1)).sum(-1)
    left, right = ((x.astype(np.float64) * y.astype(np.float64)).astype(np.float32) for x, y in ((d, s), (dmin, t)))  # exact, then R32
    v = ds * (left - right)
    out = np.zeros(v.shape[:-1], np.float32)
    for k in range(v.shape[-1]):
        out = out + v[..., k]
    return out
