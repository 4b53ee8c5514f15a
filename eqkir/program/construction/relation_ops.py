"""The relation of pointwise, shape, memory and structured operations (kir.md sections 2 and 4)."""

from __future__ import annotations

from typing import Any

from eqkir.analysis.coords import normal
from eqkir.base import dtypes
from eqkir.base.dtypes import WIDENED
from eqkir.base.expr import ONE, ZERO, Expr, conj, emax, eq, floordiv, le, lt, mod, product
from eqkir.kir import model as kir
from eqkir.kir.type_rules import constant_value
from eqkir.program.construction.relation import (
    TRUE_TERM,
    At,
    Body,
    Frame,
    K,
    Relation,
    Term,
    Val,
    both,
    choose,
    const,
    expands,
    number,
)


# ------------------------------------------------------------------------------------------------ pointwise
@expands("constant")
def _constant(r: Relation, op: kir.Constant, n: int, v: Val) -> K:
    return const(constant_value(op.value, op.dtype), op.dtype)


@expands("extent")
def _extent(r: Relation, op: kir.ExtentOp, n: int, v: Val) -> K:
    return number(r.resolved(kir.extent_expr(op.extent), v, v.frame))


@expands("indices")
def _indices(r: Relation, op: kir.Indices, n: int, v: Val) -> K:
    t, _ = r.domain(op.domain, v.frame)
    return number(r.resolved(t.begin, v, v.frame) + v.at[0] * t.step)


@expands("unary", "binary", "compare", "select", "fma")
def _pointwise(r: Relation, op: Any, n: int, v: Val) -> K:
    kids = tuple(r.operand(v, id) for id in op.operands())
    head = {"unary": "Un", "binary": "Bin", "compare": "Bin"}.get(op.op, "Tri")
    fn = getattr(op, "fn", op.op)
    out = Term(head, (fn,), kids, r.dtype(v.id), v.given)
    what = " ".join(p for p in ("approximate", "flush_to_zero") if getattr(op, p, False))
    return Term("Permit", (what,), (out,), out.dtype, v.given) if what else out


@expands("cast")
def _cast(r: Relation, op: kir.Cast, n: int, v: Val) -> K:
    x = r.operand(v, op.x)
    if r.dtype(op.x) == op.dtype:
        return x
    return r.index(x) if op.dtype == "index" and r.dtype(op.x) in dtypes.INTS else Term("Cast", (op.dtype,), (x,), op.dtype, v.given)


@expands("bitcast")
def _bitcast(r: Relation, op: kir.Bitcast, n: int, v: Val) -> K:
    x = r.operand(v, op.x)
    return x if r.dtype(op.x) == op.dtype else Term("Bitcast", (op.dtype,), (x,), op.dtype, v.given)


# ------------------------------------------------------------------------------------------------ movement of elements
@expands("full")
def _full(r: Relation, op: kir.Full, n: int, v: Val) -> K:
    return r.operand(v, op.value, ())


@expands("broadcast", "assume_in_bounds")
def _same(r: Relation, op: Any, n: int, v: Val) -> K:
    return r.operand(v, op.x)


@expands("transpose")
def _transpose(r: Relation, op: kir.Transpose, n: int, v: Val) -> K:
    return Val(op.x, (), tuple(v.at[op.perm.index(p)] for p in range(len(op.perm))), v.frame, v.given)


@expands("reshape")
def _reshape(r: Relation, op: kir.Reshape, n: int, v: Val) -> K:
    return Val(op.x, (), unravelled(r, r.shape(op.x), r.shape(op.results[0]), v.at), v.frame, v.given)


def unravelled(r: Relation, source: At, result: At, at: At) -> At:
    """The element of row-major `source` with the number that `at` has in `result`.

    Where both shapes have a suffix of the same count, the number splits there, exactly.
    """
    a, b = _suffixes(r, source), _suffixes(r, result)
    out: list[Expr] = []
    i = j = 0
    while i < len(source):
        p, q = next(
            ((p, q) for p in range(i + 1, len(source) + 1) for q in range(j, len(result) + 1) if a[p] == b[q]), (len(source), len(result))
        )
        number: Expr = ZERO
        for x, e in zip(at[j:q], result[j:q], strict=True):
            number = number * e + x
        part: list[Expr] = []
        for k in range(p - 1, i, -1):
            part.append(mod(number, source[k]))
            number = floordiv(number, source[k])
        out += [number, *reversed(part)]
        i, j = p, q
    return tuple(out)


def _suffixes(r: Relation, shape: At) -> list[Expr]:
    """Counts of the elements of each suffix, the empty one last."""
    return [normal(r.extent(product(shape[k:]))) for k in range(len(shape) + 1)]


@expands("join")
def _join(r: Relation, op: kir.Join, n: int, v: Val) -> K:
    x, y = (r.operand(v, i, v.at[:-1]) for i in (op.x, op.y))
    return choose(number(eq(v.at[-1], ZERO), "bool"), x, y, r.dtype(v.id))


@expands("get_field")
def _field(r: Relation, op: kir.GetField, n: int, v: Val) -> K:
    return Val(op.x, (op.name, *v.path), v.at, v.frame, v.given)


@expands("make_record")
def _record(r: Relation, op: kir.MakeRecord, n: int, v: Val) -> K:
    return Val(op.values[op.names.index(v.path[0])], v.path[1:], v.at, v.frame, v.given)


@expands("if")
def _if(r: Relation, op: kir.If, n: int, v: Val) -> K:
    c: K = Val(op.cond, (), (), v.frame, v.given)
    a, b = (Val(x.yields[n], v.path, v.at, v.frame, v.given) for x in (op.then, op.otherwise))
    return choose(c, a, b, r.dtype(v.id, v.path))


# ------------------------------------------------------------------------------------------------ memory
@expands("load")
def _load(r: Relation, op: kir.Load, n: int, v: Val) -> K:
    id = op.results[0]
    dtype = r.dtype(id)
    valid = TRUE_TERM if op.valid is None else r.operand(v, op.valid)
    valid = both(r.holds(r.effects.conditions[id], v), valid)
    fill: K = const(0, dtype) if op.fill is None else r.operand(v, op.fill)
    coords = (*r.owner(op.view, v.frame), *(r.operand(v, c) for c in op.coords))
    return Term("Load", (op.view, id), (valid, fill, *coords), dtype, v.given)


@expands("atomic_load", "atomic_compare_exchange", *(f"atomic_{fn}" for fn in ("exchange", "add", "max", "min", "and", "or", "xor")))
def _old(r: Relation, op: Any, n: int, v: Val) -> K:
    """The old value is what the operation has left in a buffer of its own; a compare-exchange succeeded where that is what it expected, bit
    by bit, and it was valid."""
    id = op.results[0]
    dtype = r.dtype(id)
    place = (*r.owner(id, v.frame), *map(number, v.at))
    old: K = Term("Load", (id, id), (TRUE_TERM, const(0, dtype), *place), dtype, v.given)
    if n == 0:
        return old
    want: K = r.operand(v, op.expected)
    if dtype in dtypes.FLOATS:
        word = f"u{dtypes.bits(dtype)}"
        old, want = (Term("Bitcast", (word,), (x,), word, v.given) for x in (old, want))
    same = Term("Bin", ("eq",), (old, want), "bool", v.given)
    return same if op.valid is None else both(r.operand(v, op.valid), same)


@expands("gather")
def _gather(r: Relation, op: kir.Gather, n: int, v: Val) -> K:
    """`x` at the coordinates, read only where they are valid, and members of its shape."""
    dtype = r.dtype(op.x)
    valid: K = TRUE_TERM if op.valid is None else r.operand(v, op.valid)
    valid = both(r.holds(r.effects.conditions[op.results[0]], v), valid)
    fill: K = const(0, dtype) if op.fill is None else r.operand(v, op.fill)
    at = tuple(r.data(r.index(r.operand(v, c))) for c in op.coords)
    where = conj(r.data(valid), *(conj(le(ZERO, x), lt(x, e)) for x, e in zip(at, r.shape(op.x), strict=True) if r.known(e)))
    x = Val(op.x, (), at, v.frame, (*v.given, where))
    return choose(valid, x, fill, dtype)


# ------------------------------------------------------------------------------------------------ reductions
@expands("reduce")
def _reduce(r: Relation, op: kir.Reduce, n: int, v: Val) -> K:
    shape, axes = r.shape(op.xs[0]), sorted(op.axes)

    def at(xs: At) -> At:
        bound, free = iter(xs), iter(v.at)
        return tuple(next(bound) if d in axes else next(free) for d in range(len(shape)))

    extents = tuple(shape[d] for d in axes)
    dtype = r.dtype(v.id)
    if op.fn is not None:
        fn, narrow = op.fn, r.dtype(op.xs[0])

        def operand(xs: At) -> tuple[K, ...]:
            x: K = Val(op.xs[0], (), at(xs), v.frame, v.given)
            return (x if narrow == dtype else Term("Cast", (dtype,), (x,), dtype, v.given),)

        neutral = Term("Const", (dtypes.identity(fn, dtype),), (), dtype)
        return Term("Red", (fn, Body(extents, operand, v.frame, (neutral,))), (), dtype, v.given)
    assert op.combine is not None
    idents = tuple(Val(i, (), (), v.frame, v.given) for i in op.identities)
    comb = combined(r, op.combine, len(op.xs), v)
    body = Body(extents, lambda xs: tuple(Val(x, (), at(xs), v.frame, v.given) for x in op.xs), v.frame, idents, comb)
    return Term("RedN", (n, body), (), dtype, v.given)


def combined(r: Relation, region: kir.Region, k: int, v: Val) -> tuple[K, ...]:
    """The yields of a combine region over formals."""
    args = {a.id: Term("Arg", ("lr"[i // k], i % k), (), a.dtype) for i, a in enumerate(region.args)}
    depth = len(r.effects.homes.get(v.id, ()))
    frame = Frame(depth, v.frame)
    for i, t in args.items():
        frame.binds[i] = lambda path, at, t=t: t  # type: ignore[misc]
    return tuple(Val(y, (), (), frame) for y in region.yields)


@expands("arg_reduce")
def _arg_reduce(r: Relation, op: kir.ArgReduce, n: int, v: Val) -> K:
    """The better of two (value, position) pairs: NaN over numbers, the lower position of equals (kir.md section 4)."""
    dtype = r.dtype(op.x)

    def operands(xs: At) -> tuple[K, ...]:
        where: K = number(xs[0])
        where = where if op.dtype == "index" else Term("Cast", (op.dtype,), (where,), op.dtype)
        return Val(op.x, (), (*v.at[: op.axis], xs[0], *v.at[op.axis :]), v.frame, v.given), where

    worst = Term("Const", (dtypes.identity("max" if op.fn == "argmax" else "min", dtype),), (), dtype)
    far = Term("Const", (dtypes.identity("min", op.dtype),), (), op.dtype)
    (lv, li), (rv, ri) = ((Term("Arg", (s, 0), (), dtype), Term("Arg", (s, 1), (), op.dtype)) for s in "lr")

    def b(fn: str, p: K, q: K) -> Term:
        return Term("Bin", (fn,), (p, q), "bool")

    wins, ties = b("gt" if op.fn == "argmax" else "lt", lv, rv), b("eq", lv, rv)
    if dtype in dtypes.FLOATS:
        ln, rn = (Term("Un", ("isnan",), (a,), "bool") for a in (lv, rv))
        wins, ties = b("or", wins, b("and", ln, Term("Un", ("not",), (rn,), "bool"))), b("or", ties, b("and", ln, rn))
    takes = b("or", wins, b("and", ties, b("lt", li, ri)))
    comb = tuple(Term("Tri", ("select",), (takes, p, q), p.dtype) for p, q in ((lv, rv), (li, ri)))
    body = Body((r.shape(op.x)[op.axis],), operands, v.frame, (worst, far), comb)
    return Term("RedN", (n, body), (), (dtype, op.dtype)[n], v.given)


@expands("contract")
def _contract(r: Relation, op: kir.Contract, n: int, v: Val) -> K:
    """Batch axes, lhs free axes, rhs free axes index the result; the pairs of `reduce` are summed over."""
    lhs, rhs = r.shape(op.lhs), r.shape(op.rhs)
    batch = len(op.batch)
    free = [[d for d in range(len(s)) if d not in {p[side] for p in (*op.batch, *op.reduce)}] for side, s in enumerate((lhs, rhs))]

    def operands(xs: At) -> tuple[K, ...]:
        out: list[K] = []
        for side, (id, shape) in enumerate(((op.lhs, lhs), (op.rhs, rhs))):
            place = {p[side]: x for p, x in zip(op.batch, v.at, strict=False)} | {p[side]: x for p, x in zip(op.reduce, xs, strict=True)}
            first = batch + (len(free[0]) if side else 0)
            place |= {d: v.at[first + k] for k, d in enumerate(free[side])}
            out.append(Val(id, (), tuple(place[d] for d in range(len(shape))), v.frame, v.given))
        return tuple(out)

    body = Body(tuple(lhs[a] for a, _ in op.reduce), operands, v.frame, (const(0, op.acc),))
    return Term("Con", (body,), (), op.acc, v.given)


@expands("histogram")
def _histogram(r: Relation, op: kir.Histogram, n: int, v: Val) -> K:
    def operand(xs: At) -> tuple[K, ...]:
        hit: K = Term("Bin", ("eq",), (r.index(Val(op.x, (), xs, v.frame, v.given)), number(v.at[0])), "bool")
        if op.valid is not None:
            hit = both(r.operand(v, op.valid, xs), hit)
        return (choose(hit, const(1, op.dtype), const(0, op.dtype), op.dtype),)

    body = Body(r.shape(op.x), operand, v.frame, (const(0, op.dtype),))
    return Term("Red", ("sum", body), (), op.dtype, v.given)


# ------------------------------------------------------------------------------------------------ scans
SCANS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}


@expands("scan")
def _scan(r: Relation, op: kir.Scan, n: int, v: Val) -> K:
    """Forward inclusive along positions t (of a reversed scan: counted from the end); of an exclusive one, of the elements before t."""
    d, shape = op.axis, r.shape(op.results[n])
    dtype, k = r.dtype(v.id), len(op.xs)
    fn = SCANS[op.fn] if op.fn is not None else ""
    idents: tuple[K, ...] = tuple(Val(i, (), (), v.frame, v.given) for i in op.identities)
    if fn:
        idents = (Term("Const", (dtypes.identity(fn, dtype),), (), dtype),)

    known = idents

    def operands(xs: At) -> tuple[K, ...]:
        t = emax(xs[0] - 1, ZERO) if op.exclusive else xs[0]
        t = shape[d] - 1 - t if op.reverse else t
        first = number(eq(xs[0], ZERO), "bool")
        out: list[K] = []
        for x, i in zip(op.xs, known or op.xs, strict=True):
            e: K = Val(x, (), (*v.at[:d], t, *v.at[d + 1 :]), v.frame, v.given)
            if fn and r.dtype(x) != dtype:
                e = Term("Cast", (WIDENED[r.dtype(x)],), (e,), dtype, v.given)
            out.append(choose(first, i, e, r.dtype(v.id) if fn else r.dtype(x)) if op.exclusive and not isinstance(i, str) else e)
        return tuple(out)

    if shape[d] == ONE:
        return operands((ZERO,))[n]
    at = shape[d] - 1 - v.at[d] if op.reverse else v.at[d]
    if fn:
        return Term("Scan", (fn, at, Body((shape[d],), operands, v.frame, idents)), (), dtype, v.given)
    assert op.combine is not None
    comb = combined(r, op.combine, k, v)
    if idents:
        return Term("ScanN", (n, at, Body((shape[d],), operands, v.frame, idents, comb)), (), dtype, v.given)
    # without identities the state says besides whether it holds anything
    types = [r.dtype(x) for x in op.xs]
    left, right = (Term("Arg", (s, k), (), "bool") for s in "lr")
    a, b = ([Term("Arg", (s, i), (), t) for i, t in enumerate(types)] for s in "lr")
    joint = [choose(right, c, x, t) for c, x, t in zip(comb, a, types, strict=True)]
    first = [choose(left, j, y, t) for j, y, t in zip(joint, b, types, strict=True)]
    comb = (*first, Term("Bin", ("or",), (left, right), "bool"))
    idents = (*(const(0, t) for t in types), const(False, "bool"))
    body = Body((shape[d],), lambda xs: (*operands(xs), TRUE_TERM), v.frame, idents, comb)
    return Term("ScanN", (n, at, body), (), dtype, v.given)


__all__ = ["combined", "unravelled"]
