"""Positions of nonzero values in three kernels."""

from __future__ import annotations

import numpy as np

from corpus.host.launch import Array, Launch


def nonzero(launch: Launch, x: Array) -> tuple[Array, Array]:
    """Of `x` [parts, length] i32: room for all positions, of which the first n hold those of nonzero values, flat and in order; and the
    counts of the parts, whose sum is n."""
    parts = len(x)
    counts, offsets = np.empty(parts, np.int32), np.empty(parts, np.int32)
    out = np.zeros(x.size, np.int64)
    launch("nonzero_counts_i32", X=x, C=counts)
    launch("nonzero_offsets_i32", C=counts, O=offsets)
    launch("nonzero_positions_i32", X=x, O=offsets, Y=out)
    return out, counts
