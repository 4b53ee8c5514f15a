"""Views in memory: arguments, address arithmetic, aliasing in bytes, and the detection of races and unwritten reads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqkir.kir.floats import Array
from eqkir.kir.reference_codes import Trap

NONE = np.int64(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True, eq=False)
class ViewArg:
    """A view of one actual call: element (i_0, …) lies at ``memory[offset + sum(i_k * strides[k])]``.

    `memory` is one-dimensional and contiguous, of the view's dtype; strides (in elements) may be negative, or zero for reads.
    Views that alias share `memory` (or numpy slices of one base).
    """

    memory: Array
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(a: Array) -> ViewArg:
        """A contiguous view of a copy of `a`."""
        a = np.array(a, order="C")  # a copy; keeps rank 0
        return ViewArg(a.reshape(-1), 0, a.shape, row_major(a.shape))

    def array(self) -> Array:
        """The logical array as a numpy view (writes reach the memory)."""
        if 0 in self.shape:
            return np.empty(self.shape, self.memory.dtype)
        size = self.memory.itemsize
        raw = self.memory.view(np.uint8)
        return np.ndarray(self.shape, self.memory.dtype, raw, self.offset * size, tuple(s * size for s in self.strides))

    def span(self) -> tuple[int, int]:
        """Lowest and one past the highest element address; equal when the view is empty."""
        if 0 in self.shape:
            return self.offset, self.offset
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        return self.offset + sum(min(r, 0) for r in reach), self.offset + sum(max(r, 0) for r in reach) + 1


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous view, in elements."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def clone(args: Mapping[str, object]) -> dict[str, object]:
    """Arguments on copied memory; views that shared memory (or slices of one base) share the copy in the same way."""
    bases: dict[int, Array] = {}
    out: dict[str, object] = {}
    for name, a in args.items():
        if not isinstance(a, ViewArg):
            out[name] = a
            continue
        root = a.memory
        while isinstance(root.base, np.ndarray):
            root = root.base
        flat = bases.setdefault(id(root), np.frombuffer(root.tobytes(), np.uint8).copy())
        at = a.memory.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        out[name] = ViewArg(flat[at : at + a.memory.nbytes].view(a.memory.dtype), a.offset, a.shape, a.strides)
    return out


@dataclass(frozen=True, slots=True)
class Access:
    """Elements of one access: element address and cell of every element, and which are valid (all broadcast to one shape)."""

    address: Array
    cell: Array
    valid: Array | None

    def cells(self) -> Array:
        """Cells of the valid elements, flat."""
        return self.cell.reshape(-1) if self.valid is None else self.cell[self.valid]


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Who touched each cell inside one `parallel`: lowest and highest point that wrote and that read it."""

    divisor: list[int]
    wrote: tuple[Array, Array]
    read: tuple[Array, Array]


class Memory:
    """All views of a call. A *cell* is the largest byte unit in which every view of its allocation is aligned."""

    def __init__(self, views: Mapping[str, ViewArg]) -> None:
        self.views = dict(views)
        self.origin: dict[str, int] = {}  # view -> cell of memory[0]
        self.width: dict[str, int] = {}  # view -> cells an element
        self.group: dict[str, int] = {}  # view -> allocation
        total = self._allocate()
        self.written = np.zeros(total, bool)
        self.scratch = np.zeros(total, np.int64)
        self.levels: list[_Level] = []

    def _allocate(self) -> int:
        start = {k: int(v.memory.__array_interface__["data"][0]) for k, v in self.views.items()}
        order = sorted(self.views, key=lambda k: (start[k], k))
        groups: list[list[str]] = []
        end = -1
        for k in order:
            if not groups or start[k] >= end:
                groups.append([])
            groups[-1].append(k)
            end = max(end, start[k] + self.views[k].memory.nbytes)
        total = 0
        for g, names in enumerate(groups):
            base = start[names[0]]
            unit = math.gcd(*(self.views[k].memory.itemsize for k in names), *(start[k] - base for k in names))
            for k in names:
                self.origin[k], self.width[k], self.group[k] = total + (start[k] - base) // unit, self.views[k].memory.itemsize // unit, g
            total += max((start[k] - base + self.views[k].memory.nbytes) // unit for k in names)
        return total

    # -------------------------------------------------------------------------------------------- accesses
    def locate(self, view: str, coords: Sequence[Array], valid: Array | None, batch: int) -> Access:
        """Check bounds of the valid elements and compute their addresses; `coords` are aligned (one batch axis in front)."""
        arg = self.views[view]
        shape = np.broadcast_shapes((batch,), *((c.shape[0],) for c in coords), *(() if valid is None else ((valid.shape[0],),)))
        rest = np.broadcast_shapes(*(c.shape[1:] for c in coords), *(() if valid is None else (valid.shape[1:],)))
        full = (*shape, *rest)
        ok = None if valid is None else np.broadcast_to(valid, full)
        address = np.full(full, arg.offset, np.int64)
        for k, (c, n, s) in enumerate(zip(coords, arg.shape, arg.strides, strict=True)):
            bad = (c < 0) | (c >= n)
            if bool(np.any(bad)) and bool(np.any(bad if ok is None else bad & ok)):
                at = np.broadcast_to(c, full)[np.broadcast_to(bad if ok is None else bad & ok, full)].reshape(-1)[0]
                raise Trap("BOUNDS", f"coordinate {int(at)} on axis {k} of {view}, whose extent is {n}")
            wide = np.where(bad, 0, c).astype(np.int64) if bool(np.any(bad)) else c.astype(np.int64)
            address += wide * s
        if ok is not None:
            address = np.where(ok, address, 0)
        return Access(address, self.origin[view] + address * self.width[view], ok)

    def _spread(self, view: str, cells: Array) -> Array:
        w = self.width[view]
        return cells if w == 1 else (cells[:, None] + np.arange(w)).reshape(-1)

    def read(self, view: str, role: str, a: Access) -> None:
        """Note a read. Traps on an unwritten element of an `out` view and on a race."""
        cells = self._spread(view, a.cells())
        if role == "out" and not bool(self.written[cells].all()):
            raise Trap("READ-OUT", f"an element of {view} is read before it was written")
        self._note(view, cells, a, False)

    def write(self, view: str, a: Access) -> None:
        """Note a write. Traps on an element written twice by the store and on a race."""
        cells = self._spread(view, a.cells())
        serial = np.arange(cells.size)
        self.scratch[cells] = serial
        self._note(view, cells, a, True)
        if not bool(np.array_equal(self.scratch[cells], serial)):
            raise Trap("INJECTIVE", f"a store to {view} writes one element twice")
        self.written[cells] = True

    # -------------------------------------------------------------------------------------------- parallel
    def enter(self, points: int) -> None:
        """Start a parallel whose innermost batch multiplies by `points`."""
        for level in self.levels:
            level.divisor[0] *= points
        n = self.written.size

        def pair() -> tuple[Array, Array]:
            return np.full(n, NONE), np.full(n, -1, np.int64)

        self.levels.append(_Level([1], pair(), pair()))

    def leave(self, points: int) -> None:
        self.levels.pop()
        for level in self.levels:
            level.divisor[0] //= points

    def _note(self, view: str, cells: Array, a: Access, write: bool) -> None:
        if not self.levels:
            return
        ids = np.broadcast_to(np.arange(a.cell.shape[0]).reshape(-1, *[1] * (a.cell.ndim - 1)), a.cell.shape)
        point = ids.reshape(-1) if a.valid is None else ids[a.valid]
        point = np.repeat(point, self.width[view])
        for level in self.levels:
            p = point // level.divisor[0]
            low, high = level.wrote if write else level.read
            np.minimum.at(low, cells, p)
            np.maximum.at(high, cells, p)
            w0, w1, r0, r1 = (x[cells] for x in (*level.wrote, *level.read))
            foreign = (w1 >= 0) & ((w0 != w1) | ((r1 >= 0) & ((r0 != w0) | (r1 != w0))))
            if bool(foreign.any()):
                k = int(np.flatnonzero(foreign)[0])
                what = "written by two points" if w0[k] != w1[k] else "written by one point and read by another"
                raise Trap("RACE", f"an element of {view} is {what}")
