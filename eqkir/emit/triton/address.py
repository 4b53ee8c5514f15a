"""Index arithmetic as text: expressions inside the kernel, expressions of the host, pointers, and how large the integers can get."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from eqkir.base.expr import ATOMS, ONE, PREDICATES, ZERO, Expr, Int, emax, is_launch
from eqkir.program.abi import axis_of, parameter


@dataclass(frozen=True, slots=True)
class Place:
    """How the coordinate of a label is written: scalar part, lane part and their sum (texts; "" where there is none)."""

    at: str
    lane: str
    full: str


def expand(text: str, have: tuple[str, ...], want: tuple[str, ...]) -> str:
    """A fragment with lane labels `have` (in the order of `want`) broadcastable to `want`."""
    if not have or have == want:
        return text
    if len(want) == 1:
        return text
    return f"{text}[{', '.join(':' if d in have else 'None' for d in want)}]"


def nonnegative(e: Expr, signed: frozenset[str]) -> bool:
    """Whether the expression is >= 0 by its form; `signed`: symbols that may be negative."""
    match e.op:
        case "int":
            return bool(e.args[0] >= 0)
        case "sym":
            return e.args[0] not in signed
        case "coord" | "lid" | "param":
            return True
        case "add" | "mul" | "min" | "floordiv":
            return nonnegative(e.args[0], signed) and nonnegative(e.args[1], signed)
        case "max":
            return nonnegative(e.args[0], signed) or nonnegative(e.args[1], signed)
        case "mod":
            return nonnegative(e.args[1], signed)
        case "select":
            return nonnegative(e.args[1], signed) and nonnegative(e.args[2], signed)
    return e.op in PREDICATES


_INFIX = {"add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "and": "&", "or": "|"}


class KernelText:
    """Expressions in the kernel. Integer tensors and literals; predicates are i1. `use` registers helper functions."""

    def __init__(self, signed: frozenset[str], use: Callable[[str], str]) -> None:
        self.signed, self.use = signed, use

    def integer(self, e: Expr, atom: Callable[[Expr], str]) -> str:
        t = self.text(e, atom)
        return f"{t}.to(IDX)" if e.op in PREDICATES else t

    def predicate(self, e: Expr, atom: Callable[[Expr], str]) -> str:
        t = self.text(e, atom)
        return t if e.op in PREDICATES else f"({t} != 0)"

    def text(self, e: Expr, atom: Callable[[Expr], str]) -> str:
        if e.op == "int":
            return str(e.args[0]) if e.args[0] >= 0 else f"({e.args[0]})"
        if e.op in ATOMS:
            return atom(e)
        if e.op in ("and", "or"):
            a, b = (self.predicate(x, atom) for x in e.args)
            return f"({a} {_INFIX[e.op]} {b})"
        if e.op == "not":
            return f"({self.predicate(e.args[0], atom)} == 0)"
        if e.op == "select":
            return f"tl.where({self.predicate(e.args[0], atom)}, {self.integer(e.args[1], atom)}, {self.integer(e.args[2], atom)})"
        a, b = (self.integer(x, atom) for x in e.args)
        if e.op in ("min", "max"):
            return f"tl.{e.op}imum({a}, {b})"
        if e.op in ("floordiv", "mod"):
            if all(nonnegative(x, self.signed) for x in e.args):
                return f"({a} {'//' if e.op == 'floordiv' else '%'} {b})"
            return self.use(f"{'_floordiv' if e.op == 'floordiv' else '_floormod'}({a}, {b})")
        return f"({a} {_INFIX[e.op]} {b})"


def host(e: Expr, name: Callable[[str], str] = lambda s: s) -> str:
    """A launch expression as Python text; predicates as bools."""
    match e.op:
        case "int":
            return str(e.args[0]) if e.args[0] >= 0 else f"({e.args[0]})"
        case "sym":
            return name(e.args[0])
        case "and" | "or":
            return f"({host(e.args[0], name)} {e.op} {host(e.args[1], name)})"
        case "not":
            return f"(not {host(e.args[0], name)})"
        case "select":
            return f"({host(e.args[1], name)} if {host(e.args[0], name)} else {host(e.args[2], name)})"
        case "min" | "max":
            return f"{e.op}({host(e.args[0], name)}, {host(e.args[1], name)})"
        case "floordiv" | "mod":
            return f"({host(e.args[0], name)} {'//' if e.op == 'floordiv' else '%'} {host(e.args[1], name)})"
    if e.op not in _INFIX:
        raise ValueError(f"not a launch expression: {e}")
    return f"({host(e.args[0], name)} {_INFIX[e.op]} {host(e.args[1], name)})"


def affine(e: Expr) -> tuple[Expr, dict[str, Expr]] | None:
    """``constant + sum(coefficient * coord)`` with launch-time coefficients, or None."""
    if is_launch(e):
        return e, {}
    if e.op == "coord":
        return ZERO, {e.args[0]: ONE}
    if e.op in ("add", "sub"):
        a, b = affine(e.args[0]), affine(e.args[1])
        if a is None or b is None:
            return None
        sign = 1 if e.op == "add" else -1
        out = dict(a[1])
        for x, c in b[1].items():
            out[x] = out.get(x, ZERO) + c * sign
        return a[0] + b[0] * sign, {x: c for x, c in out.items() if c != ZERO}
    if e.op == "mul":
        for k, x in ((e.args[0], e.args[1]), (e.args[1], e.args[0])):
            a = affine(x)
            if is_launch(k) and a is not None:
                return a[0] * k, {y: c * k for y, c in a[1].items()}
    return None


def pointer(
    base: str,
    strides: tuple[str, ...],
    ixs: tuple[Expr, ...],
    dims: tuple[str, ...],
    places: Mapping[str, Place],
    scalar: Callable[[Expr], str],
    general: Callable[[Expr], tuple[str, tuple[str, ...]]],
) -> tuple[str, tuple[str, ...]]:
    """Text of the address of ``view[ixs]`` and its lane labels, in the order of `dims`.

    Affine parts split into a scalar offset and one lane term per label; `scalar` writes launch expressions, `general` writes any other
    index together with its lane labels.
    """
    labels = {axis_of(d): d for d in dims}
    lanes = tuple(d for d in dims if parameter(d))
    uniform: list[str] = []
    terms: dict[str, list[str]] = {}
    rest: list[tuple[str, tuple[str, ...]]] = []
    for ix, s in zip(ixs, strides, strict=True):
        a = affine(ix)
        if a is None:
            text, have = general(ix)
            rest.append((f"{text} * {s}", have))
            continue
        if a[0] != ZERO:
            uniform.append(f"{scalar(a[0])} * {s}")
        for axis, c in sorted(a[1].items()):
            p = places[labels[axis]]
            factor = s if c == ONE else f"{scalar(c)} * {s}"
            if p.at:
                uniform.append(f"{p.at} * {factor}")
            if p.lane:
                terms.setdefault(labels[axis], []).append(factor)
    out = base if not uniform else f"{base} + ({' + '.join(uniform)})"
    have_all = {d for _, h in rest for d in h} | set(terms)
    want = tuple(d for d in lanes if d in have_all)
    for d in want:
        if d in terms:
            factor = terms[d][0] if len(terms[d]) == 1 and "*" not in terms[d][0] else f"({' + '.join(terms[d])})"
            out += " + " + expand(f"({places[d].lane} * {factor})", (d,), want)
    for text, h in rest:
        out += " + " + expand(f"({text})", h, want)
    return out, want


# ------------------------------------------------------------------------------------------------ magnitudes
def magnitude(e: Expr, axis: Callable[[str], Expr], signed: frozenset[str], params: Mapping[str, int]) -> Expr:
    """A launch expression >= |e| for every lane, padded ones included; `axis` bounds coordinates. Data operands (64-bit) count 0."""

    def go(x: Expr) -> Expr:
        return magnitude(x, axis, signed, params)

    match e.op:
        case "int":
            return Int(abs(e.args[0]))
        case "sym":
            return emax(e, ZERO - e) if e.args[0] in signed else e
        case "coord":
            return axis(e.args[0])
        case "param":
            return Int(params[e.args[0]])
        case "dep" | "lid":
            return ZERO
        case "add" | "sub":
            return go(e.args[0]) + go(e.args[1])
        case "mul":
            return go(e.args[0]) * go(e.args[1])
        case "floordiv":
            return go(e.args[0])
        case "mod":
            return go(e.args[1])
        case "min" | "max":
            return emax(go(e.args[0]), go(e.args[1]))
        case "select":
            return emax(go(e.args[1]), go(e.args[2]))
    return ONE


def magnitudes(e: Expr, axis: Callable[[str], Expr], signed: frozenset[str], params: Mapping[str, int]) -> set[Expr]:
    """Magnitudes of an expression and of every part whose value the result does not bound."""
    out = {magnitude(e, axis, signed, params)}
    if e.op not in ATOMS:
        for a in e.args:
            sub = magnitudes(a, axis, signed, params)
            out |= sub if e.op not in ("add", "sub") else sub - {magnitude(a, axis, signed, params)}
    return out


def spelled_dims(lanes: tuple[str, ...], size: Callable[[str], int]) -> str:
    """A shape tuple."""
    return f"({', '.join(str(size(d)) for d in lanes)}{',' if len(lanes) == 1 else ''})"
