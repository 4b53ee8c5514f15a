"""Records: ordered, named, heterogeneous, nestable bundles of values. A tuple is a record whose fields are _0, _1, …"""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.kir.node import Id, Ids, Name, Op, operation


@operation
class MakeRecord(Op):
    """The record with the fields `names`, in order. Fields are tensors or records."""

    op: Literal["make_record"] = "make_record"
    names: tuple[Name, ...]
    values: Ids
    operand_fields: ClassVar[tuple[str, ...]] = ("values",)


@operation
class GetField(Op):
    """One field of a record."""

    op: Literal["get_field"] = "get_field"
    x: Id
    name: Name
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)


@operation
class Call(Op):
    """The results of a helper of the module at `args`, one a value argument, and `views`, one a view argument (views or buffers)."""

    op: Literal["call"] = "call"
    helper: Name
    args: Ids = ()
    views: Ids = ()
    operand_fields: ClassVar[tuple[str, ...]] = ("args",)
    resource_fields: ClassVar[tuple[str, ...]] = ("views",)
    reads: ClassVar[bool] = True
    writes: ClassVar[bool] = True  # unless the helper is pure, which scoping knows
