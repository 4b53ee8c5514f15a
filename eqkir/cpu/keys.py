"""The form *keys* of a value: along one label it is a weight where the label's coordinate equals a key, and zero in every other lane.

Such a value is wanted as (key, where, weight), none of which vary along the label: a reader touches the one lane that counts instead
of comparing all of them. Nothing is filled for it. Legality finds the form in the e-graph (`eqkir.extract.cpu_members`), expansion and
cost in a program, both from the definition: ``select(eq(key, coordinate) and …, weight, 0)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eqkir.base.dtypes import parse
from eqkir.base.expr import Coord
from eqkir.program.abi import axis_of
from eqkir.program.model import Carry, Let

KEYS = "keys"


@dataclass(frozen=True, slots=True)
class Keys:
    """Value ids: `key` (index), `where` (bools, all of which must hold), `weight`; `label`: the lanes that the key counts along."""

    key: int
    where: tuple[int, ...]
    weight: int
    label: str


def keys_of(defs: Mapping[int, Let | Carry], supply: Let) -> Keys | None:
    """The form of what a supply reads, or None where it has none."""
    label = str(supply.attrs[1])
    x = defs.get(supply.args[0])
    if not isinstance(x, Let) or x.op != "Tri" or x.attrs[0] != "select" or not _zero(defs.get(x.args[2])):
        return None
    found = _hit(defs, x.args[0], label)
    if found is None:
        return None
    key, where = found
    if any(label in defs[i].dims for i in (key, *where, x.args[1])):
        return None
    return Keys(key, where, x.args[1], label)


def _zero(x: Let | Carry | None) -> bool:
    return isinstance(x, Let) and x.op == "Const" and parse(x.attrs[0], x.dtype) == 0


def _hit(defs: Mapping[int, Let | Carry], i: int, label: str) -> tuple[int, tuple[int, ...]] | None:
    """Of a condition: the key that it compares with the coordinate of a label, and what else must hold."""
    x = defs[i]
    if not isinstance(x, Let) or x.op != "Bin":
        return None
    for a, b in (x.args, x.args[::-1]):
        if x.attrs[0] == "eq" and _coordinate(defs[b], label):
            return a, ()
        if x.attrs[0] == "and" and (inner := _hit(defs, b, label)) is not None:
            return inner[0], (*inner[1], a)
    return None


def _coordinate(x: Let | Carry, label: str) -> bool:
    return isinstance(x, Let) and x.op == "Index" and x.dtype == "index" and x.attrs[0] == Coord(axis_of(label)) and label in x.dims
