"""One kernel of a file, for the commands that look at a single one."""

from __future__ import annotations

from pathlib import Path

from eqkir.base.diagnostics import EqkirError, fail
from eqkir.driver import codes
from eqkir.driver.chain import Chain
from eqkir.driver.job import kernel_of
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.scan import Task, scan
from eqkir.driver.shapes import check_names


def select(file: Path, kernel: str | None) -> Task:
    """The named kernel of the file, or its only one. Raises EqkirError: the file's diagnosis, or EQK-RUN-USAGE."""
    found = scan(str(file))
    named = [t for t in found if kernel is None or t.kernel == kernel]
    names = ", ".join(str(t.kernel) for t in found)
    if not named:
        raise fail(codes.USAGE, f"no kernel {kernel!r} in {file}", accepted=names, stage="options")
    if len(named) > 1:
        raise fail(codes.USAGE, f"{file} holds several kernels", accepted=f"--kernel one of {names}", stage="options")
    task = named[0]
    if isinstance(task, Outcome):
        raise EqkirError(*task.refusals)
    return task


def chain(task: Task, options: Options, pin: bool = True) -> Chain:
    """The stages of a task, run when asked for. Raises EqkirError for a name in `options.shapes` that the kernel lacks."""
    check_names([task], options.shapes)
    return Chain(kernel_of(task), options, Outcome(task.kernel, task.file, kir=task.kir), pin)
