"""The finished program: final names of axes, the copies' workspaces, the stores of every group in their phases."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from eqkir.analysis.coords import normal
from eqkir.analysis.phases import Level, NoOrder, Plan, plan
from eqkir.analysis.worksets import Write, groups
from eqkir.base.diagnostics import fail
from eqkir.base.dtypes import literal
from eqkir.base.expr import ZERO, Coord, Expr, floordiv, substitute
from eqkir.kir.model import Buffer
from eqkir.program.abi import Abi, Axis, ViewParam, is_member, member_axis, members_of
from eqkir.program.abstract import BOUND, Abstract, Group, Put, VNode, axes_in, bound_axis
from eqkir.program.construct_codes import ATOMIC, LOOP_STORE, ORDER, STAGE
from eqkir.program.construct_effect import Effect
from eqkir.program.construct_groups import Watched, changed, copy_axes, facts_of, independent, named, placed, reachable, separated, useful
from eqkir.program.construct_keep import number
from eqkir.program.construct_nests import renamed
from eqkir.program.construct_states import open_forms, shared
from eqkir.program.construct_values import Values
from eqkir.program.lower import SCANS, scan_axis
from eqkir.program.ops import PLAIN_MODES


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
                out.group(f"g{n}", apart, own, planned(v, apart, writes, own))
                continue
        apart, writes, own = separated(v, mine, facts)
        out.group(f"g{n}", apart, own, planned(v, apart, writes, own))
    return out.program()


def planned(v: Values, effects: Sequence[Effect], writes: Sequence[Write], own: tuple[str, ...]) -> Plan:
    """The plan of a group. Raises EQK-CON-ORDER where there is none, or where it copies what only a step of a loop can name."""
    try:
        p = plan(writes, own, v.facts)
    except NoOrder:
        what = "an element that is read after it may have been overwritten, at a place that is not known before"
        raise fail(ORDER, what, effects[-1].pointer, "views that are declared disjoint (noalias)", STAGE) from None
    for _, load in p.copies:
        if open_forms(v.program, load):
            what = f"{v.program.nodes[load].attrs[0]} is read where the state of a loop says, after it may have been overwritten"
            raise fail(ORDER, what, effects[-1].pointer, "views that are declared disjoint (noalias)", STAGE)
    return p


class _Finished:
    def __init__(self, v: Values, abi: Abi) -> None:
        self.v, self.source, self.abi = v, v.program, abi
        self.out = Abstract(abi, (), whole=v.whole)
        self.axes: dict[tuple[str, Expr, int | str], Axis] = {}
        self.workspaces: list[ViewParam] = []
        self.kept: dict[str, str] = {}
        self.loops: dict[Hashable, str] = {}
        self.whiles: dict[str, Hashable] = {}  # in the group: axis of a loop with a condition -> the copy of a loop that has it
        self.groups: list[Group] = []

    def program(self) -> Abstract:
        kinds = [[a for a in self.axes.values() if (a.kind == "own") == own] for own in (True, False)]
        self.out.axes = (*kinds[0], *kinds[1])
        self.out.abi = replace(self.abi, views=(*self.abi.views, *self.workspaces))
        self.out.groups = tuple(self.groups)
        return self.out

    def group(self, name: str, effects: Sequence[Effect], own: tuple[str, ...], p: Plan) -> None:
        self.stand(effects, own)
        self.whiles = {}
        names = _Names(self, effects, own, p)
        self.out.ordered.update({r: names.at(())[x.axis] for r, x in self.v.ordered.items() if x.axis in names.at(())})
        copies: dict[int, Copy] = {}
        phases: list[list[Put]] = [[] for _ in p.phases]
        states = _States(self, names, copies)
        for _, load in p.copies:
            steps, _ = p.inside.get(load, ((), ()))
            axes = self.copied(load, own, steps)
            w = self.workspace(self.source.nodes[load].dtype, tuple(self.v.extent_of[a] for a in axes))
            copies[load] = w, axes, len(steps) + 1
            regions = [r for r in self.v.ordered if self.v.ordered[r].axis in steps]
            self.within(w.alias, names, {d: tuple(regions[:d]) for d in range(1, len(steps) + 1)} | {len(steps) + 1: tuple(regions)})
        for phase, load in p.copies:
            steps, level = p.inside.get(load, ((), ()))
            w, axes, _ = copies[load]
            c = _Copier(self, names.at(level), {m: copies[m] for n, m in sorted(p.copy_reads) if n == load}, states)
            ixs = tuple(Coord(c.names[a]) for a in axes)
            phases[phase].append(Put(w.name, len(steps) + 1, ixs, c.node(load), self.out.const("true", "bool")))
        copiers: dict[tuple[frozenset[int], Level], _Copier] = {}
        for phase, members in enumerate(p.phases):
            for k in members:
                mine, level = frozenset(load for j, load in p.reads_copy if j == k), p.levels.get(k, ())
                if (mine, level) not in copiers:
                    copiers[mine, level] = _Copier(self, names.at(level), {i: copies[i] for i in sorted(mine)}, states)
                phases[phase].append(self.put(effects[k], own, copiers[mine, level]))
        for e in effects:
            self.within(self.alias(e.view), names, self.homes(e.view))
        self.groups.append(Group(name, tuple(names.at(())[a] for a in own), tuple(map(tuple, phases))))

    def stand(self, effects: Sequence[Effect], own: tuple[str, ...]) -> None:
        """States of ordered loops vary along these loops and instance axes only. Raises EQK-CON-LOOP-STORE."""
        ordered = {x.axis for x in self.v.ordered.values()}
        for e in effects:
            for i in reachable(self.source, e.roots):
                n = self.source.nodes[i]
                if n.op in ("State", "WState") and n.attrs[0] in ordered and not self.source.free(i) <= ordered.union(own):
                    what = "an ordered loop carries a scalar for each point of a parallel, and its points are not known to be independent"
                    raise fail(LOOP_STORE, what, e.pointer, "views that are declared disjoint (noalias)", STAGE)

    def copied(self, load: int, own: tuple[str, ...], steps: tuple[str, ...]) -> tuple[str, ...]:
        """Axes of the copy of a loaded value. Raises EQK-CON-LOOP-STORE for one whose place is known in the steps of a loop only."""
        axes, ordered = copy_axes(self.source, load, own, steps), {x.axis for x in self.v.ordered.values()}
        nodes = [self.source.nodes[i] for i in reachable(self.source, (load,))]
        later = {n.attrs[0] for n in nodes if n.op in ("State", "WState")} - set(steps)
        if later & ordered or any(a in ordered and self.v.kind_of[a] == "while" for a in axes):
            what = f"{self.source.nodes[load].attrs[0]}, as it was before a loop that overwrites it, is read where the step says"
            raise fail(LOOP_STORE, what, accepted="a copy in a buffer before the loop", stage=STAGE)
        return axes

    def homes(self, view: str) -> dict[int, tuple[str, ...]]:
        """Versions of a view that live inside ordered loops, with the regions of these."""
        alias = self.v.effects.alias[view]
        out = {n: r for (c, n), r in self.v.effects.inner.items() if c == alias}
        return out | {n: r for (w, n), r in self.v.inner.items() if w == view}

    def within(self, alias: int, names: _Names, homes: Mapping[int, tuple[str, ...]]) -> None:
        """Note inside which ordered loops versions of an alias class live."""
        plain = names.at(())
        self.out.inner.update({(alias, n): tuple(plain[a] for a in self.v.stepped(r)) for n, r in sorted(homes.items()) if r})

    def alias(self, view: str) -> int:
        """The final alias class of a view or workspace."""
        name = self.view(view)
        return next(x.alias for x in (*self.abi.views, *self.workspaces) if x.name == name)

    def put(self, e: Effect, own: tuple[str, ...], c: _Copier) -> Put:
        """A store; axes that its index map does not name, and that no instance owns, are named by a term that is always zero."""
        ixs = named(self.v, e, own, lambda a, x: x + floordiv(Coord(a), self.v.extent_of[a]))
        exprs, deps = tuple(map(c.expr, ixs)), tuple(map(c.node, e.deps))
        value, valid = c.node(e.value), c.node(e.valid)
        if e.mode in PLAIN_MODES:
            return Put(self.view(e.view), e.version, exprs, value, valid, deps, e.mode)
        if e.into and e.inner:
            raise fail(ATOMIC, "an old value is read inside a loop whose steps depend on each other", e.pointer, stage=STAGE)
        points = list(self.v.effects.points)
        shared = tuple(sorted(f"{c.names[a]}#{points.index(p)}" for p, a in e.scope))
        into, at = (self.view(e.into), tuple(map(c.expr, e.at))) if e.into else ("", ())
        deps += (self.out.const("true", "bool"),) if e.into else ()
        return Put(self.view(e.view), e.version, exprs, value, valid, deps, e.mode, e.order, shared, into, at)

    def view(self, name: str) -> str:
        """The final name of a view or workspace."""
        if name in self.v.views_kept and name not in self.kept:
            self.kept[name] = self.workspace(*self.v.views_kept[name], self.owed(name)).name
        return self.kept.get(name, name)

    def owed(self, name: str) -> bool:
        """Whether this is a buffer of the kernel without an initial value."""
        found = self.v.effects.definitions.get(name)
        return found is not None and isinstance(found[0], Buffer) and found[0].init is None

    def workspace(self, dtype: str, shape: tuple[Expr, ...], owed: bool = False) -> ViewParam:
        taken = {x.name for x in (*self.abi.views, *self.workspaces)} | {n for n, _ in self.abi.constexprs}
        taken |= {s.name for s in self.abi.scalars} | {s.name for s in self.abi.symbols}
        n = len(self.workspaces)
        while f"ws{n}" in taken:
            n += 1
        alias = max((x.alias for x in (*self.abi.views, *self.workspaces)), default=-1) + 1
        self.workspaces.append(ViewParam(f"ws{n}", "workspace", dtype, shape, alias, owed))
        return self.workspaces[-1]

    def another(self, loop: Hashable) -> str:
        """The axis of a further copy of a loop with a condition, new or existing."""
        found = next((a for a, x in self.whiles.items() if x == loop), "")
        if not found:
            count = sum(k != "own" and not k.startswith("mem") for k, _, _ in self.axes)
            found = f"c{count}"
            self.axes["while", ZERO, f"@{count}"] = Axis(found, ZERO, "while")
            self.whiles[found] = loop
        return found

    def _axes_of(self, i: int) -> frozenset[str]:
        n = self.source.nodes[i]
        own = frozenset((bound_axis(n),)) if n.op in BOUND else frozenset((scan_axis(n),)) if n.op in SCANS else frozenset()
        exprs = n.attrs[2] if n.op == "Load" else (n.attrs[0],) if n.op == "Index" else ()
        return own.union(*map(axes_in, exprs))


class _Names:
    """Final names of a group's axes: by kind, extent and occurrence, so that groups with equal domains share them. What stands on another
    level of an ordered loop's step has loops of its own."""

    def __init__(self, owner: _Finished, effects: Sequence[Effect], own: tuple[str, ...], p: Plan) -> None:
        self.owner, self.v, self.own = owner, owner.v, own
        self.order = list(own)
        for e in effects:
            self.order += [a for a in (*self.v.stepped(e.inner), *e.axes) if a not in self.order]
        used = {a for e in effects for i in reachable(owner.source, e.roots) for a in owner._axes_of(i)}
        self.order += sorted(used - set(self.order), key=number)
        self.ordered = {x.axis for x in self.v.ordered.values()}
        self.seen: dict[tuple[str, Expr], int] = {}
        self.done: dict[object, dict[str, str]] = {}
        self.at(())

    def at(self, level: object) -> Mapping[str, str]:
        """The names on a level: those that no instance owns and no ordered loop traverses are its own."""
        if level not in self.done:
            plain = self.done.get((), {})
            self.done[level] = {a: plain[a] for a in plain if a in self.own or a in self.ordered}
            for a in self.order:
                if not is_member(a) and a not in self.done[level]:
                    self.name(a, self.done[level])
        return self.done[level]

    def name(self, a: str, out: dict[str, str]) -> None:
        axes, v = self.owner.axes, self.v
        kind, extent = "own" if a in self.own else v.kind_of[a], v.extent_of[a]
        n: int | str = a
        if a not in self.ordered:
            n = self.seen[kind, extent] = self.seen.get((kind, extent), -1) + 1
        if (kind, extent, n) not in axes:
            count = sum((k == "own") == (kind == "own") for k, _, _ in axes if not k.startswith("mem"))
            axes[kind, extent, n] = Axis(f"{'i' if kind == 'own' else 'c'}{count}", extent, kind)
        out[a] = axes[kind, extent, n].name
        for k, m in enumerate(members_of(a, v.kind_of) if kind == "seg" else ()):
            out[m] = member_axis(out[a], k)
            axes.setdefault((f"mem{k}", extent, n), Axis(out[m], extent, "mem"))


#: the copy of a loaded value: its workspace, its axes, its version
Copy = tuple[ViewParam, tuple[str, ...], int]


class _States:
    """States of ordered loops: one of each, whoever reads it, on a level of its own."""

    def __init__(self, owner: _Finished, names: _Names, copies: Mapping[int, Copy]) -> None:
        self.owner, self.names, self.copies = owner, names, copies
        self.axes = {x.axis: r for r, x in owner.v.ordered.items()}
        self.copiers: dict[str, _Copier] = {}

    def holds(self, i: int) -> bool:
        """Whether a node is such a state."""
        n = self.owner.source.nodes[i]
        return n.op in ("State", "WState") and n.attrs[0] in self.axes

    def node(self, i: int) -> int:
        axis = self.owner.source.nodes[i].attrs[0]
        if axis not in self.copiers:
            source, home = self.owner.source, self.owner.v.home
            mine = {k: c for k, c in self.copies.items() if axis not in home(*source.nodes[k].attrs[:2])}
            self.copiers[axis] = _Copier(self.owner, self.names.at(axis), mine, self, axis)
        return self.copiers[axis].node(i)


class _Copier:
    """Copies nodes under final axis names; loads in `copies` become loads of their workspace."""

    def __init__(self, owner: _Finished, names: Mapping[str, str], copies: Mapping[int, Copy], states: _States, axis: str = "") -> None:
        self.owner, self.names, self.copies, self.states, self.axis = owner, dict(names), copies, states, axis
        self.env = {Coord(a): Coord(b) for a, b in names.items()}
        self.done: dict[int, int] = {}
        self.place = len(owner.groups), axis, tuple(sorted(names.items()))
        self.known: dict[str, Hashable] = {}  # name of a loop -> what tells its copy from others

    def expr(self, e: Expr) -> Expr:
        return normal(substitute(e, self.env))

    def node(self, root: int) -> int:
        """The copy of a node; the arena keeps children before parents."""
        source, out = self.owner.source, self.owner.out
        states = {i for i in reachable(source, (root,), self.copies) if self.states.holds(i) and source.nodes[i].attrs[0] != self.axis}
        below = reachable(source, (root,), {*self.copies, *states})
        self.tell([i for i in below if i not in self.done and source.nodes[i].op in ("Fold", "While", "State", "WState")])
        for i in below:
            if i in self.done:
                continue
            n = source.nodes[i]
            if i in states:
                self.done[i] = self.states.node(i)
                continue
            if i in self.copies:
                w, axes, version = self.copies[i]
                yes, zero = out.const("true", "bool"), out.const(literal(0, n.dtype), n.dtype)
                self.done[i] = out.make("Load", (w.name, version, tuple(Coord(self.names[a]) for a in axes)), (yes, zero), n.dtype)
            else:
                self.done[i] = out.make(n.op, self.attrs(n), tuple(self.done[a] for a in n.args), n.dtype)
            if i in source.origins:
                out.origins.setdefault(self.done[i], source.origins[i])
        return self.done[root]

    def attrs(self, n: VNode) -> tuple[object, ...]:
        return renamed(n, self.expr, self.names.__getitem__, self.loop, self.owner.view)

    def tell(self, loops: Sequence[int]) -> None:
        """Tell copies of loops apart: by their place and by the copied loads below them. Two loops with conditions have two axes."""
        for i in loops:
            n = self.owner.source.nodes[i]
            if n.attrs[1] in self.known:
                continue
            copied = frozenset(self.copies).intersection(reachable(self.owner.source, (i,), self.copies))
            key = self.known[n.attrs[1]] = n.attrs[1], copied, self.place
            if n.op == "While" and self.owner.whiles.setdefault(self.names[n.attrs[0]], key) != key:
                self.names[n.attrs[0]] = axis = self.owner.another(key)
                self.env[Coord(n.attrs[0])] = Coord(axis)

    def loop(self, name: str) -> str:
        """A loop's final name: one for each copy of it."""
        return self.owner.loops.setdefault(self.known.get(name, (name, self.place)), f"f{len(self.owner.loops)}")


__all__ = ["finish"]
