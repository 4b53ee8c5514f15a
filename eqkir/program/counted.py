"""Members counted from where they start: reductions whose members lie between bounds that differ from lane to lane.

A row of a sparse matrix sums ``A[c]`` over ``offsets[r] <= c`` and ``c < offsets[r + 1]``. A block of rows that walks along c has each row
wait while the others' members pass. Counted from the row's own start, ``c = min(max(offsets[r], 0), extent) + k``, every row takes its k-th
member at the same time. `counted` makes that reduction beside the source's own: the same members (beyond the axis and beyond the upper
bound the operand is neutral), so the same value; which of them is computed is the choice of a rule (ruleset ``narrow``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqkir.base import expr as E
from eqkir.base.expr import Coord, Dep, Expr, Int, coords, lt, substitute
from eqkir.program.abi import Axis
from eqkir.program.abstract import BOUND, Abstract, bound_axis
from eqkir.program.half_spaces import SIMPLE


def counted(
    q: Abstract, narrows: Sequence[tuple[int, str]], bounds: Mapping[str, tuple[int, int, int]]
) -> tuple[list[tuple[int, int, Axis]], tuple[tuple[int, int], ...]]:
    """(reduction, the same over counted members, the axis that counts) for reductions that alone bind their axis, and (node, its copy at a
    counted member) for all that the new ones are made of. New nodes are made in `q`; the axis is not yet one of its axes."""
    binders: dict[str, set[int]] = {}
    for i, axis in narrows:
        binders.setdefault(axis, set()).add(i)
    users = {a: sum(n.op in BOUND and bound_axis(n) == a for n in q.nodes) for a in binders}
    out: list[tuple[int, int, Axis]] = []
    copies: dict[int, int] = {}
    for axis, ops in binders.items():
        lo, hi, _ = bounds[axis]
        (i, *others) = sorted(ops)
        n = q.nodes[i]
        if others or users[axis] != 1 or n.op != "Red" or q.axis(axis).kind != "loop" or lo < 0 or hi < 0 or not _data(q, lo):
            continue
        if any(q.nodes[j].op not in SIMPLE for j in _below(q, n.args[0])):
            continue
        new = Axis(f"{axis}k", q.axis(axis).extent, "loop")
        if any(a.name == new.name for a in q.axes):
            continue
        start = q.make("Index", (E.emin(E.emax(q.nodes[lo].attrs[0], Int(0)), new.extent),), q.nodes[lo].args, "index")
        moved = _Moved(q, axis, new, start)
        out.append((i, q.make("Red", (n.attrs[0], new.name), (moved.of(n.args[0]),), n.dtype), new))
        copies |= {**moved.memo, i: out[-1][1]}
    return out, tuple(sorted(copies.items()))


def _data(q: Abstract, lo: int) -> bool:
    """Whether a bound varies between lanes, and is data."""
    return bool(q.free(lo)) and any(q.nodes[j].op == "Load" for j in _below(q, lo))


def _below(q: Abstract, i: int) -> list[int]:
    seen: set[int] = set()
    todo = [i]
    while todo:
        j = todo.pop()
        if j not in seen:
            seen.add(j)
            todo += q.nodes[j].args
    return sorted(seen)


class _Moved:
    """Values at the member ``start + k``. Predicates of the member are false beyond the axis, and no load there is valid."""

    def __init__(self, q: Abstract, axis: str, new: Axis, start: int) -> None:
        self.q, self.axis, self.new, self.start = q, Coord(axis), new, start
        self.memo: dict[int, int] = {}

    def of(self, i: int) -> int:
        if str(self.axis.args[0]) not in self.q.free(i):
            return i
        if i not in self.memo:
            self.memo[i] = self._of(i)
        return self.memo[i]

    def at(self, k: int) -> Expr:
        """The member, its start the data operand `k`."""
        return Dep(k) + Coord(self.new.name)

    def _of(self, i: int) -> int:
        n = self.q.nodes[i]
        args = tuple(map(self.of, n.args))
        make = self.q.make
        if n.op == "Index" and str(self.axis.args[0]) in coords(n.attrs[0]):
            at = self.at(len(args))
            e = substitute(n.attrs[0], {self.axis: at})
            return make("Index", (E.conj(e, lt(at, self.new.extent)) if n.dtype == "bool" else e,), (*args, self.start), n.dtype)
        if n.op == "Load" and any(str(self.axis.args[0]) in coords(e) for e in n.attrs[2]):
            valid, fill, deps = args[0], args[1], args[2:]
            at = self.at(len(deps))
            ixs = tuple(substitute(e, {self.axis: at}) for e in n.attrs[2])
            inside = make("Index", (lt(self.at(0), self.new.extent),), (self.start,), "bool")
            if not self._says_so(valid):
                valid = make("Bin", ("and",), (valid, inside), "bool")
            return make("Load", (*n.attrs[:2], ixs), (valid, fill, *deps, self.start), n.dtype)
        return make(n.op, n.attrs, args, n.dtype)

    def _says_so(self, i: int) -> bool:
        """Whether a predicate speaks of the member, and is false beyond the axis."""
        n = self.q.nodes[i]
        return n.op == "Index" and self.new.name in coords(n.attrs[0])


__all__ = ["counted"]
