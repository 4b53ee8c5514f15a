"""Launch expressions as Python text, for the part of an artifact that the loader evaluates."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from eqkir.base.expr import Expr

_INFIX: Final = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "and": "and",
    "or": "or",
}  # fmt: skip


def identifier(name: str) -> str:
    """A symbol's or scalar's name as a Python identifier that nothing else has: other characters become their code points."""
    return "s_" + re.sub(r"[^A-Za-z0-9]", lambda c: f"_{ord(c[0]):x}_", name)


def python(e: Expr, atom: Callable[[str], str] = identifier) -> str:
    """A launch expression; predicates may be used as integers. Raises ValueError for an expression that is none."""
    match e.op:
        case "int":
            return str(e.args[0]) if e.args[0] >= 0 else f"({e.args[0]})"
        case "sym":
            return atom(str(e.args[0]))
        case "min" | "max":
            return f"{e.op}({', '.join(python(a, atom) for a in e.args)})"
        case "not":
            return f"(not {python(e.args[0], atom)})"
        case "select":
            c, x, y = (python(a, atom) for a in e.args)
            return f"({x} if {c} else {y})"
    if e.op not in _INFIX:
        raise ValueError(f"{e} is no launch expression")
    a, b = (python(x, atom) for x in e.args)
    return f"({a} {_INFIX[e.op]} {b})"
