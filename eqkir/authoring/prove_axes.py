"""Substitution of an axis, proved with values as functions of coordinates.

An environment gives every axis a coordinate. ``(Slice c m a)`` in E is a in E with c at the place of member m: a function of the
coordinates of m and of its slices, about which nothing else is assumed. Equal for all environments, functions and operands is equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eqkir.authoring.patterns import Pattern, Term, is_variable, subterms
from eqkir.authoring.prove import TIMEOUT, Proof, Unknown
from eqkir.rules.load import RuleFile

HEADS = frozenset({
    "Slice", "ISub", "ILSub", "Load", "Index", "Un", "Bin", "Tri", "Cast", "Red", "Con", "ICoord", "IBin", "INot", "ISel", "INil", "ICons",
    "VNil", "IInt", "ISym", "IDep",
})  # fmt: skip
#: substitutions: axis, member axis, what it is done in
MOVES = ("Slice", "ISub", "ILSub")
#: operations that bind the axis in this field
BOUND = {"Red": 2, "Con": 1}


class _Axes:
    def __init__(self, p: Pattern, sorts: Mapping[str, str]) -> None:
        import z3

        self.z, self.p, self.sorts = z3, p, sorts
        self.axis, self.value = z3.DeclareSort("Axis"), z3.DeclareSort("Value")
        self.env = z3.ArraySort(self.axis, z3.IntSort())
        self.places = z3.Function("place", self.axis, z3.IntSort(), z3.IntSort(), z3.IntSort())
        self.seg = z3.Function("seg", self.axis, self.axis)
        self.functions: dict[str, Any] = {}
        self.axes: dict[str, Any] = {}
        self.members = {str(t[2]) for ds in p.defined.values() for d in ds for t in subterms(d) if isinstance(t, tuple) and t[0] in MOVES}

    def name(self, t: Term) -> Any:
        return self.axes.setdefault(str(t), self.z.Const(f"axis {t}", self.axis))

    def moved(self, c: Term, m: Term, e: Any) -> Any:
        a = self.name(m)
        return self.z.Store(e, self.name(c), self.places(a, e[a], e[self.seg(a)]))

    def call(self, head: str, *args: Any) -> Any:
        f = self.functions.setdefault(f"{head}/{len(args)}", self.z.Function(f"{head}/{len(args)}", *(x.sort() for x in args), self.value))
        return f(*args)

    def __call__(self, t: Term, e: Any) -> Any:
        if isinstance(t, str):
            if is_variable(t) and self.sorts.get(t) in ("V", "VL", "IX", "IXL"):
                inner = next((d for d in self.p.defined.get(t, ()) if isinstance(d, tuple) and d[0] in HEADS), None)
                if inner is not None:
                    return self(inner, e)
                return self.functions.setdefault(f"v {t}", self.z.Function(f"v {t}", self.env, self.value))(e)
            return self.z.Const(f"attribute {t}", self.value)
        head = str(t[0])
        if head not in HEADS:
            raise Unknown
        if head in MOVES:
            return self(t[3], self.moved(t[1], t[2], e))
        if head == "ICoord":
            a = self.name(t[1])
            own = self.functions.setdefault("own", self.z.Function("own", self.z.IntSort(), self.value))
            return own(self.places(a, e[a], e[self.seg(a)]) if str(t[1]) in self.members else e[a])
        if head in BOUND:
            x = self.name(t[BOUND[head]])
            i = self.z.Int(f"i{len(self.functions)}")
            kids = [self.z.Lambda([i], self(k, self.z.Store(e, x, i))) for k in t[1:] if self._is_value(k)]
            return self.call(head, x, *(self(k, e) for k in t[1:] if not self._is_value(k) and k != t[BOUND[head]]), *kids)
        return self.call(head, *(self(k, e) for k in t[1:])) if len(t) > 1 else self.z.Const(head, self.value)

    def _is_value(self, t: Term) -> bool:
        return isinstance(t, tuple) or self.sorts.get(t) == "V"


def substitution(
    p: Pattern, sort: str, target: str, old: Term, new: Term, sorts: Mapping[str, str], files: Sequence[RuleFile]
) -> Proof | None:
    """A rule whose sides are values, index expressions or lists of them, with a substitution on the old side."""
    import z3

    heads = {str(t[0]) for side in (old, new) for t in subterms(side) if isinstance(t, tuple)}
    if sort not in ("V", "IX", "IXL") or not heads & set(MOVES) or not heads <= HEADS:
        return None
    a = _Axes(p, sorts)
    e = z3.Const("E", a.env)
    left, right = a(old, e), a(new, e)
    s = z3.Solver()
    s.set("timeout", TIMEOUT)
    s.add(*_assumptions(a, p))
    if z3.eq(z3.simplify(left), z3.simplify(right)):
        return Proof(True, "equal as functions of the coordinates, for all operands")
    s.add(left != right)
    r = s.check()
    if r == z3.unsat:
        return Proof(True, "equal as functions of the coordinates, for all operands (solver)")
    if r == z3.sat and not heads & set(BOUND):
        return Proof(False, "coordinates", "the sides differ as functions of the coordinates")
    return None


def _assumptions(a: _Axes, p: Pattern) -> list[Any]:
    """What the query says of axes: names that differ, and values that lack an axis; members and slices are axes of their own."""
    z3 = a.z
    out: list[Any] = []
    members = a.members
    for t in p.atoms:
        if isinstance(t, tuple) and t[0] == "!=" and all(isinstance(x, str) for x in t[1:]):
            out.append(a.name(t[1]) != a.name(t[2]))
        if isinstance(t, tuple) and t[0] == "set-not-contains" and is_variable(t[1]):
            for d in p.defined.get(str(t[1]), ()):
                if isinstance(d, tuple) and d[0] in ("flab", "ixf", "flabL", "ixfL") and f"v {d[1]}" in a.functions:
                    e, i = z3.Const("E0", a.env), z3.Int("i0")
                    f = a.functions[f"v {d[1]}"]
                    out.append(z3.ForAll([e, i], f(z3.Store(e, a.name(t[2]), i)) == f(e)))
    for m in members:
        for x in list(a.axes):
            if x != m and x not in members:
                out += [a.name(m) != a.name(x), a.seg(a.name(m)) != a.name(x)]
    return out
