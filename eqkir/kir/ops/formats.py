"""Operations on encoded numbers: block-scaled, structured-sparse and quantised (kir.md sections 4 and 6)."""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.base.dtypes import DType
from eqkir.kir.node import Id, Op, operation

Format = Literal["e2m1", "e4m3"]


@operation
class ScaledContract(Op):
    """``[M, N]`` f32: Σ over groups g and members c of decoded ``lhs[m, g, c] · lhs_scale[m, g] · rhs[g, c, n] · rhs_scale[g, n]``.

    A format ``e4m3`` is a tensor of f8e4m3fn, or of u8 codes; ``e2m1`` of u8, two codes a byte along C, the low nibble first (so its C
    is twice the extent). A scale is f32, or u8 holding e8m0 codes. The elements are decoded and scaled in f32, then contracted.
    """

    op: Literal["scaled_contract"] = "scaled_contract"
    lhs: Id
    lhs_scale: Id
    rhs: Id
    rhs_scale: Id
    lhs_format: Format
    rhs_format: Format
    operand_fields: ClassVar[tuple[str, ...]] = ("lhs", "lhs_scale", "rhs", "rhs_scale")


@operation
class SparseContract(Op):
    """``[M, N]`` = Σ_j ``lhs[m, j] · rhs[place(m, j), n]`` in `acc`: lhs ``[M, K / 2]`` holds the present elements of ``[M, K]``.

    ``meta[m, j]`` (u8) is the place of element j inside its group: ``one_of_two``: groups of 2 with one present, place 0 or 1;
    ``two_of_four``: groups of 4 with two present (elements 2g and 2g + 1), places 0 to 3, increasing. What is absent is an additive zero:
    it takes part in no product.
    """

    op: Literal["sparse_contract"] = "sparse_contract"
    lhs: Id
    meta: Id
    rhs: Id
    pattern: Literal["one_of_two", "two_of_four"]
    acc: DType
    operand_fields: ClassVar[tuple[str, ...]] = ("lhs", "meta", "rhs")


@operation
class Quantize(Op):
    """f32 ``[..., 256]`` to records ``[..., 292]`` of u8 in the format q8_K."""

    op: Literal["quantize"] = "quantize"
    x: Id
    format: Literal["q8_K"] = "q8_K"
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)


@operation
class QuantizedDot(Op):
    """q4_K records ``[..., R, 144]`` with q8_K records ``[..., R, 292]`` (both u8): f32 of the broadcast leading axes.

    The results of the R records add in f32 in order, from 0.
    """

    op: Literal["quantized_dot"] = "quantized_dot"
    lhs: Id
    rhs: Id
    lhs_format: Literal["q4_K"] = "q4_K"
    rhs_format: Literal["q8_K"] = "q8_K"
    operand_fields: ClassVar[tuple[str, ...]] = ("lhs", "rhs")
