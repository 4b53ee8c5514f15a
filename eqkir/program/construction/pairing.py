"""Which store of the program makes which effect of the kernel: each effect by one store, and no store besides."""

from __future__ import annotations

from eqkir.analysis.effects import StoreSite
from eqkir.base.expr import FALSE, ZERO
from eqkir.kir import model as kir
from eqkir.program.abstract import Group, Put
from eqkir.program.construction.codes import Fault
from eqkir.program.construction.compare import Compare, Faults
from eqkir.program.construction.compare_carries import ENTRY, FIRST, NEXT
from eqkir.program.construction.compare_loops import concern
from eqkir.program.construction.placing import CarrySite, Site, covered, target, variables
from eqkir.program.construction.relation import Path
from eqkir.program.ops import PLAIN_MODES


def absent(c: Compare, site: StoreSite) -> bool:
    """Whether an effect never happens."""
    space = variables(c, site)
    for v in space:
        if v.x != ZERO and c.r.known(v.extent):
            c.reason.extents[str(v.x.args[0])] = v.extent
    s = Site(c, site, space)
    return c.reason.simple(c.of(s.valid)) == FALSE


def effects_of(c: Compare) -> Faults:
    """Every effect against the store that makes it."""
    puts: dict[tuple[str, int], list[tuple[Put, Group]]] = {}
    for g in c.a.groups:
        for phase in g.phases:
            for p in phase:
                puts.setdefault((p.view, p.version), []).append((p, g))
    out: list[Fault] = []
    shown = [s for s in c.r.effects.stores if not c.r.is_buffer(target(s))]
    kept = [s for s in c.r.effects.stores[::-1] if c.r.is_buffer(target(s))]
    for site in (*shown, *kept):  # which workspace a buffer is, its loads say: they come first
        c.pointer, name = site.pointer, target(site)
        faults = effect(c, site, name, puts)
        out += filling(faults) if isinstance(site.op, kir.Buffer) else faults
    out += carries_of(c, puts)
    c.pointer = ""
    for view, version in sorted(puts):
        if view not in c.workspaces:
            out += c.fault("effects-covered-once", f"a store to {view} (version {version}) is no effect of the kernel")
        elif view in c.buffers.values():
            out += c.fault("buffers-initialised", f"a store to {view} (version {version}) is no effect of the kernel on its buffer")
    return tuple(out)


def carries_of(c: Compare, puts: dict[tuple[str, int], list[tuple[Put, Group]]]) -> Faults:
    """The stores that keep carries of ordered loops; comparing them may find more."""
    out: list[Fault] = []
    done: set[tuple[str, int, Path]] = set()
    e = c.r.effects
    while todo := [key for key in c.carries if key not in done]:
        region, k, path = key = todo[0]
        done.add(key)
        info, name = e.loops[region], c.carries[key]
        op, outer = info.op, e.around(info.outer)
        c.pointer = e.pointers[op.results[k]]
        scope, depth = e.scopes[op.results[k]], len(outer)
        for n, last in ((FIRST, False), (NEXT, True)):
            loops, inner = ((*info.outer, region), (*outer, region)) if last else (info.outer, outer)
            site = CarrySite(op, c.pointer, depth + n, scope, loops, (), inner, 0, k, path, last, region)  # type: ignore[arg-type]
            mine = puts.pop((name, depth + n), [])
            if len(mine) != 1 or mine[0][0].mode != "store":
                out += c.fault("folds-complete", f"carry {k} of the loop {region} is kept by {len(mine)} stores of version {depth + n}")
                continue
            out += concern(covered(c, site, *mine[0]), f"carry {k} of the loop {region}")
        for n, home in ((ENTRY, (*outer, region)), (NEXT + 1, outer)):
            if c.a.inside(name, depth + n) != tuple(c.a.ordered[x] for x in home):
                out += c.fault("order-kept", f"version {depth + n} of {name} does not live in the ordered loops {' '.join(home)}")
        if (name, depth + FIRST) in puts or (name, depth + NEXT) in puts or any(v == name for v, _ in puts):
            out += c.fault("folds-complete", f"{name} is stored to by more than carry {k} of the loop {region}")
    return tuple(out)


def effect(c: Compare, site: StoreSite, name: str, puts: dict[tuple[str, int], list[tuple[Put, Group]]]) -> Faults:
    """One effect; the stores that it may be are taken out of `puts`."""
    first: Faults | None = None
    versions = {s.version for s in c.r.effects.stores if target(s) == name}
    known = sorted(c.candidates(name), key=lambda view: len(versions ^ {p.version for p in c.fills.get(view, ())}))
    for view in known:
        mine = puts.get((view, site.version), [])
        if len(mine) != 1:
            continue
        mark = len(c.journal)
        c.assign(name, view)
        put, group = mine[0]
        faults = mode(c, site, put) + covered(c, site, put, group)
        first = faults if first is None else first
        if not faults or len(known) == 1:
            puts.pop((view, site.version))
            return faults
        while len(c.journal) > mark:
            c.journal.pop()()
    if first is not None:
        return first
    if absent(c, site):
        return ()
    found = [len(puts.get((view, site.version), [])) for view in known]
    return c.fault("effects-covered-once", f"the effect on {name} is made by {max(found, default=0)} stores")


def filling(faults: Faults) -> Faults:
    """Faults of the store that fills a buffer."""
    own = ("effects-covered-once", "ownership-complete", "coordinates-equivalent", "accesses-complete")
    return tuple(Fault("buffers-initialised" if f.check in own else f.check, f"initial value: {f.message}", f.pointer) for f in faults)


def mode(c: Compare, site: StoreSite, put: Put) -> Faults:
    """How a store meets others at one element."""
    op = site.op
    if isinstance(op, (kir.Store, kir.UniqueScatter, kir.Buffer)):
        if put.mode not in PLAIN_MODES or put.order or put.into or put.shared:
            return c.fault("atomics-kept", f"a store to {put.view} is made atomic ({put.mode})")
        if not isinstance(op, kir.UniqueScatter) and put.mode == "unique" and not put.deps and not depends(c, put.valid):
            return c.fault("conflicts-resolved", f"nobody declared the points of the store to {put.view} distinct")
        return ()
    want = op.fn if isinstance(op, kir.ScatterReduce) else op.op.removeprefix("atomic_")
    if put.mode in PLAIN_MODES:
        return c.fault("conflicts-resolved", f"the points of {op.op} on {put.view} may meet, but are stored plainly")
    want = {"load": "get", "store": "put"}.get(want, want)
    order = getattr(op, "order", "relaxed")
    if (put.mode, put.order) != (want, order):
        return c.fault("atomics-kept", f"{op.op} {order} on {put.view} is made {put.mode} {put.order}")
    return ()


def depends(c: Compare, node: int) -> bool:
    """Whether a validity depends on data."""
    from eqkir.program.construction.compare_binders import loads_of

    return bool(loads_of(c, node)) or any(a.op in ("Form", "State", "WState") for a in c.nodes[: node + 1])


__all__ = ["effects_of"]
