"""The reference interpreter: the executable meaning of KIR (kir.md), in numpy with the exact dtypes.

`run` executes a kernel on views in memory and changes that memory. Where KIR leaves a freedom (the order of a sum, fusing a
multiply into an add), `Choices` picks one member; the error envelope (`kir.envelope`) covers them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from eqkir.kir import binding, memory
from eqkir.kir.binding import Binding, bind
from eqkir.kir.floats import Array
from eqkir.kir.machine import SHARED, Machine
from eqkir.kir.memory import ViewArg
from eqkir.kir.model import Kernel


@dataclass(frozen=True, slots=True)
class Choices:
    """Which legal result to compute: the tree of every reduction, and whether a*b±c and sums of products are fused.

    `order`: ``plain`` (numpy's order), ``forward``, ``reversed``, ``pairwise`` (balanced tree).
    """

    order: Literal["plain", "forward", "reversed", "pairwise"] = "plain"
    fused: bool = False


class Reference(Machine[Array]):
    """Values are arrays of the KIR dtype."""

    rules: ClassVar[dict[str, Callable[[Any, Any], None]]] = dict(SHARED)

    def __init__(self, binding: Binding, choices: Choices) -> None:
        super().__init__(binding)
        self.choices = choices

    def repeat(self, value: Array, n: int) -> Array:
        return np.repeat(value, n, axis=0) if value.shape[0] > 1 else value

    def exact(self, a: Array) -> Array:
        return a


def rule(op: str) -> Callable[[Callable[[Reference, Any], None]], Callable[[Reference, Any], None]]:
    """Register the evaluator of an operation under its ``op`` literal."""

    def register(f: Callable[[Reference, Any], None]) -> Callable[[Reference, Any], None]:
        Reference.rules[op] = f
        return f

    return register


def run(
    kernel: Kernel,
    args: Mapping[str, ViewArg | Any],
    symbols: Mapping[str, int] | None = None,
    constexprs: Mapping[str, binding.Literal] | None = None,
    choices: Choices = Choices(),
) -> None:
    """Execute `kernel` on `args` (a `ViewArg` for each view, a number for each scalar), changing the views' memory in place.

    Symbols come from the views' shapes; `symbols` gives those that no view fixes. Stores take effect in program order; a load
    copies. Raises EqkirError with a code EQK-REF-… and the JSON pointer (relative to the kernel) on arguments that do not fit,
    accesses out of bounds, reads of unwritten `out` elements, double writes, races between points of a parallel, and invalid
    input (integer division by zero, shifts and casts out of range). The memory is then partly written.
    """
    Reference(bind(kernel, args, symbols or {}, constexprs or {}), choices).start()


from eqkir.kir import reference_ops, reference_structured  # noqa: E402  (they register their rules)

__all__ = ["Choices", "Reference", "ViewArg", "memory", "reference_ops", "reference_structured", "rule", "run"]
