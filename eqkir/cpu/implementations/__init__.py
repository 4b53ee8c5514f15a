"""Implementations of structured operations: declared units, each of which expands into task-program statements (docs/cpu.md).

An implementation of a *let* expands a whole operation on a fragment; an implementation of a *carry* says how its state starts, steps once
for each chunk of its loop, and ends. Third parties register theirs under the entry point group ``eqkir.cpu.implementations``; each entry
is an object of one of the two protocols.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Protocol, Union, runtime_checkable

from eqkir.base.diagnostics import fail
from eqkir.cpu import codes
from eqkir.cpu.context import Context
from eqkir.cpu.forms import Form
from eqkir.program.model import Carry, Let, Loop


@dataclass(frozen=True, slots=True)
class Declaration:
    """What an implementation says of itself.

    `name`: its identity, in reports and cache keys, with `version`; `kind`: implementations of one kind exclude each other in a row's set;
    `ops`: operations of `program.model` that it realises; `relation`: how results may differ from the operation's, in words of
    docs/numerics.md. Operands in any form are read by way of the context, scratch is what `expand` allocates.
    """

    name: str
    kind: str
    ops: tuple[str, ...]
    relation: str
    version: int = 1


@runtime_checkable
class LetImplementation(Protocol):
    declaration: Declaration

    def applies(self, k: Context, x: Let) -> bool:
        """Whether it takes this operation with its operands, types and bindings."""

    def expand(self, k: Context, x: Let) -> None:
        """Define the value ``x.id`` in the context."""


@runtime_checkable
class CarryImplementation(Protocol):
    declaration: Declaration

    def applies(self, k: Context, x: Carry, loop: Loop) -> bool:
        """Whether it takes this carry with its operands, types and bindings."""

    def supplies(self, k: Context, x: Carry, loop: Loop) -> Mapping[int, Form]:
        """Loads of the loop's body that it wants in a form: coordinated by the expansion, once for all who want the same."""

    def start(self, k: Context, x: Carry, loop: Loop) -> tuple[int, ...]:
        """Variables of its state, initialised, before the loop."""

    def step(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        """Take the present chunk in, at the end of the loop's body."""

    def finish(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        """Define the value ``x.id`` behind the loop."""


Implementation = Union[LetImplementation, CarryImplementation]


def own() -> tuple[Implementation, ...]:
    """The package's implementations."""
    from eqkir.cpu.implementations import contractions, reductions, scans

    return (*reductions.ALL, *scans.ALL, *contractions.ALL)


@lru_cache(maxsize=1)
def registered() -> tuple[Implementation, ...]:
    """All implementations: the package's own, then those of entry points by name. Raises EqkirError EQK-MOJ-UNSUPPORTED when two have one
    name."""
    found = sorted(entry_points(group="eqkir.cpu.implementations"), key=lambda e: e.name)
    out = (*own(), *(e.load() for e in found))
    names = [i.declaration.name for i in out]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise fail(codes.UNSUPPORTED, f"several implementations called {twice[0]}", accepted="names of their own", stage="expand")
    return out


def selected(k: Context) -> list[Implementation]:
    """The implementations that the program's row names; the package's own for a program without a row."""
    names = k.program.implementations
    return [i for i in registered() if i.declaration.name in names] if names else list(own())


def declarations() -> dict[str, Declaration]:
    """By name."""
    return {i.declaration.name: i.declaration for i in registered()}


def of_let(k: Context, x: Let) -> LetImplementation:
    """The one implementation of a let. Raises EqkirError EQK-MOJ-UNSUPPORTED when none applies, or several do."""
    return _one(x, [i for i in selected(k) if isinstance(i, LetImplementation) and x.op in i.declaration.ops and i.applies(k, x)])


def of_carry(k: Context, x: Carry, loop: Loop) -> CarryImplementation:
    """The one implementation of a carry. Raises EqkirError EQK-MOJ-UNSUPPORTED when none applies, or several do."""
    takes = [i for i in selected(k) if isinstance(i, CarryImplementation) and x.op in i.declaration.ops]
    return _one(x, [i for i in takes if i.applies(k, x, loop)])


def _one[T: Implementation](x: Let | Carry, found: list[T]) -> T:
    if len(found) != 1:
        names = ", ".join(i.declaration.name for i in found) or "none"
        raise fail(codes.UNSUPPORTED, f"{x.op} of {x.dtype}: {names}", accepted="exactly one implementation", stage="expand")
    return found[0]
