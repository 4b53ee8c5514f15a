"""Productions of control: parallel points, ordered loops with carries and early exits, branches, at any nesting."""

from __future__ import annotations

from typing import Any

from eqkir.kir.values import Value
from tests.fuzz.state import ANY, FLOAT, INT, State, key, production, whole

DEEP = 3


def _deep(g: State) -> None:
    if g.depth >= DEEP:
        raise LookupError("deep enough")


@production(4, pure=False)
def parallel(g: State) -> None:
    """Points over one or two extents; each computes from its row and stores at its own place."""
    if not g.outer():
        raise LookupError("see `nested`")
    dims = [g.symbol(g.pick(("M", "N")))] + ([g.dim()] if g.chance(0.3) else [])
    k = g.k
    inner = g.dim()
    row = g.source(g.dtype((*FLOAT, "i32", "i64")), (*dims, inner))
    with k.parallel(*dims) as p:
        point = p if isinstance(p, tuple) else (p,)
        values = [row[(*point, slice(None))]]
        if g.chance(0.5):
            values.append(g.source(g.dtype((*FLOAT, "i32")), tuple(dims))[point])
        with g.scope(*values):
            _locals(g, g.rng.randrange(1, 4))
            for _ in range(g.pick((1, 1, 2))):
                _put(g, dims, point)


def _locals(g: State, n: int) -> None:
    """Values from what the innermost region sees."""
    kept = g.scopes
    g.scopes = [[v for s in kept[:-1] for v in s if v.rank == 0], kept[-1]]
    try:
        g.grow(n, pure=g.chance(0.6))
    finally:
        kept[-1] = g.scopes[-1]
        g.scopes = kept


def _put(g: State, dims: list[Any], point: tuple[Value, ...]) -> None:
    """Store a value of the region at the point."""
    pool = [v for v in g.scopes[-1] if v.rank + len(dims) <= 3 and g.plain(v.shape)] or [g.constant("f32")]
    x = g.pick(pool[-3:])
    if g.chance(0.15) and x.rank == 0 and x.dtype not in ("bool", "f8e4m3fn", "f8e5m2"):
        g.view("inout", x.dtype, tuple(dims)).scatter_reduce("add", point, x)
        return
    out = g.view("out", x.dtype, (*dims, *x.shape))
    out[(*point, *(slice(None),) * x.rank)] = x


@production(2, pure=False)
def nested(g: State) -> None:
    """Points inside points: an inner parallel, or a private buffer that an ordered loop fills."""
    if not g.outer():
        raise LookupError("no deeper")
    m, n = g.symbol("M"), g.dim()
    k = g.k
    dtype = g.dtype(("f32", "i32", "f64", "i64"))
    x = g.source(dtype, (m, n))
    out = g.view("out", dtype, (m, n))
    with k.parallel(m) as i, g.scope(i):
        match g.pick(("points", "buffer", "filled")):
            case "points":
                with k.parallel(n) as j:
                    out[i, j] = x[i, j] * 2 + g.constant(dtype)
            case "buffer":
                b = k.buffer(dtype, (n,), g.constant(dtype))
                b[:] = b[:] + x[i, :]
                out[i, :] = b.load((k.value(n) - 1 - k.indices(n),)) - x[i, :]
            case _:
                b = k.buffer(dtype, (n,))
                with k.for_(n) as loop:
                    b[loop.i] = x[i, loop.i] + loop.i.cast(dtype)
                    loop.yield_()
                out[i, :] = b[:]


def _body(g: State, carried: tuple[Value, ...], n: int, pure: bool) -> list[Value]:
    """New carries of the types of `carried`, from the region's values."""
    g.grow(n, pure=pure)
    out = []
    for c in carried:
        fits = [v for v in g.scopes[-1] if v.dtype == c.dtype and [*map(key, v.shape)] == [*map(key, c.shape)]]
        x = g.pick(fits[-4:])
        if x.id == c.id and c.dtype != "bool":
            x = c + g.like(c)
            if [*map(key, x.shape)] != [*map(key, c.shape)]:
                x = c
        out.append(x)
    return out


def _inits(g: State) -> list[Value]:
    """Initial carries: scalars, or tensors that are carried element by element."""
    scalars = g.chance(0.6)
    dtypes = [g.dtype(("f32", "i32", "i64", "f64", "bool")) for _ in range(g.pick((1, 1, 2)))]
    if scalars:
        return [g.constant(d) for d in dtypes]
    shape = g.shape(1, 2)
    return [g.load(d, shape) for d in dtypes]


@production(4, pure=False)
def ordered(g: State) -> list[Value]:
    """A `for` with carries: a recurrence over the elements of a view, perhaps left early."""
    _deep(g)
    k = g.k
    d = g.symbol(g.pick(("M", "N")))
    inits = _inits(g)
    source = g.source(inits[0].dtype, (d, *inits[0].shape)) if g.plain(inits[0].shape) and inits[0].rank < 3 else None
    span = k.domain(0, d) if g.chance(0.7) else k.domain(0, d, 2)
    with k.for_(span, *inits) as loop, g.scope(*loop.carried):
        if source is not None:
            g.add(source[(loop.i, *(slice(None),) * inits[0].rank)])
        if g.chance(0.3):
            g.add(loop.i.cast(inits[0].dtype) if inits[0].dtype != "bool" else loop.i % 2 == 0)
        if g.chance(0.35):
            leave(g, loop)
        new = _body(g, loop.carried, g.pick((1, 2)), g.chance(0.8))
        if g.chance(0.2):
            leave(g, loop)
        loop.yield_(*new)
    return list(loop.results)


def leave(g: State, loop: Any) -> None:
    """A break or a continue under a scalar condition."""
    scalars = [v for v in g.scopes[-1] if v.rank == 0]
    x = g.pick(scalars) if scalars else loop.i
    c = x if x.dtype == "bool" else g.k.binary(g.pick(("gt", "lt", "eq")), x, g.k.const(g.pick((0, 1, 3)), x.dtype))
    (loop.break_if if g.chance(0.5) else loop.continue_if)(c)


@production(3, pure=False)
def until(g: State) -> list[Value]:
    """A `while` that counts down, and ends earlier where a condition on its carries says so."""
    _deep(g)
    k = g.k
    start = k.const(g.pick((0, 1, 3, 6)), "i32") if g.chance(0.5) else (whole(g.value((*INT, *FLOAT), 0, 0), "i32") & 7)
    inits = [v for v in _inits(g) if v.rank == 0][:1] or [g.constant("f32")]
    with k.while_(start, *inits) as loop:
        count, x = loop.carried
        go = count > 0
        if x.dtype != "bool" and g.chance(0.4):
            go = go & (x < 50)
        count, x = loop.test(go)
        with g.scope(x):
            if g.chance(0.2):  # not a `continue`, which would keep the count
                loop.break_if(count == 2, count, x)
            (new,) = _body(g, (x,), g.pick((1, 2)), True)
            loop.yield_(count - 1, new)
    return list(loop.results)[g.pick((0, 1)) :]


@production(2, pure=False)
def collatz(g: State) -> Value:
    """A `while` a parallel point, with as many steps as its data say."""
    if not g.outer():
        raise LookupError("points stand outside")
    k, m = g.k, g.symbol("M")
    x = g.source("i32", (m,))
    out = g.view("out", "i32", (m,))
    with k.parallel(m) as i:
        with k.while_((x[i] & 15) + 1, k.const(0, "i32")) as loop:
            v, n = loop.test(loop.carried[0] > 1)
            loop.yield_(k.where(v % 2 == 0, v // 2, v - 1) if g.chance(0.5) else v >> 1, n + 1)
        out[i] = loop.results[1]
    return g.constant("i32")


@production(3, pure=False)
def branch(g: State) -> list[Value]:
    """An `if` on a scalar, whose regions compute values of one type."""
    _deep(g)
    k = g.k
    x = g.value((*FLOAT, *INT), 0, 2)
    c = g.take(lambda v: v.rank == 0 and v.dtype == "bool")
    if c is None:
        s = g.take(lambda v: v.rank == 0 and v.dtype in (*FLOAT, *INT))
        c = k.binary(g.pick(("lt", "ge")), s, g.constant(s.dtype)) if s is not None else g.load("bool", ())
    with k.if_(c) as b, g.scope(x):
        b.yield_(*_body(g, (x,), 1, True))
    with b.otherwise(), g.scope(x):
        b.yield_(*_body(g, (x,), 1, True))
    return list(b.results)


@production(2, pure=False)
def guarded_store(g: State) -> None:
    """Stores under an `if` in parallel points."""
    if not g.outer():
        raise LookupError("points stand outside")
    k, m = g.k, g.symbol("M")
    x = g.source(g.dtype(("f32", "i32")), (m,))
    out = g.view("out" if g.chance(0.5) else "inout", x.dtype, (m,))
    with k.parallel(m) as i:
        v = x[i]
        with k.if_(v > g.k.const(0, x.dtype)) as b:
            out[i] = v * 2
            b.yield_()
        if g.chance(0.5):
            with b.otherwise():
                out[i] = -v
                b.yield_()


@production(2, pure=False)
def stored_in_order(g: State) -> None:
    """An ordered loop that stores what it carries, step by step."""
    if not g.outer():
        raise LookupError("stores stand outside")
    k, m = g.k, g.symbol("M")
    x = g.source(g.dtype(("f32", "i32", "i64")), (m,))
    out = g.view("out", x.dtype, (m,))
    with k.for_(m, g.constant(x.dtype)) as loop:
        t = k.binary(g.pick(("add", "sub", "maximum")), loop.carried[0], x[loop.i])
        if g.chance(0.3):
            loop.break_if(t > k.const(100, x.dtype), t)
        out[loop.i] = t
        loop.yield_(t)


@production(1, pure=False)
def relaxation(g: State) -> None:
    """An ordered loop that reads what its last step wrote in the same view."""
    if not g.outer():
        raise LookupError("stores stand outside")
    k, m = g.k, g.symbol("M")
    x = g.view("inout", g.pick(("f32", "i32")), (m,))
    g.updated.add(x.id)
    with k.for_(k.domain(1, m)) as loop:
        x[loop.i] = x[loop.i] + x[loop.i - 1]
        loop.yield_()


@production(1)
def any_value(g: State) -> Value:
    """A load of anything."""
    return g.load(g.dtype(ANY), g.shape())
