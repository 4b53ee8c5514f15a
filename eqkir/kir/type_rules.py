"""Type rules of the core operations (kir.md sections 2 to 5), one function each."""

from __future__ import annotations

import math

from eqkir.base import dtypes
from eqkir.base.dtypes import FLOATS, INTS, NUMPY, WIDENED
from eqkir.base.expr import Expr, Int, Sym, product, rebuild
from eqkir.kir import ops
from eqkir.kir.extents import TooComplex
from eqkir.kir.model import Region
from eqkir.kir.types import Context, DomainType, TensorType, Type, TypeFault, type_rule

Types = tuple[Type, ...]
INDEX = TensorType("index")
#: floats that arithmetic is defined on; the 8-bit ones are storage (cast first), as operands of `contract` too
ARITHMETIC_FLOATS = FLOATS - {"f8e4m3fn", "f8e5m2"}
NUMBERS = INTS | ARITHMETIC_FLOATS

_SAME = {"neg": NUMBERS, "abs": NUMBERS, "not": INTS | {"bool"}}
_TESTS = ("isnan", "isinf", "isfinite")
_BINARY = {
    **dict.fromkeys(("add", "sub", "mul"), NUMBERS), "div": ARITHMETIC_FLOATS, **dict.fromkeys(("floordiv", "mod"), INTS),
    **dict.fromkeys(("maximum", "minimum", "maximum_num", "minimum_num"), NUMBERS),
    **dict.fromkeys(("and", "or", "xor"), INTS | {"bool"}), **dict.fromkeys(("shl", "shr"), INTS),
}  # fmt: skip


def int_range(dtype: str) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype."""
    w = dtypes.bits(dtype)
    return (-(1 << (w - 1)), (1 << (w - 1)) - 1) if dtype in dtypes.SIGNED else (0, (1 << w) - 1)


def constant_value(value: bool | int | float | str, dtype: str) -> bool | int | float:
    """The value of a constant's JSON literal, rounded to `dtype`. Raises ValueError when the dtype cannot hold it."""
    if dtype == "bool":
        if isinstance(value, bool):
            return value
        raise ValueError("a bool constant is true or false")
    if isinstance(value, bool):
        raise ValueError(f"a bool is no {dtype}")
    if dtype in INTS:
        lo, hi = int_range(dtype)
        if not isinstance(value, int):
            raise ValueError(f"{value!r} is no integer")
        if not lo <= value <= hi:
            raise ValueError(f"{value} lies outside {lo}..{hi}")
        return value
    if isinstance(value, str):
        if value not in ("nan", "inf", "-inf"):
            raise ValueError(f"{value!r} is no number")
        value = float(value)
    try:
        x = float(value)
    except OverflowError:
        raise ValueError(f"{str(value)[:40]} is beyond f64") from None
    if dtype == "f8e4m3fn" and (math.isinf(x) or math.isnan(dtypes.parse(dtypes.literal(x, dtype), dtype)) and x == x):
        raise ValueError(f"{x} overflows f8e4m3fn")
    return dtypes.parse(dtypes.literal(x, dtype), dtype)


@type_rule("constant")
def _constant(op: ops.Constant, ctx: Context) -> Types:
    try:
        constant_value(op.value, op.dtype)
    except ValueError as err:
        raise TypeFault("CONSTANT", str(err), "value") from None
    if op.dtype in INTS:
        ctx.meaning.update(dict.fromkeys(op.results[:1], Int(int(op.value))))
    return (TensorType(op.dtype),)


@type_rule("extent")
def _extent(op: ops.ExtentOp, ctx: Context) -> Types:
    ctx.meaning.update(dict.fromkeys(op.results[:1], ctx.observed(op.extent, "extent")))
    return (INDEX,)


@type_rule("domain")
def _domain(op: ops.Domain, ctx: Context) -> Types:
    begin, end = ctx.observed(op.begin, "begin"), ctx.observed(op.end, "end")
    return (DomainType(begin, end, op.step, ctx.extents.length(begin, end, op.step)),)


@type_rule("indices")
def _indices(op: ops.Indices, ctx: Context) -> Types:
    return (TensorType("index", (ctx.domain(op.domain, "domain").length,)),)


def _permissions(op: ops.Unary | ops.Binary, ctx: Context) -> None:
    """Approximation is offered for div, exp2 and tanh of f32."""
    for f in ("approximate", "flush_to_zero"):
        if getattr(op, f) and (op.fn not in ("div", "exp2", "tanh") or ctx.tensor(op.x, "x").dtype != "f32"):
            raise TypeFault("APPROXIMATE", f"{f} of {op.fn} of {ctx.tensor(op.x, 'x').dtype}", f, "div, exp2 or tanh of f32")


def _meaning(op: ops.Binary, ctx: Context) -> None:
    """Sums, differences and products of known index scalars stay known."""
    if op.fn in ("add", "sub", "mul") and len(op.results) == 1 and ctx.types[op.x] == ctx.types[op.y] == INDEX:
        x, y = (ctx.meaning.get(a, Sym(a)) for a in (op.x, op.y))
        try:
            ctx.meaning[op.results[0]] = ctx.extents.canon(rebuild(op.fn, (x, y)))
        except TooComplex:
            return


@type_rule("unary")
def _unary(op: ops.Unary, ctx: Context) -> Types:
    _permissions(op, ctx)
    t = ctx.want(op.x, "x", _SAME.get(op.fn, ARITHMETIC_FLOATS), op.fn)
    return (TensorType("bool" if op.fn in _TESTS else t.dtype, t.shape),)


@type_rule("binary")
def _binary(op: ops.Binary, ctx: Context) -> Types:
    operands = ((op.x, "x"), (op.y, "y"))
    for id, at in operands:
        ctx.want(id, at, _BINARY[op.fn], op.fn)
    _permissions(op, ctx)
    _meaning(op, ctx)
    return (TensorType(ctx.same(op.fn, *operands), ctx.broadcast(operands)),)


@type_rule("compare")
def _compare(op: ops.Compare, ctx: Context) -> Types:
    operands = ((op.x, "x"), (op.y, "y"))
    for id, at in operands:
        ctx.want(id, at, NUMBERS | {"bool"} if op.fn in ("eq", "ne") else NUMBERS, op.fn)
    ctx.same(op.fn, *operands)
    return (TensorType("bool", ctx.broadcast(operands)),)


@type_rule("fma")
def _fma(op: ops.Fma, ctx: Context) -> Types:
    operands = ((op.x, "x"), (op.y, "y"), (op.z, "z"))
    for id, at in operands:
        ctx.want(id, at, ARITHMETIC_FLOATS, "fma")
    return (TensorType(ctx.same("fma", *operands), ctx.broadcast(operands)),)


@type_rule("select")
def _select(op: ops.Select, ctx: Context) -> Types:
    ctx.want(op.cond, "cond", ("bool",), "the condition")
    dtype = ctx.same("select", (op.x, "x"), (op.y, "y"))
    return (TensorType(dtype, ctx.broadcast(((op.cond, "cond"), (op.x, "x"), (op.y, "y")))),)


@type_rule("cast")
def _cast(op: ops.Cast, ctx: Context) -> Types:
    t = ctx.tensor(op.x, "x")
    if op.dtype == "index" and not t.shape and t.dtype in INTS - {"u64"} and len(op.results) == 1:
        ctx.meaning[op.results[0]] = ctx.meaning.get(op.x, Sym(op.x))
    return (TensorType(op.dtype, ctx.tensor(op.x, "x").shape),)


@type_rule("bitcast")
def _bitcast(op: ops.Bitcast, ctx: Context) -> Types:
    t = ctx.tensor(op.x, "x")
    if "bool" in (t.dtype, op.dtype):
        raise TypeFault("DTYPE", "bool has no bit pattern", "x", "an integer or float of the same width")
    if dtypes.bits(t.dtype) != dtypes.bits(op.dtype):
        same = " ".join(d for d in NUMPY if d != "bool" and dtypes.bits(d) == dtypes.bits(t.dtype))
        raise TypeFault("DTYPE", f"bitcast of {t.dtype} to {op.dtype}, which has another width", "dtype", same)
    return (TensorType(op.dtype, t.shape),)


@type_rule("full")
def _full(op: ops.Full, ctx: Context) -> Types:
    return (TensorType(ctx.scalar(op.value, "value").dtype, ctx.shape(op.shape, "shape")),)


@type_rule("broadcast")
def _broadcast(op: ops.Broadcast, ctx: Context) -> Types:
    t, shape = ctx.tensor(op.x, "x"), ctx.shape(op.shape, "shape")
    if ctx.merge(shape, t.shape) != shape:
        raise TypeFault("SHAPE", f"{t} does not broadcast to [{', '.join(map(str, shape))}]", "shape")
    return (TensorType(t.dtype, shape),)


@type_rule("reshape")
def _reshape(op: ops.Reshape, ctx: Context) -> Types:
    t, shape = ctx.tensor(op.x, "x"), ctx.shape(op.shape, "shape")
    if not ctx.extents.equal(product(t.shape), product(shape)):
        raise TypeFault("SHAPE", f"{t} and [{', '.join(map(str, shape))}] are not known to have one count", "shape")
    return (TensorType(t.dtype, shape),)


@type_rule("transpose")
def _transpose(op: ops.Transpose, ctx: Context) -> Types:
    t = ctx.tensor(op.x, "x")
    perm = ctx.axes(op.perm, t.rank, "perm")
    if len(perm) != t.rank:
        raise TypeFault("AXIS", f"{len(perm)} axes for a tensor of rank {t.rank}", "perm", "a full permutation")
    return (TensorType(t.dtype, tuple(t.shape[p] for p in perm)),)


@type_rule("reduce")
def _reduce(op: ops.Reduce, ctx: Context) -> Types:
    ts = operands(op, "reduction", ctx)
    axes = ctx.axes(op.axes, ts[0].rank, "axes")
    if not axes:
        raise TypeFault("AXIS", "a reduction over no axis", "axes", "at least one axis")
    shape = tuple(e for i, e in enumerate(ts[0].shape) if i not in axes)
    if op.fn is None:
        return _generic(op, ts, shape, ctx)
    if op.combine is not None or op.identities:
        raise TypeFault("REGION", f"{op.fn} is built in", "combine" if op.combine else "identities", "fn alone, or combine with identities")
    if len(op.xs) != 1:
        raise TypeFault("FIELD", f"{op.fn} takes one operand", "xs", "one operand")
    allowed = {"any": {"bool"}, "all": {"bool"}, "sum": NUMBERS | FLOATS, "prod": NUMBERS}.get(op.fn, NUMBERS)
    dtype = ctx.want(op.xs[0], "xs/0", allowed, op.fn).dtype
    return (TensorType(WIDENED.get(dtype, dtype) if op.fn == "sum" else dtype, shape),)


def _generic(op: ops.Reduce, ts: list[TensorType], shape: tuple[Expr, ...], ctx: Context) -> Types:
    if op.combine is None:
        raise TypeFault("REGION", "neither fn nor combine", "", "a built-in fn, or combine with identities")
    combine(op, op.combine, ts, ctx)
    return tuple(TensorType(t.dtype, shape) for t in ts)


def combine(op: ops.Reduce | ops.Scan, r: Region, ts: list[TensorType], ctx: Context) -> None:
    """Check identities and the combine region of a reduction or scan of tensors of these types."""
    n = len(ts)
    if len(op.identities) != n and not (isinstance(op, ops.Scan) and not op.identities and not op.exclusive):
        raise TypeFault("REGION", f"{len(op.identities)} identities for {n} operands", "identities", str(n))
    for i, (id, t) in enumerate(zip(op.identities, ts, strict=False)):
        if ctx.scalar(id, f"identities/{i}").dtype != t.dtype:
            raise TypeFault("DTYPE", f"identity {id} is {ctx.scalar(id, '').dtype}, the operand {t.dtype}", f"identities/{i}", t.dtype)
    region(r, [t.dtype for t in ts] * 2, [t.dtype for t in ts], "combine", ctx)


def operands(op: ops.Reduce | ops.Scan, what: str, ctx: Context) -> list[TensorType]:
    """Types of the operands, which share a shape."""
    if not op.xs:
        raise TypeFault("FIELD", f"a {what} of nothing", "xs", "at least one operand")
    ts = [ctx.tensor(x, f"xs/{i}") for i, x in enumerate(op.xs)]
    for i, t in enumerate(ts):
        if len(t.shape) != ts[0].rank or not all(map(ctx.extents.equal, t.shape, ts[0].shape)):
            raise TypeFault("SHAPE", f"operands of one {what} share a shape, but {t} and {ts[0]} differ", f"xs/{i}", "broadcast first")
    return ts


def region(r: Region, args: list[str], yields: list[str], at: str, ctx: Context) -> None:
    """Check arity and dtypes of a region of scalars, and type its body."""
    if [a.dtype for a in r.args] != args or any(a.shape for a in r.args):
        raise TypeFault("REGION", f"arguments are ({', '.join(a.dtype for a in r.args)})", f"{at}/args", f"({', '.join(args)})")
    ctx.region(r, at)
    if len(r.yields) != len(yields):
        raise TypeFault("REGION", f"{len(r.yields)} yields", f"{at}/yields", str(len(yields)))
    for i, (id, dtype) in enumerate(zip(r.yields, yields, strict=True)):
        if (got := ctx.scalar(id, f"{at}/yields/{i}").dtype) != dtype:
            raise TypeFault("REGION", f"{id} is {got}", f"{at}/yields/{i}", dtype)


_ACC = {
    "f16": {"f32", "f64"}, "bf16": {"f32", "f64"}, "f8e4m3fn": {"f32"}, "f8e5m2": {"f32"}, "f32": {"f32", "f64"}, "f64": {"f64"},
    "i8": {"i32", "i64"}, "u8": {"i32", "u32", "i64", "u64"}, "i16": {"i32", "i64"}, "u16": {"i32", "u32", "i64", "u64"},
    "i32": {"i32", "i64"}, "u32": {"u32", "i64", "u64"}, "i64": {"i64"}, "u64": {"u64"}, "index": {"index"},
}  # fmt: skip


@type_rule("contract")
def _contract(op: ops.Contract, ctx: Context) -> Types:
    dtype = ctx.same("contract", (op.lhs, "lhs"), (op.rhs, "rhs"))
    ctx.want(op.lhs, "lhs", _ACC, "contract")
    if op.acc not in _ACC[dtype]:
        raise TypeFault("DTYPE", f"a contract of {dtype} cannot accumulate in {op.acc}", "acc", " ".join(sorted(_ACC[dtype])))
    lhs, rhs = ctx.tensor(op.lhs, "lhs"), ctx.tensor(op.rhs, "rhs")
    if not op.reduce:
        raise TypeFault("AXIS", "a contract over no axis", "reduce", "at least one pair of axes")
    pairs = [(p, f"{f}/{i}") for f in ("batch", "reduce") for i, p in enumerate(getattr(op, f))]
    for side, t in ((0, lhs), (1, rhs)):
        seen: list[int] = []
        for p, at in pairs:
            if not 0 <= p[side] < t.rank or p[side] in seen:
                raise TypeFault("AXIS", f"axis {p[side]} of {t}", f"{at}/{side}", "each axis at most once")
            seen.append(p[side])
    for (a, b), at in pairs:
        if not ctx.extents.equal(lhs.shape[a], rhs.shape[b]):
            raise TypeFault("SHAPE", f"paired axes have extents {lhs.shape[a]} and {rhs.shape[b]}", at, "equal extents")
    bound_l, bound_r = {a for (a, _), _ in pairs}, {b for (_, b), _ in pairs}
    shape = [lhs.shape[a] for a, _ in op.batch]
    shape += [e for i, e in enumerate(lhs.shape) if i not in bound_l]
    shape += [e for i, e in enumerate(rhs.shape) if i not in bound_r]
    return (TensorType(op.acc, tuple(shape)),)


@type_rule("parallel")
def _parallel(op: ops.Parallel, ctx: Context) -> Types:
    for i, d in enumerate(op.domains):
        ctx.domain(d, f"domains/{i}")
    if not op.domains:
        raise TypeFault("REGION", "a parallel over no domain", "domains", "at least one domain")
    region(op.body, ["index"] * len(op.domains), [], "body", ctx)
    return ()
