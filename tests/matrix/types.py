"""A case of a check: extents, and how inputs lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    symbols: tuple[tuple[str, int], ...]
    variant: str
    constexprs: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return " ".join([*(f"{k}={v}" for k, v in (*self.symbols, *self.constexprs)), self.variant])
