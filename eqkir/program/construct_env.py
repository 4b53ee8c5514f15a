"""Environments of instantiation, and the registry of operations.

An environment says what the arguments of the loops around a value stand for: the point of an ordered loop, a state before the current
step, a slice. There is one for each way in which a loop is instantiated, chained to that of the loop around it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Union

from eqkir.base.expr import Expr

if TYPE_CHECKING:
    from eqkir.program.construct_values import Values

Ixs = tuple[Expr, ...]
Request = Union[tuple[str, Ixs], "tuple[str, Ixs, Env]"]
Steps = Generator[Request, int, int]
Handler = Callable[..., Steps]
#: what an argument stands for: a node, another value in another environment, or the steps that make it; by record path and indices
Bind = Callable[[tuple[str, ...], Ixs], Any]

HANDLERS: dict[str, Handler] = {}
#: op -> fields that its handler reads; another field with a value other than its default is refused
FIELDS: dict[str, frozenset[str]] = {}
#: handlers that take the path of a record's field as a further argument
RECORDS: set[Handler] = set()
COMMON = frozenset({"op", "results", "loc"})


def construction(op: str, fields: str, records: bool = False) -> Callable[[Handler], Handler]:
    """Register how the operation with this ``op`` literal is instantiated: (values, operation, result number, index expressions).

    `fields` names the fields of the operation that the handler takes into account; with `records` its results may be records, and the
    handler gets the path of a field besides.
    """

    def put(h: Handler) -> Handler:
        HANDLERS[op] = h
        FIELDS[op] = frozenset(fields.split())
        if records:
            RECORDS.add(h)
        return h

    return put


class Env:
    """What the arguments of one loop region stand for, inside an outer environment."""

    def __init__(self, number: int, parent: Env | None, binds: dict[str, Bind], axes: frozenset[str] = frozenset()) -> None:
        self.number, self.parent, self.binds = number, parent, binds
        self.depth: int = parent.depth + 1 if parent else 0
        self.axes: frozenset[str] = axes | parent.axes if parent else axes  # axes that the loops traverse
        self.steps = ""  # the axis of an ordered loop
        self.domains: dict[str, tuple[Expr, int, Expr]] = {}
        self.slices: dict[str, str] = {}  # extent of a slice -> its seg axis

    def home(self, depth: int) -> Env:
        """The environment of a value with so many loops around it."""
        e = self
        while e.depth > depth:
            assert e.parent is not None
            e = e.parent
        return e

    def slice(self, name: str) -> str | None:
        e: Env | None = self
        while e is not None:
            if name in e.slices:
                return e.slices[name]
            e = e.parent
        return None


ROOT = Env(0, None, {})


def made(v: Values, region: str, outer: Env, key: tuple[Any, ...]) -> int:
    """The number of the environment of a region under a key: equal keys are one environment."""
    numbers = v.environments
    return numbers.setdefault((region, outer.number, *key), len(numbers) + 1)


__all__ = ["COMMON", "FIELDS", "HANDLERS", "RECORDS", "ROOT", "Bind", "Env", "Handler", "Ixs", "Request", "Steps", "construction", "made"]
