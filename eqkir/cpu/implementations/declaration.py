"""What an implementation says of itself, and the view of an operation by which it says whether it applies.

Both stages that ask read the same: legality of the e-graph's alternatives under every row, before anything is chosen, and the expansion of
an operation of which a program does not say who does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

#: as memory has it (a form of an operand)
PLAIN = ""
OWNERS = ("row", "implementation")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A local parameter. `domain`: its values, finite; `owner`: ``row`` (each row whose set names the implementation binds it) or
    ``implementation`` (it takes one of the domain for each operation itself, and no row binds it)."""

    name: str
    domain: tuple[int, ...]  # the first value is that of a program without a row
    owner: str = "row"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What an implementation says of itself.

    `name`: its identity, in reports and cache keys, with `version`; `kind`: implementations of one kind exclude each other in a row's set;
    `ops`: operations of `program.ops` that it realises; `relation`: how results may differ from the operation's, in words of
    docs/numerics.md; the order in which it combines members must follow from labels, lanes and types alone. `forms`: alternatives,
    each the forms of the first two operands (`eqkir.cpu.forms`; empty: as memory has it). `features`: what the machine must have
    (`CpuTarget.features`). `slots`: issue slots of one vector of its inner operation, relative to the plain expansion's: for the cost
    model. `parameters`: its local parameters. Scratch is what `expand` allocates.
    """

    name: str
    kind: str
    ops: tuple[str, ...]
    relation: str
    version: int = 1
    forms: tuple[tuple[str, str], ...] = ((PLAIN, PLAIN),)
    features: tuple[str, ...] = ()
    slots: float = 1.0
    parameters: tuple[Parameter, ...] = ()

    def parameter(self, name: str) -> str:
        """The name by which rows and programs bind a local parameter."""
        return f"{self.name}.{name}"


@dataclass(frozen=True, slots=True)
class Operation:
    """A structured operation under the bindings of one row.

    `op`, `attrs` as in `program.ops` (labels and regions left out); `operands`: dtypes of the operands that vary with the bound label;
    `dtype`: of the result; `labels`: the iteration space, sorted; `bound`: the label that it binds; `lanes`: of each label with a
    parameter, 1 of the others; `forms`: of the first two operands; `features`: of the machine; `options`: local parameters that the
    row binds.
    """

    op: str
    attrs: tuple[str, ...]
    operands: tuple[str, ...]
    dtype: str
    labels: tuple[str, ...]
    bound: str
    lanes: Mapping[str, int]
    forms: tuple[str, str] = (PLAIN, PLAIN)
    features: frozenset[str] = frozenset()
    vector_bytes: int = 32
    options: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def chunk(self) -> int:
        """Lanes of the bound label: members that one step takes."""
        return self.lanes.get(self.bound, 1)
