"""A cursor over JSON data whose failed expectations are diagnostics with a JSON pointer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqkir.base import expr as E
from eqkir.base.diagnostics import EqkirError, fail, register
from eqkir.base.expr import Expr

EQK_PRG_JSON = register(
    "EQK-PRG-JSON", "not a program",
    "The JSON has not the shape of a program: a key is missing or unknown, a value has the wrong type, or an operation has the wrong "
    "attributes. The pointer says where.",
)  # fmt: skip
EXPR_DEPTH = 200


class Reader:
    """One place in JSON data."""

    def __init__(self, data: Any, pointer: str = "") -> None:
        self.data, self.pointer = data, pointer

    def bad(self, what: str, accepted: str = "") -> EqkirError:
        """The diagnosis that this place `what`."""
        shown = repr(self.data)
        return fail(EQK_PRG_JSON, f"{shown if len(shown) <= 60 else shown[:57] + '...'} {what}", self.pointer, accepted, stage="program")

    def keys(self, names: Sequence[str], optional: Sequence[str] = ()) -> None:
        if not isinstance(self.data, dict):
            raise self.bad("is not an object")
        for k in sorted(self.data, key=str):
            if k not in names:
                raise self.bad(f"has the unknown key {str(k)[:40]!r}", ", ".join(names))
        for k in names:
            if k not in self.data and k not in optional:
                raise self.bad(f"lacks the key {k!r}")

    def has(self, key: str) -> bool:
        return isinstance(self.data, dict) and key in self.data

    def at(self, key: str) -> Reader:
        return Reader(self.data[key], f"{self.pointer}/{key}")

    def get(self, key: str, default: Any) -> Reader:
        return Reader(self.data.get(key, default), f"{self.pointer}/{key}")

    def items(self) -> list[Reader]:
        if not isinstance(self.data, (list, tuple)):
            raise self.bad("is not a list")
        return [Reader(x, f"{self.pointer}/{i}") for i, x in enumerate(self.data)]

    def entries(self) -> list[tuple[str, Reader]]:
        if not isinstance(self.data, dict) or not all(isinstance(k, str) for k in self.data):
            raise self.bad("is not an object")
        return [(k, Reader(v, f"{self.pointer}/{k}")) for k, v in self.data.items()]

    def integer(self) -> int:
        if not isinstance(self.data, int) or isinstance(self.data, bool):
            raise self.bad("is not an integer")
        return self.data

    def boolean(self) -> bool:
        if not isinstance(self.data, bool):
            raise self.bad("is not true or false")
        return self.data

    def text(self) -> str:
        if not isinstance(self.data, str):
            raise self.bad("is not a text")
        return self.data

    def one_of(self, names: Sequence[str]) -> str:
        if not isinstance(self.data, str) or self.data not in names:
            raise self.bad("is unknown", ", ".join(names))
        return self.data

    def ints(self) -> tuple[int, ...]:
        return tuple(x.integer() for x in self.items())

    def strs(self) -> tuple[str, ...]:
        return tuple(x.text() for x in self.items())

    def expr(self) -> Expr:
        """An expression, unfolded. Raises EqkirError."""
        self._check_expr(self.data, 0)
        try:
            return E.from_json(self.data)
        except ValueError:
            raise self.bad("is not an expression") from None

    def _check_expr(self, j: Any, depth: int) -> None:
        if depth > EXPR_DEPTH:
            raise self.bad("is nested too deeply")
        if isinstance(j, list):
            if len(j) == 2 and j[0] in ("sym", "coord", "param", "lid", "dep"):
                if not isinstance(j[1], int if j[0] == "dep" else str) or isinstance(j[1], bool):
                    raise self.bad("is not an expression")
                return
            for x in j[1:]:
                self._check_expr(x, depth + 1)
