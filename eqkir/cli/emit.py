"""`eqkir emit`: program.json to source. It never touches KIR."""

from __future__ import annotations

import sys
from pathlib import Path

from eqkir.base.diagnostics import EqkirError
from eqkir.driver import programs
from eqkir.driver.artifacts import write_atomic


def main(path: Path, out: Path | None) -> int:
    """Verify, emit, write."""
    from eqkir.driver.provider import spell
    from eqkir.program.verify import verify

    program = programs.read(path)
    if bad := verify(program):
        raise EqkirError(*bad)
    source = spell(program).source
    if out:
        write_atomic(out, source)
    else:
        sys.stdout.write(source)
    return 0
