"""How much of an axis a loop with bounds is expected to traverse: for costs only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from eqkir.base.expr import Expr, Int, atoms, evaluate
from eqkir.extract.extents import Extents
from eqkir.program.abi import Axis, axis_of
from eqkir.program.abstract import Abstract
from eqkir.program.model import Item, Let, Loop

#: coordinates tried along one axis, and points tried in all
ALONG, POINTS = 8, 64
#: part of an axis between bounds that are data (offsets, lengths): parts of one axis by many members
DATA = 1 / 16


def members(axis: Axis, lo: Expr | None, hi: Expr | None, axes: Mapping[str, Axis], extents: Extents) -> float:
    """Expected members between two bounds (None: the end of the axis), averaged over evenly spread coordinates of other axes."""
    n = max(1, extents.estimate(axis.extent))
    ends = [e for e in (lo, hi) if e is not None]
    if any(a.op == "dep" for e in ends for a in atoms(e)):
        return max(1.0, n * DATA)
    names = sorted({str(a.args[0]) for e in ends for a in atoms(e) if a.op == "coord"})
    along = ALONG
    while along > 1 and along ** len(names) > POINTS:
        along //= 2
    spread = [[(2 * j + 1) * max(1, extents.estimate(axes[a].extent)) // (2 * along) for j in range(along)] for a in names]
    total, count = 0.0, 0
    for point in product(*spread):
        at = dict(zip(names, point, strict=True))

        def atom(a: Expr, at: dict[str, int] = at) -> int:
            return at[a.args[0]] if a.op == "coord" else extents.guess(str(a.args[0]))

        try:
            first, end = (int(evaluate(e if e is not None else d, atom)) for e, d in ((lo, Int(0)), (hi, Int(n))))
        except (ZeroDivisionError, KeyError, TypeError):
            return n / 2
        total += max(0, min(n, end) - max(0, first))
        count += 1
    return total / max(1, count)


def steps(inside: float, step: float, pieces: float, bounds: int, part: float) -> float:
    """Expected steps of a loop that is taken in `part` of all cases: a bound lies in the middle of a step on average."""
    return part * min(pieces, max(1.0, inside / max(1.0, step) + 0.5 * bounds))


def taken(names: Iterable[str], axes: Mapping[str, Axis], extents: Extents) -> float:
    """In which part of all cases results are observed, where that varies along these axes: a block meets two members of loops around it."""
    return min([1.0, *(2.0 / max(1, extents.estimate(axes[a].extent)) for a in names if axes[a].kind in ("loop", "strict"))])


def of_abstract(p: Abstract, extents: Extents) -> dict[str, tuple[float, int, float]]:
    """Axis with bounds -> (expected members between them, number of bounds, part of cases in which the loop is taken)."""
    axes = {a.name: a for a in p.axes}
    out = {}
    for name, ends in (p.ranges.bounds if p.ranges else {}).items():
        lo, hi = (p.nodes[i].attrs[0] if i >= 0 else None for i in ends[:2])
        part = taken(sorted(p.free(ends[2])), axes, extents) if ends[2] >= 0 else 1.0
        out[name] = members(axes[name], lo, hi, axes, extents), sum(i >= 0 for i in ends[:2]), part
    return out


def of_loop(loop: Loop, defs: Mapping[int, Let], axes: Mapping[str, Axis], extents: Extents) -> tuple[float, int, float]:
    """The same for one loop of a structured program."""
    lo, hi = (defs[i].attrs[0] if i in defs and defs[i].op == "Index" else None for i in (loop.lo, loop.hi))
    part = taken([axis_of(d) for d in defs[loop.on].dims], axes, extents) if loop.on in defs else 1.0
    return members(axes[loop.axis], lo, hi, axes, extents), sum(i >= 0 for i in (loop.lo, loop.hi)), part


def definitions(items: tuple[Item, ...]) -> dict[int, Let]:
    """Lets of a block and of the loops in it, by id."""
    out: dict[int, Let] = {}
    for i in items:
        if isinstance(i, Let):
            out[i.id] = i
        elif isinstance(i, Loop):
            out.update(definitions(i.body))
    return out


__all__ = ["definitions", "members", "of_abstract", "of_loop", "steps"]
