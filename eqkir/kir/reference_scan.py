"""Reference evaluators: scans and arg-reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY, WIDENED
from eqkir.kir import elementwise
from eqkir.kir.elementwise import NAME
from eqkir.kir.floats import Array
from eqkir.kir.machine import to_rank
from eqkir.kir.reference_machine import Reference, rule
from eqkir.kir.reference_structured import identity

S = TypeVar("S")
#: built-in scan -> (the reduction whose identity it has, the pointwise function)
BUILTIN: Final = {"cumsum": ("sum", "add"), "cumprod": ("prod", "mul"), "cummax": ("max", "maximum"), "cummin": ("min", "minimum")}


def prefixes(combine: Callable[[S, S], S], items: Sequence[S], order: str) -> list[S]:
    """Every prefix of n >= 1 items, in order, by one parenthesisation: sequential (plain, forward), chunks of three with a carry
    (reversed), or Sklansky's tree (pairwise). Operands are never exchanged."""
    n = len(items)
    if order == "pairwise" and n > 1:
        half = (n + 1) // 2
        left, right = prefixes(combine, items[:half], order), prefixes(combine, items[half:], order)
        return [*left, *(combine(left[-1], r) for r in right)]
    if order == "reversed" and n > 3:
        out = prefixes(combine, items[:3], "forward")
        for k in range(3, n, 3):
            out += [combine(out[k - 1], p) for p in prefixes(combine, items[k : k + 3], "forward")]
        return out
    out = [items[0]]
    for x in items[1:]:
        out.append(combine(out[-1], x))
    return out


def shifted(items: list[S], first: S | None, exclusive: bool) -> list[S]:
    """Exclusive prefixes from inclusive ones."""
    return [first, *items[:-1]] if exclusive and first is not None else items


def scanned(op: Any, n: int, state: Callable[[list[int]], list[S]], first: S | None) -> list[S]:
    """Prefixes of n members in the operation's direction; `state` makes the inclusive prefixes of members in the order given."""
    members = list(range(n))[:: -1 if op.reverse else 1]
    out = shifted(state(members), first, op.exclusive)
    return out[:: -1 if op.reverse else 1]


@rule("scan")
def scan(m: Reference, op: Any) -> None:
    xs = [m.env[x] for x in op.xs]
    n = xs[0].shape[op.axis + 1]
    if n == 0:
        dtypes = [NAME[x.dtype] for x in xs]
        wide = [WIDENED.get(d, d) if op.fn == "cumsum" else d for d in dtypes]
        m.env.update({r: np.zeros(x.shape, NUMPY[d]) for r, x, d in zip(op.results, xs, wide, strict=True)})
    elif op.combine is None:
        m.env[op.results[0]] = _builtin(op, xs[0], m.choices.order)
    else:
        _generic(m, op, xs, n)


def _builtin(op: Any, x: Array, order: str) -> Array:
    dtype = NAME[x.dtype]
    reduction, fn = BUILTIN[op.fn]
    acc = WIDENED.get(dtype, dtype) if op.fn == "cumsum" else dtype
    front = np.moveaxis(elementwise.cast(x, acc), op.axis + 1, 0)
    first = np.broadcast_to(identity(reduction, acc), front.shape[1:])

    def combine(a: Array, b: Array) -> Array:
        return elementwise.binary(fn, a, b)

    def state(members: list[int]) -> list[Array]:
        return prefixes(combine, [front[k] for k in members], order)

    steps: list[Array] = scanned(op, len(front), state, first)
    return np.stack(steps, op.axis + 1)


def _generic(m: Reference, op: Any, xs: list[Array], n: int) -> None:
    batch = m.batch
    fronts = [np.moveaxis(np.broadcast_to(x, (batch, *x.shape[1:])), op.axis + 1, 0) for x in xs]
    rest = fronts[0].shape[1:]
    count = int(np.prod(rest[1:], dtype=np.int64))
    if count == 0:
        m.env.update(zip(op.results, [np.zeros((batch, *x.shape[1:]), x.dtype) for x in xs], strict=True))
        return
    first = [to_rank(m.env[i], rest).reshape(-1) for i in op.identities] or None
    flat = [f.reshape(n, -1) for f in fronts]

    def state(members: list[int]) -> list[list[Array]]:
        return prefixes(lambda a, b: m.call(op.combine, [*a, *b]), [[f[k] for f in flat] for k in members], m.choices.order)

    with m.nested(count):
        steps = scanned(op, n, state, first)
    for c, r in enumerate(op.results):
        whole = np.stack([np.broadcast_to(s[c], flat[c].shape[1:]) for s in steps]).reshape(n, *rest)
        m.env[r] = np.moveaxis(whole, 0, op.axis + 1)


# ------------------------------------------------------------------------------------------------ arg-reduction
def empty_extreme(op: Any, dtype: str, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Value and index of an arg-reduction over nothing."""
    value = identity("max" if op.fn == "argmax" else "min", dtype)
    return np.broadcast_to(value, shape), np.full(shape, np.iinfo(NUMPY[op.dtype]).max, NUMPY[op.dtype])


@rule("arg_reduce")
def arg_reduce(m: Reference, op: Any) -> None:
    x = np.moveaxis(m.env[op.x], op.axis + 1, -1)
    dtype = NAME[x.dtype]
    if x.shape[-1] == 0:
        m.env.update(zip(op.results, empty_extreme(op, dtype, x.shape[:-1]), strict=True))
        return
    wide = elementwise.compute(x)
    at = np.argmax(wide, -1) if op.fn == "argmax" else np.argmin(wide, -1)  # numpy: the first, NaN first of all
    if dtype in FLOATS and bool(np.isnan(wide).any()):
        nan = np.isnan(wide)
        at = np.where(nan.any(-1), nan.argmax(-1), at)
    m.env[op.results[0]] = np.take_along_axis(x, at[..., None], -1)[..., 0]
    m.env[op.results[1]] = at.astype(NUMPY[op.dtype])
