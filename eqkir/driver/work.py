"""How much a launch does, counted on a program: what bounds the checks' cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqkir.base.expr import evaluate
from eqkir.kir.memory import ViewArg
from eqkir.program.interp_space import Space
from eqkir.program.model import Item, Loop, Program


def integers(symbols: Mapping[str, int], args: Mapping[str, Any]) -> dict[str, int]:
    """Extents and integer scalars by name."""
    return {**{k: int(v) for k, v in args.items() if not isinstance(v, ViewArg) and np.asarray(v).dtype.kind in "iub"}, **symbols}


def instances(program: Program, values: Mapping[str, int]) -> int:
    """Programs of a launch (before rounding to grid axes); `values`: extents and integer scalars."""
    return sum(int(evaluate(program.length(s), lambda a: values[a.args[0]])) for s in program.segments)


def steps(program: Program, values: Mapping[str, int]) -> int:
    """Blocks that one launch executes: the whole of every instance once, the body of a loop once an iteration (of all its extent)."""

    def trips(items: Sequence[Item]) -> int:
        n = 1
        for i in items:
            if isinstance(i, Loop):
                extent = int(evaluate(program.axis[i.axis].extent, lambda a: values[a.args[0]]))
                n += -(-extent // program.lanes(i.label)) * trips(i.body)
        return n

    return sum(Space(program, s, values).length * sum(trips(p) for p in s.phases) for s in program.segments)
