"""Enclosures of atomics, scatters and histograms: sums in any order, old values where no order is stated (docs/numerics.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from eqkir.base.dtypes import FLOATS
from eqkir.kir import elementwise, interval, interval_reduce
from eqkir.kir import interval_arithmetic as arithmetic
from eqkir.kir import interval_decision as decision
from eqkir.kir.envelope_machine import Enveloper, rule
from eqkir.kir.envelope_memory import Target
from eqkir.kir.envelope_sums import add_in_any_order
from eqkir.kir.floats import Array
from eqkir.kir.interval import Num, at, both, exact, flags, known
from eqkir.kir.machine import to_rank
from eqkir.kir.memory import occurrences
from eqkir.kir.reference_atomics import FUNCTIONS, counted
from eqkir.kir.reference_ops import to_shape

#: how several points update an element: in one way, or in several, whose order matters
CONTESTED, MIXED = 1, 2
#: who has got an old value of an element, by whatever operation
OBSERVED = "atomic, observed"


def pointwise(fn: str, x: Num, y: Num) -> Num:
    """One update of exact contents, or one whose rounding no order changes."""
    if x.dtype in FLOATS:
        return arithmetic.add(x, y) if fn == "add" else arithmetic.extremum(FUNCTIONS[fn], x, y)
    if x.dtype == "bool":
        return decision.logic(fn, x, y)
    return decision.integer(FUNCTIONS.get(fn, fn), x, y)


def _meeting(m: Enveloper, t: Target, kind: str, observed: bool) -> tuple[Array, Array, Array]:
    """By element of an atomic operation: updated by several points, so in more than one way, and touched before by this parallel.

    What is found out too late (a point comes after the old values were handed out) makes another evaluation necessary. `observed`:
    the operation's results are used; the elements that it hands out are contested by later updates of other points, too.
    """
    alloc = t.r.allocation
    cells = t.access.cells()
    before = np.zeros(cells.shape, bool)
    for level in m.levels:
        for other, (_, high) in alloc.touched.get(level, {}).items():
            before |= (high[cells] >= 0) & (other not in ("atomic load", OBSERVED))
    m.note(t.r, t.access, f"atomic {kind}")
    if observed:
        m.note(t.r, t.access, OBSERVED)
    mark = np.zeros(cells.shape, np.int8)
    for level in m.levels:
        table = {k: v for k, v in alloc.touched[level].items() if k.startswith("atomic") and k != OBSERVED} if cells.size else {}
        if not table:
            continue
        low = np.minimum.reduce([v[0][cells] for v in table.values()])
        high = np.maximum.reduce([v[1][cells] for v in table.values()])
        updates = [k for k in table if k != "atomic load"]
        touching = np.sum([table[k][1][cells] >= 0 for k in updates], 0) if updates else np.zeros(cells.shape, int)
        shared = (low != high) & (touching > 0)
        seen = alloc.touched[level][OBSERVED][1][cells] >= 0 if OBSERVED in alloc.touched[level] else np.zeros(cells.shape, bool)
        mark = np.maximum(mark, np.where(shared & (touching > 1), MIXED, np.where(shared & seen, CONTESTED, 0)).astype(np.int8))
    table_ = m.contested.get(alloc.name, np.zeros(0, np.int8))
    if table_.size < alloc.size:
        table_ = np.concatenate([table_, np.zeros(alloc.size - table_.size, np.int8)])
    if bool((mark > table_[cells]).any()):
        m.grown = True
        np.maximum.at(table_, cells, mark)
    m.contested[alloc.name] = table_
    mark = table_[cells]
    return mark >= CONTESTED, mark == MIXED, before


def repeated(elements: Array) -> Array:
    """Which elements occur more than once."""
    _, inverse, count = np.unique(elements, return_inverse=True, return_counts=True)
    return np.asarray(count[inverse.reshape(-1)] > 1)


def _spread_back(t: Target, x: Num, zero: Num) -> Num:
    """Values of the valid elements at the access's shape; zero elsewhere."""
    if t.keep.all():
        return interval.move(lambda a: a.reshape(t.shape), x)
    out = at(zero, np.zeros(t.keep.size, np.int64))
    full = [a.copy() if a is not None else np.zeros(t.keep.size, bool) for a in (out.lo, out.hi, out.nan, out.amb)]
    for a, v in zip(full, (x.lo, x.hi, x.nan, x.amb), strict=True):
        a[t.keep.reshape(-1)] = False if v is None else v
    lo, hi, nan, amb = (a.reshape(t.shape) for a in full)
    return interval.settled(Num(x.dtype, lo, hi if x.dtype in FLOATS else lo, nan, amb))


def _unknown(x: Num, where: Array) -> Num:
    """Nothing is known of some elements."""
    amb = both(x.amb, where) if where.any() else x.amb
    return interval.settled(replace(x, amb=amb, nan=interval.less(x.nan, amb)))


def _old(m: Enveloper, t: Target, loose: Array) -> Num:
    """Old values as a result: unknown where the order decides, or whether the update happens."""
    contents = t.cells.num(t.r.dtype, t.index)
    out = _spread_back(t, _unknown(contents, loose | t.may), exact(np.zeros(1, t.r.memory.dtype)))
    if t.doubt is not None:
        out = _unknown(out, to_rank(t.doubt, t.shape))
    return out


@rule("atomic_load")
def atomic_load(m: Enveloper, op: Any) -> None:
    t = Target(m, op)
    m.memory.check_written(t.r, t.access)
    shared, _, _ = _meeting(m, t, "load", True)
    m.env[op.results[0]] = _old(m, t, shared)


def update(m: Enveloper, op: Any) -> None:
    """``atomic_FN`` but exchanges."""
    fn = op.op.removeprefix("atomic_")
    t = Target(m, op, "value")
    m.memory.check_written(t.r, t.access)
    shared, mixed, _ = _meeting(m, t, fn, m.uses(op))
    m.memory.mark_written(t.r, t.access, distinct=False)
    if op.results:
        m.env[op.results[0]] = _old(m, t, shared | repeated(t.index))
    accumulate(t, fn)
    t.cells.forget(t.index[mixed])
    t.scatter_lost()


for _name in ("add", "max", "min", "and", "or", "xor"):
    rule(f"atomic_{_name}")(update)


def accumulate(t: Target, fn: str) -> None:
    """Updates of one commuting kind, in any order."""
    dtype, value = t.r.dtype, t.values[0]
    if dtype in FLOATS and fn == "add":
        add_in_any_order(t.cells, dtype, t.index, value, t.may)
        return
    if dtype in FLOATS and fn == "mul":
        _multiply(t)
        return
    for g in occurrences(t.index):
        old = t.cells.num(dtype, t.index[g])
        new = pointwise(fn, old, at(value, g))
        t.cells.put(t.index[g], _either(new, old, t.may[g]))


def _either(new: Num, old: Num, may: Array) -> Num:
    if not may.any():
        return interval.plain(new)
    yes = np.ones(new.shape, bool)
    return decision.select(Num("bool", yes, yes, None, may), new, old)


def _multiply(t: Target) -> None:
    """Each element times all its factors, in any tree."""
    groups = occurrences(t.index)
    if not groups:
        return
    where = np.full(t.cells.lo.size, 0, np.int64)
    where[t.index[groups[0]]] = np.arange(len(groups[0]))
    first = t.index[groups[0]]
    factors = [t.cells.num(t.r.dtype, first)]
    one = at(exact(np.ones(1, t.r.memory.dtype)), np.zeros(len(first), np.int64))
    for g in groups:
        rows = where[t.index[g]]
        given = _either(at(t.values[0], g), at(one, rows), t.may[g])
        column = [a.copy() if a is not None else np.zeros(len(first), bool) for a in (one.lo, one.hi, None, None)]
        for a, v in zip(column, (given.lo, given.hi, given.nan, given.amb), strict=True):
            a[rows] = False if v is None else v
        factors.append(Num(t.r.dtype, column[0], column[1], column[2], column[3]))
    whole = interval.stacked([at(f, (..., None)) for f in factors], -1)
    t.cells.put(first, interval_reduce.builtin("prod", interval.settled(whole), t.r.dtype))


# ------------------------------------------------------------------------------------------------ exchanges
def exchange(m: Enveloper, op: Any) -> None:
    """``atomic_exchange`` and ``atomic_store``: any of the values may be the last one."""
    t = Target(m, op, "value")
    if op.op == "atomic_exchange":
        m.memory.check_written(t.r, t.access)
    shared, mixed, before = _meeting(m, t, "exchange", True)
    m.memory.mark_written(t.r, t.access, distinct=False)
    if op.results:
        m.env[op.results[0]] = _old(m, t, shared | repeated(t.index))
    stays = t.may | (shared & before)  # what was there may come last
    for k, g in enumerate(occurrences(t.index)):
        old = t.cells.num(t.r.dtype, t.index[g])
        t.cells.put(t.index[g], _either(at(t.values[0], g), old, stays[g] if k == 0 else np.ones(len(g), bool)))
    t.cells.forget(t.index[mixed])
    t.scatter_lost()


rule("atomic_exchange")(exchange)
rule("atomic_store")(exchange)


def _equal_bits(x: Num, y: Num) -> Num:
    if x.dtype not in FLOATS:
        return decision.compare("eq", x, y)
    sure = known(x) & known(y)
    same = sure & (x.lo == y.lo) & (np.signbit(x.lo) == np.signbit(y.lo))
    apart = (x.hi < y.lo) | (y.hi < x.lo) | (sure & ~same)
    for n in (x.nan, y.nan, x.amb, y.amb):
        apart = apart if n is None else apart & ~n
    return Num("bool", same, same, None, ~(same | apart) if (~(same | apart)).any() else None)


@rule("atomic_compare_exchange")
def compare_exchange(m: Enveloper, op: Any) -> None:
    t = Target(m, op, "expected", "value")
    m.memory.check_written(t.r, t.access)
    shared, _, _ = _meeting(m, t, "compare_exchange", True)
    m.memory.mark_written(t.r, t.access, distinct=False)
    loose = shared | repeated(t.index)
    old, (expected, value) = t.cells.num(t.r.dtype, t.index), t.values
    success = _equal_bits(old, expected)
    m.env[op.results[0]] = _old(m, t, loose)
    m.env[op.results[1]] = _spread_back(t, _unknown(success, loose | t.may), exact(np.zeros(1, bool)))
    if t.doubt is not None:
        m.env[op.results[1]] = m.blurred(m.env[op.results[1]])
    new = decision.select(success, value, old)
    keep = ~loose
    t.cells.put(t.index[keep], _either(at(new, keep), at(old, keep), t.may[keep]))
    t.cells.forget(t.index[loose])
    t.scatter_lost()


# ------------------------------------------------------------------------------------------------ scatters and histograms
@rule("scatter_reduce")
def scatter_reduce(m: Enveloper, op: Any) -> None:
    t = Target(m, op, "value")
    m.memory.check_written(t.r, t.access)
    m.note(t.r, t.access, f"reduce {op.fn}")
    m.memory.mark_written(t.r, t.access, distinct=False)
    accumulate(t, op.fn)
    t.scatter_lost()


@rule("histogram")
def histogram(m: Enveloper, op: Any) -> None:
    x, bins = m.env[op.x], m.shape([op.bins])[0]
    valid = interval.move(lambda a: to_shape(a, x.shape[1:]), m.env[op.valid]) if op.valid else None
    ok = None if valid is None else valid.lo
    lost = np.zeros(1, bool)
    doubt = both(x.amb, None if valid is None else valid.amb)
    if doubt is not None:
        ok = ~doubt if ok is None else ok & ~doubt
    counts = counted(x.lo, ok, bins, op.dtype)
    amb = np.zeros(counts.shape, bool)
    if valid is not None and valid.amb is not None:  # this bin may have one more
        there = np.broadcast_to(valid.amb & ~flags(x.amb), np.broadcast_shapes(x.shape, valid.shape))
        there = there & (x.lo >= 0) & (x.lo < bins)
        amb = counted(x.lo, there, bins, "i64") > 0
    if x.amb is not None:
        happens = x.amb if valid is None else x.amb & (valid.lo | (False if valid.amb is None else valid.amb))
        lost = happens.reshape(happens.shape[0], -1).any(-1)
    amb = amb | lost.reshape(-1, 1)
    value = elementwise.cast(counts, op.dtype)
    m.env[op.results[0]] = Num(op.dtype if op.dtype != "index" else "i64", value, value, None, amb if amb.any() else None)
