"""Groups that find their members among rows that instances own: for which groups a block of rows has anything to do.

A store of packed rows runs over all groups, in a loop inside the instance that owns the row, and is valid where ``offsets[g] <= t`` and
``t < offsets[g + 1]``. Such half spaces of the row, whose bounds vary with the group alone, leave out every group that a block of rows does
not meet: ``max(rows) < offsets[g]`` or ``min(rows) >= offsets[g + 1]``. `meetings` records them for every loop around stores all of which
have them. Nothing is assumed of the data: offsets may overlap, decrease, or leave rows out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqkir.base.expr import Dep, Expr, atoms, coords, le, lt, substitute
from eqkir.program.abstract import BOUND, Abstract, Put, bound_axis
from eqkir.program.half_spaces import Bound, exact, half_spaces, simple
from eqkir.program.lower import SCANS, Facts, scan_axis

MOST = 4  # half spaces that are kept


@dataclass(frozen=True, slots=True)
class Meeting:
    """A store is valid only where the coordinate of the owned axis `row` is less than `at` (`upper`), or not less than `at`. `at` speaks of
    the group's axis alone; its data operands are ``Dep(node id)``."""

    row: str
    upper: bool
    at: Expr


def meetings(p: Abstract, live: Sequence[int]) -> dict[str, tuple[Meeting, ...]]:
    """Loop axis -> half spaces of owned axes to which every store that runs over it is confined.

    The axis is one that stores alone run over: nothing is reduced, scanned or carried along it, and no old value is kept for each member.
    """
    puts = [s for g in p.groups for ph in g.phases for s in ph]
    taken = {bound_axis(n) for n in (p.nodes[i] for i in live) if n.op in BOUND}
    taken |= {scan_axis(n) for n in (p.nodes[i] for i in live) if n.op in SCANS}
    facts = Facts(p)
    out: dict[str, tuple[Meeting, ...]] = {}
    for a in p.axes:
        mine = [s for s in puts if a.name in facts.put_axes(s)] if a.kind == "loop" and a.name not in taken else []
        if not mine or any(s.into for s in mine):
            continue
        found = [_confined(p, s, a.name) for s in mine]
        common = tuple(m for m in found[0] if all(m in f for f in found))[:MOST]
        if common:
            out[a.name] = common
    return out


def _confined(p: Abstract, s: Put, group: str) -> list[Meeting]:
    """The half spaces of one store, in order of appearance."""
    kinds = {a.name: a.kind for a in p.axes}
    out: dict[Meeting, None] = {}
    todo = [s.valid]
    while todo:
        i = todo.pop(0)
        n = p.nodes[i]
        if n.op == "Bin" and n.attrs[0] == "and":
            todo += n.args
        elif n.op == "Index" and n.dtype == "bool":
            whole = substitute(n.attrs[0], {Dep(k): Dep(a) for k, a in enumerate(n.args)})
            for row in sorted(x for x in coords(whole) if kinds.get(x) == "own"):
                out |= {Meeting(row, b.upper, b.at): None for b in half_spaces(whole, row) if _of_group(p, b, group) and exact(p, b.at)}
    return list(out)


def _of_group(p: Abstract, b: Bound, group: str) -> bool:
    """Whether a bound varies with the group's axis, and with no other one."""
    free: set[str] = set()
    for a in atoms(b.at):
        if a.op == "coord":
            free.add(a.args[0])
        elif a.op == "dep":
            if not simple(p, a.args[0], frozenset({group}), ""):
                return False
            free |= p.free(a.args[0])
        elif a.op != "sym":
            return False
    return free == {group}


def met(confined: Sequence[Meeting], least: dict[str, Expr], most: dict[str, Expr]) -> list[Expr]:
    """The conditions under which rows between `least` and `most` (by axis) may meet a group."""
    return [lt(least[m.row], m.at) if m.upper else le(m.at, most[m.row]) for m in confined]


__all__ = ["Meeting", "meetings", "met"]
