"""What extraction knows and assumes about extents: pinned shapes, bounds of symbols, and one documented default for the rest."""

from __future__ import annotations

from collections.abc import Mapping

from eqkir.base.expr import Expr, atoms, evaluate
from eqkir.program.abi import Abi

#: assumed value of an extent symbol that nothing pins, clipped into the symbol's own bounds
DEFAULT_EXTENT = 4096


class Extents:
    """`bound` is what may be relied on; `estimate` is for costs only.

    A value of `shapes` counts as a bound: whoever relies on it records a precondition (`eqkir.extract.choose`).
    """

    def __init__(self, abi: Abi, shapes: Mapping[str, int] | None = None) -> None:
        self.shapes = dict(shapes or {})
        self._known: dict[str, int] = {**{s.name: s.hi for s in abi.symbols if s.hi is not None}, **self.shapes}
        self._guess: dict[str, int] = {}
        for s in abi.symbols:
            v = max(s.lo, DEFAULT_EXTENT if s.hi is None else min(DEFAULT_EXTENT, s.hi))
            self._guess[s.name] = v - v % s.multiple_of if v >= s.multiple_of else v
        self._guess.update(self.shapes)

    def bound(self, e: Expr) -> int | None:
        """An upper bound, or None: an integer, a pinned expression, or a symbol with a declared upper bound."""
        if e.value is not None:
            return int(e.value)
        names = {a.args[0] for a in atoms(e)}
        pinned = names <= self.shapes.keys()
        if not (pinned or (_monotone(e) and names <= self._known.keys())):
            return None
        try:
            return max(0, int(evaluate(e, self.shapes if pinned else self._known)))
        except ZeroDivisionError:
            return None

    def guess(self, name: str) -> int:
        """The value that costs assume for a symbol or integer scalar."""
        return self._guess.get(name, DEFAULT_EXTENT)

    def estimate(self, e: Expr) -> int:
        """A value >= 0 for costs: pins, else defaults; an expression that cannot be evaluated counts as `DEFAULT_EXTENT`."""
        try:
            return max(0, int(evaluate(e, lambda a: self._guess.get(str(a.args[0]), DEFAULT_EXTENT))))
        except (ZeroDivisionError, KeyError, TypeError):
            return DEFAULT_EXTENT


def _monotone(e: Expr) -> bool:
    """Whether the value grows with every symbol (symbols are >= 0), so that upper bounds give an upper bound."""
    match e.op:
        case "sym":
            return True
        case "int":
            return bool(e.args[0] >= 0)
        case "add" | "mul" | "min" | "max":
            return all(_monotone(a) for a in e.args)
        case "floordiv":
            return _monotone(e.args[0]) and (e.args[1].value or 0) > 0
    return False


def next_pow2(n: int) -> int:
    """The smallest power of two >= n (1 for n <= 1)."""
    return 1 << max(0, n - 1).bit_length()
