"""Blocks of a loop's axis under a block of instances: every tile takes one block of members before any takes the next.

A contraction that is long along its loop reads more for one tile than a cache holds. Where an implementation has a *depth*, an instance of
the group is a rectangle of tiles instead of one, and the loop is cut: for each block of `depth` members, for each tile, the loop goes on
where it stopped. What the loop carries lies in memory of the task meanwhile, so that each tile takes its members in the same order as
without blocks, and results are the same to the bit. What follows the loop is done with the last block.

It is the local parameters ``depth`` and ``tiles`` (along each side) of the implementation of the loop's carries that say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eqkir.base.dtypes import itemsize
from eqkir.base.expr import Expr, Int, Param, ceildiv, substitute
from eqkir.cpu.builder import Builder
from eqkir.program.abi import parameter, step_parameter, traversal
from eqkir.program.model import Carry, Let, Loop, Program, Segment, blocks, order_labels

#: bytes of carried values that one instance may hold
HELD = 1 << 18


@dataclass(frozen=True, slots=True)
class Blocking:
    """`at`: place of the loop in its phase; `depth`: members of one block; `tiles`: label -> tiles of an instance, the outermost first."""

    loop: Loop
    at: int
    depth: int
    tiles: tuple[tuple[str, int], ...]

    @property
    def count(self) -> int:
        """Tiles of an instance."""
        out = 1
        for _, n in self.tiles:
            out *= n
        return out


def blocking(program: Program, segment: Segment) -> Blocking | None:
    """How the loop of a segment is cut, or None where it is not: a segment of one phase, whose first loop carries nothing but what
    implementations of one depth carry, runs over its whole axis and has nothing but values before it."""
    if len(segment.phases) != 1:
        return None
    (phase,) = segment.phases
    at = next((n for n, x in enumerate(phase) if not isinstance(x, Let)), len(phase))
    loop = phase[at] if at < len(phase) else None
    if not isinstance(loop, Loop) or loop.cond >= 0 or loop.ends or traversal(loop.label) not in ("L1", "LC"):
        return None
    depths = {program.options.get(f"{c.by}.depth", 0) if c.by and c.op != "Phi" else 0 for c in loop.carries}
    sides = {program.options.get(f"{c.by}.tiles", 1) for c in loop.carries}
    step = step_parameter(loop.label)
    if len(depths) != 1 or len(sides) != 1 or not (depth := depths.pop()) or depth % (program.bindings[step] if step else 1):
        return None
    side = sides.pop()
    own = [x for x in order_labels(segment.order) if parameter(x) and all(x in c.dims for c in loop.carries)]
    panels = {str(x.attrs[1]) for x in loop.body if isinstance(x, Let) and x.op == "Supply"}
    own.sort(key=lambda x: x not in panels)  # one panel meets all tiles of the other side
    found = Blocking(loop, at, depth, tuple((x, side) for x in own))
    held = sum(itemsize(c.dtype) * _lanes(program, c) for c in loop.carries) * found.count
    return found if own and side > 1 and held <= HELD else None


def _lanes(program: Program, c: Carry) -> int:
    out = program.options.get(f"{c.by}.replicas", 1)
    for d in program.lane_dims(c.dims):
        out *= program.lanes(d)
    return out


def pieces(program: Program, label: str, tiles: Mapping[str, int]) -> Expr:
    """Instances along a label: blocks of it, or rectangles' sides of blocks; physical parameters bound."""
    e = blocks(label, program.axis)
    e = substitute(e, {Param(p): Int(n) for p, n in program.bindings.items()})
    return ceildiv(e, tiles[label]) if label in tiles else e


@dataclass
class Held:
    """Memory of an instance for what its tiles carry from block to block. `sizes`: dtype -> elements of one tile, as soon as a body has
    said so."""

    name: str
    sizes: dict[str, int] = field(default_factory=dict)

    def memory(self, dtype: str) -> str:
        """The name of the memory for values of one dtype."""
        return f"{self.name}_{dtype}"

    def say(self, sizes: dict[str, int]) -> None:
        """What a body holds of one tile; all bodies hold the same."""
        assert self.sizes in ({}, sizes)
        self.sizes = sizes


@dataclass(frozen=True, slots=True)
class Part:
    """The block of a loop that is expanded: its number, whether it is the first and whether it is the last (bool scalars), and the tile's
    number in its instance."""

    loop: Loop
    depth: int
    number: int
    first: int
    last: int
    tile: int
    held: Held

    def bounds(self, b: Builder, begin: int, end: int, chunk: int) -> tuple[int, int]:
        """The steps of this block, of those from `begin` to `end`."""
        n = b.const(self.depth // chunk)
        first = b.bin("mul", self.number, n)
        return b.bin("maximum", begin, first), b.bin("minimum", end, b.bin("add", first, n))

    def resume(self, b: Builder, variables: list[int]) -> None:
        """Variables get back what they held at the end of the block before."""
        places = self._places(b, variables)
        with b.when(b.negation(self.first)):
            for v, (name, at) in zip(variables, places, strict=True):
                b.set(v, b.load(name, at, b.types[v]))

    def suspend(self, b: Builder, variables: list[int]) -> None:
        """Variables are kept for the next block, if there is one."""
        places = self._places(b, variables)
        with b.when(b.negation(self.last)):
            for v, (name, at) in zip(variables, places, strict=True):
                b.write(name, at, b.get(v))

    def _places(self, b: Builder, variables: list[int]) -> list[tuple[str, int]]:
        """Values of one dtype lie behind each other, tile by tile."""
        sizes: dict[str, int] = {}
        for v in variables:
            t = b.types[v]
            sizes[t.dtype] = sizes.get(t.dtype, 0) + t.width
        self.held.say(sizes)
        at = dict.fromkeys(sizes, 0)
        out: list[tuple[str, int]] = []
        for v in variables:
            t = b.types[v]
            base = b.bin("mul", self.tile, b.const(sizes[t.dtype]))
            out.append((self.held.memory(t.dtype), b.bin("add", base, b.const(at[t.dtype]))))
            at[t.dtype] += t.width
        return out
