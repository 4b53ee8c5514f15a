"""Atomic operations on views and buffers. They order with each other and with other points as `order` says; scope is no part of KIR.

Elements of one operation act one after another in no stated order. Coordinates may coincide. An element that is not `valid` touches
nothing, and its old value is zero (false for success).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.kir.node import Coords, Id, Op, operation
from eqkir.kir.ops.memory import Write

Order = Literal["relaxed", "acquire", "release", "acq_rel"]


@operation
class AtomicLoad(Op):
    """The values at the coordinates; order relaxed or acquire."""

    op: Literal["atomic_load"] = "atomic_load"
    view: Id
    coords: Coords
    valid: Id | None = None
    order: Literal["relaxed", "acquire"] = "relaxed"
    operand_fields: ClassVar[tuple[str, ...]] = ("coords", "valid")
    resource_fields: ClassVar[tuple[str, ...]] = ("view",)
    reads: ClassVar[bool] = True
    writes: ClassVar[bool] = True  # it synchronises


@operation
class AtomicStore(Write):
    """No result; order relaxed or release."""

    op: Literal["atomic_store"] = "atomic_store"
    order: Literal["relaxed", "release"] = "relaxed"


class AtomicUpdate(Write):
    """``old = view[coords]; view[coords] = fn(old, value)`` as one step; the result is `old`."""

    order: Order = "relaxed"
    reads: ClassVar[bool] = True


@operation
class AtomicExchange(AtomicUpdate):
    op: Literal["atomic_exchange"] = "atomic_exchange"


@operation
class AtomicAdd(AtomicUpdate):
    op: Literal["atomic_add"] = "atomic_add"


@operation
class AtomicMax(AtomicUpdate):
    op: Literal["atomic_max"] = "atomic_max"


@operation
class AtomicMin(AtomicUpdate):
    op: Literal["atomic_min"] = "atomic_min"


@operation
class AtomicAnd(AtomicUpdate):
    op: Literal["atomic_and"] = "atomic_and"


@operation
class AtomicOr(AtomicUpdate):
    op: Literal["atomic_or"] = "atomic_or"


@operation
class AtomicXor(AtomicUpdate):
    op: Literal["atomic_xor"] = "atomic_xor"


@operation
class AtomicCompareExchange(Op):
    """Where the element's bits are those of `expected`, it becomes `value`. Results: the old value, and whether it was exchanged."""

    op: Literal["atomic_compare_exchange"] = "atomic_compare_exchange"
    view: Id
    coords: Coords
    expected: Id
    value: Id
    valid: Id | None = None
    order: Order = "relaxed"
    operand_fields: ClassVar[tuple[str, ...]] = ("coords", "expected", "value", "valid")
    resource_fields: ClassVar[tuple[str, ...]] = ("view",)
    reads: ClassVar[bool] = True
    writes: ClassVar[bool] = True
