"""Stores of the program against effects of the kernel: that their points correspond one to one, and what a store writes there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from eqkir.analysis.effects import StoreSite
from eqkir.base.expr import ONE, TRUE, ZERO, Coord, Expr, conj, coords, le, lt, substitute
from eqkir.kir import model as kir
from eqkir.program.abi import member_axis, members_of, slice_axis
from eqkir.program.abstract import Group, Put, axes_in
from eqkir.program.construction.codes import Fault
from eqkir.program.construction.compare import Compare, Faults, unit
from eqkir.program.construction.compare_binders import position
from eqkir.program.construction.relation import TRUE_TERM, Frame, K, Path, Val, both, const, number
from eqkir.program.construction.relation_loops import after, inside, inside_while

#: ways to pair points with axes that are tried where index maps do not tell
TRIES = 720


@dataclass(frozen=True)
class CarrySite(StoreSite):
    """A store that keeps a carry of an ordered loop in memory: `last` at the end of a step, else before the loop."""

    carry: int = 0
    path: Path = ()
    last: bool = False
    region: str = ""


@dataclass
class Variable:
    """One dimension of an effect's iteration space: a point of a `parallel`, of a `for`, or of its coordinates. (An ordered loop is none:
    the step is that in which the store's version lives.)"""

    kind: str
    name: str
    extent: Expr
    x: Expr  # its position: unknown, or over the program's axes
    where: Expr = TRUE
    place: Expr | None = None  # the coordinate that traverses it


class Site:
    """One effect, at positions of its iteration space: those that `solved` gives, else those of the axes that `axes` names."""

    def __init__(
        self,
        c: Compare,
        site: StoreSite,
        space: Sequence[Variable],
        solved: Mapping[str, Expr] | None = None,
        axes: Mapping[str, str] | None = None,
    ) -> None:
        self.c, self.site = c, site
        self.variables = [replace(v) for v in space]
        self.runs: list[K] = []  # conditions of the ordered `while` loops around
        self.covers = True  # whether the axes that `axes` names have the points
        r = c.r
        root = self.frame = Frame()
        for v in self.variables:
            if solved is not None and axes is not None and v.x != ZERO:
                self.settle(v, solved, axes)
            elif v.x != ZERO:
                v.place = v.x if r.known(v.extent) else Coord(f"at {v.name}")
            if v.kind == "point":
                root.binds[v.name] = lambda path, ixs, v=v: self.point(v)  # type: ignore[misc]
                root.places |= {} if v.place is None else {v.name: v.place}
            elif v.kind == "loop":
                self.frame = inside(r, v.name, self.frame, v.x, v.where, v.place)
            elif v.kind == "step":
                self.step(v)
        dims = tuple(v.x for v in self.variables if v.kind == "dim")
        given = tuple(v.where for v in self.variables if v.where != TRUE)
        self.here = Val("", (), dims, self.frame, given)
        op = site.op
        owner = r.places(site.scope, self.frame) if isinstance(site, CarrySite) else r.owner(target(site), self.frame)
        valid: K = TRUE_TERM
        if isinstance(site, CarrySite):
            self.coords: tuple[K, ...] = (*owner, *map(number, dims)) or (number(ZERO),)
            self.value: K = self.carry(site, dims)
        elif isinstance(op, kir.Buffer):
            assert op.init is not None
            self.coords = (*owner, *map(number, dims))
            self.value = r.operand(self.here, op.init)
        else:
            self.coords = (*owner, *(r.operand(self.here, i) for i in op.coords))
            valid = TRUE_TERM if op.valid is None else r.operand(self.here, op.valid)
            self.value = const(0, r.dtype(op.results[0])) if isinstance(op, kir.AtomicLoad) else r.operand(self.here, op.value)
        self.valid = both(r.holds(site.conditions, self.here), valid)
        for goes in self.runs:
            self.valid = both(goes, self.valid)

    def step(self, v: Variable) -> None:
        """Enter an ordered loop."""
        r, axis = self.c.r, self.c.a.ordered[v.name]
        if isinstance(r.effects.loops[v.name].op, kir.While):
            self.frame, goes = inside_while(r, v.name, self.frame)
            self.runs.append(goes)
            return
        loop = r.effects.loops[v.name].op
        assert isinstance(loop, kir.For)
        t, _ = r.domain(loop.domain, self.frame)
        found = position(self.c, r.extent(t.length), axis, Coord(axis), Val("", (), (), self.frame), {})
        self.covers &= found is not None
        x, v.where = found or (ZERO, TRUE)
        self.frame = inside(r, v.name, self.frame, x, v.where, None)

    def carry(self, site: CarrySite, dims: tuple[Expr, ...]) -> K:
        """What a carry is before its loop, or after a step."""
        info = self.c.r.effects.loops[site.region]
        op = info.op
        assert isinstance(op, (kir.For, kir.While))
        if not site.last:
            return Val(op.inits[site.carry], site.path, dims, self.frame, self.here.given)
        before = self.frame.binds[op.body.args[site.carry + isinstance(op, kir.For)].id](site.path, dims)
        dtype = self.c.r.dtype(op.inits[site.carry], site.path)
        return after(self.c.r, site.region, info, (site.carry, site.path, dims), before, self.here, dtype)

    def settle(self, v: Variable, solved: Mapping[str, Expr], axes: Mapping[str, str]) -> None:
        """Give a variable its position, and where that is one."""
        name = str(v.x.args[0])
        steps = {self.c.a.ordered[x] for x in self.site.inner}
        own = [axes[name]] if axes.get(name) else sorted(a for a in coords(solved.get(name, ZERO)) - steps if a in self.c.axes)
        found = position(self.c, v.extent, own[0], Coord(own[0]), Val("", (), (), self.frame), {}) if len(own) == 1 else None
        self.covers &= name in solved or not axes.get(name) or found is not None
        v.x = solved[name] if name in solved else found[0] if found else ZERO
        v.where = found[1] if found else TRUE
        v.place = Coord(own[0]) if len(own) == 1 else None

    def point(self, v: Variable) -> K:
        t, _ = self.c.r.domain(self.c.r.effects.points[v.name][0], self.frame)
        return number(self.c.r.resolved(t.begin, Val("", (), (), self.frame), self.frame) + v.x * t.step)


def target(site: StoreSite) -> str:
    """The view or buffer that an effect changes."""
    return site.op.results[0] if isinstance(site.op, kir.Buffer) else site.op.view


def variables(c: Compare, site: StoreSite) -> list[Variable]:
    """The iteration space, positions unknown."""
    r = c.r
    out: list[Variable] = []
    for p in site.scope:
        t, _ = r.domain(r.effects.points[p][0], Frame())
        out.append(Variable("point", p, r.extent(t.length), ZERO))
    for key in site.loops:
        loop = r.effects.loops[key].op
        if key in c.a.ordered:
            out.append(Variable("step", key, ONE, ZERO))
        elif isinstance(loop, kir.For):
            t, _ = r.domain(loop.domain, Frame())
            out.append(Variable("loop", key, r.extent(t.length), ZERO))
    shape: list[Expr] = []
    op = site.op
    if isinstance(site, CarrySite):
        assert isinstance(site.op, (kir.For, kir.While))
        shapes = [r.shape(site.op.inits[site.carry], site.path)]
    elif isinstance(op, kir.Buffer):
        shapes = [r.resource(op.results[0])]
    else:
        shapes = [r.shape(id) for id in (*op.coords, *((op.valid,) if op.valid else ()))]
    for s in shapes:
        shape = [*s[: max(0, len(s) - len(shape))], *shape]
        for k, e in enumerate(reversed(s), 1):
            shape[-k] = e if shape[-k] == ONE else shape[-k]
    out += [Variable("dim", str(d), e, ZERO) for d, e in enumerate(shape)]
    for n, v in enumerate(out):
        if v.extent != ONE:
            v.x = Coord(f"y{n}")
            c.reason.extents.pop(f"y{n}", None)
    return out


def axes_of(c: Compare, put: Put, group: Group) -> list[str]:
    """Axes over which the program repeats a store, other than those of one element and slices whose members are there."""
    a = c.a
    found = set(group.axes).union(a.inside(put.view, put.version), *(coords(e) | axes_in(e) for e in (*put.ixs, *put.at)))
    found = found.union(*(a.free(i) for i in (put.value, put.valid, *put.deps)))
    for x in sorted(found):
        if members_of(x, c.axes):
            found = found - {x} | ({m for m in found if slice_axis(m) == x and m != x} or {member_axis(x)})
    return [x.name for x in c.a.axes if x.name in found and x.extent != ONE]


def covered(c: Compare, site: StoreSite, put: Put, group: Group) -> Faults:
    """Why a store is not the effect: of the pairings of their points, the first that leaves nothing, or the first of all."""
    first: Faults | None = None
    steps = tuple(c.a.ordered[x] for x in site.inner)
    if c.a.inside(put.view, put.version) != steps:
        return c.fault("order-kept", f"version {put.version} of {put.view} does not live in the ordered loops {' '.join(site.inner)}")
    axes = [x for x in axes_of(c, put, group) if x not in steps]
    for at in itertools.islice(pairings(c, site, put, axes), TRIES):
        mark = len(c.journal)
        faults = made(c, at, put, axes)
        if not faults:
            return ()
        while len(c.journal) > mark:
            c.journal.pop()()
        first = faults if first is None else first
    return first or c.fault("ownership-complete", f"the points of the store to {put.view} do not correspond to those of the effect")


def pairings(c: Compare, site: StoreSite, put: Put, axes: Sequence[str]) -> Iterator[Site]:
    """Positions of the effect over the axes of the store: as the index map says, then by extent."""
    space = variables(c, site)
    unknown = Site(c, site, space)
    solved = linear(c, unknown, put, space)
    used = {a for e in solved.values() for a in coords(e)}
    rest = [v for v in space if v.x != ZERO and v.x.args[0] not in solved]
    free = [a for a in axes if a not in used]
    for choice in itertools.permutations([*free, *([""] * max(0, len(rest) - len(free)))], len(rest)):
        at = Site(c, site, space, solved, {str(v.x.args[0]): a for v, a in zip(rest, choice, strict=True)})
        if at.covers:
            yield at


def linear(c: Compare, unknown: Site, put: Put, space: Sequence[Variable]) -> dict[str, Expr]:
    """Positions that follow from one coordinate each, in which they stand alone with a factor of 1 or -1."""
    out: dict[str, Expr] = {}
    names = {str(v.x.args[0]) for v in space if v.x != ZERO}
    pairs = [(c.r.index(k), e) for k, e in zip(unknown.coords, put.ixs, strict=False)]
    exprs = [(c.reason.simple(c.of(k)), c.reason.simple(e)) for k, e in pairs]
    changed = True
    while changed:
        changed = False
        for e, p in exprs:
            e = c.reason.simple(substitute(e, {Coord(n): x for n, x in out.items()}))
            todo = sorted(coords(e) & (names - set(out)))
            if len(todo) == 1 and (got := unit(e, todo[0])) is not None:
                sign, rest = got
                x = c.reason.simple((p - rest) if sign > 0 else (rest - p))
                if not any(a in names for a in coords(x)) and "?" not in str(x) and "dep" not in str(x):
                    out[todo[0]] = x
                    changed = True
    return out


def made(c: Compare, site: Site, put: Put, axes: Sequence[str]) -> Faults:
    """The store at these positions: coordinates, validity, value; each point once."""
    what = f"the store to {put.view}"
    out: list[Fault] = []
    place = c.coordinates(site.coords, put.ixs, put.deps, {}, site.here.given, what, out)
    out += pairs(c, site, axes, what)
    want = c.of(site.valid)
    hyps = [*site.here.given, *(conj(le(ZERO, x), lt(x, e)) for x, e in zip(place, c.a.abi.view(put.view).shape, strict=False))]
    out += c.validity(want, put.valid, {}, hyps, what)
    have = c.at(put.valid, {})
    for v in site.variables:
        if v.where != TRUE:
            env = c.unified((v.where,), (have,))
            if not c.reason.implied(substitute(v.where, env), [have]):
                out += c.fault("narrowing-explicit", f"{what} is valid where {have}, which does not imply {v.where}")
    out += c.fault("atomics-kept", f"{what}: {wrong}") if (wrong := kept(c, site, put)) else ()
    if out:
        return tuple(out)
    expected = getattr(site.site.op, "expected", None)
    more = c.match(c.r.operand(site.here, expected), put.deps[-1 - bool(put.into)], {}) if expected else ()
    more = tuple(replace(f, check="atomics-kept", message=f"{what} expects another value: {f.message}") for f in more)
    return c.match(site.value, put.value, {}) + more


def kept(c: Compare, site: Site, put: Put) -> str:
    """What is wrong with the sharing domain of an atomic operation or the place of its old values, or an empty text."""
    op, points = site.site.op, list(c.r.effects.points)
    spots = {f"{v.place.args[0]}#{points.index(v.name)}" for v in site.variables if v.kind == "point" and v.place is not None}
    if not set(put.shared) <= spots:
        return f"the points {' '.join(put.shared)} share it, which are not those of its `parallel`s {' '.join(sorted(spots))}"
    name = op.results[0] if op.results and op.results[0] in c.r.effects.kept else ""
    if not put.into:
        return f"its old value {name} is lost" if name in c.buffers else ""
    if not name or put.into not in c.candidates(name):
        return f"{put.into} is no workspace of its old value"
    c.assign(name, put.into)
    want = [c.r.index(k) for k in (*c.r.owner(name, site.frame), *map(number, site.here.at))]
    if len(want) != len(put.at) or not all(c.equal(c.of(k), e, site.here.given) for k, e in zip(want, put.at, strict=True)):
        return f"its old value is kept at {', '.join(map(str, put.at))} instead of {', '.join(str(c.of(k)) for k in want)}"
    live = c.nodes[put.deps[-1]]
    return "" if (live.op, live.attrs) == ("Const", ("true",)) else "its old value is not kept everywhere"


def pairs(c: Compare, site: Site, axes: Sequence[str], what: str) -> Faults:
    """Each axis is one dimension of the effect, from end to end."""
    left = list(axes)
    for v in site.variables:
        if v.extent == ONE:
            continue
        own = sorted(coords(v.x) & set(axes))
        if len(own) != 1:
            return c.fault("effects-covered-once", f"the points of {v.name or 'a dimension'} of {what} are not those of an axis: {v.x}")
        if own[0] not in left:
            return c.fault("ownership-complete", f"{own[0]} gives two dimensions of {what}")
        left.remove(own[0])
        found = position(c, v.extent, own[0], Coord(own[0]), site.here, {})
        ways = [] if found is None else [found[0], v.extent - 1 - found[0]]
        if not any(c.reason.simple(w) == c.reason.simple(v.x) for w in ways) and not any(c.equal(w, v.x) for w in ways):
            return c.fault("ownership-complete", f"{v.x} does not run through all {v.extent} points of {what}")
    if left:
        return c.fault("ownership-complete", f"{what} is repeated along {' '.join(left)}")
    return ()


__all__ = ["CarrySite", "Site", "covered", "target", "variables"]
