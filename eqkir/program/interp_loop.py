"""Loops of the program interpreter: coordinates of each iteration, and what their carries do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from eqkir.base.diagnostics import fail, register
from eqkir.base.dtypes import NUMPY
from eqkir.program import interp_scalar as S
from eqkir.program.abi import member_labels, parameter, step_parameter
from eqkir.program.interp_clock import WHILE_STEPS
from eqkir.program.interp_memory import Array
from eqkir.program.interp_wide import compile_wide, wide
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Region, Store

if TYPE_CHECKING:
    from eqkir.program.interp_exec import Batch, Compiler

ENDLESS = register("EQK-INT-ENDLESS", "endless loop", "A while loop did not end within the steps that the interpreter allows.")
Start = Callable[["Batch"], Any]
Step = Callable[["Batch", Any], Any]
Finish = Callable[[Any], Any]
Steps = tuple[Start, Step, Finish]


def compile_loop(k: Compiler, x: Loop, where: str) -> Callable[[Batch], None]:
    """A loop over one axis; `Phi` values live in the body, other carries are folded beside it."""
    if x.cond >= 0:
        return compile_while(k, x, where)
    if wide(k, x):
        return compile_wide(k, x, where)
    p = step_parameter(x.label)
    extent, chunk = k.extent[x.axis], k.program.bindings[p] if p else 1
    scalar, members = parameter(x.label) is None, member_labels(x.label, k.program.axis)
    lanes = np.arange(chunk, dtype=np.int64).reshape(1, -1)
    phis = [c for c in x.carries if c.op == "Phi"]
    folds = [c for c in x.carries if c.op != "Phi"]
    inits = [k.full(c.inits[0], k.lanes(c.dims)) for c in phis]
    between = bounds(k, x, extent, chunk)
    for c in phis:
        k.define(c)
    effects = bool(x.ends) and stores(x.body)  # an instance has none in steps that its bounds exclude
    if effects:
        k.whiles.append((id(x), ()))
    body = k.block(x.body, f"{where}/body")
    if effects:
        k.whiles.pop()
    nexts = [k.full(c.args[0], k.lanes(c.dims)) for c in phis]
    steps = [fold(k, c, x.label) for c in folds]
    for c in x.carries:
        k.define(c)

    def go(b: Batch) -> None:
        for c, f in zip(phis, inits, strict=True):
            b.env[c.id] = f(b)
        state = [start(b) for start, _, _ in steps]
        saved = b.coords.get(x.label), b.active.get(x.label)
        first, end = between(b)
        every = first is None or (first.size == 1 and end is not None and end.size == 1)
        for it in range(0 if first is None else int(first.min()), -(-extent // chunk) if end is None else int(end.max())):
            if scalar:
                b.coords[x.label] = np.array([it * chunk], np.int64)
            for lanes_of in members if scalar else (x.label,):
                at = it * chunk + lanes
                b.coords[lanes_of] = at if parameter(lanes_of) else at[0]
                b.active[lanes_of] = None if (it + 1) * chunk <= extent else at < extent
            if effects:
                assert first is not None and end is not None
                b.running[id(x)] = (first <= it) & (it < end)
            body(b)
            after = [step(b, s) for (_, step, _), s in zip(steps, state, strict=True)]
            new = [f(b) for f in nexts]  # all Phis change at once
            if not every:  # instances whose bounds exclude this step keep their states
                assert first is not None and end is not None
                on = (first <= it) & (it < end)
                after = [kept(on, s, t) for s, t in zip(after, state, strict=True)]
                new = [kept(on, v, b.env[c.id]) for c, v in zip(phis, new, strict=True)]
            state = after
            for c, v in zip(phis, new, strict=True):
                b.env[c.id] = v
        b.coords.pop(x.label, None)
        b.active.pop(x.label, None)
        for member in members:
            b.coords.pop(member, None)
            b.active.pop(member, None)
        if saved[0] is not None:
            b.coords[x.label], b.active[x.label] = saved[0], saved[1]
        for (_, _, finish), s, c in zip(steps, state, folds, strict=True):
            b.env[c.id] = finish(s)

    return go


def stores(items: tuple[Item, ...]) -> bool:
    """Whether a block has effects."""
    return any(isinstance(i, Store) or (isinstance(i, Loop) and stores(i.body)) for i in items)


def bounds(k: Compiler, x: Loop, extent: int, chunk: int) -> Callable[[Batch], tuple[Array | None, Array | None]]:
    """The first step and the end of a loop with bounds for every instance of a batch; None, None for a loop without."""
    if not x.ends:
        return lambda b: (None, None)
    top = np.iinfo(np.int64).max
    dims = tuple(dict.fromkeys(d for i in x.ends for d in k.dims[i]))
    active, on = k.active(dims, dims), k.full(x.on, dims) if x.on >= 0 else None
    reads = [k.full(i, dims) if i >= 0 else None for i in (x.lo, x.hi)]

    def live(b: Batch) -> Array:
        """Which lanes count, of every instance."""
        every = np.ones((1, *k.sizes(dims)), np.bool_)
        found = active(b)
        every = every if found is None else every & found
        return every if on is None else every & on(b)

    def edge(b: Batch, n: int, default: int, count: Array) -> Array:
        read, pad = reads[n], (top, -top)[n]
        v = np.where(count, default if read is None else read(b), pad)
        return np.asarray((np.min, np.max)[n](v.reshape(len(v), -1), axis=1))

    def go(b: Batch) -> tuple[Array, Array]:
        count = live(b)
        first = np.clip(edge(b, 0, 0, count), 0, extent) // chunk
        return np.broadcast_arrays(first, -(-np.clip(edge(b, 1, extent, count), 0, extent) // chunk))  # type: ignore[return-value]

    return go


def kept(on: Array, new: Any, old: Any) -> Any:
    """`new` for the instances in `on`, `old` for the others."""
    if isinstance(new, tuple):
        return tuple(kept(on, n, o) for n, o in zip(new, old, strict=True))
    return np.where(on.reshape(-1, *(1,) * (new.ndim - 1)), new, old)


def compile_while(k: Compiler, x: Loop, where: str) -> Callable[[Batch], None]:
    """Steps while the condition holds: first what the condition needs, then, where it holds, the rest of the body.

    Raises EqkirError EQK-INT-ENDLESS (when run) after `WHILE_STEPS` steps.
    """
    key, dims = id(x), condition_dims(x)
    cond_dims = k.lanes(tuple(d for d in dims if d != x.label))
    inits = [k.full(c.inits[0], k.lanes(c.dims)) for c in x.carries]
    for c in x.carries:
        k.define(c)
    start, around = k.active(cond_dims, cond_dims), k.going(cond_dims)
    k.whiles.append((key, cond_dims))
    first = needed(x)
    runs = [(n in first, k.item(i, f"{where}/body/{n}")) for n, i in enumerate(x.body) if not isinstance(i, Barrier)]
    k.whiles.pop()
    cond = k.full(x.cond, cond_dims)
    nexts = [k.full(c.args[0], k.lanes(c.dims)) for c in x.carries]
    masks = [k.aligned(cond_dims, k.lanes(c.dims)) for c in x.carries]

    def go(b: Batch) -> None:
        for c, f in zip(x.carries, inits, strict=True):
            b.env[c.id] = f(b)
        live, outer = start(b), around(b)
        if outer is not None:  # what has stopped around it does not start
            live = outer if live is None else live & outer
        b.running[key] = np.ones((1, *k.sizes(cond_dims)), np.bool_) if live is None else live
        for step in range(WHILE_STEPS):
            b.coords[x.label] = np.array([step], np.int64)
            for early, run in runs:
                if early:
                    run(b)
            b.running[key] = b.running[key] & cond(b)
            if not b.running[key].any():
                return
            for early, run in runs:
                if not early:
                    run(b)
            new = [np.where(m(b.running[key]), f(b), b.env[c.id]) for c, f, m in zip(x.carries, nexts, masks, strict=True)]
            for c, v in zip(x.carries, new, strict=True):
                b.env[c.id] = v
        raise fail(ENDLESS, f"a while loop goes on after {WHILE_STEPS} steps", where, stage="interpret")

    return go


def condition_dims(x: Loop) -> tuple[str, ...]:
    """Dimensions of the condition of a while loop."""
    return next(i.dims for i in (*x.body, *x.carries) if isinstance(i, (Let, Carry)) and i.id == x.cond)


def needed(x: Loop) -> set[int]:
    """Positions of the body's items that the condition depends on."""
    made = {i.id: n for n, i in enumerate(x.body) if isinstance(i, Let)}
    made.update({c.id: n for n, i in enumerate(x.body) if isinstance(i, Loop) for c in i.carries})
    out: set[int] = set()
    todo = [x.cond]
    while todo:
        n = made.get(todo.pop())
        if n is not None and n not in out:
            out.add(n)
            todo += reads(x.body[n])
    return out


def reads(i: Item) -> list[int]:
    """Values that an item reads (a loop: with its body)."""
    match i:
        case Let():
            return list(i.args)
        case Store():
            return [i.value, i.valid, *i.deps]
        case Loop():
            return [x for c in i.carries for x in (*c.args, *c.inits)] + [*i.ends] + [x for j in i.body for x in reads(j)]
    return []


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
