"""What one kernel's job leaves behind: plain data, small enough to cross a pipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eqkir.base.diagnostics import Diagnostic

#: stages of a job in order; `Outcome.stage` is the last one entered
STAGES = ("read", "check", "construct", "lower", "saturate", "extract", "emit", "checks", "done")


@dataclass
class Outcome:
    """status: ``ok``, ``failed`` (a diagnosis), ``error`` (an unexpected failure; `bundle` names its folder).

    `seconds`: per stage. `checks`: name -> ``ok``, ``failed`` or ``off`` with figures in `details`. `p0` tells that the conservative
    program itself was chosen. Texts are empty where the job did not get that far.
    """

    kernel: str | None
    file: str
    status: str = "ok"
    stage: str = "read"
    diagnostics: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    kir: str = ""  # canonical text of a module with this kernel alone
    program: str = ""  # program.json
    source: str = ""  # of the kernel, in the file `file_name`
    file_name: str = "kernel.py"
    manifest: dict[str, Any] = field(default_factory=dict)
    enodes: int | None = None
    initial_cost: float | None = None
    cost: float | None = None
    saturation: dict[str, Any] = field(default_factory=dict)
    extraction: dict[str, Any] = field(default_factory=dict)
    checks: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    memory_bytes: int = 0  # peak of the worker and of what it started
    candidates: list[dict[str, Any]] = field(default_factory=list)  # source, program_json, manifest, cost of the `top` best
    library: tuple[Path, str] | None = None  # compiled code in the cache and its key
    bundle: str = ""
    traceback: str = ""
    refusals: tuple[Diagnostic, ...] = ()  # the diagnostics as objects
    warnings: list[dict[str, Any]] = field(default_factory=list)  # diagnostics that stop nothing

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    def fail(self, *diagnostics: Diagnostic) -> None:
        """Record a refusal; the stage stays where it happened."""
        self.status = "failed"
        self.refusals += diagnostics
        for d in diagnostics:
            j = d.to_json()
            j["file"] = j["file"] or self.file
            j["stage"] = j["stage"] or self.stage
            self.diagnostics.append(j)

    def warn(self, d: Diagnostic) -> None:
        """Record what the caller should know, though it stops nothing."""
        self.warnings.append({**d.to_json(), "file": self.file})

    @property
    def structures(self) -> int | None:
        """Distinct legal structures of the e-graph, where they were counted (check `static` and up)."""
        count: int | None = self.extraction.get("legal_structures", {}).get("count")
        return count

    def line(self) -> dict[str, Any]:
        """The kernel's line of ``eqkir optimize --json``."""
        total = sum(v for k, v in self.seconds.items() if k in STAGES)
        return {
            "kernel": self.kernel, "file": self.file, "status": self.status, "stage": self.stage, "diagnostics": self.diagnostics,
            "seconds": round(total, 6), "stages": _rounded(self.seconds), "enodes": self.enodes, "initial_cost": self.initial_cost,
            "cost": self.cost, "cost_unit": self.extraction.get("unit"), "structures": self.structures, "stop": self.saturation.get("stop"),
            "digest": self.manifest.get("digests", {}).get("program"), "checks": self.checks, "memory_bytes": self.memory_bytes,
            **({"bundle": self.bundle} if self.bundle else {}), **({"warnings": self.warnings} if self.warnings else {}),
        }  # fmt: skip

    def report(self) -> dict[str, Any]:
        """The content of ``report.json``: the line, and why."""
        return {**self.line(), "saturation": self.saturation, "extraction": self.extraction, "check_details": self.details}


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {k: round(v, 6) for k, v in seconds.items()}
