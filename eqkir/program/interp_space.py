"""Program space in numbers: which instance a linear id is (the meaning of order terms), which ids a program executes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from eqkir.base.expr import Expr, evaluate
from eqkir.program.abi import axis_of, parameter
from eqkir.program.model import Order, Program, Segment

Array = np.ndarray[Any, np.dtype[Any]]


class Space:
    """A segment under bindings and symbols. `length`: instances; `programs`: how many programs execute them."""

    def __init__(self, program: Program, segment: Segment, symbols: Mapping[str, int]) -> None:
        self.program, self.segment, self.symbols = program, segment, symbols
        self.length = self.size(segment.order)
        cap = program.bindings[f"P:{segment.group}"] if segment.mode == "stride" else self.length
        self.programs = min(self.length, cap)

    def value(self, e: Expr) -> int:
        return int(evaluate(e, lambda a: self.program.bindings[a.args[0]] if a.op == "param" else self.symbols[a.args[0]]))

    def blocks(self, label: str) -> int:
        """Block indices of a label."""
        extent, p = self.value(self.program.axis[axis_of(label)].extent), parameter(label)
        return -(-extent // self.program.bindings[p]) if p else extent

    def size(self, t: Order) -> int:
        if t[0] == "TAx":
            return self.blocks(t[1])
        n = 1
        for x in t[1:]:
            n *= self.size(x)
        return n

    def lids(self, pid: int) -> range:
        """The instances that program `pid` of the segment executes, in order."""
        return range(pid, self.length, self.programs) if self.segment.mode == "stride" else range(pid, pid + 1)

    def decode(self, lids: Array) -> dict[str, Array]:
        """Label -> block index of each linear id (int64)."""
        out: dict[str, Array] = {}
        self._decode(self.segment.order, np.asarray(lids, np.int64), out)
        return out

    def _decode(self, t: Order, lid: Array, out: dict[str, Array]) -> None:
        head = t[0]
        if head == "TAx":
            out[t[1]] = lid
        elif head in _UNARY:
            self._decode(t[1], _UNARY[head](lid, self.size(t[1])), out)
        elif head == "TProd":
            n = max(self.size(t[2]), 1)
            self._decode(t[1], lid // n, out)
            self._decode(t[2], lid % n, out)
        elif head == "TSwz":
            rows, columns = self.size(t[1]), max(self.size(t[2]), 1)
            g = self.program.bindings[f"G:{self.segment.group}"]
            band, inside = lid // (g * columns), lid % (g * columns)
            height = np.maximum(np.minimum(g, rows - band * g), 1)
            self._decode(t[1], band * g + inside % height, out)
            self._decode(t[2], inside // height, out)


def trimmed(program: Program, symbols: Mapping[str, int]) -> Program:
    """The program with its fragments no wider than these extents call for: a parameter that is larger than its axis becomes the next power
    of two above the extent.

    Every loop and block still takes the steps that it takes, and a ragged fragment keeps at least one inactive lane. A legal program stays
    as it is, since legalization has read its parameters.
    """
    if program.stage != "structured":
        return program
    extents = {a.name: a.extent for a in program.axes}
    bindings = dict(program.bindings)
    for name, n in program.bindings.items():
        letter, _, axis = name.partition(":")
        if letter in ("B", "C", "F") and axis in extents:
            extent = int(evaluate(extents[axis], lambda a: program.bindings[a.args[0]] if a.op == "param" else symbols[a.args[0]]))
            bindings[name] = min(n, max(2, 1 << extent.bit_length()))
    return program if bindings == program.bindings else replace(program, bindings=bindings)


def _interleave(lid: Array, n: int) -> Array:
    evens = (n + 1) // 2
    return np.where(lid < evens, 2 * lid, 2 * (lid - evens) + 1)


_UNARY: dict[str, Callable[[Array, int], Array]] = {"TRev": lambda lid, n: n - 1 - lid, "TInter": _interleave}
