"""What the elements of huge views hold; shared by the worker and the tests, so that tests need not import the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def element(n: Array) -> Array:
    """Element number n: a small number, exact in f32."""
    return ((n * 40503) % 257 - 128) / 16.0
