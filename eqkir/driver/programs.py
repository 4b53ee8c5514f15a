"""``program.json``: canonical text of a program, and back. KIR is not needed."""

from __future__ import annotations

import json
from pathlib import Path

from eqkir.base.diagnostics import fail
from eqkir.base.files import read_regular
from eqkir.driver import codes
from eqkir.driver.artifacts import canonical
from eqkir.program.model import Program
from eqkir.program.serialize import from_json, to_json

MAX_BYTES = 64 << 20


def dumps(program: Program) -> str:
    """The text of ``program.json``."""
    return canonical(to_json(program))


def loads(text: str) -> Program:
    """Inverse of `dumps`. Raises EqkirError: EQK-RUN-PROGRAM for what is not JSON, EQK-PRG-JSON for what is no program."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise fail(codes.PROGRAM, f"not JSON: {e}", stage="read") from None
    if isinstance(data, dict) and "program" not in data and ("kir" in data or "kernels" in data):
        raise fail(codes.PROGRAM, "this is KIR: use `eqkir optimize`", accepted="a program.json", stage="read")
    return from_json(data)


def read(path: Path) -> Program:
    """The program in a file. Raises EqkirError."""
    try:
        data = read_regular(path, MAX_BYTES)
        if len(data) > MAX_BYTES:
            raise fail(codes.PROGRAM, f"{path}: larger than {MAX_BYTES} bytes", stage="read")
        return loads(data.decode("utf-8"))
    except OSError as e:
        raise fail(codes.PROGRAM, f"{path}: {e.strerror or e}", stage="read") from None
    except ValueError as e:  # no UTF-8, a null character in the path
        raise fail(codes.PROGRAM, f"{path}: {e}", stage="read") from None


def is_program(path: Path) -> bool:
    """Whether the file holds a JSON object that says it is a program."""
    try:
        data = json.loads(read_regular(path, MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and "program" in data and "segments" in data


__all__ = ["dumps", "is_program", "loads", "read"]
