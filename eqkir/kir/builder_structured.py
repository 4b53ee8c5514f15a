"""Structured operations in the builder (see `kir.builder`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eqkir.kir import ops
from eqkir.kir.builder_core import Core
from eqkir.kir.values import Value, flat

Pairs = Sequence[tuple[int, int]]


class Structured(Core):
    """Reductions, scans, contractions, histograms, encodings."""

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

    def arg_reduce(self, fn: str, x: Value, axis: int, dtype: str = "index") -> tuple[Value, Value]:
        """(extreme, its index) by the built-in ``argmax`` or ``argmin``."""
        (a,) = x.axes(axis)
        value, where = self.emit(ops.ArgReduce, 2, fn=fn, x=x.id, axis=a, dtype=dtype)
        return value, where

    def scan(self, xs: Sequence[Value], axis: int, combine: Callable[..., Any], identities: Sequence[Any] = (), exclusive: bool = False,
             reverse: bool = False) -> tuple[Value, ...]:  # fmt: skip
        """Generic scan: ``combine(earlier, later)`` on tuples of scalars; associative. `exclusive` needs identities."""
        dtypes = [x.dtype for x in xs]
        ids = tuple(self.value(v, d).id for v, d in zip(identities, dtypes, strict=False))
        n = len(xs)
        region = self._block(2 * n, dtypes * 2, lambda args: flat(combine(tuple(args[:n]), tuple(args[n:]))), closed=True)
        (a,) = xs[0].axes(axis)
        fields = {"identities": ids, "combine": region, "exclusive": exclusive, "reverse": reverse}
        return self.emit(ops.Scan, n, xs=tuple(x.id for x in xs), axis=a, **fields)

    def histogram(self, x: Value, bins: Any, valid: Value | None = None, dtype: str = "i32") -> Value:
        """Counts of 0 .. bins - 1 among the valid elements."""
        return self.one(ops.Histogram, x=x.id, bins=self.dims((bins,))[0], valid=None if valid is None else valid.id, dtype=dtype)

    def scaled_contract(self, lhs: Value, lhs_scale: Value, rhs: Value, rhs_scale: Value, lhs_format: str = "e4m3",
                        rhs_format: str = "e4m3") -> Value:  # fmt: skip
        """Block-scaled contraction of [M, G, C] and [G, C, N]."""
        fields = {"lhs": lhs.id, "lhs_scale": lhs_scale.id, "rhs": rhs.id, "rhs_scale": rhs_scale.id}
        return self.one(ops.ScaledContract, **fields, lhs_format=lhs_format, rhs_format=rhs_format)

    def sparse_contract(self, lhs: Value, meta: Value, rhs: Value, pattern: str = "two_of_four", acc: str = "f32") -> Value:
        """Contraction of the present elements [M, K/2], placed by `meta`, with [K, N]."""
        return self.one(ops.SparseContract, lhs=lhs.id, meta=meta.id, rhs=rhs.id, pattern=pattern, acc=acc)

    def quantize(self, x: Value) -> Value:
        """f32 [..., 256] to q8_K records [..., 292]."""
        return self.one(ops.Quantize, x=x.id)

    def quantized_dot(self, lhs: Value, rhs: Value) -> Value:
        """q4_K records [..., R, 144] with q8_K records [..., R, 292]."""
        return self.one(ops.QuantizedDot, lhs=lhs.id, rhs=rhs.id)
