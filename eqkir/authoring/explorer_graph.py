"""The e-graph of a page: classes with their alternatives in a compact form, and what was left out.

A class is ``[number, sort, dtype, origin, alternatives]``, an alternative ``[operation, attributes, space, place, implementation, operand
classes]``; the texts are numbers of entries of one table (`Texts`). Whole classes are kept or left out: those of the chosen program
first, then in the graph's own order (breadth first from the root), until the next one would exceed the limit of e-nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from eqkir.base.expr import Expr
from eqkir.extract.graph import ENode, FrozenGraph, Selection

#: characters of one text (an attribute, an origin, a label); longer ones are cut, and counted
LONGEST = 300


@dataclass
class Texts:
    """A table of distinct texts. `cut`: how many distinct ones were longer than `LONGEST`."""

    table: list[str] = field(default_factory=list)
    cut: int = 0
    _at: dict[str, int] = field(default_factory=dict, repr=False)

    def add(self, text: str) -> int:
        """The number of a text."""
        if text not in self._at:
            self._at[text] = len(self.table)
            self.cut += len(text) > LONGEST
            self.table.append(shorten(text))
        return self._at[text]


def shorten(text: str, longest: int = LONGEST) -> str:
    """The text, or its beginning and how many characters follow."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest} more characters)"


def kept_classes(g: FrozenGraph, chosen: Selection | None, most: int) -> list[int]:
    """Numbers of the classes that a page shows, ascending; together they have at most `most` e-nodes (0: no limit)."""
    mine = set(chosen or ())
    kept, room = [], most if most else g.enodes
    for c in [*sorted(mine), *(c for c in range(len(g.classes)) if c not in mine)]:
        room -= len(g.classes[c])
        if room < 0:
            break
        kept.append(c)
    return sorted(kept)


def origins_of(g: FrozenGraph, kernel: str) -> list[str]:
    """KIR origins of the classes, without the kernel's own name; a value behind ``FReady`` has that of the value that waits for it."""
    out = list(g.origins) or [""] * len(g.classes)
    for c, ns in enumerate(g.classes):
        for n in ns:
            if n.op == "FReady" and out[c] and not out[n.kids[0]]:
                out[n.kids[0]] = out[c]
    return [x.removeprefix(f"{kernel} ") for x in out]


def graph_data(g: FrozenGraph, kept: Iterable[int], origins: list[str], texts: Texts) -> list[list[Any]]:
    """The kept classes in the form of the page."""
    return [
        [c, texts.add(g.sorts[c]), texts.add(g.dtypes[c]), texts.add(origins[c]), [_alternative(n, texts) for n in g.classes[c]]]
        for c in kept
    ]


def _alternative(n: ENode, texts: Texts) -> list[Any]:
    space = ", ".join(n.labels) if n.labels else ""
    place = " > ".join(f"{label}#{stage}" for _, label, stage in n.path) if n.path else ""
    attributes = " ".join(map(_attribute, n.attrs))
    return [texts.add(n.op), texts.add(attributes), texts.add(space), texts.add(place), texts.add(n.by), list(n.kids)]


def _attribute(a: Any) -> str:
    if isinstance(a, tuple):
        return f"[{', '.join(map(_attribute, a))}]"
    return str(a) if isinstance(a, (Expr, str)) else repr(a)
