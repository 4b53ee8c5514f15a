"""Counter-based random numbers (kir.md section 6): they depend on nothing but seed and counter."""

from __future__ import annotations

from typing import ClassVar, Literal

from eqkir.kir.node import Id, Op, operation


class _Random(Op):
    """`seed` and `counter` are integers, taken mod 2^64, that broadcast together."""

    seed: Id
    counter: Id
    operand_fields: ClassVar[tuple[str, ...]] = ("seed", "counter")
    pointwise: ClassVar[bool] = True


@operation
class RandomBits(_Random):
    """u32: Philox4x32-10, word ``counter % 4`` of block ``counter // 4``."""

    op: Literal["random_bits"] = "random_bits"


@operation
class RandomUniform(_Random):
    """f32 in [0, 1): ``(random_bits >> 8) · 2^-24``."""

    op: Literal["random_uniform"] = "random_uniform"
