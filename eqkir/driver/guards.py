"""Arguments in memory with guarded edges: what native code writes beside the memory that it was given shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from eqkir.base.diagnostics import fail
from eqkir.driver import codes
from eqkir.kir.memory import ViewArg

Array = np.ndarray[Any, Any]
#: bytes on either side, a multiple of every alignment
GUARD: Final = 4096
#: what they hold: NaN in every float format, -1 or the largest number in every integer format
FILL: Final = 0xFF


class Guarded:
    """Copies of the memories of `args`, one for each, however many views share it. `arrays`: the views, over the copies."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.blocks: dict[int, tuple[Array, Array]] = {}
        self.arrays: dict[str, Array] = {}
        for name, a in args.items():
            if not isinstance(a, ViewArg):
                continue
            root = _root(a.memory)
            if id(root) not in self.blocks:
                raw = root.reshape(-1).view(np.uint8) if root.size else np.empty(0, np.uint8)
                whole = np.full(raw.size + 2 * GUARD + 64, FILL, np.uint8)
                start = -whole.__array_interface__["data"][0] % 64  # the same alignment every time
                block = whole[start : start + raw.size + 2 * GUARD]
                block[GUARD : GUARD + raw.size] = raw
                self.blocks[id(root)] = raw, block
            raw, block = self.blocks[id(root)]
            if 0 in a.shape:
                self.arrays[name] = np.empty(a.shape, a.memory.dtype)
                continue
            size = a.memory.itemsize
            first = a.memory.__array_interface__["data"][0] - raw.__array_interface__["data"][0] + a.offset * size
            inner = block[GUARD : GUARD + raw.size]
            self.arrays[name] = np.ndarray(a.shape, a.memory.dtype, inner, first, tuple(s * size for s in a.strides))

    def finish(self) -> None:
        """Bring what was written back. Raises EqkirError EQK-RUN-CHECK where something beside a memory was written."""
        for raw, block in self.blocks.values():
            if (block[:GUARD] != FILL).any() or (block[GUARD + raw.size :] != FILL).any():
                raise fail(codes.CHECK, "the kernel writes beside the memory of its views", stage="checks")
            raw[:] = block[GUARD : GUARD + raw.size]


def _root(memory: Array) -> Array:
    """The array that owns the memory: views that share memory share it."""
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    return memory
