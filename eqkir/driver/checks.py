"""Checks that need the provider's tools: the source in its interpreter, and compiled offline; in batches, in the tools' own workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.driver import codes, numeric, programs
from eqkir.driver.chain import Chain
from eqkir.driver.job import kernel_of, record, unexpected
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.scan import Task
from eqkir.driver.work import instances, integers, steps
from eqkir.kir.envelope import Envelope, compare, envelope
from eqkir.kir.inputs import make_inputs
from eqkir.kir.memory import ViewArg, clone
from eqkir.program.lower import conservative
from eqkir.program.model import Program

if TYPE_CHECKING:
    from eqkir.driver.batch import Progress
    from eqkir.emit.triton.artifact import Artifact
    from eqkir.emit.triton.checks import Case, Compiled
    from eqkir.targets import Target

#: program instances of one interpreted launch, and executions of blocks (bodies of loops and of instances) of one launch and of all
#: launches of a kernel: the interpreter takes one or two milliseconds for each
INSTANCES, STEPS, ALL_STEPS = 120, 1000, 6000
#: extents of a case that takes too many steps in its own
SMALL = (2, 3, 5, 4)


def provider_checks(outcomes: Sequence[Outcome], names: Sequence[str], options: Options, jobs: int, progress: Progress | None) -> None:
    """Run the named checks (``interpreter``, ``compile``) on kernels that are fine so far and record the verdicts in them."""
    jobs = max(1, jobs)
    try:
        import triton  # noqa: F401
    except ModuleNotFoundError as e:
        for o in outcomes:
            o.stage = "checks"
            o.fail(Diagnostic(codes.EXTRA, f"{e.name} is not installed", accepted="pip install 'eqkir[triton]'"))
        return
    from eqkir.driver.provider import spell

    pairs: list[tuple[Outcome, Artifact]] = []
    for o in outcomes:
        with _isolated([o]):
            pairs.append((o, spell(programs.loads(o.program))))
    for name in sorted(names):  # compile first: it may choose another candidate
        todo = [(o, a) for o, a in pairs if o.ok]
        pairs = []
        for at in range(0, len(todo), chunk := 4 * jobs):
            part = todo[at : at + chunk]
            with _isolated([o for o, _ in part]):
                (_compile if name == "compile" else _interpret)(part, options, jobs)
            pairs += part
            if progress:
                progress(name, min(at + chunk, len(todo)), len(todo))


@contextmanager
def _isolated(outcomes: Sequence[Outcome]) -> Iterator[None]:
    """An exception in a batch is an unexpected failure of the kernels in it, and of no others."""
    try:
        yield
    except Exception as e:
        for o in outcomes:
            o.stage = "checks"
            unexpected(o, e)


# ------------------------------------------------------------------------------------------------ interpreter
@dataclass
class _Launch:
    case: numeric.Case
    expected: dict[str, Envelope]
    args: dict[str, Any]


def array_of(a: ViewArg) -> np.ndarray[Any, Any]:
    """The view as an array whose base is its memory (strided, negative and overlapping views too)."""
    size = a.memory.itemsize
    if 0 in a.shape:
        return np.empty(a.shape, a.memory.dtype)
    raw = a.memory.view(np.uint8)
    return np.ndarray(a.shape, a.memory.dtype, raw, a.offset * size, tuple(s * size for s in a.strides))


def case_of(args: Mapping[str, Any]) -> Case:
    """Arguments as the interpreter's workers take them."""
    from eqkir.emit.triton.checks import Case

    arrays = {n: array_of(v) for n, v in args.items() if isinstance(v, ViewArg)}
    return Case(arrays, {n: v.item() if hasattr(v, "item") else v for n, v in args.items() if not isinstance(v, ViewArg)})


def launches(chain: Chain, program: Program) -> list[_Launch]:
    """The numeric cases, in smaller extents where theirs take too many steps; those with the fewest steps first where there are too many;
    invalid inputs left out."""
    out: list[tuple[int, _Launch]] = []
    pinned = {} if numeric.large(chain.kernel, chain.extents) else chain.extents
    small = numeric.assignment(chain.kernel, pinned, SMALL)
    for own in numeric.cases(chain.kernel, pinned, chain.options.seed, numeric.scalar_steps(conservative(chain.abstract))):
        for c in (own, numeric.Case(small, own.variant, own.seed)):
            args = make_inputs(chain.kernel, c.symbols, c.seed, c.variant, chain.constexprs, *chain.options.described(chain.kernel.name))
            values = integers(c.symbols, args)
            if instances(program, values) <= INSTANCES and (n := steps(program, values)) <= STEPS:
                break
        else:
            continue
        if not numeric.holds(program, c.symbols, args):
            continue
        try:
            expected = envelope(chain.kernel, args, c.symbols, chain.constexprs, chain.options.permit)
        except EqkirError:
            continue
        out.append((n, _Launch(c, expected, clone(args))))
    total = 0
    kept: list[_Launch] = []
    for n, launch in sorted(out, key=lambda x: x[0]):
        if total + n <= ALL_STEPS or not kept:
            total += n
            kept.append(launch)
    return kept


def _interpret(pairs: Sequence[tuple[Outcome, Artifact]], options: Options, jobs: int) -> None:
    from eqkir.emit.triton.checks import interpret_batch

    work = []
    for o, a in pairs:
        chain = Chain(kernel_of(Task(o.file, 0, o.kernel or "", o.kir)), options, o)
        work.append((o, a, launches(chain, programs.loads(o.program))))
    batch = []
    for _, a, ls in work:
        batch.append((a, [case_of(x.args) for x in ls]))
    for (o, _, ls), results in zip(work, interpret_batch(batch, jobs), strict=True):
        mistakes, worst = [], 0.0
        for x, r in zip(ls, results, strict=True):
            if r.error:
                mistakes.append(f"{x.case}: {r.error}")
                continue
            verdict = compare(x.expected, {n: r.arrays[n] for n in x.expected})
            worst = max(worst, float(verdict.worst))
            if not verdict.ok:
                mistakes.append(f"{x.case}: {verdict.first} ({verdict.mismatches} of {verdict.elements} elements)")
        details = {"cases": len(ls), "mistakes": mistakes[:3], "worst_error_over_bound": worst if np.isfinite(worst) else "inf"}
        o.stage = "checks"
        record(o, "interpreter", bool(ls) and not mistakes, details, "; ".join(mistakes[:2]) or "no case is small enough")
        o.stage = "done" if o.ok else "checks"


# ------------------------------------------------------------------------------------------------ offline compilation
def cache_folder() -> Path:
    """Where results of compilations are kept: ``$EQKIR_CACHE``, else the user's cache folder."""
    base = os.environ.get("EQKIR_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "eqkir")
    return Path(base) / "compiled"


def _compile(pairs: list[tuple[Outcome, Artifact]], options: Options, jobs: int) -> None:
    from eqkir.driver.spills import replacement
    from eqkir.emit.triton.checks import EVEN, ODD, WIDE, compile_batch
    from eqkir.targets import load_gpu

    target = load_gpu(options.target)
    specializations = (EVEN, ODD, WIDE)

    def judged(results: Sequence[Compiled]) -> tuple[list[str], dict[str, Any]]:
        keys = ("registers", "spills", "shared", "warps", "findings")
        figures = {c.specialization: {k: list(v) if isinstance(v := getattr(c, k), tuple) else v for k in keys} for c in results}
        return [f"{c.specialization}: {f}" for c in results for f in faults_of(c, target)], figures

    def compiled(a: Artifact) -> tuple[list[str], dict[str, Any]]:
        return judged(compile_batch([(a, target.capability, s) for s in specializations], jobs, cache=cache_folder()))

    results = compile_batch([(a, target.capability, s) for _, a in pairs for s in specializations], jobs, cache=cache_folder())
    for i, (o, _) in enumerate(pairs):
        faults, details = judged(results[i * len(specializations) : (i + 1) * len(specializations)])
        if faults and all(f.endswith("bytes of spills") for f in faults):
            other = replacement(o, options, compiled)
            if other is not None:
                pairs[i], faults, details = (o, other[0]), [], other[1]
        o.stage = "checks"
        record(o, "compile", not faults, {"arch": target.arch, **details}, "; ".join(faults)[:800])
        o.stage = "done" if o.ok else "checks"


def faults_of(c: Compiled, target: Target) -> list[str]:
    """What a compilation result breaks: it failed, is too large for the target, holds forms that KIR does not permit, or spills.

    Spills are a fault of the specialization that aligned row-major calls take; those of the others (masked, 64-bit indices, any stride)
    cost time there and nothing else, and stand in the report.
    """
    if c.error:
        return [c.error]
    out = [f"{c.spills} bytes of spills"] if c.spills and c.specialization == "even" else []
    if c.shared > target.max_shared_per_block:
        out.append(f"{c.shared} bytes of shared memory (at most {target.max_shared_per_block})")
    if c.registers * target.warp_size * c.warps > target.registers_per_sm:
        out.append(f"{c.registers} registers for each of {c.warps} warps (at most {target.registers_per_sm} in all)")
    if c.findings:
        out.append(f"PTX holds {', '.join(c.findings)}")
    return out
