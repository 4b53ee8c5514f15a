"""Completion: whichever body an instance takes, it stores to everything that its segment stores to.

An expansion makes several bodies of one segment (dense strides, whole blocks, stores past the caches, edges) and a test between them. What
the bodies compute is each one's matter; that none of them is missing is judged here, from the structured program and the statements alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from eqkir.base.diagnostics import Diagnostic
from eqkir.cpu import codes
from eqkir.cpu.model import Alloc, Atomic, For, Group, If, Op, Statement, TaskProgram, While, Write, statements
from eqkir.program.model import Item, Loop, Program, Store

#: operations whose results are the same for all data
KNOWN = ("Const", "Param", "Scalar", "Address", "Un", "Bin", "Tri", "Cast")


def completion(program: Program, tasks: TaskProgram) -> list[Diagnostic]:
    """Findings (EQK-TSK-INVALID): views that a segment of `program` stores to and that a body of its group of tasks does not."""
    groups = {g.name: g for stage in tasks.stages for g in stage}
    used = {p for g in groups.values() for p in g.places}
    outputs = {v.name for v in program.abi.views if v.role != "workspace"}
    out = []
    for s in program.segments:
        wanted = {x.view for phase in s.phases for x in _stores(phase)} & (outputs | used)
        if not wanted:
            continue
        missing = wanted - _Group(groups[s.group]).written() if s.group in groups else wanted
        if missing:
            text = f"group {s.group}: a body leaves out the stores to {', '.join(sorted(missing))}"
            out.append(Diagnostic(codes.INVALID, text, stage="verify"))
    return out


def _stores(items: tuple[Item, ...]) -> Iterator[Store]:
    for i in items:
        if isinstance(i, Store):
            yield i
        elif isinstance(i, Loop):
            yield from _stores(i.body)


class _Group:
    def __init__(self, g: Group) -> None:
        self.g = g
        every = statements(g.body)
        self.local = {s.name for s in every if isinstance(s, Alloc)}
        self.ops = {s.id: s for s in every if isinstance(s, Op)}
        self.fixed: dict[int, bool] = {i: True for i, _ in g.digits}

    def written(self) -> set[str]:
        """What every path writes."""
        return self._written(self.g.body) - self.local

    def _written(self, body: tuple[Statement, ...]) -> set[str]:
        out: set[str] = set()
        for s in body:
            match s:
                case Write() | Atomic():
                    out.add(s.place)
                case For():
                    out |= self._written(s.body)
                case While():
                    out |= self._written(s.head) | self._written(s.body)
                case If():
                    then, orelse = self._written(s.then), self._written(s.orelse)
                    out |= then & orelse if self._selects(s.cond) else then | orelse
        return out

    def _selects(self, cond: int) -> bool:
        """Whether a condition is of extents, strides and instances only: a test between bodies, no condition of the kernel's data."""
        if cond not in self.fixed:
            x = self.ops.get(cond)
            self.fixed[cond] = x is not None and x.op in KNOWN and all(self._selects(a) for a in x.args)
        return self.fixed[cond]


__all__ = ["completion"]
