"""Binding of one call: symbols from the views' shapes, constexprs, scalars, and the checks that a launch owes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqkir.base.diagnostics import EqkirError, fail
from eqkir.base.dtypes import INTS, NUMPY
from eqkir.kir.elementwise import constant
from eqkir.kir.floats import Array
from eqkir.kir.memory import ViewArg
from eqkir.kir.model import Constexpr, Kernel, Scalar, View
from eqkir.kir.reference_codes import CODES, STAGE, Trap

Literal = bool | int | float | str
#: dtype of a constexpr as a value
CONSTEXPR: dict[str, str] = {"bool": "bool", "int": "index", "float": "f64", "enum": "index"}


def error(key: str, message: str, pointer: str = "") -> EqkirError:
    """A coded diagnosis of this stage."""
    return fail(CODES[key], message, pointer, stage=STAGE)


@dataclass(frozen=True)
class Binding:
    """A kernel with the facts of one call: extents by name (symbols, integer scalars, integer constexprs), scalars, views."""

    kernel: Kernel
    launch: Mapping[str, int]
    scalars: Mapping[str, Array]  # 0-d arrays of the parameter's dtype, constexprs included
    views: Mapping[str, ViewArg]
    params: Mapping[str, View]


def bind(kernel: Kernel, args: Mapping[str, Any], symbols: Mapping[str, int], constexprs: Mapping[str, Literal]) -> Binding:
    """Check `args` against the interface and infer the symbols. Raises EqkirError EQK-REF-ARGS, -SYMBOL, -NOALIAS or -MEMORY."""
    params = {p.id: p for p in kernel.params if isinstance(p, View)}
    scalars: dict[str, Array] = {}
    launch: dict[str, int] = {}
    wanted = {p.id for p in kernel.params if not isinstance(p, Constexpr)}
    if set(args) != wanted:
        raise error("ARGS", f"expected {sorted(wanted)}, got {sorted(args)}")
    known = {p.id for p in kernel.params if isinstance(p, Constexpr)}
    if not set(constexprs) <= known:
        raise error("ARGS", f"no constexpr {sorted(set(constexprs) - known)}")
    for i, p in enumerate(kernel.params):
        if isinstance(p, Scalar):
            scalars[p.id] = _scalar(args[p.id], p.dtype, f"/params/{i}")
            if p.dtype in INTS:
                launch[p.id] = int(scalars[p.id])
        elif isinstance(p, Constexpr):
            scalars[p.id], n = _constexpr(p, constexprs.get(p.id, p.default), f"/params/{i}")
            if p.type == "int":
                launch[p.id] = n
    views = {k: _view(args[k], v, f"/params/{[p.id for p in kernel.params].index(k)}") for k, v in params.items()}
    launch.update(infer_symbols(kernel, {k: v.shape for k, v in views.items()}, {**dict(symbols), **launch}))
    for group in kernel.noalias:
        _check_disjoint(group, views)
    return Binding(kernel, launch, scalars, views, params)


def _scalar(value: Any, dtype: str, pointer: str) -> Array:
    if isinstance(value, (np.generic, np.ndarray)):
        if value.dtype != NUMPY[dtype] or value.ndim:
            raise error("ARGS", f"a scalar of dtype {dtype} expected, got {value.dtype} of rank {value.ndim}", pointer)
        return np.asarray(value)
    try:
        return constant(value, dtype)
    except Trap as t:
        raise fail(t.code, t.message, pointer, stage=STAGE) from None


def _constexpr(p: Constexpr, value: Literal, pointer: str) -> tuple[Array, int]:
    if p.type == "enum":
        if value not in p.choices:
            raise error("ARGS", f"{value!r} is none of {list(p.choices)}", pointer)
        value = p.choices.index(str(value))
    return constant(value, CONSTEXPR[p.type]), int(value) if p.type in ("int", "enum", "bool") else 0


def _view(arg: Any, param: View, pointer: str) -> ViewArg:
    if not isinstance(arg, ViewArg):
        raise error("ARGS", f"{param.id} is a view, got {type(arg).__name__}", pointer)
    if arg.memory.dtype != NUMPY[param.dtype] or arg.memory.ndim != 1 or not arg.memory.flags.c_contiguous:
        raise error("ARGS", f"{param.id} needs contiguous one-dimensional memory of dtype {param.dtype}", pointer)
    if not len(arg.shape) == len(arg.strides) == len(param.shape):
        raise error("ARGS", f"{param.id} has rank {len(param.shape)}, got shape {arg.shape} and strides {arg.strides}", pointer)
    lo, hi = arg.span()
    if min(arg.shape, default=0) < 0 or (hi > lo and not (0 <= lo and hi <= arg.memory.size)):
        raise error("MEMORY", f"{param.id} spans elements [{lo}, {hi}) of {arg.memory.size}", pointer)
    return arg


def infer_symbols(kernel: Kernel, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, int]) -> dict[str, int]:
    """The value of every symbol, from `given`, the views' shapes and the declared equalities. Raises EQK-REF-SYMBOL."""
    value = dict(given)
    declared = {s.id for s in kernel.symbols}
    for p in kernel.params:
        for k, e in enumerate(p.shape if isinstance(p, View) and p.id in shapes else ()):
            n = shapes[p.id][k]
            want = e if isinstance(e, int) else value.setdefault(e, n)
            if want != n:
                raise error("SYMBOL", f"axis {k} of {p.id} is {n}, but {e} is {want}")
    for _ in kernel.equal:
        for a, b in kernel.equal:
            for x, y in ((a, b), (b, a)):
                if x in value and value.setdefault(y, value[x]) != value[x]:
                    raise error("SYMBOL", f"{x} = {value[x]} and {y} = {value[y]} are declared equal")
    for s in kernel.symbols:
        if s.id not in value:
            raise error("SYMBOL", f"no view fixes {s.id}, and no value was given")
        n = value[s.id]
        if n < s.min or (s.max is not None and n > s.max) or n % s.multiple_of:
            raise error("SYMBOL", f"{s.id} = {n} breaks its declaration (min {s.min}, max {s.max}, multiple of {s.multiple_of})")
    return {k: v for k, v in value.items() if k in declared}


def _check_disjoint(group: tuple[str, ...], views: Mapping[str, ViewArg]) -> None:
    spans = []
    for k in group:
        v = views[k]
        base, (lo, hi) = int(v.memory.__array_interface__["data"][0]), v.span()
        if hi > lo:
            spans.append((base + lo * v.memory.itemsize, base + hi * v.memory.itemsize, k))
    spans.sort()
    for (_, end, a), (start, _, b) in zip(spans, spans[1:], strict=False):
        if start < end:
            raise error("NOALIAS", f"{a} and {b} are declared noalias but overlap")
