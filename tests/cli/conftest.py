"""The command line as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "corpus" / "json"

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """``cli("check", path, env={…})`` in an empty directory."""

    def run(*words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "eqkir", *map(str, words)], capture_output=True, text=True, cwd=tmp_path, timeout=300,
            env={**os.environ, **(env or {})},
        )  # fmt: skip

    return run
