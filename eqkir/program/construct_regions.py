"""Folds and scans over slices of a domain: a `Fold` over a ``seg`` axis whose slices have a ``mem`` axis.

A value of a slice is indexed, along the slice, by positions in the whole domain. Where several axes run through one slice at once (each
point beside each other point), each is a ``mem`` axis of its own. A slice of which no coordinate is a member (of a
subregion whose bounds are known at run time only) keeps the states; no slice at all gives the identity.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from eqkir.base.diagnostics import fail
from eqkir.base.expr import ZERO, Expr, Sym, coords, lt
from eqkir.kir import model as kir
from eqkir.kir.types import DomainType
from eqkir.program.abi import slice_axis
from eqkir.program.construct_codes import SLICE, STAGE
from eqkir.program.construct_env import Bind, Env, Ixs, Request, Steps, construction, made
from eqkir.program.construct_keep import kept, own_axes, plain
from eqkir.program.construct_loops import choice, region_of
from eqkir.program.construct_loops import path_of as _path
from eqkir.program.construct_states import Loop, Part
from eqkir.program.construct_values import Values
from eqkir.program.construct_whole import Whole

Op = kir.RegionFold | kir.RegionScan
Nodes = Generator[Request, int, int]


class Slices:
    """The regions of one operation, instantiated over a seg axis inside an environment."""

    def __init__(self, v: Values, op: Op, outer: Env, seg: str, root: Part | None) -> None:
        self.v, self.op, self.outer, self.seg, self.mem = v, op, outer, seg, f"{seg}.m"
        self.root = root
        self.number = made(v, op.results[0], outer, ("slices", seg, root))
        varies = outer.axes.union(*map(v.axes_of, root[2] if root else ()))
        self.axes = varies | {seg}  # what the regions bind is none of these
        self.summary = self.region("summarize", self.captured(op.summarize, 1 + len(op.xs)))
        varies |= {v.point_axis[p] for p in v.effects.scopes[op.results[0]] if p in v.point_axis}
        self.loop = Loop(v, seg, f"f{self.number}", varies, self.dtype, cuts=op.results[0])
        v.cutting[self.loop.name] = op.results[0]
        if isinstance(op, kir.RegionFold):
            half = len(op.identity)
            left = {a.id: self.form(k) for k, a in enumerate(op.combine.args[:half])}
            self.step = self.region("combine", left | self.summaries(op.combine.args[half:]))
        else:
            n = len(op.identity)
            transitions, states = self.summaries(op.apply.args[:n]), op.apply.args[n:]
            self.step = self.region("apply", transitions | {a.id: self.form(k) for k, a in enumerate(states)})
            self.first = self.region("apply", transitions | {a.id: self.value(op.init[k], outer) for k, a in enumerate(states)}, "first")

    # ------------------------------------------------------------------ what arguments stand for
    def form(self, k: int) -> Bind:
        return lambda path, ixs: self.loop.form((k, path, ixs))

    def value(self, id: str, env: Env) -> Bind:
        return lambda path, ixs: (_path(id, path), ixs, env)

    def summaries(self, args: Sequence[kir.Arg]) -> dict[str, Bind]:
        return {a.id: self.value(y, self.summary) for a, y in zip(args, self.op.summarize.yields, strict=True)}

    def captured(self, r: kir.Region, first: int) -> dict[str, Bind]:
        return captured(self.op, r, first, self.outer)

    def region(self, name: str, binds: dict[str, Bind], key: str = "") -> Env:
        v, op = self.v, self.op
        number = made(v, region_of(v, op, name), self.outer, (self.seg, self.root, key))
        env = Env(number, self.outer, binds, self.axes)
        arg = getattr(op, name).args[0].id
        if name in ("summarize", "emit"):
            begin, step, _ = v.domain(op.domain)
            env.domains[arg] = v.pinned(begin), step, Sym(arg)
            env.domains.update(domains(v, op, getattr(op, name)))
            env.slices[arg] = self.seg
        return env

    @property
    def extent(self) -> Expr:
        return self.v.domain(self.op.domain)[2]

    # ------------------------------------------------------------------ states
    @property
    def states(self) -> tuple[str, ...]:
        """Values that the loop starts from."""
        return self.op.identity if isinstance(self.op, kir.RegionFold) else self.op.init

    def dtype(self, k: int, path: tuple[str, ...]) -> str:
        return self.v.dtype(_path(self.states[k], path))

    def make(self, kind: str, part: Part) -> Nodes:
        k, path, ixs = part
        v, op = self.v, self.op
        start = yield _path(self.states[k], path), ixs, self.outer
        if kind == "init":
            return start
        if kind == "next":
            region = op.combine if isinstance(op, kir.RegionFold) else op.apply
            out = yield _path(region.yields[k], path), ixs, self.step
            some = self.some()
            return out if some is None else choice(v, some, out, self.loop.form(part))
        if isinstance(op, kir.RegionFold):
            out = yield _path(op.summarize.yields[k], path), ixs, self.summary
        else:
            out = yield _path(op.apply.yields[k], path), ixs, self.first
        some = self.some()
        out = out if some is None else choice(v, some, out, start)
        return choice(v, v.index(lt(ZERO, v.extent_of[self.seg]), (), "bool"), out, start)

    def some(self) -> int | None:
        """Whether a slice has a member, where that is not certain."""
        member = self.v.member(self.mem)
        return None if member is None else self.v.make("Red", ("any", self.mem), (member,), "bool")


def values(ids: Sequence[str], args: Sequence[kir.Arg], env: Env) -> dict[str, Bind]:
    """Arguments that stand for values of an environment."""

    def bind(id: str) -> Bind:
        return lambda path, ixs: (_path(id, path), ixs, env)

    return {a.id: bind(x) for a, x in zip(args, ids, strict=True)}


def captured(op: Op, r: kir.Region, first: int, outer: Env) -> dict[str, Bind]:
    """Slices of tensors and captures: the tensors and values themselves."""
    return values(op.xs, r.args[1 : 1 + len(op.xs)], outer) | values(op.captures, r.args[first:], outer)


def domains(v: Values, op: Op, r: kir.Region) -> dict[str, tuple[Expr, int, Expr]]:
    """What arguments that capture domains stand for."""
    held = [(a.id, c) for a, c in zip(r.args[len(r.args) - len(op.captures) :], op.captures, strict=True)]
    return {a: v.domain(c) for a, c in held if isinstance(v.types[c], DomainType)}


def uncut(v: Values, op: Op, name: str, binds: dict[str, Bind], outer: Env) -> Env:
    """The environment of a region where the operation is taken in one slice."""
    env = Env(made(v, region_of(v, op, name), outer, ("whole",)), outer, binds)
    if name in ("summarize", "emit"):
        begin, step, extent = v.domain(op.domain)
        env.domains[getattr(op, name).args[0].id] = v.pinned(begin), step, extent
        env.domains.update(domains(v, op, getattr(op, name)))
    return env


def summarized(v: Values, op: Op, k: int, path: tuple[str, ...], ixs: Ixs, outer: Env) -> Steps:
    """The state after the one slice; of no slice at all: the one before."""
    start = op.identity if isinstance(op, kir.RegionFold) else op.init
    summary = uncut(v, op, "summarize", captured(op, op.summarize, 1 + len(op.xs), outer), outer)
    if isinstance(op, kir.RegionFold):
        out = yield _path(op.summarize.yields[k], path), ixs, summary
    else:
        n = len(op.identity)
        binds = values(op.summarize.yields, op.apply.args[:n], summary) | values(op.init, op.apply.args[n:], outer)
        out = yield _path(op.apply.yields[k], path), ixs, uncut(v, op, "apply", binds, outer)
    before = yield _path(start[k], path), ixs, outer
    v.env = outer
    extent = v.domain(op.domain)[2]
    if v.is_slice(extent):
        raise v.uncut(extent, "a fold over a slice", "a fold over a domain")
    return choice(v, v.index(lt(ZERO, v.pinned(extent)), (), "bool"), out, before)


def folded(v: Values, op: Op, outer: Env, seg: str, part: Part) -> Generator[Request, int, Loop]:
    """A closed loop that has the component."""
    loops: list[Loop] = v.loops.setdefault((op.results[0], outer.number, seg), [])
    for known in loops:
        if known.serves(part):
            return known
    new = Slices(v, op, outer, seg, part)
    new.loop.form(part)
    yield from new.loop.close(new.make, ("init", "next", "sum"))
    loops.append(new.loop)
    return new.loop


@construction("region_fold", "domain xs axes captures identity summarize combine", records=True)
def _region_fold(v: Values, op: kir.RegionFold, n: int, ixs: Ixs, path: tuple[str, ...]) -> Steps:
    outer = v.env
    if op.results[0] in v.whole:
        return (yield from summarized(v, op, n, path, ixs, outer))
    seg, _ = v.slices(v.domain(op.domain)[2], v.taken(_path(op.results[n], path), ixs))
    loop = yield from folded(v, op, outer, seg, (n, path, ixs))
    return loop.result((n, path, ixs))


@construction("region_scan", "domain xs axes captures identity init summarize combine apply emit out_axes", records=True)
def _region_scan(v: Values, op: kir.RegionScan, n: int, ixs: Ixs, path: tuple[str, ...]) -> Steps:
    outer, id = v.env, _path(op.results[n], path)
    extent, outputs = v.domain(op.domain)[2], len(op.out_axes)
    if op.results[0] in v.whole:
        if n >= outputs:
            return (yield from summarized(v, op, n - outputs, path, ixs, outer))
        first = 1 + len(op.xs)
        binds = captured(op, op.emit, first + len(op.init), outer) | values(op.init, op.emit.args[first : first + len(op.init)], outer)
        return (yield _path(op.emit.yields[n], path), ixs, uncut(v, op, "emit", binds, outer))
    if n >= outputs:
        seg, _ = v.slices(extent, v.taken(id, ixs))
        part = (n - outputs, path, ixs)
        loop = yield from folded(v, op, outer, seg, part)
        return loop.result(part)
    d = op.out_axes[n]
    mem = _members(v, ixs, d, extent)
    if mem is not None:
        return (yield from _emitted(v, op, n, ixs, path, outer, slice_axis(mem)))
    axis = plain(v, ixs[d], extent)
    if axis is not None:
        v.wishes.setdefault(axis, set()).add("slices")
    own, taken = own_axes(v, id, ixs, (d,))
    seg, mem = v.slices(extent, taken)
    own = (*own[:d], v.coordinate(mem), *own[d + 1 :])
    node = yield id, own
    return kept(v, node, own, ixs, v.effects.pointers[op.results[0]])


def _members(v: Values, ixs: Ixs, d: int, extent: Expr) -> str | None:
    """The mem axis that the output is read along, alone."""
    for a in sorted(coords(ixs[d])):
        others = frozenset().union(*(v.axes_of(e) for i, e in enumerate(ixs) if i != d))
        if v.kind_of[a] == "mem" and v.pool_of[a] == v.pinned(extent) and v.coordinate(a) == ixs[d] and a not in others:
            return a
    return None


def _emitted(v: Values, op: kir.RegionScan, n: int, ixs: Ixs, path: tuple[str, ...], outer: Env, seg: str) -> Steps:
    """An output along the members of a slice: the state is that before the slice."""
    if seg in outer.axes:
        raise Whole(op.results[:1], fail(SLICE, "a fold over slices inside a fold over the same slices", stage=STAGE))
    s = Slices(v, op, outer, seg, None)
    first = 1 + len(op.xs)
    binds = s.captured(op.emit, first + len(op.init))

    def state(k: int) -> Bind:
        def steps(path: tuple[str, ...], ixs: Ixs) -> Any:
            return _state(v, op, outer, seg, (k, path, ixs))

        return steps

    binds |= {a.id: state(k) for k, a in enumerate(op.emit.args[first : first + len(op.init)])}
    env = s.region("emit", binds)
    return (yield _path(op.emit.yields[n], path), ixs, env)


def _state(v: Values, op: kir.RegionScan, outer: Env, seg: str, part: Part) -> Steps:
    loop = yield from folded(v, op, outer, seg, part)
    return loop.state(part)


__all__: list[str] = []
