"""Loops over single elements whose bodies have no effects: every step at once, as lanes, then the carries step after step.

Steps of such a loop read the same memory and the same values from outside, so their bodies may run together; only what is carried has an
order, and it is kept: the numbers are those of one step after another, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from eqkir.base.dtypes import NUMPY
from eqkir.program import interp_scalar as S
from eqkir.program.abi import traversal
from eqkir.program.interp_memory import Array
from eqkir.program.model import Carry, Item, Let, Loop, Region

if TYPE_CHECKING:
    from eqkir.program.interp_exec import Batch, Compiler

#: lanes that the steps of nested loops may have together
WIDEST = 4096
Finish = Callable[["Batch"], Any]


def wide(k: Compiler, x: Loop) -> bool:
    """Whether all steps of a loop may run at once."""
    n = k.extent[x.axis]
    if traversal(x.label) != "L1" or x.cond >= 0 or n < 2 or n * k.width > WIDEST or any(c.op == "Phi" for c in x.carries):
        return False
    return not x.ends and all(map(_pure, x.body))


def _pure(i: Item) -> bool:
    """Whether an item has no effects and takes the same steps wherever it stands."""
    if isinstance(i, Loop):
        return i.cond < 0 and not i.ends and all(map(_pure, i.body))
    return isinstance(i, Let)


def compile_wide(k: Compiler, x: Loop, where: str) -> Callable[[Batch], None]:
    """A loop that is `wide`."""
    n = k.extent[x.axis]
    k.wide[x.label] = n
    k.widest = max(k.widest, k.width)
    body = k.block(x.body, f"{where}/body")
    carries = [(c.id, _carried(k, c, x.label)) for c in x.carries]
    del k.wide[x.label]
    for c in x.carries:
        k.define(c)
    at = np.arange(n, dtype=np.int64)[None]

    def go(b: Batch) -> None:
        saved = b.coords.get(x.label)
        b.coords[x.label] = at
        body(b)
        for name, f in carries:
            b.env[name] = f(b)
        if saved is None:
            del b.coords[x.label]
        else:
            b.coords[x.label] = saved

    return go


def _carried(k: Compiler, c: Carry, label: str) -> Finish:
    """A carry after the last step."""
    dims = tuple(d for d in k.lanes(c.dims) if d != label)
    over, steps = (*dims, label), range(k.wide[label])
    start = (1, *k.sizes(dims))
    if c.op in ("ConLoop", "ConAccLoop"):
        p, q = (k.operand(a, over) for a in c.args[:2])
        dp, dq = (k.dtypes[a] for a in c.args[:2])
        init, shape = k.full(c.inits[0], dims) if c.inits else None, k.sizes(over)

        def contract(b: Batch) -> Array:
            v = S.binary("mul", S.cast(p(b), dp, c.dtype), S.cast(q(b), dq, c.dtype), c.dtype)
            v = np.broadcast_to(v, v.shape[:1] + shape)
            s = init(b) if init else np.zeros(start, NUMPY[c.dtype])
            for i in steps:
                s = S.binary("add", s, v[..., i], c.dtype)
            return s

        return contract
    args = [k.full(a, over) for a in c.args]
    if c.op == "RedLoop":
        fn = c.attrs[0]
        first = np.full(start, S.identity(fn, c.dtype), NUMPY[c.dtype])

        def reduce(b: Batch) -> Array:
            v, s = args[0](b), first
            for i in steps:
                s = S.combine(fn, s, v[..., i], c.dtype)
            return s

        return reduce
    region: Region = c.attrs[1]
    idents = [k.full(i, dims) for i in c.inits]

    def generic(b: Batch) -> tuple[Array, ...]:
        vs, s = [f(b) for f in args], tuple(f(b) for f in idents)
        for i in steps:
            s = k.reducer.apply(region, s, tuple(v[..., i] for v in vs))
        return s

    return generic


__all__ = ["WIDEST", "compile_wide", "wide"]
