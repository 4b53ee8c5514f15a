"""How much of an axis a loop with bounds is expected to traverse: for costs only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from eqkir.base.expr import Expr, Int, atoms, evaluate
from eqkir.extract.extents import Extents
from eqkir.program.abi import Axis, axis_of, traversal
from eqkir.program.abstract import Abstract
from eqkir.program.model import Carry, Item, Let, Loop, Store

#: coordinates tried along one axis, and points tried in all
ALONG, POINTS = 8, 64
#: where on an axis a datum such as a length lies
MIDDLE = 1 / 2
#: Euler's constant: of n groups, the longest is expected to have 1 + 1/2 + … + 1/n = log n + EULER + 1/(2n) of the mean
EULER = 0.5772

Count = float | NDArray[np.float64]  # one number, or one a row


@dataclass(frozen=True, slots=True)
class Between:
    """What is expected of loops between the bounds of an axis.

    `inside`: members between them. Where both bounds are data that vary with axes `groups` (offsets of groups), those axes' members are
    taken to divide the axis into parts of `inside` = its extent altogether: one step of the axes has extent / steps of them.
    `bounds`: how many there are. `loops`, `blocks`: axes around the loop, and axes owned by instances, with which it varies whether the
    loop is taken at all; none: it always is. Of a loop over the groups that a block of rows meets, `loops` is its own axis, and what
    varies is whether a step is taken. `waits`: axes with the groups whose members are counted from where each starts, `groups_all` of them:
    the groups of a block wait for the longest one (of parts of an axis that is cut at random places).
    """

    inside: float
    groups: tuple[str, ...]
    bounds: int
    loops: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    groups_all: float = 1.0

    def steps(self, step: Count, every: Count, pieces: Callable[[str], Count]) -> Count:
        """Expected steps of `step` members, at most `every`; `pieces`: blocks or iterations that cover an axis.

        A bound lies in the middle of a step on average. Groups and blocks divide one axis, so a block meets those groups that begin in
        it and one more: of g groups and b blocks, g + b of the g b pairs.
        """
        inside = self.inside / _product(self.groups, pieces)
        if self.waits:
            lanes = np.maximum(1.0, self.groups_all / _product(self.waits, pieces))
            inside = inside * np.where(lanes > 1, np.log(lanes) + EULER + 0.5 / lanes, 1.0)
        part: Count = 1.0
        if self.loops:
            g, b = _product(self.loops, pieces), _product(self.blocks, pieces)
            part = np.minimum(1.0, (g + b) / (g * b))
        return part * np.minimum(every, np.maximum(1.0, inside / np.maximum(1.0, step) + 0.5 * self.bounds))


def _product(names: tuple[str, ...], pieces: Callable[[str], Count]) -> Count:
    out: Count = 1.0
    for a in names:
        out = out * np.maximum(1.0, pieces(a))
    return out


def between(
    axis: Axis, ends: Sequence[tuple[Expr, Sequence[str]] | None], where: Iterable[str], axes: Mapping[str, Axis], x: Extents
) -> Between:
    """`ends`: the two bounds (None: the end of the axis), each with the axes that its data vary with; `where`: those of the condition."""
    lo, hi = (e[0] if e else None for e in ends)
    given = [e for e in ends if e]
    data = [e for e in given if any(a.op == "dep" for a in atoms(e[0]))]
    n = float(max(1, x.estimate(axis.extent)))
    groups: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    every = 1.0
    if len(data) == 2:
        inside, groups = n, tuple(sorted({a for e in data for a in e[1]}))
    elif lo is None and data and _difference(data[0][0]):  # members counted from the start of their group: lanes wait for the longest
        waits = tuple(sorted(set(data[0][1])))
        for a in waits:
            every *= max(1, x.estimate(axes[a].extent))
        inside = n / every
    else:
        inside = members(axis, lo, hi, axes, x)
    around = sorted(where)
    loops = tuple(a for a in around if axes[a].kind in ("loop", "strict"))
    return Between(inside, groups, len(given), loops, tuple(a for a in around if axes[a].kind == "own"), waits, every)


def _difference(e: Expr) -> bool:
    """Whether an expression holds a difference of two data."""
    here = e.op == "sub" and all(any(a.op == "dep" for a in atoms(x)) for x in e.args)
    return here or any(_difference(x) for x in e.args if isinstance(x, Expr))


def members(axis: Axis, lo: Expr | None, hi: Expr | None, axes: Mapping[str, Axis], extents: Extents) -> float:
    """Expected members between two bounds, averaged over evenly spread coordinates of other axes; data lie in the middle of the axis."""
    n = max(1, extents.estimate(axis.extent))
    ends = [e for e in (lo, hi) if e is not None]
    names = sorted({str(a.args[0]) for e in ends for a in atoms(e) if a.op == "coord"})
    along = ALONG
    while along > 1 and along ** len(names) > POINTS:
        along //= 2
    spread = [[(2 * j + 1) * max(1, extents.estimate(axes[a].extent)) // (2 * along) for j in range(along)] for a in names]
    total, count = 0.0, 0
    for point in product(*spread):
        at = dict(zip(names, point, strict=True))

        def atom(a: Expr, at: dict[str, int] = at) -> int:
            if a.op == "dep":
                return int(n * MIDDLE)
            return at[a.args[0]] if a.op == "coord" else extents.guess(str(a.args[0]))

        try:
            first, end = (int(evaluate(e if e is not None else d, atom)) for e, d in ((lo, Int(0)), (hi, Int(n))))
        except (ZeroDivisionError, KeyError, TypeError):
            return n / 2
        total += max(0, min(n, end) - max(0, first))
        count += 1
    return total / max(1, count)


def visits(axis: Axis, rows: Iterable[str], x: Extents) -> Between:
    """What is expected of a loop over those groups (members of `axis`) that a block of `rows` meets."""
    return Between(float(max(1, x.estimate(axis.extent))), (), 0, (axis.name,), tuple(sorted(set(rows))))


def of_abstract(p: Abstract, extents: Extents) -> dict[str, Between]:
    """What is expected of each axis with bounds."""
    axes = {a.name: a for a in p.axes}
    out = {}
    for name, (lo, hi, on) in (p.ranges.bounds if p.ranges else {}).items():
        ends = [(p.nodes[i].attrs[0], [a for k in p.nodes[i].args for a in p.free(k)]) if i >= 0 else None for i in (lo, hi)]
        out[name] = between(axes[name], ends, p.free(on) if on >= 0 else (), axes, extents)
    for name, confined in (p.ranges.met if p.ranges else {}).items():
        out[name] = visits(axes[name], (m.row for m in confined), extents)
    return out


def of_loop(loop: Loop, defs: Mapping[int, Let | Carry], axes: Mapping[str, Axis], extents: Extents) -> tuple[Between, dict[str, str]]:
    """The same for one loop of a structured program, and the labels of the axes that it speaks of."""
    labels: dict[str, str] = {}
    if has_effects(loop.body):
        rows = _owned(loop.ends, defs)
        return visits(axes[loop.axis], rows, extents), {**rows, loop.axis: loop.label}

    def names(i: int) -> list[str]:
        found = {axis_of(d): d for d in defs[i].dims} if i in defs else {}
        labels.update(found)
        return list(found)

    ends = [
        (defs[i].attrs[0], [a for k in defs[i].args for a in names(k)]) if i in defs and defs[i].op == "Index" else None
        for i in (loop.lo, loop.hi)
    ]
    return between(axes[loop.axis], ends, names(loop.on), axes, extents), labels


def has_effects(items: tuple[Item, ...]) -> bool:
    """Whether a block stores."""
    return any(isinstance(i, Store) or (isinstance(i, Loop) and has_effects(i.body)) for i in items)


def _owned(ends: Iterable[int], defs: Mapping[int, Let | Carry]) -> dict[str, str]:
    """Owned axes that values depend on, with their labels."""
    out: dict[str, str] = {}
    todo, seen = list(ends), set[int]()
    while todo:
        i = todo.pop()
        if i in defs and i not in seen:
            seen.add(i)
            todo += defs[i].args
            labels = (*defs[i].dims, *(a for a in defs[i].attrs if isinstance(a, str) and ":" in a))
            out |= {axis_of(t): t for t in labels if traversal(t) in ("O1", "OB")}
    return out


def definitions(items: tuple[Item, ...]) -> dict[int, Let | Carry]:
    """Lets and carries of a block and of the loops in it, by id."""
    out: dict[int, Let | Carry] = {}
    for i in items:
        if isinstance(i, Let):
            out[i.id] = i
        elif isinstance(i, Loop):
            out.update(definitions(i.body))
            out.update({c.id: c for c in i.carries})
    return out


__all__ = ["Between", "Count", "between", "definitions", "has_effects", "members", "of_abstract", "of_loop"]
