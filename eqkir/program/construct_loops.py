"""Ordered control: `for` as a fold over single steps, `while`, `if` as a choice, records.

Leaving a loop is part of its state: ``alive`` is a component like any carry. A step that is not alive (or, over a subregion, not inside
it) keeps every state, and its loads touch nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from eqkir.analysis.effects import Condition, LoopInfo
from eqkir.base.diagnostics import fail
from eqkir.base.expr import ZERO, Expr
from eqkir.kir import model as kir
from eqkir.program import construct_index as ix
from eqkir.program.construct_codes import LOOP_STORE, STAGE
from eqkir.program.construct_env import ROOT, Bind, Env, Ixs, Request, Steps, construction, made
from eqkir.program.construct_states import Again, Loop, Part
from eqkir.program.construct_values import Values

ALIVE = -1  # the component that says whether the loop goes on


# ------------------------------------------------------------------------------------------------ conditions
def both(v: Values, a: int, b: int) -> int:
    """``a and b``."""
    out = ix.logic(v, "and", a, b)
    return v.make("Bin", ("and",), (a, b), "bool") if out is None else out


def opposite(v: Values, a: int) -> int:
    out = ix.inverted(v, a)
    return v.make("Un", ("not",), (a,), "bool") if out is None else out


def choice(v: Values, c: int, a: int, b: int) -> int:
    """``c ? a : b``."""
    if a == b:
        return a
    out = ix.chosen(v, c, a, b)
    return v.make("Tri", ("select",), (c, a, b), v.program.nodes[a].dtype) if out is None else out


Nodes = Generator[Request, int, int]


def holds(v: Values, conditions: tuple[Condition, ...]) -> Nodes:
    """The conjunction of conditions as a node."""
    out = v.const(True, "bool")
    for c in conditions:
        match c[0]:
            case "if":
                node = yield c[1], ()
                node = node if c[2] else opposite(v, node)
            case "stays":
                node = opposite(v, (yield from happens(v, v.effects.loops[c[1]], c[2])))
            case "alive":
                steps = isinstance(v.effects.loops[c[1]].op, kir.For) and v.effects.loops[c[1]].breaks
                node = (yield c[1], ()) if steps else v.const(True, "bool")
            case _:
                node = inside(v, c[1])
        out = both(v, out, node)
    return out


def inside(v: Values, loop: str) -> int:
    """Whether the current step of an ordered loop is inside its domain."""
    info = v.effects.loops[loop]
    env: Env = v.env.home(len(info.outer) + 1)
    axis = env.steps
    member = v.member(axis) if axis else None
    return v.const(True, "bool") if member is None else member


def happens(v: Values, info: LoopInfo, n: int) -> Nodes:
    """Whether the n-th leave happens in the current iteration."""
    leave = info.leaves[n]
    a = yield from holds(v, leave.conditions)
    b = yield leave.op.cond, ()
    return both(v, a, b)


# ------------------------------------------------------------------------------------------------ for
def path_of(id: str, path: tuple[str, ...]) -> str:
    return "/".join((id, *path))


class ForLoop:
    """One instance of a `for` over an axis (None: a single step) inside an environment."""

    def __init__(self, v: Values, op: kir.For, region: str, outer: Env, x: Expr, axis: str | None, root: Part | None) -> None:
        self.v, self.op, self.region, self.outer, self.x = v, op, region, outer, x
        self.info = v.effects.loops[region]
        number = made(v, region, outer, ("for", axis, root))
        varies = outer.axes.union(*map(v.axes_of, root[2] if root else ()))
        axes = varies | {axis} if axis else varies  # what the body binds is none of these
        varies |= {v.point_axis[p] for p in v.effects.scopes[op.body.args[0].id] if p in v.point_axis}
        self.loop = Loop(v, axis or "", f"f{number}", varies, self.dtype, region=region)
        self.env = Env(number, outer, {}, axes)
        self.env.steps = axis or ""
        self.env.binds[op.body.args[0].id] = lambda path, ixs: v.index(v.point(op.domain, x), (), "index")
        for k, a in enumerate(op.body.args[1:]):
            self.env.binds[a.id] = self.bind(k)
        self.env.binds[region] = lambda path, ixs: self.carry((ALIVE, (), ()))

    def dtype(self, k: int, path: tuple[str, ...]) -> str:
        return "bool" if k == ALIVE else self.v.dtype(path_of(self.op.inits[k], path))

    def bind(self, k: int) -> Bind:
        return lambda path, ixs: self.carry((k, path, ixs))

    def carry(self, part: Part) -> Any:
        return self.loop.form(part)

    def make(self, kind: str, part: Part) -> Nodes:
        k, path, ixs = part
        v, op, info = self.v, self.op, self.info
        if kind == "init":
            return v.const(True, "bool") if k == ALIVE else (yield path_of(op.inits[k], path), ixs, self.outer)
        v.env = self.env
        return (yield from after(v, info, k, path, ixs, lambda: self.loop.form(part), self.env))


def after(v: Values, info: LoopInfo, k: int, path: tuple[str, ...], ixs: Ixs, before: Any, env: Env) -> Nodes:
    """A component after an iteration of a `for` or `while` body. `before`: the component as it was."""
    fires: list[int] = []
    for n in range(len(info.leaves)):
        fires.append((yield from within(v, env, happens, info, n)))
    if k == ALIVE:
        out = v.const(True, "bool")
        for n, f in enumerate(fires):
            if isinstance(info.leaves[n].op, kir.Break):
                out = both(v, out, opposite(v, f))
    else:
        out = yield path_of(info.region.yields[k], path), ixs, env
        for f, leave in reversed(list(zip(fires, info.leaves, strict=True))):
            out = choice(v, f, (yield path_of(leave.op.values[k], path), ixs, env), out)
    runs = yield from within(v, env, holds, tuple((c, info_key(v, info)) for c in ("alive", "active")))
    return out if v.is_const(runs, "true") else choice(v, runs, out, before())


def within(v: Values, env: Env, f: Any, *args: Any) -> Nodes:
    """Run steps whose requests are made in an environment."""
    outer = v.env
    v.env = env
    steps = f(v, *args)
    try:
        asked = next(steps)
        while True:
            v.env = outer
            node = yield (*asked, env) if len(asked) == 2 else asked
            v.env = env
            asked = steps.send(node)
    except StopIteration as stop:
        v.env = outer
        result: int = stop.value
        return result


def info_key(v: Values, info: LoopInfo) -> str:
    return next(k for k, i in v.effects.loops.items() if i is info)


def folded(v: Values, op: kir.For, outer: Env, region: str, axis: str | None, x: Expr, part: Part) -> Generator[Request, int, ForLoop]:
    """A closed loop that has the component."""
    key = (region, outer.number, axis)
    loops: list[ForLoop] = v.loops.setdefault(key, [])
    for known in loops:
        if known.loop.serves(part):
            return known
    new = ForLoop(v, op, region, outer, x, axis, part)
    new.loop.form(part)
    yield from new.loop.close(new.make, ("init", "next"))
    loops.append(new)
    return new


def region_of(v: Values, op: kir.Op, field: str = "body") -> str:
    return next(k for k, i in v.effects.loops.items() if i.op is op and i.name == field)


@construction("for", "domain inits body", records=True)
def _for(v: Values, op: kir.For, n: int, ixs: Ixs, path: tuple[str, ...]) -> Steps:
    outer, region = v.env, region_of(v, op)
    if region in v.effects.ordered:
        return finished(v, region, n, path, ixs)
    length = v.domain(op.domain)[2]
    x, axis = v.dimension(length, v.taken(path_of(op.results[n], path), ixs), "strict")
    if axis is None:  # one step
        one = ForLoop(v, op, region, outer, x, None, (n, path, ixs))
        one.carry = lambda part: (path_of(op.inits[part[0]], part[1]), part[2], outer)  # type: ignore[method-assign]
        return (yield from single(v, one, (n, path, ixs)))
    loop = yield from folded(v, op, outer, region, axis, x, (n, path, ixs))
    return loop.loop.result((n, path, ixs))


def single(v: Values, one: ForLoop, part: Part) -> Steps:
    """The result of a loop of one step."""
    k, path, ixs = part
    one.env.binds[one.region] = lambda path, ixs: v.const(True, "bool")
    return (yield from after(v, one.info, k, path, ixs, lambda: -1, one.env))


def finished(v: Values, region: str, n: int, path: tuple[str, ...], ixs: Ixs) -> int:
    """A component after an ordered loop."""
    from eqkir.program.construct_ordered import memory

    return memory(v, region, n, path).read(ixs, entry=False)


def environment(v: Values, loops: Sequence[str], pointer: str) -> Env:
    """The environment of effects inside these loops."""
    outer = ROOT
    for region in loops:
        v.env = outer
        outer = stepping(v, region, outer, pointer)
    v.env = outer
    return outer


def stepping(v: Values, region: str, outer: Env, pointer: str) -> Env:
    """The environment of stores inside a loop: carries are the states before the current step."""
    from eqkir.program.construct_ordered import OrderedLoop

    info = v.effects.loops[region]
    op = info.op
    if region in v.effects.ordered:
        if region not in v.ordered:
            OrderedLoop(v, region, outer)
        env: Env = v.ordered[region].inside
        return env
    if not isinstance(op, kir.For):
        raise Again(region, fail(LOOP_STORE, f"a store inside {op.op}", pointer, "a store inside for or while", STAGE))
    axis = v.point_axis.get(region)
    x = v.coordinate(axis) if axis else ZERO
    if axis is None:
        v.env = outer
        around = {v.point_axis[p] for p in v.effects.scopes[op.body.args[0].id] if p in v.point_axis}
        x, axis = v.dimension(v.domain(op.domain)[2], around | outer.axes, "strict" if op.inits or info.breaks else "loop")
        if axis:
            v.point_axis[region] = axis
    one = ForLoop(v, op, region, outer, x, axis, None)

    def state(part: Part) -> Any:
        if axis is None:
            return (path_of(op.inits[part[0]], part[1]), part[2], outer) if part[0] != ALIVE else v.const(True, "bool")
        return states(v, op, outer, region, axis, x, part)

    one.carry = state  # type: ignore[method-assign]
    return one.env


def states(v: Values, op: kir.For, outer: Env, region: str, axis: str, x: Expr, part: Part) -> Steps:
    loop = yield from folded(v, op, outer, region, axis, x, part)
    return loop.loop.state(part)


# ------------------------------------------------------------------------------------------------ while
class WhileLoop:
    """One instance of a `while` inside an environment."""

    def __init__(self, v: Values, op: kir.While, outer: Env, axis: str, root: Part) -> None:
        self.v, self.op, self.outer = v, op, outer
        self.regions = {f: region_of(v, op, f) for f in ("cond", "body")}
        self.info = v.effects.loops[self.regions["body"]]
        varies = outer.axes.union(*map(v.axes_of, root[2]))
        varies |= {v.point_axis[p] for p in v.effects.scopes[op.results[0]] if p in v.point_axis}
        self.envs: dict[str, Env] = {}
        self.loop: Loop
        for field, region in self.regions.items():
            number = made(v, region, outer, ("while", axis, root))
            env = self.envs[field] = Env(number, outer, {}, varies | {axis})
            for k, a in enumerate((op.cond if field == "cond" else op.body).args):
                env.binds[a.id] = self.bind(k)
        self.loop = Loop(v, axis, f"f{self.envs['body'].number}", varies, self.dtype, region=self.regions["body"])

    def dtype(self, k: int, path: tuple[str, ...]) -> str:
        return "bool" if k == ALIVE else self.v.dtype(path_of(self.op.inits[k], path))

    def bind(self, k: int) -> Bind:
        return lambda path, ixs: self.loop.form((k, path, ixs))

    def make(self, kind: str, part: Part) -> Nodes:
        k, path, ixs = part
        if kind == "init":
            return self.v.const(True, "bool") if k == ALIVE else (yield path_of(self.op.inits[k], path), ixs, self.outer)
        return (yield from self.next(k, path, ixs))

    def next(self, k: int, path: tuple[str, ...], ixs: Ixs) -> Nodes:
        v, info, env = self.v, self.info, self.envs["body"]
        fires: list[int] = []
        for n in range(len(info.leaves)):
            fires.append((yield from within(v, env, happens, info, n)))
        if k == ALIVE:
            out = v.const(True, "bool")
            for n, f in enumerate(fires):
                out = both(v, out, opposite(v, f)) if isinstance(info.leaves[n].op, kir.Break) else out
            return out
        out = yield path_of(info.region.yields[k], path), ixs, env
        for f, leave in reversed(list(zip(fires, info.leaves, strict=True))):
            out = choice(v, f, (yield path_of(leave.op.values[k], path), ixs, env), out)
        return out

    def goes(self) -> Generator[Request, int, list[int]]:
        cond = yield self.op.cond.yields[0], (), self.envs["cond"]
        if self.info.breaks:
            cond = both(self.v, self.loop.form((ALIVE, (), ())), cond)
        return [cond]


@construction("while", "inits cond body", records=True)
def _while(v: Values, op: kir.While, n: int, ixs: Ixs, path: tuple[str, ...]) -> Steps:
    outer, part = v.env, (n, path, ixs)
    if region_of(v, op) in v.effects.ordered:
        return finished(v, region_of(v, op), n, path, ixs)
    axis = v.axis(ZERO, v.taken(path_of(op.results[n], path), ixs), "while")
    loops: list[Loop] = v.loops.setdefault((region_of(v, op), outer.number, axis), [])
    for known in loops:
        if known.serves(part):
            return known.result(part, "While")
    new = WhileLoop(v, op, outer, axis, part)
    new.loop.form(part)
    yield from new.loop.close(new.make, ("init", "next"), new.goes)
    loops.append(new.loop)
    return new.loop.result(part, "While")


# ------------------------------------------------------------------------------------------------ if, records
@construction("if", "cond then otherwise", records=True)
def _if(v: Values, op: kir.If, n: int, ixs: Ixs, path: tuple[str, ...]) -> Steps:
    c = yield op.cond, ()
    for text, r in (("true", op.then), ("false", op.otherwise)):
        if v.is_const(c, text):
            return (yield path_of(r.yields[n], path), ixs)
    a = yield path_of(op.then.yields[n], path), ixs
    b = yield path_of(op.otherwise.yields[n], path), ixs
    return choice(v, c, a, b)


@construction("make_record", "names values", records=True)
def _make_record(v: Values, op: kir.MakeRecord, n: int, ixs: Ixs, path: tuple[str, ...]) -> Steps:
    return (yield path_of(op.values[op.names.index(path[0])], path[1:]), ixs)


@construction("get_field", "x name", records=True)
def _get_field(v: Values, op: kir.GetField, n: int, ixs: Ixs, path: tuple[str, ...]) -> Steps:
    return (yield path_of(op.x, (op.name, *path)), ixs)


__all__ = ["ALIVE", "after", "both", "choice", "environment", "holds", "opposite", "path_of", "region_of", "stepping", "within"]
