"""Philox4x32-10 as kir.md section 6 defines it (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)."""

from __future__ import annotations

from typing import Final

import numpy as np

from eqkir.kir.floats import Array

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


def philox(seed: Array, counter: Array) -> Array:
    """u32 word ``counter % 4`` of block ``counter // 4``; integers of any dtype, taken mod 2^64, of one shape."""
    k, c = seed.astype(np.uint64), counter.astype(np.uint64)
    block, word = c >> np.uint64(2), (c & np.uint64(3)).astype(np.int64)
    c0, c1 = block & _LOW, block >> _HALF
    c2 = c3 = np.zeros_like(c0)
    k0, k1 = k & _LOW, k >> _HALF
    for i in range(10):
        a, b = _M0 * c0, _M1 * c2
        n0 = (k0 + np.uint64(i * _W0 & 0xFFFFFFFF)) & _LOW
        n1 = (k1 + np.uint64(i * _W1 & 0xFFFFFFFF)) & _LOW
        c0, c1, c2, c3 = (b >> _HALF) ^ c1 ^ n0, b & _LOW, (a >> _HALF) ^ c3 ^ n1, a & _LOW
    return np.choose(word, (c0, c1, c2, c3)).astype(np.uint32)


def uniform(bits: Array) -> Array:
    """f32 in [0, 1): ``(bits >> 8) · 2^-24``, exact."""
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
