"""From a realised DAG to a program: phases are laid out one by one. It refuses (ScheduleError), it never repairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from eqkir.base.expr import le
from eqkir.program.abi import Abi, Axis
from eqkir.program.dag import Dag, Path, SegmentDag
from eqkir.program.model import Item, Program, Segment
from eqkir.program.schedule_phase import Phase
from eqkir.program.schedule_region import ScheduleError, node_dtype


def schedule(
    dag: Dag,
    segments: list[SegmentDag],
    abi: Abi,
    axes: tuple[Axis, ...],
    *,
    bindings: dict[str, int] | None = None,
    options: dict[str, int] | None = None,
    origins: dict[int, str] | None = None,
    inner: dict[tuple[int, int], tuple[str, ...]] | None = None,
    ranges: dict[Path, tuple[int, int, int]] | None = None,
    laid: Lay | None = None,
) -> Program:
    """A structured `Program`. `ranges`: path of a narrowed loop -> nodes of its bounds and of where it counts (-1: none). `laid`: what
    lays a phase out (segment, phase, roots), instead of `lay_out`.

    Raises ScheduleError.
    """
    out, names = [], {}
    whole: set[str] = set()
    for g, s in enumerate(segments):
        phases = []
        for p, roots in enumerate(s.phases):
            b = laid(g, p, roots) if laid else lay_out(dag, roots, abi, axes, inner or {}, ranges or {})
            phases.append(b.items)
            whole |= b.whole
            for i, sid in b.ids.items():
                if origins and i in origins:
                    names[f"{g}/{p}/{sid}"] = origins[i]
        out.append(Segment(f"g{g}", s.order, s.mode, tuple(phases)))
    rank = {a.name: a for a in axes}
    bound = dict(bindings or {})
    pre = [le(rank[a].extent, bound[f"F:{a}"]) for a in sorted(whole) if f"F:{a}" in bound]
    return Program(
        abi, axes, tuple(out), bound, dict(options or {}), tuple(p for p in pre if p.value != 1), origins=names, inner=inner or {}
    )


@dataclass(frozen=True, slots=True)
class Laid:
    """A phase laid out: its items, the axes that fragments cover whole, and node of the DAG -> id of the value."""

    items: tuple[Item, ...]
    whole: frozenset[str]
    ids: dict[int, int]


Lay = Callable[[int, int, tuple[int, ...]], Laid]


def lay_out(
    dag: Dag, roots: Iterable[int], abi: Abi, axes: tuple[Axis, ...], inner: dict[tuple[int, int], tuple[str, ...]],
    ranges: dict[Path, tuple[int, int, int]],
) -> Laid:  # fmt: skip
    """One phase. Raises ScheduleError."""
    b = Phase(dag, roots, abi, axes, inner, ranges)
    return Laid(b.block(()), frozenset(b.whole), b.ids)


__all__ = ["Laid", "Lay", "ScheduleError", "lay_out", "node_dtype", "schedule"]
