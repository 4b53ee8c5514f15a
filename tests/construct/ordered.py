"""What tests of constructed programs share: run by brute force, lower conservatively, and go through terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eqkir.analysis.listing import listing
from eqkir.program.abstract import Abstract
from eqkir.program.lower import conservative
from tests.construct.brute import run

rng = np.random.default_rng(7)
_seen: set[int] = set()


def f32(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def close(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def run_all(
    p: Abstract,
    arrays: Mapping[str, np.ndarray],
    symbols: Mapping[str, int] | None = None,
    scalars: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> None:
    """Execute in place by brute force; the program has a conservative realisation."""
    if id(p) not in _seen:
        assert listing(p)
        conservative(p)
        _seen.add(id(p))
    run(p, arrays, symbols, scalars, seed)
