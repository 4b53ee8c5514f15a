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
        i, n = self._space(at + 1), 0
        found: int | None = None
        while text[i : i + 1] not in ("", "}", "]"):
            key = str(n)
            if opening == "{":
                key, i = _SKIP.raw_decode(text, i)
                i = self._space(self._space(i) + 1)
            if key == token:
                if opening == "[":
                    return i
                found = i  # the last of equal keys, as for the decoder
            _, i = _SKIP.raw_decode(text, i)
            i = self._space(i)
            if text[i : i + 1] == ",":
                i = self._space(i + 1)
            n += 1
        return found
