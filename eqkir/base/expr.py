"""Integer and predicate expressions: extents, launch expressions, coordinates and validity are all `Expr`.

Atoms
    Int n | Sym name (an extent symbol, an integer ABI scalar or a constexpr: launch-visible) | Coord axis (the absolute
    coordinate of an axis of the program) | Dep i (the i-th data operand of the access that owns the expression) |
    Param name (a physical parameter such as ``B:i0``, bound by a row) | Lid (the position inside a program-space segment)
Operations (mathematical integers; predicates are 0/1)
    add sub mul floordiv mod min max | lt le eq ne | and or not | select

A *launch expression* is one whose atoms are Int, Sym and Param only. Expressions are immutable, hashable and built through
the functions below, which fold constants and the exact identities x+0, x*1, x*0, x-x, x//1, x%1, true&p, false|p.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any


@dataclass(frozen=True, slots=True)
class Expr:
    op: str
    args: tuple[Any, ...]  # atoms: (value,); operations: Exprs

    def __add__(self, o: Expr | int) -> Expr:
        return add(self, o)

    def __radd__(self, o: Expr | int) -> Expr:
        return add(o, self)

    def __sub__(self, o: Expr | int) -> Expr:
        return sub(self, o)

    def __rsub__(self, o: Expr | int) -> Expr:
        return sub(o, self)

    def __mul__(self, o: Expr | int) -> Expr:
        return mul(self, o)

    def __rmul__(self, o: Expr | int) -> Expr:
        return mul(o, self)

    def __floordiv__(self, o: Expr | int) -> Expr:
        return floordiv(self, o)

    def __mod__(self, o: Expr | int) -> Expr:
        return mod(self, o)

    def __str__(self) -> str:
        return spell(self)

    @property
    def value(self) -> int | None:
        """The integer, when the expression is one."""
        return self.args[0] if self.op == "int" else None


ATOMS = ("int", "sym", "coord", "dep", "param", "lid")
BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b, "min": min, "max": max, "lt": lambda a, b: int(a < b), "le": lambda a, b: int(a <= b),
    "eq": lambda a, b: int(a == b), "ne": lambda a, b: int(a != b), "and": lambda a, b: int(bool(a) and bool(b)),
    "or": lambda a, b: int(bool(a) or bool(b)),
}  # fmt: skip
PREDICATES = frozenset({"lt", "le", "eq", "ne", "and", "or", "not"})


def Int(n: int) -> Expr:
    return Expr("int", (int(n),))


def Sym(name: str) -> Expr:
    return Expr("sym", (name,))


def Coord(axis: str) -> Expr:
    return Expr("coord", (axis,))


def Dep(i: int) -> Expr:
    return Expr("dep", (i,))


def Param(name: str) -> Expr:
    return Expr("param", (name,))


LID = Expr("lid", ("",))
TRUE, FALSE, ZERO, ONE = Int(1), Int(0), Int(0), Int(1)


def lift(x: Expr | int | str) -> Expr:
    """An int, a symbol's name or an expression as an expression."""
    return x if isinstance(x, Expr) else Sym(x) if isinstance(x, str) else Int(x)


def binary(op: str, a: Expr | int, b: Expr | int) -> Expr:
    a, b = lift(a), lift(b)
    x, y = a.value, b.value
    if x is not None and y is not None and not (op in ("floordiv", "mod") and y == 0):
        return Int(BINARY[op](x, y))
    match op:
        case "add":
            if x == 0:
                return b
            if y == 0:
                return a
        case "sub":
            if y == 0:
                return a
            if a == b:
                return ZERO
        case "mul":
            if x == 0 or y == 0:
                return ZERO
            if x == 1:
                return b
            if y == 1:
                return a
        case "floordiv":
            if y == 1:
                return a
        case "mod":
            if y == 1:
                return ZERO
        case "and":
            if x is not None:
                return b if x else FALSE
            if y is not None:
                return a if y else FALSE
            if a == b:
                return a
        case "or":
            if x is not None:
                return TRUE if x else b
            if y is not None:
                return TRUE if y else a
            if a == b:
                return a
        case "min" | "max":
            if a == b:
                return a
        case "le" | "eq":
            if a == b:
                return TRUE
        case "lt" | "ne":
            if a == b:
                return FALSE
    return Expr(op, (a, b))


def add(a: Expr | int, b: Expr | int) -> Expr:
    return binary("add", a, b)


def sub(a: Expr | int, b: Expr | int) -> Expr:
    return binary("sub", a, b)


def mul(a: Expr | int, b: Expr | int) -> Expr:
    return binary("mul", a, b)


def floordiv(a: Expr | int, b: Expr | int) -> Expr:
    return binary("floordiv", a, b)


def mod(a: Expr | int, b: Expr | int) -> Expr:
    return binary("mod", a, b)


def ceildiv(a: Expr | int, b: Expr | int) -> Expr:
    """ceil(a / b) for b > 0, as floor((a + b - 1) / b)."""
    return floordiv(lift(a) + (lift(b) - 1), b)


def emin(a: Expr | int, b: Expr | int) -> Expr:
    return binary("min", a, b)


def emax(a: Expr | int, b: Expr | int) -> Expr:
    return binary("max", a, b)


def lt(a: Expr | int, b: Expr | int) -> Expr:
    return binary("lt", a, b)


def le(a: Expr | int, b: Expr | int) -> Expr:
    return binary("le", a, b)


def eq(a: Expr | int, b: Expr | int) -> Expr:
    return binary("eq", a, b)


def ne(a: Expr | int, b: Expr | int) -> Expr:
    return binary("ne", a, b)


def conj(*ps: Expr) -> Expr:
    out = TRUE
    for p in ps:
        out = binary("and", out, p)
    return out


def disj(*ps: Expr) -> Expr:
    out = FALSE
    for p in ps:
        out = binary("or", out, p)
    return out


def negate(p: Expr) -> Expr:
    if p.value is not None:
        return Int(int(not p.value))
    return p.args[0] if p.op == "not" else Expr("not", (p,))


def select(c: Expr, a: Expr | int, b: Expr | int) -> Expr:
    a, b = lift(a), lift(b)
    if c.value is not None:
        return a if c.value else b
    return a if a == b else Expr("select", (c, a, b))


def product(xs: list[Expr] | tuple[Expr, ...]) -> Expr:
    out = ONE
    for x in xs:
        out = out * x
    return out


@lru_cache(maxsize=65536)
def atoms(e: Expr) -> tuple[Expr, ...]:
    """All atoms other than integers, each once, in order of appearance (what is made from them is made in this order)."""
    if e.op in ATOMS:
        return () if e.op == "int" else (e,)
    return tuple(dict.fromkeys(x for a in e.args for x in atoms(a)))


@lru_cache(maxsize=65536)
def coords(e: Expr) -> frozenset[str]:
    """The axes whose coordinates occur."""
    return frozenset(a.args[0] for a in atoms(e) if a.op == "coord")


def is_launch(e: Expr) -> bool:
    """Whether the expression is known before launch."""
    return all(a.op in ("sym", "param") for a in atoms(e))


def substitute(e: Expr, env: Mapping[Expr, Expr]) -> Expr:
    """Replace atoms; the result is folded again."""
    if e in env:
        return env[e]
    if e.op in ATOMS:
        return e
    return rebuild(e.op, tuple(substitute(a, env) for a in e.args))


def rebuild(op: str, args: tuple[Any, ...]) -> Expr:
    """An expression from its head and (already built) arguments, folded."""
    if op in ATOMS:
        return Expr(op, args)
    if op == "not":
        return negate(args[0])
    if op == "select":
        return select(*args)
    return binary(op, *args)


def evaluate(e: Expr, env: Mapping[str, int] | Callable[[Expr], Any]) -> Any:
    """The value under `env`: a mapping from symbol / parameter names, or a function from atoms to ints or integer arrays.

    Raises KeyError for an atom without a value, ZeroDivisionError for a scalar division by zero.
    """
    if e.op == "int":
        return e.args[0]
    if e.op in ATOMS:
        return env(e) if callable(env) else env[e.args[0]]
    xs = [evaluate(a, env) for a in e.args]
    if all(isinstance(x, int) for x in xs):
        if e.op == "not":
            return int(not xs[0])
        if e.op == "select":
            return xs[1] if xs[0] else xs[2]
        return BINARY[e.op](*xs)
    import numpy as np

    match e.op:
        case "not":
            return np.logical_not(xs[0]).astype(np.int64)
        case "select":
            return np.where(np.asarray(xs[0], bool), xs[1], xs[2])
        case "and":
            return np.logical_and(*xs).astype(np.int64)
        case "or":
            return np.logical_or(*xs).astype(np.int64)
        case "floordiv" | "mod":
            d = np.asarray(xs[1])
            with np.errstate(all="ignore"):
                return (np.floor_divide if e.op == "floordiv" else np.mod)(xs[0], np.where(d == 0, 1, d))
        case "min":
            return np.minimum(*xs)
        case "max":
            return np.maximum(*xs)
        case "lt" | "le" | "eq" | "ne":
            f = {"lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal}[e.op]
            return f(*xs).astype(np.int64)
    return {"add": np.add, "sub": np.subtract, "mul": np.multiply}[e.op](*xs)


_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "mod": "%",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "ne": "!=",
    "and": "&",
    "or": "|",
}


def spell(e: Expr, atom: Callable[[Expr], str] | None = None) -> str:
    """Fully parenthesised infix text; `atom` spells the atoms (default: their names)."""
    if e.op == "int":
        return str(e.args[0])
    if e.op in ATOMS:
        return atom(e) if atom else {"lid": "lid", "dep": f"dep{e.args[0]}"}.get(e.op, str(e.args[0]))
    xs = [spell(a, atom) for a in e.args]
    if e.op in _INFIX:
        return f"({xs[0]} {_INFIX[e.op]} {xs[1]})"
    return f"{e.op}({', '.join(xs)})"


def to_json(e: Expr) -> Any:
    """``7`` | ``["sym","M"]`` | ``["add", …, …]``."""
    if e.op == "int":
        return e.args[0]
    if e.op in ATOMS:
        return [e.op, e.args[0]]
    return [e.op, *(to_json(a) for a in e.args)]


def from_json(j: Any) -> Expr:
    """Inverse of `to_json`; the expression is not folded, so a round trip is exact. Raises ValueError on anything else."""
    if isinstance(j, int) and not isinstance(j, bool):
        return Int(j)
    if isinstance(j, list) and j and isinstance(j[0], str):
        if j[0] in ATOMS and j[0] != "int" and len(j) == 2 and isinstance(j[1], (str, int)):
            return Expr(j[0], (j[1],))
        n = {"not": 1, "select": 3}.get(j[0], 2 if j[0] in BINARY else 0)
        if n and len(j) == n + 1:
            return Expr(j[0], tuple(from_json(a) for a in j[1:]))
    raise ValueError(f"not an expression: {j!r}")
