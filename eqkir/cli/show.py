"""`eqkir show`: a stage as readable text."""

from __future__ import annotations

import sys
from pathlib import Path

from eqkir.base.diagnostics import fail
from eqkir.cli.text import stop_warning
from eqkir.driver import codes, programs
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options

STAGES = ("kir", "initial", "chosen", "tasks", "source", "egraph")


def main(file: Path, stage: str, kernel: str | None, options: Options) -> int:
    """Print it."""
    if stage not in STAGES:
        raise fail(codes.USAGE, f"unknown stage {stage!r}", accepted=", ".join(STAGES), stage="options")
    if programs.is_program(file):
        sys.stdout.write(_of_program(file, stage))
    else:
        sys.stdout.write(_of_kernel(file, stage, kernel, options))
    return 0


def _of_program(file: Path, stage: str) -> str:
    from eqkir.program.listing import listing

    if stage not in ("chosen", "source"):
        raise fail(codes.USAGE, f"a program.json has no stage {stage!r}", accepted="chosen, source", stage="options")
    program = programs.read(file)
    if stage == "chosen":
        return listing(program)
    from eqkir.driver.provider import spell

    return str(spell(program).source)


def _of_kernel(file: Path, stage: str, kernel: str | None, options: Options) -> str:
    from eqkir.cli.kernels import chain, select

    c = chain(select(file, kernel), options)
    if stage == "kir":
        from eqkir.cli.listing.kir import kernel_text

        return kernel_text(c.kernel)
    if stage == "egraph":
        from eqkir.cli.listing.graph import graph_text

        text = graph_text(c.saturated.graph)
        return _warned(c, text)
    if stage == "source":
        return _warned(c, c.provider.spell(c.program).source)
    if stage == "tasks":
        from eqkir.cpu.listing import listing as tasks
        from eqkir.driver.provider import MojoProvider

        if not isinstance(c.provider, MojoProvider):
            raise fail(codes.USAGE, f"{c.target.spec} has no stage 'tasks'", accepted="a CPU target", stage="options")
        return _warned(c, tasks(c.provider.spell(c.program).tasks))
    from eqkir.program.listing import listing

    return _warned(c, listing(c.initial if stage == "initial" else c.program))


def _warned(c: Chain, text: str) -> str:
    """`text`, after a line on standard error when the search was cut short."""
    if warning := stop_warning(c.outcome):
        print(warning, file=sys.stderr)
    return text
