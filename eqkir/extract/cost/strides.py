"""How the lanes of an access lie in memory. Strides are run-time facts, so row-major is assumed; only costs depend on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from eqkir.base.expr import Expr, coords


@lru_cache(maxsize=16384)
def coefficient(e: Expr, axis: str) -> int | None:
    """The integer factor of ``coord(axis)`` in `e`; None where the dependence is not linear with an integer factor."""
    if axis not in coords(e):
        return 0
    if e.op == "coord":
        return 1
    if e.op in ("add", "sub"):
        a, b = coefficient(e.args[0], axis), coefficient(e.args[1], axis)
        return None if a is None or b is None else a + b if e.op == "add" else a - b
    if e.op == "mul":
        x, y = e.args
        for f, g in ((x, y), (y, x)):
            if g.value is not None:
                k = coefficient(f, axis)
                return None if k is None else k * int(g.value)
    return None


@lru_cache(maxsize=4096)
def contiguous_axes(ixs: tuple[Expr, ...]) -> tuple[str, ...]:
    """Axes that move the last coordinate by one, sorted."""
    return tuple(a for a in sorted(coords(ixs[-1])) if coefficient(ixs[-1], a) in (1, -1)) if ixs else ()


def run_length(ixs: tuple[Expr, ...], lanes: Callable[[str], float], extents: tuple[float, ...]) -> float:
    """Elements in a row that one execution touches: lanes along the last coordinate, and on along the one before while a whole row is
    covered.

    `lanes(axis)`: active lanes of the axis at this access (1 where it has none); `extents`: of the view's dimensions.
    """
    run = 1.0
    for k in range(len(ixs) - 1, -1, -1):
        axes = [a for a in sorted(coords(ixs[k])) if coefficient(ixs[k], a) in (1, -1)]
        n = max((lanes(a) for a in axes), default=1.0)
        run *= n
        if n < extents[k]:
            break
    return run
