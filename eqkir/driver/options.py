"""What the caller of one optimization chose. Plain data: it crosses process boundaries and goes into bundles and manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eqkir.base.diagnostics import fail
from eqkir.driver import codes

#: level of ``--check`` -> the checks beyond the program verifier, which always runs
CHECKS: dict[str, tuple[str, ...]] = {
    "none": (),
    "static": ("static",),
    "numeric": ("static", "numeric"),
    "compile": ("static", "compile"),
    "all": ("static", "numeric", "compile", "interpreter"),
}
#: the same for the CPU family: its own interpreter, and the native code against the reference
CPU_CHECKS: dict[str, tuple[str, ...]] = {
    "none": (),
    "static": ("static",),
    "numeric": ("static", "numeric", "tasks"),
    "compile": ("static", "compile"),
    "all": ("static", "numeric", "tasks", "compile", "native"),
}


@dataclass(frozen=True, slots=True)
class Options:
    """`shapes`: values that pin symbols, integer scalars and constexprs; `rules`: rule files or folders from outside; `without`: families
    switched off (``all`` stands for every one); `permit`: numerical permissions; `limits`: see `eqkir.rules.saturate`, and
    ``job_seconds``, the bound on one kernel's whole job; `top`: how many of the best candidates to emit; `inputs`: kernel -> what its
    checked inputs are like (`data` by view, `scalars`), beside what follows from the kernel."""

    target: str = "triton:nvidia-h200"
    shapes: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    permit: tuple[str, ...] = ()
    extractor: str = "greedy-dag"
    cost_model: str = "roofline"
    seed: int = 0
    check: str = "static"
    limits: Mapping[str, float] = field(default_factory=dict)
    top: int = 1
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rows: str = ""  # a file of binding rows instead of the target's
    winners: bool = False  # whether the cache of winners is asked and filled; it changes no result

    def __post_init__(self) -> None:
        if self.check not in CHECKS:
            raise fail(codes.USAGE, f"unknown check {self.check!r}", accepted=" ".join(CHECKS), stage="options")

    @property
    def checks(self) -> tuple[str, ...]:
        return (CPU_CHECKS if self.provider == "mojo" else CHECKS)[self.check]

    @property
    def provider(self) -> str:
        """The provider that the target names."""
        return self.target.partition(":")[0]

    @property
    def job_seconds(self) -> float:
        return float(self.limits.get("job_seconds", 600))

    def described(self, kernel: str) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
        """(`scalars`, `data`) of a kernel's inputs."""
        entry = self.inputs.get(kernel, {})
        return entry.get("scalars"), entry.get("data")

    def to_json(self) -> dict[str, Any]:
        """Everything that may change the result, in a canonical order."""
        more = {"rows": self.rows} if self.rows else {}
        return {
            **more, "target": self.target, "shapes": dict(sorted(self.shapes.items())), "without": sorted(self.without),
            "permit": sorted(self.permit),
            "extractor": self.extractor, "cost_model": self.cost_model, "seed": self.seed, "limits": dict(sorted(self.limits.items())),
        }  # fmt: skip
