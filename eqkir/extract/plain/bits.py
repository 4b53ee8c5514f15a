"""Sets of classes as Python integers, and sums over them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def members(bits: int) -> Iterator[int]:
    """The set bits, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def weight_of(bits: int, weights: NDArray[np.float64]) -> float:
    """Sum of the weights of the set bits."""
    if not bits:
        return 0.0
    if bits.bit_count() <= 8:
        return float(sum(weights[i] for i in members(bits)))
    n = (bits.bit_length() + 7) // 8
    mask = np.unpackbits(np.frombuffer(bits.to_bytes(n, "little"), np.uint8), bitorder="little")
    m = min(len(mask), len(weights))
    return float(weights[:m][mask[:m].view(bool)].sum())
