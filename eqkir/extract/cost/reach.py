"""Which own axes and which order classes a class can be used under: what makes a load shared between instances."""

from __future__ import annotations

from eqkir.extract.features import order_labels
from eqkir.extract.graph import FrozenGraph
from eqkir.program.abi import axis_of


def segment_labels(graph: FrozenGraph) -> dict[tuple[int, int], tuple[str, ...]]:
    """(class, alternative) of every ``Seg`` -> its instance labels."""
    memo: dict[int, tuple[str, ...]] = {}
    out = {}
    for c, ns in enumerate(graph.classes):
        for j, n in enumerate(ns):
            if n.op == "Seg":
                t = next(k for k in n.kids if graph.sorts[k] == "T")
                if t not in memo:
                    memo[t] = order_labels(graph, t)
                out[c, j] = memo[t]
    return out


def instance_axes(graph: FrozenGraph, segments: dict[tuple[int, int], tuple[str, ...]]) -> list[frozenset[str]]:
    """For every class the instance axes of all segments that may use it."""
    names = sorted({axis_of(x) for ls in segments.values() for x in ls})
    bit = {a: 1 << i for i, a in enumerate(names)}
    mask = [0] * len(graph.classes)
    masks = {ls: sum(bit[a] for a in {axis_of(x) for x in ls}) for ls in set(segments.values())}
    for (c, j), ls in segments.items():
        for k in graph.classes[c][j].kids:
            mask[k] |= masks[ls]
    kids = graph.operands
    changed = True
    while changed:  # users mostly have smaller numbers than what they use
        changed = False
        for c, ks in enumerate(kids):
            m = mask[c]
            for k in ks if m else ():
                if mask[k] | m != mask[k]:
                    mask[k] |= m
                    changed = changed or k < c
    axes = {m: frozenset(a for a in names if m & bit[a]) for m in set(mask)}
    return [axes[m] for m in mask]
