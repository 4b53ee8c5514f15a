"""Extents, domains, their parts and their coordinates."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from eqkir.kir.node import Extent, Id, Op, operation


@operation
class ExtentOp(Op):
    """The value of an extent as an ``index`` scalar."""

    op: Literal["extent"] = "extent"
    extent: Extent
    extent_fields: ClassVar[tuple[str, ...]] = ("extent",)


@operation
class Domain(Op):
    """``domain(begin, end, step)``: half open, ordered, step > 0; the result is a domain value, not a tensor."""

    op: Literal["domain"] = "domain"
    begin: Extent = 0
    end: Extent
    step: int = Field(default=1, gt=0)
    extent_fields: ClassVar[tuple[str, ...]] = ("begin", "end")


@operation
class Subregion(Op):
    """The points p of `domain` (step 1) with ``begin <= p < end``: same source, absolute coordinates.

    Nothing clamps: unless the part is empty (``end <= begin``), it must lie inside its source. Bounds may be run-time values.
    """

    op: Literal["subregion"] = "subregion"
    domain: Id
    begin: Extent
    end: Extent
    operand_fields: ClassVar[tuple[str, ...]] = ("domain",)
    extent_fields: ClassVar[tuple[str, ...]] = ("begin", "end")


@operation
class Indices(Op):
    """The coordinates of a domain: ``index`` tensor of shape ``[length]`` that knows its source."""

    op: Literal["indices"] = "indices"
    domain: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("domain",)


@operation
class AssumeInBounds(Op):
    """`x`, with the author's word that ``0 <= x < extent`` of `axis` of the view or buffer `view` holds for every element."""

    op: Literal["assume_in_bounds"] = "assume_in_bounds"
    x: Id
    view: Id
    axis: int = Field(ge=0)
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)
    resource_fields: ClassVar[tuple[str, ...]] = ("view",)
