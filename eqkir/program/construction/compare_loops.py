"""Comparison of ordered loops and folds over slices: each component's start, step and summary, and the loop's condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqkir.base.expr import ZERO, Coord, Expr, lt
from eqkir.program.abi import members_of
from eqkir.program.construction.codes import Fault
from eqkir.program.construction.compare_binders import position
from eqkir.program.construction.relation import Term, choose, number
from eqkir.program.construction.relation_loops import Part, Recurrence

if TYPE_CHECKING:
    from eqkir.program.construction.compare import Compare, Faults, Sigma


def instance(c: Compare, rec: Recurrence, key: tuple[object, ...], axis: str, name: str) -> Recurrence:
    """The recurrence that belongs to one operation of the program at one point."""
    known = c.instances
    full = (id(rec.op), id(rec.outer.frame), rec.outer.given, *key)
    if full not in known:
        if rec.name:
            assert rec.fresh is not None
            rec = rec.fresh()
        rec.axis, rec.name = axis, name
        known[full] = rec
        c.journal.append(lambda: known.pop(full, None))
    return known[full]


def note(c: Compare, rec: Recurrence, i: int, part: Part) -> bool:
    """Whether component `i` is (from now on) this part."""
    if i in rec.parts:
        k, path, at = rec.parts[i]
        return (k, path) == part[:2] and all(c.equal(x, y) for x, y in zip(at, part[2], strict=True))
    rec.parts[i] = part
    rec.todo.append(i)

    def undo() -> None:
        rec.parts.pop(i, None)
        rec.todo[:] = [x for x in rec.todo if x != i]

    c.journal.append(undo)
    return True


def fold(c: Compare, t: Term, node: int, sigma: Sigma) -> Faults:
    """The value of a component after the last step."""
    rec, part = t.attrs
    n = c.nodes[node]
    if n.op != "Pick" or c.nodes[n.args[0]].op != t.head:
        return c.fault("folds-complete", f"%{node} is {n.op} instead of a component of a {t.head.lower()}")
    loop = n.args[0]
    axis, name, count = c.nodes[loop].attrs
    rec = instance(c, rec, (loop, c.restricted(loop, sigma)), axis, name)
    return components(c, rec, loop, c.nodes[loop].args, count, n.attrs[0], part, sigma)


def state(c: Compare, t: Term, node: int, sigma: Sigma) -> Faults:
    """The value of a component before the step at the point."""
    rec, part, x = t.attrs
    n = c.nodes[node]
    if n.op != ("WState" if rec.kind == "while" else "State"):
        return c.fault("folds-complete", f"%{node} is {n.op} instead of a state")
    axis, name, count, i = n.attrs
    mems = members_of(axis, c.axes) if rec.kind == "scan" else ()
    if rec.region in c.a.ordered and c.a.ordered[rec.region] != axis:
        return c.fault("folds-complete", f"the state %{node} is one of another loop than {rec.region}")
    own = [position(c, rec.extent, a, sigma.get(a, Coord(a)), rec.outer, sigma) for a in mems or (axis,)] if rec.kind != "while" else []
    if rec.kind != "while" and not any(p is not None and c.equal(x, p[0]) for p in own):
        return c.fault("folds-complete", f"the state %{node} is read at another point of {axis}")
    rest = {a: e for a, e in sigma.items() if a != axis and a not in mems}
    rec = instance(c, rec, ("State", n.args, axis, name, tuple(sorted(rest.items(), key=lambda p: p[0]))), axis, name)
    return components(c, rec, node, n.args, count, i, part, rest)


def components(c: Compare, rec: Recurrence, node: int, args: tuple[int, ...], count: int, i: int, part: Part, sigma: Sigma) -> Faults:
    kinds = 3 if rec.sum is not None and c.nodes[node].op == "Fold" else 2
    if len(args) != kinds * count + (rec.kind == "while"):
        return c.fault("folds-complete", f"%{node} has {len(args)} operands for {count} components")
    if not note(c, rec, i, part):
        return c.fault("folds-complete", f"component {i} of %{node} stands for two carries")
    x = rec.point or c.fresh(rec.axis, node, sigma)
    rec.point = x
    inner = {**sigma, rec.axis: x}
    out: list[Fault] = []
    if rec.kind != "while":
        found = position(c, rec.extent, rec.axis, x, rec.outer, sigma)
        if found is None:
            return c.fault("folds-complete", f"%{node} runs over {rec.axis}, which does not cover {rec.extent}")
        if rec.kind == "for":
            rec.begin(*found, x)
    elif rec.cond is not None and not rec.tested:
        rec.tested = True
        out += concern(c.match(rec.cond(), args[-1], inner), f"the condition of %{node}")
    while rec.todo:
        k = rec.todo.pop()
        p = rec.parts[k]
        if not 0 <= k < count:
            return c.fault("folds-complete", f"%{node} has no component {k}")
        out += concern(c.match(rec.init(p), args[k], sigma), f"the start of component {k} of %{node}")
        out += concern(c.match(rec.next(p), args[count + k], inner), f"the step of component {k} of %{node}")
        if kinds == 3 and rec.sum is not None:
            out += concern(c.match(rec.sum(p), args[2 * count + k], inner), f"the summary of component {k} of %{node}")
    return tuple(out)


def concern(faults: Faults, what: str) -> Faults:
    """Faults of a loop's own structure; accesses below it keep their checks."""
    own = ("effects-covered-once", "coordinates-equivalent", "types-legal", "structured-complete", "folds-complete")
    return tuple(Fault("folds-complete" if f.check == own[0] else f.check, f"{what}: {f.message}", f.pointer) for f in faults)


def form(c: Compare, t: Term, node: int, sigma: Sigma) -> Faults:
    rec, part = t.attrs
    n = c.nodes[node]
    if n.op != "Form" or n.attrs[0] != rec.name:
        return c.fault("folds-complete", f"%{node} is {n.op} instead of a state of the loop {rec.name}")
    if not note(c, rec, n.attrs[1], part):
        return c.fault("folds-complete", f"component {n.attrs[1]} of the loop {rec.name} stands for two carries")
    return ()


def nonempty(c: Compare, t: Term) -> Term:
    """A summary of no slice at all is the start."""
    (rec,) = t.attrs
    some: Expr = lt(ZERO, c.axes[rec.axis].extent)
    out = choose(number(some, "bool"), t.kids[0], t.kids[1], t.dtype)
    return c.r.head(out)


__all__ = ["fold", "form", "nonempty", "state"]
