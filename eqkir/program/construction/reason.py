"""Equality and implication of index expressions for all values: ring identities and signs first, then integer arithmetic by SMT."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eqkir.analysis.coords import Facts, normal, poly, split
from eqkir.base.expr import ATOMS, FALSE, ONE, TRUE, ZERO, Coord, Expr, Int, atoms, binary, coords, eq, lt, negate, rebuild, select, sub
from eqkir.program.model import Program
from eqkir.program.verify_prove import Prover, conjuncts


class Reason:
    """`extents` holds ``0 <= coordinate < extent`` of every coordinate, those of the program and those made while comparing."""

    def __init__(self, program: Program) -> None:
        self.extents: dict[str, Expr] = {a.name: a.extent for a in program.axes if a.kind != "while"}
        self.prover = Prover(program)
        self.facts = Facts(self.extents, {s.name: s.lo for s in program.abi.symbols})
        self.sampled = 0
        self._simple: dict[Expr, Expr] = {}

    def simple(self, e: Expr) -> Expr:
        """A normal form; equal expressions mostly have equal ones."""
        if e.op in ATOMS:
            return ZERO if e.op == "coord" and self.extents.get(e.args[0]) == ONE else e
        if e not in self._simple:
            self._simple[e] = normal(self._rewritten(e))
        return self._simple[e]

    def _rewritten(self, e: Expr) -> Expr:
        args = tuple(self.simple(a) for a in e.args)
        match e.op:
            case "floordiv" | "mod":
                if self.facts.nonneg(args[0]) and self.facts.nonneg(sub(args[1], args[0]) - 1):
                    return ZERO if e.op == "floordiv" else args[0]
                here = self.facts.at(sorted(coords(args[0])))
                if here.nonneg(sub(args[1], ONE)):
                    q, r = split(args[0], args[1], here)
                    return q if e.op == "floordiv" else r
            case "lt" | "le":
                gap = sub(args[1], args[0])
                less = gap - (e.op == "lt")
                if self.facts.nonneg(less):
                    return TRUE
                if self.facts.nonneg(sub(Int(int(e.op == "le")), gap) - 2 * (e.op == "le")):
                    return FALSE
            case "eq" | "ne":
                gap = normal(sub(args[0], args[1]))
                if gap.value is not None:
                    return Int(int((gap.value == 0) == (e.op == "eq")))
                if self.facts.nonneg(gap - 1) or self.facts.nonneg(ZERO - gap - 1):
                    return Int(int(e.op == "ne"))
            case "max" | "min":
                a, b = args
                if self.facts.nonneg(sub(a, b)):
                    return a if e.op == "max" else b
                if self.facts.nonneg(sub(b, a)):
                    return b if e.op == "max" else a
        return rebuild(e.op, args)

    def equal(self, a: Expr, b: Expr, given: Iterable[Expr] = ()) -> bool:
        """Whether both have one value wherever `given` holds."""
        x, y = self.simple(a), self.simple(b)
        return x == y or self.implied(eq(x, y), given)

    def same(self, a: Expr, b: Expr, given: Iterable[Expr] = ()) -> bool:
        """Whether two predicates hold together."""
        x, y = self.simple(a), self.simple(b)
        if x == y:
            return True
        hyps = list(given)
        return self.implied(y, [*hyps, x]) and self.implied(x, [*hyps, y])

    def implied(self, goal: Expr, given: Iterable[Expr] = ()) -> bool:
        """Whether `goal` follows."""
        goal = self.simple(goal)
        if goal == TRUE:
            return True
        hyps = [h for g in given for h in conjuncts(self.simple(g)) if h != TRUE]
        if FALSE in hyps or all(g in hyps for g in conjuncts(goal)):
            return True
        if not atoms(goal) and not hyps:
            return False
        names = {n for e in (goal, *hyps) for n in coords(e)}
        ranges = [lt(Coord(n), self.extents[n]) for n in sorted(names) if n in self.extents]
        return self.prover.prove(goal, [*hyps, *ranges])


ARITHMETIC = {"add": "add", "sub": "sub", "mul": "mul", "floordiv": "floordiv", "mod": "mod", "maximum": "max", "minimum": "min",
              "maximum_num": "max", "minimum_num": "min"}  # fmt: skip
TESTS = {"eq": ("eq", False), "ne": ("ne", False), "lt": ("lt", False), "le": ("le", False), "gt": ("lt", True), "ge": ("le", True)}
LOGIC = {"and": "and", "or": "or", "xor": "ne"}


def expression(head: str, fn: str, dtype: str, operand: str, args: Sequence[Expr]) -> Expr | None:
    """An operation on index or bool operands as an expression; None where it is data."""
    if head == "Bin" and operand in ("index", "bool"):
        if fn in TESTS:
            op, swap = TESTS[fn]
            return binary(op, *(reversed(args) if swap else args))
        if operand == "index" and fn in ARITHMETIC and not (fn in ("floordiv", "mod") and args[1] == ZERO):
            return binary(ARITHMETIC[fn], *args)
        if operand == "bool" and fn in LOGIC:
            return binary(LOGIC[fn], *args)
    if head == "Un" and (fn, dtype) == ("not", "bool"):
        return negate(args[0])
    if head == "Un" and (fn, dtype) == ("neg", "index"):
        return ZERO - args[0]
    if head == "Tri" and fn == "select" and dtype in ("index", "bool"):
        return select(*args)
    return None


__all__ = ["Reason", "expression", "poly"]
