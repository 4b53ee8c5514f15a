"""Tables of an experiment as Parquet (extra ``parquet``), with numbers as numbers and nothing where a cell is empty."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from eqkir.base.diagnostics import fail, register
from eqkir.lab.experiment import read

EXTRA = register(
    "EQK-LAB-EXTRA", "an extra is missing", "What was asked for needs a package that is not installed; the message names the extra."
)
TABLES = ("cells", "instances", "correlation", "scaling")


def write_parquet(folder: Path, out: Path) -> list[Path]:
    """Write ``<out>/<table>.parquet`` for every table of an experiment that has rows. Raises `EqkirError`, EQK-LAB-EXTRA."""
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise fail(EXTRA, "pyarrow is not installed", accepted="pip install 'eqkir[parquet]'; CSV needs nothing", stage="options") from None
    written = []
    for name in TABLES:
        rows = read(folder / f"{name}.csv")
        if rows:
            path = out / f"{name}.parquet"
            parquet.write_table(arrow.table({c: typed([r[c] for r in rows]) for c in rows[0]}), path)
            written.append(path)
    return written


def typed(column: list[str]) -> list[Any]:
    """Whole numbers, numbers or texts, whichever all of a column are; None where a cell is empty."""
    for kind in (int, float):
        try:
            return [kind(x) if x else None for x in column]
        except ValueError:
            continue
    return [x or None for x in column]
