"""State of a batch of instances, and control of the interpreter of task programs: who takes part in which statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from eqkir.base.diagnostics import fail
from eqkir.cpu.model import For, If, While
from eqkir.program.interp_loop import ENDLESS
from eqkir.program.interp_memory import Array

STEPS = 1 << 16  # of one while loop
Mask = Any  # bool array (N,), or None: all instances take part


@dataclass
class State:
    """Of one batch: values by id, variables by name, memory of tasks by name, and the instances' numbers."""

    ids: Array
    values: dict[int, Array] = field(default_factory=dict)
    vars: dict[int, Array] = field(default_factory=dict)
    scratch: dict[str, tuple[Array, Array]] = field(default_factory=dict)


Run = Callable[[State, Mask], None]


def ranged(x: For, body: Run) -> Run:
    """A loop over a range, for all instances until the last one has left it."""
    index, begin, end = x.index, x.begin, x.end

    def go(s: State, m: Mask) -> None:
        at, stop = s.values[begin], s.values[end]
        while True:
            on = (at < stop)[:, 0]
            if on.size == 1:
                if not on[0]:
                    return
                inside = m
            else:
                inside = on if m is None else on & m
                if not inside.any():
                    return
                inside = None if inside.all() else inside
            s.values[index] = at
            body(s, inside)
            at = at + x.step

    return go


def chosen(x: If, then: Run, orelse: Run) -> Run:
    """A branch: each side for the instances that take it."""
    cond = x.cond

    def go(s: State, m: Mask) -> None:
        c = s.values[cond][:, 0]
        if c.size == 1:
            (then if c[0] else orelse)(s, m)
            return
        for part, on in ((then, c), (orelse, ~c)):
            inside = on if m is None else on & m
            if inside.any():
                part(s, None if inside.all() else inside)

    return go


def repeated(x: While, head: Run, body: Run) -> Run:
    """A while loop. It raises EqkirError EQK-INT-… after `STEPS` steps."""
    cond = x.cond

    def go(s: State, m: Mask) -> None:
        for _ in range(STEPS):
            head(s, m)
            c = s.values[cond][:, 0]
            if c.size == 1:
                if not c[0]:
                    return
            else:
                m = c if m is None else c & m
                if not m.any():
                    return
            body(s, m)
        raise fail(ENDLESS, f"a while loop goes on after {STEPS} steps", stage="interpret")

    return go
