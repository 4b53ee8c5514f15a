"""Loops with effects between bounds: no store in them is valid at a member that a bound excludes.

A bound such as ``lo = min over groups g of (g where the group may meet the block's rows, else the extent)`` is made by a loop over the
same axis. All that is used of it is that a minimum (maximum) is at most (at least) each of its operands: for the member x of a store that
is valid, ``lo <= operand(x)``, where the operand is an expression over the same coordinates and data; likewise ``min(rows) <= t`` for the
row t of the store's lane. Loads of one element of memory that nothing writes have one value where both are valid. That validity and these
facts imply ``lo <= x < hi`` is then proved by integer arithmetic, for all data.
"""

from __future__ import annotations

from eqkir.base.dtypes import NUMPY
from eqkir.base.expr import Coord, Expr, Sym, disj, eq, le, lt, ne, negate
from eqkir.program.abi import axis_of, traversal
from eqkir.program.model import Carry, Let, Loop
from eqkir.program.verify_memory import Memory
from eqkir.program.verify_prove import dtype_range
from eqkir.program.verify_scope import Phase

#: (reduction, its combination lane by lane)
EXTREMES = {"min": "minimum", "max": "maximum"}


def lost(m: Memory, phase: Phase, loop: Loop) -> str:
    """What effect of a loop its bounds may skip; an empty text where none is."""
    inside = [a for a in m.accesses if a.phase is phase and a.is_store and loop in a.place.loops]
    if not inside:
        return ""
    if loop.on >= 0:
        return "a loop with effects counts where a condition holds"
    x, values = Coord(loop.axis), m.facts.of(phase)
    known = [*(f for i in phase.defs for f in _facts(m, phase, i, "")), *_elements(m, phase, loop)]
    for a in inside:
        given = [*m.facts.given(a), *known, lt(x, phase.program.axis[loop.axis].extent)]
        for i, upper in ((loop.lo, False), (loop.hi, True)):
            if i < 0:
                continue
            bound = values.of(i)
            of_bound = _facts(m, phase, i, loop.axis)
            if not m.prover.prove(lt(x, bound) if upper else le(bound, x), [*given, *of_bound]):
                return f"a store to {a.view} may be valid {'from' if upper else 'before'} %{i} on"
    return ""


def _elements(m: Memory, phase: Phase, loop: Loop) -> list[Expr]:
    """What loads of integers read that the loop's bounds and masks may depend on: the element where they are valid, the fill elsewhere."""
    values, out = m.facts.of(phase), list[Expr]()
    axes = {loop.axis, *(axis_of(d) for d in phase.order), *(x.axis for at in phase.places if at.item is loop for x in at.loops)}
    for i, x in phase.defs.items():
        if not isinstance(x, Let) or x.op not in ("Load", "LoadM") or NUMPY[x.dtype].kind not in "iu" or not values.constant(x.attrs[0]):
            continue
        if {axis_of(d) for d in x.dims} <= axes:
            ixs = [values.substituted(e, x.args[2:]) for e in x.attrs[2]]
            element = Sym(f"{x.attrs[0]}[{', '.join(map(str, ixs))}]")
            m.prover.range(element.args[0], *dtype_range(x.dtype))
            valid = ne(values.of(x.args[0]), 0)
            out += [disj(negate(valid), eq(values.of(i), element)), disj(valid, eq(values.of(i), values.of(x.args[1])))]
    return out


def _facts(m: Memory, phase: Phase, i: int, axis: str) -> list[Expr]:
    """That value `i`, an extreme over rows that the instance owns or over all members of `axis`, is not beyond the operand of the lane and
    member that is looked at."""
    values = m.facts.of(phase)
    for fn in EXTREMES:
        end = _operand(phase, i, fn, axis)
        if end != i:
            return [le(values.of(i), values.of(end)) if fn == "min" else le(values.of(end), values.of(i))]
    return []


def _operand(phase: Phase, i: int, fn: str, axis: str) -> int:
    """The value of which `i` is an extreme, as deep as it can be followed; `i` itself where it is none."""
    x = phase.defs[i]
    if isinstance(x, Carry):
        home = phase.home[i].item
        whole = isinstance(home, Loop) and home.axis == axis and not home.ends and home.cond < 0
        if whole and x.op == "RedLoop" and x.attrs[0] == fn:
            return _operand(phase, x.args[0], fn, axis)
        if whole and x.op == "Phi":  # it only gets less (greater) from step to step
            step = phase.defs[x.args[0]]
            if isinstance(step, Let) and step.op == "Bin" and step.attrs[0] == EXTREMES[fn] and i in step.args:
                other = step.args[1] if step.args[0] == i else step.args[0]
                return _operand(phase, other, fn, axis) if other != i else i
        return i
    match x.op:
        case "RedTree" | "FragRed" if x.attrs[0] == fn:
            label = x.attrs[1]
            if label in phase.order or (axis_of(label) == axis and traversal(label) in ("W", "LC")):
                return _operand(phase, x.args[0], fn, axis)
        case "Splat" | "Trans":
            return _operand(phase, x.args[0], fn, axis)
        case "Tri" if x.attrs[0] == "select":
            cond = phase.defs[x.args[0]]
            if isinstance(cond, Let) and cond.op == "Active" and axis_of(cond.attrs[0]) in {axis, *map(axis_of, phase.order)}:
                return _operand(phase, x.args[1], fn, axis)  # the lane that is looked at is active
    return i


__all__ = ["lost"]
