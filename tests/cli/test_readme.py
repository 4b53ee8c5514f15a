"""The README's example runs, and its files exist."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.cli.conftest import ROOT
from tools.readme import example, kernel_part


def test_the_example_runs():
    r = subprocess.run([sys.executable, "-c", example((ROOT / "README.md").read_text())], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr
    assert "def launch(X, Y)" in r.stdout and "tl." in kernel_part(r.stdout)


def test_every_make_target_and_file_of_the_docs_exists():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert {"demo", "test", "test-all", "lint", "bench-gpu", "show"} <= set(targets)
