"""What the Mojo provider makes of a program: the task program, verified, and its text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from eqkir.base.diagnostics import EqkirError, fail, register
from eqkir.cpu.expand import expand
from eqkir.cpu.model import TaskProgram
from eqkir.cpu.verify import verify
from eqkir.emit.mojo import ops
from eqkir.emit.mojo.build import Module, text_of
from eqkir.emit.mojo.spell import module
from eqkir.program.model import Program

SPELL = register(
    "EQK-MOJ-SPELL", "no spelling", "The provider has no expression for an operation on these dtypes; nothing else is emitted in its place."
)


@dataclass(frozen=True)
class TaskArtifact:
    """`program` structured, `tasks` its expansion."""

    program: Program
    tasks: TaskProgram

    @cached_property
    def module(self) -> Module:
        """What the compiler gets. Raises EqkirError EQK-MOJ-SPELL."""
        try:
            return module(self.tasks)
        except ops.Unsupported as e:
            raise fail(SPELL, str(e), stage="emit") from None

    @property
    def source(self) -> str:
        """The complete text of ``kernel.mojo``."""
        return text_of(self.module)


def emit(program: Program, vector_bytes: int) -> TaskArtifact:
    """Expand a verified structured program, verify the task program, spell it. Raises EqkirError EQK-MOJ-…, EQK-TSK-…."""
    artifact = TaskArtifact(program, expand(program, vector_bytes))
    if bad := verify(artifact.tasks):
        raise EqkirError(*bad)
    artifact.module  # noqa: B018  (what cannot be spelled is said here)
    return artifact
