"""Index arithmetic: operations on coordinates, extents and integer scalars stay one `Expr` in one ``Index`` node.

An ``index`` operation with an operand that is already an index expression absorbs the others, data as ``Dep`` operands; operations
on data alone stay ordinary nodes, as do bool operations with a data operand. Multiplication by constants of 2^31 and more stays an
ordinary (wrapping) node: expressions are read as mathematical integers.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqkir.analysis.coords import normal, size
from eqkir.base.expr import TRUE, Dep, Expr, Int, atoms, binary, conj, disj, negate, rebuild, select, substitute
from eqkir.program.construct_codes import EXPR_LIMIT
from eqkir.program.construct_nodes import Nodes as Values

#: largest magnitude of a constant factor, and of any constant, inside an index expression
FACTOR_LIMIT = 1 << 31
CONSTANT_LIMIT = 1 << 62
ARITHMETIC = {
    "add": "add", "sub": "sub", "mul": "mul", "floordiv": "floordiv", "mod": "mod", "maximum": "max", "minimum": "min",
    "maximum_num": "max", "minimum_num": "min",
}  # fmt: skip
LOGIC = {"and": "and", "or": "or", "xor": "ne"}
COMPARE = {"eq": ("eq", False), "ne": ("ne", False), "lt": ("lt", False), "le": ("le", False), "gt": ("lt", True), "ge": ("le", True)}


def as_index(v: Values, node: int) -> tuple[Expr, tuple[int, ...]] | None:
    """The expression that a node holds, with its data operands; None for data."""
    n = v.program.nodes[node]
    if n.op == "Index":
        return n.attrs[0], n.args
    if n.op == "Const" and n.dtype in ("index", "bool"):
        return Int({"true": 1, "false": 0}[n.attrs[0]] if n.dtype == "bool" else int(n.attrs[0])), ()
    return None


def merged(v: Values, nodes: Sequence[int], absorb: bool) -> tuple[list[Expr], list[int]] | None:
    """The operands as expressions over one list of data operands; `absorb` data where some operand is an expression with atoms."""
    parts = [as_index(v, n) for n in nodes]
    if any(p is None for p in parts) and not (absorb and any(p is not None and p[0].value is None for p in parts)):
        return None
    deps: list[int] = []
    out: list[Expr] = []

    def dep(node: int) -> Expr:
        if node not in deps:
            deps.append(node)
        return Dep(deps.index(node))

    for n, p in zip(nodes, parts, strict=True):
        out.append(dep(n) if p is None else substitute(p[0], {Dep(i): dep(d) for i, d in enumerate(p[1])}))
    return out, deps


def compact(e: Expr, deps: Sequence[int]) -> tuple[Expr, tuple[int, ...]]:
    """Drop data operands that do not occur, and number the others in order."""
    used = sorted({a.args[0] for a in atoms(e) if a.op == "dep"})
    env = {Dep(i): Dep(n) for n, i in enumerate(used)}
    return substitute(e, env), tuple(deps[i] for i in used)


def _made(v: Values, e: Expr, deps: Sequence[int], dtype: str) -> int | None:
    """The node of an expression; None where it grew too large to stay one."""
    if size(e, EXPR_LIMIT) > EXPR_LIMIT or size(e := normal(e), EXPR_LIMIT) > EXPR_LIMIT or _big(e):
        return None
    e, kept = compact(e, deps)
    return v.index(e, kept, dtype)


def arithmetic(v: Values, fn: str, a: int, b: int) -> int | None:
    """An ``index`` binary operation as an expression, or None."""
    if fn not in ARITHMETIC or (m := merged(v, (a, b), True)) is None:
        return None
    (x, y), deps = m
    values = [abs(t.value) for t in (x, y) if t.value is not None]
    if any(c >= (FACTOR_LIMIT if fn == "mul" else CONSTANT_LIMIT) for c in values):
        return None
    if fn in ("floordiv", "mod") and y.value == 0:
        return None
    return _made(v, binary(ARITHMETIC[fn], x, y), deps, "index")


def _big(e: Expr) -> bool:
    """Whether a constant factor grew beyond what stays clear of 64 bits."""
    todo = [e]
    while todo:
        x = todo.pop()
        if x.value is not None and abs(x.value) >= CONSTANT_LIMIT:
            return True
        if x.op == "mul" and any(abs(a.value or 0) >= FACTOR_LIMIT for a in x.args):
            return True
        todo += [a for a in x.args if isinstance(a, Expr)]
    return False


def compare(v: Values, fn: str, a: int, b: int) -> int | None:
    """A comparison of ``index`` (or, for eq and ne, bool) values as a predicate, or None."""
    if (m := merged(v, (a, b), v.program.nodes[a].dtype == "index")) is None:
        return None
    (x, y), deps = m
    op, swap = COMPARE[fn]
    return _made(v, binary(op, y, x) if swap else binary(op, x, y), deps, "bool")


def logic(v: Values, fn: str, a: int, b: int) -> int | None:
    """``and or xor`` of bools: a predicate, or the other operand where one is a neutral or dominant constant; otherwise None."""
    for x, y in ((a, b), (b, a)):
        c = as_index(v, x)
        if c is not None and c[0].value is not None and fn in ("and", "or"):
            return (y if c[0] == TRUE else x) if fn == "and" else (x if c[0] == TRUE else y)
    if (m := merged(v, (a, b), False)) is None:
        return None
    return _made(v, rebuild(LOGIC[fn], tuple(m[0])), m[1], "bool")


def inverted(v: Values, a: int) -> int | None:
    """``not`` of a bool."""
    c = as_index(v, a)
    return None if c is None else _made(v, negate(c[0]), c[1], "bool")


def negative(v: Values, a: int) -> int | None:
    """``neg`` of an index."""
    c = as_index(v, a)
    return None if c is None else _made(v, Int(0) - c[0], c[1], "index")


def chosen(v: Values, c: int, a: int, b: int) -> int | None:
    """``select`` of index or bool expressions under a predicate, or None. A constant condition chooses whatever the dtype."""
    p = as_index(v, c)
    if p is not None and p[0].value is not None:
        return a if p[0].value else b
    dtype = v.program.nodes[a].dtype
    if dtype not in ("index", "bool") or (m := merged(v, (c, a, b), False)) is None:
        return None
    (p0, x, y), deps = m
    e = select(p0, x, y) if dtype == "index" else disj(conj(p0, x), conj(negate(p0), y))
    return _made(v, e, deps, dtype)


def coordinate(v: Values, node: int) -> tuple[Expr, tuple[int, ...]]:
    """A coordinate of an access: its expression; data of any integer dtype becomes an operand cast to ``index``."""
    n = v.program.nodes[node]
    if n.dtype != "index":
        node = v.widened(node)
    c = as_index(v, node)
    return c if c is not None else (Dep(0), (node,))


def renumber(e: Expr, deps: Sequence[int], into: Sequence[int]) -> Expr:
    """The expression with its data operands numbered as in `into`, which holds them all."""
    return substitute(e, {Dep(i): Dep(into.index(d)) for i, d in enumerate(deps)})


__all__ = ["arithmetic", "as_index", "chosen", "compare", "coordinate", "inverted", "logic", "merged", "negative", "renumber"]
