"""What the Mojo provider makes of a program: the task program, verified, and its text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from eqkir.base.diagnostics import EqkirError, fail, register
from eqkir.cpu.completion import completion
from eqkir.cpu.expand import expand
from eqkir.cpu.model import TaskProgram
from eqkir.cpu.verify import verify
from eqkir.emit.mojo import ops
from eqkir.emit.mojo.build import Module, text_of
from eqkir.emit.mojo.native import Native
from eqkir.emit.mojo.spell import entry, module
from eqkir.program.model import Program
from eqkir.targets.cpu import CpuTarget

#: the feature, as the kernel names it, whose instruction takes the maximum of numbers at once (`vrangeps`)
ORDERS = "avx512dq"
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
    def native(self) -> Native:
        """What the loader's files are made from. Raises EqkirError EQK-MOJ-SPELL."""
        return Native(self.tasks, self.module, tuple(tuple(entry(g) for g in stage) for stage in self.tasks.stages))

    @property
    def source(self) -> str:
        """The complete text of ``kernel.mojo``."""
        return text_of(self.module)


def emit(program: Program, target: CpuTarget) -> TaskArtifact:
    """Expand a verified structured program for a machine, verify the task program, spell it. Raises EqkirError EQK-MOJ-…, EQK-TSK-…."""
    near = target.l2_bytes // 8 if target.ahead_bytes else 0
    hopes = ORDERS in target.needs
    tasks = expand(program, target.vector_bytes, target.stream_bytes, target.prefetch_bytes, target.ahead_bytes, near, hopes)
    artifact = TaskArtifact(program, tasks)
    if bad := [*verify(artifact.tasks), *completion(program, artifact.tasks)]:
        raise EqkirError(*bad)
    artifact.module  # noqa: B018  (what cannot be spelled is said here)
    return artifact
