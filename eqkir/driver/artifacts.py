"""Files of a kernel, written whole or not at all, byte for byte the same for the same content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from eqkir.base.files import write_atomic


def canonical(value: Any) -> str:
    """JSON text with sorted keys, two-space indent, a final newline. Raises ValueError for NaN and infinities."""
    return json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def digest(text: str | bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def write_kernel(
    folder: Path, source: str, program: str, manifest: dict[str, Any], report: dict[str, Any], name: str = "kernel.py"
) -> None:
    """The source under its `name`, ``program.json``, ``report.json`` and, last, ``manifest.json``, whose presence says that the set is
    complete.

    An older manifest goes first, so that a set that was interrupted has none, and native code of an older kernel goes with it. Raises
    OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in ("manifest.json", "native.json", "kernel.so", "pool.so"):
        (folder / old).unlink(missing_ok=True)
    write_atomic(folder / name, source)
    write_atomic(folder / "program.json", program)
    write_atomic(folder / "report.json", canonical(report))
    write_atomic(folder / "manifest.json", canonical(manifest))


__all__ = ["canonical", "digest", "write_atomic", "write_kernel"]
