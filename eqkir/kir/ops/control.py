"""Control: parallel."""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.kir.node import Ids, Op, Region, operation


@operation
class Parallel(Op):
    """Unordered forall over the product of `domains`; `body.args` are the points (``index`` scalars), one per domain; no yields."""

    op: Literal["parallel"] = "parallel"
    domains: Ids
    body: Region
    operand_fields: ClassVar[tuple[str, ...]] = ("domains",)

    def regions(self) -> list[Region]:
        return [self.body]
