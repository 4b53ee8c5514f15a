"""Registers, shared memory and resident programs, estimated from a structured program.

Registers of a thread: a base, plus the largest sum of fragments that are live across a synchronising item (reduction, contraction, loop),
plus what is in flight between two of them: all loaded fragments, or the widest fragment up to `PIPELINE` registers. Pointwise values
replace their operands. Loads that a chunk loop issues ahead and operands of the matrix unit live in shared memory: ``num_stages`` tiles
of a load, one of a computed operand. A fragment of L lanes of w bytes takes ``L * max(w, 2) / (4 * threads)`` registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqkir.base.dtypes import NUMPY, itemsize
from eqkir.extract.cost.walk import Shape, Visit, work_labels
from eqkir.program.abi import traversal
from eqkir.program.model import Carry, Item, Let, Loop, Segment, Store
from eqkir.targets import Target

#: registers of addressing, counters and predicates
BASE_REGISTERS = 24
#: registers of pointwise operations in flight between two synchronising items
PIPELINE = 32
#: estimates above this multiple of the limit are refused
SPILL = 1.0


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Per program (block): estimated registers a thread and how many it may have, shared bytes, how many programs fit on one
    multiprocessor (at least 1), and the limit that it breaks."""

    registers: float
    limit: int
    shared: float
    resident: int
    reject: str


def occupancy(shape: Shape, target: Target, segments: list[list[Visit]]) -> Occupancy:
    """Over all segments of a program: one launch has one resource footprint."""
    p = shape.program
    threads = p.options.get("num_warps", 1) * target.warp_size
    shared = max((_shared(shape, v) for v in segments), default=0.0)
    registers = max((_registers(shape, s, threads) for s in p.segments), default=float(BASE_REGISTERS))
    limit = min(target.max_registers_per_thread, target.registers_per_sm // threads)
    used = min(registers, limit)
    fits = [target.max_blocks_per_sm, target.max_threads_per_sm // threads, int(target.registers_per_sm // (used * threads))]
    if shared:
        fits.append(int(target.shared_per_sm // shared))
    reject = ""
    if shared > target.max_shared_per_block:
        reject = f"shared memory: {shared:.0f} of {target.max_shared_per_block} bytes"
    elif registers > SPILL * limit:
        reject = f"registers: about {registers:.0f} of {limit} a thread"
    return Occupancy(registers, limit, shared, max(1, min(fits)), reject)


def is_dot(item: object) -> bool:
    """Whether a let or carry runs on the matrix path."""
    return isinstance(item, (Let, Carry)) and item.op.startswith("Con") and "mma" in item.attrs


def _width(dtype: str) -> int:
    return max(2, itemsize(dtype)) if dtype in NUMPY and dtype != "bool" else 8 if dtype == "tuple" else 1


def pipelined(loops: tuple[Loop, ...], stages: int) -> bool:
    """Whether loads of the innermost loop are issued ahead: a chunk loop without loops inside, ``num_stages`` > 1."""
    if not loops or stages <= 1 or traversal(loops[-1].label) not in ("LC", "SC"):
        return False
    return not any(isinstance(x, Loop) for x in loops[-1].body)


def _shared(shape: Shape, items: list[Visit]) -> float:
    types = {v.item.id: v.item for v in items if isinstance(v.item, (Let, Carry))}
    stages = shape.program.options.get("num_stages", 1)
    staged: dict[int, float] = {}
    for v in items:
        if isinstance(v.item, Let) and v.item.op == "Load" and pipelined(v.loops, stages) and shape.product(v.item.dims) > 1:
            staged[v.item.id] = stages * shape.product(v.item.dims) * itemsize(v.item.dtype)
    for v in items:
        if is_dot(v.item) and isinstance(v.item, (Let, Carry)):
            for a in v.item.args[:2]:
                operand = types.get(a)
                if operand is not None and a not in staged:
                    staged[a] = shape.product(operand.dims) * (itemsize(operand.dtype) if operand.dtype in NUMPY else 4)
    return sum(staged.values())


def _registers(shape: Shape, s: Segment, threads: int) -> float:
    worst = 0.0
    for phase in s.phases:
        worst = max(worst, _Live(shape, phase, threads).peak)
    return BASE_REGISTERS + worst


class _Live:
    """Liveness of fragments in one phase; positions are epochs, a new one begins at every synchronising item."""

    def __init__(self, shape: Shape, phase: tuple[Item, ...], threads: int) -> None:
        self.shape, self.threads = shape, threads
        self.size: dict[int, float] = {}
        self.born: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.widest: dict[int, float] = {}
        self.loads: list[tuple[int, int, float]] = []  # (epoch, id, registers)
        self.epoch = 0
        self.operands: set[int] = set()
        self._walk(phase, ())
        self.peak = self._peak()

    def _bytes(self, dims: tuple[str, ...], dtype: str) -> float:
        return self.shape.product(dims) * _width(dtype) / (4.0 * self.threads) if self.shape.product(dims) > 1 else 0.0

    def _define(self, i: int, dims: tuple[str, ...], dtype: str) -> None:
        self.size[i] = self._bytes(dims, dtype)
        self.born[i] = self.last[i] = self.epoch
        self.widest[self.epoch] = max(self.widest.get(self.epoch, 0.0), self.size[i])

    def _use(self, ids: tuple[int, ...]) -> None:
        for i in ids:
            self.last[i] = max(self.last.get(i, self.epoch), self.epoch)

    def _walk(self, items: tuple[Item, ...], loops: tuple[Loop, ...]) -> None:
        for it in items:
            if isinstance(it, Loop):
                self.epoch += 1
                start = self.epoch
                before = set(self.size)
                self._walk(it.body, (*loops, it))
                for c in it.carries:
                    self._use(c.args)
                    self._use(c.inits)
                    if is_dot(c):
                        self.operands.update(c.args[:2])
                    dims = work_labels(c, (*loops, it)) if "lanes" in c.attrs else c.dims
                    self.size[c.id] = self._bytes(dims, c.dtype)
                    self.born[c.id] = start
                    self.last[c.id] = self.epoch + 1
                for i in before:
                    if self.last[i] >= start:  # read in the loop: live through it
                        self.last[i] = max(self.last[i], self.epoch)
                self.epoch += 1
            elif isinstance(it, Store):
                self._use((it.value, it.valid, *it.deps))
            elif isinstance(it, Let):
                self._use(it.args)
                if is_dot(it):
                    self.operands.update(it.args[:2])
                if it.op in ("RedTree", "RedNTree", "ConWhole", "ConAccWhole", "Scan", "ScanN"):
                    self.epoch += 1
                self._define(it.id, it.dims, it.dtype)
                if it.op == "Load" and not pipelined(loops, self.shape.program.options.get("num_stages", 1)):
                    self.loads.append((self.epoch, it.id, self.size[it.id]))

    def _peak(self) -> float:
        worst = 0.0
        loaded: dict[int, float] = {}
        for e, i, n in self.loads:
            if i not in self.operands:
                loaded[e] = loaded.get(e, 0.0) + n
        for e in range(self.epoch + 1):
            live = sum(n for i, n in self.size.items() if i not in self.operands and self.born[i] <= e < self.last[i])
            worst = max(worst, live + max(loaded.get(e, 0.0), min(PIPELINE, self.widest.get(e, 0.0))))
        return worst
