"""A numpy-backed tensor as far as Triton's interpreter and an emitted ``launch`` need one, and the memory that it may touch."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class DTypeName(str):
    """The dtype's name, with an item size."""

    @property
    def itemsize(self) -> int:
        from eqkir.base.dtypes import NUMPY

        for d in NUMPY.values():
            if d.name == str(self):
                return d.itemsize
        raise KeyError(str(self))


class Guard:
    """Bytes of the registered memories that loads and stores may touch; everything else is out of bounds."""

    def __init__(self) -> None:
        self.memories: list[tuple[int, Array, Array]] = []  # address, readable, writable (per byte)

    def clear(self) -> None:
        self.memories.clear()

    def memory(self, raw: Array) -> tuple[Array, Array]:
        """Register a byte array; returns its (readable, writable) marks."""
        marks = (np.zeros(raw.size, bool), np.zeros(raw.size, bool))
        self.memories.append((raw.__array_interface__["data"][0], *marks))
        return marks

    def check(self, pointers: Array, mask: Array, size: int, write: bool) -> None:
        """Raises IndexError when an unmasked lane touches a byte that is not marked."""
        at = pointers[np.broadcast_to(np.asarray(mask).astype(bool), pointers.shape)].astype(np.int64)  # i1 may come as integers
        ok = np.zeros(at.shape, bool)
        for base, readable, writable in self.memories:
            marks = writable if write else readable
            first = at - base
            inside = (first >= 0) & (first + size <= marks.size)
            if marks.size:
                j = np.where(inside, first, 0)
                ok |= inside & marks[j] & marks[np.where(inside, first + size - 1, 0)]
        if not ok.all():
            raise IndexError(f"{'store' if write else 'load'} out of bounds: {int((~ok).sum())} of {ok.size} lanes")


GUARD = Guard()


class Tensor:
    """A strided view over a byte array."""

    device = None

    def __init__(self, raw: Array, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
        self.raw, self.dtype, self.shape, self.strides, self.offset = raw, DTypeName(dtype), shape, strides, offset

    def data_ptr(self) -> int:
        return int(self.raw.__array_interface__["data"][0]) + self.offset

    def stride(self, i: int | None = None) -> Any:
        return self.strides if i is None else self.strides[i]

    def array(self) -> Array:
        """The elements, as an array over the same memory."""
        from eqkir.base.dtypes import NUMPY

        t = next(d for d in NUMPY.values() if d.name == str(self.dtype))
        if 0 in self.shape:
            return np.empty(self.shape, t)
        return np.ndarray(self.shape, t, self.raw.data, self.offset, tuple(s * t.itemsize for s in self.strides))

    def elements(self) -> Array:
        """Byte offsets of all elements."""
        e = np.asarray(self.offset, np.int64)
        for n, s in zip(self.shape, self.strides, strict=True):
            e = e[..., None] + np.arange(n, dtype=np.int64) * s * self.dtype.itemsize
        return e.reshape(-1)

    def allow(self, marks: tuple[Array, Array], write: bool) -> None:
        e = self.elements()
        for k in range(self.dtype.itemsize):
            marks[0][e + k] = True
            if write:
                marks[1][e + k] = True

    # ---- what the interpreter's executor calls: this tensor is its own storage and its own host copy
    def untyped_storage(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def copy_(self, other: object) -> None:
        pass

    def set_(self, *a: object) -> None:
        pass

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.shape

    def new_empty(self, shape: Any, *, dtype: str | None = None, device: object = None) -> Tensor:
        """A workspace full of 0xFF bytes (NaN, -1), or, for the executor, this tensor itself."""
        if dtype is None:
            return self
        n = int(np.prod(shape, dtype=np.int64))
        name = DTypeName(dtype)
        raw = np.full(max(n * name.itemsize, 1), 0xFF, np.uint8)
        strides = tuple(int(np.prod(shape[k + 1 :], dtype=np.int64)) for k in range(len(shape)))
        t = Tensor(raw, dtype, tuple(shape), strides, 0)
        t.allow(GUARD.memory(raw), True)
        return t
