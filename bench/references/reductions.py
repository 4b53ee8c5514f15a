"""Reductions, scans and selection: workloads 12 to 18 and 47."""

from __future__ import annotations

import math
from typing import Any

from references.core import Judge, Out, Sizes, Views, accumulated, formula, total, wrapped

AXES = {"outer": 0, "middle": 1, "inner": 2}


def reduction(fn: str, axis: int) -> Any:
    def call(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
        x = v["X"]
        n = x.shape[axis]
        if fn == "sum":
            return {"Y": total(xp, x, axis)}
        if fn == "mean":
            t = total(xp, x, axis)
            return {"Y": Out(t.value / max(n, 1), t.scale / max(n, 1), n)} if n else {"Y": Out(t.value * math.nan)}
        if fn == "max":
            return {"Y": Out(xp.amax(x, axis), n=0)}
        if fn == "prod":
            return {"Y": Out(xp.prod(x, axis), n=n)}
        if fn == "any":
            return {"Y": xp.any(x != 0.0, axis)}
        return {"Y": (xp.argmax if fn == "argmax" else xp.argmin)(x, axis)}

    return call


for _fn in ("sum", "mean", "max", "prod", "any"):
    for _where, _axis in AXES.items():
        formula(f"{_fn}_{_where}_f32")(reduction(_fn, _axis))
for _fn, _where in (("argmax", "inner"), ("argmax", "middle"), ("argmin", "inner"), ("argmin", "outer")):
    formula(f"{_fn}_{_where}_f32")(reduction(_fn, AXES[_where]))


@formula("min_index_inner_f32")
def min_index(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(xp.amin(v["X"], 2), n=0), "I": xp.argmin(v["X"], 2)}


@formula("global_max_pool_f32")
def global_max_pool(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(xp.amax(xp.amax(v["X"], 3), 2), n=0)}


@formula("variance_f32")
def variance(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x, n = v["X"], s["N"]
    m, size = xp.sum(x, 1) / n, xp.sum(abs(x), 1) / n
    y = xp.sum((x - m[:, None]) * (x - m[:, None]), 1) / n
    return {"Y": Out(y, 2.0 * y + size * size, n), "U": Out(m, size, n)}


# ------------------------------------------------------------------------------------------------ scans
def running(xp: Any, x: Any, exclusive: bool = False, reverse: bool = False) -> Any:
    """Sums of the last axis so far."""
    if reverse:
        return xp.flip(running(xp, xp.flip(x, x.ndim - 1), exclusive), x.ndim - 1)
    y = xp.cumsum(x, x.ndim - 1)
    return y - x if exclusive else y


def scan(exclusive: bool = False, reverse: bool = False) -> Any:
    def call(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
        x = v["X"]
        return {"Y": Out(running(xp, x, exclusive, reverse), running(xp, abs(x), exclusive, reverse), s["N"])}

    return call


formula("cumsum_f32")(scan())
formula("cumsum_exclusive_f32")(scan(exclusive=True))
formula("cumsum_reverse_f32")(scan(reverse=True))


@formula("cummax_f32")
def cummax(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(xp.cummax(v["X"], 1), n=0)}


@formula("linear_recurrence_f32")
def linear_recurrence(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    b, t, c = v["X"].shape
    h = size = xp.full((b, c), 0.0)
    values, sizes = [], []
    for i in range(t):
        h, size = v["A"][:, i] * h + v["X"][:, i], abs(v["A"][:, i]) * size + abs(v["X"][:, i])
        values.append(h)
        sizes.append(size)
    return {"Y": Out(xp.stack(values, 1), xp.stack(sizes, 1), t) if values else Out(v["X"])}


def restarting(xp: Any, x: Any, begins: Any) -> Any:
    """Running sums of the last axis that restart where `begins` is set."""
    n = x.shape[-1]
    if not n:
        return x
    sums = xp.cumsum(x, x.ndim - 1)
    first = xp.cummax(xp.where(begins, xp.arange(n), -1), x.ndim - 1)
    at = xp.where(first < 0, 0, first)
    before = xp.take_along(sums, at, x.ndim - 1) - xp.take_along(x, at, x.ndim - 1)
    return xp.where(first < 0, sums, sums - before)


@formula("segmented_scan_rows_f32")
def segmented_scan_rows(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(restarting(xp, v["X"], v["F"]), restarting(xp, abs(v["X"]), v["F"]), s["N"])}


def begins(xp: Any, keys: Any) -> Any:
    """Where a key differs from the one before it, in row-major order."""
    flat = keys.reshape(-1)
    first = xp.full((1,), True, "bool")[: flat.shape[0]]
    return xp.concat([first, flat[1:] != flat[:-1]], 0).reshape(keys.shape)


@formula("segmented_parts_i32")
def segmented_parts(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    starts = begins(xp, v["K"])
    y = wrapped(xp, restarting(xp, v["X"], starts))
    return {"Y": y, "F": xp.any(starts, 1), "S": y[:, -1]}


@formula("segmented_carries_i32")
def segmented_carries(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    y = wrapped(xp, restarting(xp, v["S"], v["F"]))
    return {"C": xp.concat([xp.full((1,), 0, "i64"), y], 0)[: s["P"]]}


@formula("segmented_apply_i32")
def segmented_apply(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    begun = xp.cumsum(xp.i64(begins(xp, v["K"])), 1) > 0
    return {"Y": xp.where(begun, v["Y"], wrapped(xp, v["Y"] + v["C"][:, None]))}


@formula("scan_running_sum")
def scan_running_sum(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x, n = v["X"], s["N"]
    return {"Y": Out(running(xp, x), running(xp, abs(x)), n), "F": total(xp, x, 0)}


# ------------------------------------------------------------------------------------------------ selection
@formula("top_k_f32")
def top_k(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    values, at = xp.descending(v["X"], 1)
    return {"Y": Out(values[:, : s["K"]], n=0), "I": at[:, : s["K"]]}


@formula("bitonic_sort_rows_f32")
def bitonic_sort_rows(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    return {"Y": Out(xp.sort(v["X"], 1), n=0)}


@formula("nucleus_partials_f32")
def nucleus_partials(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    """How many are needed may differ where a running sum meets the mass up to its rounding; the sum must fit the count."""
    x, n, mass = v["X"], s["N"], s["mass"]
    sums = running(xp, x)
    before, bound = sums - x, accumulated(n, sums)
    least, most = xp.sum(xp.i64(before + bound < mass), 1), xp.sum(xp.i64(before - bound < mass), 1)

    def count(got: Views) -> Any:
        return xp.where((got["C"] >= least) & (got["C"] <= most), 0.0, math.inf)

    def size(got: Views) -> Any:
        c = got["C"]
        if not n:
            return abs(got["S"])
        at = xp.where((c >= 1) & (c <= n), c - 1, 0)[:, None]
        want, allowed = (xp.where(c >= 1, xp.take_along(a, at, 1)[:, 0], 0.0) for a in (sums, 2.0 * bound))
        return abs(got["S"] - want) / (allowed + 2.0**-23 * abs(want) + 2.0**-149)

    return {"C": Judge(count), "S": Judge(size)}


@formula("arg_reduce_rows")
def arg_reduce_rows(xp: Any, v: Views, s: Sizes) -> dict[str, Any]:
    x = v["X"]
    return {"Y": Out(xp.amax(x, 1), n=0), "I": xp.argmax(x, 1), "J": xp.argmin(x, 1)}
