"""The error envelope: the one place where numerical tolerances are derived (docs/numerics.md).

A second evaluation of a kernel computes, for every element of every view, an interval that holds what *any* legal KIR
implementation stores there: every tree of every reduction, every permitted fusing, every value within the accuracy limits of
the functions. Nothing is tuned per kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.kir import binding, envelope_atomics, envelope_formats, envelope_memory, envelope_ops, envelope_regions, envelope_scan
from eqkir.kir.binding import bind
from eqkir.kir.envelope_machine import Enveloper, rule
from eqkir.kir.floats import Array
from eqkir.kir.memory import ViewArg
from eqkir.kir.model import Kernel
from eqkir.kir.reference_codes import Trap

#: importing them registers their rules
EVALUATORS = (envelope_atomics, envelope_formats, envelope_memory, envelope_ops, envelope_regions, envelope_scan)


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """What a view may hold after the kernel; all arrays have the view's logical shape.

    `lo` and `hi` enclose every legal value, NaN where NaN is certain (f64; integers and bools in their own dtype); `value` ± `bound` is
    the same as midpoint and radius. `ambiguous`: nothing is known. `written`: the kernel stores the element; others keep their contents.
    """

    dtype: str
    value: Array
    bound: Array
    ambiguous: Array
    written: Array
    lo: Array
    hi: Array


@dataclass(frozen=True, slots=True)
class Comparison:
    """Verdict: `worst` is the largest |error| / bound of finite elements (inf on a mismatch), `excluded` counts ambiguous ones."""

    ok: bool
    worst: float
    mismatches: int
    excluded: int
    elements: int
    first: str = ""


def result(m: Enveloper, view: str) -> Envelope:
    """The envelope of one view."""
    arg, r = m.binding.views[view], m.memory.views[view]
    dtype = r.dtype
    index = np.full(arg.shape, arg.offset, np.int64)
    for k, s in enumerate(arg.strides):
        index += (np.arange(arg.shape[k]) * s).reshape(-1, *[1] * (len(arg.shape) - k - 1))
    cells, at = m.locate_cells(r)
    lo, hi, nan, amb = (a[index + at] for a in (cells.lo, cells.hi, cells.nan, cells.amb))
    written = r.allocation.written[index + r.origin]
    if dtype not in FLOATS:
        return Envelope(dtype, lo, np.zeros(lo.shape), amb, written, lo, lo)
    with np.errstate(all="ignore"):  # ends may be infinite
        mid = np.where(lo == hi, lo, np.where((lo == -np.inf) & (hi == np.inf), 0.0, lo / 2 + hi / 2))
        bound = np.where(lo == hi, 0.0, np.maximum(hi - mid, mid - lo))
    mid, lo, hi = (np.where(nan, np.nan, v) for v in (mid, lo, hi))
    return Envelope(dtype, mid, np.where(nan, 0.0, bound), amb, written, lo, hi)


def envelope(
    kernel: Kernel,
    args: Mapping[str, ViewArg | Any],
    symbols: Mapping[str, int] | None = None,
    constexprs: Mapping[str, binding.Literal] | None = None,
    permit: Collection[str] = (),
) -> dict[str, Envelope]:
    """Enclosures of every ``out`` and ``inout`` view after `kernel` ran on `args`; the memory is not changed. `permit`: permissions of
    the compile call; ``zero_products`` makes results ambiguous in which a zero meets an infinity or NaN, ``relaxed_normalization``
    lets a narrowed operand of a contraction be off by one ulp.

    Raises EqkirError like `reference.run`; invalid input is diagnosed where it is certain, and ambiguous where it is possible.
    """
    bound = bind(kernel, args, symbols or {}, constexprs or {})
    m = Enveloper(bound, None, permit)
    m.start()
    while m.grown:  # points met at elements whose old values were taken for certain
        m = Enveloper(bound, m.contested, permit)
        m.start()
    return {k: result(m, k) for k, p in m.binding.params.items() if p.role != "in"}


def decided(e: Envelope) -> Array:
    """Where the enclosure tells the value: exactly (infinity and NaN too), or to less than its own magnitude."""
    if e.dtype not in FLOATS:
        return ~e.ambiguous
    with np.errstate(all="ignore"):
        near = np.isfinite(e.bound) & (2 * e.bound <= np.abs(e.value))
        out: Array = ~e.ambiguous & (np.isnan(e.lo) | (e.lo == e.hi) | near)
    return out


def compare(expected: Mapping[str, Envelope], actual: Mapping[str, Array | ViewArg]) -> Comparison:
    """Whether `actual` (arrays of the logical shapes and dtypes, or the views themselves) lies within the envelope.

    NaN must be NaN, infinities must be infinities where certain, zeros must have the sign where it is certain, integers and
    elements that the kernel does not store must be equal. Raises EQK-REF-ARGS on another shape, dtype or set of views.
    """
    if not set(expected) <= set(actual):
        raise binding.error("ARGS", f"expected {sorted(expected)}, got {sorted(actual)}")
    worst, mismatches, excluded, elements, first = 0.0, 0, 0, 0, ""
    for name, e in expected.items():
        given = actual[name]
        a = given.array() if isinstance(given, ViewArg) else given
        if a.shape != e.value.shape or a.dtype != NUMPY[e.dtype]:
            raise binding.error("ARGS", f"{name}: {e.dtype}{list(e.value.shape)} expected, got {a.dtype}{list(a.shape)}")
        good, ratio = _judge(e, a)
        bad = ~(good | e.ambiguous)
        elements, excluded, mismatches = elements + a.size, excluded + int(e.ambiguous.sum()), mismatches + int(bad.sum())
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            first = first or f"{name}{list(at)} is {a[at]}, expected [{e.lo[at]}, {e.hi[at]}]{'' if e.written[at] else ' (not stored)'}"
            worst = np.inf
        elif a.size:
            worst = max(worst, float(np.max(np.where(e.ambiguous, 0.0, ratio))))
    return Comparison(mismatches == 0, worst, mismatches, excluded, elements, first)


def _judge(e: Envelope, a: Array) -> tuple[Array, Array]:
    """Which elements are within, and |error| / bound."""
    if e.dtype not in FLOATS:
        return np.asarray(a == e.value), np.zeros(a.shape)
    v = a.astype(np.float64)
    with np.errstate(all="ignore"):
        signed = (e.lo == 0) & (e.hi == 0) & (np.signbit(e.lo) == np.signbit(e.hi))
        good = np.where(np.isnan(e.lo), np.isnan(v), (v >= e.lo) & (v <= e.hi) & ~(signed & (np.signbit(v) != np.signbit(e.lo))))
        ratio = np.abs(v - e.value) / e.bound
    return good, np.where((e.bound > 0) & np.isfinite(ratio), ratio, 0.0)


__all__ = ["Comparison", "Envelope", "Enveloper", "Trap", "compare", "decided", "envelope", "rule"]
