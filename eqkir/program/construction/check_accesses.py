"""Accesses: complete, in bounds, at the kernel's coordinates, narrowed by typed predicates only."""

from __future__ import annotations

from eqkir.base.diagnostics import Diagnostic
from eqkir.base.expr import Coord, coords
from eqkir.program.construction.codes import Fault
from eqkir.program.construction.context import Context, check


@check("accesses-complete")
def accesses_complete(c: Context) -> list[Diagnostic]:
    """A coordinate for each dimension, the kernel's validity (each implies the other where the access is defined) and its fill."""
    faults = []
    rank = {v.name: len(v.shape) for v in c.abstract.abi.views}
    for i, n in enumerate(c.abstract.nodes):
        if n.op == "Load" and len(n.attrs[2]) != rank.get(n.attrs[0], -1):
            faults.append(Fault("accesses-complete", f"%{i} has {len(n.attrs[2])} coordinates for {n.attrs[0]}"))
    return c.found("accesses-complete", *faults)


@check("accesses-in-bounds")
def accesses_in_bounds(c: Context) -> list[Diagnostic]:
    """Every access that happens is inside its view for all symbols, scalars and data."""
    return c.found("accesses-in-bounds")


@check("coordinates-equivalent")
def coordinates_equivalent(c: Context) -> list[Diagnostic]:
    """Coordinates of every access, and index arithmetic everywhere, equal the kernel's relation for all values."""
    return c.found("coordinates-equivalent")


@check("narrowing-explicit")
def narrowing_explicit(c: Context) -> list[Diagnostic]:
    """Coordinates that are no members of a domain are excluded by a predicate of the program."""
    return c.found("narrowing-explicit")


@check("folds-complete")
def folds_complete(c: Context) -> list[Diagnostic]:
    """States, steps, summaries and conditions are the kernel's; where a slice begins reaches no value."""
    slices = {a.name for a in c.abstract.axes if a.kind == "seg"}
    faults = []
    for i, n in enumerate(c.abstract.nodes):
        exprs = n.attrs[:1] if n.op == "Index" else n.attrs[2] if n.op == "Load" else ()
        if any(x in slices for e in exprs for x in coords(e)):
            faults.append(Fault("folds-complete", f"%{i} reads where a slice begins: {exprs}"))
    for p in (p for g in c.abstract.groups for ph in g.phases for p in ph):
        if any(x in slices and Coord(x) == e for e in p.ixs for x in coords(e)):
            faults.append(Fault("folds-complete", f"the store to {p.view} is where a slice begins"))
    return c.found("folds-complete", *faults)
