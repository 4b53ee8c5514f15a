"""The one way from a program to source: legality, legalization, verification of the legal program, spelling. KIR is not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.program.model import Program

if TYPE_CHECKING:
    from eqkir.emit.triton.artifact import Artifact


def acceptable(program: Program) -> list[Diagnostic]:
    """What keeps a structured program from being emitted: the verifier's findings, then what the provider cannot express."""
    from eqkir.emit.triton.legality import check
    from eqkir.program.verify import verify

    return verify(program) or check(program)


def spell(program: Program) -> Artifact:
    """The emitted kernel of a verified program. Raises EqkirError: EQK-TRI-… for what the provider cannot express, EQK-PRG-… when the
    legalized program does not verify."""
    from eqkir.emit.triton import emit
    from eqkir.program.verify import verify

    artifact = emit(program)
    if artifact.legal is not program and (bad := verify(artifact.legal)):
        raise EqkirError(*bad)
    return artifact
