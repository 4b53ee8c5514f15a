"""Proofs of rules by a solver, where one can: what is proved holds for all values, extents and programs.

Four kinds of rule are proved: orders of instances (both sides order the same axes, each once), pointwise identities (IEEE floats, or
integers modulo 2^n), substitution of an axis (values as functions of coordinates), and reductions that may take their members in any order
(as multisets). Everything else gives no proof and is tested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqkir.authoring.patterns import Pattern, Term, is_variable, pattern, subterms, variables
from eqkir.authoring.unfold import unfolded
from eqkir.base.diagnostics import fail, register
from eqkir.rules.load import Rule, RuleFile
from eqkir.rules.signatures import Signature
from eqkir.rules.sorts import RuleAst, SortCheck

E_SOLVER = register("EQK-CHK-SOLVER", "no solver", "`eqkir rules check` proves rules with z3: install the package z3-solver.")
#: milliseconds for one question
TIMEOUT = 4000
ORDERS = frozenset({"TUnit", "TAx", "TProd", "TRev", "TInter", "TSwz"})


@dataclass(frozen=True, slots=True)
class Proof:
    """What the solver found."""

    holds: bool
    method: str
    model: str = ""  # values that tell the sides apart


class Unknown(Exception):
    """This rule is not of the kind."""


def solver() -> Any:
    """The module z3. Raises EqkirError EQK-CHK-SOLVER."""
    try:
        import z3
    except ImportError:
        raise fail(E_SOLVER, "z3 is not installed", accepted="pip install z3-solver", stage="rules") from None
    return z3


def prove(rule: Rule, file: RuleFile, files: Sequence[RuleFile], known: Mapping[str, Signature]) -> Proof | None:
    """A proof that the rule holds, a refutation of it, or None where it is not of a kind that can be proved (or the time ran out)."""
    solver()
    found: Proof | None = None
    for ast in (ast for r in unfolded(rule, files) for ast in r.asts):
        one = _prove(ast, files, known)
        if one is None or not one.holds:
            return one
        found = one
    return found


def _prove(ast: RuleAst, files: Sequence[RuleFile], known: Mapping[str, Signature]) -> Proof | None:
    from eqkir.authoring.prove_axes import substitution
    from eqkir.authoring.prove_values import pointwise, unordered

    p = pattern(ast)
    if p.inserts or len(p.unions) != 1:
        return None
    check = SortCheck(known, "")
    check.rule(ast)
    a, b, _ = p.unions[0]
    target, new = (a, b) if is_variable(a) else (b, a)
    if not is_variable(target):
        return None
    olds = [
        d for d in p.defined.get(str(target), ()) if isinstance(d, tuple) and str(d[0]) in known and known[str(d[0])].kind == "constructor"
    ]
    if not olds:
        return None
    old = p.expanded(olds[0], known, frozenset({str(target)}))
    made = p.expanded(p.made(new), known, frozenset({str(target)}))
    sort = check.variables.get(str(target), "")
    for kind in (orders, unordered, substitution, pointwise):
        try:
            if proof := kind(p, sort, str(target), old, made, check.variables, files):
                return proof
        except (Unknown, ValueError, TypeError):
            continue
    return None


def orders(p: Pattern, sort: str, target: str, old: Term, new: Term, sorts: Mapping[str, str], files: Sequence[RuleFile]) -> Proof | None:
    """Orders of instances: constructors are bijections onto the blocks of their operands' product, so both sides enumerate the same
    instances exactly when they hold the same operands, each as often."""
    if sort != "T":
        return None
    heads = {t[0] for side in (old, new) for t in subterms(side) if isinstance(t, tuple)}
    if not heads <= ORDERS:
        return None
    if not isinstance(new, tuple) and not isinstance(old, tuple):
        return None
    left, right = Counter(variables(old)), Counter(_expanded(p, new))
    if left == right:
        return Proof(True, "both sides order the same axes, each once; every constructor of orders is a bijection")
    return Proof(False, "orders", f"the sides order different axes: {dict(left - right) or '-'} against {dict(right - left) or '-'}")


def _expanded(p: Pattern, t: Term) -> list[str]:
    """Variables of a term, with those that the query takes apart replaced by their parts."""
    out: list[str] = []
    for v in variables(t):
        inner = next((d for d in p.defined.get(v, ()) if isinstance(d, tuple) and d[0] in ORDERS), None)
        out += _expanded(p, inner) if inner else [v]
    return out


# ------------------------------------------------------------------------------------------------ vacuous rules
def contradiction(ast: RuleAst) -> str:
    """Why no match can satisfy the conditions, or "": equations of literals, conditions on sets and integers."""
    import z3

    p = pattern(ast)
    z = z3.Solver()
    z.set("timeout", TIMEOUT)
    text, ints = z3.StringSort(), z3.IntSort()
    label_set = z3.ArraySort(text, z3.BoolSort())
    from eqkir.rules.signatures import vocabulary_signatures

    known = vocabulary_signatures()
    check = SortCheck(known, "")
    check.rule(ast)
    kinds = {"String": text, "i64": ints, "L": label_set}
    calls: dict[str, Any] = {}

    def value(t: Term, sort: str) -> Any:
        if isinstance(t, str):
            if t.startswith('"'):
                return z3.StringVal(t.strip('"'))
            if t.lstrip("+-").isdigit():
                return z3.IntVal(int(t))
            return z3.Const(t, kinds[sort]) if sort in kinds else None
        head = str(t[0])
        args = t[1:]
        if head in ("+", "-", "*", "min", "max"):
            x, y = (value(a, "i64") for a in args)
            if x is None or y is None:
                return None
            return {
                "+": lambda: x + y,
                "-": lambda: x - y,
                "*": lambda: x * y,
                "min": lambda: z3.If(x < y, x, y),
                "max": lambda: z3.If(x > y, x, y),
            }[head]()
        if head in ("set-union", "set-intersect", "set-diff"):
            x, y = (value(a, "L") for a in args)
            if x is None or y is None:
                return None
            return {"set-union": z3.SetUnion, "set-intersect": z3.SetIntersect, "set-diff": z3.SetDifference}[head](x, y)
        if head in ("set-insert", "set-remove"):
            x, e = value(args[0], "L"), value(args[1], "String")
            return None if x is None or e is None else (z3.SetAdd if head == "set-insert" else z3.SetDel)(x, e)
        if head == "set-empty":
            return z3.EmptySet(text)
        if head == "set-length":
            return calls.setdefault(repr(t), z3.Int(f"length {t!r}"))
        if head in known and known[head].kind == "function" and known[head].result in kinds:
            return calls.setdefault(repr(t), z3.Const(f"value {t!r}", kinds[known[head].result]))
        return None

    def sort_of(t: Term) -> str:
        if isinstance(t, str):
            return "String" if t.startswith('"') else "i64" if t.lstrip("+-").isdigit() else check.variables.get(t, "")
        head = str(t[0])
        return (
            "i64"
            if head in ("+", "-", "*", "min", "max", "set-length")
            else "L"
            if head.startswith("set-")
            else known[head].result
            if head in known
            else ""
        )

    for v, ds in p.defined.items():
        for d in ds:
            s = check.variables.get(v, "") or sort_of(d)
            x, y = value(v, s), value(d, s)
            if x is not None and y is not None:
                z.add(x == y)
    for t in p.atoms:
        if not isinstance(t, tuple) or len(t) < 3:
            continue
        head, a, b = str(t[0]), t[1], t[2]
        if head == "!=" and a == b:
            return f"{a} != {b}"
        s = sort_of(a) or sort_of(b)
        if head in ("=", "!="):
            x, y = value(a, s), value(b, s)
            if x is not None and y is not None:
                z.add(x == y if head == "=" else x != y)
        elif head in ("<", "<=", ">", ">="):
            x, y = value(a, "i64"), value(b, "i64")
            if x is not None and y is not None:
                z.add({"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[head])
        elif head in ("set-contains", "set-not-contains"):
            x, y = value(a, "L"), value(b, "String")
            if x is not None and y is not None:
                z.add(z3.IsMember(y, x) if head == "set-contains" else z3.Not(z3.IsMember(y, x)))
    return "no values satisfy the conditions together" if z.check() == z3.unsat else ""
