"""Shapes that follow from a program's parameters: blocks and chunks are often larger than test shapes, and then every loop runs once.

`stretched` gives extents a little past one block (two pieces, the second one ragged) and exactly two blocks (the specialization without
masks).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from eqkir.base.expr import evaluate
from eqkir.driver.numeric import fitting
from eqkir.program.abi import axis_of, parameter, traversal
from eqkir.program.model import Item, Let, Loop, Program, Store, order_labels
from tests.matrix.types import Case

if TYPE_CHECKING:
    from eqkir.kir.model import Kernel

#: elements of the largest view, and of all axes together (contractions)
ELEMENTS, VOLUME = 1 << 17, 1 << 23


def labels(program: Program) -> set[str]:
    """Every label of a program."""
    out: set[str] = set()

    def visit(items: tuple[Item, ...]) -> None:
        for i in items:
            if isinstance(i, (Let, Store)):
                out.update(i.dims)
            if isinstance(i, Let):
                out.update(a for a in i.attrs if isinstance(a, str) and axis_of(a) in program.axis and ":" in a)
            if isinstance(i, Loop):
                out.add(i.label)
                visit(i.body)

    for s in program.segments:
        out |= set(order_labels(s.order))
        for ph in s.phases:
            visit(ph)
    return out


def pieces(program: Program) -> dict[str, tuple[int, bool]]:
    """Symbol -> (most lanes of a piece of an axis with that extent, whether one piece has to cover it)."""
    out: dict[str, tuple[int, bool]] = {}
    for x in labels(program):
        e = program.axis[axis_of(x)].extent
        if e.op == "sym" and parameter(x):
            n, whole = out.get(e.args[0], (1, False))
            out[e.args[0]] = max(n, program.lanes(x)), whole or traversal(x) == "W"
    return out


def related(rows: Sequence[Mapping[str, int]]) -> dict[str, tuple[str, int]]:
    """Symbol -> (another, difference) where the kernel's own shapes keep a difference between the two: groups and their bounds, say."""
    out: dict[str, tuple[str, int]] = {}
    names = list(rows[0]) if rows else []
    for i, b in enumerate(names):
        for a in names[:i]:
            gap = {r[b] - r[a] for r in rows}
            if len(gap) == 1 and a not in out and b not in out and len({r[a] for r in rows}) > 2:
                out[b] = a, gap.pop()
    return out


def stretched(kernel: Kernel, program: Program, rows: Sequence[Mapping[str, int]] = ()) -> list[Case]:
    """Cases just past one piece of every axis, of one axis at a time, and of two whole pieces; those that are too large are left out. What
    `rows`, known shapes of the kernel, have in common (`related`) holds in them, too."""
    size, kept = pieces(program), related(rows)
    names = [s.id for s in kernel.symbols]
    symbols = {s.id: s for s in kernel.symbols}
    same = dict(kernel.equal)

    def extent(name: str, want: str) -> int:
        n, whole = size.get(name, (1, False))
        if want == "small" or n == 1:
            return 1 if want == "small" and n == 1 else 3
        return n if whole else n + 3 if want == "past" else 2 * n

    wanted = [dict.fromkeys(names, "past"), dict.fromkeys(names, "even")]
    wanted += [{n: "past" if n == one else "small" for n in names} for one in names]
    wanted += [{n: "even" if n == one else "small" for n in names} for one in names]
    out: list[Case] = []
    for k, w in enumerate(wanted):
        row = {n: fitting(symbols[n], extent(n, w[n])) for n in names}
        row |= {a: row[b] for a, b in same.items()} | {b: row[a] + d for b, (a, d) in kept.items()}
        case = Case(tuple(row.items()), ("plain", "special", "strided")[k % 3])
        if case.symbols not in [c.symbols for c in out] and _affordable(program, row):
            out.append(case)
    return out


def _affordable(program: Program, row: dict[str, int]) -> bool:
    views = [prod(int(evaluate(e, lambda a: row.get(a.args[0], 1))) for e in v.shape) for v in program.abi.views]
    # as often as one operation may bind or own an extent: programs have several axes of one extent that never meet
    extents = Counter(a.extent for a in program.axes if a.extent.op in ("sym", "int"))
    volume = prod(int(evaluate(e, lambda x: row.get(x.args[0], 1))) ** min(n, 2) for e, n in extents.items())
    return max(views, default=0) <= ELEMENTS and volume <= VOLUME
