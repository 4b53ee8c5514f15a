"""Equality and sign of extents: linear normal form over symbols, with declared equalities and divisibilities.

An extent is brought to a sum of monomials (products of atoms times an integer); an atom is a symbol or a `floordiv`, `mod`,
`min`, `max` of normalised operands. Two extents are equal iff their normal forms are: unknown means not equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from eqkir.base.expr import Expr, Int, Sym, add, atoms, mul, rebuild, spell, sub

if TYPE_CHECKING:
    from eqkir.kir.model import Symbol

TERMS = 512  # a normal form has at most so many monomials; what needs more is unknown
Poly = dict[tuple[Expr, ...], int]  # monomial (sorted atoms) -> coefficient


def _key(e: Expr) -> tuple[int, str]:
    return (0 if e.op == "sym" else 1, spell(e))


class TooComplex(ValueError):
    """A normal form with too many monomials."""


class Extents:
    """The relations between the extents of one kernel."""

    def __init__(self, symbols: Iterable[Symbol] = (), equal: Iterable[tuple[str, str]] = (), lengths: Iterable[str] = ()) -> None:
        """`lengths`: further names that are not negative (constexprs that views have as extents)."""
        self.symbols: dict[str, Symbol] = {s.id: s for s in symbols}
        self._order = {s: i for i, s in enumerate(self.symbols)}
        self._parent = {s: s for s in self.symbols}
        for a, b in equal:
            if a in self._parent and b in self._parent:
                x, y = sorted((self.find(a), self.find(b)), key=self._order.__getitem__)
                self._parent[y] = x
        members: dict[str, list[Symbol]] = {}
        for s in self.symbols.values():
            members.setdefault(self.find(s.id), []).append(s)
        self._forms: dict[tuple[Expr, bool], Poly] = {}
        self._least = {r: max(s.min for s in ss) for r, ss in members.items()}
        self._least.update(dict.fromkeys(sorted(lengths), 0))
        self._multiples = {r: _lcm(s.multiple_of for s in ss) for r, ss in members.items()}

    def find(self, name: str) -> str:
        """The representative of a symbol: the first declared of its equals."""
        while self._parent.get(name, name) != name:
            name = self._parent[name]
        return name

    # ------------------------------------------------------------------ normal form
    def _poly(self, e: Expr, multiples: bool) -> Poly:
        if e.op == "int":
            return {(): e.args[0]} if e.args[0] else {}
        key = (e, multiples)
        if key not in self._forms:
            self._forms[key] = self._fresh(e, multiples)
        return self._forms[key]

    def _fresh(self, e: Expr, multiples: bool) -> Poly:
        match e.op:
            case "sym":
                name = self.find(e.args[0])
                k = self._multiples.get(name, 1) if multiples else 1
                atom = Expr("floordiv", (Sym(name), Int(k))) if k > 1 else Sym(name)
                return {(atom,): k}
            case "add" | "sub":
                return _sum(self._poly(e.args[0], multiples), self._poly(e.args[1], multiples), 1 if e.op == "add" else -1)
            case "mul":
                return _product(self._poly(e.args[0], multiples), self._poly(e.args[1], multiples))
            case "floordiv" | "mod":
                a, d = self._poly(e.args[0], multiples), e.args[1].value
                if d is None or d <= 0:
                    return {(self._atom(e, multiples),): 1}
                whole = {m: c // d for m, c in a.items() if c // d}
                part = {m: c % d for m, c in a.items() if c % d}
                if set(part) <= {()}:  # only a constant is left: 0 <= r < d
                    return whole if e.op == "floordiv" else part
                rest: Poly = {(rebuild(e.op, (_expr(part), Int(d))),): 1}
                return _sum(whole, rest, 1) if e.op == "floordiv" else rest
            case "min" | "max":
                a, b = self._poly(e.args[0], multiples), self._poly(e.args[1], multiples)
                for x, y in ((a, b), (b, a)):
                    if self._nonneg(_sum(x, y, -1)):  # x >= y
                        return x if e.op == "max" else y
                lo, hi = sorted((_expr(a), _expr(b)), key=_key)
                return {(rebuild(e.op, (lo, hi)),): 1}
        return {(self._atom(e, multiples),): 1}

    def _atom(self, e: Expr, multiples: bool) -> Expr:
        if not e.args or not isinstance(e.args[0], Expr):
            return e
        return rebuild(e.op, tuple(_expr(self._poly(a, multiples)) for a in e.args))

    def _nonneg(self, p: Poly) -> bool:
        """Whether the sum is provably >= 0: symbols at their declared minimum, products of extents nonnegative."""
        low = 0
        for m, c in p.items():
            least = 1
            for a in m:
                if a.op == "sym" and a.args[0] in self._least:
                    least *= self._least[a.args[0]]
                elif a.op in ("floordiv", "mod", "min", "max") and all(self.nonneg(x) for x in a.args):
                    least = 0
                else:
                    return False
            if c < 0 and m:
                return False
            low += c * least
        return low >= 0

    # ------------------------------------------------------------------ queries
    def canon(self, e: Expr) -> Expr:
        """The normal form as an expression. Raises TooComplex."""
        return e if e.op == "int" else _expr(self._poly(e, False))

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether the two are equal for all values of the symbols. False means unknown."""
        try:
            return a == b or not self._difference(a, b)
        except TooComplex:
            return False

    def _difference(self, a: Expr, b: Expr) -> Poly:
        if not _sum(self._poly(a, False), self._poly(b, False), -1):
            return {}
        return _sum(self._poly(a, True), self._poly(b, True), -1)

    def nonneg(self, e: Expr) -> bool:
        """Whether ``e >= 0`` is provable."""
        try:
            return self._nonneg(self._poly(e, False))
        except TooComplex:
            return False

    def is_zero(self, e: Expr) -> bool:
        return self.equal(e, Int(0))

    def length(self, begin: Expr, end: Expr, step: int) -> Expr:
        """Number of points of ``domain(begin, end, step)``: max(0, ceil((end - begin) / step)), the max only where it is needed."""
        span = sub(end, begin)
        n = rebuild("floordiv", (add(span, Int(step - 1)), Int(step)))
        return self.canon(n if self.nonneg(span) else rebuild("max", (n, Int(0))))


def _lcm(xs: Iterable[int]) -> int:
    import math

    return math.lcm(*xs)


def _sum(a: Poly, b: Mapping[tuple[Expr, ...], int], sign: int) -> Poly:
    out = dict(a)
    for m, c in b.items():
        out[m] = out.get(m, 0) + sign * c
        if not out[m]:
            del out[m]
    return out


def _product(a: Poly, b: Poly) -> Poly:
    if len(a) * len(b) > TERMS:
        raise TooComplex(f"more than {TERMS} terms")
    out: Poly = {}
    for m, c in a.items():
        out = _sum(out, {tuple(sorted(m + n, key=_key)): c * d for n, d in b.items()}, 1)
    return out


def _expr(p: Poly) -> Expr:
    """Sum in a fixed order: positive monomials by name, negative ones, the constant last."""
    out: Expr = Int(0)
    for m, c in sorted(((m, c) for m, c in p.items() if m), key=lambda t: (t[1] < 0, [_key(a) for a in t[0]])):
        term: Expr = Int(1)
        for a in m:
            term = mul(term, a)
        out = add(out, mul(term, Int(c))) if c > 0 else sub(out, mul(term, Int(-c)))
    k = p.get((), 0)
    return add(out, Int(k)) if k >= 0 else sub(out, Int(-k)) if out.value is None else Int(k)


def symbols_of(e: Expr) -> list[str]:
    """Names that occur, sorted."""
    return sorted({a.args[0] for a in atoms(e) if a.op == "sym"})
