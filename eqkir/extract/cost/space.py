"""Program space for costs: which block indices the first program ids of a segment have, for any order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from eqkir.program.model import Order

Ints = NDArray[np.int64]


def size(order: Order, blocks: Mapping[str, int]) -> int:
    """Number of instances."""
    match order[0]:
        case "TUnit":
            return 1
        case "TAx":
            return blocks[order[1]]
        case "TRev" | "TInter":
            return size(order[1], blocks)
    return size(order[1], blocks) * size(order[2], blocks)


def decode(order: Order, lid: Ints, blocks: Mapping[str, int], band: int) -> dict[str, Ints]:
    """Block index of every label for the given positions ``0 <= lid < size`` (the meaning of orders in `program.model`)."""
    match order[0]:
        case "TUnit":
            return {}
        case "TAx":
            return {order[1]: lid}
        case "TRev":
            return decode(order[1], size(order[1], blocks) - 1 - lid, blocks, band)
        case "TInter":
            half = (size(order[1], blocks) + 1) // 2
            return decode(order[1], np.where(lid < half, 2 * lid, 2 * (lid - half) + 1), blocks, band)
    na, nb = max(1, size(order[1], blocks)), max(1, size(order[2], blocks))
    if order[0] == "TProd":
        a, b = lid // nb, lid % nb
    else:  # TSwz: bands of `band` rows of a, inside a band column by column
        first = lid // (band * nb) * band
        height = np.minimum(band, na - first)
        inside = lid - first * nb
        a, b = first + inside % height, inside // height
    return {**decode(order[1], a, blocks, band), **decode(order[2], b, blocks, band)}


def distinct(places: Mapping[str, Ints], labels: tuple[str, ...]) -> int:
    """Distinct tuples of block indices over some labels."""
    used = [places[x] for x in labels if x in places]
    if not used:
        return 1
    key = used[0]
    for u in used[1:]:
        key = key * (int(u.max(initial=0)) + 1) + u
    return len(np.unique(key))
