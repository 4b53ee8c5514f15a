"""Memory: buffers, reads and writes of views and buffers, gathers from tensors.

`view` is the id of a view of the interface or of a buffer. There is one integer coordinate (scalar or tensor) an axis; coordinates
and `valid` broadcast together. Where `valid` is false nothing is touched.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.base.dtypes import DType
from eqkir.kir.node import Coords, Id, Op, Shape, operation


@operation
class Buffer(Op):
    """Mutable memory local to the kernel: a new one each time this operation runs, until its region ends.

    `init` (a scalar or a tensor that broadcasts to `shape`) fills it; without one the author owes a write before every read.
    """

    op: Literal["buffer"] = "buffer"
    dtype: DType
    shape: Shape
    init: Id | None = None
    operand_fields: ClassVar[tuple[str, ...]] = ("init",)
    extent_fields: ClassVar[tuple[str, ...]] = ("shape",)
    writes: ClassVar[bool] = True


@operation
class Load(Op):
    """``view[coords]``: one integer coordinate (scalar or tensor) per axis of the view, broadcast together (and with `valid`).

    An invalid element touches nothing and yields `fill` (default: zero / false of the view's dtype).
    """

    op: Literal["load"] = "load"
    view: Id
    coords: Coords
    valid: Id | None = None
    fill: Id | None = None
    operand_fields: ClassVar[tuple[str, ...]] = ("coords", "valid", "fill")
    resource_fields: ClassVar[tuple[str, ...]] = ("view",)
    reads: ClassVar[bool] = True


@operation
class Gather(Op):
    """``x[coords]`` of a tensor value: like `load`, from a value in place of memory."""

    op: Literal["gather"] = "gather"
    x: Id
    coords: Coords
    valid: Id | None = None
    fill: Id | None = None
    operand_fields: ClassVar[tuple[str, ...]] = ("x", "coords", "valid", "fill")


class Write(Op):
    """``view[coords] = value`` or an update of it, where valid. `value` broadcasts to the coordinates' shape."""

    view: Id
    coords: Coords
    value: Id
    valid: Id | None = None
    operand_fields: ClassVar[tuple[str, ...]] = ("coords", "value", "valid")
    resource_fields: ClassVar[tuple[str, ...]] = ("view",)
    writes: ClassVar[bool] = True


@operation
class Store(Write):
    """``view[coords] = value`` where valid; indices must be injective. `value` broadcasts to the coordinates' shape."""

    op: Literal["store"] = "store"


@operation
class UniqueScatter(Write):
    """A store whose valid coordinates the author declares distinct: data-dependent ones are independent of each other."""

    op: Literal["unique_scatter"] = "unique_scatter"


@operation
class ScatterReduce(Write):
    """``view[coords] = fn(view[coords], value)`` for every valid element, in any order and grouping; coordinates may coincide.

    Arithmetic is that of the view's dtype.
    """

    op: Literal["scatter_reduce"] = "scatter_reduce"
    fn: Literal["add", "mul", "max", "min", "and", "or", "xor"]
    reads: ClassVar[bool] = True
