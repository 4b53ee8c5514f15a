"""Paths of the command line -> kernels to work on."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from eqkir.base.diagnostics import fail
from eqkir.base.files import read_regular
from eqkir.driver import codes

MAX_BYTES = 64 << 20


def kir_files(paths: Iterable[Path]) -> list[Path]:
    """Files as given, folders expanded to the modules below them in sorted order; no path twice.

    Below a folder every ``*.json`` counts (hidden folders, and those that hold a file ``.eqkirignore``, left out) except one that is
    well-formed JSON of another kind: no object, or an object with neither ``kir`` nor ``kernels``. A file that does not exist stays in
    the list: reading it gives its diagnosis. Raises EqkirError EQK-RUN-PATH for a folder without a module.
    """
    out: dict[Path, None] = {}
    for p in paths:
        if p.suffix == ".egg":
            raise fail(codes.USAGE, f"{p} is a rule file, not KIR; did you mean --rules {p}?", stage="options")
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
        data = json.loads(read_regular(path, MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return False  # broken: its diagnosis is due
    return not isinstance(data, dict) or not ("kir" in data or "kernels" in data)


def writable_folder(out: Path) -> None:
    """Create the folder for artifacts, and see that a file can be made in it. Raises EqkirError EQK-RUN-OUTPUT."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except (OSError, ValueError) as e:
        reason = "it is no folder" if isinstance(e, FileExistsError) else getattr(e, "strerror", None) or str(e)
        raise fail(codes.OUTPUT, f"cannot write artifacts under {out}: {reason}", accepted="a folder", stage="options") from None


def writable_file(path: Path) -> None:
    """See that a file can be made or replaced. Raises EqkirError EQK-RUN-OUTPUT: no such folder, not permitted, not a regular file."""
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            reason = "it is no regular file"
        elif not path.parent.is_dir():
            reason = f"there is no folder {path.parent}"
        else:
            reason = "" if os.access(path if path.exists() else path.parent, os.W_OK) else "it is not permitted"
            if not reason:
                with tempfile.TemporaryFile(dir=path.parent):
                    return
    except (OSError, ValueError) as e:
        reason = getattr(e, "strerror", None) or str(e)
    raise fail(codes.OUTPUT, f"cannot write {path}: {reason}", accepted="a file in a folder that can be written", stage="options")
