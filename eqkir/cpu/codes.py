"""Diagnostics of the CPU family."""

from __future__ import annotations

from eqkir.base.diagnostics import register

LARGE = register(
    "EQK-MOJ-LARGE", "fragment too large for registers",
    "An expansion keeps the fragments of a block in registers, unrolled. This program's fragments would need more vectors than the limit; "
    "binding rows for the CPU choose smaller blocks.",
)  # fmt: skip
UNSUPPORTED = register(
    "EQK-MOJ-UNSUPPORTED", "no implementation applies",
    "Of the implementations that the row names, exactly one must take this operation with its operands, types and bindings; here none or "
    "several do. docs/cpu.md lists them.",
)  # fmt: skip
STAGE = register(
    "EQK-MOJ-STAGE", "not a structured program", "Only structured programs are expanded; this one was made legal for a GPU provider."
)
INVALID = register(
    "EQK-TSK-INVALID", "malformed task program",
    "A task program breaks its own rules: a value is used before it is defined, types do not fit, memory is read that nothing initialises.",
)  # fmt: skip
