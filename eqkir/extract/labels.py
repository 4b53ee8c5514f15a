"""Labels under all rows at once: lanes, blocks, trips and active lanes as arrays over rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from eqkir.extract.extents import Extents
from eqkir.extract.graph import Path
from eqkir.extract.narrowed import Between, Count
from eqkir.extract.rows import Row
from eqkir.program.abi import STEPS, Axis, axis_of, narrowed, parameter, step_parameter, traversal, wide
from eqkir.program.dag import FN

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
#: traversals without blocks or iterations of their own
INSIDE = frozenset({"W", "SW", "M1", "MC", "MW"})


class LabelTable:
    """Facts of labels, each an array with one value a row (float64). Extents are estimates except in `covers`."""

    def __init__(
        self, axes: Iterable[Axis], rows: Sequence[Row], extents: Extents, warp_size: int,
        between: Mapping[str, Between] | None = None,
    ) -> None:  # fmt: skip
        self.axes = {a.name: a for a in axes}
        self.rows = list(rows)
        self.extents = extents
        self.between = between or {}
        self.n = len(self.rows)
        self._values = [r.values for r in self.rows]
        self.ones: Floats = np.ones(self.n)
        self.threads: Floats = np.array([r.warps * warp_size for r in self.rows], float)
        self.stages: Floats = np.array([r.launch.get("num_stages", 1) for r in self.rows], float)
        self._lanes: dict[str, Floats] = {}
        self._products: dict[tuple[str, tuple[str, ...]], Floats] = {}
        self._trips: dict[tuple[Path, tuple[str, ...]], Floats] = {}

    def lanes(self, label: str) -> Floats:
        """Fragment lanes; 1 for scalar traversals, 0 where a row leaves the parameter unbound or the axis is not known."""
        if label not in self._lanes:
            p = parameter(label)
            known = axis_of(label) in self.axes
            self._lanes[label] = np.array([float(v.get(p, 0)) for v in self._values]) if p and known else self.ones * known
        return self._lanes[label]

    def extent(self, label: str) -> float:
        """The estimated extent of the label's axis, at least 1."""
        a = self.axes.get(axis_of(label))
        return float(max(1, self.extents.estimate(a.extent))) if a else 1.0

    def step(self, label: str) -> Floats:
        """Elements that one block or iteration covers; 0 where a row leaves the parameter unbound."""
        p = step_parameter(label) if traversal(label) in STEPS else parameter(label)
        return np.array([float(v.get(p, 0)) for v in self._values]) if p else self.ones

    def pieces(self, label: str) -> Floats:
        """Blocks (own) or iterations (loops) that cover the axis; 1 for fragments that cover it and for members of a slice."""
        if traversal(label) in INSIDE:
            return self.ones
        with np.errstate(divide="ignore"):
            return np.asarray(np.ceil(self.extent(label) / self.step(label)))

    def steps(self, label: str, around: Iterable[str]) -> Floats:
        """Expected iterations of a loop: fewer than its pieces between bounds. `around`: labels of the work that it does and of the loops
        that it stands in; an axis that they do not speak of counts as owned in blocks."""
        every = self.pieces(label)
        if not narrowed(label) or axis_of(label) not in self.between:
            return every
        known = {**{axis_of(t): t for t in around}, axis_of(label): label}
        expected = self.between[axis_of(label)]
        if any(narrowed(known[a]) for a in expected.loops if a in known and a != axis_of(label)):
            expected = replace(expected, loops=())  # the loop around takes the steps that count

        def pieces(a: str) -> Count:
            found = self.pieces(known.get(a, f"{a}:OB"))
            return np.where(np.isfinite(found), found, self.extent(a))

        return np.asarray(expected.steps(self.step(label), every, pieces)) * self.ones

    def active(self, label: str) -> Floats:
        """Lanes that hold members of the axis, averaged over its pieces."""
        if traversal(label) in INSIDE:
            return np.minimum(self.lanes(label), self.extent(label))
        return np.minimum(self.lanes(label), self.extent(label) / self.pieces(wide(label)))

    def covers(self, label: str) -> Bools:
        """Whether a fragment over a whole axis (``W``, ``MW``) is known to cover the extent; True for other labels."""
        if traversal(label) not in ("W", "MW"):
            return np.ones(self.n, bool)
        a = self.axes.get(axis_of(label))
        bound = self.extents.bound(a.extent) if a else None
        return self.lanes(label) >= (inf if bound is None else bound)

    def product(self, fact: str, labels: tuple[str, ...]) -> Floats:
        """Product of a fact (``lanes``, ``active`` or ``pieces``) over labels."""
        key = (fact, labels)
        if key not in self._products:
            out = self.ones
            for x in labels:
                out = out * getattr(self, fact)(x)
            self._products[key] = out
        return self._products[key]

    def trips(self, path: Path | None, labels: tuple[str, ...] = ()) -> Floats:
        """Executions per instance of something over `labels` inside the loops of `path` (1 inside a combine region, which its reduction
        accounts for)."""
        if not path or path == FN:
            return self.ones
        owned = tuple(t for t in labels if traversal(t)[0] == "O") if any(narrowed(t) for _, t, _ in path) else ()
        key = path, owned
        if key not in self._trips:
            around = (*owned, *(t for _, t, _ in path[:-1]))
            self._trips[key] = self.trips(path[:-1], owned) * self.steps(path[-1][1], around)
        return self._trips[key]
