"""Implementations of structured operations: declared units, each of which expands into task-program statements (docs/cpu.md).

An implementation of a *let* expands a whole operation on a fragment; an implementation of a *carry* says how its state starts, steps once
for each chunk of its loop, and ends. Third parties register theirs under the entry point group ``eqkir.cpu.implementations``; each entry
is an object of one of the two protocols.

Which one does an operation is chosen in the e-graph (`rulesets/cpu.egg`, from the facts that `facts` states) and stands in the program
(`Let.by`, `Carry.by`). The expansion does what stands there; of an operation of which nothing is said (P0) it takes the only one that
applies.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Protocol, Union, runtime_checkable

from eqkir.base.diagnostics import fail
from eqkir.cpu import codes
from eqkir.cpu.context import Context
from eqkir.cpu.implementations.declaration import PLAIN, Declaration, Operation, Parameter
from eqkir.program.abi import parameter
from eqkir.program.model import Carry, Let, Loop
from eqkir.program.ops import label_of


@runtime_checkable
class LetImplementation(Protocol):
    declaration: Declaration

    def applies(self, o: Operation) -> bool:
        """Whether it takes this operation of its `ops`, with features and forms that it declares."""

    def expand(self, k: Context, x: Let) -> None:
        """Define the value ``x.id`` in the context."""


@runtime_checkable
class CarryImplementation(Protocol):
    declaration: Declaration

    def applies(self, o: Operation) -> bool:
        """Whether it takes this operation of its `ops`, with features and forms that it declares."""

    def start(self, k: Context, x: Carry, loop: Loop) -> tuple[int, ...]:
        """Variables of its state, initialised, before the loop."""

    def step(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        """Take the present chunk in, at the end of the loop's body."""

    def finish(self, k: Context, x: Carry, loop: Loop, state: tuple[int, ...]) -> None:
        """Define the value ``x.id`` behind the loop."""


Implementation = Union[LetImplementation, CarryImplementation]


def own() -> tuple[Implementation, ...]:
    """The package's implementations."""
    from eqkir.cpu.implementations import bins, contractions, dots, reductions, scans

    return (*reductions.ALL, *scans.ALL, *contractions.ALL, *bins.ALL, *dots.ALL)


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


def facts() -> tuple[str, ...]:
    """What the rules of `rulesets/cpu.egg` read: who takes which operation, with operands in which forms; by name."""
    out = []
    for d in sorted(declarations().values(), key=lambda d: d.name):
        for op in d.ops:
            for forms in d.forms:
                words = " ".join(json.dumps(w) for w in (d.name, op, *(f or "-" for f in forms)))
                out.append(f"(rule () ((does {words})) :ruleset facts)")
    return tuple(out)


def definitions() -> str:
    """All declarations as text, versions included: what caches are keyed by."""
    return "\n".join(str(d) for _, d in sorted(declarations().items()))


def takes(i: Implementation, o: Operation) -> bool:
    """Whether an implementation does this operation: what its declaration says, and what it says itself."""
    d = i.declaration
    return o.op in d.ops and o.forms in d.forms and o.features.issuperset(d.features) and i.applies(o)


# ------------------------------------------------------------------------------------------------ of a program's operations
def operation(k: Context, x: Let | Carry, loop: Loop | None = None) -> Operation:
    """An operation of a program as implementations see it."""
    bound = loop.label if loop is not None else label_of(x.op, x.attrs)
    labels = tuple(dict.fromkeys((*x.dims, bound)))
    args = x.args[len(x.args) // 2 :] if x.op == "RedNTree" else x.args[: 2 if x.op.startswith("Con") else None]
    forms = [s.attrs[0] if (s := k.layout.supply(a)) else PLAIN for a in dict.fromkeys(args[:2])]  # what is both is wanted once
    return Operation(
        x.op, tuple(a for a in x.attrs if isinstance(a, str) and a != bound), tuple(k.layout.dtypes[a] for a in args), x.dtype,
        tuple(sorted(labels)), bound, {t: k.program.lanes(t) if parameter(t) else 1 for t in labels},
        (forms[0], forms[1] if len(forms) > 1 else PLAIN), k.features, k.layout.bytes_, k.program.options,
    )  # fmt: skip


def of_let(k: Context, x: Let) -> LetImplementation:
    """The implementation of a let. Raises EqkirError EQK-MOJ-UNSUPPORTED when the program names none and not exactly one applies."""
    found = _of(k, x, [i for i in selected(k) if isinstance(i, LetImplementation)], None)
    assert isinstance(found, LetImplementation)
    return found


def of_carry(k: Context, x: Carry, loop: Loop) -> CarryImplementation:
    """The implementation of a carry. Raises EqkirError EQK-MOJ-UNSUPPORTED when the program names none and not exactly one applies."""
    found = _of(k, x, [i for i in selected(k) if isinstance(i, CarryImplementation)], loop)
    assert isinstance(found, CarryImplementation)
    return found


def _of(k: Context, x: Let | Carry, members: list[Implementation], loop: Loop | None) -> Implementation:
    if x.by:  # what was chosen
        found = [i for i in members if i.declaration.name == x.by and x.op in i.declaration.ops]
    else:
        o = operation(k, x, loop)
        found = [i for i in members if takes(i, o)]
    if len(found) != 1:
        names = x.by or ", ".join(i.declaration.name for i in found) or "none"
        raise fail(codes.UNSUPPORTED, f"{x.op} of {x.dtype}: {names}", accepted="exactly one implementation", stage="expand")
    return found[0]


__all__ = [
    "CarryImplementation", "Declaration", "Implementation", "LetImplementation", "Operation", "Parameter", "PLAIN", "declarations",
    "definitions", "facts", "of_carry", "of_let", "operation", "own", "registered", "selected", "takes",
]  # fmt: skip
