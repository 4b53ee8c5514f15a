"""What values cost that an earlier loop of an instance keeps for a later one (`eqkir.cpu.kept`): a store and a load of each, and nothing of
what they are made of, where the extents that are assumed leave room for all of them; else what making them again costs."""

from __future__ import annotations

from collections.abc import Mapping

from eqkir.base.dtypes import itemsize
from eqkir.cpu.kept import Kept, kept_in, wanted
from eqkir.extract.cost.walk import Shape
from eqkir.program.model import Program, Segment

MISFIT = "a value is read as kept that no earlier loop of the instance keeps"


def kept_by_phase(program: Program, segment: Segment, shape: Shape, cut: bool) -> tuple[list[Mapping[int, Kept]], str]:
    """For each phase of a segment: supply -> what is kept for it, none where the assumed extents leave no room; and what is wrong with the
    program (an instance that is `cut` into tiles keeps nothing)."""
    found = [{} if cut else kept_in(program, ph) for ph in segment.phases]
    bad = sum(map(len, found)) != sum(wanted(ph) for ph in segment.phases)
    every = [v for held in found for v in held.values()]
    room = all(shape.pieces(v.writer.label) * v.elements * itemsize(v.dtype) <= v.bytes_ for v in every)
    return (list(found) if room and not bad else [{} for _ in found]), MISFIT if bad else ""
