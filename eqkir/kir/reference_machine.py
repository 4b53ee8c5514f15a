"""The reference interpreter's values, its choices, and the registry of its evaluators (`kir.reference` is the way in)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from eqkir.kir.binding import Binding
from eqkir.kir.floats import Array
from eqkir.kir.machine import Machine
from eqkir.kir.machine_control import SHARED


@dataclass(frozen=True, slots=True)
class Choices:
    """Which legal result to compute.

    `order`: the tree of every reduction: ``plain`` (numpy's order), ``forward``, ``reversed``, ``pairwise`` (balanced tree); where order
    is to be kept (scans, folds over slices) only the parentheses differ; elements of one atomic operation or scatter act in this
    order. `fused`: whether a*b±c and sums of products are fused. `slices`: of folds over slices: ``one``, ``single`` points, or
    ``random`` boundaries drawn from `seed`. `flush`: whether operations that may flush subnormals do.
    """

    order: Literal["plain", "forward", "reversed", "pairwise"] = "plain"
    fused: bool = False
    slices: Literal["one", "single", "random"] = "one"
    seed: int = 0
    flush: bool = False


class Reference(Machine[Array]):
    """Values are arrays of the KIR dtype."""

    rules: ClassVar[dict[str, Callable[[Any, Any], Any]]] = dict(SHARED)

    def __init__(self, binding: Binding, choices: Choices) -> None:
        super().__init__(binding)
        self.choices = choices
        self.rng = np.random.default_rng(choices.seed)

    def move(self, f: Callable[[Array], Array], v: Array) -> Array:
        return f(v)

    def exact(self, a: Array) -> Array:
        return a

    def assemble(self, parts: Sequence[tuple[Array, Array]], n: int) -> Array:
        out = np.empty((n, *parts[0][1].shape[1:]), parts[0][1].dtype)
        for lanes, value in parts:
            out[lanes] = value
        return out

    def concat(self, parts: Sequence[Array], axis: int) -> Array:
        n = max(p.shape[0] for p in parts)
        return np.concatenate([np.broadcast_to(p, (n, *p.shape[1:])) for p in parts], axis)

    def truth(self, cond: Array) -> tuple[Array, Array]:
        return np.broadcast_to(cond, (self.batch,)), np.zeros(self.batch, bool)

    def integers(self, v: Array) -> tuple[Array, bool]:
        return v, False

    def blurred(self, v: Array) -> Array:
        return v

    def forget(self) -> None:
        """Nothing is ever in doubt here."""


def rule(op: str) -> Callable[[Callable[[Reference, Any], None]], Callable[[Reference, Any], None]]:
    """Register the evaluator of an operation under its ``op`` literal."""

    def register(f: Callable[[Reference, Any], None]) -> Callable[[Reference, Any], None]:
        Reference.rules[op] = f
        return f

    return register
