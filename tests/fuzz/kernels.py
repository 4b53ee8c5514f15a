"""A random legal kernel of a seed, and the inputs that it is tried on."""

from __future__ import annotations

import random
from collections.abc import Sequence

from eqkir.base.diagnostics import EqkirError
from eqkir.kir import dumps, load_bytes
from eqkir.kir.builder import module
from eqkir.kir.model import Module, View
from tests.fuzz import atomics, control, memory, pointwise, records, regions, shapes, structured
from tests.fuzz.memory import sink
from tests.fuzz.state import PASSED, PRODUCTIONS, State

#: importing them registers their productions
KINDS = (atomics, control, memory, pointwise, records, regions, shapes, structured)
OUTPUTS = 4


def names() -> list[str]:
    """Every production, in a fixed order."""
    return sorted(PRODUCTIONS)


def foci() -> list[str]:
    """Every production with everything that it can be asked for (``production: wish``), in a fixed order."""
    return [f"{name}: {w}" if w else name for name in names() for w in PRODUCTIONS[name].wishes]


def draw(rng: random.Random, focus: Sequence[str] = (), size: int | None = None) -> Module:
    """One kernel: a few productions in random order, those of `focus` (as in `foci`) among them; values that nothing used are stored.

    Raises EqkirError only if the builder, having accepted every operation, refuses the whole.
    """
    g = State(rng)
    n = size or g.pick((2, 3, 4, 5, 6, 8))
    for x in focus or ("",):
        name, _, wish = x.partition(": ")
        g.grow(max(1, n // max(1, len(focus))), first=name, wish=wish)
    outputs(g)
    if g.chance(0.6):
        g.k.noalias(*g.views)
    elif g.chance(0.5) and len(g.views) > 2:
        g.k.noalias(*g.views[: len(g.views) // 2])
    return module(g.k.build(), helpers=[h for h in records.HELPERS if h.name in g.k.helpers])


def outputs(g: State) -> None:
    """Store values that nothing used, late ones first, and name every symbol in a view."""
    fresh = [v for v in g.values if v.id not in g.used]
    stored = 0
    for v in [*fresh[::-1], *([] if fresh else g.values[::-1])]:
        if stored >= OUTPUTS:
            break
        try:
            sink(g, v)
            stored += 1
        except PASSED:
            continue
    shown = {e for p in g.k._params if isinstance(p, View) for e in p.shape if isinstance(e, str)}
    hidden = [s for s in g.symbols if s not in shown]
    if hidden or not any(v.view.role != "in" for v in g.views):
        shape = tuple(g.symbols[s] for s in hidden)
        g.view("out", "i32", shape)[(slice(None),) * len(shape)] = g.k.full(shape, 7, "i32")


def case(seed: int, index: int) -> tuple[Module, list[str]]:
    """(kernel, its focus) of a case: each of `foci` is the focus of every so many cases, on its own or with another one."""
    every = foci()
    for attempt in range(8):
        rng = random.Random(f"{seed}/{index}/{attempt}")
        focus = [every[index % len(every)]]
        if rng.random() < 0.4:
            focus.append(every[rng.randrange(len(every))])
        try:
            return draw(rng, focus), focus
        except EqkirError:
            if attempt == 7:
                raise
    raise AssertionError("unreachable")


def text(m: Module) -> str:
    """JSON without locations."""
    return load_bytes(dumps(m).encode()) and dumps(m)
