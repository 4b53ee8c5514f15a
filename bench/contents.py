"""Contents of views: what is read, made on the device, and the poison in what is written.

An entry of a workload's ``data`` says what a view holds where normal floats, integers -100 .. 100 (u8: all, u32: all) and fair bools
will not do:

    {"offsets": n}        nondecreasing, from 0 to n: bounds of groups of any lengths
    {"jittered": n}       the same with lengths between 0.1 and 1.9 times the mean
    {"below": n}          0 .. n - 1             {"upto": n}   0 .. n             {"around": n}   -1 .. n
    {"constant": n}       n everywhere            {"bounds": [0, …]}   these numbers
    {"permuted": n}       0 .. n - 1 in some order, in the view's shape
    {"distinct": n}       0 .. n - 1 in some order, a tenth replaced by -1
    {"range": [a, b]}     integers a .. b
    {"uniform": [a, b]}   floats                 {"signed": [a, b]}   the same with either sign
    {"falling": d}        running sums along the last axis of numbers in [-d, 0]
    {"places": 4}         two increasing places of four, along the last axis of two
    {"places_of": X}      exclusive sums over the rows of X of the number of nonzero elements
    {"probabilities": …}  rows of positive numbers with sum 1, descending
    {"matrix": kind}      "positive": symmetric positive definite; "lower": triangular, well conditioned
    {"records": format}   q4_K or q8_K records

n is a number, a symbol or ["mul", n, n].
"""

from __future__ import annotations

import math
from typing import Any

Sizes = dict[str, Any]


def extent(e: Any, sizes: Sizes) -> int:
    """The number that an extent stands for."""
    if isinstance(e, list):
        if e[0] != "mul":
            raise ValueError(f"unknown extent {e}")
        return math.prod(extent(x, sizes) for x in e[1:])
    return int(sizes[e]) if isinstance(e, str) else int(e)


def shape(view: dict[str, Any], sizes: Sizes) -> tuple[int, ...]:
    return tuple(extent(e, sizes) for e in view["shape"])


def arguments(xp: Any, views: dict[str, Any], data: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    """Arrays of all views in storage dtypes: contents where they are read, poison where they are only written. What depends on another
    view's contents comes last."""
    out: dict[str, Any] = {}
    for name, view in sorted(views.items(), key=lambda item: "places_of" in data.get(item[0], {})):
        if view["role"] == "out":
            out[name] = poison(xp, view, sizes)
        elif name in data:
            ((kind, what),) = data[name].items()
            out[name] = xp.narrow(special(xp, kind, what, shape(view, sizes), sizes, out), view["dtype"])
        else:
            out[name] = plain(xp, view["dtype"], shape(view, sizes))
    return out


def poison(xp: Any, view: dict[str, Any], sizes: Sizes) -> Any:
    """Contents that nobody has written: NaN, a conspicuous integer, or every second bool."""
    at, dtype = shape(view, sizes), view["dtype"]
    if dtype == "bool":
        return (xp.arange(math.prod(at)) % 2 == 0).reshape(at)
    if "f" in dtype:
        return xp.narrow(xp.full(at, math.nan, "f32"), dtype) if dtype.startswith("f8") else xp.full(at, math.nan, dtype)
    return xp.full(at, 0x5A, dtype)


def plain(xp: Any, dtype: str, at: tuple[int, ...]) -> Any:
    if "f" in dtype:
        return xp.normal(at, dtype)
    if dtype == "bool":
        return xp.integers(at, 0, 1) == 1
    low, high = {"u8": (0, 255), "u16": (0, 65535), "u32": (0, 2**32 - 1), "u64": (0, 2**62)}.get(dtype, (-100, 100))
    return xp.narrow(xp.integers(at, low, high), dtype)


def special(xp: Any, kind: str, what: Any, at: tuple[int, ...], sizes: Sizes, made: dict[str, Any]) -> Any:
    """Wide contents of one kind. Raises ValueError for one that is not listed above."""
    n = extent(what, sizes) if kind in ("offsets", "jittered", "below", "upto", "around", "constant", "distinct", "permuted") else 0
    if kind in ("offsets", "jittered"):
        groups = at[0] - 1
        if groups < 1:
            return xp.full(at, 0, "i64")
        if kind == "offsets":
            inner = xp.sort(xp.integers((groups - 1,), 0, n), 0)
        else:
            inner = xp.i64((xp.f64(xp.arange(groups - 1)) + 1.0 + 0.9 * (xp.f64(xp.uniform((groups - 1,), -0.5, 0.5)))) * (n / groups))
        return xp.concat([xp.full((1,), 0, "i64"), xp.i64(inner), xp.full((1,), n, "i64")], 0)
    match kind:
        case "below":
            return xp.integers(at, 0, max(n - 1, 0))
        case "upto":
            return xp.integers(at, 0, n)
        case "around":
            return xp.integers(at, -1, n)
        case "constant":
            return xp.full(at, n, "i64")
        case "bounds":
            return xp.asarray(what)
        case "permuted":
            return xp.permutation(n).reshape(at)
        case "distinct":
            return xp.where(xp.uniform((n,), 0.0, 1.0) < 0.1, -1, xp.permutation(n))
        case "range":
            return xp.integers(at, what[0], what[1])
        case "uniform":
            return xp.uniform(at, what[0], what[1])
        case "signed":
            return xp.uniform(at, what[0], what[1]) * xp.f32(2 * xp.integers(at, 0, 1) - 1)
        case "falling":
            return xp.cumsum(xp.uniform(at, -what, 0.0), len(at) - 1)
        case "places":
            pairs = xp.asarray([[a, b] for a in range(what) for b in range(a + 1, what)])
            return pairs[xp.i64(xp.integers(at[:-1], 0, len(pairs) - 1))]
        case "places_of":
            counts = xp.sum(xp.i64(xp.wide(made[what]) != 0), 1)
            return xp.cumsum(counts, 0) - counts
        case "probabilities":
            x = xp.flip(xp.sort(xp.uniform(at, 0.01, 1.0), 1), 1)
            return x / xp.sum(x, 1, True)
        case "matrix":
            x, i = xp.f64(xp.normal(at, "f32")), xp.arange(at[-1])
            wide = xp.where(i == i[:, None], float(at[-1]), 0.0)
            return (xp.einsum("bij,bkj->bik", x, x) if what == "positive" else xp.where(i <= i[:, None], x, 0.0)) + wide
        case "records":
            return q4_k(xp, at) if what == "q4_K" else q8_k(xp, at)
    raise ValueError(f"unknown contents {kind}")


def q4_k(xp: Any, at: tuple[int, ...]) -> Any:
    """Random scales, minima and nibbles under moderate f16 factors."""
    lead = at[:-1]
    factors = xp.octets(xp.uniform((*lead, 2), 0.001, 0.05), "f16").reshape(*lead, 4)
    return xp.concat([factors, xp.i64(xp.integers((*lead, at[-1] - 4), 0, 255))], -1)


def q8_k(xp: Any, at: tuple[int, ...]) -> Any:
    """Records with consistent sums of sixteen."""
    lead = at[:-1]
    q = xp.i64(xp.integers((*lead, 256), -127, 127))
    sums = xp.sum(q.reshape(*lead, 16, 16), len(lead) + 1)
    scale = xp.octets(xp.uniform(lead, 0.001, 0.1), "f32")
    return xp.concat([scale, xp.octets(q, "i8").reshape(*lead, 256), xp.octets(sums, "i16").reshape(*lead, 32)], -1)
