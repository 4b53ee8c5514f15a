"""Half spaces of a coordinate: what a predicate that is affine in it says of its true members, and values that a bound may read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eqkir.base import expr as E
from eqkir.base.dtypes import INTS
from eqkir.base.expr import Coord, Expr, Int, atoms
from eqkir.program.abi import slice_axis
from eqkir.program.abstract import Abstract

#: operations that a bound may be computed by: each has one realisation
SIMPLE = frozenset({"Const", "Scalar", "Index", "Load", "Un", "Bin", "Tri", "Cast", "Bitcast"})


@dataclass(frozen=True, slots=True)
class Bound:
    """Members x with ``x >= at`` (`upper`) or ``x < at`` satisfy none of its predicates. Data operands are ``Dep(node id)``."""

    upper: bool
    at: Expr


def half_spaces(predicate: Expr, axis: str) -> Iterator[Bound]:
    """The bounds that follow from the conjuncts of a predicate, for the coordinate of `axis`."""
    x = Coord(axis)
    for e in _conjuncts(predicate):
        negated = e.op == "not"
        e = e.args[0] if negated else e
        if e.op not in ("lt", "le", "eq") or (negated and e.op == "eq"):
            continue
        a, b = _linear(e.args[0], x), _linear(e.args[1], x)
        if a is None or b is None:
            continue
        if negated:  # not (a < b): b <= a
            a, b = b, a
        strict = (e.op == "lt") != negated
        for (ka, ra), (kb, rb) in ((a, b), (b, a)) if e.op == "eq" else ((a, b),):
            k = kb - ka  # k x + (rb - ra) >= strict
            if k == -1:
                yield Bound(True, (rb - ra) + int(not strict))
            elif k == 1:
                yield Bound(False, (ra - rb) + int(strict))
            elif k < 0:
                yield Bound(True, E.floordiv(rb - ra - int(strict), -k) + 1)
            elif k > 0:
                yield Bound(False, E.floordiv(ra - rb + int(strict) + (k - 1), k))


def _conjuncts(e: Expr) -> list[Expr]:
    return [x for a in e.args for x in _conjuncts(a)] if e.op == "and" else [e]


def _linear(e: Expr, x: Expr) -> tuple[int, Expr] | None:
    """(weight of x, the rest) of a sum with an integer weight; None for anything else."""
    if e == x:
        return 1, Int(0)
    if x not in atoms(e):
        return 0, e
    parts = [_linear(a, x) for a in e.args] if e.op in ("add", "sub", "mul") else []
    if len(parts) == 2 and parts[0] is not None and parts[1] is not None:
        (ka, ra), (kb, rb) = parts[0], parts[1]
        if e.op == "add":
            return ka + kb, ra + rb
        if e.op == "sub":
            return ka - kb, ra - rb
        if ka == 0 and ra.value is not None:
            return kb * ra.value, rb * ra
        if kb == 0 and rb.value is not None:
            return ka * rb.value, ra * rb
    return None


def simple(p: Abstract, i: int, free: frozenset[str], axis: str) -> bool:
    """Whether node `i` is made by simple operations, without the coordinate of `axis` and of axes that are not `free`."""
    n = p.nodes[i]
    if n.op not in SIMPLE or any(slice_axis(a) == axis for a in p.free(i)) or not p.free(i) <= free:
        return False
    return all(simple(p, a, free, axis) for a in n.args)


def exact(p: Abstract, e: Expr) -> bool:
    """Whether a bound is the number that it says for all data: arithmetic on 64-bit data may wrap, on narrower data it does not.

    A bound of 64-bit data as it stands is exact, and so is the least or the greatest of such.
    """
    if e.op in ("min", "max", "select", "dep"):
        return all(exact(p, a) for a in e.args if isinstance(a, Expr))
    return not any(a.op == "dep" and _wide(p, int(a.args[0])) for a in atoms(e))


def _wide(p: Abstract, i: int) -> bool:
    """Whether the value of an integer node may be any 64-bit number."""
    n = p.nodes[i]
    if n.op == "Cast" and p.nodes[n.args[0]].dtype in INTS:
        return _wide(p, n.args[0])
    if n.op == "Index":
        return any(_wide(p, a) for a in n.args)
    return n.dtype in ("i64", "u64", "index")


__all__ = ["SIMPLE", "Bound", "exact", "half_spaces", "simple"]
