"""The part of the builder that declares interfaces and emits operations (see `kir.builder`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.base.expr import Expr, Sym
from eqkir.kir import ops
from eqkir.kir.codes import CODES, STAGE
from eqkir.kir.extents import Extents
from eqkir.kir.model import Arg, Constexpr, FieldSpec, Helper, HelperView, Loc, Op, Param, Region, Scalar, Symbol, View
from eqkir.kir.node import tag
from eqkir.kir.refs import BufferRef, DomainRef, MemoryRef, ViewRef
from eqkir.kir.types import INTEGER_DTYPES, RULES, Context, DomainType, RecordType, TensorType, Type, TypeFault, declare, lengths
from eqkir.kir.values import Dim, Value, extent_json, number

Number = bool | int | float
_HERE = os.path.dirname(os.path.abspath(__file__))


def caller() -> Loc | None:
    """The nearest frame outside this package."""
    f = sys._getframe(1)
    while f is not None and os.path.dirname(os.path.abspath(f.f_code.co_filename)) == _HERE:
        f = f.f_back  # type: ignore[assignment]
    return None if f is None else Loc(file=os.path.basename(f.f_code.co_filename), line=f.f_lineno)


class Captures:
    """The outer values that a closed region uses: each became one of its arguments."""

    def __init__(self) -> None:
        self.depth = 0
        self.args: dict[str, str] = {}  # outer id -> argument
        self.made: list[Arg] = []

    def argument(self, k: Core, outer: str) -> str:
        if outer not in self.args:
            t = k._context.types[outer]
            (id,) = k.fresh(1)
            k._home[id] = self.depth
            k._context.types[id] = t
            k._context.meaning[id] = k._context.meaning.get(outer, Sym(outer))
            self.made.append(argument(id, t))
            self.args[outer] = id
        return self.args[outer]


def argument(id: str, t: tuple[str, Sequence[Any]] | Type) -> Arg:
    """An argument by dtype and extents, or by its type."""
    if isinstance(t, tuple):
        return Arg(id=id, dtype=t[0], shape=tuple(t[1]))  # type: ignore[arg-type]
    if isinstance(t, RecordType):
        return Arg(id=id, dtype="record", fields=tuple(_field(n, f) for n, f in t.fields))
    if isinstance(t, DomainType):
        return Arg(id=id, dtype="domain")
    return Arg(id=id, dtype=t.dtype, shape=tuple(map(extent_json, t.shape)))  # type: ignore[arg-type]


def _field(name: str, t: TensorType | RecordType) -> FieldSpec:
    if isinstance(t, RecordType):
        return FieldSpec(name=name, dtype="record", fields=tuple(_field(n, f) for n, f in t.fields))
    return FieldSpec(name=name, dtype=t.dtype, shape=tuple(map(extent_json, t.shape)))  # type: ignore[arg-type]


class Core:
    """Interface, emission and values of a kernel under construction."""

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
        self._captures: list[Captures | None] = [None]
        self._args: list[list[Arg]] = []
        self._loops: list[bool] = []
        self._home: dict[str, int] = {}  # value -> the number of open blocks at its definition
        self._context = Context()
        self._next = 0
        self.helpers: dict[str, Helper] = {}
        self.constexprs: dict[str, Value] = {}  # those that a helper captures

    # ------------------------------------------------------------------ interface
    def symbol(self, name: str, min: int = 0, max: int | None = None, multiple_of: int = 1) -> Dim:
        """A named extent."""
        s = Symbol(id=name, min=min, max=max, multiple_of=multiple_of)
        self._symbols.append(s)
        self._context.names.add(name)
        self._relate()
        return Dim(self, name)

    def symbols(self, *names: str) -> tuple[Dim, ...]:
        return tuple(self.symbol(n) for n in names)

    def equal(self, a: Dim, b: Dim) -> None:
        """Declare that two symbols are one extent."""
        self._equal.append((str(a.json), str(b.json)))
        self._relate()

    def _relate(self) -> None:
        """What is known of extents."""
        self._context.extents = Extents(self._symbols, self._equal, lengths(self._symbols, self._params))

    def _param(self, p: View | Scalar | Constexpr) -> None:
        self._params.append(p)
        declare(self._context, (), (p,))
        self._relate()

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

    def formals(self, specs: Sequence[tuple[str, str, tuple[Any, ...]]]) -> list[tuple[Arg, Any]]:
        """Arguments of a helper: (id, dtype, extents)."""
        out: list[tuple[Arg, Any]] = []
        for id, dtype, shape in specs:
            arg = Arg(id=id, dtype=dtype, shape=shape)  # type: ignore[arg-type]
            self._context.types[id] = self._context.spec(arg, id, "")
            out.append((arg, DomainRef(self, id) if dtype == "domain" else Value(self, id)))
        return out

    def memory(self, v: HelperView) -> MemoryRef:
        """A view argument of a helper."""
        self._context.views[v.id] = v
        return MemoryRef(self, v.id, v.dtype, tuple(Dim(self, e) if isinstance(e, str) else e for e in v.shape))

    def named(self, name: str) -> Dim:
        """The extent that an int constexpr is."""
        return Dim(self, name)

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
        ids = self.fresh(results)
        fields.setdefault("loc", caller())
        op = cls(results=ids, **{f: self.captured(v) if f in cls.operand_fields else v for f, v in fields.items()})
        self.typed(op)
        self._blocks[-1].append(op)
        return tuple(Value(self, i) for i in ids)

    def typed(self, op: Op) -> None:
        """Enter the types of an operation's results. Raises EqkirError when it has none."""
        try:
            types = RULES[op.op](op, self._context)
        except TypeFault as fault:
            raise self.error(fault.message, fault.code, fault.accepted) from None
        self._context.types.update(zip(op.results, types, strict=True))

    def fresh(self, n: int) -> tuple[str, ...]:
        """New ids, which live in the open block."""
        ids = tuple(f"v{self._next + i}" for i in range(n))
        self._next += n
        self._home.update(dict.fromkeys(ids, len(self._blocks)))
        return ids

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

    # ------------------------------------------------------------------ blocks
    def open(self, specs: Sequence[tuple[str, Sequence[Any]] | Type], carries: Sequence[Type] | None, closed: bool = False,
             captures: Captures | None = None, loop: bool = True) -> list[Value]:  # fmt: skip
        """Begin a region; its arguments. `carries`: of the loop that it is the body of; `loop` false: of the enclosing one."""
        self._blocks.append([])
        self._known.append({})
        self._closed.append(len(self._blocks) - 1 if closed else self._closed[-1])
        self._captures.append(captures if closed else self._captures[-1])
        if captures is not None:
            captures.depth = len(self._blocks)
        if loop:
            self._context.carries.append(None if carries is None else tuple(carries))
        self._loops.append(loop)
        self._args.append([])
        return [self.argument(s) for s in specs]

    def argument(self, t: tuple[str, Sequence[Any]] | Type) -> Value:
        """One more argument of the open region, by dtype and extents or by its type."""
        (id,) = self.fresh(1)
        arg = argument(id, t)
        self._args[-1].append(arg)
        self._context.types[id] = self._context.spec(arg, id, "")
        return Value(self, id)

    def close(self, yields: Sequence[Value]) -> Region:
        """End the open region."""
        ids = tuple(map(self.captured, (y.id for y in yields)))
        args = self._args.pop()
        body = self._blocks.pop()
        for stack in (self._known, self._closed, self._captures):
            stack.pop()
        if self._loops.pop():
            self._context.carries.pop()
        return Region(args=tuple(args), body=tuple(body), yields=ids)

    def captured(self, x: Any) -> Any:
        """An operand as the open region sees it: of a region with captures, an outer value becomes an argument."""
        if isinstance(x, tuple):
            return tuple(map(self.captured, x))
        c = self._captures[-1]
        if c is None or not isinstance(x, str) or self._home.get(x, 0) >= c.depth:
            return x
        return c.argument(self, x)

    def _block(self, names: int, dtypes: Sequence[str], fill: Callable[[list[Value]], Sequence[Value]], closed: bool) -> Region:
        args = self.open([(d, ()) for d in dtypes], None, closed)
        yields: Sequence[Value] = ()
        try:
            yields = fill(args)
        finally:
            region = self.close(yields)
        return region

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

    def subregion(self, d: DomainRef, begin: Any, end: Any) -> DomainRef:
        """The points p of `d` with ``begin <= p < end``, in absolute coordinates; bounds may be run-time scalars."""
        return d[begin:end]

    def members(self, d: DomainRef, offsets: MemoryRef, group: Value) -> DomainRef:
        """``d[offsets[group] : offsets[group + 1]]``: the members of a ragged group."""
        return d[offsets[group].cast("index") : offsets[group + 1].cast("index")]

    def buffer(self, dtype: str, shape: Sequence[Any], init: Any = None) -> BufferRef:
        """Mutable memory that lives until its region ends; filled with `init`, or to be written before it is read."""
        filled = None if init is None else self.value(init, dtype).id
        b = self.one(ops.Buffer, dtype=dtype, shape=self.dims(shape), init=filled)
        return BufferRef(self, b.id, dtype, tuple(shape))

    def record(self, **fields: Any) -> Value:
        """A record; fields by name, ``r["name"]``."""
        return self.one(ops.MakeRecord, names=tuple(fields), values=tuple(self.value(v).id for v in fields.values()))

    def tuple_of(self, *items: Any) -> Value:
        """A record with the fields _0, _1, …; ``t[0]``."""
        return self.record(**{f"_{i}": v for i, v in enumerate(items)})

    def random_bits(self, seed: Any, counter: Any) -> Value:
        """u32 of Philox4x32-10."""
        return self.one(ops.RandomBits, seed=self.value(seed, "u64").id, counter=self.value(counter, "u64").id)

    def random_uniform(self, seed: Any, counter: Any) -> Value:
        """f32 in [0, 1)."""
        return self.one(ops.RandomUniform, seed=self.value(seed, "u64").id, counter=self.value(counter, "u64").id)

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

    def div(self, x: Any, y: Any, approximate: bool = False, flush_to_zero: bool = False) -> Value:
        """``x / y``, with the permissions of this one quotient."""
        a, b = self.pair(x, y)
        return self.one(ops.Binary, fn="div", x=a.id, y=b.id, approximate=approximate, flush_to_zero=flush_to_zero)

    def unary(self, fn: str, x: Value, approximate: bool = False, flush_to_zero: bool = False) -> Value:
        """A unary function with permissions (exp2, tanh)."""
        return self.one(ops.Unary, fn=fn, x=x.id, approximate=approximate, flush_to_zero=flush_to_zero)

    def maximum(self, x: Any, y: Any) -> Value:
        return self.binary("maximum", x, y)

    def minimum(self, x: Any, y: Any) -> Value:
        return self.binary("minimum", x, y)

    # ------------------------------------------------------------------ types
    def type(self, id: str) -> TensorType:
        t = self._context.types[id]
        if not isinstance(t, TensorType):
            raise self.error(f"{id} is {t}, not a tensor", "KIND-OF-VALUE", "a tensor; a field of a record is r['name']")
        return t

    def is_record(self, id: str) -> bool:
        return isinstance(self._context.types.get(id), RecordType)

    def domain_type(self, id: str) -> DomainType:
        t = self._context.types[id]
        assert isinstance(t, DomainType)
        return t

    def names_extent(self, id: str) -> bool:
        """Whether a value may stand in an extent: an integer scalar."""
        t = self._context.types.get(id)
        return isinstance(t, TensorType) and t.dtype in INTEGER_DTYPES and not t.shape

    def extent_of(self, e: Expr) -> Any:
        """An int or `Dim` from an extent."""
        return e.value if e.value is not None else Dim(self, extent_json(e))

    def equal_extents(self, a: Expr, b: Expr) -> bool:
        return self._context.extents.equal(a, b)
