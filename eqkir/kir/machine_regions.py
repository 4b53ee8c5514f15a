"""Folds and scans over slices, for any cut of the domain into slices and any parentheses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqkir.kir import ops
from eqkir.kir.machine import Machine
from eqkir.kir.model import Region

M = Machine[Any]
Fold = ops.RegionFold | ops.RegionScan
Cuts = Sequence[tuple[int, int]]  # positions of slices: they cover the domain in order


def at_slice(m: M, op: Fold, region: Region, name: str, cut: tuple[int, int], between: Sequence[Any] = ()) -> list[Any]:
    """`summarize` or `emit` (its field is `name`) on one slice."""
    start, stop = cut
    m.domains[region.args[0].id] = m.domains[op.domain].slice(start, stop)
    sliced = [
        m.move(lambda a, axis=axis: a[(slice(None),) * (axis + 1) + (slice(start, stop),)], m.env[x])  # type: ignore[misc]
        for x, axis in zip(op.xs, op.axes, strict=True)
    ]
    first = len(region.args) - len(op.captures)
    captured = list(zip(region.args[first:], op.captures, strict=True))
    m.domains.update({a.id: m.domains[c] for a, c in captured if c in m.domains})
    captures = [(a, m.env[c]) for a, c in captured if c not in m.domains]
    m.bind([*region.args[1:first], *(a for a, _ in captures)], [*sliced, *between, *(v for _, v in captures)])
    return m.merged(m.block(region.body, region.yields, f"{m.pointer}/{name}/body"))[1]


def folded(m: M, op: Fold, states: Sequence[list[Any]], order: str) -> list[Any]:
    """`combine` over states, operands in order; parentheses from the left, from the right (``reversed``) or balanced (``pairwise``)."""
    if order == "pairwise" and len(states) > 1:
        half = (len(states) + 1) // 2
        return m.call(op.combine, [*folded(m, op, states[:half], order), *folded(m, op, states[half:], order)])
    if order == "reversed":
        out = states[-1]
        for s in states[-2::-1]:
            out = m.call(op.combine, [*s, *out])
        return out
    out = states[0]
    for s in states[1:]:
        out = m.call(op.combine, [*out, *s])
    return out


def fold(m: M, op: ops.RegionFold, cuts: Cuts, order: str) -> list[Any]:
    """The states of a `region_fold`; of no slice: the identity."""
    if not cuts:
        return [m.env[i] for i in op.identity]
    return folded(m, op, [at_slice(m, op, op.summarize, "summarize", c) for c in cuts], order)


def scan(m: M, op: ops.RegionScan, cuts: Cuts, order: str) -> list[Any]:
    """Outputs and final state of a `region_scan`. The state before a slice is that before the last one and its transition, or with
    ``pairwise`` the first one and all transitions since, combined."""
    init = [m.env[i] for i in op.init]
    if not cuts:
        return [*(m.empty(r) for r in op.results[: len(op.out_axes)]), *init]
    state, parts, before = init, [], [m.env[i] for i in op.identity]
    for c in cuts:
        parts.append(at_slice(m, op, op.emit, "emit", c, state))
        step = at_slice(m, op, op.summarize, "summarize", c)
        if order == "pairwise":
            before = m.call(op.combine, [*before, *step])
            state = m.call(op.apply, [*before, *init], "apply")
        else:
            state = m.call(op.apply, [*step, *state], "apply")
    columns = zip(*parts, strict=True)
    return [*(m.concat(list(vs), axis + 1) for vs, axis in zip(columns, op.out_axes, strict=True)), *state]


def single(n: int) -> Cuts:
    """Slices of one point."""
    return [(i, i + 1) for i in range(n)]


def blocks(n: int, size: int) -> Cuts:
    """Slices of `size` points, the last one shorter."""
    return [(i, min(n, i + size)) for i in range(0, n, size)]
