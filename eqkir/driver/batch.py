"""Many kernels: one isolated job each in a pool of workers, checks that need the provider in batches, artifacts as kernels finish."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.driver import codes, pool
from eqkir.driver.artifacts import write_kernel
from eqkir.driver.bundle import scratch, write_bundle
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.scan import Task

Progress = Callable[[str, int, int], None]  # (what, done, total)
SCAN_SECONDS = 120.0
#: what a worker runs on a task and the options
JOB = "eqkir.driver.job:optimize"
#: checks that need the provider's tools
BATCHED = ("interpreter", "compile", "native")


def scan_files(files: Sequence[Path], jobs: int) -> list[Task | Outcome]:
    """The kernels of the files, in order; an unreadable file, or a kernel that does not parse, is a failed outcome in its place."""
    out: dict[int, list[Task | Outcome]] = {}
    for i, answer in pool.run("eqkir.driver.scan:scan", [(str(f),) for f in files], jobs, SCAN_SECONDS):
        out[i] = [_failed(None, str(files[i]), answer)] if isinstance(answer, pool.Failure) else answer
    return [t for i in range(len(files)) for t in out[i]]


def optimize(
    tasks: Sequence[Task | Outcome], options: Options, jobs: int, out: Path | None = None, progress: Progress | None = None
) -> Iterator[Outcome]:
    """Outcomes in the order of `tasks`, each after its artifacts (if any) are written under `out`; 0 `jobs`: in this process."""
    todo = [t for t in tasks if isinstance(t, Task)]
    finished: dict[Task, Outcome] = {}
    batched = [c for c in options.checks if c in BATCHED]
    if options.provider == "mojo" and out and not batched and _compiler():
        batched = ["compile"]  # artifacts hold native code
    names = folder_names(tasks)
    position = 0

    def in_turn() -> Iterator[Outcome]:
        nonlocal position
        while position < len(tasks):
            t = tasks[position]
            o = finished.get(t) if isinstance(t, Task) else t
            if o is None:
                return
            position += 1
            yield _finish(o, names, options, out)

    for i, answer in _answers(todo, options, jobs):
        task = todo[i]
        finished[task] = _failed(task.kernel, task.file, answer, task.kir) if isinstance(answer, pool.Failure) else answer
        if progress:
            progress("kernels", len(finished), len(todo))
        if not batched:
            yield from in_turn()
    if batched:
        if options.provider == "mojo":
            from eqkir.driver.native import provider_checks
        else:
            from eqkir.driver.checks import provider_checks
        provider_checks([o for o in finished.values() if o.ok], batched, options, jobs, progress)
    yield from in_turn()


def _answers(todo: Sequence[Task], options: Options, jobs: int) -> Iterator[tuple[int, Outcome | pool.Failure]]:
    if jobs > 0:
        yield from pool.run(JOB, [(t, options) for t in todo], jobs, options.job_seconds)
        return
    from eqkir.driver import job

    for i, t in enumerate(todo):
        yield i, job.optimize(t, options)


def folder_names(tasks: Sequence[Task | Outcome]) -> dict[tuple[str, str | None], str]:
    """(file, kernel) -> folder under OUT: the kernel's name; kernels of one name get their file's stem in front, then a number."""
    keys = list(dict.fromkeys((t.file, t.kernel) for t in tasks))
    count: dict[str | None, int] = {}
    for _, k in keys:
        count[k] = count.get(k, 0) + 1
    out: dict[tuple[str, str | None], str] = {}
    used: set[str] = set()
    for file, k in keys:
        base = k or "module"
        if count[k] > 1:
            base = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', Path(file).stem)}.{base}"
        name, n = base, 2
        while name in used:
            name, n = f"{base}.{n}", n + 1
        used.add(name)
        out[file, k] = name
    return out


def _failed(kernel: str | None, file: str, f: pool.Failure, kir: str = "") -> Outcome:
    o = Outcome(kernel, file, traceback=f.traceback, kir=kir)
    code = {"time": codes.TIME, "died": codes.WORKER}.get(f.kind, codes.INTERNAL)
    o.fail(Diagnostic(code, f.message, file=file))
    o.status = "error"
    return o


def _finish(o: Outcome, names: dict[tuple[str, str | None], str], options: Options, out: Path | None) -> Outcome:
    """Write the artifacts, or the bundle of an unexpected failure."""
    if o.status == "error":
        kir = _kernel_text(o)
        try:
            folder, command = write_bundle(out or scratch(), o.kernel, kir, options, o.traceback)
        except OSError as e:
            o.fail(Diagnostic(codes.INTERNAL, f"the bundle could not be written: {e}", file=o.file))
        else:
            o.bundle = str(folder)
            o.diagnostics[-1]["message"] += f"; bundle {folder}; replay: {command}"
        o.status = "error"
    elif out and o.program:
        try:
            write_kernel(out / names[o.file, o.kernel], o.source, o.program, o.manifest, o.report(), o.file_name)
            if o.ok and o.library:
                from eqkir.driver.native import write

                write(out / names[o.file, o.kernel], o, options)
        except EqkirError as e:
            o.fail(*e.diagnostics)
        except OSError as e:
            o.fail(Diagnostic(codes.PATH, f"cannot write the artifacts: {e}", file=o.file))
    return o


def _compiler() -> bool:
    from eqkir.emit.mojo import toolchain

    return toolchain.available()


def _kernel_text(o: Outcome) -> str:
    if o.kir:
        return o.kir
    try:
        return Path(o.file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


__all__ = ["Task", "folder_names", "optimize", "scan_files"]
