"""What a reference formula returns, and how results are compared with it.

A formula takes the array library, the views that are read (f64, i64 or bool, see `arrays`) and the sizes (symbols, scalars and constexprs
by name) and returns, for every output, either an array (integers and bools: equal; floats: 16 terms of the value's own magnitude), an
`Out`, or a `Judge` where the right result is not unique.

Tolerance, one for all: an element may differ from the f64 reference by one unit in the last place of the output's dtype and by
8·√n·2⁻²⁴·scale for accumulation in f32 over n terms whose magnitudes sum to `scale`: the probabilistic bound of Higham and Mary (SIAM
J. Sci. Comput. 41, 2019) with λ = 8. Where a kernel stores terms of a sum in a narrow dtype on the way, `rounding` bounds what that adds:
unit roundoff times the sum of the terms' magnitudes, or λ times their Euclidean norm by the same argument, whichever is less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Views = dict[str, Any]
Sizes = dict[str, Any]
Formula = Callable[[Any, Views, Sizes], dict[str, Any]]

LAMBDA = 8
F32 = 2.0**-24
FORMULAS: dict[str, Formula] = {}


@dataclass
class Out:
    """`value` in f64; `scale` bounds the sum of the magnitudes accumulated (none: the value's own), `n` terms; `slack` is an absolute
    addition to the bound."""

    value: Any
    scale: Any = None
    n: int = 16
    slack: Any = None


@dataclass
class Judge:
    """`worst` takes all results by name (wide) and returns error / bound, an array: above 1, or NaN, is wrong."""

    worst: Callable[[Views], Any]


def formula(*names: str) -> Callable[[Formula], Formula]:
    """Register a formula under the names of kernels."""

    def register(f: Formula) -> Formula:
        for name in names:
            if name in FORMULAS:
                raise ValueError(f"two formulas for {name}")
            FORMULAS[name] = f
        return f

    return register


def rounding(xp: Any, dtype_bits: int, magnitudes: Any, squares: Any) -> Any:
    """What rounding the terms of a sum to `dtype_bits` significand bits adds: from the sums of their magnitudes and of their squares."""
    unit = 2.0**-dtype_bits
    return xp.minimum(unit * magnitudes, LAMBDA * unit * xp.sqrt(squares))


def accumulated(n: int, scale: Any) -> Any:
    """The bound of an f32 accumulation."""
    return LAMBDA * math.sqrt(max(n, 1)) * F32 * scale


def pointwise(xp: Any, value: Any, *inputs: Any) -> Out:
    """A few operations an element: relative to the value, the inputs and 1."""
    scale = abs(value) + 1.0
    for x in inputs:
        scale = scale + abs(x)
    return Out(value, scale)


def total(xp: Any, x: Any, axis: Any, keep: bool = False) -> Out:
    """A sum over one axis or several."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    return Out(xp.sum(x, axis, keep), xp.sum(abs(x), axis, keep), math.prod(x.shape[a] for a in axes))


def product(xp: Any, form: str, a: Any, b: Any, n: int) -> Out:
    """A contraction over n terms."""
    return Out(xp.einsum(form, a, b), xp.einsum(form, abs(a), abs(b)), n)


def wrapped(xp: Any, x: Any, bits: int = 32) -> Any:
    """Integers mod 2^bits, signed."""
    return ((x + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1))
