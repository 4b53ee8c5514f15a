"""Inputs for checks: deterministic data and memory layouts for any kernel. Outputs are poisoned, gaps in memory too.

Variants: ``plain`` contiguous; ``special`` contiguous with infinities, NaN, ±0, subnormals, huge and tiny values sprinkled in;
``strided`` every axis with gaps; ``transposed`` permuted strides; ``offset`` an odd element offset; ``negative`` negative
strides; ``broadcast`` zero strides on ``in`` views; ``overlap`` views that share memory where no noalias set forbids it.

``zeros``; ``magnified`` floats as large as the kernel's results stay decided (`kir.input_sizes`); ``edges`` of the dtypes.

Integers that steer (coordinates, offsets, page tables, labels, metadata, encoded bytes) are valid: what they mean is inferred from
their use (`kir.input_uses`) or told by `data` (`kir.input_data`). Views with such contents keep them in every variant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.kir import binding
from eqkir.kir.binding import infer_symbols
from eqkir.kir.elementwise import constant
from eqkir.kir.floats import FORMATS, Array, narrow
from eqkir.kir.input_data import STRUCTURED, make
from eqkir.kir.input_uses import infer_entries
from eqkir.kir.memory import ViewArg, row_major
from eqkir.kir.model import Constexpr, Kernel, Scalar, View

#: contents, layouts, and views that share memory: ``overlap`` in part, ``alias`` element for element
VARIANTS: Final = (
    "plain", "special", "strided", "transposed", "offset", "negative", "broadcast", "overlap", "alias", "zeros", "magnified", "edges",
)  # fmt: skip
CONTENTS: Final = ("special", "zeros", "magnified", "edges")


def make_inputs(
    kernel: Kernel,
    symbols: Mapping[str, int],
    seed: int,
    variant: str = "plain",
    constexprs: Mapping[str, binding.Literal] | None = None,
    scalars: Mapping[str, Any] | None = None,
    data: Mapping[str, Mapping[str, Any]] | None = None,
    part: float | None = None,
) -> dict[str, ViewArg | Any]:
    """Arguments for `kernel` at the extents `symbols` (all symbols; integer constexprs in shapes take their value or default).

    `scalars` fixes scalars by name; the others are drawn: floats near 1, integers in [1, 4]. `data`: entries of `kir.input_data` by view,
    beside those that are inferred. `part`: ``magnified`` floats are multiplied by a power of two whose exponent is this part of the
    largest one; by default it is chosen so that the kernel's envelope decides most results (`input_sizes`). The same arguments give the
    same bytes. Raises ValueError for an unknown variant or entry, EQK-REF-SYMBOL when an extent has no value.
    """
    if variant not in VARIANTS:
        raise ValueError(f"unknown variant {variant!r}, one of {VARIANTS}")
    if variant == "magnified" and part is None:
        from eqkir.kir.input_sizes import magnified  # it makes inputs itself, and judges them

        return magnified(kernel, symbols, constexprs, lambda x: make_inputs(kernel, symbols, seed, variant, constexprs, scalars, data, x))
    rng = np.random.default_rng([seed, VARIANTS.index(variant)])
    extents = dict(infer_symbols(kernel, {}, symbols))
    for p in kernel.params:
        if isinstance(p, Constexpr) and p.type == "int":
            extents[p.id] = int((constexprs or {}).get(p.id, p.default))
    out: dict[str, ViewArg | Any] = {}
    entries = {**infer_entries(kernel), **(data or {})}
    counted = {e["places_of"] for e in entries.values() if "places_of" in e}  # what other contents describe stays as it is
    made: dict[str, Array] = {}
    for p in kernel.params:
        if isinstance(p, Scalar):
            drawn = float(rng.uniform(0.5, 1.5)) if p.dtype in FLOATS else int(rng.integers(1, 5))
            scalar = out[p.id] = constant((scalars or {}).get(p.id, drawn), p.dtype)[()]
            if p.dtype not in FLOATS and p.dtype != "bool":
                extents[p.id] = int(scalar)
        elif isinstance(p, View):
            shape = tuple(e if isinstance(e, int) else extents[e] for e in p.shape)
            layout = "plain" if variant in ("overlap", "alias", *CONTENTS) else variant
            kind = next(iter(entries[p.id]), "") if p.id in entries and p.role != "out" else ""
            if kind:
                x = make(entries[p.id], shape, rng, extents, made).astype(NUMPY[p.dtype])
                special = variant == "special" and kind == "uniform" and p.dtype in FLOATS
                made[p.id] = _sprinkle(x, p.dtype, rng) if special else x
                layout = "plain" if layout == "broadcast" and (kind in STRUCTURED or p.id in counted) else layout
            else:
                made[p.id] = contents(p, shape, rng, variant, part or 0.0)
            out[p.id] = place(made[p.id], layout, rng, p.role == "in")
    if variant in ("overlap", "alias"):
        (_overlap if variant == "overlap" else _alias)(kernel, out, set(entries))
    return out


# ------------------------------------------------------------------------------------------------ data
def poison(dtype: str, shape: tuple[int, ...]) -> Array:
    """What unwritten memory holds: NaN, or the bytes A5 (for bool: true)."""
    if dtype in FLOATS:
        return np.full(shape, np.nan).astype(NUMPY[dtype])
    if dtype == "bool":
        return np.ones(shape, bool)
    return np.frombuffer(b"\xa5" * NUMPY[dtype].itemsize, NUMPY[dtype]).repeat(math.prod(shape)).reshape(shape)


def contents(p: View, shape: tuple[int, ...], rng: np.random.Generator, variant: str = "plain", part: float = 0.0) -> Array:
    """Data of one view: normal floats; integers small in one half of the elements, of full range in the other. Variants: ``special`` floats
    now and then, all ``zeros``, ``magnified`` floats, ``edges`` of the dtype and what is next to them. What an `out` view holds before is
    poison (a bool has no value that is none: true and false by turns)."""
    dtype = p.dtype
    if p.role == "out":
        return np.asarray(rng.random(shape) < 0.5) if dtype == "bool" else poison(dtype, shape)
    if variant == "zeros":
        return np.zeros(shape, NUMPY[dtype])
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype in FLOATS:
        x = narrow(rng.standard_normal(shape), dtype)
        if variant == "magnified":
            return narrow(x.astype(np.float64) * 2.0 ** int(part * math.log2(FORMATS[dtype].max)), dtype)
        if variant == "edges":
            return _chosen(edges(dtype), x, 0.5, rng)
        return _sprinkle(x, dtype, rng) if variant == "special" else x
    info = np.iinfo(NUMPY[dtype])
    if variant == "edges":
        extremes = np.asarray([info.min, info.min + 1, info.max - 1, info.max, 0, 1], NUMPY[dtype])
        return _chosen(extremes, np.ones(shape, NUMPY[dtype]), 0.9, rng)
    full = rng.integers(info.min, info.max, shape, NUMPY[dtype], endpoint=True)
    small = rng.integers(0 if info.min == 0 else -8, 9, shape).astype(NUMPY[dtype])
    return np.where(rng.random(shape) < 0.5, small, full).astype(NUMPY[dtype])


def special_values(dtype: str) -> Array:
    """±0, ±1, NaN, infinities, smallest and larger subnormals, smallest normal, huge and tiny values, as far as `dtype` has them."""
    f = FORMATS[dtype]
    positive = [0.0, 1.0, f.tiny, 3 * f.tiny, 2.0**f.emin, 2.0 ** (f.emin / 2), f.max, f.max / 8, math.sqrt(f.max) / 4]
    both = [s * v for v in positive for s in (1.0, -1.0)]
    return narrow(np.asarray([*both, np.nan, *([] if dtype == "f8e4m3fn" else [np.inf, -np.inf])]), dtype)


def edges(dtype: str) -> Array:
    """±0, ±1 and their neighbours, ±smallest subnormal and normal: finite, and far from overflow."""
    f = FORMATS[dtype]
    step = 2.0 ** (1 - f.p)
    positive = [0.0, 1.0, 1.0 + step, 1.0 - step / 2, f.tiny, 2.0**f.emin, 2.0**f.emin - f.tiny]
    return narrow(np.asarray([s * v for v in positive for s in (1.0, -1.0)]), dtype)


def _sprinkle(x: Array, dtype: str, rng: np.random.Generator) -> Array:
    """Special values in every few hundredths of the elements: most rows of a small tensor see one or none, some several."""
    return _chosen(special_values(dtype), x, 0.04, rng)


def _chosen(values: Array, x: Array, part: float, rng: np.random.Generator) -> Array:
    """A part of the elements replaced by values of a list."""
    chosen = values[rng.integers(0, len(values), x.shape)]
    return np.where(rng.random(x.shape) < part, chosen, x).astype(x.dtype)


# ------------------------------------------------------------------------------------------------ layout
def place(data: Array, layout: str, rng: np.random.Generator, readonly: bool) -> ViewArg:
    """A view of the given layout that holds `data`; other memory is poisoned. Zero strides (reads only) repeat one slice."""
    shape, rank = data.shape, data.ndim
    strides, offset, slack = list(row_major(shape)), 0, 0
    match layout:
        case "strided":
            strides = [0] * rank
            reach = 1
            for k in reversed(range(rank)):
                strides[k] = reach * int(rng.integers(2, 4))
                reach = strides[k] * max(shape[k], 1) + int(rng.integers(0, 3))
            slack = 5
        case "transposed":
            order = [int(i) for i in rng.permutation(rank)] if rank > 2 else list(range(rank))[::-1]
            inner = row_major([shape[i] for i in order])
            for i, s in zip(order, inner, strict=True):
                strides[i] = s
        case "offset":
            offset, slack = 1 + 2 * int(rng.integers(0, 8)), 3
        case "negative":
            flip = rng.random(rank) < 0.7
            if rank and not flip.any():
                flip[-1] = True
            offset = sum((n - 1) * s for n, s, f in zip(shape, strides, flip, strict=True) if f and n)
            strides = [-s if f else s for s, f in zip(strides, flip, strict=True)]
        case "broadcast" if readonly and rank:
            axis = int(rng.integers(0, rank))
            if shape[axis]:
                data = np.broadcast_to(np.take(data, [0], axis), shape)
                strides = list(row_major([1 if k == axis else n for k, n in enumerate(shape)]))
                strides[axis] = 0
    view = ViewArg(np.empty(0, data.dtype), offset, shape, tuple(strides))
    size = max(view.span()[1], offset) + slack
    view = ViewArg(np.ascontiguousarray(poison_like(data, size)), offset, shape, tuple(strides))
    if data.size:
        view.array()[...] = data
    return view


def poison_like(data: Array, size: int) -> Array:
    """Poisoned memory for `size` elements of `data`'s dtype."""
    return poison(next(k for k, v in NUMPY.items() if v == data.dtype), (size,)).copy()


def _alias(kernel: Kernel, args: dict[str, ViewArg | Any], fixed: set[str]) -> None:
    """Let each written view be a readable view of its dtype and shape, element for element, where no noalias set holds both and none is
    `fixed`: in-place calls of kernels that are not declared so. The readable one keeps its data."""
    params = [p for p in kernel.params if isinstance(p, View)]
    used = set(fixed)
    for w in params:
        if w.role == "in" or w.id in used:
            continue
        for r in params:
            apart = r.id == w.id or r.id in used or any(r.id in g and w.id in g for g in kernel.noalias)
            if not apart and r.dtype == w.dtype and r.role != "out" and args[r.id].shape == args[w.id].shape:
                args[w.id] = args[r.id]
                used |= {w.id, r.id}
                break


def _overlap(kernel: Kernel, args: dict[str, ViewArg | Any], fixed: set[str]) -> None:
    """Let each written view start in the middle of a readable view of its dtype, where no noalias set holds both and none is `fixed`.

    Views that already share memory are left alone, so every sharing is pairwise; the readable one keeps its data.
    """
    params = [p for p in kernel.params if isinstance(p, View)]
    used = set(fixed)
    for w in params:
        if w.role == "in" or w.id in used:
            continue
        for r in params:
            apart = r.id == w.id or r.id in used or any(r.id in g and w.id in g for g in kernel.noalias)
            if apart or r.dtype != w.dtype or r.role == "out":
                continue
            a, b = args[r.id], args[w.id]
            if not a.memory.size or not b.memory.size:
                continue
            shift = min(1, a.memory.size - 1) if w.role == "out" else a.memory.size // 2
            memory = np.concatenate([a.memory, b.memory[: max(0, shift + b.memory.size - a.memory.size)]])
            args[r.id] = ViewArg(memory, a.offset, a.shape, a.strides)
            args[w.id] = ViewArg(memory, b.offset + shift, b.shape, b.strides)
            used |= {w.id, r.id}
            break
