"""Reference evaluators: pointwise, shape and memory operations. Every array has its batch axis in front (`kir.machine`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.kir import elementwise
from eqkir.kir.elementwise import NAME
from eqkir.kir.floats import Array
from eqkir.kir.machine import align, spread
from eqkir.kir.model import Binary, Op
from eqkir.kir.reference import Reference, rule
from eqkir.kir.reference_codes import Trap


@rule("constant")
def constant(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = elementwise.constant(op.value, op.dtype).reshape(1)


@rule("unary")
def unary(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = elementwise.unary(op.fn, m.env[op.x])


def product_of(m: Reference, value: str) -> Binary | None:
    """The float multiplication that defines a value, when it is one."""
    d: Op | None = m.defs.get(value)
    return d if isinstance(d, Binary) and d.fn == "mul" and NAME[m.env[value].dtype] in FLOATS else None


@rule("binary")
def binary(m: Reference, op: Any) -> None:
    x, y = spread([m.env[op.x], m.env[op.y]])
    if m.choices.fused and op.fn in ("add", "sub") and (p := product_of(m, op.x) or product_of(m, op.y)):
        a, b = m.env[p.x], m.env[p.y]
        if p.results[0] == op.x:
            c = y if op.fn == "add" else elementwise.unary("neg", y)
        else:
            c, a = x, a if op.fn == "add" else elementwise.unary("neg", a)
        m.env[op.results[0]] = elementwise.fma(*spread([a, b, c]))
        return
    m.env[op.results[0]] = elementwise.binary(op.fn, x, y)


@rule("compare")
def compare(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = elementwise.compare(op.fn, *spread([m.env[op.x], m.env[op.y]]))


@rule("fma")
def fma(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = elementwise.fma(*spread([m.env[op.x], m.env[op.y], m.env[op.z]]))


@rule("select")
def select(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = np.where(*spread([m.env[op.cond], m.env[op.x], m.env[op.y]]))


@rule("cast")
def cast(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = elementwise.cast(m.env[op.x], op.dtype)


@rule("bitcast")
def bitcast(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = elementwise.bitcast(m.env[op.x], op.dtype)


# ------------------------------------------------------------------------------------------------ shape
def to_shape(a: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast of the logical shape. Traps when it does not fit."""
    try:
        return np.broadcast_to(align([a, np.empty((1, *shape), bool)])[0], (a.shape[0], *shape))
    except ValueError:
        raise Trap("SHAPE", f"shape {a.shape[1:]} does not broadcast to {shape}") from None


def reshaped(a: Array, shape: tuple[int, ...]) -> Array:
    """Row-major reshape of the logical shape. Traps on another count."""
    if int(np.prod(shape, dtype=np.int64)) != int(np.prod(a.shape[1:], dtype=np.int64)):
        raise Trap("SHAPE", f"reshape of {a.shape[1:]} to {shape}")
    return a.reshape(a.shape[0], *shape)


def transposed(a: Array, perm: tuple[int, ...]) -> Array:
    return np.transpose(a, (0, *(p + 1 for p in perm)))


@rule("full")
def full(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = to_shape(m.env[op.value], m.shape(op.shape))


@rule("broadcast")
def broadcast(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = to_shape(m.env[op.x], m.shape(op.shape))


@rule("reshape")
def reshape(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = reshaped(m.env[op.x], m.shape(op.shape))


@rule("transpose")
def transpose(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = transposed(m.env[op.x], op.perm)


# ------------------------------------------------------------------------------------------------ memory
def aligned_coords(coords: list[Array], valid: Array | None, extra: list[Array]) -> tuple[list[Array], Array | None, list[Array]]:
    """Coordinates, validity and further operands at one rank."""
    out = align([*coords, *([] if valid is None else [valid]), *extra])
    n, v = len(coords), valid is not None
    return out[:n], out[n] if v else None, out[n + v :]


@rule("load")
def load(m: Reference, op: Any) -> None:
    param, arg = m.binding.params[op.view], m.binding.views[op.view]
    fill = m.env[op.fill] if op.fill else np.zeros(1, NUMPY[param.dtype])
    coords, valid, (fill,) = aligned_coords([m.env[c] for c in op.coords], m.env[op.valid] if op.valid else None, [fill])
    if valid is not None:  # the fill takes part in the result's shape
        valid = np.broadcast_to(valid, np.broadcast_shapes(valid.shape, (1, *fill.shape[1:])))
    a = m.memory.locate(op.view, coords, valid, m.batch)
    m.memory.read(op.view, param.role, a)
    value = arg.memory[a.address] if arg.memory.size else np.zeros(a.address.shape, arg.memory.dtype)
    m.env[op.results[0]] = value if a.valid is None else np.where(a.valid, value, fill)


@rule("store")
def store(m: Reference, op: Any) -> None:
    arg = m.binding.views[op.view]
    coords, valid, (value,) = aligned_coords([m.env[c] for c in op.coords], m.env[op.valid] if op.valid else None, [m.env[op.value]])
    a = m.memory.locate(op.view, coords, valid, m.batch)
    try:
        value = np.broadcast_to(value, a.address.shape)
    except ValueError:
        raise Trap("SHAPE", f"value of shape {value.shape[1:]} stored at coordinates of shape {a.address.shape[1:]}") from None
    m.memory.write(op.view, a)
    if a.valid is None:
        arg.memory[a.address] = value
    else:
        arg.memory[a.address[a.valid]] = value[a.valid]
