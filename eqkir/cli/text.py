"""Diagnostics and tables as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eqkir.base.diagnostics import Diagnostic


def diagnostic_line(d: dict[str, Any]) -> str:
    """One diagnostic in its JSON form as one line."""
    known = ("code", "message", "pointer", "file", "line", "accepted", "stage")
    return str(Diagnostic(**{k: d[k] for k in known if d.get(k) is not None}))


def columns(rows: Iterable[tuple[str, ...]], indent: str = "") -> str:
    """Rows as left-aligned columns."""
    table = list(rows)
    widths = [max(len(r[i]) for r in table) for i in range(len(table[0]))] if table else []
    return "\n".join((indent + "  ".join(c.ljust(w) for c, w in zip(r, widths))).rstrip() for r in table)
