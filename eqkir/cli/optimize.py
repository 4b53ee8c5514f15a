"""`eqkir optimize`."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eqkir.base.diagnostics import fail
from eqkir.cli.text import diagnostic_line, stop_warning, stopped
from eqkir.driver import batch, codes
from eqkir.driver.files import kir_files, writable_folder
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.shapes import check_names

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?", re.ASCII)


def options(
    *, target: str, shapes: Mapping[str, Any], rules: Sequence[str] | None = None, without: Sequence[str] | None = None,
    permit: Sequence[str] | None = None, extractor: str = "greedy-dag", cost_model: str = "roofline", seed: int = 0, check: str = "static",
    limits: Mapping[str, float] | None = None, inputs: Mapping[str, Mapping[str, Any]] | None = None,
    rows: Path | None = None, winners: bool = False,
) -> Options:  # fmt: skip
    """Options from the command line; names are looked up now. Raises EqkirError with stage ``options`` (usage)."""
    o = Options(
        target=target, shapes=shapes, rules=tuple(rules or ()), without=_split(without), permit=_split(permit), extractor=extractor,
        cost_model=cost_model, seed=seed, check=check, limits=limits or {}, inputs=inputs or {},
        rows="" if rows is None else str(rows.resolve()), winners=winners,
    )  # fmt: skip
    from eqkir.driver.validate import validate

    return validate(o)


def _split(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(x.strip() for v in values or () for x in v.split(",") if x.strip()))


def parse_limits(texts: Sequence[str]) -> dict[str, float]:
    """``["enodes=20000"]`` -> numbers. Raises EqkirError EQK-RUN-USAGE."""
    out = {}
    for t in texts:
        name, _, value = t.partition("=")
        if not _NUMBER.fullmatch(value.strip()):
            raise fail(codes.USAGE, f"{t!r} is not NAME=NUMBER", accepted="enodes=20000", stage="options")
        out[name.strip()] = float(value)
    return out


def read_inputs(path: Path | None) -> dict[str, dict[str, Any]]:
    """What the inputs of kernels are like: kernel -> ``data`` (entries of `eqkir.kir.input_data` by view) and ``scalars``; other keys are
    left alone. Raises EqkirError EQK-RUN-INPUTS."""
    if path is None:
        return {}
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as e:
        raise fail(codes.INPUTS, f"{path}: {str(e)[:200]}", accepted="a JSON object: kernel -> {data, scalars}", stage="options") from None
    well = isinstance(found, dict) and all(
        isinstance(e, dict)
        and all(isinstance(e.get(k, {}), dict) for k in ("data", "scalars"))
        and all(isinstance(x, dict) and len(x) == 1 for x in e.get("data", {}).values())
        for e in found.values()
    )
    if not well:
        raise fail(codes.INPUTS, f"{path} describes no inputs", accepted="a JSON object: kernel -> {data, scalars}", stage="options")
    return {k: {x: e[x] for x in ("data", "scalars") if x in e} for k, e in found.items()}


def main(paths: Sequence[Path], out: Path | None, jobs: int, options: Options, as_json: bool) -> int:
    """Optimize, write, print; the exit status."""
    if out is not None:
        writable_folder(out)
    tasks = batch.scan_files(kir_files(paths), jobs)
    check_names(tasks, options.shapes)
    done: list[Outcome] = []
    with _progress() as progress:
        for o in batch.optimize(tasks, options, jobs, out, progress):
            done.append(slim(o))
            if as_json:
                print(json.dumps(o.line(), sort_keys=True), flush=True)
            if warning := stop_warning(o):
                print(warning, file=sys.stderr)
            for w in o.warnings:
                print(f"{diagnostic_line(w)} (ignored)", file=sys.stderr)
    if not as_json:
        table(done, options)
    return 0 if all(o.ok for o in done) else 1


def slim(o: Outcome) -> Outcome:
    """Without the large texts: what the table needs."""
    o.program = o.source = o.kir = ""
    return o


@contextlib.contextmanager
def _progress() -> Iterator[batch.Progress]:
    """A progress bar on standard error when that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda what, n, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        bars: dict[str, Any] = {}

        def update(what: str, n: int, total: int) -> None:
            if what not in bars:
                bars[what] = bar.add_task(what, total=total)
            bar.update(bars[what], completed=n, total=total)

        yield update


def table(done: Sequence[Outcome], options: Options) -> None:
    """The summary on standard output, diagnostics on standard error."""
    from rich.console import Console
    from rich.table import Table

    t = Table(title=f"{options.target}, extractor {options.extractor}, check {options.check}", title_justify="left")
    t.add_column("kernel", no_wrap=True)
    t.add_column("status")
    for name in ("seconds", "e-nodes", "structures", "P0 µs", "chosen µs", "gain"):
        t.add_column(name, justify="right")
    t.add_column("checks")
    early = any(map(stopped, done))
    if early:
        t.add_column("stopped by")
    for o in done:
        gain = f"{o.initial_cost / o.cost:.0f}×" if o.initial_cost and o.cost else ""
        t.add_row(
            o.kernel or Path(o.file).name,
            "ok" if o.ok else f"{o.status} at {o.stage}",
            f"{o.line()['seconds']:.2f}",
            "" if o.enodes is None else str(o.enodes),
            "" if o.structures is None else f"{o.structures:,}",
            _micro(o, o.initial_cost),
            _micro(o, o.cost),
            gain,
            " ".join(k if v == "ok" else f"{k}:{v}" for k, v in o.checks.items()),
            *([stopped(o)] if early else []),
        )
    console = Console() if sys.stdout.isatty() else Console(width=140, color_system=None)
    console.print(t)
    bad = [o for o in done if not o.ok]
    for o in bad:
        for d in o.diagnostics:
            print(diagnostic_line(d), file=sys.stderr)
    times = sorted(o.line()["seconds"] for o in done)
    if times:
        print(f"{len(done) - len(bad)} ok, {len(bad)} not; seconds: median {times[len(times) // 2]:.2f}, largest {times[-1]:.2f}")


def _micro(o: Outcome, cost: float | None) -> str:
    unit = o.extraction.get("unit", "ns")
    return "" if cost is None else f"{cost / 1e3:,.1f}" if unit == "ns" else f"{cost:,.0f} {unit}"
