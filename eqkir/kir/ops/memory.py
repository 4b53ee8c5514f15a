"""Reads and writes of views."""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.kir.node import Coords, Id, Name, Op, operation


@operation
class Load(Op):
    """``view[coords]``: one integer coordinate (scalar or tensor) per axis of the view, broadcast together (and with `valid`).

    An invalid element touches nothing and yields `fill` (default: zero / false of the view's dtype).
    """

    op: Literal["load"] = "load"
    view: Name
    coords: Coords
    valid: Id | None = None
    fill: Id | None = None
    operand_fields: ClassVar[tuple[str, ...]] = ("coords", "valid", "fill")


@operation
class Store(Op):
    """``view[coords] = value`` where valid; indices must be injective. `value` broadcasts to the coordinates' shape."""

    op: Literal["store"] = "store"
    view: Name
    coords: Coords
    value: Id
    valid: Id | None = None
    operand_fields: ClassVar[tuple[str, ...]] = ("coords", "value", "valid")
