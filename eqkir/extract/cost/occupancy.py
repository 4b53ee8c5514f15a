"""Registers, shared memory and resident programs, estimated from a structured program.

Loads that a chunk loop issues ahead and operands of the matrix unit live in shared memory: ``num_stages - 1`` tiles of a load, one more
where the matrix unit reads it from there (at least `matrix_rows` rows), one of a computed operand; the loop that needs most counts.
Registers are estimated in `eqkir.extract.cost.registers`."""

from __future__ import annotations

from dataclasses import dataclass

from eqkir.base.dtypes import NUMPY, itemsize
from eqkir.extract.cost.registers import is_dot, pipelined, registers_of
from eqkir.extract.cost.walk import Shape, Visit
from eqkir.program.model import Carry, Let
from eqkir.targets import Target

#: estimates above this fraction of the limit are refused
SPILL = 0.9


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
    shared = max((_shared(shape, target, v) for v in segments), default=0.0)
    registers = max((registers_of(shape, target, s, threads) for s in p.segments), default=1.0)
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


def _shared(shape: Shape, target: Target, items: list[Visit]) -> float:
    """The most that one loop (or the straight code) needs: loops follow each other and reuse the memory."""
    types = {v.item.id: v.item for v in items if isinstance(v.item, (Let, Carry))}
    stages = shape.program.options.get("num_stages", 1)
    held: dict[int, int] = {}  # dot operand -> tiles beyond those in flight
    for v in items:
        if is_dot(v.item) and isinstance(v.item, (Let, Carry)):
            a, b = (types.get(x) for x in v.item.args[:2])
            dot = target.dot(a.dtype, b.dtype, v.item.dtype) if a and b else None
            rows = shape.product(a.dims) / max(1.0, shape.product(tuple(x for x in a.dims if b and x in b.dims))) if a else 0.0
            direct = dot is not None and dot.unit == "matrix" and rows >= target.matrix_rows  # the unit reads shared memory itself
            held |= {x: max(held.get(x, 0), int(direct)) for x in v.item.args[:2]}
    places: dict[tuple[tuple[str, str, int], ...], float] = {}
    for v in items:
        it = v.item
        if not isinstance(it, (Let, Carry)) or shape.product(it.dims) <= 1:
            continue
        ahead = stages - 1 if isinstance(it, Let) and it.op == "Load" and pipelined(v.loops, stages) else 0
        tiles = ahead + held.get(it.id, 0) if ahead else int(it.id in held)
        if tiles:
            place = tuple((x.axis, x.label, x.stage) for x in v.loops)
            places[place] = places.get(place, 0.0) + tiles * shape.product(it.dims) * (itemsize(it.dtype) if it.dtype in NUMPY else 4)
    return max(places.values(), default=0.0)
