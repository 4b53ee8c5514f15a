"""The construction verifier: that a kernel's abstract program and P0 are complete and mean what the kernel means (seed section 9).

Sixteen named checks, each a pure function of (kernel, types, abstract, program) that returns diagnostics ``EQK-VER-01`` … ``EQK-VER-16``.
They share no code with construction: `relation` expands the kernel's values one operation at a time, `compare` walks them together
with the abstract program from its stores down, `pairing` and `placing` pair effects with stores and their points, `realised` walks P0
together with the abstract program, and `eqkir.program.verify` judges P0 by itself. What cannot be proved for all values is rejected.

Adding an operation: register its expansion with `relation.expands`.
"""

from __future__ import annotations

from collections.abc import Mapping

from eqkir.base.diagnostics import Diagnostic
from eqkir.kir.model import Kernel
from eqkir.kir.types import Type
from eqkir.program.abstract import Abstract
from eqkir.program.construction import check_accesses, check_effects, check_values  # noqa: F401  registers the checks
from eqkir.program.construction.codes import CODES, EXPLAIN, NAMES
from eqkir.program.construction.context import CHECKS as _CHECKS
from eqkir.program.construction.context import Check, Context
from eqkir.program.model import Program

CHECKS: dict[str, Check] = {name: _CHECKS[name] for name in NAMES}


def verify_construction(
    kernel: Kernel, types: Mapping[str, Type], abstract: Abstract, program: Program, pointer: str = ""
) -> list[Diagnostic]:
    """Everything that the sixteen checks find, in their order; `pointer` is the kernel's in its module."""
    context = Context(kernel, types, abstract, program, pointer)
    return [d for c in CHECKS.values() for d in c.judge(context)]


__all__ = ["CHECKS", "CODES", "EXPLAIN", "NAMES", "Check", "verify_construction"]
