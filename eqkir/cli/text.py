"""Diagnostics and tables as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eqkir.base.diagnostics import Diagnostic
from eqkir.driver.outcome import Outcome


def diagnostic_line(d: dict[str, Any]) -> str:
    """One diagnostic in its JSON form as one line."""
    known = ("code", "message", "pointer", "file", "line", "accepted", "stage")
    return str(Diagnostic(**{k: d[k] for k in known if d.get(k) is not None}))


def columns(rows: Iterable[tuple[str, ...]], indent: str = "") -> str:
    """Rows as left-aligned columns."""
    table = list(rows)
    widths = [max(len(r[i]) for r in table) for i in range(len(table[0]))] if table else []
    return "\n".join((indent + "  ".join(c.ljust(w) for c, w in zip(r, widths))).rstrip() for r in table)


def stopped(o: Outcome) -> str:
    """What ended the kernel's saturation before its fixed point; empty when it was reached, or never sought."""
    reason = str(o.saturation.get("stop") or "saturated")
    return "" if reason == "saturated" else reason


def stop_warning(o: Outcome) -> str:
    """One line that says that the search was cut short, or nothing."""
    reason = stopped(o)
    if not reason:
        return ""
    message = " ".join(str(o.saturation.get("message") or "").split())
    again = "" if o.saturation.get("reproducible", True) else "; another run may choose otherwise"
    return f"{o.file}: warning: {o.kernel}: saturation stopped by {reason}{f' ({message})' if message else ''}{again}"
