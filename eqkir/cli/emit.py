"""`eqkir emit`: program.json to source. It never touches KIR."""

from __future__ import annotations

import sys
from pathlib import Path

from eqkir.base.diagnostics import EqkirError
from eqkir.driver import programs
from eqkir.driver.artifacts import write_atomic
from eqkir.driver.files import writable_file


def main(path: Path, out: Path | None) -> int:
    """Verify, emit, write."""
    from eqkir.driver.provider import spell
    from eqkir.program.verify import verify

    if out:
        writable_file(out)
    program = programs.read(path)
    if bad := verify(program):
        raise EqkirError(*bad)
    source = spell(program).source
    if out:
        write_atomic(out, source)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(source.encode())
        sys.stdout.buffer.flush()
    return 0
