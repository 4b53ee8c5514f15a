"""Emitted kernels in Triton's interpreter on views that are too large to exist. A worker process runs this module's functions (`pool.run`).

`strided`: small views whose strides pass 2**31 elements; only their elements exist. `huge`: contiguous views of any size, of which a few
programs of the launch are executed; loads read a function of the element's number, stores are recorded.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

import builtins
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import triton.runtime.interpreter as interp

from eqkir.emit.triton import check_interpret  # noqa: F401  (repairs the interpreter)
from eqkir.emit.triton.check_tensor import GUARD, Tensor
from eqkir.emit.triton.check_worker import load
from tests.musthold.sparse_values import element

Array = np.ndarray[Any, np.dtype[Any]]
_FOLDER = tempfile.TemporaryDirectory(prefix="eqkir-sparse-")
FAR = 48  # views lie at multiples of 2**48, where no process has memory; workspaces are real
_BELOW = interp._interpreter  # the checked memory of small tests: it has what no test here replaces


def real(p: Array, mask: Array) -> bool:
    """Whether these addresses are a workspace's."""
    return bool(mask.any()) and int(p[mask].astype(np.int64).max()) < 1 << FAR


class Far(Tensor):
    """A tensor at an address of its own, without memory."""

    def __init__(self, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], address: int) -> None:
        super().__init__(np.zeros(1, np.uint8), dtype, shape, strides, 0)
        self.address = address

    def data_ptr(self) -> int:
        return self.address


class Sparse:
    """Elements by address. Raises IndexError for an address that is no element's."""

    def __init__(self) -> None:
        self.addresses: dict[int, Array] = {}  # item size -> sorted addresses
        self.values: dict[int, Array] = {}
        self.parts: list[tuple[Array, Array]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(_BELOW, name)

    def add(self, at: Array, values: Array) -> None:
        self.parts.append((at.reshape(-1), values.reshape(-1)))

    def seal(self) -> None:
        for size in {v.itemsize for _, v in self.parts}:
            mine = [(a, v) for a, v in self.parts if v.itemsize == size]
            at = np.concatenate([a for a, _ in mine])
            raw = np.concatenate([np.ascontiguousarray(v).view(f"u{size}") for _, v in mine])
            order = np.argsort(at, kind="stable")
            self.addresses[size], self.values[size] = at[order], raw[order]

    def find(self, p: Array, size: int) -> Array:
        table = self.addresses.get(size, np.zeros(0, np.int64))
        q = p.astype(np.int64)
        i = np.searchsorted(table, q)
        ok = (i < len(table)) & (table[np.minimum(i, len(table) - 1)] == q) if len(table) else np.zeros(q.shape, bool)
        if not ok.all():
            raise IndexError(f"{int((~ok).sum())} lanes touch no element, for instance {int(q[~ok].reshape(-1)[0])}")
        return i

    def load(self, p: Array, m: Array, other: Array, d: Any) -> Any:
        d = np.dtype(d)
        mask = np.broadcast_to(m, p.shape)
        if real(p, mask):
            return _BELOW.load(p, m, other, d)
        out = np.broadcast_to(np.zeros((), d) if other is None else np.asarray(other), p.shape).astype(d).copy()
        out[mask] = self.values[d.itemsize][self.find(p[mask], d.itemsize)].view(d) if mask.any() else out[mask]
        return out

    def store(self, p: Array, v: Array, m: Array) -> Any:
        mask = np.broadcast_to(m, p.shape)
        if real(p, mask):
            _BELOW.store(p, v, m)
        elif mask.any():
            self.values[v.itemsize][self.find(p[mask], v.itemsize)] = np.ascontiguousarray(v[mask]).view(f"u{v.itemsize}")


def strided(source: str, views: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], Any]], scalars: dict[str, Any]) -> dict[str, Any]:
    """Run ``launch``; `views`: name -> (dtype name, shape, strides in elements, dense contents). Contents afterwards, or ``error``."""
    memory, tensors, at = Sparse(), {}, {}
    for k, (name, (dtype, shape, strides, data)) in enumerate(views.items()):
        base = ((k + 1) << FAR) + (1 << 40)
        place = np.asarray(base, np.int64)
        for n, s in zip(shape, strides, strict=True):
            place = place[..., None] + np.arange(n, dtype=np.int64) * s * data.itemsize
        memory.add(place, data)
        tensors[name], at[name] = Far(dtype, shape, strides, base), place.reshape(-1)
    memory.seal()
    GUARD.clear()
    interp._interpreter = memory
    try:
        load(source, Path(_FOLDER.name)).launch(*tensors.values(), *scalars.values())
    except Exception as e:
        cause = e.__cause__ or e
        return {"error": f"{type(cause).__name__}: {cause}"}
    finally:
        interp._interpreter = _BELOW
    out = {}
    for name, (_, shape, _, data) in views.items():
        out[name] = memory.values[data.itemsize][memory.find(at[name], data.itemsize)].view(data.dtype).reshape(shape)
    return {"views": out}


class Procedural:
    """Contiguous views of any size."""

    def __init__(self, views: dict[str, tuple[int, int]]) -> None:
        self.views = views  # name -> (base, bytes)
        self.stored: dict[str, dict[int, Any]] = {k: {} for k in views}

    def __getattr__(self, name: str) -> Any:
        return getattr(_BELOW, name)

    def find(self, p: Array, size: int) -> tuple[str, Array]:
        q = p.astype(np.int64)
        for name, (base, length) in self.views.items():
            if (q >= base).all() and (q + size <= base + length).all() and ((q - base) % size == 0).all():
                return name, (q - base) // size
        raise IndexError("an access outside every view")

    def load(self, p: Array, m: Array, other: Array, d: Any) -> Any:
        d = np.dtype(d)
        mask = np.broadcast_to(m, p.shape)
        if real(p, mask):
            return _BELOW.load(p, m, other, d)
        out = np.broadcast_to(np.zeros((), d) if other is None else np.asarray(other), p.shape).astype(d).copy()
        if mask.any():
            out[mask] = element(self.find(p[mask], d.itemsize)[1]).astype(d)
        return out

    def store(self, p: Array, v: Array, m: Array) -> Any:
        mask = np.broadcast_to(m, p.shape)
        if mask.any():
            name, at = self.find(p[mask], v.itemsize)
            for i, x in zip(at.tolist(), v[mask].tolist(), strict=True):
                if i in self.stored[name]:
                    raise IndexError(f"element {i} of {name} is stored twice")
                self.stored[name][i] = x


def huge(
    source: str, views: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], int]], scalars: dict[str, Any], programs: list[int]
) -> dict[str, Any]:
    """Run some programs of one launch; `views`: name -> (dtype, shape, strides, item size). What they stored, the grid, or ``error``."""
    bases = {k: ((n + 1) << FAR) + (1 << 40) for n, k in enumerate(views)}
    memory = Procedural({k: (bases[k], int(np.prod(shape, dtype=object)) * size) for k, (_, shape, _, size) in views.items()})
    tensors = [Far(dtype, shape, strides, bases[k]) for k, (dtype, shape, strides, _) in views.items()]
    grids: list[tuple[int, ...]] = []

    def some(*a: int) -> Any:
        """The grid's loops visit the programs asked for; other ranges are ranges."""
        if len(a) == 1 and grids and a[0] == grids[-1][0] and a[0] > 4096:
            return sorted({p % a[0] for p in programs})
        if len(a) == 1 and grids and a[0] == grids[-1][1] and grids[-1][0] > 4096:
            return sorted({p // grids[-1][0] for p in programs})
        return builtins.range(*a)

    dims = interp.interpreter_builder.set_grid_dim
    interp._interpreter = memory
    interp.range = some
    interp.interpreter_builder.set_grid_dim = lambda *g: (grids.append(g), dims(*g))[1]
    try:
        load(source, Path(_FOLDER.name)).launch(*tensors, *scalars.values())
    except Exception as e:
        cause = e.__cause__ or e
        return {"error": f"{type(cause).__name__}: {cause}", "grid": grids}
    finally:
        interp._interpreter = _BELOW
        del interp.range
        interp.interpreter_builder.set_grid_dim = dims
    return {"stored": memory.stored, "grid": grids[-1] if grids else ()}


__all__ = ["huge", "strided"]
