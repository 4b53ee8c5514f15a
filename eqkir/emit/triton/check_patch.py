"""Repairs of Triton's interpreter (3.6 to 3.9): bf16 and 8-bit float arithmetic through ml_dtypes, fused multiply-add with one rounding,
NaN rules of maximum and minimum, loads filled with -0.0, the device library in numpy, tree-shaped custom reductions, checked addresses,
numpy >= 2.4.

Only a process with ``TRITON_INTERPRET=1`` imports this, before any emitted module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
import triton.language.semantic as semantic
import triton.runtime.interpreter as interp
from triton.language.extra import libdevice

from eqkir.emit.triton.check_tensor import GUARD

Array = np.ndarray[Any, np.dtype[Any]]
SMALL = {
    tl.bfloat16: np.dtype(ml_dtypes.bfloat16),
    tl.float8e5: np.dtype(ml_dtypes.float8_e5m2),
    tl.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
}
SMALL_NP = frozenset(SMALL.values())
Handle = interp.TensorHandle
Builder = interp.InterpreterBuilder
_np_dtype, _memory = interp._get_np_dtype, interp._interpreter
_patch_tensor, _fp_to_fp = interp._patch_lang_tensor, Builder.create_fp_to_fp
_load, _masked_load = semantic.TritonSemantic.load, Builder.create_masked_load


def np_dtype(t: Any) -> Any:
    e = t.element_ty if isinstance(t, tl.block_type) else t
    return SMALL[e] if not isinstance(e, tl.pointer_type) and e in SMALL else _np_dtype(t)


def bits(a: Array) -> Array:
    """ml_dtypes arrays as unsigned integers; others unchanged."""
    return a.view(f"u{a.itemsize}") if a.dtype in SMALL_NP else a


# ------------------------------------------------------------------------------------------------ casts and arithmetic
def cast(self: Any, src: Any, dst: Any) -> Any:
    """Nearest even, as the hardware converts."""
    a, d = src.data, np_dtype(dst)
    if a.dtype in SMALL_NP or (d in SMALL_NP and a.dtype != np.float64):
        a = a.astype(np.float32)
    return Handle(a.astype(d), dst.scalar)


def fp_to_fp(self: Any, src: Any, dst: Any, mode: Any) -> Any:
    return _fp_to_fp(self, src, dst, mode) if mode == interp._ir.ROUNDING_MODE.RTZ else cast(self, src, dst)


def fma(self: Any, x: Any, y: Any, z: Any) -> Any:
    """One rounding. f32 goes through f64 rounded to odd; f64 through exact rationals."""
    a, b, c = np.broadcast_arrays(x.data, y.data, z.data)
    if a.dtype == np.float32:
        p, c = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
        s = p + c
        t = s - p
        error = (p - (s - t)) + (c - t)
        even = (s.view(np.int64) & 1) == 0
        step = np.where((error > 0) == (s > 0), 1, -1)
        odd = (s.view(np.int64) + step).view(np.float64)
        return Handle(np.where(np.isfinite(s) & (error != 0) & even, odd, s).astype(np.float32), z.dtype.scalar)
    return Handle(np.asarray(np.frompyfunc(_fma64, 3, 1)(a, b, c), a.dtype), z.dtype.scalar)


def _fma64(a: float, b: float, c: float) -> float:
    from fractions import Fraction

    a, b, c = float(a), float(b), float(c)
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    v = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(v) if v else a * b + c
    except OverflowError:
        return math.inf if v > 0 else -math.inf


def dot(self: Any, a: Any, b: Any, d: Any, precision: Any, imprecise: Any) -> Any:
    """Products of narrow floats are exact in f32; accumulation in the accumulator's dtype."""
    x, y = a.data, b.data
    t = d.data.dtype
    if a.dtype.is_floating() and t != np.float64:
        x, y = x.astype(np.float32), y.astype(np.float32)
    return Handle((np.matmul(x.astype(t), y.astype(t)) + d.data).astype(t), d.dtype.scalar)


def by_zero(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Integer division by zero gives garbage, as on the hardware; numpy would give 0, which hides that the result is used."""

    def f(self: Any, a: Any, b: Any) -> Any:
        r = operation(self, a, b)
        zero = np.broadcast_to(b.data == 0, np.shape(r.data))
        garbage = np.asarray(0x55 if r.data.dtype.itemsize == 1 else 0x5A5A if r.data.dtype.itemsize == 2 else 0x5A5A5A5A, r.data.dtype)
        return Handle(np.where(zero, garbage, r.data).astype(r.data.dtype), r.dtype) if zero.any() else r

    return f


def extreme(pick: Callable[[Array, Array], Array], sign: int) -> Callable[..., Any]:
    """IEEE 754-2019: maximum(-0, +0) = +0, minimum(-0, +0) = -0."""

    def f(self: Any, a: Any, b: Any) -> Any:
        x, y = np.broadcast_arrays(a.data, b.data)
        z = pick(x, y)
        both = (x == 0) & (y == 0)
        return Handle(np.where(both, sign * (sign * x + sign * y), z).astype(z.dtype), a.dtype.scalar)

    return f


def all_ones(self: Any, t: Any) -> Any:
    return Handle(~np.zeros(1, np_dtype(t)), t.scalar)


def fneg(self: Any, x: Any) -> Any:
    return Handle(np.negative(x.data), x.dtype.scalar)


def comparison(f: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Its result is a truth value, also where a scalar one is spread over a block."""
    return lambda self, x, y: Handle(f(self, x, y).data, tl.int1)


# ------------------------------------------------------------------------------------------------ memory
class Memory:
    """The interpreter's memory module with every address checked."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_memory, name)

    @staticmethod
    def load(p: Array, m: Array, other: Array, d: Any) -> Any:
        GUARD.check(p, m, np.dtype(d).itemsize, False)
        if d in SMALL_NP:
            return _memory.load(p, m, bits(np.ascontiguousarray(other)), np.dtype(f"u{d.itemsize}")).view(d)
        return _memory.load(p, m, other, d)

    @staticmethod
    def store(p: Array, v: Array, m: Array) -> Any:
        GUARD.check(p, m, v.itemsize, True)
        lanes = p[np.broadcast_to(m.astype(bool), p.shape)]
        if lanes.size > 1 and np.unique(lanes).size != lanes.size:
            raise IndexError("two lanes of one store write the same element")
        return _memory.store(p, bits(np.ascontiguousarray(v)), m)

    @staticmethod
    def atomic_cas(p: Array, expected: Array, v: Array, sem: Any) -> Any:
        GUARD.check(p, np.ones(p.shape, bool), v.itemsize, True)
        return _memory.atomic_cas(p, expected, v, sem)

    @staticmethod
    def atomic_rmw(op: Any, p: Array, v: Array, m: Array, sem: Any) -> Any:
        m = m.astype(bool)  # a mask may come as integers
        GUARD.check(p, m, v.itemsize, True)
        p, v, m = (np.ascontiguousarray(a) for a in np.broadcast_arrays(p, v, m))
        if v.dtype.kind == "f" and "XCHG" in str(op).upper():  # of bits
            word = np.dtype(f"u{v.itemsize}")
            return _memory.atomic_rmw(op, p, v.view(word), m, sem).view(v.dtype)
        if v.dtype in SMALL_NP:  # one addition after another, each rounded
            if "ADD" not in str(op).upper():
                raise ValueError(f"{op} of {v.dtype}")
            one, word, out = np.ones(1, bool), np.dtype(f"u{v.itemsize}"), np.zeros(v.shape, v.dtype)
            for at in np.argwhere(m):
                k = tuple(at)
                here = p[k].reshape(1)
                old = _memory.load(here, one, np.zeros(1, word), word).view(v.dtype)
                new = (old.astype(np.float32) + v[k].astype(np.float32)).astype(v.dtype)
                _memory.store(here, new.view(word), one)
                out[k] = old[0]
            return out
        if "XCHG" in str(op).upper() and v.dtype.kind == "f":  # an exchange moves bits
            word = np.dtype(f"u{v.itemsize}")
            return np.asarray(_memory.atomic_rmw(op, p, v.view(word), m, sem)).view(v.dtype)
        return _memory.atomic_rmw(op, p, v, m, sem)


_filling: list[Any] = []  # what the load under way puts where its mask is false, if that is one number


def load(self: Any, ptr: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
    """A scalar `other` is asked for its truth there, so that -0.0 would be left out and +0.0 read."""
    _filling.append(other.handle if isinstance(other, tl.tensor) and not other.type.is_block() else None)
    try:
        return _load(self, ptr, mask, other, *rest, **named)
    finally:
        _filling.pop()


def masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
    if other is None and _filling and _filling[-1] is not None:
        other = cast(self, _filling[-1], ptrs.get_element_ty())
    return _masked_load(self, ptrs, mask, other, *rest, **named)


# ------------------------------------------------------------------------------------------------ reductions
def _tensor(a: Array, t: Any) -> Any:
    a = np.ascontiguousarray(a)
    return tl.tensor(Handle(a, t), tl.block_type(t, list(a.shape)) if a.ndim else t)


def _combine(fn: Any, xs: list[Array], ys: list[Array], types: list[Any]) -> list[Array]:
    r = fn.fn(*[_tensor(x, t) for x, t in zip(xs, types)], *[_tensor(y, t) for y, t in zip(ys, types)])
    r = tuple(r) if isinstance(r, (tuple, tl.tuple)) else (r,)
    return [np.broadcast_to(np.asarray(v.handle.data if isinstance(v, tl.tensor) else v), x.shape).astype(x.dtype) for v, x in zip(r, xs)]


def reduce(self: Any, inputs: Any) -> Any:
    """A balanced tree of block-wide combines."""
    types, data = [t.dtype for t in inputs], [t.handle.data for t in inputs]
    rank, axis = data[0].ndim, self.axis
    flat = axis is None
    if flat:
        data, axis = [x.reshape(-1) for x in data], 0
    data = [np.moveaxis(x, axis, 0) for x in data]
    while data[0].shape[0] > 1:
        data = _combine(self.combine_fn, [x[0::2] for x in data], [x[1::2] for x in data], types)
    data = [x[0] for x in data]
    if self.keep_dims:
        data = [x.reshape((1,) * rank) if flat else np.expand_dims(x, axis) for x in data]
    return [self.to_tensor(x if x.ndim else x[()], t) for x, t in zip(data, types)]


def scan(self: Any, inputs: Any) -> Any:
    """All prefixes by doubling, block-wide: every lane combines with the one `d` before it, those that have none keep their value."""
    types, axis = [t.dtype for t in inputs], self.axis
    data = [np.moveaxis(t.handle.data, axis, 0) for t in inputs]
    d = 1
    while d < data[0].shape[0]:
        done = _combine(self.combine_fn, [np.roll(x, d, 0) for x in data], data, types)
        data = [np.concatenate([x[:d], y[d:]]) for x, y in zip(data, done)]
        d *= 2
    return [self.to_tensor(np.moveaxis(x, 0, axis), t) for x, t in zip(data, types)]


# ------------------------------------------------------------------------------------------------ device library
def _wide(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Evaluated in f64 and rounded."""
    return lambda x: np.asarray(f(x.astype(np.float64))).astype(x.dtype)


def _each(f: Callable[[float], float]) -> Callable[[Array], Array]:
    u = np.frompyfunc(f, 1, 1)
    return lambda x: np.asarray(u(x.astype(np.float64)), np.float64)


def _lgamma(x: float) -> float:
    if math.isnan(x):
        return x
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _i0(x: Array) -> Array:
    y = np.asarray(np.i0(np.where(np.isfinite(x), x, 0.0))).reshape(x.shape)
    return np.where(np.isnan(x), np.nan, np.where(np.isinf(x), np.inf, y))


LIBRARY: dict[str, Callable[[Array], Array]] = {
    "log1p": np.log1p, "expm1": np.expm1, "tanh": np.tanh, "tan": np.tan, "asin": np.arcsin, "atan": np.arctan, "erfc": _each(math.erfc),
    "cyl_bessel_i0": _i0, "lgamma": _each(_lgamma), "rint": np.rint, "exp": np.exp, "rsqrt": lambda x: 1.0 / np.sqrt(x),
}  # fmt: skip
BUILT_IN: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos, "erf": _each(math.erf),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}  # fmt: skip


def _library(name: str, f: Callable[[Array], Array]) -> None:
    g = _wide(f)

    def call(x: Any, _semantic: Any = None) -> Any:
        return tl.tensor(Handle(g(x.handle.data), x.dtype), x.type)

    setattr(libdevice, name, call)


def _quotient(x: Any, y: Any, _semantic: Any = None) -> Any:
    """The library's fast division, to its last bit only where the machine says so: here correctly rounded."""
    a = tl.core._unwrap_if_constexpr(x)
    numerator = a.handle.data if isinstance(a, tl.tensor) else np.asarray(a, np.float32)
    return tl.tensor(Handle((numerator / y.handle.data).astype(np.float32), y.dtype), y.type)


def _built_in(name: str, f: Callable[[Array], Array]) -> None:
    g = _wide(f)
    setattr(Builder, f"create_{name}", lambda self, x: Handle(g(x.handle.data if hasattr(x, "handle") else x.data), x.dtype.scalar))


def _patch(tensor: Any, *scope: Any) -> None:
    _patch_tensor(tensor, *scope)
    tensor.__index__ = lambda self: int(np.asarray(self.handle.data).reshape(-1)[0])


def install() -> None:
    """Apply every repair."""
    np.seterr(all="ignore")
    interp._get_np_dtype = np_dtype
    interp._interpreter = Memory()
    interp._patch_lang_tensor = _patch
    interp.ReduceOps.generic_reduce = reduce
    interp.ScanOps.generic_scan = scan
    Builder.cast_impl = cast
    Builder.create_fp_to_fp = fp_to_fp
    Builder.create_fma = fma
    Builder.create_masked_load = masked_load
    semantic.TritonSemantic.load = load
    Builder.create_dot = dot
    Builder.create_fneg = fneg
    for op in ("create_sdiv", "create_udiv", "create_srem", "create_urem"):
        setattr(Builder, op, by_zero(getattr(Builder, op)))
    for op in [n for n in dir(Builder) if n.startswith(("create_icmp", "create_fcmp"))]:
        setattr(Builder, op, comparison(getattr(Builder, op)))
    Builder.get_all_ones_value = all_ones
    Builder.create_maximumf, Builder.create_minimumf = extreme(np.maximum, 1), extreme(np.minimum, -1)
    Builder.create_maxnumf, Builder.create_minnumf = extreme(np.fmax, 1), extreme(np.fmin, -1)
    for name, f in LIBRARY.items():
        _library(name, f)
    for name, f in BUILT_IN.items():
        _built_in(name, f)
    libdevice.fast_dividef = _quotient


__all__ = ["install"]
