"""What instances that are rectangles of tiles (`eqkir.cpu.blocking`) move and find again, and what a cache can keep of scattered pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from eqkir.base.dtypes import itemsize
from eqkir.base.expr import Expr, coords
from eqkir.cpu.blocking import Blocking
from eqkir.extract.cost.strides import run_length
from eqkir.extract.cost.walk import Shape, Visit
from eqkir.program.abi import axis_of
from eqkir.program.model import Program, Segment, order_labels
from eqkir.targets.cpu import CpuTarget

#: what finding a tile in its rectangle costs
TILE_NS = 1.0
#: part of L2 that tiles may take together in one block of their loop, and of L3 that the tiles of an instance may take to be found again
TOGETHER, KEPT = 0.75, 0.25


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes of one access: asked for in all, distinct, touched by one instance (`footprint`), and by one tile in one block of a loop that
    is `cut` (`held`); `stays`: whether a cache can keep the latter. `axes`: of its coordinates."""

    axes: frozenset[str] = frozenset()
    request: float = 0.0
    unique: float = 0.0
    footprint: float = 0.0
    held: float = 0.0
    cut: bool = False
    stays: bool = True


@dataclass(frozen=True, slots=True)
class Tiles:
    """The rectangles of a segment; one tile an instance where its loop is not cut (`plan` None)."""

    program: Program
    segment: Segment
    shape: Shape
    target: CpuTarget
    plan: Blocking | None

    def side(self, along: Callable[[str], bool] = lambda _: True) -> float:
        """Tiles of an instance along the labels of whose axes this holds."""
        out = 1.0
        for d, n in self.plan.tiles if self.plan else ():
            out *= min(float(n), self.shape.pieces(d)) if along(axis_of(d)) else 1.0
        return out

    @property
    def blocks(self) -> float:
        """Blocks in which the loop of the segment is taken."""
        return float(-(-self.shape.extent(self.plan.loop.axis) // self.plan.depth)) if self.plan else 1.0

    @property
    def instance_ns(self) -> float:
        """What the instance of one tile costs: what is done for each block, and finding the tile."""
        return self.blocks * self.target.instance_ns + (TILE_NS if self.plan else 0.0)

    def part(self, v: Visit) -> float:
        """The part of what a tile touches in all that it touches in one block of the loop."""
        return min(1.0, self.plan.depth / self.shape.extent(self.plan.loop.axis)) if self.plan and self.inside(v) else 1.0

    def inside(self, v: Visit) -> bool:
        """Whether an item belongs to the loop that is cut."""
        return self.plan is not None and v.loops[:1] == (self.plan.loop,)

    def fit(self, moved: Iterable[Moved]) -> bool:
        """Whether L2 holds what the tiles of an instance touch in one block, carried values included."""
        out = sum(m.held * self.side(m.axes.__contains__) for m in moved if m.cut)
        for c in self.plan.loop.carries if self.plan else ():
            out += self.shape.product(self.program.lane_dims(c.dims)) * itemsize(c.dtype) * self.side()
        return out <= TOGETHER * self.target.l2_bytes

    def reuse(self, m: Moved) -> float:
        """How many tiles of an instance find what another one has loaded."""
        return self.side(lambda a: a not in m.axes)

    def kept(self, m: Moved) -> float:
        """How many instances in a row find what their tiles touch in L3: the label that moves fastest is none of its axes."""
        if not self.plan or self.segment.order[0] != "TProd":
            return 1.0
        fast, tiles = order_labels(self.segment.order)[-1], dict(self.plan.tiles)
        if axis_of(fast) in m.axes or m.footprint * self.side(m.axes.__contains__) > KEPT * self.target.l3_bytes:
            return 1.0
        return max(1.0, self.shape.pieces(fast) / tiles.get(fast, 1))


def capacity(ixs: tuple[Expr, ...], size: int, extents: tuple[float, ...], lanes: Callable[[str], float], t: CpuTarget) -> float:
    """Bytes of an access that L2 can hold, `lanes` being the members of each axis that it touches: pieces that lie a multiple of a way's
    size apart meet in a few sets. `size`: of an element; `extents`: of the view."""
    piece = run_length(ixs, lanes, extents) * size
    step = float(size)
    for e, n in zip(reversed(ixs), reversed(extents), strict=True):
        if step >= piece and any(lanes(a) > 1.0 for a in coords(e)):
            way = t.l2_bytes // t.l2_ways
            places = way // math.gcd(int(step), way)
            return t.l2_bytes * min(1.0, places * max(piece, float(t.line_bytes)) / way)
        step *= n
    return math.inf
