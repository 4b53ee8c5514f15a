"""What lint finds: coded, with a severity and a position in the author's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eqkir.base.diagnostics import register
from eqkir.rules.reader import Node

Severity = Literal["error", "warning", "note"]

UNUSED = register(
    "EQK-LNT-UNUSED", "unused variable", "The variable is bound to a term or a value that nothing uses; write `_`, or drop the fact."
)
SHADOW = register(
    "EQK-LNT-SHADOW",
    "name that hides another",
    "A variable has the name of a constructor, relation or primitive: readers take it for that.",
)
EXISTS = register(
    "EQK-LNT-EXISTS",
    "term that cannot exist",
    "The query asks for an operation, dtype, form, constant or constructor that neither a program nor a loaded rule makes; "
    "a rule must insert it first. In an action: no later stage knows it.",
)
GROWS = register(
    "EQK-LNT-GROWS",
    "rule that matches its own output",
    "Each match makes a larger term that matches again. Match on a shape that the result does not have.",
)
OVERLAP = register("EQK-LNT-OVERLAP", "rule that another one covers", "Wherever this rule matches, another one does the same.")
CONTEXT = register(
    "EQK-LNT-CONTEXT",
    "union across contexts",
    "A union of realised values says: same value at the same place. The new term has another context, position or stage than the request.",
)
READY = register(
    "EQK-LNT-READY",
    "result without FReady",
    "What a loop finishes, and every leaf, carries its stage in (FReady k …), or congruence merges stages.",
)
AXES = register(
    "EQK-LNT-AXES",
    "identity that may drop axes",
    "A value variable of the old side is missing in the new one: its free axes may get lost. Say that they stay (flab).",
)
COMMENT = register("EQK-LNT-COMMENT", "rule without `before => after`", "Every rule stands under one comment `; before => after`.")
FIRES = register("EQK-LNT-FIRES", "rule that never fires", "No kernel of the corpus that was tried has a match.")
BINDER = register(
    "EQK-LNT-BINDER",
    "substitution under a binder",
    "An axis that an operation binds changes while its operand stays: nothing substitutes under a binder.",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; `line` and `column` count from 1 in `file`."""

    code: str
    severity: Severity
    message: str
    file: str
    rule: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity} {self.code}: {f'{self.rule}: ' if self.rule else ''}{self.message}"

    def to_json(self) -> dict[str, object]:
        names = ("code", "severity", "message", "file", "rule", "line", "column")
        return {n: getattr(self, n) for n in names}


def at(n: Node, file: str, rule: str, code: str, severity: Severity, message: str) -> Finding:
    """A finding at a node of the file."""
    return Finding(code, severity, message, file, rule, n.line, n.column)
