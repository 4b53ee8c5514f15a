"""Which values of dtype ``index`` (64 bits) can be carried in the kernel's index type, 32 bits wide where the launch allows it.

A value is *small* when its magnitude is bounded by launch expressions; they join the integers that decide the index type. The two extreme
64-bit values, the usual identities of arg-reductions, are carried as the extremes of the index type: an order isomorphism, so values
that may be extreme take part in comparisons, selections, maxima and minima only, and come back exactly when they are widened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eqkir.base.expr import Expr, Int
from eqkir.emit.triton.forms import COMPARE
from eqkir.program.model import Item, Let, Loop, Region

EXTREMES = {str(2**63 - 1): "max", str(-(2**63)): "min"}
LIMIT = 4  # launch expressions kept for one value


@dataclass(frozen=True, slots=True)
class Small:
    """`bounds`: the magnitude is at most the largest of them; `extremes`: which of ``max`` and ``min`` the value may be besides."""

    bounds: frozenset[Expr]
    extremes: frozenset[str] = frozenset()

    def join(self, o: Small) -> Small | None:
        both = self.bounds | o.bounds
        return Small(both, self.extremes | o.extremes) if len(both) <= LIMIT else None


Width = Small | None


def combined(fn: str, a: Small, b: Small) -> Width:
    """Arithmetic on values that are not extreme."""
    if a.extremes or b.extremes:
        return None
    if fn in ("add", "sub"):
        out = frozenset(x + y for x in a.bounds for y in b.bounds)
    elif fn == "mul":
        out = frozenset(x * y for x in a.bounds for y in b.bounds)
    elif fn in ("floordiv", "mod"):
        out = a.bounds if fn == "floordiv" else b.bounds
    else:
        return None
    return Small(out) if len(out) <= LIMIT else None


def constant(text: str) -> Width:
    if text in EXTREMES:
        return Small(frozenset(), frozenset((EXTREMES[text],)))
    return Small(frozenset((Int(abs(int(text))),))) if abs(int(text)) < 2**31 - 1 else None


class Widths:
    """The widths of one phase. `bound` gives the magnitude of an index expression's value."""

    def __init__(self, items: tuple[Item, ...], bound: Callable[[Expr], Expr]) -> None:
        self.bound = bound
        self.of: dict[int, Width] = {}
        self.parts: dict[int, tuple[Width, ...]] = {}  # of generic reductions
        self.dtypes: dict[int, str] = {}
        self.block(items)

    def small(self, i: int) -> Small | None:
        return self.of.get(i)

    def reach(self) -> set[Expr]:
        """Integers that the index type must hold."""
        return {e for w in self.of.values() if w for e in w.bounds}

    def block(self, items: tuple[Item, ...]) -> None:
        for i in items:
            if isinstance(i, Let):
                self.dtypes[i.id] = i.dtype
                if i.op in ("FragRedN", "FragScanN"):
                    self.parts[i.id] = self.region(i.attrs[1], [self.of.get(a) for a in i.args])
                elif i.dtype == "index":
                    self.of[i.id] = self.let(i)
            elif isinstance(i, Loop):
                self.loop(i)

    def loop(self, x: Loop) -> None:
        """Carries start as their inits and grow to what comes round; one that does not settle is wide."""
        mine = [c for c in x.carries if c.dtype == "index"]
        state: dict[int, Width] = {c.id: self.of.get(c.inits[0]) for c in mine}
        for _ in range(3):
            self.of |= state
            self.block(x.body)
            grown = {c.id: joined(state[c.id], self.of.get(c.args[0])) for c in mine}
            if grown == state:
                return
            state = grown
        self.of |= dict.fromkeys(state)
        self.block(x.body)

    def let(self, x: Let) -> Width:
        args = [self.of.get(a) if self.dtypes.get(a, "index") == "index" else None for a in x.args]
        match x.op:
            case "Const":
                return constant(x.attrs[0])
            case "Index":
                return Small(frozenset((self.bound(x.attrs[0]),))) if not x.args else None
            case "Splat" | "Trans":
                return args[0]
            case "Pick":
                return self.parts[x.args[0]][int(x.attrs[0])]
            case "FragRed":
                return args[0] if x.attrs[0] in ("max", "min") else None
            case "Tri" if x.attrs[0] == "select":
                return joined(args[1], args[2])
            case "Bin":
                return pointwise(x.attrs[0], args[0], args[1])
        return None

    def region(self, r: Region, args: list[Width]) -> tuple[Width, ...]:
        """A component stays small when the combine only selects among components."""
        env: dict[int, Width] = {}
        index_ids: set[int] = set()
        fine = True
        for x in r.body:
            operands = [env.get(a) for a in x.args if a in index_ids]
            if x.dtype == "index":
                index_ids.add(x.id)
            if x.op == "Arg":
                env[x.id] = args[x.attrs[1]] if x.dtype == "index" else None
            elif x.op == "Tri" and x.attrs[0] == "select" and x.dtype == "index":
                env[x.id] = joined(env.get(x.args[1]), env.get(x.args[2]))
            elif x.op == "Bin" and x.attrs[0] in ("maximum", "minimum") and x.dtype == "index":
                env[x.id] = joined(env.get(x.args[0]), env.get(x.args[1]))
            elif x.dtype == "index" or (operands and not (x.op == "Bin" and x.attrs[0] in COMPARE)):
                fine = False  # it must see 64-bit values
            fine = fine and all(o is not None for o in operands)
        out = [env.get(y) for y in r.yields]
        index = [k for k, t in enumerate(r.dtypes) if t == "index"]
        if fine and all(out[k] is not None and out[k] == args[k] for k in index):
            return tuple(args[k] if k in index else None for k in range(len(args)))
        return tuple(None for _ in args)


def joined(a: Width, b: Width) -> Width:
    return a.join(b) if a is not None and b is not None else None


def pointwise(fn: str, a: Width, b: Width) -> Width:
    if a is None or b is None:
        return None
    return a.join(b) if fn in ("maximum", "minimum", "maximum_num", "minimum_num") else combined(fn, a, b)


__all__ = ["Small", "Widths"]
