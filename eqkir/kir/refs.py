"""What kernel functions index: domains, views, buffers (see `kir.builder`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eqkir.kir import ops
from eqkir.kir.model import Loc, View
from eqkir.kir.node import tag
from eqkir.kir.values import Dim, Value

if TYPE_CHECKING:
    from eqkir.kir.builder_core import Core

_ATOMIC = {tag(c): c for c in (
    ops.AtomicExchange, ops.AtomicAdd, ops.AtomicMax, ops.AtomicMin, ops.AtomicAnd, ops.AtomicOr, ops.AtomicXor,
)}  # fmt: skip


class DomainRef:
    """A domain value. As an extent it stands for its length; ``d[b:e]`` is a subregion in absolute coordinates."""

    def __init__(self, k: Core, id: str) -> None:
        self.k, self.id = k, id

    @property
    def length_name(self) -> str:
        return self.id

    @property
    def length(self) -> Dim:
        return Dim(self.k, self.id)

    def __getitem__(self, part: slice) -> DomainRef:
        t = self.k.domain_type(self.id)
        if not isinstance(part, slice) or part.step is not None:
            raise self.k.error("a part of a domain is begin:end", accepted="d[b:e]")
        begin = self.k.extent_of(t.begin) if part.start is None else part.start
        end = self.k.extent_of(t.end) if part.stop is None else part.stop
        bounds = {"begin": Dim.of(self.k, begin), "end": Dim.of(self.k, end)}
        return DomainRef(self.k, self.k.shared(ops.Subregion, domain=self.id, **bounds).id)


class MemoryRef:
    """A view or buffer. ``X[:, i0:i1, i]``: each slice or domain is an axis of the result, an integer value a coordinate."""

    def __init__(self, k: Core, id: str, dtype: str, shape: tuple[Any, ...]) -> None:
        self.k, self.id, self.dtype, self.shape = k, id, dtype, shape

    def coords(self, key: Any) -> tuple[Value, ...]:
        """Coordinates of an index expression, one value an axis of the view, to be broadcast together."""
        items = key if isinstance(key, tuple) else (key,)
        if len(items) != len(self.shape):
            rank = len(self.shape)
            raise self.k.error(f"{len(items)} coordinates for {self.id} of rank {rank}", "COORDS", str(rank))
        spans = [isinstance(i, (slice, DomainRef)) for i in items]
        rank = sum(spans)
        out: list[Value] = []
        for axis, item in enumerate(items):
            if not spans[axis]:
                c = self.k.value(item, "index")
                if rank and c.rank:
                    raise self.k.error("index tensors do not mix with slices", accepted="index tensors that broadcast together, or scalars")
                out.append(c)
                continue
            d = item
            if isinstance(item, slice):
                end = self.shape[axis] if item.stop is None else item.stop
                d = self.k.domain(0 if item.start is None else item.start, end, 1 if item.step is None else item.step)
            v = self.k.indices(d)
            after = sum(spans[axis + 1 :])
            out.append(self.k.shared(ops.Reshape, x=v.id, shape=(*self.k.dims(v.shape), *(1,) * after)) if after else v)
        return tuple(out)

    def _at(self, coords: Any, valid: Value | None) -> dict[str, Any]:
        ids = tuple(c.id for c in self.coords(coords))
        return {"view": self.id, "coords": ids, "valid": None if valid is None else valid.id}

    # ------------------------------------------------------------------ plain
    def load(self, coords: Any, valid: Value | None = None, fill: Any = None) -> Value:
        """``view[coords]`` where `valid`, else `fill` (default zero)."""
        at = self._at(coords, valid)
        return self.k.one(ops.Load, fill=None if fill is None else self.k.value(fill, self.dtype).id, **at)

    def _write(
        self, cls: type[ops.Write], coords: Any, value: Any, valid: Value | None, results: int = 0, **more: Any
    ) -> tuple[Value, ...]:
        at = self._at(coords, valid)
        return self.k.emit(cls, results, value=self.k.value(value, self.dtype).id, **at, **more)

    def store(self, coords: Any, value: Any, valid: Value | None = None) -> None:
        """``view[coords] = value`` where `valid`."""
        self._write(ops.Store, coords, value, valid)

    def __getitem__(self, key: Any) -> Value:
        return self.load(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.store(key, value)

    def unique_scatter(self, coords: Any, value: Any, valid: Value | None = None) -> None:
        """A store whose valid coordinates are declared distinct."""
        self._write(ops.UniqueScatter, coords, value, valid)

    def scatter_reduce(self, fn: str, coords: Any, value: Any, valid: Value | None = None) -> None:
        """``view[coords] = fn(view[coords], value)``, in any order; fn: add mul max min and or xor."""
        self._write(ops.ScatterReduce, coords, value, valid, fn=fn)

    def assume_in_bounds(self, index: Value, axis: int) -> Value:
        """`index`, with the promise that it lies inside `axis`."""
        return self.k.one(ops.AssumeInBounds, x=index.id, view=self.id, axis=axis)

    # ------------------------------------------------------------------ atomic
    def atomic_load(self, coords: Any, valid: Value | None = None, order: str = "relaxed") -> Value:
        return self.k.one(ops.AtomicLoad, **self._at(coords, valid), order=order)

    def atomic_store(self, coords: Any, value: Any, valid: Value | None = None, order: str = "relaxed") -> None:
        self._write(ops.AtomicStore, coords, value, valid, order=order)

    def _atomic(self, name: str, coords: Any, value: Any, valid: Value | None, order: str) -> Value:
        return self._write(_ATOMIC[f"atomic_{name}"], coords, value, valid, 1, order=order)[0]

    def atomic_exchange(self, coords: Any, value: Any, valid: Value | None = None, order: str = "relaxed") -> Value:
        return self._atomic("exchange", coords, value, valid, order)

    def atomic_add(self, coords: Any, value: Any, valid: Value | None = None, order: str = "relaxed") -> Value:
        """Adds as one step; the old values. Likewise the others."""
        return self._atomic("add", coords, value, valid, order)

    def atomic_max(self, coords: Any, value: Any, valid: Value | None = None, order: str = "relaxed") -> Value:
        return self._atomic("max", coords, value, valid, order)

    def atomic_min(self, coords: Any, value: Any, valid: Value | None = None, order: str = "relaxed") -> Value:
        return self._atomic("min", coords, value, valid, order)

    def atomic_and(self, coords: Any, value: Any, valid: Value | None = None, order: str = "relaxed") -> Value:
        return self._atomic("and", coords, value, valid, order)

    def atomic_or(self, coords: Any, value: Any, valid: Value | None = None, order: str = "relaxed") -> Value:
        return self._atomic("or", coords, value, valid, order)

    def atomic_xor(self, coords: Any, value: Any, valid: Value | None = None, order: str = "relaxed") -> Value:
        return self._atomic("xor", coords, value, valid, order)

    def atomic_compare_exchange(
        self, coords: Any, expected: Any, value: Any, valid: Value | None = None, order: str = "relaxed"
    ) -> tuple[Value, Value]:
        """(old value, whether it was `expected` and is `value` now)."""
        at = self._at(coords, valid)
        e, v = self.k.value(expected, self.dtype), self.k.value(value, self.dtype)
        old, success = self.k.emit(ops.AtomicCompareExchange, 2, expected=e.id, value=v.id, **at, order=order)
        return old, success


class ViewRef(MemoryRef):
    """An external view."""

    def __init__(self, k: Core, view: View) -> None:
        super().__init__(k, view.id, view.dtype, tuple(Dim(k, s) if isinstance(s, str) else s for s in view.shape))
        self.view = view


class BufferRef(MemoryRef):
    """A buffer of the kernel."""


class Points:
    """`k.parallel(…)`: a context manager that gives the point(s), or a decorator of a function of them."""

    def __init__(self, k: Core, domains: list[DomainRef], loc: Loc | None) -> None:
        self.k, self.domains, self.loc = k, domains, loc

    def __enter__(self) -> Any:
        points = self.k.open([("index", ())] * len(self.domains), None)
        return points[0] if len(points) == 1 else tuple(points)

    def __exit__(self, *exc: object) -> None:
        region = self.k.close(())
        if exc[0] is None:
            self.k.emit(ops.Parallel, 0, domains=tuple(d.id for d in self.domains), body=region, loc=self.loc)

    def __call__(self, body: Callable[..., None]) -> None:
        with self as p:
            body(*(p if isinstance(p, tuple) else (p,)))
