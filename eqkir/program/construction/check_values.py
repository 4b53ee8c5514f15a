"""Values and space: structured operations, types, launch-visible extents, buffers, self-containedness."""

from __future__ import annotations

from eqkir.base.diagnostics import Diagnostic
from eqkir.base.dtypes import NUMPY
from eqkir.base.expr import Expr, Int, Sym, lift, substitute
from eqkir.kir.extents import Extents
from eqkir.kir.model import Scalar, View
from eqkir.program.abi import ViewParam
from eqkir.program.abstract import Group
from eqkir.program.construction.codes import Fault
from eqkir.program.construction.context import Context, check
from eqkir.program.ops import PLAIN_MODES


@check("structured-complete")
def structured_complete(c: Context) -> list[Diagnostic]:
    """Function, axes, operands, identities, combine region and accumulator of reductions, scans and contractions."""
    return c.found("structured-complete")


@check("types-legal")
def types_legal(c: Context) -> list[Diagnostic]:
    """Values have legal dtypes, the kernel's, and the dimensions of their operands."""
    faults = []
    for i, n in enumerate(c.abstract.nodes):
        if n.dtype not in NUMPY and not (n.dtype == "tuple" and n.op in ("RedN", "ScanN", "Fold", "While")):
            faults.append(Fault("types-legal", f"%{i} has the dtype {n.dtype}"))
    return c.found("types-legal", *faults)


@check("launch-visible-extents")
def launch_visible_extents(c: Context) -> list[Diagnostic]:
    """Extents speak of symbols and scalars of the interface; a data-derived domain is traversed inside the instance."""
    faults = list(c.hidden)
    mine = {a.name: (a.extent, a.kind) for a in c.abstract.axes}
    for a in c.program.axes:
        if mine.get(a.name) != (a.extent, a.kind) and not any(f.message.startswith(f"the extent {a.extent}") for f in faults):
            faults.append(Fault("launch-visible-extents", f"axis {a.name} of the program is {a.kind} of {a.extent}"))
    return c.found("launch-visible-extents", *faults)


@check("buffers-initialised")
def buffers_initialised(c: Context) -> list[Diagnostic]:
    """A workspace is written by a plain store before it is read; buffers of the kernel keep their initial value or none."""
    faults = []
    a = c.abstract
    owed = {v.name for v in a.abi.views if v.owed}
    if owed and not c.compared:
        faults += [Fault("buffers-initialised", f"nobody but construction says that {n} is written first") for n in sorted(owed - c.owed())]
    for v in a.abi.views:
        if v.role != "workspace":
            continue
        puts = [p for g in a.groups for ph in g.phases for p in ph if p.view == v.name]
        if puts and min(puts, key=lambda p: p.version).mode not in PLAIN_MODES:
            faults.append(Fault("buffers-initialised", f"{v.name} is first written by an atomic operation"))
    return c.found("buffers-initialised", *faults)


@check("buffers-owned")
def buffers_owned(c: Context) -> list[Diagnostic]:
    """Views are the kernel's, may alias as the kernel's; a workspace has an alias class, an extent, and one group that owns it."""
    a = c.abstract
    faults = [Fault("buffers-owned", m) for m in (*_views(c), *_workspaces(c))]
    if not set(a.abi.noalias) <= set(c.kernel.noalias):
        faults.append(Fault("buffers-owned", "views are declared disjoint that the kernel does not declare so"))
    if a.abi != c.program.abi:
        faults.append(Fault("buffers-owned", "the program has another interface"))
    return c.found("buffers-owned", *faults)


def _views(c: Context) -> list[str]:
    out = []
    abi = c.abstract.abi
    want = [p for p in c.kernel.params if isinstance(p, View)]
    have = [v for v in abi.views if v.role != "workspace"]
    if [(p.id, p.role, p.dtype) for p in want] != [(v.name, v.role, v.dtype) for v in have]:
        return ["the views of the interface are not the kernel's"]
    extents = Extents(c.kernel.symbols, c.kernel.equal)
    ints = {n: int(t) for n, t in abi.constexprs if t.lstrip("-").isdigit()}
    env: dict[Expr, Expr] = {Sym(n): Int(x) for n, x in ints.items()}
    for p, v in zip(want, have, strict=True):
        if tuple(extents.canon(substitute(lift(e), env)) for e in p.shape) != v.shape:
            out.append(f"{v.name} has the shape {v.shape}")
    apart = {frozenset((x, y)) for s in c.kernel.noalias for x in s for y in s}
    for i, v in enumerate(have):
        for w in have[:i]:
            free = frozenset((v.name, w.name)) in apart or (v.role, w.role) == ("in", "in")
            if v.alias != w.alias and not free:
                out.append(f"{v.name} and {w.name} may overlap, but have two alias classes")
    if [(p.id, p.dtype) for p in c.kernel.params if isinstance(p, Scalar)] != [(s.name, s.dtype) for s in abi.scalars]:
        out.append("the scalars of the interface are not the kernel's")
    return out


def _workspaces(c: Context) -> list[str]:
    out = []
    a = c.abstract
    for v in a.abi.views:
        if v.role != "workspace":
            continue
        owners = {g.name for g in a.groups for ph in g.phases for p in ph if v.name in (p.view, p.into)}
        readers = {g.name for g in a.groups if _reads(c, g, v)}
        if any(w.alias == v.alias for w in a.abi.views if w is not v):
            out.append(f"{v.name} shares its alias class")
        if len(owners) != 1 or not readers <= owners:
            out.append(f"{v.name} is owned by {sorted(owners)} and read by {sorted(readers)}")
        if v.name in {p.id for p in c.kernel.params}:
            out.append(f"{v.name} is a parameter of the kernel")
    return out


def _reads(c: Context, group: Group, v: ViewParam) -> bool:
    a = c.abstract
    todo = [r for ph in group.phases for p in ph for r in (p.value, p.valid, *p.deps)]
    seen: set[int] = set()
    while todo:
        i = todo.pop()
        if i in seen or not 0 <= i < len(a.nodes):
            continue
        seen.add(i)
        n = a.nodes[i]
        if n.op == "Load" and n.attrs[0] == v.name:
            return True
        todo += n.args
    return False


@check("self-contained")
def self_contained(c: Context) -> list[Diagnostic]:
    """The program's text, origins left out, reads back as the same program; all that it names, it holds."""
    return c.found("self-contained", *c.unreadable)
