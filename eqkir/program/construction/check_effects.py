"""Effects: each once, wholly owned, in order, conflicts resolved, atomics kept."""

from __future__ import annotations

from eqkir.base.diagnostics import Diagnostic
from eqkir.kir import model as kir
from eqkir.program.construction.codes import Fault
from eqkir.program.construction.context import Context, check
from eqkir.program.ops import PLAIN_MODES, STORE_MODES


@check("effects-covered-once")
def effects_covered_once(c: Context) -> list[Diagnostic]:
    """A bijection between the kernel's effects and the stores of the program, with equal values and conditions."""
    return c.found("effects-covered-once")


@check("ownership-complete")
def ownership_complete(c: Context) -> list[Diagnostic]:
    """A bijection between the points of each effect and the instances and loops around its store."""
    faults = []
    kinds = {a.name: a.kind for a in c.abstract.axes}
    for g in c.abstract.groups:
        for a in g.axes:
            if kinds.get(a) != "own":
                faults.append(Fault("ownership-complete", f"{a} of {g.name} is no instance axis"))
        if len(set(g.axes)) < len(g.axes):
            faults.append(Fault("ownership-complete", f"an axis of {g.name} occurs twice"))
    return c.found("ownership-complete", *faults)


@check("order-kept")
def order_kept(c: Context) -> list[Diagnostic]:
    """Versions of accesses are those of program order; the program keeps their dependences inside instances."""
    faults = []
    if not c.abstract.inner:
        for g in c.abstract.groups:
            made: dict[int, int] = {}
            for ph in g.phases:
                for p in ph:
                    alias = next((v.alias for v in c.abstract.abi.views if v.name == p.view), -1)
                    if p.version < made.get(alias, 0) and p.mode == "store":
                        faults.append(Fault("order-kept", f"version {p.version} of {p.view} is made after version {made[alias]}"))
                    made[alias] = max(made.get(alias, 0), p.version)
    elif not c.broken and not c.hidden:
        faults += [Fault("order-kept", m) for m in _homes(c)]
    return c.found("order-kept", *faults)


def _homes(c: Context) -> list[str]:
    """Versions of what the kernel writes live inside the ordered loops where it makes them; the loops are the kernel's."""
    a, effects = c.abstract, c.comparison.r.effects
    if c.compared:
        return []
    out = [f"{loop} is no loop of the kernel" for loop in a.ordered if loop not in effects.loops]
    if len(set(a.ordered.values())) < len(a.ordered):
        out.append("two ordered loops have one axis")
    for name, alias in sorted(effects.alias.items()):
        view = c.comparison.buffers.get(name, name)
        if view not in {v.name for v in a.abi.views}:
            continue
        want = {n: tuple(a.ordered[x] for x in loops) for (k, n), loops in effects.inner.items() if k == alias}
        have = {n: axes for (k, n), axes in a.inner.items() if k == a.abi.view(view).alias}
        if want != have:
            out.append(f"versions of {view} live inside {have} instead of {want}")
    return out


@check("conflicts-resolved")
def conflicts_resolved(c: Context) -> list[Diagnostic]:
    """Stores are injective, declared to be, or combine atomically."""
    return c.found("conflicts-resolved")


@check("atomics-kept")
def atomics_kept(c: Context) -> list[Diagnostic]:
    """Function, order and result; the sharing domain is the view's, which every instance reaches."""
    faults = [
        Fault("atomics-kept", f"a store to {p.view} has the mode {p.mode}")
        for g in c.abstract.groups for ph in g.phases for p in ph if p.mode not in STORE_MODES
    ]  # fmt: skip
    kinds = (kir.AtomicUpdate, kir.AtomicLoad, kir.AtomicStore, kir.AtomicCompareExchange)
    written = [op for op in _all(c.kernel.body) if isinstance(op, kinds)]
    atomic = [p for g in c.abstract.groups for ph in g.phases for p in ph if p.mode not in PLAIN_MODES]
    scattered = [op for op in _all(c.kernel.body) if isinstance(op, kir.ScatterReduce)]
    if len(atomic) > len(written) + len(scattered):
        faults.append(Fault("atomics-kept", f"{len(atomic)} atomic stores for {len(written) + len(scattered)} atomic effects"))
    return c.found("atomics-kept", *faults)


def _all(body: tuple[kir.Op, ...]) -> list[kir.Op]:
    return [x for op in body for x in (op, *(y for r in op.regions() for y in _all(r.body)))]
