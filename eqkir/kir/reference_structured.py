"""Reference evaluators of structured operations: reduce and contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from eqkir.base.dtypes import FLOATS, INTS, NUMPY, WIDENED
from eqkir.kir import elementwise, floats
from eqkir.kir.elementwise import NAME
from eqkir.kir.floats import Array
from eqkir.kir.machine import align
from eqkir.kir.reference_codes import Trap
from eqkir.kir.reference_machine import Reference, rule
from eqkir.kir.reference_ops import product_of

S = TypeVar("S")


def identity(fn: str, dtype: str) -> Array:
    """The neutral element of a built-in reduction (f8e4m3fn has no infinity: its largest value stands for it)."""
    if fn in ("sum", "prod", "any", "all"):
        return np.asarray(fn in ("prod", "all"), NUMPY[dtype])
    if dtype in INTS:
        info = np.iinfo(NUMPY[dtype])
        return np.asarray(info.min if fn == "max" else info.max, NUMPY[dtype])
    if dtype == "bool":
        return np.asarray(fn == "min")
    top = floats.FORMATS[dtype].max if dtype == "f8e4m3fn" else np.inf
    return np.asarray(-top if fn == "max" else top).astype(NUMPY[dtype])


def fold(combine: Callable[[S, S], S], item: Callable[[int], S], n: int, order: str) -> S:
    """One tree over n >= 1 items: forward (plain) and reversed are sequential, pairwise is balanced."""
    if order == "pairwise" and n > 1:
        half = (n + 1) // 2
        return combine(fold(combine, item, half, order), fold(combine, lambda i: item(i + half), n - half, order))
    state = item(n - 1 if order == "reversed" else 0)
    for i in range(1, n):
        state = combine(state, item(n - 1 - i if order == "reversed" else i))
    return state


def to_back(a: Array, axes: Sequence[int]) -> Array:
    """Logical `axes` moved behind the others (in index order) and flattened into one last axis."""
    red = sorted(axes)
    keep = [k for k in range(a.ndim - 1) if k not in red]
    moved = np.transpose(a, (0, *(k + 1 for k in keep), *(k + 1 for k in red)))
    n = int(np.prod([a.shape[k + 1] for k in red], dtype=np.int64))
    return moved.reshape(*moved.shape[: len(keep) + 1], n)


def accumulate(fn: str, x: Array, order: str) -> Array:
    """Reduction of the last axis in x's dtype by the built-in `fn`."""
    dtype = NAME[x.dtype]
    if fn in ("any", "all"):
        return np.asarray(np.any(x, -1) if fn == "any" else np.all(x, -1))
    if x.shape[-1] == 0:
        return np.broadcast_to(identity(fn, dtype), x.shape[:-1])
    if fn in ("max", "min"):
        return elementwise.cast(np.asarray((np.maximum if fn == "max" else np.minimum).reduce(elementwise.compute(x), -1)), dtype)
    name = "add" if fn == "sum" else "mul"
    if order != "plain" or dtype in floats.NARROW:
        return fold(lambda a, b: elementwise.binary(name, a, b), lambda k: x[..., k], x.shape[-1], order)
    return np.asarray((np.add if fn == "sum" else np.multiply).reduce(x, -1, dtype=x.dtype))


@rule("reduce")
def reduce(m: Reference, op: Any) -> None:
    if op.combine is not None:
        _generic(m, op)
        return
    x = m.env[op.xs[0]]
    dtype = NAME[x.dtype]
    acc = WIDENED.get(dtype, dtype) if op.fn == "sum" else dtype
    p = product_of(m, op.xs[0])
    if m.choices.fused and op.fn == "sum" and p and acc == dtype and x.shape[1:]:
        a, b = (np.broadcast_to(v, x.shape) for v in align([m.env[p.x], m.env[p.y], x])[:2])
        m.env[op.results[0]] = _fused_dot(to_back(a, op.axes), to_back(b, op.axes))
        return
    m.env[op.results[0]] = accumulate(op.fn, to_back(elementwise.cast(x, acc), op.axes), m.choices.order)


def _add(a: Array, b: Array) -> Array:
    return elementwise.binary("add", a, b)


def _fused_dot(a: Array, b: Array) -> Array:
    """Sum of products over the last axis by a chain of fused multiply-adds."""
    s = np.zeros(a.shape[:-1], a.dtype)
    for k in range(a.shape[-1]):
        s = elementwise.fma(a[..., k], b[..., k], s)
    return s


def leaves(arrays: Sequence[Array], axes: Sequence[int], batch: int) -> tuple[list[Array], tuple[int, ...]]:
    """Operands of a generic reduction as ``[members, batch * others]``, and the logical shape of the others."""
    flat = [to_back(np.broadcast_to(a, (batch, *a.shape[1:])), axes) for a in arrays]
    others = flat[0].shape[1:-1]
    count = batch * int(np.prod(others, dtype=np.int64))
    return [np.moveaxis(a, -1, 0).reshape(a.shape[-1], count) for a in flat], others


def _generic(m: Reference, op: Any) -> None:
    xs = [m.env[x] for x in op.xs]
    flat, others = leaves(xs, op.axes, m.batch)
    n = int(np.prod(others, dtype=np.int64))
    batch = m.batch
    out: list[Array]
    if flat[0].shape[0] == 0 or n == 0:
        out = [np.broadcast_to(align([m.env[i], np.empty((1, *others))])[0], (batch, *others)) for i in op.identities]
    else:
        with m.nested(n):
            state = fold(lambda a, b: m.call(op.combine, [*a, *b]), lambda k: [f[k] for f in flat], len(flat[0]), m.choices.order)
            out = [np.broadcast_to(a, (batch * n,)).reshape(batch, *others) for a in state]
    m.env.update(zip(op.results, out, strict=True))


# ------------------------------------------------------------------------------------------------ contract
def matrices(lhs: Array, rhs: Array, op: Any) -> tuple[Array, Array, tuple[int, ...]]:
    """Operands as ``[B, batch…, M, K]`` and ``[B, batch…, K, N]``, and the logical shape of the result."""
    sides = []
    for a, k in ((lhs, 0), (rhs, 1)):
        red, bat = [p[k] for p in op.reduce], [p[k] for p in op.batch]
        free = [i for i in range(a.ndim - 1) if i not in red and i not in bat]
        parts = [[a.shape[i + 1] for i in axes] for axes in (bat, free, red)]
        counts = [int(np.prod(p, dtype=np.int64)) for p in parts]
        order = (bat, free, red) if k == 0 else (bat, red, free)
        t = np.transpose(a, (0, *(i + 1 for axes in order for i in axes)))
        tail = (counts[1], counts[2]) if k == 0 else (counts[2], counts[1])
        sides.append((t.reshape(a.shape[0], *parts[0], *tail), parts))
    (left, lp), (right, rp) = sides
    if lp[0] != rp[0] or lp[2] != rp[2]:
        raise Trap("SHAPE", f"contract of shapes {lhs.shape[1:]} and {rhs.shape[1:]}")
    return left, right, (*lp[0], *lp[1], *rp[1])


def product(m: Reference, a: Array, b: Array, acc: str) -> Array:
    """``[…, M, K] @ […, K, N]`` in `acc`, the dtype of both, in the chosen order."""
    k = a.shape[-1]
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.zeros((*lead, a.shape[-2], b.shape[-1]), a.dtype)
    columns, rows = (np.moveaxis(a, -1, 0)[..., None], np.moveaxis(b, -2, 0)[..., None, :])
    if k and m.choices.fused and acc in FLOATS:
        for i in range(k):
            out = elementwise.fma(columns[i], rows[i], out)
    elif k and (m.choices.order != "plain" or acc in floats.NARROW):
        out = fold(_add, lambda i: elementwise.binary("mul", columns[i], rows[i]), k, m.choices.order)
    elif k:
        out = np.matmul(a, b)
    return out


@rule("contract")
def contract(m: Reference, op: Any) -> None:
    a, b, shape = matrices(elementwise.cast(m.env[op.lhs], op.acc), elementwise.cast(m.env[op.rhs], op.acc), op)
    out = product(m, a, b, op.acc)
    m.env[op.results[0]] = out.reshape(max(a.shape[0], b.shape[0]), *shape)
