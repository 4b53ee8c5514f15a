"""A store in index notation, over construction's axes."""

from __future__ import annotations

from dataclasses import dataclass

from eqkir.analysis.worksets import Scope
from eqkir.base.expr import Expr


@dataclass(frozen=True)
class Effect:
    """A store: `axes` is its iteration space, outermost first."""

    view: str
    alias: int
    version: int
    ixs: tuple[Expr, ...]
    deps: tuple[int, ...]
    value: int
    valid: int
    axes: tuple[str, ...]
    scope: Scope
    pointer: str
    mode: str = "store"  # or ``unique``: declared injective; or how it combines with what is there
    loops: tuple[tuple[str, str], ...] = ()  # loops around it whose iterations are independent, and their axes
    inner: tuple[str, ...] = ()  # regions of the ordered loops around it, outermost first

    @property
    def roots(self) -> tuple[int, ...]:
        return (self.value, self.valid, *self.deps)


__all__ = ["Effect"]
