"""Types of KIR values and their inference: one registered rule an operation (`kir.type_rules` holds those of the core).

A tensor's shape is a tuple of `base.expr` expressions over symbols, int constexprs and integer scalars, in the normal form of
`kir.extents` (declared equal symbols replaced by the first declared), so equal extents are equal expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.base.expr import ONE, Expr, Sym, substitute
from eqkir.kir.codes import CODES, STAGE
from eqkir.kir.extents import Extents, TooComplex, symbols_of
from eqkir.kir.model import Constexpr, HelperView, Kernel, Op, Region, Scalar, Spec, Symbol, View, extent_expr
from eqkir.kir.type_model import BufferType, DomainType, HelperType, RecordType, Resource, TensorType, Type

INTEGER_DTYPES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "index")
#: the dtype of a constexpr as a value; an enum is the position of its choice
CONSTEXPR_DTYPE = {"bool": "bool", "int": "index", "float": "f64", "enum": "index"}


class TypeFault(Exception):
    """What a type rule raises; `field` is the JSON path inside the operation."""

    def __init__(self, code: str, message: str, field: str = "", accepted: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.field, self.accepted = CODES[code], message, field, accepted


class Unknown(Exception):
    """An operand has no type because of an error reported elsewhere."""


Rule = Callable[[Any, "Context"], tuple[Type, ...]]
RULES: dict[str, Rule] = {}


def type_rule(op: str) -> Callable[[Rule], Rule]:
    """Register the type rule of the operation with this ``op`` literal: (operation, context) -> types of its results."""

    def put(rule: Rule) -> Rule:
        RULES[op] = rule
        return rule

    return put


@dataclass
class Context:
    """What a rule may ask: types of operands, views, extents. Rules raise `TypeFault`."""

    extents: Extents = field(default_factory=Extents)
    views: dict[str, View | HelperView] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)  # what extents of operations may name
    types: dict[str, Type] = field(default_factory=dict)
    helpers: dict[str, HelperType] = field(default_factory=dict)
    constexprs: dict[str, Constexpr] = field(default_factory=dict)
    meaning: dict[str, Expr] = field(default_factory=dict)  # integer scalars that are known extents
    slices: set[str] = field(default_factory=set)  # domains whose extent is no value
    carries: list[tuple[Type, ...] | None] = field(default_factory=list)  # of the enclosing loops; None: not to be left from inside
    bindings: dict[int, dict[Expr, Expr]] = field(default_factory=dict)  # call (by identity) -> the helper's names in its terms
    pointer: str = ""
    faults: list[Diagnostic] = field(default_factory=list)

    # ------------------------------------------------------------------ operands
    def type_of(self, id: str) -> Type:
        if id not in self.types:
            raise Unknown(id)
        return self.types[id]

    def tensor(self, id: str, at: str) -> TensorType:
        t = self.type_of(id)
        if not isinstance(t, TensorType):
            raise TypeFault("KIND-OF-VALUE", f"{id} is a {kind(t)}, not a tensor", at, _INSTEAD[kind(t)])
        return t

    def value(self, id: str, at: str) -> TensorType | RecordType:
        """The type of a tensor or record."""
        t = self.type_of(id)
        return t if isinstance(t, RecordType) else self.tensor(id, at)

    def domain(self, id: str, at: str) -> DomainType:
        t = self.type_of(id)
        if not isinstance(t, DomainType):
            raise TypeFault("KIND-OF-VALUE", f"{id} is a {kind(t)} ({t}), not a domain", at, "the result of a domain operation")
        return t

    def resource(self, id: str, at: str) -> Resource:
        """The view or buffer of this id."""
        if id in self.views:
            v = self.views[id]
            return Resource(v.dtype, tuple(self.extents.canon(extent_expr(e)) for e in v.shape), v.role)
        t = self.types.get(id)
        if isinstance(t, BufferType):
            return Resource(t.dtype, t.shape, "inout", buffer=True)
        raise TypeFault("VIEW", f"unknown view {id}", at, " ".join(sorted(self.views)) or "a view or buffer")

    def scalar(self, id: str, at: str) -> TensorType:
        t = self.tensor(id, at)
        if t.shape:
            raise TypeFault("SHAPE", f"{id} has type {t} where a scalar is needed", at, "rank 0")
        return t

    def want(self, id: str, at: str, dtypes: Iterable[str], what: str) -> TensorType:
        t = self.tensor(id, at)
        allowed = sorted(dtypes)
        if t.dtype not in allowed:
            raise TypeFault("DTYPE", f"{what} does not take {t.dtype} ({id})", at, " ".join(allowed))
        return t

    def same(self, what: str, *operands: tuple[str, str]) -> str:
        """The common dtype of (id, field) operands."""
        ts = [self.tensor(id, at) for id, at in operands]
        first, dtype = operands[0][0], ts[0].dtype
        for (id, at), t in zip(operands, ts, strict=True):
            if t.dtype != dtype:
                raise TypeFault("DTYPE", f"{what} needs one dtype, but {first} is {dtype} and {id} is {t.dtype}", at, dtype)
        return dtype

    # ------------------------------------------------------------------ shapes
    def extent(self, e: Any, at: str) -> Expr:
        """An extent of an operation, checked and in normal form."""
        try:
            x = extent_expr(e)
        except (ValueError, RecursionError, ZeroDivisionError) as err:
            raise TypeFault("EXTENT", str(err) or "malformed extent", at) from None
        x = substitute(x, {Sym(s): self.named(s, at) for s in symbols_of(x)})
        for sub in _walk(x):
            if sub.op in ("floordiv", "mod") and not (sub.args[1].value or 0) > 0:
                raise TypeFault("EXTENT", f"{sub.op} by {sub.args[1]}", at, "a positive constant divisor")
        try:
            c = self.extents.canon(x)
        except TooComplex as err:
            raise TypeFault("EXTENT", str(err), at) from None
        if c.value is not None and abs(c.value) >= 1 << 63:
            raise TypeFault("EXTENT", "extent beyond 64 bits", at, "at most 2^63 - 1")
        return c

    def named(self, name: str, at: str) -> Expr:
        """What a name in an extent stands for: a symbol or parameter, an integer scalar, the length of a domain d, or d.begin, d.end."""
        t = self.types.get(name)
        if isinstance(t, DomainType):
            return t.length
        if name in self.names:
            return Sym(name)
        if isinstance(t, TensorType) and t.dtype in INTEGER_DTYPES and not t.shape:
            return self.meaning.get(name, Sym(name))
        base, _, bound = name.rpartition(".")
        if t is None and bound in ("begin", "end") and isinstance(d := self.types.get(base), DomainType):
            return d.begin if bound == "begin" else d.end
        if t is not None:
            raise TypeFault("SYMBOL", f"{name} ({t}) is no extent", at, "an integer scalar or a domain")
        raise TypeFault("SYMBOL", f"unknown symbol {name}", at, " ".join(sorted(self.names)))

    def observed(self, e: Any, at: str) -> Expr:
        """An extent that becomes a value: not that of a slice."""
        x = self.extent(e, at)
        for s in symbols_of(x):
            if s in self.slices:
                raise TypeFault("SLICE", f"the extent of the slice {s} becomes a value", at, "the source's extent")
        return x

    def shape(self, es: Iterable[Any], at: str) -> tuple[Expr, ...]:
        out = tuple(self.extent(e, f"{at}/{i}") for i, e in enumerate(es))
        for i, e in enumerate(out):
            if e.value is not None and e.value < 0:
                raise TypeFault("EXTENT", f"negative extent {e.value}", f"{at}/{i}", "an extent >= 0")
        return out

    def broadcast(self, operands: Iterable[tuple[str, str]]) -> tuple[Expr, ...]:
        """The common shape of (id, field) operands: aligned from the right, size 1 repeats."""
        out: tuple[Expr, ...] = ()
        first = ""
        for id, at in operands:
            s = self.tensor(id, at).shape
            merged = self.merge(out, s)
            if merged is None:
                raise TypeFault("SHAPE", f"{id} has shape {_s(s)}, which does not broadcast with {_s(out)} ({first})", at)
            if len(s) >= len(out):
                first = id
            out = merged
        return out

    def merge(self, a: tuple[Expr, ...], b: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
        """Broadcast of two shapes, or None."""
        n = max(len(a), len(b))
        out: list[Expr] = []
        for x, y in zip((ONE,) * (n - len(a)) + a, (ONE,) * (n - len(b)) + b, strict=True):
            if x == ONE:
                out.append(y)
            elif y == ONE or self.extents.equal(x, y):
                out.append(x)
            else:
                return None
        return tuple(out)

    def axes(self, axes: Iterable[int], rank: int, at: str) -> tuple[int, ...]:
        out = tuple(axes)
        for i, a in enumerate(out):
            if not 0 <= a < rank or a in out[:i]:
                why = f"axis {a} occurs twice" if a in out[:i] else f"axis {a} of a tensor of rank {rank}"
                raise TypeFault("AXIS", why, f"{at}/{i}", f"each of 0..{rank - 1} at most once" if rank else "a tensor with axes")
        return out

    # ------------------------------------------------------------------ regions
    def report(self, fault: TypeFault, pointer: str) -> None:
        at = f"{pointer}/{fault.field}" if fault.field else pointer
        self.faults.append(Diagnostic(fault.code, fault.message, at, accepted=fault.accepted, stage=STAGE))

    def spec(self, s: Spec, name: str, at: str) -> Type:
        """The type that an argument declares; a domain's length is the symbol `name`."""
        if s.dtype != "record" and s.fields:
            raise TypeFault("RECORD", f"fields of a {s.dtype}", f"{at}/fields", "fields of a record only")
        if s.dtype in ("domain", "record") and s.shape:
            raise TypeFault("REGION", f"a shape of a {s.dtype}", f"{at}/shape", "no shape")
        if s.dtype == "domain":
            return DomainType(Sym(f"{name}.begin"), Sym(f"{name}.end"), 1, Sym(name))
        if s.dtype == "record":
            for i, f in enumerate(s.fields):
                if f.name in [g.name for g in s.fields[:i]]:
                    raise TypeFault("RECORD", f"two fields are named {f.name}", f"{at}/fields/{i}/name", "distinct names")
            fields = [(f.name, self.spec(f, "", f"{at}/fields/{i}")) for i, f in enumerate(s.fields)]
            for i, (_, t) in enumerate(fields):
                if isinstance(t, DomainType):
                    raise TypeFault("RECORD", "a domain in a record", f"{at}/fields/{i}", "tensors and records")
            return RecordType(tuple(fields))  # type: ignore[arg-type]
        return TensorType(s.dtype, self.shape(s.shape, f"{at}/shape"))

    def same_type(self, a: Type, b: Type) -> bool:
        """Whether two types are equal for all extents."""
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            return a.dtype == b.dtype and a.rank == b.rank and all(map(self.extents.equal, a.shape, b.shape))
        if isinstance(a, RecordType) and isinstance(b, RecordType):
            names = [n for n, _ in a.fields] == [n for n, _ in b.fields]
            return names and all(self.same_type(x, y) for (_, x), (_, y) in zip(a.fields, b.fields, strict=True))
        return a == b

    def arguments(self, region: Region, at: str) -> tuple[Type, ...]:
        """Enter a region's arguments with the types that they declare; a domain's comes before what is shaped by it."""
        for i, a in enumerate(region.args):
            self.types[a.id] = self.spec(a, a.id, f"{at}/args/{i}")
        return tuple(self.types[a.id] for a in region.args)

    def inside(self, region: Region, at: str, carries: tuple[Type, ...] | None = None, loop: bool = True) -> None:
        """Type the body of a region whose arguments are entered. `carries`: those of the loop that it is the body of; `loop` false: it
        belongs to the enclosing loop."""
        if loop:
            self.carries.append(carries)
        self.body(region.body, f"{self.pointer}/{at}/body")
        if loop:
            self.carries.pop()

    def region(self, region: Region, at: str) -> None:
        """Type the body of a nested region; its arguments have the types that they declare."""
        self.arguments(region, at)
        self.inside(region, at)

    def body(self, ops: Iterable[Op], pointer: str) -> None:
        outer = self.pointer
        for i, op in enumerate(ops):
            self.pointer = f"{pointer}/{i}"
            self.apply(op)
        self.pointer = outer

    def apply(self, op: Op) -> None:
        """Type one operation; faults are collected, and what depends on a faulty value stays without a type."""
        try:
            if op.op not in RULES:
                raise TypeFault("OP", f"no type rule for {op.op}", "op")
            types = RULES[op.op](op, self)
            if len(types) != len(op.results):
                raise TypeFault("RESULTS", f"{op.op} defines {len(types)} values, not {len(op.results)}", "results", str(len(types)))
        except Unknown:
            return
        except TypeFault as fault:
            self.report(fault, self.pointer)
            return
        self.types.update(zip(op.results, types, strict=True))


_INSTEAD = {
    "domain": "indices of the domain", "record": "a field of the record", "buffer": "a load from the buffer", "tensor": "",
}  # fmt: skip


def kind(t: Type) -> str:
    """tensor, domain, record or buffer."""
    return {TensorType: "tensor", DomainType: "domain", RecordType: "record", BufferType: "buffer"}[type(t)]


def _s(shape: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _walk(e: Expr) -> Iterator[Expr]:
    stack = [e]
    while stack:
        x = stack.pop()
        yield x
        stack += [a for a in x.args if isinstance(a, Expr)]


def declare(ctx: Context, symbols: Iterable[Symbol], params: Iterable[View | Scalar | Constexpr]) -> None:
    """Enter the interface: types of scalars and constexprs, views, and the names that extents may use."""
    ctx.names |= {s.id for s in symbols}
    for p in params:
        if isinstance(p, View):
            ctx.views[p.id] = p
        elif isinstance(p, Scalar):
            ctx.types[p.id] = TensorType(p.dtype)
            if p.dtype in INTEGER_DTYPES:
                ctx.names.add(p.id)
        else:
            ctx.constexprs[p.id] = p
            ctx.types[p.id] = TensorType(CONSTEXPR_DTYPE[p.type])
            if p.type == "int":
                ctx.names.add(p.id)


def lengths(symbols: Iterable[Symbol], params: Iterable[View | Scalar | Constexpr]) -> list[str]:
    """Constexprs that are extents of views, so that no launch has a negative one."""
    known = {s.id for s in symbols}
    return sorted({e for p in params if isinstance(p, View) for e in p.shape if isinstance(e, str) and e not in known})


def context(kernel: Kernel, helpers: dict[str, HelperType] | None = None) -> Context:
    """A fresh context with the interface of `kernel` declared."""
    ctx = Context(Extents(kernel.symbols, kernel.equal, lengths(kernel.symbols, kernel.params)), helpers=helpers or {})
    declare(ctx, kernel.symbols, kernel.params)
    return ctx


def view_type(ctx: Context, view: View | HelperView) -> TensorType:
    """The type of a view's whole contents."""
    return TensorType(view.dtype, ctx.shape(view.shape, "shape"))


def infer_all(kernel: Kernel, pointer: str = "", helpers: dict[str, HelperType] | None = None) -> tuple[Context, list[Diagnostic]]:
    """Types of all values that have one, and what is wrong with the others; `pointer` is that of the kernel."""
    ctx = context(kernel, helpers)
    for i, p in enumerate(kernel.params):
        if isinstance(p, View):
            try:
                view_type(ctx, p)
            except TypeFault as fault:
                ctx.report(fault, f"{pointer}/params/{i}")
    ctx.body(kernel.body, f"{pointer}/body")
    return ctx, ctx.faults


def infer(kernel: Kernel) -> dict[str, Type]:
    """The type of every value of the kernel by id, values of nested regions, scalars and constexprs included.

    Calls of helpers must have been inlined (`kir.link`). Raises EqkirError with every type error found.
    """
    ctx, faults = infer_all(kernel)
    if faults:
        raise EqkirError(*faults)
    return ctx.types


__all__ = [
    "CONSTEXPR_DTYPE", "INTEGER_DTYPES", "RULES", "BufferType", "Context", "DomainType", "HelperType", "RecordType", "Resource", "Rule",
    "TensorType", "Type", "TypeFault", "Unknown", "context", "declare", "infer", "infer_all", "kind", "lengths", "type_rule",
    "view_type",
]  # fmt: skip
