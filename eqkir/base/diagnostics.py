"""Typed, coded diagnostics (`EQK-…`): what went wrong, where in the JSON, and what would be accepted.

Every code is registered once with an explanation (`eqkir errors CODE`). A stage raises `EqkirError` with one or more
`Diagnostic`s; nothing else crosses a stage boundary on bad input.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: code -> (title, explanation). Stages add their own codes through `register` at import time.
CODES: dict[str, tuple[str, str]] = {}


def register(code: str, title: str, explanation: str) -> str:
    """Register a code. Raises ValueError when the code already stands for something else."""
    if code in CODES and CODES[code] != (title, explanation):
        raise ValueError(f"{code} is registered twice")
    CODES[code] = (title, explanation)
    return code


@dataclass(frozen=True, slots=True)
class Diagnostic:
    code: str
    message: str
    pointer: str = ""  # JSON pointer into the module
    file: str | None = None
    line: int | None = None
    accepted: str = ""  # what would be accepted instead
    stage: str = ""
    details: dict[str, Any] = field(default_factory=dict, hash=False, compare=False)
    column: int | None = None

    def __str__(self) -> str:
        named = self.file or self.pointer or self.line
        at = f"{self.file or '<module>'}{f':{self.line}' if self.line else ''}{f':{self.column}' if self.column else ''}: " if named else ""
        tail = f" (accepted: {self.accepted})" if self.accepted else ""
        return f"{at}{self.code}: {self.message}{f' at {self.pointer}' if self.pointer else ''}{tail}"

    def to_json(self) -> dict[str, Any]:
        d = {"code": self.code, "message": self.message, "pointer": self.pointer, "file": self.file, "line": self.line}
        d |= {"column": self.column} if self.column else {}
        return {**d, "accepted": self.accepted, "stage": self.stage}


class EqkirError(Exception):
    """One or more diagnostics."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = diagnostics


def fail(code: str, message: str, pointer: str = "", accepted: str = "", stage: str = "") -> EqkirError:
    """An `EqkirError` with one diagnostic, ready to raise. Raises KeyError for an unregistered code."""
    CODES[code]
    return EqkirError(Diagnostic(code, message, pointer, accepted=accepted, stage=stage))
