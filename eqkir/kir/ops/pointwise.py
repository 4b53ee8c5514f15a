"""Scalar and pointwise operations."""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.base.dtypes import DType
from eqkir.kir.node import Id, Literal_, Op, operation


@operation
class Constant(Op):
    """Scalar constant, `value` rounded to `dtype`."""

    op: Literal["constant"] = "constant"
    pointwise: ClassVar[bool] = True
    dtype: DType
    value: Literal_


UNARY = (
    "neg", "abs", "not", "sqrt", "rsqrt", "exp", "exp2", "log", "log2", "log1p", "expm1", "sigmoid", "tanh", "sin", "cos", "tan",
    "asin", "atan", "erf", "erfc", "i0", "lgamma", "floor", "ceil", "round_even", "isnan", "isinf", "isfinite",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "floordiv", "mod", "maximum", "minimum", "maximum_num", "minimum_num", "and", "or", "xor", "shl", "shr",
)  # fmt: skip
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


@operation
class Unary(Op):
    """Pointwise function of one operand. ``not`` is logical on bool and bitwise on integers; ``isnan`` … give bool.

    `approximate` (``exp2 tanh`` of f32) and `flush_to_zero` are permissions of this one value, and part of what it is.
    """

    op: Literal["unary"] = "unary"
    pointwise: ClassVar[bool] = True
    fn: Literal[UNARY]  # type: ignore[valid-type]
    x: Id
    approximate: bool = False
    flush_to_zero: bool = False
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)


@operation
class Binary(Op):
    """Pointwise function of two operands of one dtype, with broadcasting. ``div`` is float only, ``floordiv mod`` integer only.

    `approximate` and `flush_to_zero` as for `unary`, for ``div`` of f32.
    """

    op: Literal["binary"] = "binary"
    pointwise: ClassVar[bool] = True
    fn: Literal[BINARY]  # type: ignore[valid-type]
    x: Id
    y: Id
    approximate: bool = False
    flush_to_zero: bool = False
    operand_fields: ClassVar[tuple[str, ...]] = ("x", "y")


@operation
class Compare(Op):
    """Pointwise comparison of two operands of one dtype; result bool. NaN compares false except under ``ne``."""

    op: Literal["compare"] = "compare"
    pointwise: ClassVar[bool] = True
    fn: Literal[COMPARE]  # type: ignore[valid-type]
    x: Id
    y: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("x", "y")


@operation
class Fma(Op):
    """``x * y + z`` with one rounding."""

    op: Literal["fma"] = "fma"
    pointwise: ClassVar[bool] = True
    x: Id
    y: Id
    z: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("x", "y", "z")


@operation
class Select(Op):
    """``cond ? x : y``; `cond` is bool, `x` and `y` of one dtype; broadcasting."""

    op: Literal["select"] = "select"
    pointwise: ClassVar[bool] = True
    cond: Id
    x: Id
    y: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("cond", "x", "y")


@operation
class Cast(Op):
    op: Literal["cast"] = "cast"
    pointwise: ClassVar[bool] = True
    x: Id
    dtype: DType
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)


@operation
class Bitcast(Op):
    """Reinterpretation between dtypes of one width."""

    op: Literal["bitcast"] = "bitcast"
    pointwise: ClassVar[bool] = True
    x: Id
    dtype: DType
    operand_fields: ClassVar[tuple[str, ...]] = ("x",)
