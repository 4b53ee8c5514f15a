"""Which lanes of a label may be inactive: static divisibility, and the launch predicates under which none is."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from eqkir.base.expr import Expr, Int, Param, eq, substitute
from eqkir.program.abi import axis_of, parameter, traversal
from eqkir.program.model import Program


def divisor(e: Expr, multiples: Mapping[str, int]) -> int:
    """A number that divides `e` for all values of its symbols (0 for the constant 0). `multiples`: symbol -> known factor."""
    match e.op:
        case "int":
            return abs(int(e.args[0]))
        case "sym":
            return multiples.get(e.args[0], 1)
        case "mul":
            return divisor(e.args[0], multiples) * divisor(e.args[1], multiples)
        case "add" | "sub" | "min" | "max":
            return gcd(divisor(e.args[0], multiples), divisor(e.args[1], multiples))
        case "select":
            return gcd(divisor(e.args[1], multiples), divisor(e.args[2], multiples))
    return 1


def extent(program: Program, label: str) -> Expr:
    """The extent of a label's axis, parameters bound."""
    bound = {Param(p): Int(v) for p, v in program.bindings.items()}
    return substitute(program.axis[axis_of(label)].extent, bound)


def even(program: Program, label: str) -> Expr:
    """The predicate over symbols under which every lane of every block of `label` is active; constant where it is decided."""
    if parameter(label) is None:
        return Int(1)
    e, n = extent(program, label), program.lanes(label)
    if traversal(label) in ("W", "MW"):
        return eq(e, n)
    known = divisor(e, {s.name: s.multiple_of for s in program.abi.symbols})
    return Int(1) if known % n == 0 else eq(e % n, 0)
