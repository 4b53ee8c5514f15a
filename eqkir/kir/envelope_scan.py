"""Enclosures of scans and arg-reductions: every parenthesisation of every prefix, order kept (derivation: docs/numerics.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY, WIDENED
from eqkir.kir import elementwise, interval, interval_arithmetic, interval_reduce, interval_scan
from eqkir.kir.elementwise import NAME
from eqkir.kir.envelope_generic import Room, computed, hull, magnitude, room
from eqkir.kir.envelope_machine import Enveloper, rule
from eqkir.kir.interval import Num, at, both, exact, less, move, stacked
from eqkir.kir.machine import to_rank
from eqkir.kir.reference_scan import BUILTIN, empty_extreme, prefixes, scanned
from eqkir.kir.reference_structured import identity


@rule("scan")
def scan(m: Enveloper, op: Any) -> None:
    xs = [interval.plain(m.env[x]) for x in op.xs]
    n = xs[0].shape[op.axis + 1]
    if n == 0 or 0 in xs[0].shape:
        wide = [WIDENED.get(x.dtype, x.dtype) if op.fn == "cumsum" else x.dtype for x in xs]
        m.env.update({r: exact(np.zeros(x.shape, NUMPY[d])) for r, x, d in zip(op.results, xs, wide, strict=True)})
    elif op.combine is None:
        m.env[op.results[0]] = _builtin(op, xs[0])
    else:
        _generic(m, op, xs, n)


def _builtin(op: Any, x: Num) -> Num:
    acc = WIDENED.get(x.dtype, x.dtype) if op.fn == "cumsum" else x.dtype
    back = move(lambda a: np.moveaxis(a, op.axis + 1, -1)[..., :: -1 if op.reverse else 1], x)
    out = _prefixes(op.fn, back, acc)
    if op.exclusive:
        first = exact(np.broadcast_to(identity(BUILTIN[op.fn][0], acc), (*back.shape[:-1], 1)))
        out = stacked([first, move(lambda a: a[..., :-1], out)], -1)
    return move(lambda a: np.moveaxis(a[..., :: -1 if op.reverse else 1], -1, op.axis + 1), out)


def _prefixes(fn: str, x: Num, acc: str) -> Num:
    """Inclusive prefixes of the last axis."""
    if x.dtype not in FLOATS:
        ufunc = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}[fn]
        wide = elementwise.cast(x.lo, acc)
        v = ufunc.accumulate(wide, -1, dtype=wide.dtype)
        return Num(acc, v, v, None, None if x.amb is None else np.logical_or.accumulate(x.amb, -1))
    if fn == "cumsum":
        return interval_scan.cumsum(x, acc)
    n = x.shape[-1]
    if fn == "cumprod":
        steps = [interval_reduce.builtin("prod", at(x, (..., slice(k + 1))), acc) for k in range(n)]
    else:
        f = "maximum" if fn == "cummax" else "minimum"
        steps = prefixes(lambda a, b: interval_arithmetic.extremum(f, a, b), [at(x, (..., k)) for k in range(n)], "plain")
    return stacked([at(s, (..., None)) for s in steps], -1)


def _generic(m: Enveloper, op: Any, xs: list[Num], n: int) -> None:
    """The sequential tree, Sklansky's and chunks with a carry, with the reals enclosed; each prefix as a generic reduction."""
    batch = m.batch
    fronts = [move(lambda a: np.moveaxis(np.broadcast_to(a, (batch, *a.shape[1:])), op.axis + 1, 0), x) for x in xs]
    rest = fronts[0].shape[1:]
    count = int(np.prod(rest[1:], dtype=np.int64))
    flat = [move(lambda a: a.reshape(n, -1), f) for f in fronts]
    first = [move(lambda a: to_rank(a, rest).reshape(-1), m.env[i]) for i in op.identities] or None

    def state(order: str) -> list[list[Num]]:
        def inclusive(members: list[int]) -> list[list[Num]]:
            items = [[at(f, k) for f in flat] for k in members]
            return prefixes(lambda a, b: m.call(op.combine, [*a, *b]), items, order)

        return scanned(op, n, inclusive, first)

    with m.nested(count), interval.enclosing_reals():
        trees = [state(order) for order in ("pairwise", "plain", "reversed")]
    size = int(np.prod(rest, dtype=np.int64))
    ways = [[stacked([move(lambda a: np.broadcast_to(a, (size,))[None], s[c]) for s in t], 0) for t in trees] for c in range(len(flat))]
    spaces = _spaces(op, flat, ways)
    for c, r in enumerate(op.results):
        m.env[r] = move(lambda a: np.moveaxis(a.reshape(n, *rest), 0, op.axis + 1), hull(ways[c], spaces[c]))


def _spaces(op: Any, flat: list[Num], ways: list[list[Num]]) -> list[Room | None]:
    """The room of every prefix, by component: members before it (also the next one, for exclusive scans) and its states."""

    def running(x: Any, f: Any) -> Any:
        way = slice(None, None, -1 if op.reverse else 1)
        return f.accumulate(x[way], 0)[way]

    leaves = [magnitude(f) if f.dtype in FLOATS else None for f in flat]
    infinite = running(np.logical_or.reduce([v[1] for v in leaves if v is not None] or [np.zeros(flat[0].shape, bool)]), np.logical_or)
    n = flat[0].shape[0]
    count = np.arange(1, n + 1)[:: -1 if op.reverse else 1, None]
    out: list[Room | None] = []
    for leaf, by_rounding, way, x in zip(leaves, computed(op), ways, flat, strict=True):
        if leaf is None or not by_rounding:
            out.append(None)
            continue
        largest = np.maximum.reduce([running(leaf[0], np.maximum), *(running(magnitude(w)[0], np.maximum) for w in way)])
        out.append(room(x.dtype, count - bool(op.exclusive), largest, infinite))
    return out


# ------------------------------------------------------------------------------------------------ arg-reduction
@rule("arg_reduce")
def arg_reduce(m: Enveloper, op: Any) -> None:
    x = move(lambda a: np.moveaxis(a, op.axis + 1, -1), interval.plain(m.env[op.x]))
    if x.shape[-1] == 0:
        value, index = empty_extreme(op, x.dtype, x.shape[:-1])
        m.env.update({op.results[0]: exact(value), op.results[1]: exact(index)})
        return
    lo, hi = (x.lo, x.hi) if op.fn == "argmax" else (_flip(x.hi), _flip(x.lo))
    place = np.argmax(lo, -1)
    here = np.take_along_axis(lo, place[..., None], -1)
    before = np.arange(x.shape[-1]) < place[..., None]
    itself = np.arange(x.shape[-1]) == place[..., None]
    sure = np.all(np.where(before, hi < here, (hi <= here) | itself), -1)
    amb, nan = x.amb, x.nan
    unknown = ~sure if amb is None else ~sure | amb.any(-1)
    if nan is not None:  # the first NaN, unless an unknown element stands before it
        first = nan.argmax(-1)
        has = nan.any(-1)
        doubt = np.zeros(place.shape, bool) if amb is None else (amb & (np.arange(x.shape[-1]) < first[..., None])).any(-1)
        place, unknown = np.where(has, first, place), np.where(has, doubt, unknown)
    index = place.astype(NUMPY[op.dtype])
    m.env[op.results[1]] = Num(NAME[index.dtype], index, index, None, unknown if unknown.any() else None)
    m.env[op.results[0]] = _extreme(op, x, place, unknown)


def _flip(a: Any) -> Any:
    """An order-reversing map without overflow."""
    return -a if a.dtype.kind == "f" else ~a


def _extreme(op: Any, x: Num, place: Any, unknown: Any) -> Num:
    """The element at the index where that is certain, else the enclosure of the extreme."""
    chosen = move(lambda a: np.take_along_axis(a, place[..., None], -1)[..., 0], x)
    if not unknown.any():
        return chosen
    whole = interval_reduce.builtin("max" if op.fn == "argmax" else "min", x, x.dtype)
    lo, hi = np.where(unknown, whole.lo, chosen.lo), np.where(unknown, whole.hi, chosen.hi)
    none = np.zeros(lo.shape, bool)
    pairs = ((whole.nan, chosen.nan), (whole.amb, chosen.amb))
    nan, amb = (np.where(unknown, none if w is None else w, none if c is None else c) for w, c in pairs)
    return interval.settled(Num(x.dtype, lo, hi if x.dtype in FLOATS else lo, less(nan, amb), both(None, amb)))
