"""Paths of the command line -> kernels to work on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from eqkir.base.diagnostics import fail
from eqkir.driver import codes


def kir_files(paths: Iterable[Path]) -> list[Path]:
    """Files as given, folders expanded to their ``*.json`` at any depth in sorted order (hidden folders left out); no path twice.

    A file that does not exist stays in the list: reading it gives its diagnosis. Raises EqkirError EQK-RUN-PATH for a folder with none.
    """
    out: dict[Path, None] = {}
    for p in paths:
        if not p.is_dir():
            out[p] = None
            continue
        found = sorted(f for f in p.rglob("*.json") if not any(x.startswith(".") for x in f.relative_to(p).parts))
        if not found:
            raise fail(codes.PATH, f"no *.json under {p}", stage="options")
        out.update(dict.fromkeys(found))
    return list(out)
