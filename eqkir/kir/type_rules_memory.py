"""Type rules of memory: views, buffers, atomics, gathers, parts of domains, random numbers."""

from __future__ import annotations

from typing import Protocol

from eqkir.base.dtypes import INTS
from eqkir.base.expr import Expr, Int, sub
from eqkir.kir import ops
from eqkir.kir.type_rules import ARITHMETIC_FLOATS, INDEX, NUMBERS, Types
from eqkir.kir.types import BufferType, Context, DomainType, TensorType, TypeFault, type_rule


class _Coordinates(Protocol):
    """What an indexed access has."""

    @property
    def coords(self) -> tuple[str, ...]: ...
    @property
    def valid(self) -> str | None: ...


def indexed(op: _Coordinates, what: str, rank: int, ctx: Context) -> tuple[Expr, ...]:
    """The broadcast shape of coordinates and validity of an access to something of this rank."""
    if len(op.coords) != rank:
        raise TypeFault("COORDS", f"{len(op.coords)} coordinates for {what}, which has rank {rank}", "coords", str(rank))
    operands = [(c, f"coords/{i}") for i, c in enumerate(op.coords)]
    for c, at in operands:
        ctx.want(c, at, INTS, "a coordinate")
    if op.valid is not None:
        ctx.want(op.valid, "valid", ("bool",), "validity")
        operands.append((op.valid, "valid"))
    return ctx.broadcast(operands)


def filled(op: ops.Load | ops.Gather, what: str, dtype: str, shape: tuple[Expr, ...], ctx: Context) -> Types:
    """The type of a read; its fill fits."""
    if op.fill is not None:
        ctx.want(op.fill, "fill", (dtype,), f"the fill of {what}")
        if ctx.merge(shape, ctx.tensor(op.fill, "fill").shape) != shape:
            raise TypeFault("SHAPE", "the fill does not broadcast to the coordinates' shape", "fill")
    return (TensorType(dtype, shape),)


def fits(ctx: Context, id: str, at: str, dtype: str, shape: tuple[Expr, ...], what: str) -> None:
    """A written operand has the dtype and broadcasts to the coordinates' shape."""
    t = ctx.want(id, at, (dtype,), what)
    if ctx.merge(shape, t.shape) != shape:
        names = ", ".join(map(str, shape))
        raise TypeFault("SHAPE", f"{id} of type {t} does not broadcast to the coordinates' shape [{names}]", at)


@type_rule("buffer")
def _buffer(op: ops.Buffer, ctx: Context) -> Types:
    shape = ctx.shape(op.shape, "shape")
    if op.init is not None:
        t = ctx.want(op.init, "init", (op.dtype,), f"a buffer of {op.dtype}")
        if ctx.merge(shape, t.shape) != shape:
            raise TypeFault("SHAPE", f"{t} does not broadcast to the buffer's shape [{', '.join(map(str, shape))}]", "init")
    return (BufferType(op.dtype, shape),)


@type_rule("load")
def _load(op: ops.Load, ctx: Context) -> Types:
    r = ctx.resource(op.view, "view")
    return filled(op, op.view, r.dtype, indexed(op, op.view, len(r.shape), ctx), ctx)


@type_rule("gather")
def _gather(op: ops.Gather, ctx: Context) -> Types:
    t = ctx.tensor(op.x, "x")
    return filled(op, op.x, t.dtype, indexed(op, op.x, t.rank, ctx), ctx)


def written(op: ops.Write, what: str, ctx: Context) -> tuple[str, tuple[Expr, ...]]:
    """dtype of the resource, and the coordinates' shape, of a write."""
    r = ctx.resource(op.view, "view")
    shape = indexed(op, op.view, len(r.shape), ctx)
    fits(ctx, op.value, "value", r.dtype, shape, f"{what} to {op.view}")
    return r.dtype, shape


@type_rule("store")
def _store(op: ops.Store, ctx: Context) -> Types:
    written(op, "a store", ctx)
    return ()


@type_rule("unique_scatter")
def _unique(op: ops.UniqueScatter, ctx: Context) -> Types:
    written(op, "a scatter", ctx)
    return ()


@type_rule("scatter_reduce")
def _scatter(op: ops.ScatterReduce, ctx: Context) -> Types:
    dtype, _ = written(op, "a scatter", ctx)
    allowed = INTS | {"bool"} if op.fn in ("and", "or", "xor") else NUMBERS
    if dtype not in allowed:
        raise TypeFault("DTYPE", f"scatter_reduce {op.fn} does not take {dtype}", "fn", " ".join(sorted(allowed)))
    return ()


# ------------------------------------------------------------------------------------------------ atomics
_ATOMIC = INTS | ARITHMETIC_FLOATS
_UPDATES = {
    "exchange": _ATOMIC, "add": _ATOMIC, "max": INTS | {"f32", "f64"}, "min": INTS | {"f32", "f64"}, "and": INTS, "or": INTS, "xor": INTS,
}  # fmt: skip


def _atomic(dtype: str, fn: str, allowed: frozenset[str]) -> None:
    if dtype not in allowed:
        raise TypeFault("ATOMIC", f"{fn} of {dtype}", "view", " ".join(sorted(allowed)))


@type_rule("atomic_load")
def _atomic_load(op: ops.AtomicLoad, ctx: Context) -> Types:
    r = ctx.resource(op.view, "view")
    shape = indexed(op, op.view, len(r.shape), ctx)
    _atomic(r.dtype, op.op, _ATOMIC)
    return (TensorType(r.dtype, shape),)


@type_rule("atomic_store")
def _atomic_store(op: ops.AtomicStore, ctx: Context) -> Types:
    dtype, _ = written(op, "an atomic store", ctx)
    _atomic(dtype, op.op, _ATOMIC)
    return ()


def _update(op: ops.AtomicUpdate, ctx: Context) -> Types:
    dtype, shape = written(op, f"an {op.op}", ctx)
    _atomic(dtype, op.op, frozenset(_UPDATES[op.op.removeprefix("atomic_")]))
    return (TensorType(dtype, shape),)


for _fn in _UPDATES:
    type_rule(f"atomic_{_fn}")(_update)


@type_rule("atomic_compare_exchange")
def _compare_exchange(op: ops.AtomicCompareExchange, ctx: Context) -> Types:
    r = ctx.resource(op.view, "view")
    shape = indexed(op, op.view, len(r.shape), ctx)
    _atomic(r.dtype, op.op, _ATOMIC)
    for f in ("expected", "value"):
        fits(ctx, getattr(op, f), f, r.dtype, shape, f"an exchange in {op.view}")
    return TensorType(r.dtype, shape), TensorType("bool", shape)


# ------------------------------------------------------------------------------------------------ coordinates
@type_rule("subregion")
def _subregion(op: ops.Subregion, ctx: Context) -> Types:
    d = ctx.domain(op.domain, "domain")
    if op.domain in ctx.slices:
        raise TypeFault("SLICE", f"{op.domain} is a slice, whose boundaries are not observable", "domain", "a part of the source")
    if d.step != 1:
        raise TypeFault("SUBREGION", f"{op.domain} has step {d.step}", "domain", "a domain of step 1")
    begin, end = ctx.observed(op.begin, "begin"), ctx.observed(op.end, "end")
    length = ctx.extents.length(begin, end, 1)
    if ctx.extents.nonneg(sub(length, Int(1))):  # provably not empty: it must lie inside
        for f, low, high in (("begin", d.begin, begin), ("end", end, d.end)):
            if ctx.extents.nonneg(sub(sub(low, high), Int(1))):
                raise TypeFault("SUBREGION", f"{f} {begin if f == 'begin' else end} lies outside {d}", f, f"a part of {d}")
    return (DomainType(begin, end, 1, length, op.domain),)


@type_rule("assume_in_bounds")
def _assume(op: ops.AssumeInBounds, ctx: Context) -> Types:
    r = ctx.resource(op.view, "view")
    t = ctx.want(op.x, "x", INTS, "assume_in_bounds")
    if op.axis >= len(r.shape):
        raise TypeFault("AXIS", f"axis {op.axis} of {op.view}, which has rank {len(r.shape)}", "axis", f"less than {len(r.shape)}")
    if t == INDEX and len(op.results) == 1 and op.x in ctx.meaning:
        ctx.meaning[op.results[0]] = ctx.meaning[op.x]
    return (t,)


# ------------------------------------------------------------------------------------------------ random numbers
def _random(op: ops.RandomBits | ops.RandomUniform, ctx: Context) -> Types:
    operands = ((op.seed, "seed"), (op.counter, "counter"))
    for id, at in operands:
        ctx.want(id, at, INTS, op.op)
    return (TensorType("u32" if op.op == "random_bits" else "f32", ctx.broadcast(operands)),)


type_rule("random_bits")(_random)
type_rule("random_uniform")(_random)
