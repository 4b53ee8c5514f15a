"""How each KIR operation is instantiated at index expressions (pointwise, shape, memory, structured)."""

from __future__ import annotations

from collections.abc import Generator

from eqkir.analysis.coords import poly, split
from eqkir.base.diagnostics import fail
from eqkir.base.dtypes import INTS, WIDENED, identity
from eqkir.base.expr import ONE, ZERO, Coord, Expr, product
from eqkir.kir import model as kir
from eqkir.kir.type_rules import constant_value
from eqkir.program import construct_index as ix
from eqkir.program.abstract import BOUND
from eqkir.program.construct_codes import COMBINE, STAGE
from eqkir.program.construct_env import Ixs, Request, Steps, construction
from eqkir.program.construct_values import Values


# ------------------------------------------------------------------------------------------------ scalars and coordinates
@construction("constant", "dtype value")
def _constant(v: Values, op: kir.Constant, n: int, ixs: Ixs) -> Steps:
    return v.const(constant_value(op.value, op.dtype), op.dtype)
    yield


@construction("extent", "extent")
def _extent(v: Values, op: kir.ExtentOp, n: int, ixs: Ixs) -> Steps:
    return v.index(v.extent(kir.extent_expr(op.extent)), (), "index")
    yield


@construction("indices", "domain")
def _indices(v: Values, op: kir.Indices, n: int, ixs: Ixs) -> Steps:
    return v.index(v.point(op.domain, ixs[0]), (), "index")
    yield


# ------------------------------------------------------------------------------------------------ pointwise
@construction("unary", "fn x approximate flush_to_zero")
def _unary(v: Values, op: kir.Unary, n: int, ixs: Ixs) -> Steps:
    a = yield v.operand(op.x, ixs)
    dtype = v.program.nodes[a].dtype
    folded = ix.inverted(v, a) if op.fn == "not" and dtype == "bool" else ix.negative(v, a) if op.fn == "neg" and dtype == "index" else None
    return permitted(v, op, v.make("Un", (op.fn,), (a,), v.dtype(op.results[0]))) if folded is None else folded


@construction("binary", "fn x y approximate flush_to_zero")
def _binary(v: Values, op: kir.Binary, n: int, ixs: Ixs) -> Steps:
    a = yield v.operand(op.x, ixs)
    b = yield v.operand(op.y, ixs)
    dtype = v.dtype(op.results[0])
    folded = ix.arithmetic(v, op.fn, a, b) if dtype == "index" else ix.logic(v, op.fn, a, b) if dtype == "bool" else None
    return permitted(v, op, v.make("Bin", (op.fn,), (a, b), dtype)) if folded is None else folded


def permitted(v: Values, op: kir.Unary | kir.Binary, node: int) -> int:
    """The value with its own permissions, which are part of what it is."""
    what = " ".join(p for p in ("approximate", "flush_to_zero") if getattr(op, p))
    return v.make("Permit", (what,), (node,), v.program.nodes[node].dtype) if what else node


@construction("compare", "fn x y")
def _compare(v: Values, op: kir.Compare, n: int, ixs: Ixs) -> Steps:
    a = yield v.operand(op.x, ixs)
    b = yield v.operand(op.y, ixs)
    folded = ix.compare(v, op.fn, a, b) if v.program.nodes[a].dtype in ("index", "bool") else None
    return v.make("Bin", (op.fn,), (a, b), "bool") if folded is None else folded


@construction("fma", "x y z")
def _fma(v: Values, op: kir.Fma, n: int, ixs: Ixs) -> Steps:
    a = yield v.operand(op.x, ixs)
    b = yield v.operand(op.y, ixs)
    c = yield v.operand(op.z, ixs)
    return v.make("Tri", ("fma",), (a, b, c), v.dtype(op.results[0]))


@construction("select", "cond x y")
def _select(v: Values, op: kir.Select, n: int, ixs: Ixs) -> Steps:
    c = yield v.operand(op.cond, ixs)
    a = yield v.operand(op.x, ixs)
    b = yield v.operand(op.y, ixs)
    folded = ix.chosen(v, c, a, b)
    return v.make("Tri", ("select",), (c, a, b), v.dtype(op.results[0])) if folded is None else folded


@construction("cast", "x dtype")
def _cast(v: Values, op: kir.Cast, n: int, ixs: Ixs) -> Steps:
    a = yield v.operand(op.x, ixs)
    source = v.program.nodes[a].dtype
    if source == op.dtype:
        return a
    if op.dtype == "index" and source in INTS:
        return v.widened(a)
    return v.make("Cast", (op.dtype,), (a,), op.dtype)


@construction("bitcast", "x dtype")
def _bitcast(v: Values, op: kir.Bitcast, n: int, ixs: Ixs) -> Steps:
    a = yield v.operand(op.x, ixs)
    return a if v.program.nodes[a].dtype == op.dtype else v.make("Bitcast", (op.dtype,), (a,), op.dtype)


# ------------------------------------------------------------------------------------------------ shape
@construction("full", "value shape")
def _full(v: Values, op: kir.Full, n: int, ixs: Ixs) -> Steps:
    return (yield op.value, ())


@construction("broadcast", "x shape")
def _broadcast(v: Values, op: kir.Broadcast, n: int, ixs: Ixs) -> Steps:
    return (yield v.operand(op.x, ixs))


@construction("transpose", "x perm")
def _transpose(v: Values, op: kir.Transpose, n: int, ixs: Ixs) -> Steps:
    out = [ZERO] * len(ixs)
    for j, p in enumerate(op.perm):
        out[p] = ixs[j]
    return (yield op.x, tuple(out))


@construction("reshape", "x shape")
def _reshape(v: Values, op: kir.Reshape, n: int, ixs: Ixs) -> Steps:
    source, result = (tuple(map(v.pinned, v.shape(id))) for id in (op.x, op.results[0]))
    return (yield op.x, reshaped(v, source, result, ixs))


def reshaped(v: Values, source: tuple[Expr, ...], result: tuple[Expr, ...], ixs: Ixs) -> Ixs:
    """Row-major indices in `source` of the element at `ixs` of `result`; runs of dimensions with equal counts are mapped one by one."""
    src = [i for i, e in enumerate(source) if e != ONE]
    dst = [i for i, e in enumerate(result) if e != ONE]
    out = [ZERO] * len(source)
    while src or dst:
        a, b = src[:1], dst[:1]
        while v.extent(product([source[i] for i in a])) != v.extent(product([result[i] for i in b])):
            if len(a) == len(src) and len(b) == len(dst):
                break
            shorter = len(b) == len(dst) or (len(a) < len(src) and _divides(v, [source[i] for i in a], [result[i] for i in b]))
            if shorter:
                a = src[: len(a) + 1]
            else:
                b = dst[: len(b) + 1]
        src, dst = src[len(a) :], dst[len(b) :]
        for i, e in zip(a, _regroup(v, [source[i] for i in a], [result[i] for i in b], [ixs[i] for i in b]), strict=True):
            out[i] = e
    return tuple(out)


def _divides(v: Values, a: list[Expr], b: list[Expr]) -> bool:
    """A guess which run is the shorter one: fewer or smaller factors. A wrong guess only makes the runs longer."""
    x, y = v.extent(product(a)), v.extent(product(b))
    if x.value is not None and y.value is not None:
        return x.value < y.value
    p, q = poly(x), poly(y)
    degree = [max((len(m) for m in r), default=0) for r in (p, q)]
    return degree[0] < degree[1] or (degree[0] == degree[1] and max(p.values(), default=0) < max(q.values(), default=0))


def _regroup(v: Values, source: list[Expr], result: list[Expr], ixs: list[Expr]) -> list[Expr]:
    flat: Expr = ZERO
    for e, x in zip(result, ixs, strict=True):
        flat = v.fold(flat * e + x)
    out: list[Expr] = []
    for e in reversed(source[1:]):
        flat, r = split(flat, e, v.facts)
        out.append(v.fold(r))
    return [v.fold(flat), *reversed(out)] if source else []


# ------------------------------------------------------------------------------------------------ structured
@construction("reduce", "xs axes fn identities combine")
def _reduce(v: Values, op: kir.Reduce, n: int, ixs: Ixs) -> Steps:
    """Axes nest, the lowest dimension outermost."""
    axes, at = _bind(v, op.results[0], v.shape(op.xs[0]), op.axes, ixs)
    if op.fn is not None:
        x = yield op.xs[0], at
        dtype = v.program.nodes[x].dtype
        wide = WIDENED.get(dtype, dtype) if op.fn == "sum" else dtype
        x = x if wide == dtype else v.make("Cast", (wide,), (x,), wide)
        for a in reversed(axes):
            x = v.make("Red", (op.fn, a), (v.spread(x, a, v.program.const(identity(op.fn, wide), wide)),), wide)
        return x
    elems, idents = [], []
    for operand in op.xs:
        elems.append((yield operand, at))
    for i in op.identities:
        idents.append((yield i, ()))
    assert op.combine is not None
    k = len(elems)
    comb = yield from combined(v, op.combine, k)
    for axis in reversed(axes):
        members = [v.spread(e, axis, i) for e, i in zip(elems, idents, strict=True)]
        t = v.make("RedN", (axis, k), (*idents, *members, *comb), "tuple")
        elems = [v.make("Pick", (i,), (t,), v.program.nodes[e].dtype) for i, e in enumerate(elems)]
    return elems[n]


def combined(v: Values, r: kir.Region, k: int) -> Generator[Request, int, list[int]]:
    """The yields of a combine region over its formals."""
    for i, a in enumerate(r.args):
        v.formals[a.id] = v.make("Arg", ("lr"[i // k], i % k), (), a.dtype)
    comb = []
    for y in r.yields:
        comb.append((yield y, ()))
    _closed(v, comb)
    return comb


def _bind(v: Values, result: str, shape: tuple[Expr, ...], dims: tuple[int, ...], ixs: Ixs) -> tuple[list[str], Ixs]:
    """Axes for the reduced dimensions (ascending), and the operand's indices."""
    taken = v.taken(result, ixs)
    rest = iter(ixs)
    axes: list[str] = []
    at: list[Expr] = []
    for i, e in enumerate(shape):
        if i in dims:
            x, axis = bound(v, e, taken)
            axes.append(axis)
            at.append(x)
        else:
            at.append(next(rest))
    return axes, tuple(at)


def bound(v: Values, extent: Expr, taken: set[str]) -> tuple[Expr, str]:
    """A coordinate along a reduced dimension, and its axis, which is taken from now on."""
    x, axis = v.dimension(extent, taken)
    if axis is None:
        axis = v.axis(extent, taken)
        x = Coord(axis)
    taken.add(axis)
    return x, axis


def _closed(v: Values, roots: list[int]) -> None:
    todo, seen = list(roots), set()
    while todo:
        i = todo.pop()
        if i not in seen:
            seen.add(i)
            node = v.program.nodes[i]
            if node.op in ("Load", *BOUND, "Scan", "ScanN", "State", "WState", "Form") or (node.op == "Index" and v.program.free(i)):
                raise fail(COMBINE, "the combine region is not closed", stage=STAGE)
            todo += node.args


@construction("contract", "lhs rhs reduce batch acc")
def _contract(v: Values, op: kir.Contract, n: int, ixs: Ixs) -> Steps:
    """``sum_{k1..} Con(k_last, a, b)``: the last pair is the contraction's axis, the others are sums around it, the first outermost."""
    lhs, rhs = v.shape(op.lhs), v.shape(op.rhs)
    taken = v.taken(op.results[0], ixs)
    left: dict[int, Expr] = {}
    right: dict[int, Expr] = {}
    rest = iter(ixs)
    for a, b in op.batch:
        left[a] = right[b] = next(rest)
    paired = {a for a, _ in op.reduce}, {b for _, b in op.reduce}
    for side, shape, skip in ((left, lhs, paired[0]), (right, rhs, paired[1])):
        for i in range(len(shape)):
            if i not in side and i not in skip:
                side[i] = next(rest)
    axes = []
    for a, b in op.reduce:
        e, axis = bound(v, lhs[a], taken)
        axes.append(axis)
        left[a] = right[b] = e
    x = yield op.lhs, tuple(left[i] for i in range(len(lhs)))
    y = yield op.rhs, tuple(right[i] for i in range(len(rhs)))
    k = axes[-1]
    out = v.make("Con", (k,), (v.spread(x, k), v.spread(y, k)), op.acc)
    for axis in reversed(axes[:-1]):
        out = v.make("Red", ("sum", axis), (v.spread(out, axis),), op.acc)
    return out


__all__ = ["bound", "combined", "reshaped"]
