"""Execution groups of constructed stores: facts for `analysis.worksets`, workspaces for copies, final axes, the finished `Abstract`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace

from eqkir.analysis.coords import normal
from eqkir.analysis.worksets import Plan, Read, Write, conflict, groups, instance_axes, plan, separates
from eqkir.base.diagnostics import fail, register
from eqkir.base.expr import Coord, Expr, coords, floordiv, substitute
from eqkir.kir.model import Buffer
from eqkir.program.abi import Abi, Axis, ViewParam
from eqkir.program.abstract import BOUND, Abstract, Group, Put, VNode, axes_in, bound_axis
from eqkir.program.construct_codes import LOOP_STORE, STAGE
from eqkir.program.construct_effect import Effect
from eqkir.program.construct_keep import kept, needed, number
from eqkir.program.construct_nests import Renamer, Tiers, misplaced, renamed, scanned, tiers, twice
from eqkir.program.construct_states import rebuilt, shared
from eqkir.program.construct_values import Values
from eqkir.program.lower import SCANS, scan_axis
from eqkir.program.ops import PLAIN_MODES

#: rounds of renaming bound axes; each settles the operations of one depth
RENAMINGS = 64
FactsOf = Callable[[Sequence[Effect]], list[Write]]
LOOPS = register(
    "EQK-CON-LOOPS",
    "reductions over equal extents depend on each other's loops",
    "Reductions that would run over an axis inside a loop over the same axis get axes of their own; here no choice was found.",
)
TRAVERSAL = register(
    "EQK-CON-SCALAR", "a masked store of many points to a view without axes",
    "A store to a rank-0 view inside a loop over points has no index that could carry the points. Give the view an axis of extent 1.",
)  # fmt: skip


def finish(v: Values, stores: Sequence[Effect], abi: Abi) -> Abstract:
    """Groups, phases and names; the result has an arena of its own that holds what the stores need and nothing else."""
    effects = useful(v, placed(v, stores))
    alias = {x.name: x.alias for x in abi.views} | {w: v.alias_of(w) for w in v.views_kept}
    written = {a for e in effects for a in (e.alias, e.into_alias)}

    def facts(es: Sequence[Effect]) -> list[Write]:
        watched = Watched(v.program, alias, written)
        return [facts_of(v, e, watched) for e in es]

    out = _Finished(v, abi)
    first = facts(effects)
    independent(v, effects, first)
    for n, members in enumerate(groups(first, v.facts)):
        mine = [effects[i] for i in members]
        merged = [shared(v, e.roots, frozenset(e.axes)) for e in mine]
        if any(change for change, _ in merged):
            one = [changed(v, e, change) for e, (change, _) in zip(mine, merged, strict=True)]
            apart, writes, own = separated(v, one, facts)
            if frozenset().union(*(more for _, more in merged)) <= frozenset(own):
                out.group(f"g{n}", apart, own, plan(writes, own, v.facts))
                continue
        apart, writes, own = separated(v, mine, facts)
        out.group(f"g{n}", apart, own, plan(writes, own, v.facts))
    return out.program()


def useful(v: Values, effects: Sequence[Effect]) -> list[Effect]:
    """The effects; old values that nothing reads are not kept. (A compare-exchange always has a place for them.)"""
    p = v.program
    read = {p.nodes[i].attrs[0] for i in reachable(p, [r for e in effects for r in e.roots]) if p.nodes[i].op == "Load"}
    return [e if e.into in read or e.mode == "compare_exchange" else replace(e, into="", at=(), into_alias=-1) for e in effects]


def separated(v: Values, mine: list[Effect], facts: FactsOf) -> tuple[list[Effect], list[Write], tuple[str, ...]]:
    """The stores of a group with no axis traversed inside a loop over itself, what is known of them, and the instance axes."""
    for _ in range(RENAMINGS):
        writes = facts(mine)
        own = instance_axes(writes, v.facts)
        again = conflicts(v, mine, writes, own)
        if not again:
            return mine, writes, own
        new = Renamer(v, again, frozenset(a for e in mine for a in e.axes))
        mine = [replace(e, value=new.node(e.value), valid=new.node(e.valid), deps=tuple(map(new.node, e.deps))) for e in mine]
    raise fail(LOOPS, "the loops of a store cannot be told apart", mine[0].pointer, stage=STAGE)


def placed(v: Values, stores: Sequence[Effect]) -> list[Effect]:
    """The stores, and those that fill workspaces before them, such that every scan stands in the innermost loop over its axis."""
    stores = list(stores)
    for _ in range(RENAMINGS):
        effects = [*needed(v, stores), *stores]
        change: dict[int, int] = {}
        for e in effects:
            for i in misplaced(v.program, [(e.roots, loops(v, e))]):
                change[i] = kept(v, i, (), (), e.pointer)
        if not change:
            return effects
        stores = [changed(v, e, change) for e in stores]
        for name in list(v.kept):
            v.kept[name] = changed(v, v.kept[name], change)
    raise fail(LOOPS, "the scans of a store cannot be told apart", stores[0].pointer, stage=STAGE)


def changed(v: Values, e: Effect, change: Mapping[int, int]) -> Effect:
    """The store with some nodes below it replaced (what fills a workspace stays)."""
    if not change:
        return e
    value, valid, *deps = (rebuilt(v, r, {k: x for k, x in change.items() if k != r or e.view not in v.kept}) for r in e.roots)
    return replace(e, value=value, valid=valid, deps=tuple(deps))


def loops(v: Values, e: Effect, own: Sequence[str] = ()) -> Tiers:
    """The loops of a store: as its index map names them, scanned axes last."""
    ixs = [*named(v, e, own, lambda a, x: x + Coord(a)), *(Coord(a) for a in e.axes)]
    return tiers(ixs, own, scanned(v.program, e.roots))


def independent(v: Values, effects: Sequence[Effect], writes: Sequence[Write]) -> None:
    """Iterations of an ordered loop touch elements of their own where one of them stores. Raises EQK-CON-LOOP-STORE."""
    for e, w in zip(effects, writes, strict=True):
        for loop, axis in e.loops:
            others: list[Read | Write] = [x for x, f in zip(writes, effects, strict=True) if (loop, axis) in f.loops]
            others += [r for x in writes for r in x.reads if loop in v.load_loops[r.node]]
            for o in others:
                if conflict(o, w, v.facts) and axis and not (o is w and w.atomic) and axis not in separates(o, w, w.axes, v.facts):
                    what = f"another iteration may touch what is stored to {w.view}"
                    raise fail(LOOP_STORE, what, e.pointer, "an index that is the loop's point", STAGE)


def conflicts(v: Values, effects: Sequence[Effect], writes: Sequence[Write], own: tuple[str, ...]) -> dict[int, frozenset[str]]:
    """Operations to rename (`construct_nests`): below stores, and below loads that may have to be copied."""
    places = [(e.roots, loops(v, e, own)) for e in effects]
    for i in sorted({r.node for w in writes for r in w.reads}):
        places.append(((i,), tuple(frozenset((a,)) for a in copy_axes(v.program, i, own)[len(own) :])))
    return twice(v.program, places)


def named(v: Values, e: Effect, own: Sequence[str], add: Callable[[str, Expr], Expr]) -> list[Expr]:
    """The index map; axes that nothing names, and that no instance owns, are added to its first expression. (What combines with the
    element may name an axis by its value too.)"""
    ixs = list(e.ixs)
    if e.mode in PLAIN_MODES:
        missing = [a for a in e.axes if a not in own and not any(a in axes_in(x) for x in ixs)]
    else:
        read = frozenset().union(*map(axes_in, (*ixs, *e.at)), *map(v.program.free, e.roots))
        missing = [a for a in e.axes if a not in read]
    if missing and not ixs:
        raise fail(TRAVERSAL, f"a store of {len(missing)} axes to {e.view}, which has none", e.pointer, stage=STAGE)
    for a in missing:
        ixs[0] = add(a, ixs[0])
    return ixs


def copy_axes(p: Abstract, load: int, own: tuple[str, ...]) -> tuple[str, ...]:
    """Axes of the workspace that keeps a loaded value: the instances', then the value's own."""
    free = p.free(load) - set(own)
    return (*own, *sorted((a for a in free if f"{a}.m" not in free), key=number))


# ------------------------------------------------------------------------------------------------ facts of a store
class Watched:
    """Loads of alias classes that some store writes, and which of them lie below each node (bit sets, children first)."""

    def __init__(self, p: Abstract, alias: Mapping[str, int], written: Collection[int]) -> None:
        self.alias = alias
        self.loads = [i for i, n in enumerate(p.nodes) if n.op == "Load" and alias[n.attrs[0]] in written]
        bit = {i: 1 << k for k, i in enumerate(self.loads)}
        self.below: list[int] = []
        for i, n in enumerate(p.nodes) if self.loads else ():
            mask = bit.get(i, 0)
            for a in n.args:
                mask |= self.below[a]
            self.below.append(mask)

    def under(self, i: int) -> list[int]:
        """The watched loads below node `i`, ascending."""
        mask = self.below[i] if self.loads else 0
        return [load for k, load in enumerate(self.loads) if mask >> k & 1] if mask else []


def facts_of(v: Values, e: Effect, watched: Watched) -> Write:
    """What `analysis.worksets` asks about a store."""
    p = v.program
    below = reachable(p, e.roots)
    alias = watched.alias
    loads = sorted({i for r in e.roots for i in watched.under(r)})
    direct, spans = ways(p, e.roots, watched) if loads else (frozenset(), {})
    reads = []
    for i in loads:
        n = p.nodes[i]
        reads.append(Read(
            i, n.attrs[0], alias[n.attrs[0]], n.attrs[1], n.attrs[2], p.free(i), i in direct, spans.get(i, frozenset()),
            len(n.args) > 2, v.load_scopes[i],
        ))  # fmt: skip
    atomic = e.mode not in PLAIN_MODES
    mapped = frozenset(e.axes) if atomic else frozenset().union(*(coords(x) for x in e.ixs), *(p.free(d) for d in e.deps))
    bound = frozenset(bound_axis(p.nodes[i]) for i in below if p.nodes[i].op in BOUND) | scanned(p, e.roots)
    bound |= {a for a in e.axes if v.kind_of[a] in ("seg", "mem")}
    axes = tuple(a for a in e.axes if v.kind_of[a] != "seg")
    data: set[int] = set()  # reads memory or reduces: worth one owner
    for i in below:
        if p.nodes[i].op == "Load" or p.nodes[i].op in (*BOUND, *SCANS) or any(a in data for a in p.nodes[i].args):
            data.add(i)
    computed = frozenset(i for i in data if p.nodes[i].op != "Load")
    also: tuple[Write, ...] = ()
    if e.into:
        also = (Write(e.into, e.into_alias, 1, e.at, axes, frozenset(e.axes), bound, computed, scope=e.scope),)
    opaque = len(e.deps) > (e.mode == "compare_exchange")
    return Write(
        e.view, e.alias, e.version, e.ixs, axes, mapped, bound, computed, tuple(reads), opaque, e.scope, atomic, e.order,
        e.view not in v.kept, also,
    )  # fmt: skip


def reachable(p: Abstract, roots: Sequence[int], leaves: Collection[int] = ()) -> list[int]:
    """Nodes below, ascending; nothing below `leaves`."""
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        i = todo.pop()
        if i not in seen:
            seen.add(i)
            todo += () if i in leaves else p.nodes[i].args
    return sorted(seen)


def ways(p: Abstract, roots: Sequence[int], watched: Watched) -> tuple[frozenset[int], dict[int, frozenset[frozenset[str]]]]:
    """(nodes reached without a structured operation around them, free axes of the outermost structured operations around each load)."""
    direct: set[int] = set()
    outermost: set[int] = set()
    todo = list(roots)
    while todo:
        i = todo.pop()
        if i in direct:
            continue
        if p.nodes[i].op in BOUND:
            outermost.add(i)
        else:
            direct.add(i)
            todo += p.nodes[i].args
    spans: dict[int, set[frozenset[str]]] = {}
    for o in sorted(outermost):
        for i in watched.under(o):
            spans.setdefault(i, set()).add(p.free(o))
    return frozenset(direct), {i: frozenset(s) for i, s in spans.items()}


# ------------------------------------------------------------------------------------------------ the finished program
class _Finished:
    def __init__(self, v: Values, abi: Abi) -> None:
        self.v, self.source, self.abi = v, v.program, abi
        self.out = Abstract(abi, ())
        self.axes: dict[tuple[str, Expr, int], Axis] = {}
        self.workspaces: list[ViewParam] = []
        self.kept: dict[str, str] = {}
        self.loops: dict[Hashable, str] = {}
        self.copiers = 0
        self.groups: list[Group] = []

    def program(self) -> Abstract:
        kinds = [[a for a in self.axes.values() if (a.kind == "own") == own] for own in (True, False)]
        self.out.axes = (*kinds[0], *kinds[1])
        self.out.abi = replace(self.abi, views=(*self.abi.views, *self.workspaces))
        self.out.groups = tuple(self.groups)
        return self.out

    def group(self, name: str, effects: Sequence[Effect], own: tuple[str, ...], p: Plan) -> None:
        names = self.names(effects, own, p)
        copies: dict[int, tuple[ViewParam, tuple[Expr, ...]]] = {}
        phases: list[list[Put]] = [[] for _ in p.phases]
        plain = _Copier(self, names, {})
        for phase, load in p.copies:
            axes = copy_axes(self.source, load, own)
            ixs = tuple(Coord(names[a]) for a in axes)
            w = self.workspace(self.source.nodes[load].dtype, tuple(self.v.extent_of[a] for a in axes))
            copies[load] = w, ixs
            phases[phase].append(Put(w.name, 1, ixs, plain.node(load), self.out.const("true", "bool")))
        copiers: dict[frozenset[int], _Copier] = {frozenset(): plain}
        for phase, members in enumerate(p.phases):
            for k in members:
                mine = frozenset(load for j, load in p.reads_copy if j == k)
                c = copiers.setdefault(mine, _Copier(self, names, {i: copies[i] for i in sorted(mine)}))
                phases[phase].append(self.put(effects[k], own, c))
        self.groups.append(Group(name, tuple(names[a] for a in own), tuple(map(tuple, phases))))

    def put(self, e: Effect, own: tuple[str, ...], c: _Copier) -> Put:
        """A store; axes that its index map does not name, and that no instance owns, are named by a term that is always zero."""
        ixs = named(self.v, e, own, lambda a, x: x + floordiv(Coord(a), self.v.extent_of[a]))
        exprs, deps = tuple(map(c.expr, ixs)), tuple(map(c.node, e.deps))
        value, valid = c.node(e.value), c.node(e.valid)
        if e.mode in PLAIN_MODES:
            return Put(self.view(e.view), e.version, exprs, value, valid, deps, e.mode)
        points = list(self.v.effects.points)
        shared = tuple(sorted(f"{c.names[a]}#{points.index(p)}" for p, a in e.scope))
        into, at = (self.view(e.into), tuple(map(c.expr, e.at))) if e.into else ("", ())
        deps += (self.out.const("true", "bool"),) if e.into else ()
        return Put(self.view(e.view), e.version, exprs, value, valid, deps, e.mode, e.order, shared, into, at)

    def view(self, name: str) -> str:
        """The final name of a view or workspace."""
        if name in self.v.views_kept and name not in self.kept:
            made = self.v.effects.definitions.get(name)
            obliged = made is not None and isinstance(made[0], Buffer) and made[0].init is None
            self.kept[name] = self.workspace(*self.v.views_kept[name], obliged).name
        return self.kept.get(name, name)

    def workspace(self, dtype: str, shape: tuple[Expr, ...], obliged: bool = False) -> ViewParam:
        taken = {x.name for x in (*self.abi.views, *self.workspaces)} | {n for n, _ in self.abi.constexprs}
        taken |= {s.name for s in self.abi.scalars} | {s.name for s in self.abi.symbols}
        n = len(self.workspaces)
        while f"ws{n}" in taken:
            n += 1
        alias = max((x.alias for x in (*self.abi.views, *self.workspaces)), default=-1) + 1
        self.workspaces.append(ViewParam(f"ws{n}", "workspace", dtype, shape, alias, obliged))
        return self.workspaces[-1]

    def names(self, effects: Sequence[Effect], own: tuple[str, ...], p: Plan) -> dict[str, str]:
        """Final names of the group's axes: by kind, extent and occurrence, so that groups with equal domains share them."""
        order = list(own)
        for e in effects:
            order += [a for a in e.axes if a not in order]
        used = {a for e in effects for i in reachable(self.source, e.roots) for a in self._axes_of(i)}
        order += sorted(used - set(order), key=number)
        out: dict[str, str] = {}
        seen: dict[tuple[str, Expr], int] = {}
        for a in order:
            if a.endswith(".m"):
                continue
            kind, extent = "own" if a in own else self.v.kind_of[a], self.v.extent_of[a]
            n = seen[kind, extent] = seen.get((kind, extent), -1) + 1
            if (kind, extent, n) not in self.axes:
                count = sum((k == "own") == (kind == "own") for k, _, _ in self.axes if k != "mem")
                new = self.axes[kind, extent, n] = Axis(f"{'i' if kind == 'own' else 'c'}{count}", extent, kind)
                if kind == "seg":
                    self.axes["mem", extent, n] = Axis(f"{new.name}.m", extent, "mem")
            out[a] = self.axes[kind, extent, n].name
            if kind == "seg":
                out[f"{a}.m"] = f"{out[a]}.m"
        return out

    def _axes_of(self, i: int) -> frozenset[str]:
        n = self.source.nodes[i]
        own = frozenset((bound_axis(n),)) if n.op in BOUND else frozenset((scan_axis(n),)) if n.op in SCANS else frozenset()
        exprs = n.attrs[2] if n.op == "Load" else (n.attrs[0],) if n.op == "Index" else ()
        return own.union(*map(axes_in, exprs))


class _Copier:
    """Copies nodes under final axis names; loads in `copies` become loads of their workspace."""

    def __init__(self, owner: _Finished, names: Mapping[str, str], copies: Mapping[int, tuple[ViewParam, tuple[Expr, ...]]]) -> None:
        self.owner, self.names, self.copies = owner, names, copies
        self.env = {Coord(a): Coord(b) for a, b in names.items()}
        self.done: dict[int, int] = {}
        self.number = owner.copiers = owner.copiers + 1

    def expr(self, e: Expr) -> Expr:
        return normal(substitute(e, self.env))

    def node(self, root: int) -> int:
        """The copy of a node; the arena keeps children before parents."""
        source, out = self.owner.source, self.owner.out
        for i in reachable(source, (root,), self.copies):
            if i in self.done:
                continue
            n = source.nodes[i]
            if i in self.copies:
                w, ixs = self.copies[i]
                yes, zero = out.const("true", "bool"), self._zero(n.dtype)
                self.done[i] = out.make("Load", (w.name, 1, ixs), (yes, zero), n.dtype)
            else:
                self.done[i] = out.make(n.op, self.attrs(n), tuple(self.done[a] for a in n.args), n.dtype)
            if i in source.origins:
                out.origins.setdefault(self.done[i], source.origins[i])
        return self.done[root]

    def _zero(self, dtype: str) -> int:
        from eqkir.base.dtypes import literal

        return self.owner.out.const(literal(0, dtype), dtype)

    def attrs(self, n: VNode) -> tuple[object, ...]:
        return renamed(n, self.expr, self.names.__getitem__, self.loop, self.owner.view)

    def loop(self, name: str) -> str:
        """A loop's final name: one for each copy of it."""
        return self.owner.loops.setdefault((self.number, name), f"f{len(self.owner.loops)}")


__all__ = ["finish"]
