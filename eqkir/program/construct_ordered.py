"""Ordered loops: loops whose steps depend on each other through memory, or whose carries are read along other axes than their own.

Such a loop has one axis, which no instance owns and nothing else traverses, and one environment. Scalar carries are states of the loop.
Carried tensors, and whatever is read after the loop, are kept in memory: a workspace that holds the carry before the loop, is read at the
start of a step, and is written at its end. Which loops are ordered is found by trying (`construct_states.Again`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

from eqkir.base.diagnostics import EqkirError, fail
from eqkir.base.expr import ONE, ZERO, Coord, Expr
from eqkir.kir import model as kir
from eqkir.kir.types import RecordType, Type
from eqkir.program.construct_codes import EXTENT, LOOP_STORE, STAGE
from eqkir.program.construct_effect import Effect
from eqkir.program.construct_env import Env, Ixs, Request, made
from eqkir.program.construct_keep import together
from eqkir.program.construct_loops import ALIVE, after, both, environment, path_of
from eqkir.program.construct_memory import inbounds, members
from eqkir.program.construct_states import Loop, Part
from eqkir.program.construct_values import Values

Path = tuple[str, ...]


class OrderedLoop:
    """The one instance of an ordered loop, inside the environment of the ordered loops around it.

    `inside` is the environment of what happens in a step: scalar carries are states there. In `formal` they are the formals of the loop,
    which its next states are made of.
    """

    def __init__(self, v: Values, region: str, outer: Env) -> None:
        self.v, self.region, self.outer = v, region, outer
        self.info = v.effects.loops[region]
        op = self.info.op
        assert isinstance(op, (kir.For, kir.While))
        self.op: kir.For | kir.While = op
        v.env = outer
        if isinstance(op, kir.For):
            self.axis = v.axis(v.domain(op.domain)[2], frozenset(), "strict", region)
        else:
            self.axis = v.axis(ZERO, frozenset(), "while", region)
        v.point_axis[region] = self.axis
        v.ordered[region] = self
        points = v.effects.scopes[op.body.args[0].id] if op.body.args else ()
        varies = outer.axes.union(v.point_axis[p] for p in points if p in v.point_axis)
        self.loop = Loop(v, self.axis, f"o{region}", varies, self.dtype, region=region)
        self.inside, self.test = self.environments("inside")
        self.formal, self.formal_test = self.environments("formal")
        self.enter()

    def environments(self, kind: str) -> tuple[Env, Env]:
        """(of the body, of the condition of a `while`)."""
        v, op, out = self.v, self.op, []
        regions = (op.body, op.cond) if isinstance(op, kir.While) else (op.body,)
        for name, r in zip(("body", "cond"), regions, strict=False):
            env = Env(made(v, self.region, self.outer, (kind, name)), self.outer, {}, frozenset((self.axis,)))
            env.steps = self.axis
            args = list(r.args)
            if isinstance(op, kir.For):
                env.binds[args.pop(0).id] = lambda path, ixs, d=op.domain: v.index(v.point(d, v.coordinate(self.axis)), (), "index")  # type: ignore[misc]
            for k, a in enumerate(args):
                env.binds[a.id] = lambda path, ixs, k=k: self.carry(kind, (k, path, ixs))  # type: ignore[misc]
            env.binds[self.region] = lambda path, ixs: self.carry(kind, (ALIVE, (), ()))
            out.append(env)
        return out[0], out[-1]

    def dtype(self, k: int, path: Path) -> str:
        return "bool" if k == ALIVE else self.v.dtype(path_of(self.op.inits[k], path))

    def carry(self, kind: str, part: Part) -> int:
        """A carry before the current step."""
        if part[0] == ALIVE or not self.v.shape(path_of(self.op.inits[part[0]], part[1])):
            return self.loop.state(part) if kind == "inside" else self.loop.form(part)
        return memory(self.v, self.region, part[0], part[1]).read(part[2], entry=True)

    def enter(self) -> None:
        """Make the states of all scalar carries, and the condition."""
        v, info = self.v, self.info
        for k, id in enumerate(self.op.inits):
            for path in leaves(v.type_of(id)):
                if not v.shape(path_of(id, path)):
                    self.loop.form((k, path, ()))
        if info.breaks:
            self.loop.form((ALIVE, (), ()))
        if self.loop.parts:
            more = self.condition if isinstance(self.op, kir.While) else None
            run(v, self.loop.close(self.make, ("init", "next"), more), self.formal)
        elif isinstance(self.op, kir.While):
            at = v.effects.pointers.get(self.op.body.args[0].id, "") if self.op.body.args else ""
            raise fail(LOOP_STORE, "a while loop with effects carries no scalar", at, "a condition of carried scalars", STAGE)

    def make(self, kind: str, part: Part) -> Generator[Request, int, int]:
        k, path, _ = part
        if kind == "init":
            return self.v.const(True, "bool") if k == ALIVE else (yield path_of(self.op.inits[k], path), (), self.outer)
        return (yield from after(self.v, self.info, k, path, (), lambda: self.loop.form(part), self.formal))

    def condition(self) -> Generator[Request, int, list[int]]:
        return [(yield from self.goes(self.formal_test, "formal"))]

    def goes(self, env: Env, kind: str) -> Generator[Request, int, int]:
        """Whether a `while` makes the current step."""
        assert isinstance(self.op, kir.While)
        out = yield self.op.cond.yields[0], (), env
        return both(self.v, self.carry(kind, (ALIVE, (), ())), out) if self.info.breaks else out

    def runs(self) -> int | None:
        """Whether a `while` makes the current step, for what happens in it."""
        if isinstance(self.op, kir.For):
            return None
        out: int = run(self.v, self.goes(self.test, "inside"), self.test)
        return out


def leaves(t: Type) -> list[Path]:
    """Record paths of the tensors in a type."""
    return [(name, *path) for name, f in t.fields for path in leaves(f)] if isinstance(t, RecordType) else [()]


def run(v: Values, steps: Generator[Any, int, Any], env: Env) -> Any:
    """Drive steps from outside of any value: requests without an environment are made in `env`."""
    outer = v.env
    try:
        want = next(steps)
        while True:
            v.env = env
            id, ixs, where = want if len(want) == 3 else (*want, env)
            want = steps.send(v.node(id, ixs, where))
    except StopIteration as stop:
        return stop.value
    finally:
        v.env = outer


@dataclass
class Memory:
    """A carry of an ordered loop in memory: workspace `name`, one of the points around the loop each."""

    v: Values
    name: str
    region: str
    carry: int
    path: Path
    owner: tuple[Expr, ...]
    depth: int  # ordered loops around the loop

    def at(self, ixs: Ixs) -> Ixs:
        return (*self.owner, *ixs) or (ZERO,)

    def read(self, ixs: Ixs, entry: bool) -> int:
        """The element at the start of a step, or after the loop."""
        v = self.v
        dtype, shape = v.views_kept[self.name]
        exprs, deps = together(v, self.at(ixs))
        valid = inbounds(v, members(v, v.const(True, "bool"), ixs), exprs, deps, shape, False)
        version = self.depth + (2 if entry else 4)
        load = v.make("Load", (self.name, version, exprs), (valid, v.const(0, dtype), *deps), dtype)
        scope = self.scope
        v.load_scopes[load] = v.load_scopes.get(load, scope) & scope
        v.load_loops.setdefault(load, frozenset())
        return load

    @property
    def scope(self) -> frozenset[tuple[str, str]]:
        points = self.v.effects.scopes[self.v.effects.loops[self.region].op.results[self.carry]]
        return frozenset((p, self.v.point_axis[p]) for p in points if p in self.v.point_axis)

    def effects(self) -> list[Effect]:
        """The store before the loop and that at the end of a step."""
        v, info = self.v, self.v.effects.loops[self.region]
        op = info.op
        assert isinstance(op, (kir.For, kir.While))
        environment(v, (*info.outer, self.region), "")
        loop: OrderedLoop = v.ordered[self.region]
        id, alias = path_of(op.inits[self.carry], self.path), v.alias_of(self.name)
        pointer = v.effects.pointers[op.results[self.carry]]
        axes = [a for _, a in sorted(self.scope, key=lambda s: self.owner.index(Coord(s[1])))]
        ixs: list[Expr] = []
        for e in v.shape(id):
            x, axis = v.dimension(e, set(axes))
            ixs.append(x)
            axes += [axis] if axis else []
        at, outer = tuple(ixs), v.effects.around(info.outer)
        start, end = v.effects.spans[self.region]
        yes = v.const(True, "bool")
        first = v.node(id, at, loop.outer)
        place, mine = self.at(at), self.scope
        out = [Effect(self.name, alias, self.depth + 1, place, (), first, yes, tuple(axes), mine, pointer, inner=outer, when=start)]
        before = partial(loop.carry, "inside", (self.carry, self.path, at))
        value = run(v, after(v, info, self.carry, self.path, at, before, loop.inside), loop.inside)
        inner = (*outer, self.region)
        valid = running(v, inner, yes)
        last = self.depth + 3
        out.append(Effect(self.name, alias, last, place, (), value, valid, tuple(axes), mine, pointer, inner=inner, when=end))
        return out


def running(v: Values, inner: tuple[str, ...], valid: int) -> int:
    """`valid`, where all `while` loops around make their current step."""
    for region in reversed(inner):
        runs = v.ordered[region].runs()
        valid = valid if runs is None else both(v, runs, valid)
    return valid


def memory(v: Values, region: str, k: int, path: Path) -> Memory:
    """The memory of a carry, new or existing. Raises EQK-CON-EXTENT for one whose shape is known at run time only."""
    key = region, k, path
    if key not in v.memory:
        info = v.effects.loops[region]
        op = info.op
        assert isinstance(op, (kir.For, kir.While))
        id, name = path_of(op.inits[k], path), f"@carry{len(v.memory)}"
        outer = v.effects.around(info.outer)
        points = [v.point_axis[p] for p in v.effects.scopes[op.results[k]] if p in v.point_axis]
        shape = (*(v.extent_of[a] for a in points), *v.shape(id)) or (ONE,)
        if not all(map(v.known, shape)):
            what = f"a carried tensor of shape [{', '.join(map(str, v.shape(id)))}]"
            raise fail(EXTENT, what, v.effects.pointers[op.results[k]], stage=STAGE)
        v.views_kept[name] = v.dtype(id), shape
        v.alias_of(name)
        depth = len(outer)
        inner = [*(outer[:n] for n in range(1, depth + 1)), outer, (*outer, region), (*outer, region), outer]
        v.inner.update({(name, n): loops for n, loops in enumerate(inner, 1)})
        v.memory[key] = Memory(v, name, region, k, path, tuple(map(Coord, points)), depth)
    out: Memory = v.memory[key]
    return out


def kept_effects(v: Values) -> list[Effect]:
    """The stores that keep carries in memory; making them may ask for more."""
    out: list[Effect] = []
    done = 0
    while done < len(v.memory):
        for m in list(v.memory.values())[done:]:
            try:
                out += m.effects()
            except EqkirError as e:
                op = v.effects.loops[m.region].op
                raise v.placed(e, v.effects.pointers[op.results[m.carry]], op) from None
            done += 1
    return out


__all__ = ["Memory", "OrderedLoop", "kept_effects", "memory", "running"]
