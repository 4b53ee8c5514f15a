"""Contents of views for tests, from the entries of `corpus.cases` (in the JSON of test shapes under ``data``).

An entry of a view is one of
    {"offsets": n}            nondecreasing, from 0 to n
    {"below": n}              0 .. n - 1
    {"upto": n}               0 .. n
    {"around": n}             -1 .. n: now and then outside 0 .. n - 1
    {"distinct": n}           0 .. n - 1 in some order, a few replaced by -1
    {"range": [a, b]}         integers a .. b
    {"uniform": [a, b]}       floats
    {"falling": d}            running sums along the last axis of numbers in [-d, 0]
    {"places": 4}             two increasing places of four, along the last axis of two
    {"places_of": X}          exclusive sums over the rows of X of the number of nonzero elements
    {"probabilities": …}      rows of positive numbers with sum 1, descending
    {"matrix": "positive"}    symmetric positive definite; "lower": triangular, well conditioned
    {"records": format}       q4_K or q8_K records
where n is an extent. Raises ValueError for anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eqkir.base.dtypes import NUMPY
from eqkir.base.expr import evaluate
from eqkir.kir.model import Kernel, View, extent_expr

Array = np.ndarray[Any, np.dtype[Any]]


def overrides(kernel: Kernel, data: Mapping[str, Any], symbols: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Contents of the views that `data` names, at these extents."""
    rng = np.random.default_rng([seed, 77])
    views = {p.id: p for p in kernel.params if isinstance(p, View)}
    out: dict[str, Array] = {}
    for name, how in data.items():
        p = views[name]
        shape = tuple(e if isinstance(e, int) else symbols[e] for e in p.shape)
        ((kind, what),) = how.items()
        out[name] = _make(kind, what, shape, rng, symbols, out).astype(NUMPY[p.dtype])
    return out


def _make(
    kind: str, what: Any, shape: tuple[int, ...], rng: np.random.Generator, symbols: Mapping[str, int], made: Mapping[str, Array]
) -> Array:
    n = int(evaluate(extent_expr(what), symbols)) if kind in ("offsets", "below", "upto", "around", "distinct", "permuted") else 0
    match kind:
        case "offsets":
            inner = np.sort(rng.integers(0, n + 1, max(shape[0] - 2, 0)))
            return np.concatenate([[0], inner, [n]])[: shape[0]] if shape[0] > 1 else np.zeros(shape[0])
        case "below":
            return rng.integers(0, max(n, 1), shape)
        case "upto":
            return rng.integers(0, n + 1, shape)
        case "around":
            return rng.integers(-1, n + 1, shape)
        case "distinct":
            order = rng.permutation(n)
            return np.where(rng.random(n) < 0.1, -1, order)
        case "permuted":
            return rng.permutation(n)
        case "range":
            return rng.integers(what[0], what[1], shape, endpoint=True)
        case "uniform":
            return rng.uniform(what[0], what[1], shape)
        case "falling":
            return np.cumsum(rng.uniform(-what, 0.0, shape), axis=-1)
        case "places":
            pairs = np.array([(a, b) for a in range(what) for b in range(a + 1, what)])
            chosen: Array = pairs[rng.integers(0, len(pairs), shape[:-1])]
            return chosen
        case "places_of":
            counts: Array = np.count_nonzero(made[what], axis=1)
            return np.cumsum(counts) - counts
        case "probabilities":
            x = -np.sort(-rng.uniform(0.01, 1.0, shape), axis=-1)
            share: Array = x / x.sum(axis=-1, keepdims=True) if x.size else x
            return share
        case "matrix":
            x = rng.normal(size=shape)
            wide = shape[-1] * np.eye(shape[-1])
            return x @ np.swapaxes(x, -1, -2) + wide if what == "positive" else np.tril(x) + wide
        case "records":
            return _q4_k(shape, rng) if what == "q4_K" else _q8_k(shape, rng)
    raise ValueError(f"unknown contents {kind}")


def _q4_k(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Random scales, minima and nibbles under moderate f16 factors."""
    raw = rng.integers(0, 256, shape).astype(np.uint8)
    factors = rng.uniform(0.001, 0.05, (*shape[:-1], 2)).astype("<f2")
    raw[..., :4] = factors.view(np.uint8).reshape(*shape[:-1], 4)
    return raw


def _q8_k(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Records with consistent sums of sixteen."""
    lead = shape[:-1]
    q = rng.integers(-127, 128, (*lead, 256)).astype(np.int8)
    sums = q.astype("<i2").reshape(*lead, 16, 16).sum(axis=-1).astype("<i2")
    scale = rng.uniform(0.001, 0.1, (*lead, 1)).astype("<f4")
    parts = [scale.view(np.uint8).reshape(*lead, 4), q.view(np.uint8), sums.view(np.uint8).reshape(*lead, 32)]
    return np.concatenate(parts, axis=-1)
