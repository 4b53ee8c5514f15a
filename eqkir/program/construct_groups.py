"""Execution groups of constructed stores: facts for `analysis.worksets`, loops told apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from eqkir.analysis.worksets import Read, Write, conflict, instance_axes, separates
from eqkir.base.diagnostics import fail, register
from eqkir.base.expr import Coord, Expr, coords
from eqkir.program.abi import members_of
from eqkir.program.abstract import BOUND, Abstract, axes_in, bound_axis
from eqkir.program.construct_codes import LOOP_STORE, STAGE
from eqkir.program.construct_effect import Effect
from eqkir.program.construct_keep import kept, needed, number
from eqkir.program.construct_nests import Renamer, Tiers, misplaced, scanned, tiers, twice
from eqkir.program.construct_states import Again, rebuilt
from eqkir.program.construct_values import Values
from eqkir.program.lower import SCANS
from eqkir.program.ops import COMBINING, PLAIN_MODES

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
        again = conflicts(v, mine, writes, own) or crowded(v, mine)
        if not again:
            return mine, writes, own
        new = Renamer(v, again, frozenset(a for e in mine for a in e.axes))
        mine = [replace(e, value=new.node(e.value), valid=new.node(e.valid), deps=tuple(map(new.node, e.deps))) for e in mine]
    raise fail(LOOPS, "the loops of a store cannot be told apart", mine[0].pointer, stage=STAGE)


def crowded(v: Values, effects: Sequence[Effect]) -> dict[int, frozenset[str]]:
    """Loops with conditions of their own over an axis that another such loop of the group has -> all axes of such loops."""
    p = v.program
    loops = [i for i in reachable(p, [r for e in effects for r in e.roots]) if p.nodes[i].op == "While"]
    taken: dict[str, int] = {}
    again = [i for i in loops if taken.setdefault(p.nodes[i].attrs[0], i) != i]
    return dict.fromkeys(again, frozenset(taken))


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
    steps = v.stepped(e.inner)
    points = [a for a in e.axes if steps and any(a == axis for _, axis in e.scope)]  # owned, or the states of the loops have no place
    ixs = [*map(Coord, points), *map(Coord, steps), *named(v, e, own, lambda a, x: x + Coord(a)), *(Coord(a) for a in e.axes)]
    return tiers(ixs, own, scanned(v.program, e.roots).difference(steps))


def independent(v: Values, effects: Sequence[Effect], writes: Sequence[Write]) -> None:
    """Iterations of a loop touch elements of their own where one of them stores. Raises Again for a loop where they may not."""
    for e, w in zip(effects, writes, strict=True):
        for loop, axis in e.loops:
            others: list[Read | Write] = [x for x, f in zip(writes, effects, strict=True) if (loop, axis) in f.loops]
            others += [r for x in writes for r in x.reads if loop in v.load_loops[r.node]]
            for o in others:
                if conflict(o, w, v.facts) and axis and not (o is w and w.atomic) and axis not in separates(o, w, w.axes, v.facts):
                    what = f"another iteration may touch what is stored to {w.view}"
                    raise Again(loop, fail(LOOP_STORE, what, e.pointer, "an index that is the loop's point", STAGE))


def conflicts(v: Values, effects: Sequence[Effect], writes: Sequence[Write], own: tuple[str, ...]) -> dict[int, frozenset[str]]:
    """Operations to rename (`construct_nests`): below stores, and below loads that may have to be copied."""
    places = [(e.roots, loops(v, e, own)) for e in effects]
    for i in sorted({r.node for w in writes for r in w.reads}):
        steps = v.home(*v.program.nodes[i].attrs[:2])
        places.append(((i,), tuple(frozenset((a,)) for a in (*steps, *copy_axes(v.program, i, own, steps)[len(own) :]))))
    return twice(v.program, places)


def named(v: Values, e: Effect, own: Sequence[str], add: Callable[[str, Expr], Expr]) -> list[Expr]:
    """The index map; axes that nothing names, and that no instance owns, are added to its first expression. (What combines with the
    element may name an axis by its value too.)"""
    ixs = list(e.ixs)
    own = (*own, *v.stepped(e.inner))
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


def copy_axes(p: Abstract, load: int, own: tuple[str, ...], steps: Sequence[str] = ()) -> tuple[str, ...]:
    """Axes of the workspace that keeps a loaded value inside some ordered loops: the instances', then the value's own."""
    free = p.free(load).difference(own, steps)
    return (*own, *sorted((a for a in free if not members_of(a, free)), key=number))


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
    prompt = frozenset(at_once(v, e.roots)) if v.ordered else frozenset(loads)
    reads = []
    for i in loads:
        n = p.nodes[i]
        reads.append(Read(
            i, n.attrs[0], alias[n.attrs[0]], n.attrs[1], n.attrs[2], p.free(i), i in direct, spans.get(i, frozenset()),
            len(n.args) > 2, v.load_scopes[i], v.home(*n.attrs[:2]), i not in prompt,
            tuple(m for m in watched.under(i) if m != i),
        ))  # fmt: skip
    atomic = e.mode not in PLAIN_MODES
    mapped = frozenset(e.axes) if atomic else frozenset().union(*(coords(x) for x in e.ixs), *(p.free(d) for d in e.deps))
    bound = frozenset(bound_axis(p.nodes[i]) for i in below if p.nodes[i].op in BOUND) | scanned(p, e.roots)
    bound |= {a for a in e.axes if v.kind_of[a] in ("seg", "mem")} | set(v.stepped(tuple(v.ordered)))
    axes = tuple(a for a in e.axes if v.kind_of[a] != "seg")
    data: set[int] = set()  # reads memory or reduces: worth one owner
    for i in below:
        if p.nodes[i].op == "Load" or p.nodes[i].op in (*BOUND, *SCANS) or any(a in data for a in p.nodes[i].args):
            data.add(i)
    computed = frozenset(i for i in data if p.nodes[i].op != "Load")
    memory = {m.name for m in v.memory.values()}
    also: tuple[Write, ...] = ()
    if e.into:
        also = (Write(e.into, e.into_alias, 1, e.at, axes, frozenset(e.axes), bound, computed, scope=e.scope),)
    opaque = len(e.deps) > (e.mode == "compare_exchange")
    free = e.mode in COMBINING and e.order == "relaxed" and not e.into and e.view in v.views
    combines = f"{e.mode} {v.views[e.view].dtype}" if free else ""
    return Write(
        e.view, e.alias, e.version, e.ixs, axes, mapped, bound, computed, tuple(reads), opaque, e.scope, atomic, e.order,
        e.view not in v.kept and e.view not in memory, also, v.stepped(e.inner), combines,
    )  # fmt: skip


def at_once(v: Values, roots: Sequence[int]) -> set[int]:
    """Nodes below that are read where the value stands, not by what an ordered loop makes of its states at the end of a step: that
    needs no copy of what lives in a step."""
    p, seen = v.program, set[int]()
    todo = list(roots)
    while todo:
        i = todo.pop()
        if i in seen:
            continue
        seen.add(i)
        n = p.nodes[i]
        if n.op in ("State", "WState") and n.attrs[0] in v.stepped(tuple(v.ordered)):
            count = n.attrs[2]
            todo += n.args[:count]
            late = reachable(p, n.args[count:])
            todo += [j for j in late if p.nodes[j].op == "Load" and n.attrs[0] not in v.home(*p.nodes[j].attrs[:2])]
        else:
            todo += n.args
    return seen


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


__all__ = ["FactsOf", "Watched", "changed", "copy_axes", "facts_of", "independent", "named", "placed", "reachable", "separated", "useful"]
