"""The public Python interface: `optimize`, `load`, and what they return."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqkir.base.diagnostics import Diagnostic, EqkirError, fail

if TYPE_CHECKING:
    from eqkir.driver.outcome import Outcome
    from eqkir.kir.model import Kernel, Module
    from eqkir.program.model import Program
    from eqkir.runtime.native import Bound, NativeKernel


@dataclass(frozen=True)
class Candidate:
    """One whole program of a kernel, best first in `KernelResult.candidates`; `cost` in the cost model's unit (``ns``)."""

    source: str
    program_json: str
    manifest: dict[str, Any]
    cost: float


@dataclass(frozen=True, repr=False)
class KernelResult:
    """What became of one kernel. `source` is a self-contained module with ``launch``; the texts are empty where `ok` is False.

    `status` and `stage`: see docs/cli.md. `report` holds times, e-nodes, costs and checks.
    """

    kernel: str | None
    file: str
    status: str
    stage: str
    diagnostics: tuple[Diagnostic, ...]
    source: str
    program_json: str
    manifest: dict[str, Any]
    report: dict[str, Any]
    candidates: tuple[Candidate, ...] = ()
    folder: Path | None = None

    @cached_property
    def native(self) -> NativeKernel:
        """The kernel's native code, loaded (targets ``mojo:…``; see docs/providers.md). Raises EqkirError EQK-RUN-ARTIFACT."""
        from eqkir.driver import codes
        from eqkir.runtime.native import LoadError
        from eqkir.runtime.native import load as load_native

        if self.folder is None:
            raise fail(codes.ARTIFACT, f"{self.kernel} has no folder: optimize with `out`, then load", stage="load")
        try:
            return load_native(self.folder)
        except LoadError as e:
            raise fail(codes.ARTIFACT, str(e), stage="load") from None

    def bind(self, *arguments: Any, **named: Any) -> Bound:
        """Native code with its arguments, checked once: numpy arrays in the order of the views, then scalars, or by name.

        The result runs the kernel whenever it is called. Raises TypeError and ValueError for arguments that do not fit.
        """
        return self.native.bind(*arguments, **named)

    def __repr__(self) -> str:
        cost = "" if self.cost is None else f", cost {self.cost:g} {self.report.get('cost_unit') or ''}".rstrip()
        first = "" if self.ok or not self.diagnostics else f", {self.diagnostics[0].code}"
        return f"<{self.kernel or self.file}: {self.status} at {self.stage}{cost}{first}>"

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def cost(self) -> float | None:
        """Predicted cost of the chosen program in ``report["cost_unit"]``."""
        value: float | None = self.report.get("cost")
        return value

    @cached_property
    def program(self) -> Program:
        """The chosen program. Raises EqkirError with this kernel's diagnostics when there is none."""
        from eqkir.driver.programs import loads

        if not self.program_json:
            raise EqkirError(*self.diagnostics)
        return loads(self.program_json)


@dataclass(frozen=True, repr=False)
class Result:
    """Kernels in the module's order."""

    kernels: tuple[KernelResult, ...] = field(default_factory=tuple)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.kernels[:5])) + (", …" if len(self.kernels) > 5 else "")
        return f"<Result: {sum(k.ok for k in self.kernels)} of {len(self.kernels)} ok: {shown}>"

    @property
    def ok(self) -> bool:
        return all(k.ok for k in self.kernels)

    def __iter__(self) -> Iterator[KernelResult]:
        return iter(self.kernels)

    def __getitem__(self, name: str) -> KernelResult:
        """The kernel of that name. Raises KeyError."""
        for k in self.kernels:
            if k.kernel == name:
                return k
        raise KeyError(name)


def optimize(
    module: Module | Kernel | str | Path,
    target: str = "triton:nvidia-h200",
    *,
    kernels: Sequence[str] | None = None,
    shapes: Mapping[str, Any] | None = None,
    rules: Sequence[str | Path] = (),
    without: Sequence[str] = (),
    permit: Sequence[str] = (),
    extractor: str = "greedy-dag",
    cost_model: str = "roofline",
    seed: int = 0,
    check: str = "static",
    out: str | Path | None = None,
    limits: Mapping[str, float] | None = None,
    jobs: int = 0,
    top: int = 1,
    winners: bool = False,
) -> Result:
    """Optimize every kernel of a module (a model, a built kernel, or the path of a file or folder) and emit it.

    `kernels` picks some by name. `shapes` pins symbols, integer scalars and constexprs. `without` switches rule families off (``"all"``:
    every one), `permit` grants numerical permissions, `check` is a level of ``eqkir optimize --check``. With `out`, the artifacts
    are written there. `jobs`: worker processes; 0 works in this process. `top`: how many of the best candidates to emit besides.
    `winners`: take what an earlier call chose for the same question from the cache, and keep what this one chooses (docs/cli.md).

    A kernel that cannot be done is a `KernelResult` with its diagnostics. Raises EqkirError for unknown names and options.
    """
    from eqkir.driver import batch
    from eqkir.driver.files import writable_folder
    from eqkir.driver.options import Options
    from eqkir.driver.validate import validate

    if out is not None:
        writable_folder(Path(out))
    options = validate(
        Options(
            target=target, shapes=dict(shapes or {}), rules=tuple(map(str, rules)), without=tuple(without), permit=tuple(permit),
            extractor=extractor, cost_model=cost_model, seed=seed, check=check, limits=dict(limits or {}), top=top, winners=winners,
        )
    )  # fmt: skip
    tasks = [t for t in _tasks(module, max(1, jobs), jobs == 0) if kernels is None or t.kernel in kernels]
    if kernels is not None and (missing := sorted(set(kernels) - {t.kernel for t in tasks if t.kernel})):
        from eqkir.driver import codes

        raise fail(codes.USAGE, f"no kernel {', '.join(missing)}", stage="options")
    outcomes = batch.optimize(tasks, options, jobs, Path(out) if out is not None else None)
    return Result(tuple(map(_result, outcomes)))


def _tasks(module: Module | Kernel | str | Path, jobs: int, here: bool) -> Sequence[Any]:
    from eqkir.driver import batch
    from eqkir.driver.files import kir_files
    from eqkir.driver.scan import scan
    from eqkir.kir.model import Kernel, Module

    if isinstance(module, Kernel):
        module = Module(kir=1, name=module.name, kernels=(module,))
    if isinstance(module, Module):
        return scan(f"<{module.name}>", module.model_dump_json(exclude_none=True).encode())
    files = kir_files([Path(module)])
    return [t for f in files for t in scan(str(f))] if here else batch.scan_files(files, jobs)


def _result(o: Outcome) -> KernelResult:
    candidates = tuple(Candidate(**c) for c in o.candidates)
    return KernelResult(o.kernel, o.file, o.status, o.stage, o.refusals, o.source, o.program, o.manifest, o.report(), candidates)


def load(folder: str | Path) -> KernelResult:
    """The artifacts of one kernel, as written by ``optimize(…, out=…)``, from its folder.

    Raises EqkirError EQK-RUN-ARTIFACT when the set is incomplete or a file is not the one that the manifest speaks of.
    """
    from eqkir.driver import codes
    from eqkir.driver.artifacts import digest

    folder = Path(folder)
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        source = "kernel.mojo" if str(manifest["target"]).startswith("mojo:") else "kernel.py"
        texts = {n: (folder / n).read_text(encoding="utf-8") for n in (source, "program.json", "report.json")}
        report, digests = json.loads(texts["report.json"]), manifest["digests"]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise fail(codes.ARTIFACT, f"{folder}: {type(e).__name__}: {e}", stage="load") from None
    for name, key in ((source, "source"), ("program.json", "program")):
        if digest(texts[name]) != digests.get(key):
            raise fail(codes.ARTIFACT, f"{folder / name} is not the file that the manifest speaks of", stage="load")
    return KernelResult(
        manifest["kernel"], report.get("file", ""), report.get("status", "ok"), report.get("stage", "done"), (), texts[source],
        texts["program.json"], manifest, report, folder=folder,
    )  # fmt: skip


__all__ = ["Candidate", "KernelResult", "Result", "load", "optimize"]
