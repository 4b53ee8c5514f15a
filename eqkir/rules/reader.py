"""egglog text as nodes with positions, in time and memory linear in the text; nothing in it is run.

A node knows where it stands (line and column from 1, in characters), so that every diagnosis points into the author's file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from eqkir.base.diagnostics import Diagnostic, EqkirError, register

E_SYNTAX = register(
    "EQK-RUL-002",
    "malformed rule file",
    "Parentheses or strings do not balance, nesting is deeper than 200, a string or a name is longer than 256 characters or no printable "
    "ASCII, a number needs more than 64 bits, or the file holds more than 2000 commands.",
)
#: limits of one file
DEPTH, LENGTH, COMMANDS = 200, 256, 2000
_TOKEN = re.compile(r'\s+|(?P<comment>;[^\n]*)|(?P<open>\()|(?P<close>\))|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<atom>[^\s();"]+)|(?P<bad>.)')
_INT = re.compile(r"[+-]?\d+")


@dataclass(frozen=True, slots=True)
class Node:
    """A list of nodes, a string (`text` without quotes), an integer or a name. `start` and `end` are offsets into the file."""

    kind: Literal["list", "string", "int", "name"]
    text: str
    items: tuple[Node, ...]
    line: int
    column: int
    start: int
    end: int

    @property
    def head(self) -> str:
        """The name that a list begins with, else an empty text."""
        return self.items[0].text if self.items and self.items[0].kind == "name" else ""

    @property
    def rest(self) -> tuple[Node, ...]:
        return self.items[1:]

    def walk(self) -> Iterator[Node]:
        """This node and all below, in the order of the text."""
        yield self
        for x in self.items:
            yield from x.walk()

    def __str__(self) -> str:
        match self.kind:
            case "list":
                return f"({' '.join(map(str, self.items))})"
            case "string":
                return f'"{self.text}"'
            case _:
                return self.text


@dataclass(frozen=True, slots=True)
class Comment:
    text: str
    line: int


def read_nodes(text: str, path: str) -> tuple[list[Node], list[Comment]]:
    """The commands of a file and the comments that stand between them. Raises EqkirError EQK-RUL-002."""

    def err(message: str, at: int) -> EqkirError:
        line, column = place(at)
        return EqkirError(Diagnostic(E_SYNTAX, message, file=path, line=line, column=column, stage="rules"))

    def place(at: int) -> tuple[int, int]:
        return line, at - line_start + 1

    done: list[Node] = []
    comments: list[Comment] = []
    stack: list[tuple[list[Node], int, int, int]] = []  # items, line, column, start
    line, line_start = 1, 0
    for m in _TOKEN.finditer(text):
        kind, token, at = m.lastgroup, m.group(), m.start()
        if kind == "comment":
            if not stack:
                comments.append(Comment(token[1:].strip(), line))
        elif kind == "open":
            if len(stack) == DEPTH:
                raise err(f"nested deeper than {DEPTH}", at)
            if not stack and len(done) == COMMANDS:
                raise err(f"more than {COMMANDS} commands", at)
            stack.append(([], *place(at), at))
        elif kind == "close":
            if not stack:
                raise err("unbalanced )", at)
            items, ln, col, start = stack.pop()
            n = Node("list", "", tuple(items), ln, col, start, m.end())
            (stack[-1][0] if stack else done).append(n)
        elif kind in ("atom", "string"):
            if not stack:
                raise err(f"{token[:40]} outside a command", at)
            if not (token.isascii() and token.isprintable()):
                raise err(f"{ascii(token[:40])} holds other characters than printable ASCII", at)
            if len(token) > LENGTH:
                raise err(f"{token[:20]}… has more than {LENGTH} characters", at)
            if kind == "string":
                if "\\" in token:
                    raise err("escapes have no place in the strings of a rule", at)
                stack[-1][0].append(Node("string", token[1:-1], (), *place(at), at, m.end()))
            elif _INT.fullmatch(token):
                if not -(1 << 63) <= int(token) < 1 << 63:
                    raise err(f"{token[:40]} needs more than 64 bits", at)
                stack[-1][0].append(Node("int", token, (), *place(at), at, m.end()))
            else:
                stack[-1][0].append(Node("name", token, (), *place(at), at, m.end()))
        elif kind == "bad":
            raise err(f"unexpected {token!r}" if token != '"' else "a string without end", at)
        newlines = token.count("\n")
        if newlines:
            line += newlines
            line_start = at + token.rfind("\n") + 1
    if stack:
        _, ln, col, _ = stack[0]
        raise EqkirError(Diagnostic(E_SYNTAX, "unbalanced (", file=path, line=ln, column=col, stage="rules"))
    return done, comments
