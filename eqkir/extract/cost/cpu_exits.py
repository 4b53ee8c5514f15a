"""Accumulators of loops: the registers that they take, and what an instance waits for where it leaves such a loop.

Nothing else can be done until the loop behind has what it reads.

The chain from the last step of a loop to the first of the next one: accumulators of one element combined in pairs, then the lanes of the
last vector, each by a shuffle and the operation, then the operations in between. It is waited for once, however many rows an instance has
beside each other: their chains run side by side. Where no later loop of the block reads what comes of it (or another loop comes first), the
next instance's work hides it.
"""

from __future__ import annotations

import math

from eqkir.cpu.layout import Layout
from eqkir.extract.cost.cpu_instead import taken_instead
from eqkir.extract.cost.walk import Shape
from eqkir.program.abi import parameter
from eqkir.program.items import reads
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Program, Region, Store
from eqkir.targets.cpu import CpuTarget

#: operation of a region's combine after another that wait for each other, as a part of all
DEPTH = 0.4
#: registers that are not for accumulators
TEMPORARIES = 8.0
#: operations that a function of the machine itself takes no constants for
EXACT = ("div", "sqrt", "rsqrt", "maximum", "minimum", "floordiv", "mod", "default", "div_fast")


def waits(program: Program, shape: Shape, target: CpuTarget, layout: Layout, items: tuple[Item, ...], trips: float = 1.0) -> float:
    """Clocks of one instance."""
    out = 0.0
    for n, x in enumerate(items):
        if isinstance(x, Loop):
            out += waits(program, shape, target, layout, x.body, trips * shape.steps(x))
            out += trips * _exposed(program, target, layout, x, items[n + 1 :])
    return out


def _exposed(program: Program, target: CpuTarget, layout: Layout, x: Loop, rest: tuple[Item, ...]) -> float:
    ready = {c.id: _fold(program, target, layout, x, c) for c in x.carries if c.op.startswith(("Red", "Con"))}
    for y in rest if ready else ():
        if isinstance(y, Loop):
            return max((ready[i] for i in reads(y) if i in ready), default=0.0)
        if isinstance(y, Let):
            before = [ready[a] for a in y.args if a in ready]
            if before:
                ready[y.id] = max(before) + _latency(target, y)
    return 0.0


def _latency(target: CpuTarget, y: Let) -> float:
    if y.op in ("Un", "Bin", "Tri"):
        return target.latency_clocks - 1.0 + target.slots(str(y.attrs[0]))
    return target.latency_clocks if y.op in ("Cast", "RedTree") else 0.0


def registers(
    program: Program, shape: Shape, target: CpuTarget, layout: Layout, items: tuple[Item, ...], trips: float = 1.0
) -> tuple[float, float]:
    """Accumulators of an instance's steps that find no register (in reductions beside the constants of their loop and what it is given),
    so that they are loaded and stored in every step; slots of combining all behind their loops, and the lanes of the last."""
    spilled = slots = 0.0
    for x in items:
        if not isinstance(x, Loop):
            continue
        n, held = trips * shape.steps(x), TEMPORARIES
        for c in x.carries:
            if taken_instead(program, layout, x.label, c) is not None:  # counted in memory
                continue
            replicas, wide = accumulators(program, layout, x, c)
            held += _parts(layout, c.id) * replicas
            if replicas > 1.0 or wide > 1:
                region = next((len(a.body) for a in c.attrs if isinstance(a, Region)), 1)
                slots += trips * _parts(layout, c.id) * (replicas - 1.0 + 2.0 * math.log2(wide)) * region
        if any(c.op.startswith("Red") for c in x.carries):  # operands of contractions come from memory
            held += constants(target, x.body) + sum(_parts(layout, i) for i in given(layout, x))
        spilled += n * max(0.0, held - target.vector_registers)
        inner = registers(program, shape, target, layout, x.body, n)
        spilled, slots = spilled + inner[0], slots + inner[1]
    return spilled, slots


def _parts(layout: Layout, i: int) -> float:
    """Registers of a value."""
    f = layout.shape(i)
    return math.prod(f.lanes) / f.width


def accumulators(program: Program, layout: Layout, x: Loop, c: Carry) -> tuple[float, int]:
    """Accumulators of one element of a carry, and the lanes of each."""
    wide = next((layout.width[d] for d in (x.label,) if any(layout.along(a) == d for a in c.args) and d in layout.width), 1)
    replicas = program.lanes(x.label) / wide if "lanes" in c.attrs and parameter(x.label) else 1.0
    return replicas * program.options.get(f"{c.by}.replicas", 1), wide


def _fold(program: Program, target: CpuTarget, layout: Layout, x: Loop, c: Carry) -> float:
    """Clocks from the last step of a carry to its value."""
    if taken_instead(program, layout, x.label, c) is not None:
        return 0.0
    replicas, wide = accumulators(program, layout, x, c)
    region = next((a for a in c.attrs if isinstance(a, Region)), None)
    name = {"max": "maximum", "min": "minimum"}.get(str(c.attrs[0]), "default")
    each = target.latency_clocks * (max(1.0, DEPTH * len(region.body)) if region else target.slots(name) if c.op.startswith("Red") else 1.0)
    return each * math.log2(max(1.0, replicas)) + (each + target.latency_clocks) * math.log2(wide)


def constants(target: CpuTarget, items: tuple[Item, ...]) -> float:
    """Registers that the constants of functions in a block take: about as many as its longest polynomial has operations."""
    lets = [x for x in items if isinstance(x, Let) and x.op in ("Un", "Bin", "Tri") and x.attrs[0] not in EXACT]
    return max((target.slots(str(x.attrs[0])) for x in lets), default=1.0) - 1.0


def given(layout: Layout, x: Loop) -> list[int]:
    """Values from before a loop that its body reads in every step, constants left out."""
    own = {i.id for i in (*x.carries, *x.body) if not isinstance(i, (Store, Loop, Barrier))}
    out = dict.fromkeys(a for i in x.body if not isinstance(i, Loop) for a in reads(i))
    return [a for a in out if a not in own and a in layout.defs and layout.defs[a].op != "Const"]


__all__ = ["accumulators", "constants", "given", "registers", "waits"]
