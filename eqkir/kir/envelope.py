"""The error envelope: the one place where numerical tolerances are derived (docs/numerics.md).

A second evaluation of a kernel computes, for every element of every view, an interval that holds what *any* legal KIR
implementation stores there: every tree of every reduction, every permitted fusing, every value within the accuracy limits of
the functions. Nothing is tuned per kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.kir import binding
from eqkir.kir.binding import Binding, bind
from eqkir.kir.floats import Array
from eqkir.kir.interval import Num, exact, move
from eqkir.kir.machine import SHARED, Machine
from eqkir.kir.memory import ViewArg
from eqkir.kir.model import Kernel
from eqkir.kir.reference_codes import Trap


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


@dataclass(slots=True, eq=False)
class Cells:
    """Enclosures of every element of one memory."""

    lo: Array
    hi: Array
    nan: Array
    amb: Array

    def forget(self, index: Array) -> None:
        """Nothing is known any more of these elements."""
        self.amb[index], self.nan[index] = True, False
        if self.lo.dtype == np.float64:
            self.lo[index], self.hi[index] = -np.inf, np.inf


class Enveloper(Machine[Num]):
    """Values are enclosures (`kir.interval`)."""

    rules: ClassVar[dict[str, Callable[[Any, Any], None]]] = dict(SHARED)

    def __init__(self, binding: Binding) -> None:
        super().__init__(binding)
        self.cells: dict[int, Cells] = {}
        for name in sorted(binding.views):
            if self.memory.width[name] != 1:
                raise binding_error(name)
            g = self.memory.group[name]
            if g not in self.cells:
                self.cells[g] = self._contents(g)

    def _contents(self, group: int) -> Cells:
        names = sorted(k for k, g in self.memory.group.items() if g == group)
        if len({self.binding.views[k].memory.dtype for k in names}) > 1:
            raise binding_error(names[0])
        base = min(self.memory.origin[k] for k in names)
        size = max(self.memory.origin[k] + self.binding.views[k].memory.size for k in names) - base
        flat = np.zeros(size, self.binding.views[names[0]].memory.dtype)
        for k in names:
            at = self.memory.origin[k] - base
            flat[at : at + self.binding.views[k].memory.size] = self.binding.views[k].memory
        x = exact(flat)
        nan = np.zeros(size, bool) if x.nan is None else x.nan
        return Cells(x.lo.copy(), x.lo.copy(), nan, np.zeros(size, bool))

    def locate(self, view: str) -> tuple[Cells, int]:
        """The enclosures behind a view, and the index of its memory's element 0 in them."""
        g = self.memory.group[view]
        return self.cells[g], self.memory.origin[view] - min(self.memory.origin[k] for k, h in self.memory.group.items() if h == g)

    def repeat(self, value: Num, n: int) -> Num:
        return move(lambda a: np.repeat(a, n, axis=0), value) if value.shape[0] > 1 else value

    def exact(self, a: Array) -> Num:
        return exact(a)

    def result(self, view: str) -> Envelope:
        """The envelope of one view."""
        arg = self.binding.views[view]
        dtype = self.binding.params[view].dtype
        index = np.full(arg.shape, arg.offset, np.int64)
        for k, s in enumerate(arg.strides):
            index += (np.arange(arg.shape[k]) * s).reshape(-1, *[1] * (len(arg.shape) - k - 1))
        cells, at = self.locate(view)
        lo, hi, nan, amb = (a[index + at] for a in (cells.lo, cells.hi, cells.nan, cells.amb))
        written = self.memory.written[index + self.memory.origin[view]]
        if dtype not in FLOATS:
            return Envelope(dtype, lo, np.zeros(lo.shape), amb, written, lo, lo)
        with np.errstate(all="ignore"):  # ends may be infinite
            mid = np.where(lo == hi, lo, np.where((lo == -np.inf) & (hi == np.inf), 0.0, lo / 2 + hi / 2))
            bound = np.where(lo == hi, 0.0, np.maximum(hi - mid, mid - lo))
        mid, lo, hi = (np.where(nan, np.nan, v) for v in (mid, lo, hi))
        return Envelope(dtype, mid, np.where(nan, 0.0, bound), amb, written, lo, hi)


def binding_error(view: str) -> Exception:
    """Aliasing that the envelope does not follow."""
    return binding.error("UNSUPPORTED", f"{view} shares bytes with a view of another dtype or alignment")


def rule(op: str) -> Callable[[Callable[[Enveloper, Any], None]], Callable[[Enveloper, Any], None]]:
    """Register the enclosure of an operation under its ``op`` literal."""

    def register(f: Callable[[Enveloper, Any], None]) -> Callable[[Enveloper, Any], None]:
        Enveloper.rules[op] = f
        return f

    return register


def envelope(
    kernel: Kernel,
    args: Mapping[str, ViewArg | Any],
    symbols: Mapping[str, int] | None = None,
    constexprs: Mapping[str, binding.Literal] | None = None,
) -> dict[str, Envelope]:
    """Enclosures of every ``out`` and ``inout`` view after `kernel` ran on `args`; the memory is not changed.

    Raises EqkirError like `reference.run`; invalid input is diagnosed where it is certain, and ambiguous where it is possible.
    """
    m = Enveloper(bind(kernel, args, symbols or {}, constexprs or {}))
    m.start()
    return {k: m.result(k) for k, p in m.binding.params.items() if p.role != "in"}


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


from eqkir.kir import envelope_ops  # noqa: E402  (it registers its rules)

__all__ = ["Comparison", "Envelope", "Enveloper", "Trap", "compare", "envelope", "envelope_ops", "rule"]
