"""Memory of the program interpreter: strided views over shared allocations, and who read and wrote each element.

Allocations whose address ranges overlap form one memory. For each granule of a written memory the tracker keeps the writing instance,
the reading instance, the times of the versions last written and read, and the store that wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from eqkir.base.diagnostics import EqkirError, fail, register
from eqkir.base.dtypes import NUMPY
from eqkir.program import interp_scalar as S

Array = np.ndarray[Any, np.dtype[Any]]

OOB = register("EQK-INT-OOB", "access out of bounds", "An active, valid lane of a load or store addressed an element outside the view.")
DOUBLE = register("EQK-INT-DOUBLE-WRITE", "double write", "Two instances, or two lanes or iterations of one store, wrote the same element.")
CROSS = register(
    "EQK-INT-CROSS", "dependence between instances",
    "An instance read an element that another instance wrote in the same launch (or the other way round): instances are unordered.",
)  # fmt: skip
UNWRITTEN = register(
    "EQK-INT-UNWRITTEN", "read of an unwritten element", "An element of an `out` view or a workspace was read before anything wrote it."
)
VERSION = register(
    "EQK-INT-VERSION", "wrong memory version",
    "A load or store met an element in another memory version than the one it names: loads and stores ran in a wrong order.",
)  # fmt: skip
ARGS = register(
    "EQK-INT-ARGS", "arguments do not fit", "An argument of the launch is missing or does not fit the interface of the program."
)

NOBODY, MANY = -1, -2


@dataclass
class Buffer:
    """A strided view, in elements: element ``ix`` lies at ``memory[offset + sum(ix[k] * strides[k])]``. Views may share `memory`."""

    memory: Array
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(array: Array) -> Buffer:
        """A buffer over an existing array (any strides that are multiples of the element size); writes go to that array.

        Raises ValueError when no 1-D memory of the same dtype lies under it.
        """
        root: Any = array
        while isinstance(root.base, np.ndarray) and root.base.dtype == array.dtype:
            root = root.base
        memory = root.reshape(-1) if root.flags.c_contiguous else root.T.reshape(-1) if root.flags.f_contiguous else None
        if memory is None or (memory.size and not np.shares_memory(memory, root)):
            raise ValueError("the array does not lie in contiguous memory of its own dtype")
        size = array.dtype.itemsize
        at = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
        return Buffer(memory, at // size if array.size else 0, array.shape, tuple(s // size for s in array.strides))

    @staticmethod
    def dense(shape: Sequence[int], dtype: np.dtype[Any]) -> Buffer:
        """A new row-major buffer, uninitialised."""
        return Buffer.of(np.empty(tuple(shape), dtype))

    def array(self) -> Array:
        """The view as an array over the same memory."""
        if 0 in self.shape:
            return np.empty(self.shape, self.memory.dtype)
        item = self.memory.itemsize
        return np.lib.stride_tricks.as_strided(self.memory[self.offset :], self.shape, tuple(s * item for s in self.strides))

    def span(self) -> tuple[int, int]:
        """Least and greatest element index, (0, -1) when empty."""
        if 0 in self.shape:
            return 0, -1
        ends = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        return self.offset + sum(min(e, 0) for e in ends), self.offset + sum(max(e, 0) for e in ends)


class Memory:
    """One range of addresses."""

    def __init__(self, base: int, size: int, granule: int, tracked: bool) -> None:
        self.base, self.granule = base, granule
        n = -(-size // granule) if tracked else 0
        self.tracked = tracked
        self.writer = np.full(n, NOBODY, np.int64)
        self.reader = np.full(n, NOBODY, np.int64)
        self.wrote = np.zeros(n, np.int64)
        self.read = np.full(n, -1, np.int64)
        self.site = np.full(n, -1, np.int32)
        self.domain = np.full(n, -1, np.int64)  # of the last atomic operation: its sharing domain, and which part of it
        self.part = np.full(n, -1, np.int64)


def address(memory: Array) -> int:
    return int(memory.__array_interface__["data"][0])


def memories(buffers: dict[str, Buffer], written: set[str], check: bool) -> dict[str, Memory]:
    """View name -> the memory it lies in."""
    spans = sorted((address(b.memory), address(b.memory) + b.memory.nbytes, name) for name, b in buffers.items())
    out: dict[str, Memory] = {}
    group: list[str] = []
    end = -1
    groups: list[list[str]] = []
    for lo, hi, name in spans:
        if not group or lo >= end:
            group = []
            groups.append(group)
            end = hi
        group.append(name)
        end = max(end, hi)
    for names in groups:
        base = min(address(buffers[n].memory) for n in names)
        size = max(address(buffers[n].memory) + buffers[n].memory.nbytes for n in names) - base
        g = 0
        for n in names:
            g = gcd(g, buffers[n].memory.itemsize, address(buffers[n].memory) - base)
        m = Memory(base, size, max(g, 1), check and any(n in written for n in names))
        out.update(dict.fromkeys(names, m))
    return out


@dataclass(frozen=True)
class Write:
    """What a store says of its writes: the version's time (`interp_clock`); `site` numbers stores of the program. Atomic operations of one
    sharing `domain` (-1: none) come in any order between instances of one part of it."""

    version: int
    site: int
    mode: str
    where: str
    domain: int = -1


#: mode of an atomic store -> binary function, and numpy's
ATOMIC: dict[str, tuple[str, np.ufunc]] = {
    "add": ("add", np.add), "max": ("maximum", np.maximum), "min": ("minimum", np.minimum),
    "and": ("and", np.bitwise_and), "or": ("or", np.bitwise_or), "xor": ("xor", np.bitwise_xor),
}  # fmt: skip


class View:
    """A bound view: bounds, addresses, checked reads and writes."""

    def __init__(self, name: str, buffer: Buffer, memory: Memory, must_write: bool, check: bool) -> None:
        self.name, self.buffer, self.memory, self.must_write, self.check = name, buffer, memory, must_write, check
        self.item = buffer.memory.itemsize
        self.parts = self.item // memory.granule
        self.first = (address(buffer.memory) - memory.base) // memory.granule

    def locate(self, ixs: list[Any], mask: Array | None, where: str) -> Array:
        """Element indices of the lanes (0 in masked ones). Raises EqkirError EQK-INT-OOB."""
        b = self.buffer
        e: Any = np.int64(b.offset)
        bad: Any = False
        for ix, n, s in zip(ixs, b.shape, b.strides, strict=True):
            ix = np.asarray(ix, np.int64)
            if ix.size and (int(ix.min()) < 0 or int(ix.max()) >= n):
                bad = bad | (ix < 0) | (ix >= n)
            e = e + ix * np.int64(s)
        at: Array = np.asarray(e, np.int64)
        if bad is not False:
            live = bad if mask is None else bad & mask
            if np.any(live):
                raise self._oob(ixs, live, where)
        return at

    def _oob(self, ixs: list[Any], live: Array, where: str) -> EqkirError:
        at = tuple(int(x[0]) for x in np.nonzero(live))
        point = [int(np.broadcast_to(np.asarray(ix), live.shape)[at]) for ix in ixs]
        return fail(OOB, f"{self.name}{point} of shape {list(self.buffer.shape)}", where, stage="interpret")

    def _granules(self, e: Array) -> Array:
        if self.parts == 1:
            return e + self.first
        parts: Array = e[:, None] * self.parts + (self.first + np.arange(self.parts))
        return parts.reshape(-1)

    def _spread(self, x: Array) -> Array:
        return x if self.parts == 1 else np.repeat(x, self.parts)

    def load(self, e: Array, version: int, who: Array | int, where: str) -> Array:
        """Elements at flat valid indices. `version`: its time; `who`: the reading instance of each, or one id (NOBODY < 0: MANY)."""
        m = self.memory
        if m.tracked and e.size:
            g = self._granules(e)
            owner = m.writer[g]
            ids = self._spread(who) if isinstance(who, np.ndarray) else who
            if ((owner != NOBODY) & (owner != ids)).any():
                raise fail(CROSS, f"{self.name}: an element read here was written by another instance", where, stage="interpret")
            if self.must_write and (owner == NOBODY).any():
                n = int((owner == NOBODY).sum())
                raise fail(UNWRITTEN, f"{self.name}: {n} elements read before they were written", where, stage="interpret")
            if (m.wrote[g] > version).any():
                raise fail(VERSION, f"{self.name}: version {version} is read after a later store", where, stage="interpret")
            seen = m.reader[g]
            m.reader[g] = np.where((seen == NOBODY) | (seen == ids), ids, MANY)
            if isinstance(ids, np.ndarray):
                m.reader[g[m.reader[g] != ids]] = MANY
            m.read[g] = np.maximum(m.read[g], version)
        return self.buffer.memory[e]

    def store(self, e: Array, values: Array, w: Write, who: Array) -> None:
        """Write flat valid indices; `who` is the writing instance of each."""
        version, site, where = w.version, w.site, w.where
        m = self.memory
        if m.tracked and e.size:
            g, ids = self._granules(e), self._spread(who)
            owner, seen = m.writer[g], m.reader[g]
            again = (owner == ids) & (m.site[g] == site) & (m.wrote[g] == version)
            lane = np.arange(g.size, dtype=np.int64)
            m.writer[g] = lane
            if (m.writer[g] != lane).any() or ((owner != NOBODY) & (owner != ids)).any() or again.any():
                raise fail(DOUBLE, f"{self.name}: an element is written twice", where, stage="interpret")
            m.writer[g] = ids
            if ((seen != NOBODY) & (seen != ids)).any():
                raise fail(CROSS, f"{self.name}: an element written here is read by another instance", where, stage="interpret")
            if (m.wrote[g] >= version).any() or (m.read[g] >= version).any():
                raise fail(VERSION, f"{self.name}: version {version} is made after a load or store of it", where, stage="interpret")
            m.wrote[g] = version
            m.site[g] = site
        self.buffer.memory[e] = values

    def atomic(self, e: Array, values: Array, expected: Array | None, w: Write, who: Array, part: Array, how: tuple[bool, bool]) -> Array:
        """Act atomically on flat indices, which may repeat, one after another; the old values. `who` and `part` are the instance of each
        and its part of the sharing domain. Instances may meet at an element that nothing but this one store touches, or operations of
        one part of one domain. `how`: whether the last lane comes first, and whether nobody wants the old values (zeros then)."""
        m = self.memory
        if m.tracked and e.size:
            g, ids, parts = self._granules(e), self._spread(who), self._spread(part)
            owner, seen = m.writer[g], m.reader[g]
            again = (m.site[g] == w.site) | ((m.domain[g] == w.domain) & (m.part[g] == parts) & (w.domain >= 0))
            if self.must_write and w.mode != "put" and (owner == NOBODY).any():
                raise fail(UNWRITTEN, f"{self.name}: combined with elements that nothing wrote", w.where, stage="interpret")
            if (((owner != NOBODY) & (owner != ids) & ~again) | ((seen != NOBODY) & (seen != ids))).any():
                raise fail(CROSS, f"{self.name}: an element combined here is touched by another instance", w.where, stage="interpret")
            if ((m.wrote[g] >= w.version) & ~again).any() or (m.read[g] >= w.version).any():
                raise fail(VERSION, f"{self.name}: version {w.version} is made after a load or store of it", w.where, stage="interpret")
            m.writer[g] = np.where((owner == NOBODY) | (owner == ids), ids, MANY)
            m.writer[g[m.writer[g] != ids]] = MANY
            m.wrote[g], m.site[g] = np.maximum(m.wrote[g], w.version), w.site
            m.domain[g], m.part[g] = w.domain, parts
        if how[1] and w.mode in ATOMIC:
            self._accumulate(e, values, w.mode)
            return np.zeros_like(values)
        return self._serial(e, values, expected, w.mode, how[0])

    def _serial(self, e: Array, values: Array, expected: Array | None, mode: str, backwards: bool) -> Array:
        """One operation after another, in rounds of distinct elements; the old values."""
        dtype = next(d for d, t in NUMPY.items() if t == self.buffer.memory.dtype)
        lanes = np.arange(e.size)[::-1] if backwards else np.arange(e.size)
        lanes = lanes[np.argsort(e[lanes], kind="stable")]
        first = np.flatnonzero(np.r_[True, e[lanes][1:] != e[lanes][:-1]]) if e.size else np.empty(0, np.int64)
        rank = np.arange(e.size) - np.repeat(first, np.diff(np.r_[first, e.size]))
        rounds = np.argsort(rank, kind="stable")
        ends = np.flatnonzero(np.diff(rank[rounds])) + 1
        out = np.zeros_like(values)
        for at in np.split(lanes[rounds], ends):
            old = self.buffer.memory[e[at]]
            new = values[at]
            if mode == "get":
                new = old
            elif mode == "compare_exchange":
                assert expected is not None
                bits = np.dtype(f"u{old.itemsize}")
                new = np.where(old.view(bits) == np.ascontiguousarray(expected[at]).view(bits), new, old)
            elif mode in ATOMIC:
                new = S.binary(ATOMIC[mode][0], old, new, dtype)
            out[at] = old
            self.buffer.memory[e[at]] = new
        return out

    def _accumulate(self, e: Array, values: Array, mode: str) -> None:
        """One combination after another; below f32 in rounds of distinct elements, each rounded to the dtype."""
        dtype = next(d for d, t in NUMPY.items() if t == self.buffer.memory.dtype)
        if dtype not in S.NARROW:
            ATOMIC[mode][1].at(self.buffer.memory, e, values)
            return
        order = np.argsort(e, kind="stable")
        e, values = e[order], values[order]
        first = np.flatnonzero(np.r_[True, e[1:] != e[:-1]]) if e.size else np.empty(0, np.int64)
        rank = np.arange(e.size) - np.repeat(first, np.diff(np.r_[first, e.size]))
        for r in range(int(rank.max()) + 1 if e.size else 0):
            at = rank == r
            self.buffer.memory[e[at]] = S.binary(ATOMIC[mode][0], self.buffer.memory[e[at]], values[at], dtype)

    def unwritten(self) -> int:
        """Elements of the view that nothing wrote."""
        if not self.memory.tracked or 0 in self.buffer.shape:
            return 0
        e = np.asarray(np.int64(self.buffer.offset))
        for n, s in zip(self.buffer.shape, self.buffer.strides, strict=True):
            e = e[..., None] + np.arange(n, dtype=np.int64) * s
        return int((self.memory.writer[self._granules(e.reshape(-1))] == NOBODY).reshape(-1, self.parts).any(axis=1).sum())
