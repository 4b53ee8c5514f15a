"""What kernel functions compute with: values, extents, domains, views (see `kir.builder`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from eqkir.base.dtypes import is_float, is_int
from eqkir.base.expr import Expr
from eqkir.kir import ops
from eqkir.kir.node import EXTENT_OPS

if TYPE_CHECKING:
    from eqkir.kir.builder import Builder
    from eqkir.kir.builder_core import Core


def number(value: Any, dtype: str) -> bool | int | float | str:
    """A Python number as the JSON literal of a constant of `dtype`."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    if isinstance(value, float) and is_int(dtype) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and is_float(dtype):
        return float(value)
    return value  # type: ignore[no-any-return]


def flat(x: Any) -> tuple[Value, ...]:
    """What a combine returned, as a tuple."""
    return (x,) if isinstance(x, Value) else tuple(x)


def extent_json(e: Expr) -> Any:
    """The JSON of an extent from its expression."""
    return e.args[0] if e.op in ("int", "sym") else [e.op, *(extent_json(a) for a in e.args)]


class Dim:
    """An extent: a symbol or an expression over symbols."""

    def __init__(self, k: Core, json: Any) -> None:
        self.k, self.json = k, json

    @staticmethod
    def of(k: Core, x: Any) -> Any:
        """The JSON of an extent, an int or an integer scalar."""
        if isinstance(x, Dim):
            return x.json
        if isinstance(x, Value) and k.names_extent(x.id):
            return x.id
        if hasattr(x, "length_name"):  # a domain stands for its length
            return x.length_name
        if isinstance(x, int) and not isinstance(x, bool):
            return x
        raise k.error(f"{x!r} is no extent", accepted="an int, a symbol, an integer scalar, a domain, or an expression of them")

    def _op(self, op: str, a: Any, b: Any) -> Any:
        assert op in EXTENT_OPS
        if any(isinstance(x, float) or (isinstance(x, Value) and x.id not in self.k._context.names) for x in (a, b)):
            return NotImplemented
        return Dim(self.k, [op, Dim.of(self.k, a), Dim.of(self.k, b)])

    def __add__(self, o: Any) -> Any:
        return self._op("add", self, o)

    def __radd__(self, o: Any) -> Any:
        return self._op("add", o, self)

    def __sub__(self, o: Any) -> Any:
        return self._op("sub", self, o)

    def __rsub__(self, o: Any) -> Any:
        return self._op("sub", o, self)

    def __mul__(self, o: Any) -> Any:
        return self._op("mul", self, o)

    def __rmul__(self, o: Any) -> Any:
        return self._op("mul", o, self)

    def __floordiv__(self, o: Any) -> Any:
        return self._op("floordiv", self, o)

    def __mod__(self, o: Any) -> Any:
        return self._op("mod", self, o)


class Value:
    """A tensor or scalar of the kernel under construction; operators and methods emit operations."""

    k: Builder

    def __init__(self, k: Core, id: str, choices: tuple[str, ...] = ()) -> None:
        self.k, self.id, self._choices = k, id, choices  # type: ignore[assignment]

    # ------------------------------------------------------------------ type
    @property
    def is_record(self) -> bool:
        return self.k.is_record(self.id)

    @property
    def dtype(self) -> str:
        return self.k.type(self.id).dtype

    @property
    def rank(self) -> int:
        return self.k.type(self.id).rank

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.extent(i) for i in range(self.rank))

    def extent(self, axis: int) -> Any:
        """The extent of an axis: an int or a `Dim`."""
        e = self.k.type(self.id).shape[axis]
        return e.value if e.value is not None else Dim(self.k, extent_json(e))

    def axes(self, axis: int | Sequence[int] | None) -> tuple[int, ...]:
        """Axes counted from the left (None: all)."""
        given = range(self.rank) if axis is None else (axis,) if isinstance(axis, int) else axis
        return tuple(a + self.rank if a < 0 else a for a in given)

    # ------------------------------------------------------------------ pointwise
    def unary(self, fn: str) -> Value:
        return self.k.one(ops.Unary, fn=fn, x=self.id)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """`x.exp()`, `x.sqrt()`, …: every unary function; `x.maximum(y)`, …: every binary one."""
            if name in ops.UNARY:
                return lambda: self.unary(name)
            if name in ops.BINARY:
                return lambda other: self.k.binary(name, self, other)
            raise AttributeError(name)
    else:

        def __getattr__(self, name: str) -> Callable[..., Value]:
            raise AttributeError(name)

    def cast(self, dtype: str) -> Value:
        return self.k.one(ops.Cast, x=self.id, dtype=dtype)

    def bitcast(self, dtype: str) -> Value:
        return self.k.one(ops.Bitcast, x=self.id, dtype=dtype)

    def __add__(self, o: Any) -> Value:
        return self.k.binary("add", self, o)

    def __radd__(self, o: Any) -> Value:
        return self.k.binary("add", o, self)

    def __sub__(self, o: Any) -> Value:
        return self.k.binary("sub", self, o)

    def __rsub__(self, o: Any) -> Value:
        return self.k.binary("sub", o, self)

    def __mul__(self, o: Any) -> Value:
        return self.k.binary("mul", self, o)

    def __rmul__(self, o: Any) -> Value:
        return self.k.binary("mul", o, self)

    def __truediv__(self, o: Any) -> Value:
        return self.k.binary("div", self, o)

    def __rtruediv__(self, o: Any) -> Value:
        return self.k.binary("div", o, self)

    def __floordiv__(self, o: Any) -> Value:
        return self.k.binary("floordiv", self, o)

    def __rfloordiv__(self, o: Any) -> Value:
        return self.k.binary("floordiv", o, self)

    def __mod__(self, o: Any) -> Value:
        return self.k.binary("mod", self, o)

    def __rmod__(self, o: Any) -> Value:
        return self.k.binary("mod", o, self)

    def __and__(self, o: Any) -> Value:
        return self.k.binary("and", self, o)

    def __or__(self, o: Any) -> Value:
        return self.k.binary("or", self, o)

    def __xor__(self, o: Any) -> Value:
        return self.k.binary("xor", self, o)

    def __lshift__(self, o: Any) -> Value:
        return self.k.binary("shl", self, o)

    def __rshift__(self, o: Any) -> Value:
        return self.k.binary("shr", self, o)

    def __neg__(self) -> Value:
        return self.unary("neg")

    def __invert__(self) -> Value:
        return self.unary("not")

    def __abs__(self) -> Value:
        return self.unary("abs")

    def _compare(self, fn: str, o: Any) -> Value:
        if isinstance(o, str):  # an enum constexpr against one of its choices
            if o not in self._choices:
                raise self.k.error(f"{o!r} is no choice of {self.id}", accepted=" ".join(self._choices))
            o = self._choices.index(o)
        return self.k.binary(fn, self, o)

    def __eq__(self, o: object) -> Value:  # type: ignore[override]
        return self._compare("eq", o)

    def __ne__(self, o: object) -> Value:  # type: ignore[override]
        return self._compare("ne", o)

    def __lt__(self, o: Any) -> Value:
        return self._compare("lt", o)

    def __le__(self, o: Any) -> Value:
        return self._compare("le", o)

    def __gt__(self, o: Any) -> Value:
        return self._compare("gt", o)

    def __ge__(self, o: Any) -> Value:
        return self._compare("ge", o)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise self.k.error("a value has no truth at build time", accepted="k.where(cond, x, y)")

    # ------------------------------------------------------------------ shape
    def reshape(self, *shape: Any) -> Value:
        s = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return self.k.one(ops.Reshape, x=self.id, shape=self.k.dims(s))

    def broadcast_to(self, shape: Sequence[Any]) -> Value:
        return self.k.one(ops.Broadcast, x=self.id, shape=self.k.dims(shape))

    def transpose(self, *perm: int) -> Value:
        """A full permutation; none given: reversed axes."""
        return self.k.one(ops.Transpose, x=self.id, perm=perm or tuple(reversed(range(self.rank))))

    @property
    def T(self) -> Value:
        return self.transpose()

    def __getitem__(self, key: Any) -> Value:
        """`x[:, None]`: None inserts an axis of size 1, ``:`` keeps one, ``...`` all that are left. Fields: ``r["name"]``, ``t[0]``."""
        if self.is_record and isinstance(key, (str, int)):
            return self.k.one(ops.GetField, x=self.id, name=key if isinstance(key, str) else f"_{key}")
        items = key if isinstance(key, tuple) else (key,)
        if sum(i is Ellipsis for i in items) == 1:
            at = next(n for n, i in enumerate(items) if i is Ellipsis)
            kept_ = self.rank - sum(isinstance(i, slice) for i in items)
            items = (*items[:at], *(slice(None),) * kept_, *items[at + 1 :])
        plain = all(i is None or (isinstance(i, slice) and i == slice(None)) for i in items)
        if not plain or sum(i is not None for i in items) > self.rank:
            raise self.k.error("a value is immutable and indexed by : and None only", accepted="x[:, None]; x.gather(…) for more")
        kept = iter(range(self.rank))
        shape: list[Any] = [1 if i is None else self.extent(next(kept)) for i in items]
        return self.reshape(tuple(shape) + tuple(self.extent(a) for a in kept))

    def keepdims(self, of: Value, axes: Sequence[int]) -> Value:
        """This reduction of `of` over `axes` with the axes back as size 1."""
        return self.reshape(tuple(1 if i in axes else of.extent(i) for i in range(of.rank)))

    def join(self, other: Any) -> Value:
        """A trailing axis of 2: this value, then the other."""
        return self.k.one(ops.Join, x=self.id, y=self.k.value(other, self.dtype).id)

    def gather(self, coords: Sequence[Any] | Any, valid: Value | None = None, fill: Any = None) -> Value:
        """``x[coords]``: one index tensor an axis, broadcast together."""
        cs = coords if isinstance(coords, (tuple, list)) else (coords,)
        ids = tuple(self.k.value(c, "index").id for c in cs)
        f = None if fill is None else self.k.value(fill, self.dtype).id
        return self.k.one(ops.Gather, x=self.id, coords=ids, valid=None if valid is None else valid.id, fill=f)

    # ------------------------------------------------------------------ scans
    def _scan(self, fn: str, axis: int, exclusive: bool, reverse: bool) -> Value:
        (a,) = self.axes(axis)
        return self.k.one(ops.Scan, xs=(self.id,), axis=a, fn=fn, exclusive=exclusive, reverse=reverse)

    def cumsum(self, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
        return self._scan("cumsum", axis, exclusive, reverse)

    def cumprod(self, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
        return self._scan("cumprod", axis, exclusive, reverse)

    def cummax(self, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
        return self._scan("cummax", axis, exclusive, reverse)

    def cummin(self, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
        return self._scan("cummin", axis, exclusive, reverse)

    # ------------------------------------------------------------------ reductions
    def reduce(self, fn: str, axis: int | Sequence[int] | None, keepdims: bool = False) -> Value:
        axes = self.axes(axis)
        v = self.k.one(ops.Reduce, xs=(self.id,), axes=axes, fn=fn)
        return v.keepdims(self, axes) if keepdims else v

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        return self.reduce("sum", axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        return self.reduce("max", axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        return self.reduce("min", axis, keepdims)

    def prod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        return self.reduce("prod", axis, keepdims)

    def any(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        return self.reduce("any", axis, keepdims)

    def all(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        return self.reduce("all", axis, keepdims)
