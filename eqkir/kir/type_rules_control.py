"""Type rules of control, records and calls."""

from __future__ import annotations

from eqkir.base.expr import Expr, Sym, substitute
from eqkir.kir import ops
from eqkir.kir.extents import symbols_of
from eqkir.kir.model import Region
from eqkir.kir.type_rules import INDEX, Types
from eqkir.kir.types import Context, DomainType, RecordType, TensorType, Type, TypeFault, type_rule


def condition(ctx: Context, id: str, at: str) -> None:
    """A bool scalar."""
    ctx.scalar(id, at)
    ctx.want(id, at, ("bool",), "a condition")


def yields(r: Region, types: tuple[Type, ...], at: str, ctx: Context, code: str = "CARRY") -> None:
    """The region yields values of these types."""
    if len(r.yields) != len(types):
        raise TypeFault("REGION", f"{len(r.yields)} yields", f"{at}/yields", str(len(types)))
    for i, (y, t) in enumerate(zip(r.yields, types, strict=True)):
        if not ctx.same_type(got := ctx.type_of(y), t):
            raise TypeFault(code, f"{y} is {got}", f"{at}/yields/{i}", str(t))


def arguments(r: Region, types: tuple[Type, ...], at: str, ctx: Context, code: str = "CARRY") -> None:
    """The region declares arguments of these types; enters them."""
    if len(r.args) != len(types):
        raise TypeFault("REGION", f"{len(r.args)} arguments", f"{at}/args", str(len(types)))
    for i, (a, t) in enumerate(zip(ctx.arguments(r, at), types, strict=True)):
        if not ctx.same_type(a, t):
            raise TypeFault(code, f"{r.args[i].id} is {a}", f"{at}/args/{i}", str(t))


@type_rule("for")
def _for(op: ops.For, ctx: Context) -> Types:
    ctx.domain(op.domain, "domain")
    carries = tuple(ctx.value(x, f"inits/{i}") for i, x in enumerate(op.inits))
    arguments(op.body, (INDEX, *carries), "body", ctx)
    ctx.inside(op.body, "body", carries)
    yields(op.body, carries, "body", ctx)
    return carries


@type_rule("while")
def _while(op: ops.While, ctx: Context) -> Types:
    carries = tuple(ctx.value(x, f"inits/{i}") for i, x in enumerate(op.inits))
    arguments(op.cond, carries, "cond", ctx)
    ctx.inside(op.cond, "cond")
    yields(op.cond, (TensorType("bool"),), "cond", ctx, "REGION")
    arguments(op.body, carries, "body", ctx)
    ctx.inside(op.body, "body", carries)
    yields(op.body, carries, "body", ctx)
    return carries


@type_rule("if")
def _if(op: ops.If, ctx: Context) -> Types:
    condition(ctx, op.cond, "cond")
    for name, r in (("then", op.then), ("otherwise", op.otherwise)):
        if r.args:
            raise TypeFault("REGION", f"{len(r.args)} arguments", f"{name}/args", "none")
        ctx.inside(r, name, loop=False)
    types = tuple(ctx.value(y, f"then/yields/{i}") for i, y in enumerate(op.then.yields))
    yields(op.otherwise, types, "otherwise", ctx)
    return types


def _leave(op: ops.Break | ops.Continue, ctx: Context) -> Types:
    condition(ctx, op.cond, "cond")
    carries = ctx.carries[-1] if ctx.carries else None
    if carries is None:
        raise TypeFault("LOOP", f"{op.op} outside the body of a loop", "op", "inside for or while, under nothing but if")
    if len(op.values) != len(carries):
        raise TypeFault("CARRY", f"{len(op.values)} values for {len(carries)} carries", "values", str(len(carries)))
    for i, (x, t) in enumerate(zip(op.values, carries, strict=True)):
        if not ctx.same_type(got := ctx.type_of(x), t):
            raise TypeFault("CARRY", f"{x} is {got}", f"values/{i}", str(t))
    return ()


type_rule("break")(_leave)
type_rule("continue")(_leave)


# ------------------------------------------------------------------------------------------------ records
@type_rule("make_record")
def _make_record(op: ops.MakeRecord, ctx: Context) -> Types:
    if len(op.names) != len(op.values):
        raise TypeFault("RECORD", f"{len(op.names)} names for {len(op.values)} values", "names", str(len(op.values)))
    for i, n in enumerate(op.names):
        if n in op.names[:i]:
            raise TypeFault("RECORD", f"two fields are named {n}", f"names/{i}", "distinct names")
    return (RecordType(tuple((n, ctx.value(x, f"values/{i}")) for i, (n, x) in enumerate(zip(op.names, op.values, strict=True)))),)


@type_rule("get_field")
def _get_field(op: ops.GetField, ctx: Context) -> Types:
    t = ctx.type_of(op.x)
    if not isinstance(t, RecordType):
        raise TypeFault("RECORD", f"{op.x} ({t}) has no fields", "x", "a record")
    fields = dict(t.fields)
    if op.name not in fields:
        raise TypeFault("RECORD", f"{op.x} has no field {op.name}", "name", " ".join(fields))
    return (fields[op.name],)


# ------------------------------------------------------------------------------------------------ calls
def _bind(want: tuple[Expr, ...], got: tuple[Expr, ...], symbols: tuple[str, ...], env: dict[Expr, Expr], ctx: Context) -> bool:
    """Match the extents of an argument against the declared ones, fixing the helper's symbols."""
    if len(want) != len(got):
        return False
    for w, g in zip(want, got, strict=True):
        if w.op == "sym" and w.args[0] in symbols:
            if not ctx.extents.equal(env.setdefault(w, g), g):
                return False
        elif not ctx.extents.equal(substitute(w, env), g):
            return False
    return True


def _match(want: Type, got: Type, symbols: tuple[str, ...], env: dict[Expr, Expr], ctx: Context) -> bool:
    if isinstance(want, DomainType) and isinstance(got, DomainType):
        begin, end, length = (want.begin, got.begin), (want.end, got.end), (want.length, got.length)
        env.update(dict([begin, end, length]))
        return got.step == 1
    if isinstance(want, RecordType) and isinstance(got, RecordType) and len(want.fields) == len(got.fields):
        pairs = zip(want.fields, got.fields, strict=True)
        return all(n == m and _match(w, g, symbols, env, ctx) for (n, w), (m, g) in pairs)
    if isinstance(want, TensorType) and isinstance(got, TensorType):
        return want.dtype == got.dtype and _bind(want.shape, got.shape, symbols, env, ctx)
    return False


@type_rule("call")
def _call(op: ops.Call, ctx: Context) -> Types:
    if op.helper not in ctx.helpers:
        raise TypeFault("HELPER", f"no helper {op.helper}", "helper", " ".join(sorted(ctx.helpers)) or "a helper of the module")
    h = ctx.helpers[op.helper]
    for f, want in (("args", len(h.args)), ("views", len(h.views))):
        if len(getattr(op, f)) != want:
            raise TypeFault("HELPER", f"{len(getattr(op, f))} {f} for {op.helper}", f, str(want))
    for c in h.helper.constexprs:
        mine = ctx.constexprs.get(c.id)
        if mine is None or (mine.type, mine.choices) != (c.type, c.choices):
            raise TypeFault("HELPER", f"{op.helper} captures the constexpr {c.id}: {c.type}", "helper", f"a constexpr {c.id} of that type")
    env: dict[Expr, Expr] = {}
    for i, (x, t) in enumerate(zip(op.args, h.args, strict=True)):
        if not _match(t, got := ctx.type_of(x), h.helper.symbols, env, ctx):
            raise TypeFault("HELPER", f"{x} is {got}", f"args/{i}", str(t))
        if isinstance(t, TensorType) and not t.shape:
            env[Sym(h.helper.args[i].id)] = ctx.meaning.get(x, Sym(x))
    for i, (v, r) in enumerate(zip(op.views, h.views, strict=True)):
        mine_ = ctx.resource(v, f"views/{i}")
        if mine_.dtype != r.dtype or not _bind(r.shape, mine_.shape, h.helper.symbols, env, ctx):
            what = f"{v} is {mine_.dtype}[{', '.join(map(str, mine_.shape))}]"
            raise TypeFault("HELPER", what, f"views/{i}", f"{r.dtype} of rank {len(r.shape)}")
    ctx.bindings[id(op)] = env
    return tuple(substituted(t, env, ctx) for t in h.results)


def substituted(t: Type, env: dict[Expr, Expr], ctx: Context) -> Type:
    """A helper's result type in the caller's extents."""
    if isinstance(t, RecordType):
        return RecordType(tuple((n, substituted(f, env, ctx)) for n, f in t.fields))  # type: ignore[misc]
    assert isinstance(t, TensorType)
    return TensorType(t.dtype, tuple(ctx.extents.canon(substitute(e, env)) for e in t.shape))


def foreign(t: Type, allowed: set[str]) -> list[str]:
    """Names in a type's extents that are not `allowed`."""
    if isinstance(t, RecordType):
        return [s for _, f in t.fields for s in foreign(f, allowed)]
    return [s for e in t.shape for s in symbols_of(e) if s not in allowed] if isinstance(t, TensorType) else []
