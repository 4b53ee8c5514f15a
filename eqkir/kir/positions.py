"""Lines of JSON pointers in a text, found on demand: only errors need them."""

from __future__ import annotations

import json
import re
from bisect import bisect_right

_SPACE = re.compile(r"[ \t\r\n]*")


def _nothing(_: str) -> int:
    return 0


_SKIP = json.JSONDecoder(parse_float=_nothing, parse_int=_nothing, parse_constant=_nothing, strict=False)


def escape(key: str) -> str:
    """A key as a token of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


class Positions:
    """The text of one JSON file and where its elements stand."""

    def __init__(self, text: str, file: str | None = None) -> None:
        self.text, self.file = text, file
        self._lines: list[int] = []
        self._elements: dict[int, list[int]] = {}

    def line_at(self, offset: int) -> int:
        """The line (from 1) of a character."""
        if not self._lines:
            self._lines = [m.end() for m in re.finditer("\n", self.text)] or [len(self.text) + 1]
        return bisect_right(self._lines, offset) + 1

    def locate(self, pointer: str) -> tuple[str | None, int | None]:
        """(file, line) of the element at `pointer`, or of its nearest ancestor that exists."""
        try:
            return self.file, self.line_at(self._offset(pointer))
        except (ValueError, RecursionError):
            return self.file, None

    def _space(self, i: int) -> int:
        m = _SPACE.match(self.text, i)
        return m.end() if m else i

    def _offset(self, pointer: str) -> int:
        at = self._space(0)
        for token in pointer.split("/")[1:]:
            child = self._child(at, token.replace("~1", "/").replace("~0", "~"))
            if child is None:
                return at
            at = child
        return at

    def _child(self, at: int, token: str) -> int | None:
        """The offset of a member of the container at `at`."""
        text = self.text
        opening = text[at : at + 1]
        if opening not in ("{", "["):
            return None
        if opening == "[":
            return self._element(at, token)
        i = self._space(at + 1)
        found: int | None = None
        while text[i : i + 1] not in ("", "}"):
            key, i = _SKIP.raw_decode(text, i)
            i = self._space(self._space(i) + 1)
            if key == token:
                found = i  # the last of equal keys, as for the decoder
            i = self._next(i)
        return found

    def _next(self, i: int) -> int:
        """The offset after the value at `i` and a comma."""
        i = self._space(_SKIP.raw_decode(self.text, i)[1])
        return self._space(i + 1) if self.text[i : i + 1] == "," else i

    def _element(self, at: int, token: str) -> int | None:
        """The offset of an array's element; the elements met on the way are remembered."""
        if not token.isdecimal():
            return None
        n, starts = int(token), self._elements.setdefault(at, [])
        if not starts:
            first = self._space(at + 1)
            if self.text[first : first + 1] == "]":
                return None
            starts.append(first)
        while len(starts) <= n:
            i = self._next(starts[-1])
            if self.text[i : i + 1] in ("", "]"):
                return None
            starts.append(i)
        return starts[n]
