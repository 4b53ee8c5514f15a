"""Exact reasoning about index expressions: a polynomial normal form, signs, division, injectivity and disjointness of index maps.

A polynomial is a sum of monomials (sorted products of atoms) with integer coefficients; an atom is a symbol, a coordinate, a data
operand or an operation that is not ``+ - *`` (its operands normalised). Ring identities hold for mathematical integers and modulo
2^64 alike; identities of ``//`` and ``%`` are used where `split` is called, on values known to be positions inside a tensor.
Every query answers True only with a proof for all values of the symbols; False means "unknown".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from eqkir.base.expr import ATOMS, ONE, ZERO, Coord, Expr, Int, add, coords, floordiv, mod, mul, rebuild, spell, sub

Monomial = tuple[Expr, ...]
Poly = dict[Monomial, int]
#: products of sums with more terms than this stay products
TERM_LIMIT = 64
#: monomials of a higher degree have no known sign
DEGREE_LIMIT = 8
_RANK = {"coord": 0, "dep": 1, "sym": 2, "param": 2, "lid": 2}


@lru_cache(maxsize=65536)
def _key(e: Expr) -> tuple[int, int, str]:
    s = spell(e)
    return (_RANK.get(e.op, 3), len(s), s)


def size(e: Expr, limit: int) -> int:
    """Nodes of the expression as a tree, counted up to `limit` + 1."""
    n, todo = 0, [e]
    while todo and n <= limit:
        x = todo.pop()
        n += 1
        if x.op not in ATOMS:
            todo += x.args
    return n


# ------------------------------------------------------------------------------------------------ polynomials
def total(a: Poly, b: Poly, sign: int = 1) -> Poly:
    """a + sign·b."""
    out = dict(a)
    for m, c in b.items():
        n = out.get(m, 0) + sign * c
        if n:
            out[m] = n
        else:
            out.pop(m, None)
    return out


def product(a: Poly, b: Poly) -> Poly:
    out: Poly = {}
    for m, c in a.items():
        out = total(out, {tuple(sorted(m + n, key=_key)): c * d for n, d in b.items()})
    return out


@lru_cache(maxsize=65536)
def _poly(e: Expr) -> tuple[tuple[Monomial, int], ...]:
    if e.op == "int":
        return (((), e.args[0]),) if e.args[0] else ()
    if e.op in ATOMS:
        return (((e,), 1),)
    if e.op in ("add", "sub"):
        return tuple(_recombine(total(poly(e.args[0]), poly(e.args[1]), 1 if e.op == "add" else -1)).items())
    args = tuple(normal(a) for a in e.args)
    if e.op == "mul":
        a, b = poly(args[0]), poly(args[1])
        if len(a) * len(b) <= TERM_LIMIT:
            return tuple(_recombine(product(a, b)).items())
    if e.op in ("and", "or", "min", "max", "eq", "ne"):
        args = tuple(sorted(args, key=_key))
    x = rebuild(e.op, args)
    return (((x,), 1),) if x.op not in ("int", "add", "sub", "mul") or x.op == e.op else _poly(x)


def poly(e: Expr) -> Poly:
    """The polynomial of an expression."""
    return dict(_poly(e))


def _recombine(p: Poly) -> Poly:
    """``d·(e // d) + e % d`` is ``e``."""
    for m, c in p.items():
        for i, a in enumerate(m):
            if a.op != "mod":
                continue
            e, d = a.args
            rest: Poly = {m[:i] + m[i + 1 :]: c}
            whole = product(product(rest, {(rebuild("floordiv", (e, d)),): 1}), poly(d))
            if whole and all(p.get(k) == v for k, v in whole.items()):
                left = total(total(p, whole, -1), {m: c}, -1)
                return _recombine(total(left, product(rest, poly(e))))
    return p


def expression(p: Poly) -> Expr:
    """A polynomial as an expression in a fixed order: coordinates first, negative terms after positive ones, the constant last."""
    out: Expr = ZERO
    for m, c in sorted(((m, c) for m, c in p.items() if m), key=lambda t: (t[1] < 0, [_key(a) for a in t[0]])):
        term: Expr = ONE
        for a in m:
            term = mul(term, a)
        out = add(out, mul(term, Int(c))) if c > 0 or out == ZERO else sub(out, mul(term, Int(-c)))
    k = p.get((), 0)
    return add(out, Int(k)) if k >= 0 or out.value is not None else sub(out, Int(-k))


@lru_cache(maxsize=65536)
def normal(e: Expr) -> Expr:
    """The normal form: equal sums of products are equal expressions."""
    return e if e.op in ATOMS else expression(poly(e))


# ------------------------------------------------------------------------------------------------ facts
@dataclass
class Facts:
    """What is known: axis extents (``0 <= coordinate < extent`` at every point) and least values of symbols (absent: unknown)."""

    extents: Mapping[str, Expr] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)

    def nonneg(self, e: Expr | Poly) -> bool:
        """Whether ``e >= 0`` at every point of the axes for all values of the symbols."""
        p = e if isinstance(e, dict) else poly(e)
        return self.at({n for m in p for a in m for n in coords(a)})._nonneg(p)

    def at(self, axes: Iterable[str]) -> Facts:
        """What is known at a point of these axes: their extents are not zero, nor is a factor of one."""
        least = dict(self.least)
        for e in (self.extents[a] for a in sorted(axes) if a in self.extents):
            if e.op == "sym":
                least[e.args[0]] = max(1, least.get(e.args[0], 1))
            elif e.op == "mul" and len(p := poly(e)) == 1:
                for a in (a for m in p for a in m if a.op == "sym" and least.get(a.args[0], -1) == 0):
                    least[a.args[0]] = 1
        return Facts(self.extents, least) if least != self.least else self

    def _nonneg(self, p: Poly) -> bool:
        p, extents = self._remainders(p)
        while True:
            names = sorted({a.args[0] for m in p for a in m if a.op == "coord"})
            if not names:
                return self._low(p)
            for name in names:
                q = self._without(p, name, extents)
                if q is not None:
                    p = q
                    break
            else:
                return False

    def _remainders(self, p: Poly) -> tuple[Poly, Mapping[str, Expr]]:
        """Atoms ``e % d`` with ``d >= 1`` as coordinates of extent d."""
        found: dict[Expr, Expr] = {}
        extents = dict(self.extents)
        for a in (a for m in p for a in m if a.op == "mod"):
            if a not in found and self._low(total(poly(a.args[1]), {(): 1}, -1)):
                found[a] = Coord(f"%{len(found)}")
                extents[f"%{len(found) - 1}"] = a.args[1]
        out: Poly = {}
        for m, c in p.items():
            out = total(out, {tuple(sorted((found.get(a, a) for a in m), key=_key)): c})
        return out, extents

    def _without(self, p: Poly, name: str, extents: Mapping[str, Expr]) -> Poly | None:
        """A lower bound of `p` without the coordinate, or None."""
        x = Coord(name)
        c, rest = coefficient(p, x)
        if c is None or name not in extents:
            return None
        if any(a.op != "sym" for m in c for a in m):
            return None
        if self._low(c):
            return rest
        if self._low({m: -k for m, k in c.items()}):
            return total(rest, product(c, total(poly(extents[name]), {(): 1}, -1)))
        return None

    def _low(self, p: Poly) -> bool:
        """Signs with every symbol written as its least value plus something >= 0."""
        out: Poly = {(): 0}
        if any(len(m) > DEGREE_LIMIT for m in p):
            return False
        for m, c in p.items():
            term: Poly = {(): c}
            for a in m:
                low = self._least_of(a)
                if low is None:
                    return False
                term = product(term, total({(a,): 1}, {(): low} if low else {}))
            out = total(out, term)
        return all(c >= 0 for c in out.values())

    def _least_of(self, a: Expr) -> int | None:
        if a.op == "sym":
            return self.least.get(a.args[0])
        if a.op == "mod" and (a.args[1].value or 0) > 0:
            return 0
        if a.op == "floordiv" and self.nonneg(a.args[0]) and self.nonneg(sub(a.args[1], ONE)):
            return 0
        if a.op == "max" and any(self.nonneg(x) for x in a.args):
            return 0
        if a.op == "min" and all(self.nonneg(x) for x in a.args):
            return 0
        return 0 if a.op in ("lt", "le", "eq", "ne", "and", "or", "not") else None

    def less(self, a: Expr, b: Expr) -> bool:
        """Whether ``a < b`` at every point."""
        return self.nonneg(sub(sub(b, a), ONE))


def coefficient(p: Poly, x: Expr) -> tuple[Poly | None, Poly]:
    """`p` as ``c·x + rest`` with x in neither; c is None where `p` is not linear in x."""
    c: Poly = {}
    rest: Poly = {}
    for m, k in p.items():
        n = m.count(x)
        if n > 1 or (n == 0 and any(_occurs(x, a) for a in m)):
            return None, {}
        if n:
            c[tuple(a for a in m if a != x)] = k
        else:
            rest[m] = k
    if any(_occurs(x, a) for m in c for a in m):
        return None, {}
    return c, rest


def _occurs(x: Expr, e: Expr) -> bool:
    return x.op == "coord" and x.args[0] in coords(e)


# ------------------------------------------------------------------------------------------------ division
def split(e: Expr, d: Expr, facts: Facts) -> tuple[Expr, Expr]:
    """``(e // d, e % d)`` for ``d >= 1`` at every point; terms that are multiples of `d` are taken out."""
    if d == ONE:
        return normal(e), ZERO
    p, q = poly(e), poly(d)
    whole: Poly = {}
    part: Poly = {}
    if len(q) == 1:
        ((dm, dc),) = q.items()
        for m, c in p.items():
            rest = _divide(m, dm)
            if rest is not None and c % dc == 0:
                whole[rest] = c // dc
            else:
                part[m] = c
    else:
        part = dict(p)
        for name in sorted({a.args[0] for m in p for a in m if a.op == "coord"}):
            linear, _ = coefficient(part, Coord(name))
            times = _ratio(linear, q) if linear else None
            if times is not None:
                part = total(part, product({(Coord(name),): times}, q), -1)
                whole = total(whole, {(Coord(name),): times})
    r = expression(part)
    if facts.nonneg(part) and facts.nonneg(total(total(q, part, -1), {(): 1}, -1)):
        return expression(whole), r
    return normal(add(expression(whole), floordiv(r, normal(d)))), mod(r, normal(d))


def _divide(m: Monomial, d: Monomial) -> Monomial | None:
    out = list(m)
    for a in d:
        if a not in out:
            return None
        out.remove(a)
    return tuple(out)


def _ratio(c: Poly, d: Poly) -> int | None:
    """k with c = k·d."""
    if set(c) != set(d):
        return None
    m = next(iter(d))
    k, r = divmod(c[m], d[m])
    return k if r == 0 and all(c[x] == k * d[x] for x in d) else None


# ------------------------------------------------------------------------------------------------ index maps
def determined(ixs: Sequence[Expr], axes: Iterable[str], facts: Facts) -> frozenset[str]:
    """Axes whose coordinate follows from the values of the index expressions (all other atoms being equal)."""
    known: set[str] = set()
    exprs = _rejoin([normal(e) for e in ixs if not any(a.op == "dep" for a in _leaves(e))])
    axes = set(axes)
    changed = True
    while changed:
        changed = False
        for e in exprs:
            todo = sorted((coords(e) & axes) - known)
            if todo and _radix(poly(e), todo, facts):
                known |= set(todo)
                changed = True
    return frozenset(known)


def _leaves(e: Expr) -> list[Expr]:
    return [e] if e.op in ATOMS else [x for a in e.args for x in _leaves(a)]


def _rejoin(exprs: list[Expr]) -> list[Expr]:
    """Add ``e`` where both ``e // d`` and ``e % d`` are there."""
    out = list(dict.fromkeys(exprs))
    changed = True
    while changed:
        changed = False
        for a in out:
            if a.op == "mod" and a.args[0] not in out and floordiv(*a.args) in out:
                out.append(a.args[0])
                changed = True
    return out


def _radix(p: Poly, names: list[str], facts: Facts) -> bool:
    """Whether the sum determines all coordinates `names`: each coefficient exceeds what the smaller ones can reach together."""
    terms: list[tuple[Poly, Expr]] = []
    facts = facts.at(names)
    for n in names:
        c, _ = coefficient(p, Coord(n))
        if not c or n not in facts.extents or any(a.op not in ("sym",) for m in c for a in m):
            return False
        negative = {m: -k for m, k in c.items()}
        if not facts.nonneg(total(c, {(): 1}, -1)):
            if not facts.nonneg(total(negative, {(): 1}, -1)):
                return False
            c = negative
        terms.append((c, facts.extents[n]))
    while terms:
        for i, (c, _) in enumerate(terms):  # the largest coefficient: greater than the reach of all others
            reach: Poly = {(): 1}
            for j, (d, e) in enumerate(terms):
                if j != i:
                    reach = total(reach, product(d, total(poly(e), {(): 1}, -1)))
            if facts.nonneg(total(c, reach, -1)):
                terms.pop(i)
                break
        else:
            return False
    return True


def injective(ixs: Sequence[Expr], axes: Iterable[str], facts: Facts) -> bool:
    """Whether different points of `axes` have different indices."""
    axes = set(axes)
    return determined(ixs, axes, facts) >= axes


def disjoint(a: Sequence[Expr], b: Sequence[Expr], facts: Facts) -> bool:
    """Whether no point of the one map and (any other) point of the other have the same indices.

    Both maps may use the same axis names: the points are independent. One dimension with separated ranges or different residues of a
    common step is enough.
    """
    other = {}
    names: dict[str, Expr] = dict(facts.extents)
    for e in b:
        for n in sorted(coords(e)):
            other[Coord(n)] = Coord(f"{n}'")
            if n in facts.extents:
                names[f"{n}'"] = facts.extents[n]
    both = Facts(names, facts.least).at({n for e in a for n in coords(e)} | {c.args[0] for c in other.values()})
    for x, y in zip(a, b, strict=True):
        if any(t.op == "dep" for t in _leaves(x) + _leaves(y)):
            continue
        d = poly(sub(x, _replace(y, other)))
        one: Poly = {(): 1}
        if both.nonneg(total(d, one, -1)) or both.nonneg(total({m: -c for m, c in d.items()}, one, -1)):
            return True
        k = d.get((), 0)
        steps = [abs(c) for m, c in d.items() if m]
        if k and steps:
            from math import gcd

            if k % gcd(*steps):
                return True
    return False


def _replace(e: Expr, env: Mapping[Expr, Expr]) -> Expr:
    if e.op in ATOMS:
        return env.get(e, e)
    return rebuild(e.op, tuple(_replace(a, env) for a in e.args))
