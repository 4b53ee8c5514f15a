"""A small Python front for writing KIR: a function that receives a `Builder` becomes a `Kernel`.

    @kernel
    def softmax(k):
        R, C = k.symbols("R", "C")
        X = k.view("X", "in", "f32", (R, C))
        Y = k.view("Y", "out", "f32", (R, C))
        k.noalias(X, Y)
        x = X[:, :]
        e = (x - x.max(axis=1, keepdims=True)).exp()
        Y[:, :] = e / e.sum(axis=1, keepdims=True)

Every call emits KIR operations at once, typed by the rules of `kir.types`; a mistake raises EqkirError with the file and line of
the Python statement. The line is also the operation's `loc`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, overload

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.base.expr import Expr
from eqkir.kir import ops
from eqkir.kir.codes import CODES, STAGE
from eqkir.kir.extents import Extents
from eqkir.kir.model import Arg, Constexpr, Kernel, Loc, Module, Op, Param, Region, Scalar, Symbol, View
from eqkir.kir.node import tag
from eqkir.kir.types import RULES, Context, TensorType, TypeFault, declare
from eqkir.kir.values import Dim, DomainRef, Points, Value, ViewRef, flat, number

Number = bool | int | float
Pairs = Sequence[tuple[int, int]]
_HERE = os.path.dirname(os.path.abspath(__file__))


def caller() -> Loc | None:
    """The nearest frame outside this package."""
    f = sys._getframe(1)
    while f is not None and os.path.dirname(os.path.abspath(f.f_code.co_filename)) == _HERE:
        f = f.f_back  # type: ignore[assignment]
    return None if f is None else Loc(file=os.path.basename(f.f_code.co_filename), line=f.f_lineno)


class Builder:
    """What a kernel function receives; see the module's docstring."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._symbols: list[Symbol] = []
        self._equal: list[tuple[str, str]] = []
        self._params: list[Param] = []
        self._noalias: list[tuple[str, ...]] = []
        self._body: list[Op] = []
        self._blocks: list[list[Op]] = [self._body]
        self._known: list[dict[Any, Value]] = [{}]  # shared coordinates and constants of each open block
        self._closed: list[int] = [0]  # innermost block that a combine region may look up to
        self._context = Context()
        self._next = 0

    # ------------------------------------------------------------------ interface
    def symbol(self, name: str, min: int = 0, max: int | None = None, multiple_of: int = 1) -> Dim:
        """A named extent."""
        s = Symbol(id=name, min=min, max=max, multiple_of=multiple_of)
        self._symbols.append(s)
        self._context.names.add(name)
        self._context.extents = Extents(self._symbols, self._equal)
        return Dim(self, name)

    def symbols(self, *names: str) -> tuple[Dim, ...]:
        return tuple(self.symbol(n) for n in names)

    def equal(self, a: Dim, b: Dim) -> None:
        """Declare that two symbols are one extent."""
        self._equal.append((str(a.json), str(b.json)))
        self._context.extents = Extents(self._symbols, self._equal)

    def _param(self, p: View | Scalar | Constexpr) -> None:
        self._params.append(p)
        declare(self._context, (), (p,))

    def view(self, name: str, role: str, dtype: str, shape: Sequence[Dim | int]) -> ViewRef:
        """An external view; `role` is in, out or inout."""
        v = View(id=name, role=role, dtype=dtype, shape=tuple(s.json if isinstance(s, Dim) else s for s in shape))  # type: ignore[arg-type]
        self._param(v)
        return ViewRef(self, v)

    def scalar(self, name: str, dtype: str) -> Value:
        """A run-time scalar; an integer one may stand in domains' bounds."""
        self._param(Scalar(id=name, dtype=dtype))  # type: ignore[arg-type]
        return Value(self, name)

    def constexpr(self, name: str, default: Number | str, choices: Sequence[str] = ()) -> Value:
        """A compile-time value, its type that of the default (a str is a choice of the enum `choices`)."""
        type_ = {bool: "bool", int: "int", float: "float", str: "enum"}[type(default)]
        self._param(Constexpr(id=name, type=type_, default=default, choices=tuple(choices)))  # type: ignore[arg-type]
        return Value(self, name, tuple(choices))

    def noalias(self, *views: ViewRef) -> None:
        """Declare views pairwise disjoint."""
        self._noalias.append(tuple(v.view.id for v in views))

    # ------------------------------------------------------------------ emission
    def error(self, message: str, code: str = "BUILD", accepted: str = "") -> EqkirError:
        at = caller()
        file, line = (at.file, at.line) if at else (None, None)
        return EqkirError(Diagnostic(CODES[code] if code in CODES else code, message, "", file, line, accepted, STAGE))

    def emit(self, cls: type[Op], results: int = 1, **fields: Any) -> tuple[Value, ...]:
        """Append one operation and return its results. Raises EqkirError when it has no type."""
        ids = tuple(f"v{self._next + i}" for i in range(results))
        op = cls(results=ids, loc=caller(), **fields)
        self._next += results
        try:
            types = RULES[op.op](op, self._context)
        except TypeFault as fault:
            raise self.error(fault.message, fault.code, fault.accepted) from None
        self._context.types.update(zip(ids, types, strict=True))
        self._blocks[-1].append(op)
        return tuple(Value(self, i) for i in ids)

    def one(self, cls: type[Op], **fields: Any) -> Value:
        """`emit` of an operation with one result."""
        return self.emit(cls, **fields)[0]

    def shared(self, cls: type[Op], **fields: Any) -> Value:
        """Like `one`, but an equal operation of an open block is used again (constants and coordinates)."""
        key = (tag(cls), repr(sorted(fields.items())))
        for known in reversed(self._known[self._closed[-1] :]):
            if key in known:
                old: Value = known[key]
                return old
        v = self._known[-1][key] = self.one(cls, **fields)
        return v

    def _block(self, names: int, dtypes: Sequence[str], fill: Callable[[list[Value]], Sequence[Value]], closed: bool) -> Region:
        args = tuple(Arg(id=f"v{self._next + i}", dtype=d) for i, d in enumerate(dtypes))  # type: ignore[arg-type]
        self._next += names
        self._context.types.update({a.id: TensorType(a.dtype) for a in args})
        self._blocks.append([])
        self._known.append({})
        self._closed.append(len(self._blocks) - 1 if closed else self._closed[-1])
        try:
            yields = fill([Value(self, a.id) for a in args])
        finally:
            body = self._blocks.pop()
            self._known.pop()
            self._closed.pop()
        return Region(args=args, body=tuple(body), yields=tuple(y.id for y in yields))

    # ------------------------------------------------------------------ values
    def const(self, value: Number | str, dtype: str) -> Value:
        """A scalar constant rounded to `dtype`; floats that JSON lacks as "inf" "-inf" "nan" or Python's floats."""
        return self.shared(ops.Constant, dtype=dtype, value=number(value, dtype))

    def value(self, x: Any, dtype: str | None = None) -> Value:
        """A Value from a Value, an extent (index, cast to `dtype`) or a Python number (of `dtype`)."""
        if isinstance(x, Value):
            return x
        if isinstance(x, Dim):
            v = self.shared(ops.ExtentOp, extent=x.json)
            return v if dtype in (None, "index") else v.cast(dtype or "index")
        if isinstance(x, (bool, int, float)):
            return self.const(x, dtype or ("bool" if isinstance(x, bool) else "index" if isinstance(x, int) else "f32"))
        raise self.error(f"{x!r} is no value", accepted="a value, an extent or a number")

    def domain(self, begin: Any, end: Any = None, step: int = 1) -> DomainRef:
        """``domain(end)`` or ``domain(begin, end, step)``; bounds are ints, extents or integer scalars."""
        if end is None:
            begin, end = 0, begin
        v = self.shared(ops.Domain, begin=Dim.of(self, begin), end=Dim.of(self, end), step=step)
        return DomainRef(self, v.id)

    def indices(self, d: Any) -> Value:
        """The coordinates of a domain, or of ``domain(0, extent)``."""
        return self.shared(ops.Indices, domain=(d if isinstance(d, DomainRef) else self.domain(d)).id)

    def full(self, shape: Sequence[Dim | int], value: Any, dtype: str | None = None) -> Value:
        return self.one(ops.Full, value=self.value(value, dtype).id, shape=self.dims(shape))

    def dims(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(Dim.of(self, s) for s in shape)

    def pair(self, x: Any, y: Any) -> tuple[Value, Value]:
        """Two operands; numbers and extents take the other's dtype."""
        if isinstance(x, Value):
            return x, self.value(y, x.dtype)
        if isinstance(y, Value):
            return self.value(x, y.dtype), y
        return self.value(x), self.value(y)

    def where(self, cond: Value, x: Any, y: Any) -> Value:
        a, b = self.pair(x, y)
        return self.one(ops.Select, cond=cond.id, x=a.id, y=b.id)

    def fma(self, x: Value, y: Any, z: Any) -> Value:
        return self.one(ops.Fma, x=x.id, y=self.value(y, x.dtype).id, z=self.value(z, x.dtype).id)

    def binary(self, fn: str, x: Any, y: Any) -> Value:
        a, b = self.pair(x, y)
        return self.one(ops.Compare if fn in ops.COMPARE else ops.Binary, fn=fn, x=a.id, y=b.id)

    def maximum(self, x: Any, y: Any) -> Value:
        return self.binary("maximum", x, y)

    def minimum(self, x: Any, y: Any) -> Value:
        return self.binary("minimum", x, y)

    # ------------------------------------------------------------------ structured
    def reduce(self, xs: Sequence[Value], axis: int | Sequence[int], identities: Sequence[Any],
               combine: Callable[..., Any], keepdims: bool = False) -> tuple[Value, ...]:  # fmt: skip
        """Generic reduction: ``combine(left, right)`` on tuples of scalars; identities as numbers or scalars."""
        dtypes = [x.dtype for x in xs]
        ids = [self.value(v, d).id for v, d in zip(identities, dtypes, strict=True)]
        n = len(xs)
        region = self._block(2 * n, dtypes * 2, lambda args: flat(combine(tuple(args[:n]), tuple(args[n:]))), closed=True)
        axes = xs[0].axes(axis)
        out = self.emit(ops.Reduce, n, xs=tuple(x.id for x in xs), axes=axes, identities=tuple(ids), combine=region)
        return tuple(o.keepdims(xs[0], axes) for o in out) if keepdims else out

    def argmax(self, x: Value, axis: int, dtype: str = "index", keepdims: bool = False) -> tuple[Value, Value]:
        """(maximum, its index): the lowest index wins ties, NaN wins. Empty: (lowest value, largest index)."""
        return self._arg("gt", x, axis, dtype, keepdims)

    def argmin(self, x: Value, axis: int, dtype: str = "index", keepdims: bool = False) -> tuple[Value, Value]:
        """(minimum, its index): the lowest index wins ties, NaN wins."""
        return self._arg("lt", x, axis, dtype, keepdims)

    def _arg(self, fn: str, x: Value, axis: int, dtype: str, keepdims: bool) -> tuple[Value, Value]:
        from eqkir.base.dtypes import is_float
        from eqkir.kir.type_rules import int_range

        (a,) = x.axes(axis)
        index = self.indices(x.extent(a))
        index = index if dtype == "index" else index.cast(dtype)
        index = index.reshape(tuple(x.extent(a) if i == a else 1 for i in range(x.rank))).broadcast_to(x.shape)

        def better(left: tuple[Value, Value], right: tuple[Value, Value]) -> tuple[Value, Value]:
            (lv, li), (rv, ri) = left, right
            wins, ties = self.binary(fn, lv, rv), lv == rv
            if is_float(x.dtype):
                ln, rn = lv.isnan(), rv.isnan()
                wins, ties = wins | (ln & ~rn), ties | (ln & rn)
            take = wins | (ties & (li < ri))
            return self.where(take, lv, rv), self.where(take, li, ri)

        lo, hi = ("-inf", "inf") if is_float(x.dtype) else int_range(x.dtype)
        worst = self.const(lo if fn == "gt" else hi, x.dtype)
        value, where = self.reduce((x, index), a, (worst, int_range(dtype)[1]), better, keepdims)
        return value, where

    def contract(self, lhs: Value, rhs: Value, reduce: Pairs, batch: Pairs = (), acc: str = "f32") -> Value:
        """Sum of products over paired axes; result axes: batch, lhs free, rhs free; its dtype is `acc`."""
        return self.one(ops.Contract, lhs=lhs.id, rhs=rhs.id, reduce=tuple(map(tuple, reduce)), batch=tuple(map(tuple, batch)), acc=acc)

    def matmul(self, a: Value, b: Value, acc: str = "f32") -> Value:
        """``a @ b`` over the last two axes; leading axes are paired batch axes."""
        n = a.rank - 2
        if n < 0 or b.rank != a.rank:
            raise self.error(f"matmul of ranks {a.rank} and {b.rank}", accepted="one rank, at least 2")
        return self.contract(a, b, [(n + 1, n)], [(i, i) for i in range(n)], acc)

    def parallel(self, *domains: Any) -> Points:
        """Unordered forall: ``with k.parallel(M, N) as (i, j):`` or ``@k.parallel(M)`` above a function of the points."""
        return Points(self, [d if isinstance(d, DomainRef) else self.domain(d) for d in domains], caller())

    def enter(self, count: int) -> list[Value]:
        """Open the body of a `parallel` over `count` domains; the points."""
        args = tuple(Arg(id=f"v{self._next + i}", dtype="index") for i in range(count))
        self._next += count
        self._context.types.update({a.id: TensorType("index") for a in args})
        self._blocks.append([])
        self._known.append({})
        return [Value(self, a.id) for a in args]

    def leave(self, domains: Sequence[DomainRef], points: Sequence[Value], loc: Loc | None) -> None:
        """Close the body and emit the `parallel`."""
        body = self._blocks.pop()
        self._known.pop()
        region = Region(args=tuple(Arg(id=p.id, dtype="index") for p in points), body=tuple(body))
        self._blocks[-1].append(ops.Parallel(domains=tuple(d.id for d in domains), body=region, loc=loc))

    # ------------------------------------------------------------------ result
    def type(self, id: str) -> TensorType:
        t = self._context.types[id]
        assert isinstance(t, TensorType)
        return t

    def equal_extents(self, a: Expr, b: Expr) -> bool:
        return self._context.extents.equal(a, b)

    def build(self, loc: Loc | None = None) -> Kernel:
        """The kernel. Raises EqkirError when it does not verify."""
        from eqkir.kir.verify import check

        kernel = Kernel(
            name=self.name, symbols=tuple(self._symbols), equal=tuple(self._equal), params=tuple(self._params),
            noalias=tuple(self._noalias), body=tuple(self._body), loc=loc,
        )  # fmt: skip
        check(Module(kir=1, name=self.name, kernels=(kernel,)))
        return kernel


@overload
def kernel(fn: Callable[[Builder], None]) -> Kernel: ...
@overload
def kernel(*, name: str) -> Callable[[Callable[[Builder], None]], Kernel]: ...
def kernel(fn: Callable[[Builder], None] | None = None, *, name: str | None = None) -> Any:
    """Decorator: run the function on a fresh `Builder` and put the verified `Kernel` in its place."""

    def build(f: Callable[[Builder], None]) -> Kernel:
        k = Builder(name or f.__name__)
        f(k)
        return k.build(Loc(file=os.path.basename(f.__code__.co_filename), line=f.__code__.co_firstlineno))

    return build if fn is None else build(fn)


def module(*kernels: Kernel, name: str = "module") -> Module:
    """A module of kernels."""
    return Module(kir=1, name=name, kernels=kernels)
