"""What several Show lines need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent


def run(*words: object, seconds: float = 3600, cwd: Path = ROOT, **kw: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, cwd=cwd, timeout=seconds, **kw)


def eqkir(*words: object, seconds: float = 3600) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "eqkir", *words, seconds=seconds)


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(x) for x in text.splitlines() if x.startswith("{")]


def percentile(values: list[float], q: float) -> float:
    """The value at or above which the share 1 - q lies (nearest rank)."""
    s = sorted(values)
    return s[min(len(s) - 1, int(q * len(s)))]


def closing_line(text: str) -> str:
    """pytest's last line."""
    lines = [x for x in text.splitlines() if " passed" in x or " failed" in x or " error" in x]
    return lines[-1].strip("= ") if lines else "no closing line"
