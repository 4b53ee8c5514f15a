"""Productions of records and helpers: values that are bundled, carried, passed and returned."""

from __future__ import annotations

from typing import Any

from eqkir.kir.builder import Builder, HelperRef, helper
from eqkir.kir.values import Value
from tests.fuzz.state import ANY, State, production


@production(2)
def record(g: State) -> list[Value]:
    """Through a record or a tuple, perhaps nested."""
    x, y = g.value(ANY), g.value(ANY)
    if g.chance(0.5):
        t = g.k.tuple_of(x, y)
        return [t[0], t[1]]
    r = g.k.record(first=x, rest=g.k.record(second=y, third=x))
    return [r["first"], r["rest"]["second"]]


@production(2, pure=False)
def carried_record(g: State) -> list[Value]:
    """A record as the carry of an ordered loop."""
    k, d = g.k, g.symbol("M")
    dtype = g.dtype(("f32", "i32", "f64"))
    x = g.source(dtype, (d,))
    start = k.record(total=k.const(0, dtype), count=k.const(0, "i32"))
    with k.for_(d, start) as loop:
        r = loop.carried[0]
        v = x[loop.i]
        loop.yield_(k.record(total=r["total"] + v, count=k.where(v > k.const(0, dtype), r["count"] + 1, r["count"])))
    return [loop.result["total"], loop.result["count"]]


@helper({"x": ("f32", ("A",)), "w": "f32"})
def scaled(k: Builder, x: Value, w: Value) -> Value:
    return x * w + x.max(axis=0)


@helper({"x": ("f32", ("A",))})
def spread(k: Builder, x: Value) -> Any:
    y = k.call(scaled, x, 0.5)
    return k.tuple_of(y, y.sum(axis=0))


@helper({"i": "index", "n": "index"})
def mirrored(k: Builder, i: Value, n: Value) -> Value:
    return n - 1 - i


@helper({"i": "index", "x": "f32"}, {"out": ("inout", "f32", ("A",))}, effect="effectful")
def put(k: Builder, i: Value, x: Value, out: Any) -> None:
    out[i] = out[i] + x


HELPERS: tuple[HelperRef, ...] = (scaled, spread, mirrored, put)


@production(2)
def call_pure(g: State) -> Value | list[Value]:
    x = g.value(("f32",), 1, 1)
    if g.chance(0.5):
        return g.k.call(scaled, x, g.pick((0.5, 2.0)))
    r = g.k.call(spread, x)
    return [r[0], r[1]]


@production(2, pure=False)
def call_effect(g: State) -> None:
    """A helper that stores, and one that computes coordinates."""
    if not g.outer():
        raise LookupError("points stand outside")
    k, m = g.k, g.symbol("M")
    x, out = g.source("f32", (m,)), g.view("inout", "f32", (m,))
    with k.parallel(m) as i:
        at = k.call(mirrored, i, k.value(m)) if g.chance(0.5) else i
        k.call(put, at, x[i], views=[out])
