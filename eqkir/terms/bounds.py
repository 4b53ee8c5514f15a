"""The bounds of narrowed loops, placed where each loop starts. Their nodes have one realisation each, so there is nothing to choose.

A loop over the groups that a block of rows meets gets its bounds from a loop over all groups before it, in chunks::

    first = min over rows of t;  last = max over rows of t
    for g in chunks: lo = min(lo, g where the group may hold first..last, else the extent);  hi = max(hi, g + 1 where it may, else 0)
"""

from __future__ import annotations

from eqkir.base.expr import Coord, Dep, Expr, Int, atoms, conj, substitute
from eqkir.program.abi import axis_of, narrowed, parameter, traversal
from eqkir.program.abstract import Abstract
from eqkir.program.dag import FN, Dag, Path, RNode
from eqkir.program.meetings import Meeting, met
from eqkir.program.schedule import ScheduleError


def loop_bounds(dag: Dag, p: Abstract) -> dict[Path, tuple[int, int, int]]:
    """Path of every narrowed loop in the DAG -> nodes of its bounds and of where it counts (-1: none), which are added to the DAG.

    Where a loop counts may vary along axes that an instance owns and the loop's body does not speak of; it is left out (the loop then
    counts everywhere) where it is not known how they are owned, or the loop does not stand in the others.

    Raises ScheduleError where a loop is narrowed whose axis has no bounds, or a bound speaks of an axis that the loop's body does not.
    """
    labels: dict[Path, dict[str, str]] = {}
    owned: dict[str, set[str]] = {}
    stages: dict[str, int] = {}
    for n in dag.nodes:
        for t in n.labels or ():
            if traversal(t)[0] == "O":
                owned.setdefault(axis_of(t), set()).add(t)
        for a, _, q in n.path or ():
            stages[a] = max(stages.get(a, 0), q)
    unique = {a: next(iter(ts)) for a, ts in owned.items() if len(ts) == 1}
    for n in dag.nodes:
        path = n.path or ()
        if path == FN:
            continue
        for d in range(1, len(path) + 1):
            if narrowed(path[d - 1][1]):
                known = labels.setdefault(path[:d], {x[0]: x[1] for x in path[: d - 1]})
                for t in n.labels or ():
                    known.setdefault(axis_of(t), t)
    out = {}
    for path in sorted(labels):
        axis = path[-1][0]
        if p.ranges and axis in p.ranges.met:
            at = (*path[:-1], (axis, f"{axis}:LC", stages[axis] + 1))
            out[path] = (*_visited(dag, p, labels[path], at, p.ranges.met[axis]), -1)
            continue
        found = p.ranges.bounds.get(axis) if p.ranges else None
        if found is None:
            raise ScheduleError(f"{axis} has no bounds")
        lo, hi = (_Place(dag, p, labels[path]).at(path[:-1], i) for i in found[:2])
        known = {**unique, **labels[path]}
        on = found[2] if found[2] >= 0 and p.free(found[2]) <= known.keys() else -1
        out[path] = lo, hi, _Place(dag, p, known).at(path[:-1], on)
    return out


def _visited(dag: Dag, p: Abstract, labels: dict[str, str], path: Path, confined: tuple[Meeting, ...]) -> tuple[int, int]:
    """The first group that a block of rows may meet, and the end of the last one: a search in the loop `path` over all groups."""
    group, label, _ = path[-1]
    kids: list[int] = []
    env: dict[tuple[str, int | str], Expr] = {}

    def operand(key: tuple[str, int | str], node: int) -> Expr:
        if key not in env:
            env[key] = Dep(len(kids))
            kids.append(node)
        return env[key]

    place = _Place(dag, p, {group: label})
    least: dict[str, Expr] = {}
    most: dict[str, Expr] = {}
    moved = []
    for m in confined:
        if m.row not in labels:
            raise ScheduleError(f"a store that finds its rows in groups does not speak of {m.row}")
        for fn, ends in (("max", most), ("min", least)):
            if (fn == "min") == m.upper:
                ends[m.row] = operand((fn, m.row), _extreme(dag, fn, m.row, labels[m.row]))
        deps: dict[Expr, Expr] = {a: operand(("dep", a.args[0]), place.at(path, a.args[0])) for a in atoms(m.at) if a.op == "dep"}
        moved.append(Meeting(m.row, m.upper, substitute(m.at, deps)))
    rows = {labels[m.row] for m in confined if not parameter(labels[m.row])}
    own = tuple(sorted({label, *rows}))

    def make(op: str, ls: tuple[str, ...], attrs: tuple[object, ...], *args: int | tuple[int, ...]) -> int:
        return dag.make(RNode(op, ls, path, attrs, args))

    may = make("FIndex", own, (conj(*met(moved, least, most)), "bool"), tuple(kids))
    out = []
    for fn, at, none in (("min", Coord(group), p.axis(group).extent), ("max", Coord(group) + 1, Int(0))):
        found = make("FIndex", (label,), (at, "index"), ())
        without = dag.make(RNode("FIndex", (), path[:-1], (none, "index"), ((),)))
        out.append(make("FRedLoop", own, (fn, "lanes"), make("FTri", own, ("select",), may, found, without)))
    return out[0], out[1]


def _extreme(dag: Dag, fn: str, row: str, label: str) -> int:
    """The least or greatest coordinate of a block of rows."""
    at = dag.make(RNode("FIndex", (label,), (), (Coord(row), "index"), ((),)))
    return dag.make(RNode("FRedTree", (label,), (), (fn, label), (at,))) if parameter(label) else at


class _Place:
    def __init__(self, dag: Dag, p: Abstract, labels: dict[str, str]) -> None:
        self.dag, self.p, self.labels = dag, p, labels

    def at(self, path: Path, i: int) -> int:
        """Node `i` realised at a position, outside of loops that it does not depend on."""
        if i < 0:
            return -1
        n, free = self.p.nodes[i], self.p.free(i)
        while path and path[-1][0] not in free:
            path = path[:-1]
        if not free <= self.labels.keys():
            raise ScheduleError("a bound speaks of an axis that the loop's body does not")
        own = tuple(sorted(self.labels[a] for a in free))
        kids = tuple(self.at(path, a) for a in n.args)
        match n.op:
            case "Const" | "Scalar":
                return self.dag.make(RNode("F" + n.op, None, None, (n.attrs[0], n.dtype), ()))
            case "Index":
                return self.dag.make(RNode("FIndex", own, path, (n.attrs[0], n.dtype), (kids,)))
            case "Load":
                new = RNode("FLoad", own, path, (*n.attrs, "ptr"), (kids[0], kids[1], kids[2:]))
                for k, m in enumerate(self.dag.nodes):  # in the form in which the body loads it, if it does
                    if m.op == "FLoad" and (m.labels, m.path, m.attrs[:3], m.kids) == (own, path, new.attrs[:3], new.kids):
                        return k
                return self.dag.make(new)
        return self.dag.make(RNode("F" + n.op, own, path, n.attrs, kids))


__all__ = ["loop_bounds"]
