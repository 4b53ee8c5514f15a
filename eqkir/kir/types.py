"""Types of KIR values and their inference: one registered rule an operation (`kir.type_rules` holds those of the core).

A tensor's shape is a tuple of `base.expr` expressions over symbols, int constexprs and integer scalars, in the normal form of
`kir.extents` (declared equal symbols replaced by the first declared), so equal extents are equal expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.base.expr import ONE, Expr
from eqkir.kir.codes import CODES, STAGE
from eqkir.kir.extents import Extents, TooComplex, symbols_of
from eqkir.kir.model import Constexpr, Kernel, Op, Region, Scalar, Symbol, View, extent_expr

INTEGER_DTYPES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "index")
#: the dtype of a constexpr as a value; an enum is the position of its choice
CONSTEXPR_DTYPE = {"bool": "bool", "int": "index", "float": "f64", "enum": "index"}


@dataclass(frozen=True, slots=True)
class TensorType:
    """A ranked tensor; rank 0 is a scalar."""

    dtype: str
    shape: tuple[Expr, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class DomainType:
    """``begin, begin + step, … < end``; `length` is their number."""

    begin: Expr
    end: Expr
    step: int
    length: Expr

    def __str__(self) -> str:
        return f"domain({self.begin}, {self.end}, {self.step})"


Type = TensorType | DomainType


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
    views: dict[str, View] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)  # what extents of operations may name
    types: dict[str, Type] = field(default_factory=dict)
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
            raise TypeFault("KIND-OF-VALUE", f"{id} is a domain, not a tensor", at, "indices of the domain")
        return t

    def domain(self, id: str, at: str) -> DomainType:
        t = self.type_of(id)
        if not isinstance(t, DomainType):
            raise TypeFault("KIND-OF-VALUE", f"{id} is a tensor ({t}), not a domain", at, "the result of a domain operation")
        return t

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
        for s in symbols_of(x):
            if s not in self.names:
                raise TypeFault("SYMBOL", f"unknown symbol {s}", at, " ".join(sorted(self.names)))
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

    def region(self, region: Region, at: str) -> None:
        """Type the body of a nested region; its arguments have the dtypes that they declare."""
        for a in region.args:
            self.types[a.id] = TensorType(a.dtype)
        self.body(region.body, f"{self.pointer}/{at}/body")

    def body(self, ops: Iterable[Op], pointer: str) -> None:
        outer = self.pointer
        for i, op in enumerate(ops):
            self.pointer = f"{pointer}/{i}"
            self.apply(op)
        self.pointer = outer

    def apply(self, op: Op) -> None:
        """Type one operation; faults are collected, and what depends on a faulty value stays without a type."""
        try:
            types = RULES[op.op](op, self)
            if len(types) != len(op.results):
                raise TypeFault("RESULTS", f"{op.op} defines {len(types)} values, not {len(op.results)}", "results", str(len(types)))
        except Unknown:
            return
        except TypeFault as fault:
            self.report(fault, self.pointer)
            return
        self.types.update(zip(op.results, types, strict=True))


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
            ctx.types[p.id] = TensorType(CONSTEXPR_DTYPE[p.type])
            if p.type == "int":
                ctx.names.add(p.id)


def context(kernel: Kernel) -> Context:
    """A fresh context with the interface of `kernel` declared."""
    ctx = Context(Extents(kernel.symbols, kernel.equal))
    declare(ctx, kernel.symbols, kernel.params)
    return ctx


def view_type(ctx: Context, view: View) -> TensorType:
    """The type of a view's whole contents."""
    return TensorType(view.dtype, ctx.shape(view.shape, "shape"))


def infer_all(kernel: Kernel, pointer: str = "") -> tuple[Context, list[Diagnostic]]:
    """Types of all values that have one, and what is wrong with the others; `pointer` is that of the kernel."""
    ctx = context(kernel)
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

    Raises EqkirError with every type error found.
    """
    ctx, faults = infer_all(kernel)
    if faults:
        raise EqkirError(*faults)
    return ctx.types
