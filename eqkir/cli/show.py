"""`eqkir show`: a stage as readable text."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from eqkir.base.diagnostics import fail
from eqkir.cli.text import stop_warning
from eqkir.driver import codes, programs
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options

STAGES = ("kir", "initial", "chosen", "tasks", "source", "egraph")


@dataclass(frozen=True, slots=True)
class Page:
    """``--html``: where the page goes (None: standard output), and what it shows (`eqkir.authoring.explorer.View`)."""

    out: Path | None = None
    nodes: int | None = None
    steps: bool = True
    times: bool = False


def of_page_alone(page: Page) -> None:
    """Options that say something about a page, given without ``--html``. Raises EqkirError (EQK-RUN-USAGE)."""
    given = [n for n, x in (("--nodes", page.nodes is not None), ("--no-steps", not page.steps), ("--times", page.times)) if x]
    if given:
        accepted = f"--stage egraph --html {' '.join(given)}"
        raise fail(codes.USAGE, f"{', '.join(given)}: only a page (--html) has that", accepted=accepted, stage="options")


def main(file: Path, stage: str, kernel: str | None, options: Options, page: Page | None = None, out: Path | None = None) -> int:
    """Print it, or write the page. Raises EqkirError; EQK-RUN-USAGE for a page of another stage, or a place for text."""
    if stage not in STAGES:
        raise fail(codes.USAGE, f"unknown stage {stage!r}", accepted=", ".join(STAGES), stage="options")
    if page is not None and stage != "egraph":
        raise fail(codes.USAGE, f"--html shows the stage egraph, not {stage!r}", accepted="--stage egraph", stage="options")
    if page is None and out is not None:
        accepted = "--stage egraph --html -o PAGE.html"
        raise fail(codes.USAGE, "-o names a page, and text goes to standard output", accepted=accepted, stage="options")
    if page is not None and not programs.is_program(file):
        return _page(file, kernel, options, page)
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
        from eqkir.kir.listing import kernel_text

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


def _page(file: Path, kernel: str | None, options: Options, page: Page) -> int:
    from eqkir.authoring.explorer import NODES, View, contents
    from eqkir.authoring.explorer_page import page as made
    from eqkir.cli.kernels import chain, select
    from eqkir.driver.artifacts import write_atomic
    from eqkir.driver.files import writable_file

    if page.out is not None:
        writable_file(page.out)
    c = chain(select(file, kernel), options)
    text = made(contents(c, View(NODES if page.nodes is None else page.nodes, page.steps, page.times)))
    text = _warned(c, text)
    if page.out is None:
        sys.stdout.write(text)
    else:
        write_atomic(page.out, text)
        print(f"{page.out}: {len(text.encode()):,} bytes; open it in a browser", file=sys.stderr)
    return 0


def _warned(c: Chain, text: str) -> str:
    """`text`, after a line on standard error when the search was cut short."""
    if warning := stop_warning(c.outcome):
        print(warning, file=sys.stderr)
    return text
