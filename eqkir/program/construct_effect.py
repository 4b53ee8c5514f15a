"""A store in index notation, over construction's axes."""

from __future__ import annotations

from dataclasses import dataclass

from eqkir.analysis.worksets import Scope
from eqkir.base.expr import Expr


@dataclass(frozen=True)
class Effect:
    """A store: `axes` is its iteration space, outermost first. The expected value of a compare-exchange is the last of `deps`."""

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
    when: int = 0  # its place in program order
    order: str = ""  # of an atomic operation
    into: str = ""  # the workspace that keeps old values (a result of the operation), at the coordinates `at`, and its alias class
    at: tuple[Expr, ...] = ()
    into_alias: int = -1

    @property
    def roots(self) -> tuple[int, ...]:
        return (self.value, self.valid, *self.deps)


__all__ = ["Effect"]
