"""Reference evaluators: folds and scans over slices, cut as `Choices.slices` says."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqkir.kir import machine_regions as regions
from eqkir.kir.reference_machine import Reference, rule


def cuts(m: Reference, n: int) -> regions.Cuts:
    """The chosen slices of n points."""
    if n == 0:
        return []
    if m.choices.slices == "single":
        return regions.single(n)
    if m.choices.slices == "one":
        return [(0, n)]
    inner = np.flatnonzero(m.rng.random(n - 1) < m.rng.uniform(0.1, 0.9)) + 1
    ends = [0, *inner.tolist(), n]
    return list(zip(ends, ends[1:], strict=False))


@rule("region_fold")
def region_fold(m: Reference, op: Any) -> None:
    states = regions.fold(m, op, cuts(m, m.domains[op.domain].length), m.choices.order)
    m.env.update(zip(op.results, states, strict=True))


@rule("region_scan")
def region_scan(m: Reference, op: Any) -> None:
    values = regions.scan(m, op, cuts(m, m.domains[op.domain].length), m.choices.order)
    m.env.update(zip(op.results, values, strict=True))
