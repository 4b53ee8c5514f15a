"""Shape operations."""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.kir.node import Axes, Id, Op, Shape, operation


@operation
class Full(Op):
    op: Literal["full"] = "full"
    value: Id
    shape: Shape
    operand_fields: ClassVar[tuple[str, ...]] = ("value",)
    extent_fields: ClassVar[tuple[str, ...]] = ("shape",)


@operation
class Broadcast(Op):
    """To `shape`: size-1 axes repeat, aligned from the right."""

    op: Literal["broadcast"] = "broadcast"
    x: Id
    shape: Shape
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)
    extent_fields: ClassVar[tuple[str, ...]] = ("shape",)


@operation
class Reshape(Op):
    """Row-major, same count. Inserting and dropping size-1 axes is a reshape."""

    op: Literal["reshape"] = "reshape"
    x: Id
    shape: Shape
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)
    extent_fields: ClassVar[tuple[str, ...]] = ("shape",)


@operation
class Transpose(Op):
    """``result[i_0, …] = x`` with result axis j = x axis ``perm[j]``."""

    op: Literal["transpose"] = "transpose"
    x: Id
    perm: Axes
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)


@operation
class Join(Op):
    """A trailing axis of 2: ``result[..., 0] = x``, ``result[..., 1] = y``; broadcasting."""

    op: Literal["join"] = "join"
    x: Id
    y: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("x", "y")
