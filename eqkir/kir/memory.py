"""Views in memory: arguments, address arithmetic, aliasing in bytes, and the detection of races and unwritten reads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqkir.base.dtypes import NUMPY
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


Touched = dict[str, tuple[Array, Array]]  # kind of access -> lowest and highest point by cell


class Allocation:
    """Memory that views share, or the copies of a buffer. A *cell* is the largest byte unit in which every view is aligned.

    `written`: cells that the kernel wrote; `touched`: by enclosing parallel, who touched each cell.
    """

    def __init__(self, cells: int, name: str) -> None:
        """`name`: of a view in it, or of the buffer."""
        self.size, self.name = cells, name
        self.written = np.zeros(cells, bool)
        self.scratch = np.zeros(cells, np.int64)
        self.touched: dict[str, Touched] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A view or buffer of one call. `origin`: its element 0's cell; `width`: cells an element; `copies`: of a buffer, one a lane
    of its scope, each of `shape` (0: a view)."""

    name: str
    dtype: str
    role: str  # in, out, inout, buffer
    memory: Array
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    allocation: Allocation
    origin: int = 0
    width: int = 1
    copies: int = 0


def conflict(a: str, b: str) -> bool:
    """Whether accesses of two kinds to one element by different points are a race. Kinds: ``read``, ``write``, ``atomic …``, which go
    with each other, and ``reduce …``, which go with their own kind only."""
    if a.startswith("atomic") and b.startswith("atomic"):
        return False
    return a == b == "write" or (a != b)


def occurrences(elements: Array) -> list[Array]:
    """Positions in `elements` such that each group names distinct elements: the k-th holds the k-th occurrence of each."""
    order = np.argsort(elements, kind="stable")
    ordered = elements[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]] if ordered.size else np.zeros(0, bool)
    start = np.maximum.accumulate(np.where(first, np.arange(ordered.size), 0))
    rank = np.arange(ordered.size) - start
    by_rank = np.argsort(rank, kind="stable")
    ends = np.flatnonzero(np.diff(rank[by_rank])) + 1
    return [order[g] for g in np.split(by_rank, ends)] if ordered.size else []


class Memory:
    """The views of a call and what is known of their cells."""

    def __init__(self, views: Mapping[str, ViewArg], roles: Mapping[str, str], dtypes: Mapping[str, str]) -> None:
        self.views: dict[str, Resource] = {}
        self.groups: list[list[str]] = []  # views by allocation
        start = {k: int(v.memory.__array_interface__["data"][0]) for k, v in views.items()}
        end = -1
        for k in sorted(views, key=lambda k: (start[k], k)):
            if not self.groups or start[k] >= end:
                self.groups.append([])
            self.groups[-1].append(k)
            end = max(end, start[k] + views[k].memory.nbytes)
        for names in self.groups:
            base = start[names[0]]
            unit = math.gcd(*(views[k].memory.itemsize for k in names), *(start[k] - base for k in names))
            a = Allocation(max((start[k] - base + views[k].memory.nbytes) // unit for k in names), min(names))
            for k in names:
                v = views[k]
                place = ((start[k] - base) // unit, v.memory.itemsize // unit)
                self.views[k] = Resource(k, dtypes[k], roles[k], v.memory, v.offset, v.shape, v.strides, a, *place)

    def allocate(self, name: str, dtype: str, shape: tuple[int, ...], copies: int) -> Resource:
        """A fresh buffer, one copy a lane; its contents are undefined."""
        count = math.prod(shape)
        memory = np.zeros(count * copies, NUMPY[dtype])
        return Resource(name, dtype, "buffer", memory, 0, shape, row_major(shape), Allocation(memory.size, name), copies=copies)

    # -------------------------------------------------------------------------------------------- accesses
    def locate(self, r: Resource, coords: Sequence[Array], valid: Array | None, batch: int, copy: Array | None = None) -> Access:
        """Check bounds of the valid elements and compute their addresses; `coords` are aligned (one batch axis in front). `copy`: of a
        buffer, by lane."""
        shape = np.broadcast_shapes((batch,), *((c.shape[0],) for c in coords), *(() if valid is None else ((valid.shape[0],),)))
        rest = np.broadcast_shapes(*(c.shape[1:] for c in coords), *(() if valid is None else (valid.shape[1:],)))
        full = (*shape, *rest)
        ok = None if valid is None else np.broadcast_to(valid, full)
        address = np.full(full, r.offset, np.int64)
        for k, (c, n, s) in enumerate(zip(coords, r.shape, r.strides, strict=True)):
            bad = outside(c, n)
            touched = np.broadcast_to(bad if ok is None else bad & ok, full) if bool(np.any(bad)) else bad  # of no elements: none
            if bool(np.any(bad)) and bool(np.any(touched)):
                at = np.broadcast_to(c, full)[touched].reshape(-1)[0]
                raise Trap("BOUNDS", f"coordinate {int(at)} on axis {k} of {r.name}, whose extent is {n}")
            wide = np.where(bad, 0, c).astype(np.int64) if bool(np.any(bad)) else c.astype(np.int64)
            address += wide * s
        if copy is not None:
            address += copy.reshape(-1, *[1] * len(rest)) * math.prod(r.shape)
        if ok is not None:
            address = np.where(ok, address, 0)
        return Access(address, r.origin + address * r.width, ok)

    def _spread(self, r: Resource, cells: Array) -> Array:
        return cells if r.width == 1 else (cells[:, None] + np.arange(r.width)).reshape(-1)

    def check_written(self, r: Resource, a: Access) -> None:
        """Trap on an element of an `out` view or of a buffer that nothing wrote yet."""
        if r.role in ("out", "buffer") and not bool(r.allocation.written[self._spread(r, a.cells())].all()):
            raise Trap("READ-OUT" if r.role == "out" else "READ-BUFFER", f"an element of {r.name} is read before it was written")

    def mark_written(self, r: Resource, a: Access, distinct: bool) -> None:
        """Note that elements were written. `distinct`: trap when one element occurs twice."""
        cells = self._spread(r, a.cells())
        if distinct:
            serial = np.arange(cells.size)
            r.allocation.scratch[cells] = serial
            if not bool(np.array_equal(r.allocation.scratch[cells], serial)):
                raise Trap("INJECTIVE", f"a store to {r.name} writes one element twice")
        r.allocation.written[cells] = True

    # -------------------------------------------------------------------------------------------- parallel
    def note(self, r: Resource, a: Access, kind: str, levels: Mapping[str, Array]) -> None:
        """Note who touches what: `levels` holds the number of the point by lane for each enclosing parallel. Traps on a race."""
        alloc = r.allocation
        for gone in [k for k in alloc.touched if k not in levels]:
            del alloc.touched[gone]
        cells = self._spread(r, a.cells())
        if not levels or not cells.size:
            return
        for level, points in levels.items():
            ids = np.broadcast_to(points.reshape(-1, *[1] * (a.cell.ndim - 1)), a.cell.shape)
            point = np.repeat(ids.reshape(-1) if a.valid is None else ids[a.valid], r.width)
            table = alloc.touched.setdefault(level, {})
            if kind not in table:
                table[kind] = np.full(alloc.size, NONE), np.full(alloc.size, -1, np.int64)
            low, high = table[kind]
            np.minimum.at(low, cells, point)
            np.maximum.at(high, cells, point)
            for other, (olow, ohigh) in table.items():
                if conflict(kind, other):
                    self._race(r, cells, kind, other, (low[cells], high[cells], olow[cells], ohigh[cells]))

    def _race(self, r: Resource, cells: Array, kind: str, other: str, seen: tuple[Array, Array, Array, Array]) -> None:
        low, high, olow, ohigh = seen
        foreign = (ohigh >= 0) & ((low != high) | (olow != low) | (ohigh != low))
        if bool(foreign.any()):
            verbs = {"read": "read", "write": "written"}
            a, b = (verbs.get(k, f"updated ({k})") for k in sorted((kind, other), reverse=True))
            what = "written by two points" if kind == other else f"{a} by one point and {b} by another"
            raise Trap("RACE", f"an element of {r.name} is {what}")


def outside(c: Array, n: int) -> Array:
    """Which coordinates are no index of an axis of extent n."""
    return np.asarray((c < 0) | (c >= n)) if c.dtype.kind == "i" else np.asarray(c >= n)
