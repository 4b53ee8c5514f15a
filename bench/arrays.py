"""Two array libraries under one set of functions: numpy (here, in tests and dry runs) and torch (on the GPU).

The reference formulas of `references` are written once against this interface. Numbers are f64, i64 or bool while they compute; `wide`
brings a view's elements there and `rounded` gives the nearest numbers of a storage dtype. Arrays of either library support arithmetic and
comparison operators, indexing, ``shape`` and ``reshape`` alike; everything else goes through here. `axis` may be a tuple for sums and
extremes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

Axis = int | tuple[int, ...]
#: significand bits with the hidden one, exponent of the smallest subnormal
PRECISION = {"bf16": (8, -133), "f16": (11, -24), "f32": (24, -149), "f64": (53, -1074), "f8e4m3fn": (4, -9), "f8e5m2": (3, -16)}
FLOATS = tuple(PRECISION)
ITEMSIZE = {
    "bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "index": 8, "f16": 2, "bf16": 2, "f32": 4,
    "f64": 8, "f8e4m3fn": 1, "f8e5m2": 1,
}  # fmt: skip


class Numpy:
    """numpy, with ml_dtypes for the narrow floats. A generator's state makes contents repeatable."""

    name = "numpy"

    def __init__(self, seed: int = 0) -> None:
        import ml_dtypes

        self.rng = np.random.default_rng(seed)
        names = {"bool": "bool_", "u8": "uint8", "index": "int64", "f64": "float64", "f32": "float32", "f16": "float16"}
        names |= {f"i{n}": f"int{n}" for n in (8, 16, 32, 64)} | {f"u{n}": f"uint{n}" for n in (16, 32, 64)}
        self.dtypes: dict[str, Any] = {k: np.dtype(getattr(np, v)) for k, v in names.items()}
        self.dtypes |= {"bf16": np.dtype(ml_dtypes.bfloat16), "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn)}
        self.dtypes["f8e5m2"] = np.dtype(ml_dtypes.float8_e5m2)

    def quiet(self) -> Any:
        """A context without warnings about infinities and NaN."""
        return np.errstate(all="ignore")

    # ---- to and from storage
    def asarray(self, x: Any) -> Any:
        return np.asarray(x)

    def narrow(self, x: Any, dtype: str) -> Any:
        """The elements as `dtype`; integers wrap."""
        return np.asarray(x).astype(self.dtypes[dtype])

    def wide(self, x: Any) -> Any:
        return x if x.dtype == bool else x.astype(np.int64) if x.dtype.kind in "iu" else x.astype(np.float64)

    def rounded(self, x: Any, dtype: str) -> Any:
        return np.asarray(x).astype(np.float32).astype(self.dtypes[dtype]).astype(np.float64)

    def f32(self, x: Any) -> Any:
        return np.asarray(x).astype(np.float32)

    def f64(self, x: Any) -> Any:
        return np.asarray(x).astype(np.float64)

    def i64(self, x: Any) -> Any:
        return np.asarray(x).astype(np.int64)

    def octets(self, x: Any, dtype: str) -> Any:
        """The bytes of x as `dtype`, along a new last axis, as i64."""
        y = np.ascontiguousarray(self.narrow(x, dtype))
        return y.view(np.uint8).reshape(*y.shape, y.dtype.itemsize).astype(np.int64)

    def from_octets(self, x: Any, dtype: str) -> Any:
        """The inverse: numbers of `dtype` from the bytes along the last axis, wide."""
        return self.wide(np.ascontiguousarray(x.astype(np.uint8)).view(self.dtypes[dtype]).reshape(x.shape[:-1]))

    def clone(self, x: Any) -> Any:
        return x.copy()

    def item(self, x: Any) -> Any:
        return x.item() if hasattr(x, "item") else x

    # ---- new arrays
    def arange(self, n: int) -> Any:
        return np.arange(n, dtype=np.int64)

    def full(self, shape: Sequence[int], value: Any, dtype: str = "f64") -> Any:
        return np.full(tuple(shape), value, self.dtypes[dtype])

    def normal(self, shape: Sequence[int], dtype: str) -> Any:
        return self.rng.standard_normal(tuple(shape), np.float32).astype(self.dtypes[dtype])

    def uniform(self, shape: Sequence[int], low: float, high: float) -> Any:
        return (self.rng.random(tuple(shape)) * (high - low) + low).astype(np.float32)

    def integers(self, shape: Sequence[int], low: int, high: int) -> Any:
        """low .. high, both included, i64."""
        return self.rng.integers(low, max(high, low), tuple(shape), endpoint=True)

    def permutation(self, n: int) -> Any:
        return self.rng.permutation(n)

    # ---- functions
    def where(self, c: Any, a: Any, b: Any) -> Any:
        return np.where(c, a, b)

    def maximum(self, a: Any, b: Any) -> Any:
        return np.maximum(a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        return np.minimum(a, b)

    def sum(self, x: Any, axis: Axis, keep: bool = False) -> Any:
        return x.sum(axis=axis, keepdims=keep)

    def amax(self, x: Any, axis: Axis, keep: bool = False) -> Any:
        return x.max(axis=axis, keepdims=keep) if x.size else np.full_like(x.sum(axis=axis, keepdims=keep), -np.inf)

    def amin(self, x: Any, axis: Axis, keep: bool = False) -> Any:
        return x.min(axis=axis, keepdims=keep) if x.size else np.full_like(x.sum(axis=axis, keepdims=keep), np.inf)

    def prod(self, x: Any, axis: int) -> Any:
        return x.prod(axis=axis)

    def any(self, x: Any, axis: int) -> Any:
        return x.any(axis=axis)

    def argmax(self, x: Any, axis: int) -> Any:
        return x.argmax(axis=axis)

    def argmin(self, x: Any, axis: int) -> Any:
        return x.argmin(axis=axis)

    def cumsum(self, x: Any, axis: int) -> Any:
        return x.cumsum(axis=axis)

    def cummax(self, x: Any, axis: int) -> Any:
        return np.maximum.accumulate(x, axis=axis)

    def flip(self, x: Any, axis: int) -> Any:
        return np.flip(x, axis)

    def einsum(self, form: str, *xs: Any) -> Any:
        return np.einsum(form, *xs, optimize=True)

    def permute(self, x: Any, *axes: int) -> Any:
        return x.transpose(axes)

    def stack(self, xs: Sequence[Any], axis: int) -> Any:
        return np.stack(xs, axis)

    def concat(self, xs: Sequence[Any], axis: int) -> Any:
        return np.concatenate(xs, axis)

    def broadcast(self, x: Any, shape: Sequence[int]) -> Any:
        return np.broadcast_to(x, tuple(shape))

    def take_along(self, x: Any, i: Any, axis: int) -> Any:
        return np.take_along_axis(x, i, axis)

    def sort(self, x: Any, axis: int) -> Any:
        return np.sort(x, axis)

    def descending(self, x: Any, axis: int) -> tuple[Any, Any]:
        """Values and positions, larger first, then lower position."""
        at = np.argsort(-x, axis, kind="stable")
        return np.take_along_axis(x, at, axis), at

    def searchsorted(self, bounds: Any, values: Any) -> Any:
        """How many of the bounds are at most each value."""
        return np.searchsorted(bounds, values, side="right")

    def index_add(self, base: Any, at: Any, x: Any) -> Any:
        """A copy of base, x[i] added at its row at[i]."""
        out = base.copy()
        np.add.at(out, at, x)
        return out

    def index_max(self, base: Any, at: Any, x: Any) -> Any:
        out = base.copy()
        np.maximum.at(out, at, x)
        return out

    def bincount(self, x: Any, n: int) -> Any:
        return np.bincount(x.reshape(-1), minlength=n).astype(np.int64)

    def fft(self, re: Any, im: Any) -> tuple[Any, Any]:
        y = np.fft.fft(re + 1j * im, axis=-1)
        return y.real, y.imag

    def erf(self, x: Any) -> Any:
        return np.vectorize(math.erf, otypes=[np.float64])(x)

    def __getattr__(self, name: str) -> Any:
        """exp, exp2, log, sqrt, tanh, cos, sin, abs, isnan, signbit, floor, rint."""
        return getattr(np, name)


class Torch:
    """torch on a device. Random contents come from the process's own entropy unless a seed is given."""

    name = "torch"

    def __init__(self, device: str = "cuda", seed: int | None = None) -> None:
        import torch

        self.t, self.device = torch, device
        if seed is not None:
            torch.manual_seed(seed)
        names = {"bool": "bool", "u8": "uint8", "index": "int64", "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
        names |= {f"i{n}": f"int{n}" for n in (8, 16, 32, 64)} | {f"f{n}": f"float{n}" for n in (16, 32, 64)}
        names |= {f"u{n}": f"uint{n}" for n in (16, 32, 64)}
        self.dtypes: dict[str, Any] = {k: getattr(torch, v) for k, v in names.items()}
        #: dtypes with few operations, through their signed twins
        self.signed = {torch.uint32: (torch.int32, 0xFFFFFFFF), torch.uint16: (torch.int16, 0xFFFF), torch.uint64: (torch.int64, -1)}

    def quiet(self) -> Any:
        return nullcontext()

    # ---- to and from storage
    def asarray(self, x: Any) -> Any:
        return x if isinstance(x, self.t.Tensor) else self.t.as_tensor(x, device=self.device)

    def narrow(self, x: Any, dtype: str) -> Any:
        to = self.dtypes[dtype]
        if to in self.signed:
            half = self.signed[to][0]
            return self._wrapped(self.asarray(x).to(self.t.int64), half.itemsize * 8).to(half).view(to)
        x = self.asarray(x)
        if not to.is_floating_point and to != self.t.bool and not x.dtype.is_floating_point and to.itemsize < 8:
            return x.to(self.t.int64).to(to)
        return (x.to(self.t.float32) if to.itemsize == 1 and to.is_floating_point else x).to(to)

    def _wrapped(self, x: Any, bits: int) -> Any:
        return x if bits == 64 else ((x + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1))

    def wide(self, x: Any) -> Any:
        if x.dtype in self.signed:
            half, mask = self.signed[x.dtype]
            return x.view(half).to(self.t.int64) & mask
        if x.dtype == self.t.bool:
            return x
        if x.dtype.is_floating_point:
            return (x.to(self.t.float32) if x.dtype.itemsize == 1 else x).to(self.t.float64)
        return x.to(self.t.int64)

    def rounded(self, x: Any, dtype: str) -> Any:
        return self.wide(x.to(self.t.float32).to(self.dtypes[dtype]))

    def f32(self, x: Any) -> Any:
        return self.asarray(x).to(self.t.float32)

    def f64(self, x: Any) -> Any:
        return self.asarray(x).to(self.t.float64)

    def i64(self, x: Any) -> Any:
        return self.asarray(x).to(self.t.int64)

    def octets(self, x: Any, dtype: str) -> Any:
        y = self.narrow(x, dtype).contiguous()
        return y.reshape(-1).view(self.t.uint8).reshape(*y.shape, y.dtype.itemsize).to(self.t.int64)

    def from_octets(self, x: Any, dtype: str) -> Any:
        return self.wide(x.to(self.t.uint8).contiguous().reshape(-1).view(self.dtypes[dtype]).reshape(x.shape[:-1]))

    def clone(self, x: Any) -> Any:
        return x.clone()

    def item(self, x: Any) -> Any:
        return x.item() if hasattr(x, "item") else x

    # ---- new arrays
    def arange(self, n: int) -> Any:
        return self.t.arange(n, device=self.device)

    def full(self, shape: Sequence[int], value: Any, dtype: str = "f64") -> Any:
        to = self.dtypes[dtype]
        if to in self.signed:
            return self.t.full(tuple(shape), value, device=self.device, dtype=self.signed[to][0]).view(to)
        return self.t.full(tuple(shape), value, device=self.device, dtype=to)

    def normal(self, shape: Sequence[int], dtype: str) -> Any:
        to = self.dtypes[dtype]
        x = self.t.randn(tuple(shape), device=self.device, dtype=to if to.itemsize > 1 else self.t.bfloat16)
        return x if x.dtype == to else x.to(to)

    def uniform(self, shape: Sequence[int], low: float, high: float) -> Any:
        return self.t.rand(tuple(shape), device=self.device) * (high - low) + low

    def integers(self, shape: Sequence[int], low: int, high: int) -> Any:
        small = -(2**31) <= low and high < 2**31 - 1
        kind = self.t.int32 if small else self.t.int64
        return self.t.randint(low, max(high, low) + 1, tuple(shape), device=self.device, dtype=kind)

    def permutation(self, n: int) -> Any:
        return self.t.randperm(n, device=self.device)

    # ---- functions
    def where(self, c: Any, a: Any, b: Any) -> Any:
        if not isinstance(a, self.t.Tensor) and not isinstance(b, self.t.Tensor):
            a = self.t.full((), a, device=self.device, dtype=self.t.float64 if isinstance(a, float) else self.t.int64)
        return self.t.where(c, a, b)

    def _pair(self, a: Any, b: Any) -> tuple[Any, Any]:
        like = a if isinstance(a, self.t.Tensor) else b
        return tuple(x if isinstance(x, self.t.Tensor) else self.t.full((), x, device=self.device, dtype=like.dtype) for x in (a, b))

    def maximum(self, a: Any, b: Any) -> Any:
        return self.t.maximum(*self._pair(a, b))

    def minimum(self, a: Any, b: Any) -> Any:
        return self.t.minimum(*self._pair(a, b))

    def sum(self, x: Any, axis: Axis, keep: bool = False) -> Any:
        return x.sum(dim=axis, keepdim=keep)

    def amax(self, x: Any, axis: Axis, keep: bool = False) -> Any:
        return x.amax(dim=axis, keepdim=keep) if x.numel() else self.t.full_like(x.sum(dim=axis, keepdim=keep), -math.inf)

    def amin(self, x: Any, axis: Axis, keep: bool = False) -> Any:
        return x.amin(dim=axis, keepdim=keep) if x.numel() else self.t.full_like(x.sum(dim=axis, keepdim=keep), math.inf)

    def prod(self, x: Any, axis: int) -> Any:
        return x.prod(dim=axis)

    def any(self, x: Any, axis: int) -> Any:
        return x.any(dim=axis)

    def argmax(self, x: Any, axis: int) -> Any:
        return x.argmax(dim=axis)

    def argmin(self, x: Any, axis: int) -> Any:
        return x.argmin(dim=axis)

    def cumsum(self, x: Any, axis: int) -> Any:
        return x.cumsum(dim=axis)

    def cummax(self, x: Any, axis: int) -> Any:
        return x.cummax(dim=axis).values

    def flip(self, x: Any, axis: int) -> Any:
        return x.flip(axis)

    def einsum(self, form: str, *xs: Any) -> Any:
        return self.t.einsum(form, *xs)

    def permute(self, x: Any, *axes: int) -> Any:
        return x.permute(*axes)

    def stack(self, xs: Sequence[Any], axis: int) -> Any:
        return self.t.stack(list(xs), axis)

    def concat(self, xs: Sequence[Any], axis: int) -> Any:
        return self.t.cat(list(xs), axis)

    def broadcast(self, x: Any, shape: Sequence[int]) -> Any:
        return x.expand(tuple(shape))

    def take_along(self, x: Any, i: Any, axis: int) -> Any:
        return self.t.gather(x, axis, i)

    def sort(self, x: Any, axis: int) -> Any:
        return x.sort(dim=axis).values

    def descending(self, x: Any, axis: int) -> tuple[Any, Any]:
        s = self.t.sort(x, dim=axis, descending=True, stable=True)
        return s.values, s.indices

    def searchsorted(self, bounds: Any, values: Any) -> Any:
        return self.t.searchsorted(bounds.contiguous(), values.contiguous(), right=True)

    def index_add(self, base: Any, at: Any, x: Any) -> Any:
        return base.index_add(0, at, x)

    def index_max(self, base: Any, at: Any, x: Any) -> Any:
        i = at.reshape(-1, *[1] * (x.ndim - 1)).expand(x.shape)
        return base.scatter_reduce(0, i, x, "amax", include_self=True)

    def bincount(self, x: Any, n: int) -> Any:
        return self.t.bincount(x.reshape(-1), minlength=n)

    def fft(self, re: Any, im: Any) -> tuple[Any, Any]:
        y = self.t.fft.fft(self.t.complex(re, im), dim=-1)
        return y.real, y.imag

    def rint(self, x: Any) -> Any:
        return self.t.round(x)

    def __getattr__(self, name: str) -> Any:
        """exp, exp2, log, sqrt, tanh, erf, cos, sin, abs, isnan, signbit, floor."""
        return getattr(self.t, name)
