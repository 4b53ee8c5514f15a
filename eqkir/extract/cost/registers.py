"""Registers of a thread, estimated from the liveness of fragments.

A phase is cut into epochs: a new one begins at every synchronising item (reduction, contraction, scan, start and end of a loop). In epoch
e::

    registers = base + max(in, out) + loaded + share * widest

    in, out   fragments defined before e and read in it or later; defined by e and read later
    loaded    fragments of loads that are not issued ahead: all of an epoch's loads are in flight together
    widest    the widest fragment that lives in e only (a cast to a dtype that is not wider replaces its operand)
    share     1 in an epoch without in and out (a pointwise chain is unrolled over all lanes), TRANSIENT where they exist (the chain
              turns one into the other in place), TRANSIENT_MATRIX after a matrix product

A widening cast is undone by keeping its operand. A fragment of L lanes of w bytes (at least two) takes ``L * w / (4 * threads)``;
operands of the matrix unit take none; a dot on the vector unit holds its accumulator twice (operand rows and columns). The base is larger
where there is a matrix product (descriptors, addresses of staged tiles). Constants were fitted to what the compiler reports for sm_90.
"""

from __future__ import annotations

from eqkir.base.dtypes import NUMPY, itemsize
from eqkir.extract.cost.walk import Shape, work_labels
from eqkir.program.abi import traversal
from eqkir.program.model import Carry, Item, Let, Loop, Region, Segment, Store
from eqkir.targets import Target

#: registers of addressing, counters and predicates; the same with a matrix product
BASE, BASE_MATRIX = 24, 56
#: how much of the widest short-lived fragment exists beside those that live longer
TRANSIENT, TRANSIENT_MATRIX = 0.25, 0.75
#: lets that exchange values between threads
SYNCHRONISING = ("RedTree", "RedNTree", "ConWhole", "ConAccWhole", "Scan", "ScanN")


def is_dot(item: object) -> bool:
    """Whether a let or carry runs on the matrix path."""
    return isinstance(item, (Let, Carry)) and item.op.startswith("Con") and "mma" in item.attrs


def pipelined(loops: tuple[Loop, ...], stages: int) -> bool:
    """Whether loads of the innermost loop are issued ahead: a chunk loop without loops inside, ``num_stages`` > 1."""
    if not loops or stages <= 1 or traversal(loops[-1].label) not in ("LC", "SC"):
        return False
    return not any(isinstance(x, Loop) for x in loops[-1].body)


def registers_of(shape: Shape, target: Target, s: Segment, threads: int) -> float:
    """The largest estimate over the phases of a segment."""
    return max((_Live(shape, target, phase, threads).peak() for phase in s.phases), default=float(BASE))


def _width(item: Let | Carry) -> int:
    region = next((a for a in item.attrs if isinstance(a, Region)), None)
    if region is not None:
        return sum(max(2, itemsize(d)) for d in region.dtypes)
    return max(2, itemsize(item.dtype)) if item.dtype in NUMPY and item.dtype != "bool" else 1


class _Live:
    def __init__(self, shape: Shape, target: Target, phase: tuple[Item, ...], threads: int) -> None:
        self.shape, self.target, self.threads = shape, target, threads
        self.stages = shape.program.options.get("num_stages", 1)
        self.size: dict[int, float] = {}
        self.born: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.loads: set[int] = set()
        self.operands: set[int] = set()
        self.inplace: set[int] = set()
        self.packed: dict[int, float] = {}  # widening casts -> registers of what they widen
        self.dtype: dict[int, str] = {}
        self.epoch = 0
        self._walk(phase, ())

    def _registers(self, item: Let | Carry, dims: tuple[str, ...]) -> float:
        lanes = self.shape.product(dims)
        return lanes * _width(item) / (4.0 * self.threads) if lanes > 1 else 0.0

    def _use(self, ids: tuple[int, ...]) -> None:
        for i in ids:
            self.last[i] = max(self.last.get(i, self.epoch), self.epoch)

    def _walk(self, items: tuple[Item, ...], loops: tuple[Loop, ...]) -> None:
        for it in items:
            if isinstance(it, Loop):
                self._loop(it, (*loops, it))
            elif isinstance(it, Store):
                self._use((it.value, it.valid, *it.deps))
            elif isinstance(it, Let):
                self._use(it.args)
                if is_dot(it):
                    self.operands.update(it.args[:2])
                if it.op in SYNCHRONISING:
                    self.epoch += 1
                self.size[it.id] = self._registers(it, it.dims)
                self.born[it.id] = self.last[it.id] = self.epoch
                self.dtype[it.id] = it.dtype
                if it.op == "Cast" and _width(it) <= itemsize(self.dtype.get(it.args[0], "f64")):
                    self.inplace.add(it.id)
                elif it.op == "Cast":
                    self.packed[it.id] = self.size.get(it.args[0], self.size[it.id])
                if self._tiled(it):
                    self.size[it.id] *= 2
                if it.op == "Load":
                    self.loads.add(it.id)

    def _loop(self, loop: Loop, loops: tuple[Loop, ...]) -> None:
        self.epoch += 1
        start, before = self.epoch, set(self.size)
        self._walk(loop.body, loops)
        for c in loop.carries:
            self._use(c.args)
            self._use(c.inits)
            if is_dot(c):
                self.operands.update(c.args[:2])
            self.size[c.id] = self._registers(c, work_labels(c, loops) if "lanes" in c.attrs else c.dims)
            self.size[c.id] *= 2 if self._tiled(c) else 1
            self.born[c.id], self.last[c.id], self.dtype[c.id] = start - 1, self.epoch + 1, c.dtype
        for i in before:
            if self.last[i] >= start:  # read in the loop: live through it
                self.last[i] = max(self.last[i], self.epoch)
        self.epoch += 1

    def _tiled(self, item: Let | Carry) -> bool:
        """A dot that the vector unit runs: a thread holds as much of the operands as of the accumulator."""
        if not is_dot(item):
            return False
        dot = self.target.dot(self.dtype.get(item.args[0], ""), self.dtype.get(item.args[1], ""), item.dtype)
        return dot is not None and dot.unit == "vector"

    def peak(self) -> float:
        """Registers of the fullest epoch."""
        kept = {i: n for i, n in self.size.items() if i not in self.operands and n}
        worst = 0.0
        for e in range(self.epoch + 1):
            before = sum(self.packed.get(i, n) for i, n in kept.items() if self.born[i] < e <= self.last[i])
            after = sum(self.packed.get(i, n) for i, n in kept.items() if self.born[i] <= e < self.last[i] and i not in self.loads)
            here = [i for i in kept if self.born[i] == e]
            loaded = sum(kept[i] for i in here if i in self.loads)
            widest = max((kept[i] for i in here if self.last[i] == e and i not in self.loads | self.inplace), default=0.0)
            share = TRANSIENT_MATRIX if self.operands else TRANSIENT if before or after else 1.0
            worst = max(worst, max(before, after) + loaded + share * widest)
        return worst + (BASE_MATRIX if self.operands else BASE)
