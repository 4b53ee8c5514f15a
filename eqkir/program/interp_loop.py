"""Loops of the program interpreter: coordinates of each iteration, and what their carries do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from eqkir.base.dtypes import NUMPY
from eqkir.program import interp_scalar as S
from eqkir.program.abi import parameter
from eqkir.program.interp_memory import Array
from eqkir.program.model import Carry, Loop, Region

if TYPE_CHECKING:
    from eqkir.program.interp_exec import Batch, Compiler

Start = Callable[["Batch"], Any]
Step = Callable[["Batch", Any], Any]
Finish = Callable[[Any], Any]
Steps = tuple[Start, Step, Finish]


def compile_loop(k: Compiler, x: Loop, where: str) -> Callable[[Batch], None]:
    """A loop over one axis; `Phi` values live in the body, other carries are folded beside it."""
    extent, chunk = k.extent[x.axis], k.program.lanes(x.label)
    scalar = parameter(x.label) is None
    lanes = np.arange(chunk, dtype=np.int64).reshape(1, -1)
    phis = [c for c in x.carries if c.op == "Phi"]
    folds = [c for c in x.carries if c.op != "Phi"]
    inits = [k.full(c.inits[0], k.lanes(c.dims)) for c in phis]
    for c in phis:
        k.define(c)
    body = k.block(x.body, f"{where}/body")
    nexts = [k.full(c.args[0], k.lanes(c.dims)) for c in phis]
    steps = [fold(k, c, x.label) for c in folds]
    for c in x.carries:
        k.define(c)

    def go(b: Batch) -> None:
        for c, f in zip(phis, inits, strict=True):
            b.env[c.id] = f(b)
        state = [start(b) for start, _, _ in steps]
        saved = b.coords.get(x.label), b.active.get(x.label)
        for it in range(-(-extent // chunk)):
            if scalar:
                b.coords[x.label] = np.array([it], np.int64)
            else:
                at = it * chunk + lanes
                b.coords[x.label] = at
                b.active[x.label] = None if (it + 1) * chunk <= extent else at < extent
            body(b)
            state = [step(b, s) for (_, step, _), s in zip(steps, state, strict=True)]
            new = [f(b) for f in nexts]  # all Phis change at once
            for c, v in zip(phis, new, strict=True):
                b.env[c.id] = v
        b.coords.pop(x.label, None)
        b.active.pop(x.label, None)
        if saved[0] is not None:
            b.coords[x.label], b.active[x.label] = saved[0], saved[1]
        for (_, _, finish), s, c in zip(steps, state, folds, strict=True):
            b.env[c.id] = finish(s)

    return go


def fold(k: Compiler, c: Carry, label: str) -> Steps:
    """Start, step and finish of a structured carry."""
    if c.op in ("ConLoop", "ConAccLoop"):
        return _contraction(k, c, label)
    return _reduction(k, c, label) if c.op == "RedLoop" else _generic(k, c, label)


def _contraction(k: Compiler, c: Carry, label: str) -> Steps:
    dims = k.lanes(c.dims)
    product = k.contraction(c, dims, label, None)
    zero = np.zeros((1, *k.sizes(dims)), NUMPY[c.dtype])
    init = k.full(c.inits[0], dims) if c.inits else None
    return (lambda b: init(b) if init else zero), (lambda b, s: S.binary("add", s, product(b), c.dtype)), (lambda s: s)


def _reduction(k: Compiler, c: Carry, label: str) -> Steps:
    fn, mode = c.attrs
    dims, scalar = k.lanes(c.dims), parameter(label) is None
    over = dims if scalar else (*dims, label)
    arg, live = k.full(c.args[0], over), k.active((label,), over)
    lanes = mode == "lanes" and not scalar
    identity = S.identity(fn, c.dtype)
    start = np.full((1, *k.sizes(over if lanes else dims)), identity, NUMPY[c.dtype])

    def step(b: Batch, s: Array) -> Array:
        v, act = arg(b), live(b)
        if lanes:
            v = v if act is None else np.where(act, v, identity)
        elif not scalar:
            v = k.reducer.reduce(fn, v, len(over), c.dtype, act)
        return S.combine(fn, s, v, c.dtype)

    def finish(s: Array) -> Array:
        return k.reducer.reduce(fn, s, len(over), c.dtype, None) if lanes else s

    return (lambda b: start), step, finish


def _generic(k: Compiler, c: Carry, label: str) -> Steps:
    region: Region = c.attrs[1]
    dims, scalar = k.lanes(c.dims), parameter(label) is None
    over = dims if scalar else (*dims, label)
    live, lanes = k.active((label,), over), c.attrs[0] == "lanes" and not scalar
    args = [k.full(a, over) for a in c.args]
    idents = [k.full(i, over if lanes else dims) for i in c.inits]
    wide = [k.full(i, over) for i in c.inits]

    def step(b: Batch, s: tuple[Array, ...]) -> tuple[Array, ...]:
        v, act = tuple(f(b) for f in args), live(b)
        if lanes and act is not None:
            v = tuple(np.where(act, x, f(b)) for x, f in zip(v, wide, strict=True))
        if not scalar and not lanes:
            v = k.reducer.reduce_n(region, v, [f(b) for f in wide], len(over), act, has_identity=True)
        return k.reducer.apply(region, s, v)

    def finish(s: tuple[Array, ...]) -> tuple[Array, ...]:
        return k.reducer.reduce_n(region, s, [], len(over), None, has_identity=False) if lanes else s

    return (lambda b: tuple(f(b) for f in idents)), step, finish
