"""Enclosures of folds and scans over slices: several cuts followed with the reals enclosed (derivation: docs/numerics.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from eqkir.kir import interval
from eqkir.kir import machine_regions as regions
from eqkir.kir.envelope_generic import hull
from eqkir.kir.envelope_machine import Enveloper, rule
from eqkir.kir.interval import joined, plain
from eqkir.kir.machine import Record

#: slices of the finest cut that is followed
MOST = 64
Followed = Callable[[Any, Any, regions.Cuts, str], list[Any]]


def _follow(m: Enveloper, op: Any, evaluate: Followed) -> None:
    """The hull over one slice, slices of about √n points in a balanced tree, and single points (or `MOST` slices) from the left."""
    n = m.domains[op.domain].length
    if n == 0:
        values = evaluate(m, op, [], "plain")
    else:
        cuts: list[tuple[regions.Cuts, str]] = [([(0, n)], "plain")]
        if n > 1:
            cuts += [(regions.blocks(n, max(2, math.isqrt(n))), "pairwise"), (regions.blocks(n, -(-n // MOST)), "plain")]
        with interval.enclosing_reals():
            ways = [evaluate(m, op, c, order) for c, order in cuts]
        values = [_hull(vs) for vs in zip(*ways, strict=True)]
    m.env.update(zip(op.results, values, strict=True))


def _hull(ways: Sequence[Any]) -> Any:
    first = ways[0]
    if isinstance(first, Record):
        return Record(first.names, tuple(_hull([w.fields[k] for w in ways]) for k in range(len(first.fields))))
    return hull(joined(*(plain(w) for w in ways)))


@rule("region_fold")
def region_fold(m: Enveloper, op: Any) -> None:
    _follow(m, op, regions.fold)


@rule("region_scan")
def region_scan(m: Enveloper, op: Any) -> None:
    _follow(m, op, regions.scan)
