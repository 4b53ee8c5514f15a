"""Productions of folds over slices, ragged data, and parts of domains."""

from __future__ import annotations

from typing import Any

from eqkir.base.dtypes import bits
from eqkir.kir.refs import DomainRef, ViewRef
from eqkir.kir.values import Value
from tests.fuzz.state import FLOAT, State, finite, production
from tests.fuzz.structured import affine


@production(4, wishes=("sum", "extreme", "count", "soft"))
def region_fold(g: State) -> list[Value]:
    """Lawful folds: sums of functions, extremes, soft maxima, counts by coordinate, and affine maps, which do not commute."""
    k = g.k
    d = g.symbol(g.pick(("M", "N")))
    dtypes = ("f32", "f32", "f64", *(() if g.wish == "soft" else ("i32",)))
    x = g.load(g.pick(dtypes), (d,) if g.chance(0.5) else (d, g.pick((2, 3, g.symbol("K")))))
    rest = x.shape[1:]
    dtype = x.dtype
    floats = dtype in FLOAT

    def zero(v: Any) -> Value:
        return k.full(rest, v, dtype) if rest else k.const(v, dtype)

    kind = g.choose(("sum", "extreme", "count", "soft", "affine") if floats else ("sum", "extreme", "count", "affine"))
    shift = g.constant(dtype) if not floats else k.const(g.pick((0.5, 2.0)), dtype)
    if kind == "sum":
        used = g.chance(0.5)
        return list(k.region_fold(
            d, [x], [zero(-0.0 if floats else 0)], lambda s, p: (p * shift if used else p + shift).reduce("sum", 0).cast(dtype),
            lambda a, b: a[0] + b[0],
        ))  # fmt: skip
    if kind == "extreme":
        low = float("-inf") if floats else -(1 << 31)
        return list(k.region_fold(d, [x], [zero(low)], lambda s, p: p.reduce("max", 0), lambda a, b: a[0].maximum(b[0])))
    if kind == "count":

        def counted(s: Any, p: Value) -> Value:
            i = k.indices(s)
            i = i.reshape(i.shape[0], *(1,) * len(rest))
            return k.where((i % 3 == 1) & (p > shift), 1, k.const(0, "i64")).sum(axis=0)

        return list(k.region_fold(d, [x], [k.full(rest, 0, "i64") if rest else k.const(0, "i64")], counted, lambda a, b: a[0] + b[0]))
    if kind == "soft":
        y = finite(x, -50.0, 50.0)

        def summary(s: Any, p: Value) -> tuple[Value, Value]:
            m = p.max(axis=0)
            return m, (p - m).exp().sum(axis=0)

        def both(a: tuple[Value, ...], b: tuple[Value, ...]) -> tuple[Value, Value]:
            m = a[0].maximum(b[0])
            return m, a[1] * (a[0] - m).exp() + b[1] * (b[0] - m).exp()

        return list(k.region_fold(d, [y], [zero(-1e30), zero(0.0)], summary, both))
    a = finite(x, -1.0, 1.0) if floats else x
    b = finite(x, -50.0, 50.0) + 0.0 if floats else x ^ 5

    def maps(s: Any, p: Value, q: Value) -> tuple[Value, Value]:
        """The affine maps of a slice, composed: each addend meets the factors after it."""
        return p.reduce("prod", 0), (p.cumprod(0, True, True) * q).reduce("sum", 0).cast(dtype)

    return list(k.region_fold(d, [a, b], [zero(1), zero(0)], maps, affine))


@production(3, wishes=("sum", "product", "greatest", "least"))
def region_scan(g: State) -> list[Value]:
    """A running sum, a running extreme and a recurrence as scans over slices, with the state before each slice."""
    k = g.k
    d = g.symbol(g.pick(("M", "N")))
    x = g.load(g.pick(("f32", "i32", "f64", "i64")), (d,) if g.chance(0.6) else (d, g.pick((2, 3))))
    rest, dtype = x.shape[1:], x.dtype

    def state(v: Any) -> Value:
        return k.full(rest, v, dtype) if rest else k.const(v, dtype)

    start = state(g.pick((0, 1, 3)))
    kind = g.choose(("sum", "product", "greatest", "least"))
    if kind in ("greatest", "least"):
        low, high = (float("-inf"), float("inf")) if dtype in FLOAT else (-(1 << bits(dtype) - 1), (1 << bits(dtype) - 1) - 1)
        fn = "maximum" if kind == "greatest" else "minimum"
        outs, final = k.region_scan(
            d, [x], [state(low if kind == "greatest" else high)], [start], lambda s, p: p.reduce(fn[:3], 0),
            lambda a, b: k.binary(fn, a[0], b[0]), lambda t, s: k.binary(fn, t[0], s[0]),
            lambda s, p, st: k.binary(fn, p._scan(f"cum{fn[:3]}", 0, False, False), st[0]),
        )  # fmt: skip
        return [*outs, *final]
    if kind == "sum":
        outs, final = k.region_scan(
            d, [x], [state(-0.0 if dtype in FLOAT else 0)], [start], lambda s, p: p.reduce("sum", 0).cast(dtype),
            lambda a, b: a[0] + b[0], lambda t, s: t[0] + s[0],
            lambda s, p, st: p.cumsum(0).cast(dtype) + st[0],
        )  # fmt: skip
        return [*outs, *final]
    a = finite(x, -1.0, 1.0) if dtype in FLOAT else x
    outs, final = k.region_scan(
        d, [a], [state(1)], [start], lambda s, p: p.reduce("prod", 0), lambda a, b: a[0] * b[0], lambda t, s: t[0] * s[0],
        lambda s, p, st: p.cumprod(0) * st[0],
    )  # fmt: skip
    return [*outs, *final]


def _members(g: State, rows: DomainRef, offsets: ViewRef, i: Value) -> DomainRef:
    begin, end = offsets[offsets.assume_in_bounds(i, 0)], offsets[offsets.assume_in_bounds(i + 1, 0)]
    return rows[begin.cast("index") : end.cast("index")]


def _per_group(g: State, x: Value) -> Value:
    """A value of a group's members (axis 0) without that axis."""
    match g.pick(("sum", "max", "min", "arg", "scan", "soft")):
        case "arg":
            return g.k.arg_reduce("argmax", x, 0, "i32")[0]
        case "scan":
            return x.cumsum(0).max(axis=0)
        case "soft" if x.dtype in FLOAT:
            e = (x - x.max(axis=0, keepdims=True)).exp()
            return (e * x).sum(axis=0)
        case "max" | "min" as fn:
            return x.reduce(fn, 0)
    return x.sum(axis=0)


@production(4, pure=False)
def ragged(g: State) -> None:
    """Groups of members between loaded offsets: reductions and scans a group, maps over members, or rows that indices name."""
    if not g.outer():
        raise LookupError("points stand outside")
    k = g.k
    groups, bounds, n = g.symbol("G"), g.symbol("E"), g.symbol("N")
    offsets = g.view("in", g.pick(("i32", "i64")), (bounds,))
    wide = g.chance(0.5)
    dtype = g.dtype(("f32", "i32", "f64", "bf16"))
    inner: tuple[Any, ...] = (g.pick((2, 3, g.symbol("K"))),) if wide else ()
    x = g.source(dtype, (n, *inner))
    at = (slice(None),) * len(inner)
    rows = k.domain(n)
    kind = g.pick(("reduce", "reduce", "map", "indexed", "weighted", "ordered"))
    columns = g.view("in", "i32", (n,)) if kind == "indexed" else None
    out = g.view("inout" if kind == "map" else "out", dtype, (n, *inner) if kind == "map" else (groups, *inner))
    with k.parallel(groups) as i, g.scope():
        members = _members(g, rows, offsets, i)
        if kind == "ordered":
            zero = k.full(inner, 0, dtype) if inner else k.const(0, dtype)
            with k.for_(members, zero) as loop:
                loop.yield_(loop.carried[0] * k.const(2, dtype) + x[(loop.i, *at)])
            out[(i, *at)] = loop.result
            return
        if columns is not None:
            c = x.assume_in_bounds(columns[members].cast("index"), 0)
            v = x[(c[:, None], k.indices(inner[0]))] if inner else x[c]
        else:
            v = x[(members, *at)]
        if kind == "map":
            out[(members, *at)] = v - v.max(axis=0, keepdims=True)
            return
        if kind == "weighted":
            w = k.indices(members).cast(dtype) if dtype != "bf16" else k.indices(members).cast("f32").cast("bf16")
            v = v * (w[:, None] if inner else w)
        out[(i, *at)] = _per_group(g, v).cast(dtype)


@production(3, pure=False)
def parts(g: State) -> None:
    """Parts of a domain in absolute coordinates, cut by numbers or by a run-time scalar; one may be empty."""
    if not g.outer():
        raise LookupError("stores stand outside")
    k, n = g.k, g.symbol("N")
    x = g.source(g.dtype(("f32", "i32", "bf16")), (n,))
    out = g.view("out", x.dtype, (n,))
    d = k.domain(n)
    if g.chance(0.5):
        cut = k.scalar(f"s{len(k._params)}", g.pick(("i32", "i64")))
        at: Value = cut.cast("index").maximum(0).minimum(n)
    else:
        at = (k.value(n) // 2) if g.chance(0.5) else k.const(g.pick((0, 1, 2)), "index").minimum(n)
    left, right = d[0:at], d[at:n]
    out[left] = g.k.binary("add", x[left], k.indices(left).cast(x.dtype))
    out[right] = x[right] * 2
    if g.chance(0.5):
        total = g.view("out", "f32", ())
        total[()] = x[right].cast("f32").max(axis=0)
