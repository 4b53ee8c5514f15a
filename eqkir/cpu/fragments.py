"""Values of an expansion: fragments as scalars or vectors of registers, and how one is read in another shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from eqkir.base.diagnostics import fail
from eqkir.cpu import codes
from eqkir.cpu.builder import Builder
from eqkir.cpu.model import Type

#: lane labels -> lane; for the vector label, the first lane of the vector
Point = dict[str, int]
#: vectors of one fragment beyond which an expansion is refused
MAX_PARTS = 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """Lane dims with their numbers of lanes, the label along which vectors run (or an empty text) and their width."""

    dims: tuple[str, ...]
    lanes: tuple[int, ...]
    vector: str = ""
    width: int = 1

    def points(self) -> Iterator[Point]:
        """The first lanes of all parts, row-major. Raises EqkirError EQK-MOJ-LARGE."""
        steps = [range(0, n, self.width if d == self.vector else 1) for d, n in zip(self.dims, self.lanes, strict=True)]
        count = 1
        for s in steps:
            count *= len(s)
        if count > MAX_PARTS:
            raise fail(codes.LARGE, f"a fragment of {count} vectors", accepted=f"at most {MAX_PARTS}", stage="expand")
        for at in product(*steps):
            yield dict(zip(self.dims, at, strict=True))

    def key(self, p: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(p[d] for d in self.dims)


@dataclass(slots=True)
class Fragment:
    """Value ids by the first lanes of the parts; those that are not there yet are made by `source` when they are first read."""

    shape: Shape
    parts: dict[tuple[int, ...], int] = field(default_factory=dict)
    source: Callable[[Point], int] | None = None

    def at(self, p: Mapping[str, int]) -> int:
        """The part at a point."""
        key = self.shape.key(p)
        if key not in self.parts:
            assert self.source is not None
            self.parts[key] = self.source(dict(zip(self.shape.dims, key, strict=True)))
        return self.parts[key]

    def force(self) -> None:
        """Make all parts."""
        for p in self.shape.points():
            self.at(p)


def read(b: Builder, f: Fragment, p: Mapping[str, int], vector: str, width: int) -> int:
    """Fragment `f` at point `p` as a vector along `vector` (`width` lanes), or as a scalar where `vector` is empty."""
    s = f.shape
    if not vector:
        return _lane(b, f, p)
    if vector not in s.dims:
        return b.splat(_lane(b, f, p), width)
    if s.vector == vector and s.width == width:
        return f.at(p)
    if s.vector and s.width == width and width > 1:
        return _turned(b, f, p, vector)
    lanes = [_lane(b, f, {**p, vector: p[vector] + k}) for k in range(width)]
    return b.op("Build", (), tuple(lanes), Type(b.types[lanes[0]].dtype, width))


def _lane(b: Builder, f: Fragment, p: Mapping[str, int]) -> int:
    s = f.shape
    if not s.vector:
        return f.at(p)
    first = p[s.vector] // s.width * s.width
    whole = f.at({**p, s.vector: first})
    return b.op("Extract", (p[s.vector] - first,), (whole,), Type(b.types[whole].dtype))


def _turned(b: Builder, f: Fragment, p: Mapping[str, int], vector: str) -> int:
    """One vector along another label than the fragment's: of the block of both labels, whose halves are exchanged, then their halves, and
    so on. All vectors of a block are made by the same operations, of which there is one each in scope."""
    s = f.shape
    w, first = s.width, p[s.vector] // s.width * s.width
    rows = [f.at({**p, s.vector: first, vector: p[vector] + k}) for k in range(w)]
    dtype = b.types[rows[0]].dtype
    held = [b.op("Cast", ("u8",), (r,), Type("u8", w)) for r in rows] if dtype == "bool" else rows
    h = w // 2
    while h:
        new = list(held)
        for j in range(w):
            if not j & h:
                low = tuple(i if not i & h else w + i - h for i in range(w))
                high = tuple(i + h if not i & h else w + i for i in range(w))
                for at, lanes in ((j, low), (j + h, high)):
                    new[at] = b.op("Permute", (lanes,), (held[j], held[j + h]), b.types[held[j]])
        held, h = new, h // 2
    out = held[p[s.vector] - first]
    return b.op("Cast", ("bool",), (out,), Type("bool", w)) if dtype == "bool" else out
