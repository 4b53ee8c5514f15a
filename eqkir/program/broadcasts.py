"""Loads whose value is repeated over lanes that it does not have, by an elementwise operation of the same block."""

from __future__ import annotations

from eqkir.program.abi import parameter
from eqkir.program.model import Item, Let, Loop, Store

ELEMENTWISE = ("Un", "Bin", "Tri")


def repeated(items: tuple[Item, ...]) -> dict[int, tuple[str, ...]]:
    """Load id -> dimensions of the elementwise operations that repeat it (through casts), where all of them agree and stand in its block.

    A load that is used in another way besides is left out.
    """
    out: dict[int, tuple[str, ...]] = {}
    lets = {i.id: i for i in items if isinstance(i, Let)}
    source = {i.id: i.id for i in items if isinstance(i, Let) and i.op == "Load"}
    for i in items:
        if isinstance(i, Let) and i.op == "Cast" and i.args[0] in source:
            source[i.id] = source[i.args[0]]
    seen: dict[int, set[tuple[str, ...] | None]] = {}
    for i in items:
        if isinstance(i, Loop):
            for a in (*_reads(i.body), i.cond):
                seen.setdefault(source.get(a, -1), set()).add(None)
            continue
        if isinstance(i, Let):
            if i.op == "Cast" and i.id in source:
                continue
            for a in i.args:
                if a in source:
                    wide = i.op in ELEMENTWISE and set(lanes(i.dims)) > set(lanes(lets[a].dims))
                    seen.setdefault(source[a], set()).add(i.dims if wide else None)
        elif isinstance(i, Store):
            for a in (i.value, i.valid):
                if a in source:
                    seen.setdefault(source[a], set()).add(None)
    for load, dims in seen.items():
        if load >= 0 and len(dims) == 1:
            (only,) = dims
            if only is not None:
                out[load] = only
    for i in items:
        if isinstance(i, Loop):
            out |= repeated(i.body)
    return out


def lanes(dims: tuple[str, ...]) -> tuple[str, ...]:
    """Labels with a parameter."""
    return tuple(d for d in dims if parameter(d))


def _reads(items: tuple[Item, ...]) -> set[int]:
    out: set[int] = set()
    for i in items:
        if isinstance(i, Let):
            out |= set(i.args)
        elif isinstance(i, Loop):
            out |= _reads(i.body) | {i.cond} | {a for c in i.carries for a in (*c.args, *c.inits)}
        elif isinstance(i, Store):
            out |= {i.value, i.valid, *i.deps}
    return out
