"""What the contents of a view can be told to be: one small table of kinds, for kernels whose data must mean something.

An entry is ``{kind: parameter}``, where n is an extent of the kernel (JSON form):

    {"offsets": n}              nondecreasing from 0 to n, along the only axis
    {"below": n}                0 .. n - 1
    {"upto": n}                 0 .. n
    {"around": n}               -1 .. n: now and then outside 0 .. n - 1
    {"distinct": n}             distinct numbers of 0 .. n - 1 in some order, some replaced by -1 (all that find no place are)
    {"permuted": n}             the same without -1
    {"range": [a, b]}           integers a .. b
    {"uniform": [a, b]}         floats
    {"normal": s}               normal floats times s, never special values
    {"falling": d}              running sums along the last axis of numbers in [-d, 0]
    {"places": 4}               two increasing places of four, pairwise along the last axis
    {"places_of": X}            exclusive sums over the rows of the view X of the number of nonzero elements
    {"probabilities": "descending"}   rows of positive numbers with sum 1
    {"matrix": "positive"}      symmetric positive definite; "lower": triangular, well conditioned
    {"records": "q4_K"}         records of a format, or "q8_K"
    {"codes": "e4m3"}           bytes that are numbers of the format
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from eqkir.base.expr import Expr, evaluate
from eqkir.kir import encodings
from eqkir.kir.floats import Array
from eqkir.kir.model import extent_expr

Rng = np.random.Generator
Shape = tuple[int, ...]
Maker = Callable[[Any, Shape, Rng], Array]


def _offsets(n: int, shape: Shape, rng: Rng) -> Array:
    if len(shape) != 1:
        raise ValueError("offsets have one axis")
    inner = np.sort(rng.integers(0, n + 1, max(shape[0] - 2, 0)))
    return np.concatenate([[0], inner, [n]])[: shape[0]] if shape[0] > 1 else np.zeros(shape)


def _distinct(n: int, shape: Shape, rng: Rng) -> Array:
    out = _permuted(n, shape, rng)
    return np.where(rng.random(shape) < 0.1, -1, out)


def _permuted(n: int, shape: Shape, rng: Rng) -> Array:
    count = math.prod(shape)
    order = rng.permutation(n)[:count]
    return np.concatenate([order, np.full(count - len(order), -1)]).reshape(shape)


def _places(n: int, shape: Shape, rng: Rng) -> Array:
    pairs = np.array([(a, b) for a in range(n) for b in range(a + 1, n)])
    chosen: Array = pairs[rng.integers(0, len(pairs), math.prod(shape) // 2)]
    return chosen.reshape(shape)


def _probabilities(_: Any, shape: Shape, rng: Rng) -> Array:
    x = -np.sort(-rng.uniform(0.01, 1.0, shape), axis=-1)
    return np.asarray(x / x.sum(axis=-1, keepdims=True)) if x.size else x


def _matrix(kind: str, shape: Shape, rng: Rng) -> Array:
    x = rng.normal(size=shape)
    wide = shape[-1] * np.eye(shape[-1])
    return np.asarray(x @ np.swapaxes(x, -1, -2) + wide if kind == "positive" else np.tril(x) + wide)


def _records(fmt: str, shape: Shape, rng: Rng) -> Array:
    lead = shape[:-1]
    if fmt == "q8_K":
        return encodings.quantize_q8k(rng.standard_normal((*lead, 256)).astype(np.float32))
    d, dmin = rng.uniform(0.001, 0.05, (2, *lead)).astype(np.float32)
    small = rng.integers(0, 64, (2, *lead, 8))
    return encodings.pack_q4k(d, dmin, small[0], small[1], rng.integers(0, 16, (*lead, 256)))


def _codes(_: str, shape: Shape, rng: Rng) -> Array:
    x = rng.integers(0, 256, shape)
    return np.where(x & 127 == 127, x - 1, x)


#: kinds whose parameter is an extent
SIZED: Final[dict[str, Maker]] = {
    "offsets": _offsets,
    "below": lambda n, s, r: r.integers(0, max(n, 1), s),
    "upto": lambda n, s, r: r.integers(0, n + 1, s),
    "around": lambda n, s, r: r.integers(-1, n + 1, s),
    "distinct": _distinct,
    "permuted": _permuted,
}
OTHER: Final[dict[str, Maker]] = {
    "range": lambda v, s, r: r.integers(v[0], v[1], s, endpoint=True),
    "uniform": lambda v, s, r: r.uniform(v[0], v[1], s),
    "normal": lambda v, s, r: r.standard_normal(s) * v,
    "falling": lambda v, s, r: np.cumsum(r.uniform(-v, 0.0, s), axis=-1),
    "places": _places,
    "probabilities": _probabilities,
    "matrix": _matrix,
    "records": _records,
    "codes": _codes,
}
#: kinds that lose their meaning when elements repeat or special values are sprinkled in
STRUCTURED: Final = ("offsets", "distinct", "permuted", "places", "places_of", "probabilities", "matrix", "records", "falling")


def make(entry: Mapping[str, Any], shape: Shape, rng: Rng, extents: Mapping[str, int], made: Mapping[str, Array]) -> Array:
    """Contents of a view; `made` are those of views before it. Raises ValueError for an unknown kind or parameter."""
    ((kind, what),) = entry.items()
    if kind == "places_of":
        if what not in made:
            raise ValueError(f"places_of names {what!r}, which is no view before it")
        counts = np.count_nonzero(made[what], axis=1)
        return np.asarray(np.cumsum(counts) - counts)
    if kind in SIZED:
        return SIZED[kind](int(evaluate(what if isinstance(what, Expr) else extent_expr(what), extents)), shape, rng)
    if kind not in OTHER:
        raise ValueError(f"unknown contents {kind!r}, one of {sorted([*SIZED, *OTHER, 'places_of'])}")
    return OTHER[kind](what, shape, rng)
