"""Proofs about integer expressions for all values of symbols: syntactic first, then integer arithmetic by SMT under a fixed resource limit.

What cannot be proved counts as false: "unknown" rejects. The limit is z3's deterministic resource count, not time, so a verdict does not
depend on the machine. z3 is imported when the first query needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eqkir.base.dtypes import NUMPY
from eqkir.base.expr import Expr, Int, Sym, atoms, conj, eq, le, lt, mod, negate
from eqkir.program.model import Program

RLIMIT = 4_000_000
#: answers of the solver to whole questions: candidates of one kernel ask the same ones
_ANSWERS: dict[tuple[Any, ...], bool] = {}
ANSWERS = 20_000


class Prover:
    """`prove(goal, given)` under the program's facts: symbol ranges, integer scalars' ranges, preconditions."""

    def __init__(self, program: Program) -> None:
        self.facts: list[Expr] = []
        self.low: dict[str, int] = {}
        self.high: dict[str, int] = {}
        for s in program.abi.symbols:
            self.range(s.name, s.lo, s.hi)
            if s.multiple_of > 1:
                self.facts.append(eq(mod(Sym(s.name), s.multiple_of), 0))
        for p in program.abi.scalars:
            if NUMPY[p.dtype].kind in "iu":
                self.range(p.name, *dtype_range(p.dtype))
        for e in program.preconditions:
            self.facts += conjuncts(e)
        self.memo: dict[tuple[Expr, tuple[Expr, ...]], bool] = {}
        self.queries = 0

    def range(self, name: str, lo: int | None, hi: int | None) -> None:
        """Declare bounds of a symbol or opaque value."""
        if lo is not None:
            self.low[name] = lo
        if hi is not None:
            self.high[name] = hi

    def prove(self, goal: Expr, given: Iterable[Expr] = ()) -> bool:
        """Whether `goal` follows from the facts and `given` for all integers."""
        hyps = tuple(dict.fromkeys(h for g in given for h in conjuncts(g)))
        key = (goal, hyps)
        if key not in self.memo:
            self.memo[key] = all(self._prove(g, hyps) for g in conjuncts(goal))
        return self.memo[key]

    def _prove(self, goal: Expr, hyps: tuple[Expr, ...]) -> bool:
        if goal.value or goal in hyps or goal in self.facts or any(h.value == 0 for h in hyps):
            return True
        if goal.value == 0 and not hyps:
            return False
        if goal.op == "le" and goal.args[0].value is not None:
            lo = self.lower(goal.args[1], hyps)
            if lo is not None and lo >= goal.args[0].value:
                return True
        if goal.op == "lt" and goal.args[0].op == "mod" and goal.args[0].args[1] == goal.args[1]:
            lo = self.lower(goal.args[1], hyps)
            if lo is not None and lo >= 1:
                return True
        if goal.op in ("le", "lt") and goal.args[1].value is not None:
            hi = self.upper(goal.args[0])
            if hi is not None and hi + (goal.op == "lt") <= goal.args[1].value:
                return True
        return self.smt(goal, hyps)

    # -------------------------------------------------------------------------------------------- bounds
    def lower(self, e: Expr, hyps: tuple[Expr, ...] = ()) -> int | None:
        """A simple lower bound; coordinates are >= 0 wherever they occur."""
        match e.op:
            case "int":
                return int(e.args[0])
            case "sym":
                return self.low.get(e.args[0])
            case "coord":
                return 0
            case "add":
                a, b = (self.lower(x, hyps) for x in e.args)
                return None if a is None or b is None else a + b
            case "mul":
                a, b = (self.lower(x, hyps) for x in e.args)
                return None if a is None or b is None or a < 0 or b < 0 else a * b
            case "mod":
                b = self.lower(e.args[1], hyps)
                return 0 if b is not None and b >= 1 else None
            case "floordiv":
                a, b = (self.lower(x, hyps) for x in e.args)
                return 0 if a is not None and b is not None and a >= 0 and b >= 1 else None
            case "min" | "max":
                a, b = (self.lower(x, hyps) for x in e.args)
                if e.op == "max" and (a is None or b is None):
                    return a if b is None else b
                return None if a is None or b is None else (min if e.op == "min" else max)(a, b)
        return 0 if e.op in ("lt", "le", "eq", "ne", "and", "or", "not") else None

    def upper(self, e: Expr) -> int | None:
        match e.op:
            case "int":
                return int(e.args[0])
            case "sym":
                return self.high.get(e.args[0])
            case "add":
                a, b = (self.upper(x) for x in e.args)
                return None if a is None or b is None else a + b
            case "min":
                xs = [b for b in (self.upper(x) for x in e.args) if b is not None]
                return min(xs) if xs else None
        return None

    # -------------------------------------------------------------------------------------------- SMT
    def smt(self, goal: Expr, hyps: tuple[Expr, ...]) -> bool:
        """z3 on the negated goal; a question that was asked before is not asked again."""
        facts = [*self.facts, *hyps]
        names = sorted({a for e in (*facts, goal) for a in atoms(e)}, key=str)
        ranges = tuple((a, self.low.get(str(a.args[0])), self.high.get(str(a.args[0]))) for a in names if a.op == "sym")
        key = (goal, tuple(facts), ranges)
        if key not in _ANSWERS:
            if len(_ANSWERS) >= ANSWERS:
                _ANSWERS.clear()
            _ANSWERS[key] = self.ask(goal, facts, names)
        return _ANSWERS[key]

    def ask(self, goal: Expr, facts: Sequence[Expr], names: Sequence[Expr]) -> bool:
        """One question to z3."""
        import z3

        self.queries += 1
        ctx = z3.Context()
        s = z3.Solver(ctx=ctx)
        s.set("rlimit", RLIMIT)
        enc = Encoder(z3, ctx)
        for a in names:
            lo, hi = self.low.get(str(a.args[0])), self.high.get(str(a.args[0]))
            if a.op == "sym" and lo is not None:
                s.add(enc.integer(a) >= lo)
            if a.op == "sym" and hi is not None:
                s.add(enc.integer(a) <= hi)
            if a.op == "coord":
                s.add(enc.integer(a) >= 0)
        for f in facts:
            s.add(enc.boolean(f))
        s.add(enc.boolean(negate(goal)))
        s.add(*enc.side)
        return bool(s.check() == z3.unsat)


class Encoder:
    """Expressions as z3 terms; floor division by quotient and remainder variables."""

    def __init__(self, z3: Any, ctx: Any) -> None:
        self.z3, self.ctx = z3, ctx
        self.side: list[Any] = []
        self.memo: dict[Expr, Any] = {}

    def integer(self, e: Expr) -> Any:
        if e not in self.memo:
            self.memo[e] = self._integer(e)
        return self.memo[e]

    def _integer(self, e: Expr) -> Any:
        z3 = self.z3
        match e.op:
            case "int":
                return z3.IntVal(e.args[0], self.ctx)
            case "sym" | "coord" | "param" | "dep" | "lid":
                return z3.Int(f"{e.op}:{e.args[0]}", self.ctx)
            case "add":
                return self.integer(e.args[0]) + self.integer(e.args[1])
            case "sub":
                return self.integer(e.args[0]) - self.integer(e.args[1])
            case "mul":
                return self.integer(e.args[0]) * self.integer(e.args[1])
            case "floordiv" | "mod":
                return self.divide(e)
            case "min":
                a, b = (self.integer(x) for x in e.args)
                return z3.If(a <= b, a, b)
            case "max":
                a, b = (self.integer(x) for x in e.args)
                return z3.If(a >= b, a, b)
            case "select":
                return z3.If(self.boolean(e.args[0]), self.integer(e.args[1]), self.integer(e.args[2]))
        return z3.If(self.boolean(e), z3.IntVal(1, self.ctx), z3.IntVal(0, self.ctx))

    def divide(self, e: Expr) -> Any:
        """a = q·b + r with 0 <= r < b or b < r <= 0; b = 0 leaves both open."""
        z3 = self.z3
        a, b = (self.integer(x) for x in e.args)
        key = Expr("floordiv", e.args), Expr("mod", e.args)
        n = e.args[1].value
        if n is not None and n > 0:
            self.memo[key[0]], self.memo[key[1]] = a / b, a % b
            return self.memo[e]
        q, r = (z3.Int(f"{k}:{len(self.side)}", self.ctx) for k in ("q", "r"))
        positive = z3.And(b > 0, a == q * b + r, 0 <= r, r < b)
        self.side.append(z3.Or(positive, z3.And(b < 0, a == q * b + r, b < r, r <= 0), b == 0))
        self.memo[key[0]], self.memo[key[1]] = q, r
        return self.memo[e]

    def boolean(self, e: Expr) -> Any:
        z3 = self.z3
        match e.op:
            case "and":
                return z3.And(*(self.boolean(a) for a in e.args))
            case "or":
                return z3.Or(*(self.boolean(a) for a in e.args))
            case "not":
                return z3.Not(self.boolean(e.args[0]))
            case "lt":
                return self.integer(e.args[0]) < self.integer(e.args[1])
            case "le":
                return self.integer(e.args[0]) <= self.integer(e.args[1])
            case "eq":
                return self.integer(e.args[0]) == self.integer(e.args[1])
            case "ne":
                return self.integer(e.args[0]) != self.integer(e.args[1])
            case "select":
                return z3.If(self.boolean(e.args[0]), self.boolean(e.args[1]), self.boolean(e.args[2]))
        return self.integer(e) != 0


def conjuncts(e: Expr) -> list[Expr]:
    """The parts of a conjunction."""
    return [x for a in e.args for x in conjuncts(a)] if e.op == "and" else [] if e.op == "int" and e.args[0] == 1 else [e]


def dtype_range(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer dtype (bool: 0 and 1)."""
    t = NUMPY[dtype]
    if t.kind == "b":
        return 0, 1
    w = 8 * t.itemsize
    return (-(1 << (w - 1)), (1 << (w - 1)) - 1) if t.kind == "i" else (0, (1 << w) - 1)


def within(e: Expr, extent: Expr) -> Expr:
    """0 <= e < extent."""
    return conj(le(Int(0), e), lt(e, extent))
