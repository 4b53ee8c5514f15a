"""Type rules of scans, arg-reductions, histograms, folds over slices, and operations on encoded numbers."""

from __future__ import annotations

from eqkir.base.dtypes import FLOATS, INTS, WIDENED
from eqkir.base.expr import Expr, Int, Sym, mul, substitute
from eqkir.kir import ops
from eqkir.kir.extents import symbols_of
from eqkir.kir.model import Region, Spec
from eqkir.kir.type_rules import NUMBERS, Types, combine, operands
from eqkir.kir.type_rules_control import arguments, yields
from eqkir.kir.types import Context, DomainType, TensorType, Type, TypeFault, type_rule


def _axis(axis: int, rank: int, ctx: Context) -> None:
    if not 0 <= axis < rank:
        raise TypeFault("AXIS", f"axis {axis} of a tensor of rank {rank}", "axis", f"0 <= axis < {rank}")


@type_rule("join")
def _join(op: ops.Join, ctx: Context) -> Types:
    pair = ((op.x, "x"), (op.y, "y"))
    dtype = ctx.same("join", *pair)
    return (TensorType(dtype, (*ctx.broadcast(pair), Int(2))),)


@type_rule("arg_reduce")
def _arg_reduce(op: ops.ArgReduce, ctx: Context) -> Types:
    t = ctx.want(op.x, "x", NUMBERS, op.fn)
    _axis(op.axis, t.rank, ctx)
    if op.dtype not in ("index", "i32", "i64", "u32", "u64"):
        raise TypeFault("DTYPE", f"an index of dtype {op.dtype}", "dtype", "index i32 i64 u32 u64")
    shape = tuple(e for i, e in enumerate(t.shape) if i != op.axis)
    return TensorType(t.dtype, shape), TensorType(op.dtype, shape)


@type_rule("scan")
def _scan(op: ops.Scan, ctx: Context) -> Types:
    ts = operands(op, "scan", ctx)
    _axis(op.axis, ts[0].rank, ctx)
    if op.fn is None:
        if op.combine is None:
            raise TypeFault("REGION", "neither fn nor combine", "", "a built-in fn, or combine")
        combine(op, op.combine, ts, ctx)
        return tuple(ts)
    if op.combine is not None or op.identities:
        raise TypeFault("REGION", f"{op.fn} is built in", "combine" if op.combine else "identities", "fn alone, or combine")
    if len(op.xs) != 1:
        raise TypeFault("FIELD", f"{op.fn} takes one operand", "xs", "one operand")
    dtype = ctx.want(op.xs[0], "xs/0", NUMBERS | FLOATS if op.fn == "cumsum" else NUMBERS, op.fn).dtype
    return (TensorType(WIDENED.get(dtype, dtype) if op.fn == "cumsum" else dtype, ts[0].shape),)


@type_rule("histogram")
def _histogram(op: ops.Histogram, ctx: Context) -> Types:
    t = ctx.want(op.x, "x", INTS, "histogram")
    if op.valid is not None:
        v = ctx.want(op.valid, "valid", ("bool",), "validity")
        if ctx.merge(t.shape, v.shape) != t.shape:
            raise TypeFault("SHAPE", f"validity of type {v} does not broadcast to {t}", "valid")
    if op.dtype not in INTS:
        raise TypeFault("DTYPE", f"counts of {op.dtype}", "dtype", "an integer")
    return (TensorType(op.dtype, ctx.shape([op.bins], "bins")),)


# ------------------------------------------------------------------------------------------------ folds over slices
Fold = ops.RegionFold | ops.RegionScan
FRESH = Spec(dtype="domain")


def _slice(op: Fold, r: Region, at: str, between: tuple[Type, ...], captures: tuple[Type, ...], ctx: Context) -> Expr:
    """Enter slice, slices of the tensors, `between`, captures as the region's arguments; the slice's extent."""
    n = 1 + len(op.xs) + len(between) + len(captures)
    if len(r.args) != n:
        what = f"{n}: the slice, its tensors, {'state, ' if between else ''}captures"
        raise TypeFault("REGION", f"{len(r.args)} arguments", f"{at}/args", what)
    name = r.args[0].id
    if r.args[0].dtype != "domain":
        raise TypeFault("REGION", f"{name} is a {r.args[0].dtype}", f"{at}/args/0", "domain")
    source = ctx.domain(op.domain, "domain")
    ctx.slices |= {name, f"{name}.begin", f"{name}.end"}
    length = Sym(name)
    sliced = []
    for x, axis in zip(op.xs, op.axes, strict=True):
        whole = ctx.tensor(x, "xs")
        sliced.append(TensorType(whole.dtype, tuple(length if i == axis else e for i, e in enumerate(whole.shape))))
    slice_ = DomainType(Sym(f"{name}.begin"), Sym(f"{name}.end"), 1, length)
    own = [a.id for a in r.args[n - len(captures) :]]
    expected = [ctx.spec(FRESH, x, "") if isinstance(t, DomainType) else t for x, t in zip(own, captures, strict=True)]
    arguments(r, (slice_, *sliced, *between, *expected), at, ctx, "REGION")
    ctx.types[name] = DomainType(slice_.begin, slice_.end, source.step, length, op.domain)
    for arg, c, held in zip(own, op.captures, captures, strict=True):  # what is captured means what it means outside
        if isinstance(held, DomainType):
            ctx.types[arg] = held
            ctx.slices |= {arg} if c in ctx.slices else set()
        elif isinstance(held, TensorType) and held.dtype in INTS and not held.shape:
            ctx.meaning[arg] = ctx.meaning.get(c, Sym(c))
    ctx.inside(r, at)
    return length


def _fold(op: Fold, ctx: Context) -> tuple[tuple[Type, ...], tuple[Type, ...]]:
    """Check operands, summarize and combine; types of the summary and of the captures."""
    d = ctx.domain(op.domain, "domain")
    if len(op.axes) != len(op.xs):
        raise TypeFault("AXIS", f"{len(op.axes)} axes for {len(op.xs)} tensors", "axes", str(len(op.xs)))
    for i, (x, axis) in enumerate(zip(op.xs, op.axes, strict=True)):
        t = ctx.tensor(x, f"xs/{i}")
        if not 0 <= axis < t.rank:
            raise TypeFault("AXIS", f"axis {axis} of {t}", f"axes/{i}", f"0 <= axis < {t.rank}")
        if not ctx.extents.equal(t.shape[axis], d.length):
            what = f"axis {axis} of {x} has extent {t.shape[axis]}, the domain {d.length}"
            raise TypeFault("SHAPE", what, f"xs/{i}", "the domain's length")
    captures = tuple(_captured(c, f"captures/{i}", ctx) for i, c in enumerate(op.captures))
    state: tuple[Type, ...] = tuple(ctx.value(x, f"identity/{i}") for i, x in enumerate(op.identity))
    if not state:
        raise TypeFault("REGION", "no state", "identity", "at least one")
    _slice(op, op.summarize, "summarize", (), captures, ctx)
    yields(op.summarize, state, "summarize", ctx, "REGION")
    arguments(op.combine, state + state, "combine", ctx, "REGION")
    ctx.inside(op.combine, "combine")
    yields(op.combine, state, "combine", ctx, "REGION")
    return state, captures


def _captured(id: str, at: str, ctx: Context) -> Type:
    """A tensor, a record or a domain."""
    t = ctx.type_of(id)
    return t if isinstance(t, DomainType) else ctx.value(id, at)


@type_rule("region_fold")
def _region_fold(op: ops.RegionFold, ctx: Context) -> Types:
    return _fold(op, ctx)[0]


@type_rule("region_scan")
def _region_scan(op: ops.RegionScan, ctx: Context) -> Types:
    transition, captures = _fold(op, ctx)
    state: tuple[Type, ...] = tuple(ctx.value(x, f"init/{i}") for i, x in enumerate(op.init))
    arguments(op.apply, transition + state, "apply", ctx, "REGION")
    ctx.inside(op.apply, "apply")
    yields(op.apply, state, "apply", ctx, "REGION")
    length = _slice(op, op.emit, "emit", state, captures, ctx)
    if len(op.emit.yields) != len(op.out_axes):
        raise TypeFault("AXIS", f"{len(op.out_axes)} axes for {len(op.emit.yields)} outputs", "out_axes", str(len(op.emit.yields)))
    source = ctx.domain(op.domain, "domain").length
    outputs: list[Type] = []
    for i, (y, axis) in enumerate(zip(op.emit.yields, op.out_axes, strict=True)):
        t = ctx.tensor(y, f"emit/yields/{i}")
        if not 0 <= axis < t.rank or not ctx.extents.equal(t.shape[axis], length):
            raise TypeFault("SHAPE", f"axis {axis} of {y} ({t}) is not the slice", f"emit/yields/{i}", f"extent {length}")
        shape = tuple(source if j == axis else e for j, e in enumerate(t.shape))
        if any(s in ctx.slices for e in shape for s in symbols_of(substitute(e, {}))):
            raise TypeFault("SLICE", f"{t} has the slice's extent beside axis {axis}", f"emit/yields/{i}", "one axis of that extent")
        outputs.append(TensorType(t.dtype, shape))
    return (*outputs, *state)


# ------------------------------------------------------------------------------------------------ encoded numbers
def _shaped(ctx: Context, id: str, at: str, rank: int | None, dtypes: tuple[str, ...], what: str) -> TensorType:
    t = ctx.tensor(id, at)
    if t.dtype not in dtypes or (t.rank != rank if rank is not None else t.rank < 1):
        raise TypeFault("FORMAT", f"{what} is {t}", at, f"{' or '.join(dtypes)}" + ("" if rank is None else f" of rank {rank}"))
    return t


def _equal(ctx: Context, a: Expr, b: Expr, at: str, what: str) -> None:
    if not ctx.extents.equal(a, b):
        raise TypeFault("FORMAT", f"{what}: {a} and {b}", at, "equal extents")


_CODES = {"e2m1": ("u8",), "e4m3": ("f8e4m3fn", "u8")}


@type_rule("scaled_contract")
def _scaled(op: ops.ScaledContract, ctx: Context) -> Types:
    lhs = _shaped(ctx, op.lhs, "lhs", 3, _CODES[op.lhs_format], f"an {op.lhs_format} operand")
    rhs = _shaped(ctx, op.rhs, "rhs", 3, _CODES[op.rhs_format], f"an {op.rhs_format} operand")
    ls = _shaped(ctx, op.lhs_scale, "lhs_scale", 2, ("u8", "f32"), "a scale")
    rs = _shaped(ctx, op.rhs_scale, "rhs_scale", 2, ("u8", "f32"), "a scale")
    size = {"e2m1": 2, "e4m3": 1}
    _equal(ctx, mul(lhs.shape[2], Int(size[op.lhs_format])), mul(rhs.shape[1], Int(size[op.rhs_format])), "rhs", "group sizes")
    _equal(ctx, lhs.shape[1], rhs.shape[0], "rhs", "numbers of groups")
    for t, s, at, (a, b) in ((lhs, ls, "lhs_scale", (0, 1)), (rhs, rs, "rhs_scale", (0, 2))):
        _equal(ctx, t.shape[a], s.shape[0], at, "a scale for each row and group")
        _equal(ctx, t.shape[b], s.shape[1], at, "a scale for each row and group")
    return (TensorType("f32", (lhs.shape[0], rhs.shape[2])),)


_SPARSE = {"f16": ("f32",), "bf16": ("f32",), "f32": ("f32",), "i8": ("i32",), "f8e4m3fn": ("f32",), "f8e5m2": ("f32",)}


@type_rule("sparse_contract")
def _sparse(op: ops.SparseContract, ctx: Context) -> Types:
    lhs = _shaped(ctx, op.lhs, "lhs", 2, tuple(_SPARSE), "the present elements")
    rhs = _shaped(ctx, op.rhs, "rhs", 2, (lhs.dtype,), "the dense operand")
    meta = _shaped(ctx, op.meta, "meta", 2, ("u8",), "the metadata")
    if op.acc not in _SPARSE[lhs.dtype]:
        raise TypeFault("FORMAT", f"a sparse contract of {lhs.dtype} cannot accumulate in {op.acc}", "acc", " ".join(_SPARSE[lhs.dtype]))
    for i in (0, 1):
        _equal(ctx, lhs.shape[i], meta.shape[i], "meta", "a place for each element")
    _equal(ctx, mul(lhs.shape[1], Int(2)), rhs.shape[0], "rhs", "half of the members are present")
    if op.pattern == "two_of_four":
        from eqkir.base.expr import mod

        _equal(ctx, mod(rhs.shape[0], Int(4)), Int(0), "rhs", "groups of 4")
    return (TensorType(op.acc, (lhs.shape[0], rhs.shape[1])),)


@type_rule("quantize")
def _quantize(op: ops.Quantize, ctx: Context) -> Types:
    t = _shaped(ctx, op.x, "x", None, ("f32",), "what is quantised")
    _equal(ctx, t.shape[-1], Int(256), "x", "the last axis is one record")
    return (TensorType("u8", (*t.shape[:-1], Int(292))),)


@type_rule("quantized_dot")
def _quantized_dot(op: ops.QuantizedDot, ctx: Context) -> Types:
    ts = []
    for at, size in (("lhs", 144), ("rhs", 292)):
        t = _shaped(ctx, getattr(op, at), at, None, ("u8",), f"{getattr(op, at + '_format')} records")
        if t.rank < 2:
            raise TypeFault("FORMAT", f"{t} holds no records", at, "[..., records, bytes]")
        _equal(ctx, t.shape[-1], Int(size), at, f"a record of {getattr(op, at + '_format')}")
        ts.append(t)
    _equal(ctx, ts[0].shape[-2], ts[1].shape[-2], "rhs", "numbers of records")
    shape = ctx.merge(ts[0].shape[:-2], ts[1].shape[:-2])
    if shape is None:
        raise TypeFault("SHAPE", f"leading axes of {ts[0]} and {ts[1]} do not broadcast", "rhs")
    return (TensorType("f32", shape),)
