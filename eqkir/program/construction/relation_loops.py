"""The relation of ordered loops and of folds over slices: states, and what a step makes of them.

A `Recurrence` is one instance of a loop: it knows the values of its components before and after a step. Which components a program
keeps is found while comparing; each is a carry, a record path and indices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from eqkir.analysis.effects import LoopInfo
from eqkir.base.expr import ONE, ZERO, Expr, Sym, lt
from eqkir.kir import model as kir
from eqkir.program.construction.relation import (
    TRUE_TERM,
    At,
    Body,
    Frame,
    K,
    Path,
    Relation,
    Term,
    Val,
    both,
    choose,
    expands,
    number,
    opposite,
)

ALIVE = -1  # the component that says whether the loop goes on
Part = tuple[int, Path, At]


@dataclass(eq=False)
class Recurrence:
    """`extent` of the traversed domain; `axis` and `name` are those of the program's operation, once compared; `parts` its components."""

    kind: str  # for, while, fold, scan
    op: kir.Op
    outer: Val
    extent: Expr
    dtype: Callable[[Part], str]
    axis: str = ""
    name: str = ""
    parts: dict[int, Part] = field(default_factory=dict)
    init: Callable[[Part], K] = lambda part: TRUE_TERM
    next: Callable[[Part], K] = lambda part: TRUE_TERM
    sum: Callable[[Part], K] | None = None
    cond: Callable[[], K] | None = None
    #: enter the body at a position, where that is one, traversed by a coordinate (None: by none)
    begin: Callable[[Expr, Expr, Expr | None], None] = lambda x, active, place: None
    fresh: Callable[[], Recurrence] | None = None  # another instance, for another operation of the program
    point: Expr | None = None  # the coordinate of the current step
    tested: bool = False  # whether the condition was compared
    todo: list[int] = field(default_factory=list)  # components not compared yet
    region: str = ""  # of a `for` or `while`

    def form(self, part: Part) -> Term:
        """The component before the current step."""
        return Term("Form", (self, part), (), self.dtype(part))


def loop_of(r: Relation, op: kir.Op, name: str = "body") -> tuple[str, LoopInfo]:
    return next((k, i) for k, i in r.effects.loops.items() if i.op is op and i.name == name)


def after(r: Relation, key: str, info: LoopInfo, part: Part, before: K, v: Val, dtype: str) -> K:
    """A component after a step of a `for` or `while` body; `v` stands in the body."""
    k, path, at = part
    fires = [r.happens(info, n, v) for n in range(len(info.leaves))]
    out: K = TRUE_TERM
    if k == ALIVE:
        for f, leave in zip(fires, info.leaves, strict=True):
            out = both(out, opposite(f)) if isinstance(leave.op, kir.Break) else out
    else:
        out = Val(info.region.yields[k], path, at, v.frame, v.given)
        for f, leave in reversed(list(zip(fires, info.leaves, strict=True))):
            out = choose(f, Val(leave.op.values[k], path, at, v.frame, v.given), out, dtype)
    return out if isinstance(info.op, kir.While) else choose(r.holds((("alive", key), ("active", key)), v), out, before, dtype)


def for_loop(r: Relation, op: kir.For, outer: Val) -> Recurrence:
    """A `for` whose body stands at a point set by `begin`."""
    key, info = loop_of(r, op)
    t, _ = r.domain(op.domain, outer.frame)

    def dtype(part: Part) -> str:
        return "bool" if part[0] == ALIVE else r.dtype(op.inits[part[0]], part[1])

    rec = Recurrence("for", op, outer, r.length(op.domain, outer.frame), dtype, fresh=lambda: for_loop(r, op, outer), region=key)
    frame = Frame(outer.frame.depth + 1, outer.frame)
    body = Val("", (), (), frame, outer.given)

    def begin(x: Expr, active: Expr, place: Expr | None) -> None:
        point = r.resolved(t.begin, outer, outer.frame) + x * t.step
        frame.binds[info.region.args[0].id] = lambda path, at: number(point)
        frame.active[key] = active
        if place is not None:
            frame.places[key] = place

    rec.begin = begin
    for k, a in enumerate(info.region.args[1:]):
        frame.binds[a.id] = lambda path, at, k=k: rec.form((k, path, at))  # type: ignore[misc]
    frame.binds[key] = lambda path, at: rec.form((ALIVE, (), ()))
    rec.init = lambda p: TRUE_TERM if p[0] == ALIVE else Val(op.inits[p[0]], p[1], p[2], outer.frame, outer.given)
    rec.next = lambda p: after(r, key, info, p, rec.form(p), body, dtype(p))
    return rec


def while_loop(r: Relation, op: kir.While, outer: Val) -> Recurrence:
    key, info = loop_of(r, op)

    def dtype(part: Part) -> str:
        return "bool" if part[0] == ALIVE else r.dtype(op.inits[part[0]], part[1])

    rec = Recurrence("while", op, outer, ZERO, dtype, fresh=lambda: while_loop(r, op, outer), region=key)
    frame, test = (Frame(outer.frame.depth + 1, outer.frame) for _ in "bc")
    for f, region in ((frame, op.body), (test, op.cond)):
        for k, a in enumerate(region.args):
            f.binds[a.id] = lambda path, at, k=k: rec.form((k, path, at))  # type: ignore[misc]
    body = Val("", (), (), frame, outer.given)
    rec.init = lambda p: TRUE_TERM if p[0] == ALIVE else Val(op.inits[p[0]], p[1], p[2], outer.frame, outer.given)
    rec.next = lambda p: after(r, key, info, p, rec.form(p), body, dtype(p))

    def cond() -> K:
        goes: K = Val(op.cond.yields[0], (), (), test, outer.given)
        return both(rec.form((ALIVE, (), ())), goes) if info.breaks else goes

    rec.cond = cond
    return rec


@expands("for")
def _for(r: Relation, op: kir.For, n: int, v: Val) -> K:
    rec = for_loop(r, op, Val("", (), (), v.frame, v.given))
    part = (n, v.path, v.at)
    if rec.extent == ONE:  # one step: the carries are the initial values
        key, info = loop_of(r, op)
        rec.form = rec.init  # type: ignore[method-assign, assignment]
        rec.begin(ZERO, ONE, None)
        out = rec.next(part)
        return out
    return Term("Fold", (rec, part), (), rec.dtype(part), v.given)


@expands("while")
def _while(r: Relation, op: kir.While, n: int, v: Val) -> K:
    rec = while_loop(r, op, Val("", (), (), v.frame, v.given))
    return Term("While", (rec, (n, v.path, v.at)), (), r.dtype(v.id, v.path), v.given)


# ------------------------------------------------------------------------------------------------ slices
def slices(r: Relation, op: kir.RegionFold | kir.RegionScan, outer: Val) -> Recurrence:
    """The states that run through the slices of a domain: summaries combine, or transitions apply."""
    fold = isinstance(op, kir.RegionFold)
    states = op.identity if isinstance(op, kir.RegionFold) else op.init
    length = r.length(op.domain, outer.frame)

    def dtype(part: Part) -> str:
        return r.dtype(states[part[0]], part[1])

    rec = Recurrence("fold" if fold else "scan", op, outer, length, dtype, fresh=lambda: slices(r, op, outer))
    depth = outer.frame.depth + 1
    summary = Frame(depth, outer.frame)
    captured(op.summarize, op, 1 + len(op.xs), summary, outer, rec)
    half = len(op.identity)
    region = op.combine if isinstance(op, kir.RegionFold) else op.apply
    summarised = region.args[half:] if fold else region.args[:half]
    carried = region.args[:half] if fold else region.args[half:]

    def stepping(state: Callable[[int], Callable[[Path, At], K]]) -> Frame:
        f = Frame(depth, outer.frame)
        for a, y in zip(summarised, op.summarize.yields, strict=True):
            f.binds[a.id] = lambda path, at, y=y: Val(y, path, at, summary, outer.given)  # type: ignore[misc]
        for k, a in enumerate(carried):
            f.binds[a.id] = state(k)
        return f

    step = stepping(lambda k: lambda path, at: rec.form((k, path, at)))
    first = stepping(lambda k: lambda path, at: Val(states[k], path, at, outer.frame, outer.given))

    def some(p: Part, out: K, otherwise: K) -> K:
        """A slice of which no coordinate is a member keeps the state."""
        if r.known(length):
            return out
        body = Body((_slice_extent(op),), lambda xs: (TRUE_TERM,), summary, (number(ZERO, "bool"),))
        return choose(Term("Red", ("any", body), (), "bool", outer.given), out, otherwise, dtype(p))

    def next(p: Part) -> K:
        return some(p, Val(region.yields[p[0]], p[1], p[2], step, outer.given), rec.form(p))

    def sum(p: Part) -> K:
        start = rec.init(p)
        if fold:
            out: K = Val(op.summarize.yields[p[0]], p[1], p[2], summary, outer.given)
        else:
            out = Val(region.yields[p[0]], p[1], p[2], first, outer.given)
        return Term("Nonempty", (rec,), (some(p, out, start), start), dtype(p), outer.given)

    rec.init = lambda p: Val(states[p[0]], p[1], p[2], outer.frame, outer.given)
    rec.next, rec.sum = next, sum
    return rec


def _slice_extent(op: kir.RegionFold | kir.RegionScan) -> Expr:
    return Sym(op.summarize.args[0].id)


def captured(region: kir.Region, op: kir.RegionFold | kir.RegionScan, first: int, frame: Frame, outer: Val, cut: Recurrence | Expr) -> None:
    """Bind the slice (`cut`: the loop that runs over it, or a position in it), the slices of tensors (indexed by positions in the whole
    domain) and the captures."""
    frame.slices[region.args[0].id] = op.domain, cut
    frame.domains.update(zip((a.id for a in region.args[first:]), op.captures, strict=True))
    pairs = [*zip(region.args[1:], op.xs, strict=False), *zip(region.args[first:], op.captures, strict=True)]
    for a, x in pairs:
        frame.binds[a.id] = lambda path, at, x=x: Val(x, path, at, outer.frame, outer.given)  # type: ignore[misc]


def one_slice(r: Relation, op: kir.RegionFold | kir.RegionScan, part: Part, outer: Val) -> K:
    """The state after a slice that is the whole domain; there is none where the domain is empty."""
    states = op.identity if isinstance(op, kir.RegionFold) else op.init
    k, path, at = part
    depth = outer.frame.depth + 1
    frame = Frame(depth, outer.frame)
    captured(op.summarize, op, 1 + len(op.xs), frame, outer, ZERO)
    start = Val(states[k], path, at, outer.frame, outer.given)
    out = Val(op.summarize.yields[k], path, at, frame, outer.given)
    if isinstance(op, kir.RegionScan):
        summary, frame = frame, Frame(depth, outer.frame)
        pairs = [*((y, summary) for y in op.summarize.yields), *((x, outer.frame) for x in op.init)]
        for a, (id, f) in zip(op.apply.args, pairs, strict=True):
            frame.binds[a.id] = lambda path, at, id=id, f=f: Val(id, path, at, f, outer.given)  # type: ignore[misc]
        out = Val(op.apply.yields[k], path, at, frame, outer.given)
    length = r.resolved(r.length(op.domain, outer.frame), outer, outer.frame)
    return choose(number(lt(ZERO, length), "bool"), out, start, r.dtype(states[k], path))


@expands("region_fold")
def _region_fold(r: Relation, op: kir.RegionFold, n: int, v: Val) -> K:
    if op.results[0] in r.whole:
        return one_slice(r, op, (n, v.path, v.at), Val("", (), (), v.frame, v.given))
    rec = slices(r, op, Val("", (), (), v.frame, v.given))
    return Term("Fold", (rec, (n, v.path, v.at)), (), r.dtype(v.id, v.path), v.given)


@expands("region_scan")
def _region_scan(r: Relation, op: kir.RegionScan, n: int, v: Val) -> K:
    outer = Val("", (), (), v.frame, v.given)
    outputs = len(op.out_axes)
    whole = op.results[0] in r.whole
    if n >= outputs and whole:
        return one_slice(r, op, (n - outputs, v.path, v.at), outer)
    rec = slices(r, op, outer)
    if n >= outputs:
        return Term("Fold", (rec, (n - outputs, v.path, v.at)), (), r.dtype(v.id, v.path), v.given)
    emit = Frame(v.frame.depth + 1, v.frame)
    first = 1 + len(op.xs)
    x = v.at[op.out_axes[n]]
    captured(op.emit, op, first + len(op.init), emit, outer, x)
    for k, a in enumerate(op.emit.args[first : first + len(op.init)]):
        if whole:  # the first slice starts from the initial state
            emit.binds[a.id] = lambda path, at, k=k: Val(op.init[k], path, at, outer.frame, v.given)  # type: ignore[misc]
            continue
        emit.binds[a.id] = lambda path, at, k=k: Term("State", (rec, (k, path, at), x), (), r.dtype(op.init[k], path), v.given)  # type: ignore[misc]
    return Val(op.emit.yields[n], v.path, v.at, emit, v.given)


def inside(r: Relation, key: str, outer: Frame, x: Expr, active: Expr, place: Expr | None) -> Frame:
    """The frame of effects in the body of a `for`, at a position: carries are the states before its step."""
    info = r.effects.loops[key]
    assert isinstance(info.op, kir.For)
    op, v = info.op, Val("", (), (), outer)
    rec = for_loop(r, op, v)
    t, _ = r.domain(op.domain, outer)
    f = Frame(outer.depth + 1, outer, active={key: active}, places={} if place is None else {key: place})
    point = r.resolved(t.begin, v, outer) + x * t.step
    f.binds[info.region.args[0].id] = lambda path, at: number(point)
    once = rec.extent == ONE

    def state(part: Part) -> K:
        return rec.init(part) if once else Term("State", (rec, part, x), (), rec.dtype(part))

    for k, a in enumerate(info.region.args[1:]):
        f.binds[a.id] = lambda path, at, k=k: state((k, path, at))  # type: ignore[misc]
    f.binds[key] = lambda path, at: state((ALIVE, (), ()))
    return f


def inside_while(r: Relation, key: str, outer: Frame) -> tuple[Frame, K]:
    """The frame of effects in the body of a `while`, and whether it makes the current step: carries are the states before it."""
    info = r.effects.loops[key]
    assert isinstance(info.op, kir.While)
    op = info.op
    rec = while_loop(r, op, Val("", (), (), outer))
    body, test = (Frame(outer.depth + 1, outer) for _ in "bc")
    for f, region in ((body, op.body), (test, op.cond)):
        for k, a in enumerate(region.args):
            f.binds[a.id] = lambda path, at, k=k: before(rec, (k, path, at))  # type: ignore[misc]
    goes: K = Val(op.cond.yields[0], (), (), test)
    return body, both(before(rec, (ALIVE, (), ())), goes) if info.breaks else goes


def before(rec: Recurrence, part: Part) -> Term:
    """A state before the current step of a `while`."""
    return Term("State", (rec, part, ZERO), (), rec.dtype(part))


__all__ = ["ALIVE", "Part", "Recurrence", "after", "for_loop", "inside", "inside_while", "loop_of"]
