"""Small symbol assignments for tests, a kernel at a time: 1, primes, non powers of two, zero, and one beyond 32."""

from __future__ import annotations

from typing import Any

from corpus.cases import DATA, FREE, ROWS, UNORDERED
from corpus.cases import SCALARS as OWN
from eqkir.kir.model import Constexpr, Kernel, Scalar, View

#: by the tuple of a kernel's symbols
TEST: dict[tuple[str, ...], list[tuple[int, ...]]] = {
    ("N",): [(1,), (7,), (130,), (0,), (1031,)],
    ("M", "N"): [(1, 1), (3, 17), (5, 130), (13, 1), (0, 7), (4, 0), (33, 40)],
    ("M", "N", "L"): [(1, 1, 1), (3, 17, 29), (0, 5, 11), (5, 33, 0), (7, 0, 3)],
    ("A", "B", "C"): [(1, 1, 1), (3, 7, 19), (5, 33, 2), (2, 3, 130), (37, 2, 3), (0, 3, 5), (3, 0, 5), (3, 5, 0)],
    ("M", "N", "K"): [(1, 1, 1), (19, 23, 17), (33, 40, 35), (3, 5, 0), (0, 4, 7), (17, 1, 50)],
    ("M", "K"): [(1, 1), (19, 17), (33, 47), (5, 0), (0, 7), (3, 257)],
    ("P", "M", "N", "K"): [(1, 1, 1, 1), (3, 5, 7, 11), (2, 17, 19, 23), (2, 3, 4, 0), (0, 3, 5, 2), (1, 33, 34, 35)],
    ("T", "H", "D", "E"): [(1, 1, 1, 1), (5, 3, 7, 11), (17, 2, 19, 16), (3, 2, 0, 4), (0, 2, 5, 3), (33, 1, 34, 35)],
    ("T", "H", "D"): [(1, 1, 1), (5, 3, 7), (2, 4, 33), (0, 2, 3), (3, 0, 2), (3, 2, 0)],
}
#: run-time scalars of tests
SCALARS: dict[str, float | int] = {
    "eps": 1e-5, "scale": 0.35, "seed": 0x9E3779B97F4A7C15, "p": 0.25, "rate": 0.01, "momentum": 0.9, "decay": 0.1, "beta1": 0.9,
    "beta2": 0.99, "c1": 0.19, "c2": 0.0199, "mass": 0.6,
}  # fmt: skip


def shapes_of(k: Kernel) -> list[dict[str, int]]:
    """The assignments of a kernel's symbols that satisfy their declared ranges."""
    names = tuple(s.id for s in k.symbols)
    rows = [dict(zip(names, row, strict=True)) for row in ROWS.get(k.name) or TEST[names]]
    limits = {s.id: s.max for s in k.symbols if s.max is not None}
    clipped = [{n: min(v, limits.get(n, v)) for n, v in row.items()} for row in rows]
    return [row for i, row in enumerate(clipped) if row not in clipped[:i]]


def entry_of(k: Kernel) -> dict[str, Any]:
    """What `tests/corpus_shapes.json` holds for one kernel."""
    given = {**SCALARS, **OWN.get(k.name, {})}
    scalars = {p.id: given[p.id] for p in k.params if isinstance(p, Scalar)}
    constexprs = {p.id: values(p) for p in k.params if isinstance(p, Constexpr)}
    views = {p.id: {"role": p.role, "dtype": p.dtype, "shape": list(p.shape)} for p in k.params if isinstance(p, View)}
    special = {"data": DATA.get(k.name, {}), "unordered": UNORDERED.get(k.name, []), "free": FREE.get(k.name, [])}
    return {"test": shapes_of(k), "scalars": scalars, "constexprs": constexprs, **special, "views": views}


def values(p: Constexpr) -> list[Any]:
    """The values of a constexpr in tests."""
    return list(p.choices) if p.choices else [True, False] if p.type == "bool" else [p.default]
