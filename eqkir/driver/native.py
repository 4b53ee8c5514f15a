"""Checks of the CPU family that need the provider's compiler: kernels of a batch compiled together, and run against the reference."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqkir.base.diagnostics import Diagnostic, EqkirError, fail
from eqkir.driver import codes, numeric, pool, programs
from eqkir.driver.chain import Chain
from eqkir.driver.checks import array_of
from eqkir.driver.edges import edge_cases
from eqkir.driver.guards import Guarded
from eqkir.driver.job import kernel_of, record, unexpected
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.scan import Task
from eqkir.kir.memory import ViewArg

if TYPE_CHECKING:
    from eqkir.cpu.model import TaskProgram
    from eqkir.driver.batch import Progress
    from eqkir.emit.mojo.artifact import TaskArtifact
    from eqkir.emit.mojo.build import Built, Module
    from eqkir.program.model import Program
    from eqkir.targets import CpuTarget

#: kernels that are compiled together
BATCH = 16


def provider_checks(outcomes: Sequence[Outcome], names: Sequence[str], options: Options, jobs: int, progress: Progress | None) -> None:
    """Run the named checks (``compile``, ``native``) on kernels that are fine so far and record the verdicts in them."""
    from eqkir.driver.provider import MojoProvider, provider
    from eqkir.emit.mojo import toolchain
    from eqkir.emit.mojo.build import build

    p = provider(options.target)
    assert isinstance(p, MojoProvider)
    pairs: list[tuple[Outcome, TaskArtifact]] = []
    for o in outcomes:
        try:
            toolchain.versions()
            pairs.append((o, p.spell(programs.loads(o.program))))
        except EqkirError as e:
            o.stage = "checks"
            o.fail(*e.diagnostics)
        except Exception as e:
            o.stage = "checks"
            unexpected(o, e)
    built: list[tuple[Outcome, Built]] = []
    for at in range(0, len(pairs), BATCH):
        part = pairs[at : at + BATCH]
        for (o, _), found in zip(part, build([a.module for _, a in part], p.target.cpu, triple=p.target.triple), strict=True):
            o.stage = "checks"
            if isinstance(found, EqkirError):
                o.checks["compile"] = "failed"
                o.fail(*found.diagnostics)
            else:
                o.library = (found.library, found.key)
                record(o, "compile", True, {"cpu": p.target.cpu})
                built.append((o, found))
                o.stage = "done"
        if progress:
            progress("compile", min(at + BATCH, len(pairs)), len(pairs))
    if "native" in names:
        _native(built, options, max(1, jobs), progress)


def write(folder: Path, o: Outcome, options: Options) -> None:
    """Native code of a kernel that was compiled, and what `eqkir.load` needs, beside its artifacts. Raises EqkirError, OSError."""
    from eqkir.driver.provider import MojoProvider, provider
    from eqkir.emit.mojo import native

    p = provider(options.target)
    assert isinstance(p, MojoProvider)
    made = p.spell(programs.loads(o.program)).native
    library, pool_code = native_code(made.module, p.target)
    native.write(folder, made, p.target, library, pool_code)


def native_code(module: Module, target: CpuTarget) -> tuple[Built, Built]:
    """The library of one kernel, and the pool's. Raises EqkirError EQK-MOJ-…."""
    from eqkir.emit.mojo.build import build_one
    from eqkir.emit.mojo.pool import pool_library

    return build_one(module, target.cpu, triple=target.triple), pool_library(target.cpu, triple=target.triple)


def _native(built: Sequence[tuple[Outcome, Built]], options: Options, jobs: int, progress: Progress | None) -> None:
    from eqkir.driver.provider import MojoProvider, provider
    from eqkir.runtime.machine import missing

    p = provider(options.target)
    if isinstance(p, MojoProvider) and (lack := missing(p.target.machine, list(p.target.needs))):
        for o, _ in built:
            o.stage = "checks"
            o.checks["native"] = "refused"
            o.fail(Diagnostic(codes.MACHINE, f"{options.target} cannot run here: {lack}", stage="checks"))
        return
    tasks = [(o.file, o.kernel or "", o.kir, o.program, b, options) for o, b in built]
    for done, (i, answer) in enumerate(pool.run("eqkir.driver.native:check", tasks, jobs, options.job_seconds)):
        o = built[i][0]
        o.stage = "checks"
        if isinstance(answer, pool.Failure):
            o.fail(Diagnostic({"time": codes.TIME, "died": codes.WORKER}.get(answer.kind, codes.INTERNAL), f"native: {answer.message}"))
        else:
            ok, details, message = answer
            record(o, "native", ok, details, message, codes.NUMERIC)
            o.stage = "done" if o.ok else "checks"
        if progress:
            progress("native", done + 1, len(tasks))


def check(file: str, kernel: str, kir: str, program_text: str, built: Built, options: Options) -> tuple[bool, dict[str, Any], str]:
    """Native code of one kernel against the reference's envelope, in a worker: verdict, details, message."""
    from eqkir.driver.provider import MojoProvider, provider

    start = time.perf_counter()
    chain = Chain(kernel_of(Task(file, 0, kernel, kir)), options, Outcome(kernel, file, kir=kir))
    program = programs.loads(program_text)
    p = provider(options.target)
    assert isinstance(p, MojoProvider)
    v = numeric.check(
        chain.kernel, program, chain.constexprs, chain.extents, options.seed, engine(p.spell(program), built, options.seed),
        numeric.scalar_steps(chain.initial), permit=options.permit, described=options.described(chain.kernel.name),
        further=edge_cases(chain.kernel, program, chain.extents, options.seed),
    )  # fmt: skip
    details = {**v.to_json(), "seconds": time.perf_counter() - start}
    return v.ok, details, "; ".join(v.mistakes) or "no case could be compared"


def engine(artifact: TaskArtifact, built: Built, seed: int) -> numeric.Engine:
    """Native code in this process, on guarded copies; instances are cut into tasks at random, which run in a random order.

    Where the code has bodies for sizes beyond a limit of the machine, every call is made several times (`lowerings`). Where results
    differ, they are judged in turns of calls."""
    from eqkir.emit.mojo.call import Launch

    rng, turn = random.Random(seed), count()

    def run(tasks: TaskProgram, args: Mapping[str, Any], symbols: Mapping[str, int]) -> Guarded:
        guarded = Guarded(args)
        scalars = {k: a for k, a in args.items() if not isinstance(a, ViewArg)}
        Launch(tasks, guarded.arrays, scalars, symbols, seed).call(built, rng)
        return guarded

    def go(args: Mapping[str, Any], symbols: Mapping[str, int]) -> Mapping[str, ViewArg]:
        done = [run(tasks, args, symbols) for tasks in lowerings(artifact.tasks)]
        first = next(turn) % len(done)
        for guarded in (*done[first:], *done[:first]):
            guarded.finish()
        return {k: a for k, a in args.items() if isinstance(a, ViewArg)}

    return go


def lowered(tasks: TaskProgram) -> TaskProgram:
    """The same with the machine's limits at their least, so that small arguments take the bodies for large ones."""
    return replace(tasks, limits=dict.fromkeys(tasks.limits, 1))


def lowerings(tasks: TaskProgram) -> list[TaskProgram]:
    """A task program as it is, with all of the machine's limits at their least, and with each of them alone."""
    alone = [replace(tasks, limits={**tasks.limits, n: 1}) for n in tasks.limits] if len(tasks.limits) > 1 else []
    return [tasks, *([lowered(tasks)] if tasks.limits else []), *alone]


def through_runtime(program: Program, target: str) -> numeric.Engine:
    """Native code as a user calls it: an artifact folder, loaded, called with its pool of threads. The folder is gone afterwards.

    Raises EqkirError EQK-MOJ-… when the code cannot be made; the engine raises EQK-RUN-CHECK for arguments that the kernel refuses.
    """
    from eqkir.driver.provider import MojoProvider, provider
    from eqkir.emit.mojo import native
    from eqkir.runtime.native import LoadError, load

    p = provider(target)
    assert isinstance(p, MojoProvider)
    artifact = p.spell(program)
    told = artifact.native
    library, pool_code = native_code(artifact.module, p.target)
    with tempfile.TemporaryDirectory(prefix="eqkir-run-") as folder:
        native.write(Path(folder), told, p.target, library, pool_code)
        try:
            kernel = load(folder)
        except LoadError as e:
            raise fail(codes.CHECK, str(e), stage="run") from None

    def go(args: Mapping[str, Any], symbols: Mapping[str, int]) -> Mapping[str, ViewArg]:
        views = [v.name for v in program.abi.views if v.role != "workspace"]
        values = [array_of(args[n]) if isinstance(args[n], ViewArg) else args[n] for n in (*views, *(s.name for s in program.abi.scalars))]
        try:
            kernel(*values)
        except (TypeError, ValueError) as e:
            raise fail(codes.CHECK, str(e), stage="run") from None
        return {k: a for k, a in args.items() if isinstance(a, ViewArg)}

    return go


def interpreted(tasks: TaskProgram, seed: int = 0) -> numeric.Engine:
    """The interpreter of task programs; the machine's limits are at their least in turns (`lowerings`)."""
    from eqkir.cpu.interp import run
    from eqkir.program.interp import Buffer

    turn, ways = count(), lowerings(tasks)

    def go(args: Mapping[str, Any], symbols: Mapping[str, int]) -> Mapping[str, ViewArg]:
        buffers = {k: Buffer(a.memory, a.offset, a.shape, a.strides) if isinstance(a, ViewArg) else a for k, a in args.items()}
        run(ways[next(turn) % len(ways)], buffers, symbols, seed=seed)
        return {k: a for k, a in args.items() if isinstance(a, ViewArg)}

    return go
