"""A thin egglog session: every text that goes in is logged, so that a test can see that nothing but rules follows P0."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eqkir.terms.bindings import bindings


class EggError(Exception):
    """egglog refused a text, or a run ended in a panic; the session is not used again."""


class Engine:
    """One e-graph. `log` holds (phase, text) for everything that was sent; phases are ``vocabulary``, ``program`` and ``rules``."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.egraph = bindings.EGraph(fact_directory=directory, no_decomp=True)
        self.log: list[tuple[str, str]] = []

    def send(self, text: str, phase: str) -> list[Any]:
        """Parse and run a text. Raises EggError."""
        self.log.append((phase, text))
        try:
            return list(self.egraph.run_program(*self.egraph.parse_program(text)))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as e:  # a panic is no Exception
            raise EggError(str(e)) from e

    def load(self, files: dict[str, str]) -> None:
        """Write TSV files and read them into their ``r_`` relations."""
        for name, text in files.items():
            Path(self.directory, name).write_text(text)
        self.send("".join(f'(input r_{n[:-4]} "{n}")' for n in files), "program")
        self.send("(run-schedule (seq (saturate (run load-sets)) (run load)))", "program")

    def sizes(self) -> dict[str, int]:
        """Rows of every function, without a copy of the e-graph."""
        (found,) = self.egraph.run_program(*self.egraph.parse_program("(print-size)"))
        assert isinstance(found, bindings.PrintAllFunctionsSize)
        return dict(found.sizes)

    def run(self, ruleset: str, *, saturate: bool = False) -> Any:
        """One application (or saturation) of a ruleset; returns egglog's run report."""
        body = f"(saturate (run {ruleset}))" if saturate else f"(run {ruleset})"
        return self.send(f"(run-schedule {body})", "rules")[-1].report


@contextmanager
def session() -> Iterator[Engine]:
    """An engine with a temporary fact directory."""
    with tempfile.TemporaryDirectory(prefix="eqkir-") as d:
        yield Engine(d)
