"""Cases for code with bodies of its own at the edges of blocks and for views whose last stride is not one: extents about as large as the
blocks of the program, and one view at a time in a spaced layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Final

from eqkir.base.expr import evaluate
from eqkir.cpu.blocking import blocking
from eqkir.driver.numeric import PATTERNS, Case, assignment, fitted
from eqkir.program.abi import axis_of

if TYPE_CHECKING:
    from eqkir.kir.model import Kernel
    from eqkir.program.model import Program

#: elements of the largest view, and points of all extents together
ELEMENTS: Final = 1 << 17
POINTS: Final = 1 << 21


def blocks(program: Program) -> dict[str, int]:
    """Symbol -> lanes of the largest block, chunk or fragment of an axis with that extent."""
    out: dict[str, int] = {}
    for name, n in program.bindings.items():
        kind, _, axis = name.partition(":")
        if kind in ("B", "C", "F") and axis in program.axis and (e := program.axis[axis].extent).op == "sym":
            out[e.args[0]] = max(n, out.get(e.args[0], 1))
    return out


def cuts(program: Program) -> dict[str, int]:
    """Symbol -> members of one block of a loop that is cut, and lanes of all tiles of an instance along an axis with that extent."""
    out: dict[str, int] = {}
    for s in program.segments:
        if (found := blocking(program, s)) is None:
            continue
        sizes = [(found.loop.axis, found.depth), *((axis_of(d), n * program.lanes(d)) for d, n in found.tiles)]
        out |= {program.axis[a].extent.args[0]: n for a, n in sizes if program.axis[a].extent.op == "sym"}
    return out


def edge_cases(kernel: Kernel, program: Program, pinned: Mapping[str, int], seed: int) -> Iterator[Case]:
    """All blocks whole, one lane less than whole (each part of an edge is reached), a whole one and such a one; loops that are cut, and
    rectangles of tiles, beyond their first block; then each view alone in a spaced layout. Extents that make views too large are left
    out."""
    lanes, names = blocks(program), [s.id for s in kernel.symbols]
    small = assignment(kernel, pinned, PATTERNS[1])
    wanted = [{n: p * lanes[n] - q if n in lanes else small[n] for n in names} for p, q in ((1, 0), (1, 1), (2, 1))]
    for one in names:  # where all together are too large
        wanted += [{n: p * lanes[n] - q if n == one and n in lanes else small[n] for n in names} for p, q in ((1, 1), (2, 0))]
    for one, n in cuts(program).items():  # past the end of the first block; two blocks and a half one
        wanted += [{m: p if m == one else small[m] for m in names} for p in (n + 1, 5 * n // 2)]
    numbers = count(seed + 1000)
    rows: list[dict[str, int]] = []
    for w in wanted:
        row = fitted(kernel, pinned, w)
        if row not in rows and affordable(program, row):
            rows.append(row)
            yield Case(row, "plain", next(numbers))
    largest = max(rows, key=lambda r: (any(r[n] % k for n, k in lanes.items() if n in r), prod(r.values())), default=small)
    for v in program.abi.views:
        if v.role != "workspace" and v.shape:
            yield Case(largest, "plain", next(numbers), v.name)


def affordable(program: Program, row: Mapping[str, int]) -> bool:
    """Whether the reference takes the extents in a moment."""
    views = [prod(int(evaluate(e, lambda a: row.get(a.args[0], 4))) for e in v.shape) for v in program.abi.views if v.role != "workspace"]
    return max(views, default=0) <= ELEMENTS and prod(max(1, n) for n in row.values()) <= POINTS
