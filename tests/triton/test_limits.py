"""docs/providers.md: every refusal of the provider is listed, and the programs that show Triton's limits do show them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import eqkir.emit.triton.legality  # noqa: F401  (registers its codes)
from eqkir.base.diagnostics import CODES
from tests.triton.limits import LIMITS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "providers.md").read_text()


def test_every_refusal_is_listed() -> None:
    missing = [c for c in sorted(CODES) if c.startswith("EQK-TRI-") and f"`{c}`" not in PAGE]
    assert missing == []


def test_the_page_quotes_the_programs() -> None:
    source = (Path(__file__).parent / "limits.py").read_text()
    for name in LIMITS:
        text = source[source.index(f"def {name}(") :].split("\n\n\n")[0]
        assert text in PAGE, name


@pytest.mark.compile
def test_the_programs_show_the_limits() -> None:
    run = subprocess.run([sys.executable, "-m", "tests.triton.limits"], cwd=ROOT, capture_output=True, text=True, check=True)
    said = dict(line.split(" ", 1) for line in run.stdout.splitlines() if line.split(" ", 1)[0] in LIMITS)
    for name, (_, shows) in LIMITS.items():
        kind, text = ("ptx:", shows[5:]) if shows.startswith("ptx: ") else ("error:", shows)
        assert said[name].startswith(kind) and text in said[name], f"{name}: {said[name]}"
