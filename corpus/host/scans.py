"""A segmented scan of one long vector in three kernels."""

from __future__ import annotations

import numpy as np

from corpus.host.launch import Array, Launch


def segmented_sum(launch: Launch, keys: Array, values: Array, parts: int) -> Array:
    """Running sums of `values` (i32) that restart wherever `keys` (i32) changes. The length is a multiple of `parts`."""
    k, x = keys.reshape(parts, -1), values.reshape(parts, -1)
    y, begins = np.empty_like(x), np.empty(parts, np.bool_)
    last, carry = np.empty(parts, np.int32), np.empty(parts, np.int32)
    launch("segmented_parts_i32", K=k, X=x, Y=y, F=begins, S=last)
    launch("segmented_carries_i32", F=begins, S=last, C=carry)
    launch("segmented_apply_i32", K=k, Y=y, C=carry)
    return y.reshape(-1)
