"""The error envelope's values and memory, and the registry of its rules (`kir.envelope` is the way in)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from eqkir.base.dtypes import FLOATS
from eqkir.kir import binding
from eqkir.kir import interval_decision as decision
from eqkir.kir.binding import Binding
from eqkir.kir.extents import symbols_of
from eqkir.kir.floats import Array
from eqkir.kir.interval import Num, at, exact, move, plain, settled, stacked
from eqkir.kir.machine import Machine
from eqkir.kir.machine_control import SHARED
from eqkir.kir.memory import Allocation, Resource
from eqkir.kir.model import Contract, Op, extent_expr
from eqkir.kir.scopes import regions_of


@dataclass(slots=True, eq=False)
class Cells:
    """Enclosures of every element of one memory."""

    lo: Array
    hi: Array
    nan: Array
    amb: Array
    sums: Sums | None = None

    def forget(self, index: Array) -> None:
        """Nothing is known any more of these elements."""
        self.amb[index], self.nan[index] = True, False
        if self.lo.dtype == np.float64:
            self.lo[index], self.hi[index] = -np.inf, np.inf

    def num(self, dtype: str, index: Array) -> Num:
        """The contents at some elements."""
        lo, nan, amb = self.lo[index], self.nan[index], self.amb[index]
        return Num(dtype, lo, self.hi[index] if dtype in FLOATS else lo, nan if nan.any() else None, amb if amb.any() else None)

    def put(self, index: Array, x: Num) -> None:
        """New contents of some distinct elements."""
        self.lo[index], self.hi[index] = x.lo, x.hi
        self.nan[index] = False if x.nan is None else x.nan
        self.amb[index] = False if x.amb is None else x.amb
        if self.sums is not None:
            self.sums.n[index] = 0


@dataclass(slots=True, eq=False)
class Sums:
    """Elements that are being added to in any order: bounds of the exact sum, sum of magnitudes, number of additions (0: none)."""

    lo: Array
    hi: Array
    size: Array
    n: Array


class Enveloper(Machine[Num]):
    """Values are enclosures (`kir.interval`)."""

    rules: ClassVar[dict[str, Callable[[Any, Any], Any]]] = dict(SHARED)

    def __init__(self, binding: Binding, contested: Mapping[str, Array] | None = None, permit: Collection[str] = ()) -> None:
        """`contested`: elements by allocation (named by its first view) that several points update, in an order that is not stated.
        `permit`: permissions of the compile call."""
        super().__init__(binding)
        self.zero_products = "zero_products" in permit
        #: values whose rounding to a narrower dtype may come before or after a normalisation: operands of contractions
        self.weights: set[str] = set()
        if "relaxed_normalization" in permit:
            bodies = [binding.kernel.body, *(r.body for r in regions_of(binding.kernel.body))]
            self.weights = {x for b in bodies for op in b if isinstance(op, Contract) for x in (op.lhs, op.rhs)}
        self.cells: dict[int, Cells] = {}  # by identity of the allocation
        self.base: dict[int, int] = {}  # cell of the first element
        self.kept: dict[str, Allocation] = {}  # of buffers
        self.contested = {k: v.copy() for k, v in (contested or {}).items()}
        self.used: set[str] = set()
        self.grown = False  # whether `contested` grew
        for names in self.memory.groups:
            rs = [self.memory.views[k] for k in sorted(names)]
            if any(r.width != 1 for r in rs) or len({r.memory.dtype for r in rs}) > 1:
                raise binding_error(rs[0].name)
            self._contents(rs)

    def uses(self, op: Op) -> bool:
        """Whether anything reads a result of an operation."""
        if not self.used:
            self.used = set(_names(self.binding.kernel.body))
        return any(r in self.used for r in op.results)

    def _contents(self, rs: list[Resource]) -> None:
        alloc, base = rs[0].allocation, min(r.origin for r in rs)
        flat = np.zeros(max(r.origin + r.memory.size for r in rs) - base, rs[0].memory.dtype)
        for r in rs:
            flat[r.origin - base : r.origin - base + r.memory.size] = r.memory
        self.cells[id(alloc)], self.base[id(alloc)] = cells_of(exact(flat)), base

    def keep(self, r: Resource, cells: Cells) -> None:
        """Enter a buffer's memory in place of that of its last allocation."""
        old = self.kept.get(r.name)
        if old is not None:
            del self.cells[id(old)], self.base[id(old)]
        self.kept[r.name] = r.allocation
        self.cells[id(r.allocation)], self.base[id(r.allocation)] = cells, 0

    def locate_cells(self, r: Resource) -> tuple[Cells, int]:
        """The enclosures behind a resource, and the index of its element 0 in them."""
        return self.cells[id(r.allocation)], r.origin - self.base[id(r.allocation)]

    # ------------------------------------------------------------------------------------------------ representation
    def move(self, f: Callable[[Array], Array], v: Num) -> Num:
        return move(f, v)

    def exact(self, a: Array) -> Num:
        return exact(a)

    def assemble(self, parts: Sequence[tuple[Array, Num]], n: int) -> Num:
        first = parts[0][1]
        shape = (n, *first.shape[1:])
        lo = np.zeros(shape, first.lo.dtype)
        hi = np.zeros(shape, first.hi.dtype) if first.dtype in FLOATS else lo
        nan, amb, seen = np.zeros(shape, bool), np.zeros(shape, bool), np.zeros(n, bool)
        for lanes, value in parts:
            v = plain(value) if value.shape[0] == len(lanes) else at(plain(value), np.zeros(len(lanes), np.int64))
            twice = seen[lanes]
            if twice.any():
                old = Num(v.dtype, lo[lanes], hi[lanes] if hi is not lo else lo[lanes], nan[lanes], amb[lanes])
                v = hull_where(twice, v, old)
            lo[lanes] = v.lo
            if hi is not lo:
                hi[lanes] = v.hi
            nan[lanes] = False if v.nan is None else v.nan
            amb[lanes] = False if v.amb is None else v.amb
            seen[lanes] = True
        return settled(Num(first.dtype, lo, hi, nan, amb))

    def concat(self, parts: Sequence[Num], axis: int) -> Num:
        return stacked([plain(p) for p in parts], axis)

    def truth(self, cond: Num) -> tuple[Array, Array]:
        maybe = np.zeros(1, bool) if cond.amb is None else cond.amb
        return np.broadcast_to(cond.lo, (self.batch,)), np.broadcast_to(maybe, (self.batch,))

    def integers(self, v: Num) -> tuple[Array, bool]:
        return v.lo, v.amb is not None and bool(v.amb.any())

    def blurred(self, v: Num) -> Num:
        return settled(Num(v.dtype, v.lo, v.hi, None, np.ones(v.shape, bool)))

    def forget(self) -> None:
        for r in [*self.memory.views.values(), *self.buffers.values()]:
            if r.role != "in":
                cells, _ = self.locate_cells(r)
                cells.forget(np.arange(cells.lo.size))


def _names(body: Sequence[Op]) -> Iterator[str]:
    """Everything that operations, yields and extents name."""
    for op in body:
        yield from op.operands()
        for f in op.extent_fields:
            e = getattr(op, f)
            for x in e if isinstance(e, tuple) else (e,):
                yield from symbols_of(extent_expr(x))
        for r in op.regions():
            yield from r.yields
            yield from _names(r.body)


def cells_of(x: Num) -> Cells:
    """Fresh memory with these contents."""
    none = np.zeros(x.shape, bool)
    nan, amb = (none.copy() if v is None else v.copy() for v in (x.nan, x.amb))
    return Cells(x.lo.copy(), x.hi.copy(), nan, amb)


def hull_where(cond: Array, x: Num, y: Num) -> Num:
    """x, or where `cond` (by lane) holds, either of the two."""
    unsure = np.broadcast_to(cond.reshape(-1, *[1] * (x.lo.ndim - 1)), x.shape)
    return decision.select(Num("bool", np.ones(x.shape, bool), np.ones(x.shape, bool), None, unsure), x, y)


def binding_error(view: str) -> Exception:
    """Aliasing that the envelope does not follow."""
    return binding.error("UNSUPPORTED", f"{view} shares bytes with a view of another dtype or alignment")


def rule(op: str) -> Callable[[Callable[[Enveloper, Any], None]], Callable[[Enveloper, Any], None]]:
    """Register the enclosure of an operation under its ``op`` literal."""

    def register(f: Callable[[Enveloper, Any], None]) -> Callable[[Enveloper, Any], None]:
        Enveloper.rules[op] = f
        return f

    return register
