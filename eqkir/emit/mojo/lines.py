"""Runs of streamed stores: registers that follow each other along memory leave as whole lines, wherever a line begins.

An address is known to be a multiple of 16 bytes, so that a register of 64 would leave in four pieces. In a run, each store joins the end
of the register before it to the beginning of its own: one permutation and one store of an aligned line. The run's own ends leave in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqkir.base.dtypes import bits
from eqkir.cpu.model import Op, Statement, Type, Write

LINE = 64
#: stores from which a run is joined: its ends cost as much as two registers in pieces
SHORTEST = 4


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store stands in its run: `run` are the ids of the first store's value and offset and the name of its memory, which no other
    run has together; `before` is the value of the store before it (-1: none)."""

    run: tuple[int, int, str]
    before: int
    last: bool


def affine(i: int, ops: Mapping[int, Op]) -> tuple[tuple[int, ...], int]:
    """An offset as the ids that are added up, in order, and a constant."""
    x = ops.get(i)
    if x is not None and x.op == "Const":
        return (), int(x.attrs[0])
    if x is not None and x.op == "Bin" and x.attrs[0] == "add":
        (a, m), (b, n) = affine(x.args[0], ops), affine(x.args[1], ops)
        return tuple(sorted((*a, *b))), m + n
    return (i,), 0


def runs(body: Sequence[Statement], ops: Mapping[int, Op], types: Mapping[int, Type]) -> dict[int, Place]:
    """Index of a store in a block -> its place, for the stores of runs of `SHORTEST` and more."""
    ops = {**ops, **{s.id: s for s in body if isinstance(s, Op)}}
    known = {**types, **{s.id: s.type for s in ops.values()}}
    found: dict[tuple[str, tuple[int, ...]], list[list[tuple[int, int]]]] = {}  # (place, base) -> runs of (index, offset)
    for n, s in enumerate(body):
        if not isinstance(s, Write) or not s.stream or s.value not in known:
            continue
        t = known[s.value]
        if t.dtype == "bool" or t.width * bits(t.dtype) != 8 * LINE:
            continue
        base, offset = affine(s.at, ops)
        of = found.setdefault((s.place, base), [])
        if of and of[-1][-1][1] + t.width == offset:
            of[-1].append((n, offset))
        else:
            of.append([(n, offset)])
    out: dict[int, Place] = {}
    for run in (r for rs in found.values() for r in rs if len(r) >= SHORTEST):
        writes = [s for n, _ in run if isinstance(s := body[n], Write)]
        first = (writes[0].value, writes[0].at, writes[0].place)
        for k, (n, _) in enumerate(run):
            out[n] = Place(first, writes[k - 1].value if k else -1, k == len(run) - 1)
    return out
