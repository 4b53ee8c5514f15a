"""Reference evaluators: pointwise, shape and memory operations. Every array has its batch axis in front (`kir.machine`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.kir import elementwise
from eqkir.kir.elementwise import NAME
from eqkir.kir.floats import Array
from eqkir.kir.interval_permissions import flush
from eqkir.kir.machine import align, spread
from eqkir.kir.memory import Access, outside
from eqkir.kir.model import Binary, Op
from eqkir.kir.randomness import philox, uniform
from eqkir.kir.reference_codes import Trap
from eqkir.kir.reference_machine import Reference, rule


@rule("constant")
def constant(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = elementwise.constant(op.value, op.dtype).reshape(1)


def flushing(m: Reference, op: Any) -> Callable[[Array], Array]:
    """What an operation does to its operands and its result under the chosen use of its permission."""
    return flush if op.flush_to_zero and m.choices.flush else lambda a: a


@rule("unary")
def unary(m: Reference, op: Any) -> None:
    f = flushing(m, op)
    m.env[op.results[0]] = f(elementwise.unary(op.fn, f(m.env[op.x])))


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
    f = flushing(m, op)
    m.env[op.results[0]] = f(elementwise.binary(op.fn, f(x), f(y)))


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


@rule("join")
def join(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = np.stack(spread([m.env[op.x], m.env[op.y]]), -1)


@rule("transpose")
def transpose(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = transposed(m.env[op.x], op.perm)


# ------------------------------------------------------------------------------------------------ memory
def aligned_coords(coords: list[Array], valid: Array | None, extra: list[Array]) -> tuple[list[Array], Array | None, list[Array]]:
    """Coordinates, validity and further operands at one rank."""
    out = align([*coords, *([] if valid is None else [valid]), *extra])
    n, v = len(coords), valid is not None
    return out[:n], out[n] if v else None, out[n + v :]


def operands_of(m: Reference, op: Any) -> tuple[list[Array], Array | None]:
    """Coordinates and validity of an access."""
    return [m.env[c] for c in op.coords], m.env[op.valid] if op.valid else None


def fill_of(m: Reference, op: Any, dtype: str) -> Array:
    return m.env[op.fill] if op.fill else np.zeros(1, NUMPY[dtype])


def shaped_by(valid: Array | None, fill: Array) -> Array | None:
    """The fill takes part in the result's shape."""
    return valid if valid is None else np.broadcast_to(valid, np.broadcast_shapes(valid.shape, (1, *fill.shape[1:])))


@rule("load")
def load(m: Reference, op: Any) -> None:
    r = m.resource(op.view)
    coords, valid, (fill,) = aligned_coords(*operands_of(m, op), [fill_of(m, op, r.dtype)])
    a = m.locate(r, coords, shaped_by(valid, fill))
    m.memory.check_written(r, a)
    m.note(r, a, "read")
    value = r.memory[a.address] if r.memory.size else np.zeros(a.address.shape, r.memory.dtype)
    m.env[op.results[0]] = value if a.valid is None else np.where(a.valid, value, fill)


def placed(op: Any, value: Array, a: Access) -> Array:
    """A written value at the coordinates' shape."""
    try:
        return np.broadcast_to(value, a.address.shape)
    except ValueError:
        raise Trap("SHAPE", f"value of shape {value.shape[1:]} stored at coordinates of shape {a.address.shape[1:]}") from None


@rule("unique_scatter")
@rule("store")
def store(m: Reference, op: Any) -> None:
    r = m.resource(op.view)
    coords, valid, (value,) = aligned_coords(*operands_of(m, op), [m.env[op.value]])
    a = m.locate(r, coords, valid)
    value = placed(op, value, a)
    m.note(r, a, "write")
    m.memory.mark_written(r, a, distinct=True)
    if a.valid is None:
        r.memory[a.address] = value
    else:
        r.memory[a.address[a.valid]] = value[a.valid]


@rule("buffer")
def buffer(m: Reference, op: Any) -> None:
    name, shape = op.results[0], m.shape(op.shape)
    r = m.buffers[name] = m.memory.allocate(name, op.dtype, shape, m.batch)
    m.env[f"@{name}"] = m.every()
    if op.init is not None:
        r.memory.reshape(m.batch, *shape)[...] = to_shape(m.env[op.init], shape)
        r.allocation.written[...] = True


def elements(coords: list[Array], valid: Array | None, shape: tuple[int, ...], what: str) -> tuple[tuple[Array, ...], Array | None]:
    """Index arrays into a tensor with batch axis (lane first), and validity; traps out of bounds. Aligned coordinates."""
    full = np.broadcast_shapes(*(c.shape for c in coords), *(() if valid is None else (valid.shape,)), *([(1,)] if not coords else []))
    if shape[0] > 1:
        full = np.broadcast_shapes(full, (shape[0], *[1] * (len(full) - 1)))
    ok = None if valid is None else np.broadcast_to(valid, full)
    index = [np.arange(full[0]).reshape(-1, *[1] * (len(full) - 1)) if shape[0] > 1 else np.zeros(1, np.int64)]
    for k, (c, n) in enumerate(zip(coords, shape[1:], strict=True)):
        bad = np.broadcast_to(outside(c, n), full)
        hit = bad if ok is None else bad & ok
        if hit.any():
            raise Trap("BOUNDS", f"coordinate {int(np.broadcast_to(c, full)[hit][0])} on axis {k} of {what}, whose extent is {n}")
        index.append(np.where(bad, 0, c).astype(np.int64))
    return tuple(np.broadcast_to(i, full) for i in index), ok


@rule("gather")
def gather(m: Reference, op: Any) -> None:
    x = m.env[op.x]
    coords, valid, (fill,) = aligned_coords(*operands_of(m, op), [fill_of(m, op, NAME[x.dtype])])
    index, ok = elements(coords, shaped_by(valid, fill), x.shape, op.x)
    value = x[index] if x.size else np.zeros(index[0].shape, x.dtype)
    m.env[op.results[0]] = value if ok is None else np.where(ok, value, fill)


@rule("assume_in_bounds")
def assume_in_bounds(m: Reference, op: Any) -> None:
    x, n = m.env[op.x], m.resource(op.view).shape[op.axis]
    if bool(outside(x, n).any()):
        raise Trap("BOUNDS", f"{op.x} is assumed to be a coordinate on axis {op.axis} of {op.view}, whose extent is {n}, but is not")
    m.env[op.results[0]] = x


# ------------------------------------------------------------------------------------------------ random numbers
@rule("random_bits")
def random_bits(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = philox(*spread([m.env[op.seed], m.env[op.counter]]))


@rule("random_uniform")
def random_uniform(m: Reference, op: Any) -> None:
    m.env[op.results[0]] = uniform(philox(*spread([m.env[op.seed], m.env[op.counter]])))
