"""Paths of the command line -> kernels to work on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from eqkir.base.diagnostics import fail
from eqkir.driver import codes


def kir_files(paths: Iterable[Path]) -> list[Path]:
    """Files as given, folders expanded to the modules below them in sorted order; no path twice.

    Below a folder every ``*.json`` counts (hidden folders, and those that hold a file ``.eqkirignore``, left out) except one that is
    well-formed JSON of another kind: no object, or an object with neither ``kir`` nor ``kernels``. A file that does not exist stays in
    the list: reading it gives its diagnosis. Raises EqkirError EQK-RUN-PATH for a folder without a module.
    """
    out: dict[Path, None] = {}
    for p in paths:
        if not p.is_dir():
            out[p] = None
            continue
        left_out = {f.parent for f in p.rglob(".eqkirignore")} - {p}
        every = sorted(f for f in p.rglob("*.json") if not any(x.startswith(".") for x in f.relative_to(p).parts))
        every = [f for f in every if left_out.isdisjoint(f.parents)]
        found = [f for f in every if not _of_another_kind(f)]
        if not found:
            raise fail(codes.PATH, f"no KIR module (*.json) under {p}", stage="options")
        out.update(dict.fromkeys(found))
    return list(out)


def _of_another_kind(path: Path) -> bool:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False  # broken: its diagnosis is due
    return not isinstance(data, dict) or not ("kir" in data or "kernels" in data)
