"""The tables of a report as Markdown, for documents that are read as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from eqkir.lab.figures import Group, summaries


def percent(x: float) -> str:
    """A share with a sensible number of digits."""
    return "–" if x == inf else f"{100 * x:.3g} %"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: `head` and rows of as many texts."""
    lines = ["| " + " | ".join(r) + " |" for r in rows]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines]) + "\n"


def extractor_table(found: Sequence[Group]) -> str:
    """One line an extractor."""
    head = ["extractor", "outcomes", "at best known", "within 1 %", "95th percentile", "largest gap", "CPU s (geo. mean)"]
    rows = [
        [
            s.extractor, ", ".join(f"{v} {k}" for k, v in s.status.items()), percent(s.at_best), percent(s.within), percent(s.tail_gap),
            percent(s.worst_gap), f"{s.seconds:.2g}",
        ]
        for s in summaries(found)
    ]  # fmt: skip
    return table(head, rows)


def group_table(found: Sequence[Group], extractors: Sequence[str]) -> str:
    """One line an instance and cost model: gap to the best known cost and CPU seconds, ``*`` where proved optimal, ``t`` where stopped."""
    many = len({g.model for g in found}) > 1
    rows = []
    for g in found:
        bound = "proved" if g.closed else f"≥ {g.bound:.6g}"
        line = [g.instance + (f" · {g.model}" if many else ""), str(max(c.enodes for c in g.cells)), f"{g.best:.6g}", bound]
        for x in extractors:
            cells = [c for c in g.cells if c.extractor == x]
            line.append("; ".join(_entry(c.gap, c.status, c.seconds) for c in cells) or "")
        rows.append(line)
    return table(["instance", "e-nodes", "best known", "bound", *extractors], rows)


def _entry(gap: float, status: str, seconds: float) -> str:
    if gap == inf:
        return status
    return f"{percent(gap)}{'*' if status == 'optimal' else ' t' if status == 'timeout' else ''} ({seconds:.2g} s)"
