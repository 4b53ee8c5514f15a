"""Providers: what turns a verified program into source for a family of machines. KIR is not needed.

A provider says what it cannot express, spells a program, and names its file. `provider` finds the one of a target, or of its spec
(``triton:nvidia-h200``, ``mojo:native``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from eqkir.base.diagnostics import Diagnostic, EqkirError, fail
from eqkir.driver import codes
from eqkir.program.model import Program
from eqkir.targets import CpuTarget, Machine, load_target

if TYPE_CHECKING:
    from eqkir.emit.mojo.artifact import TaskArtifact
    from eqkir.emit.triton.artifact import Artifact


class Emitted(Protocol):
    """What a provider makes of a program."""

    @property
    def source(self) -> str: ...


class Provider(Protocol):
    @property
    def file(self) -> str:
        """Name of the source in a folder of artifacts."""

    def acceptable(self, program: Program) -> list[Diagnostic]:
        """What keeps a structured program from being emitted: the verifier's findings, then what the provider cannot express."""

    def spell(self, program: Program) -> Emitted:
        """The emitted kernel of a verified program. Raises EqkirError."""

    def syntax(self, source: str) -> str:
        """What is wrong with the form of a source, as far as that is known without the provider's tools; else an empty text."""


@dataclass(frozen=True)
class TritonProvider:
    """GPU kernels in Triton. `target` None: no machine is asked for its capabilities."""

    target: Machine | None = None
    file: str = "kernel.py"

    def acceptable(self, program: Program) -> list[Diagnostic]:
        from eqkir.emit.triton.legality import check
        from eqkir.program.verify import verify

        return verify(program) or check(program)

    def spell(self, program: Program) -> Artifact:
        """Raises EqkirError: EQK-TRI-… for what the provider cannot express, EQK-PRG-… when the legalized program does not verify,
        EQK-RUN-CAPABILITY for what the target lacks."""
        from eqkir.emit.triton import emit
        from eqkir.program.verify import verify

        artifact = emit(program)
        if artifact.legal is not program and (bad := verify(artifact.legal)):
            raise EqkirError(*bad)
        if self.target is not None and not isinstance(self.target, CpuTarget) and artifact.capability > self.target.capability:
            need = f"sm_{artifact.capability} or newer"
            raise fail(codes.CAPABILITY, f"{self.target.spec} is {self.target.arch}", accepted=need, stage="emit")
        return artifact

    def syntax(self, source: str) -> str:
        try:
            compile(source, self.file, "exec")
        except SyntaxError as e:
            return f"{self.file}: {e}"
        return ""


@dataclass(frozen=True)
class MojoProvider:
    """Native CPU kernels in Mojo, by way of a task program."""

    target: CpuTarget
    file: str = "kernel.mojo"

    def acceptable(self, program: Program) -> list[Diagnostic]:
        from eqkir.program.verify import verify

        found = verify(program)
        if found:
            return found
        try:
            self.spell(program)
        except EqkirError as e:
            return list(e.diagnostics)
        return []

    def spell(self, program: Program) -> TaskArtifact:
        """Raises EqkirError: EQK-MOJ-… for what the provider cannot express, EQK-TSK-… when the task program does not verify."""
        from eqkir.emit.mojo.artifact import emit

        return emit(program, self.target)

    def syntax(self, source: str) -> str:
        return ""


def provider(target: Machine | str) -> Provider:
    """The provider of a target. Raises EqkirError EQK-TARGET-… for an unknown one."""
    machine = load_target(target) if isinstance(target, str) else target
    return MojoProvider(machine) if isinstance(machine, CpuTarget) else TritonProvider(machine)


def acceptable(program: Program) -> list[Diagnostic]:
    """`TritonProvider.acceptable`."""
    return TritonProvider().acceptable(program)


def spell(program: Program) -> Any:
    """`TritonProvider.spell`, for no particular machine."""
    return TritonProvider().spell(program)
