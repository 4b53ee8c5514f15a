"""Memory versions as points in time.

Outside ordered loops the versions of an alias class are their own order. A version that lives inside ordered loops (`Program.inner`)
happens once a step: its time is, loop by loop from outside, the first version of that loop and the step, and at last the version itself.
So the first version of a body, at step k, lies after everything of step k - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from eqkir.base.diagnostics import fail
from eqkir.program.interp_memory import ARGS
from eqkir.program.model import Program

if TYPE_CHECKING:
    from eqkir.program.interp_exec import Batch

WHILE_STEPS = 1 << 16


class Clock:
    """Times of versions as integers; `extents` of the axes bound the steps."""

    def __init__(self, program: Program, extents: Mapping[str, int]) -> None:
        self.inner = program.inner
        kinds = {a.name: a.kind for a in program.axes}
        self.steps = {a: WHILE_STEPS if kinds[a] == "while" else max(n, 0) + 1 for a, n in extents.items()}
        self.depth = max((len(axes) for axes in self.inner.values()), default=0)
        self.top = 2 + max([v for _, v in self.inner], default=0)
        self.widest = max((self.steps[a] for axes in self.inner.values() for a in axes), default=1)

    def time(self, alias: int, version: int) -> Callable[[Batch], int]:
        """The time of a version at the current step. Raises EqkirError EQK-INT-ARGS where the steps do not fit in 64 bits."""
        if not self.inner:
            return lambda b: version
        path = self.inner.get((alias, version), ())
        top = max(self.top, version + 2)
        if (top * self.widest) ** self.depth * top >= 1 << 62:
            raise fail(ARGS, "too many steps of ordered loops to tell versions apart", stage="interpret")
        firsts = [min(v for (a, v), axes in self.inner.items() if a == alias and axes[: k + 1] == path[: k + 1]) for k in range(len(path))]
        pad: int = (top * self.widest) ** (self.depth - len(path))
        labels = [f"{a}:L1" for a in path]

        def go(b: Batch) -> int:
            t = 0
            for first, label in zip(firsts, labels, strict=True):
                t = (t * top + first) * self.widest + int(b.coords[label][0])
            return (t * top + version) * pad

        return go
