"""Structured operations: reduce, contract."""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.base.dtypes import DType
from eqkir.kir.node import Axes, Id, Ids, Op, Pairs, Region, operation


@operation
class Reduce(Op):
    """Reduction over `axes` (removed from the shape).

    Built-in: ``fn`` and one operand; ``sum`` accumulates and results in the widened dtype (`dtypes.WIDENED`), the others in the
    operand's; ``any`` / ``all`` on bool. Generic: `combine` has 2n scalar args (n of the left state, n of the right) and n
    yields, `identities` n scalar ids; declared associative and commutative with a neutral identity. Operands share a shape.
    """

    op: Literal["reduce"] = "reduce"
    xs: Ids
    axes: Axes
    fn: Literal["sum", "max", "min", "prod", "any", "all"] | None = None
    identities: Ids = ()
    combine: Region | None = None
    operand_fields: ClassVar[tuple[str, ...]] = ("xs", "identities")
    closed_regions: ClassVar[bool] = True

    def regions(self) -> list[Region]:
        return [self.combine] if self.combine else []


@operation
class Contract(Op):
    """Sum of products over the paired axes `reduce`, elementwise over the paired axes `batch`.

    Operands share a dtype; products and sum are in `acc` (i32 for 8-bit integers, f32 for narrow floats, …); the result has dtype
    `acc` and shape: batch axes, then lhs free, then rhs free. Empty reduction gives 0.
    """

    op: Literal["contract"] = "contract"
    lhs: Id
    rhs: Id
    reduce: Pairs
    batch: Pairs = ()
    acc: DType
    operand_fields: ClassVar[tuple[str, ...]] = ("lhs", "rhs")
