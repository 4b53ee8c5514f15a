"""Texts of a page: listings of programs, each kept once, and what changes from one to another, line by line."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from eqkir.authoring.explorer_graph import shorten

#: lines of one listing, and characters of one line; longer ones are cut, and counted
LINES, LINE = 3_000, 400
_TAGS = {"equal": "=", "replace": "~", "delete": "-", "insert": "+"}


@dataclass
class Listings:
    """`texts`: distinct listings as lines; `lost[i]`: how many lines of the i-th were left out; `shortened`: lines that were cut."""

    texts: list[list[str]] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    shortened: int = 0
    _at: dict[str, int] = field(default_factory=dict, repr=False)
    _pairs: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)
    pairs: list[dict[str, Any]] = field(default_factory=list)

    def add(self, text: str) -> int:
        """The number of a listing."""
        if text not in self._at:
            lines = text.splitlines()
            self._at[text] = len(self.texts)
            self.lost.append(max(0, len(lines) - LINES))
            self.shortened += sum(len(x) > LINE for x in lines[:LINES])
            self.texts.append([shorten(x, LINE) for x in lines[:LINES]])
        return self._at[text]

    def pair(self, before: str, after: str) -> int:
        """The number of a comparison: runs of lines that are equal (``=``), replaced (``~``), gone (``-``) or new (``+``)."""
        key = self.add(before), self.add(after)
        if key not in self._pairs:
            left, right = self.texts[key[0]], self.texts[key[1]]
            runs = SequenceMatcher(None, left, right, autojunk=len(left) + len(right) > 2_000).get_opcodes()
            self._pairs[key] = len(self.pairs)
            self.pairs.append({"before": key[0], "after": key[1], "runs": [[_TAGS[t], *at] for t, *at in runs]})
        return self._pairs[key]
