"""The reference interpreter: the executable meaning of KIR (kir.md), in numpy with the exact dtypes.

`run` executes a kernel on views in memory and changes that memory. Where KIR leaves a freedom (the order of a sum, fusing a
multiply into an add), `Choices` picks one member; the error envelope (`kir.envelope`) covers them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqkir.kir import (
    binding,
    memory,
    reference_atomics,
    reference_formats,
    reference_ops,
    reference_regions,
    reference_scan,
    reference_structured,
)
from eqkir.kir.binding import bind
from eqkir.kir.memory import ViewArg
from eqkir.kir.model import Kernel
from eqkir.kir.reference_machine import Choices, Reference, rule

#: importing them registers their rules
EVALUATORS = (reference_atomics, reference_formats, reference_ops, reference_regions, reference_scan, reference_structured)

PLAIN = Choices()


def run(
    kernel: Kernel,
    args: Mapping[str, ViewArg | Any],
    symbols: Mapping[str, int] | None = None,
    constexprs: Mapping[str, binding.Literal] | None = None,
    choices: Choices = PLAIN,
) -> None:
    """Execute `kernel` on `args` (a `ViewArg` for each view, a number for each scalar), changing the views' memory in place.

    Helpers must have been inlined (`kir.helpers.link`). Symbols come from the views' shapes; `symbols` gives those that no view
    fixes. Stores take effect in program order; a load copies. Raises EqkirError with a code EQK-REF-… and the JSON pointer (relative
    to the kernel) on arguments that do not fit, accesses out of bounds, reads of unwritten `out` or buffer elements, double writes,
    races between points of a parallel, and invalid input (integer division by zero, shifts and casts out of range). The memory is
    then partly written.
    """
    Reference(bind(kernel, args, symbols or {}, constexprs or {}), choices).start()


__all__ = ["Choices", "Reference", "ViewArg", "memory", "rule", "run"]
