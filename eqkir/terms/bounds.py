"""The bounds of narrowed loops, placed where each loop starts. Their nodes have one realisation each, so there is nothing to choose."""

from __future__ import annotations

from eqkir.program.abi import axis_of, narrowed, traversal
from eqkir.program.abstract import Abstract
from eqkir.program.dag import FN, Dag, Path, RNode
from eqkir.program.schedule import ScheduleError


def loop_bounds(dag: Dag, p: Abstract) -> dict[Path, tuple[int, int, int]]:
    """Path of every narrowed loop in the DAG -> nodes of its bounds and of where it counts (-1: none), which are added to the DAG.

    Where a loop counts may vary along axes that an instance owns and the loop's body does not speak of; it is left out (the loop then
    counts everywhere) where it is not known how they are owned, or the loop does not stand in the others.

    Raises ScheduleError where a loop is narrowed whose axis has no bounds, or a bound speaks of an axis that the loop's body does not.
    """
    labels: dict[Path, dict[str, str]] = {}
    owned: dict[str, set[str]] = {}
    for n in dag.nodes:
        for t in n.labels or ():
            if traversal(t)[0] == "O":
                owned.setdefault(axis_of(t), set()).add(t)
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
        found = p.ranges.bounds.get(path[-1][0]) if p.ranges else None
        if found is None:
            raise ScheduleError(f"{path[-1][0]} has no bounds")
        lo, hi = (_Place(dag, p, labels[path]).at(path[:-1], i) for i in found[:2])
        known = {**unique, **labels[path]}
        on = found[2] if found[2] >= 0 and p.free(found[2]) <= known.keys() else -1
        out[path] = lo, hi, _Place(dag, p, known).at(path[:-1], on)
    return out


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
