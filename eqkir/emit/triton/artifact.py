"""From a structured program to source text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from eqkir.base.diagnostics import EqkirError
from eqkir.base.expr import Expr
from eqkir.emit.triton.legality import check
from eqkir.emit.triton.legalize import legalize
from eqkir.emit.triton.module import module_source
from eqkir.program.model import Program


@dataclass(frozen=True)
class Artifact:
    """An emitted kernel. `arguments`: kernel parameters in order with their kinds; `permits` and `fused`: what a scan of the PTX accepts;
    `capability`: the least compute capability (80 for sm_80) that has every dtype used."""

    name: str
    source: str
    legal: Program
    options: dict[str, int]
    specializations: tuple[tuple[str, Expr], ...]
    arguments: tuple[tuple[str, str], ...]
    permits: tuple[str, ...]
    fused: bool
    capability: int = 80
    notes: tuple[str, ...] = field(default=())

    @property
    def digest(self) -> str:
        """SHA-256 of the source."""
        return hashlib.sha256(self.source.encode()).hexdigest()


def emit(program: Program, *, name: str = "") -> Artifact:
    """Legalize and spell a structured program (a legal one is spelled as it is).

    Raises EqkirError (EQK-TRI-…) for what Triton cannot express, KeyError for an unbound parameter.
    """
    found = check(program)
    if found:
        raise EqkirError(*found)
    if program.stage == "structured":
        program = legalize(program)
    m = module_source(program, name)
    return Artifact(
        name or program.abi.kernel, m.source, program, m.options, program.specializations, m.arguments, m.permits, m.fused,
        89 if any(v.dtype in ("f8e4m3fn", "f8e5m2") for v in program.abi.views) else 80,
    )  # fmt: skip
