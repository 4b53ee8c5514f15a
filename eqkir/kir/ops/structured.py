"""Structured operations: reductions, scans, contractions, histograms."""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.base.dtypes import DType
from eqkir.kir.node import Axes, Extent, Id, Ids, Op, Pairs, Purity, Region, operation


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
    purity: ClassVar[dict[str, Purity]] = {"combine": "pointwise"}


@operation
class ArgReduce(Op):
    """The extreme along one axis and where it is. Results: (value, index) without the axis, the index of dtype `dtype`.

    The lowest index wins ties, NaN wins over numbers. Empty: the neutral value (`dtypes.identity`) and the largest index.
    """

    op: Literal["arg_reduce"] = "arg_reduce"
    fn: Literal["argmax", "argmin"]
    x: Id
    axis: int
    dtype: DType = "index"
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)


@operation
class Scan(Op):
    """Every prefix along `axis`; the shape stays.

    Built-in: ``fn`` and one operand; ``cumsum`` accumulates and results in the widened dtype. Generic: `combine` as for `reduce`,
    declared associative (not commutative): (earlier state, later state). Element i combines elements 0..i, `exclusive` 0..i-1 (the
    first is the identity: `identities` are then needed); `reverse` counts from the end: i..n-1, or i+1..n-1, combined as
    (state of the later elements, element), so that a recurrence runs from the end.
    """

    op: Literal["scan"] = "scan"
    xs: Ids
    axis: int
    fn: Literal["cumsum", "cumprod", "cummax", "cummin"] | None = None
    exclusive: bool = False
    reverse: bool = False
    identities: Ids = ()
    combine: Region | None = None
    operand_fields: ClassVar[tuple[str, ...]] = ("xs", "identities")
    closed_regions: ClassVar[bool] = True
    purity: ClassVar[dict[str, Purity]] = {"combine": "pointwise"}


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


@operation
class Histogram(Op):
    """``[bins]`` counts of the integer values of `x` where `valid`; counts wrap. An invalid element may hold any value, a valid one
    must lie in 0 .. bins - 1."""

    op: Literal["histogram"] = "histogram"
    x: Id
    bins: Extent
    valid: Id | None = None
    dtype: DType = "i32"
    operand_fields: ClassVar[tuple[str, ...]] = ("x", "valid")
    extent_fields: ClassVar[tuple[str, ...]] = ("bins",)
