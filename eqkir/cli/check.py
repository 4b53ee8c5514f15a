"""`eqkir check`: read and verify, nothing more."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from eqkir.cli.text import diagnostic_line
from eqkir.driver.files import kir_files
from eqkir.driver.outcome import Outcome
from eqkir.driver.scan import scan


def main(paths: Sequence[Path], as_json: bool) -> int:
    """Print the diagnostics of every file; 1 when there is one."""
    bad = good = 0
    for f in kir_files(paths):
        for t in scan(str(f)):
            found = t.diagnostics if isinstance(t, Outcome) else []
            bad, good = bad + bool(found), good + (not found)
            if as_json:
                status = "failed" if found else "ok"
                print(json.dumps({"kernel": t.kernel, "file": t.file, "status": status, "diagnostics": found}, sort_keys=True))
            for d in found if not as_json else []:
                print(diagnostic_line(d), file=sys.stderr)
    if not as_json:
        print(f"{good} kernel(s) fine, {bad} not")
    return 1 if bad else 0
