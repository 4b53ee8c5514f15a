"""How long a piece of memory is that an access of the CPU family goes through before the next one lies elsewhere, and what that costs."""

from __future__ import annotations

from collections.abc import Collection

from eqkir.base.expr import Expr, coords
from eqkir.cpu.ahead import FETCHED
from eqkir.extract.cost.strides import contiguous_axes, run_length
from eqkir.extract.cost.walk import Shape, Visit
from eqkir.program.abi import axis_of
from eqkir.program.model import Segment, order_labels
from eqkir.targets.cpu import CpuTarget

PAGE = 4096.0
#: lines of rows far apart that a cache keeps: the strides of large arrays put many into the same sets
SAME_SETS = 64.0
#: rows that can be walked along side by side as if each were alone
STREAMS = 8.0
#: time of memory where a loop loads several of them side by side, from where nothing has fetched them before, in units of that of one row
#: after the other: the sums and maxima of two and of four rows took so long (maxima 26 GB/s instead of 45, sums 40 instead of 47)
BESIDE = 1.25
#: part of the second cache that what the next instance loads may take to be fetched by a second pass over the present one's
FOLLOWED = 1 / 8


def run_factor(run: float, far: float, piece: float) -> float:
    """Time of memory for each byte in pieces of `run` bytes, in units of that of one long run.

    Measured (sums of columns of a matrix of 128 MiB, one core, pieces of 64 bytes to 64 KiB): every piece costs `piece` bytes more; pieces
    of a page or less cost `far` more, longer ones less, as the third root of their length.
    """
    return float(1.0 + far * min(1.0, (PAGE / run) ** (1 / 3)) + piece / run)


def run_of(shape: Shape, s: Segment, target: CpuTarget, v: Visit, view: str, ixs: tuple[Expr, ...], size: int, fetched: bool) -> float:
    """How much longer memory takes for an access than for one long run, whole lines included. `size`: bytes of an element; `fetched`:
    whether it is a store, or a load of what has been fetched before."""
    axes, named = contiguous_axes(ixs), {a for e in ixs for a in coords(e)}
    if not axes:
        return 1.0
    lanes = {axis_of(d): shape.active(d) for d in v.item.dims if axis_of(d) in named}
    extents = tuple(shape.dims(view))

    def length() -> float:
        return run_length(ixs, lambda a: lanes.get(a, 1.0), extents) * size

    own = run = length()
    rows = size / own
    for n in lanes.values():
        rows *= n
    pieces = rows
    walks = bool(v.loops) and v.loops[-1].axis in named
    for a in (*(t.axis for t in reversed(v.loops)), *(axis_of(x) for x in reversed(order_labels(s.order)))):
        if a in named and rows <= STREAMS:
            lanes[a] = shape.extent(a)
            if (longer := length()) <= run:
                break
            run = longer
    waste, line, t = 1.0, float(target.line_bytes), target
    if run < line:
        shared = bool({axis_of(x) for x in order_labels(s.order)} & set(axes)) and pieces * _turn(shape, s, axes, named) <= SAME_SETS
        waste, run = 1.0 if shared else line / run, line  # or a neighbour finds the rest of the line, before it has left the cache
    beside = BESIDE if walks and not fetched and 1.0 < rows <= STREAMS else 1.0
    ahead = walks and ((t.prefetch_bytes > 0 and own >= FETCHED) or (t.ahead_bytes > 0 and v.loops[-1].axis in axes))
    return beside * waste * run_factor(run, 0.0 if ahead else t.far_factor, float(t.piece_bytes))


def _turn(shape: Shape, s: Segment, axes: Collection[str], named: Collection[str]) -> float:
    """Instances between neighbours along one of `axes`, counting those that touch other elements of an access that names `named`."""
    out = 1.0
    for d in reversed(order_labels(s.order)):
        if axis_of(d) in axes:
            break
        out *= shape.pieces(d) if axis_of(d) in named else 1.0
    return out
