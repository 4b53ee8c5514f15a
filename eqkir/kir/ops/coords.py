"""Extents, domains and their coordinates."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from eqkir.kir.node import Extent, Id, Op, operation


@operation
class ExtentOp(Op):
    """The value of an extent as an ``index`` scalar."""

    op: Literal["extent"] = "extent"
    extent: Extent


@operation
class Domain(Op):
    """``domain(begin, end, step)``: half open, ordered, step > 0; the result is a domain value, not a tensor."""

    op: Literal["domain"] = "domain"
    begin: Extent = 0
    end: Extent
    step: int = Field(default=1, gt=0)


@operation
class Indices(Op):
    """The coordinates of a domain: ``index`` tensor of shape ``[length]`` that knows its source."""

    op: Literal["indices"] = "indices"
    domain: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("domain",)
