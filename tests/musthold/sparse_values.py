"""What the elements of huge views hold; shared by the worker and the tests, so that tests need not import the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
#: a stride that 32 bits do not hold
BIG = (1 << 31) + 9


def element(n: Array) -> Array:
    """Element number n: a small number, exact in f32."""
    return ((n * 40503) % 257 - 128) / 16.0


def spread(shape: tuple[int, ...], axis: int, step: int) -> tuple[int, ...]:
    """Strides of which one passes 2**31 (or its negative); the others leave room."""
    out, reach = [], 1
    for k in reversed(range(len(shape))):
        s = step if k == axis else reach
        out.append(s)
        reach = reach if k == axis else reach * max(1, shape[k])
    return tuple(reversed(out))
