"""The walk that the reference interpreter and the error envelope share: extents, domains, regions and `parallel`.

Every value carries one **batch axis** in front of its logical shape, of size 1 (the same for all points) or the number of points
of the enclosing `parallel`s. The points of a parallel run in lockstep, one operation at a time: a legal order of an unordered
forall, given that no point touches what another wrote, which `Memory` checks. The elements of a reduction that a combine
region visits are batched in the same way.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from eqkir.base.diagnostics import fail
from eqkir.base.expr import evaluate
from eqkir.kir.binding import Binding
from eqkir.kir.floats import Array
from eqkir.kir.memory import Memory
from eqkir.kir.model import Extent, Op, Parallel, Region, extent_expr
from eqkir.kir.reference_codes import STAGE, Trap

V = TypeVar("V")


class DomainValue(NamedTuple):
    """``[begin, end)`` by `step`."""

    begin: int
    end: int
    step: int

    def points(self) -> Array:
        """Coordinates, in order."""
        return np.arange(self.begin, self.end, self.step, dtype=np.int64)


class Machine(ABC, Generic[V]):
    """Executes a kernel's body over values of type V."""

    rules: ClassVar[dict[str, Callable[[Any, Any], None]]]

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.memory = Memory(binding.views)
        self.batch = 1
        self.env: dict[str, V] = {}
        self.domains: dict[str, DomainValue] = {}
        self.defs: dict[str, Op] = {}
        self.pointer = ""

    @abstractmethod
    def repeat(self, value: V, n: int) -> V:
        """Each batch element `n` times in a row, when the batch is larger than 1."""

    @abstractmethod
    def exact(self, a: Array) -> V:
        """A value without error from an array that has its batch axis."""

    def start(self) -> None:
        """Bind scalars and constexprs, then run the body. Raises EqkirError."""
        for p in self.binding.kernel.params:
            if p.id in self.binding.scalars:
                self.env[p.id] = self.exact(self.binding.scalars[p.id].reshape(1))
        with np.errstate(all="ignore"):
            self.execute(self.binding.kernel.body, "/body")

    def execute(self, body: Sequence[Op], pointer: str) -> None:
        for i, op in enumerate(body):
            self.pointer = f"{pointer}/{i}"
            try:
                rule = self.rules.get(op.op)
                if rule is None:
                    raise Trap("UNSUPPORTED", f"{type(self).__name__} has no rule for {op.op!r}")
                rule(self, op)
            except Trap as t:
                raise fail(t.code, t.message, self.pointer, stage=STAGE) from None
            for r in op.results:
                self.defs[r] = op

    def extent(self, e: Extent) -> int:
        """The value of an extent of the JSON."""
        try:
            return int(evaluate(extent_expr(e), self.binding.launch))
        except (KeyError, ZeroDivisionError) as exc:
            raise Trap("SHAPE", f"extent {e!r} has no value ({exc})") from None

    def shape(self, extents: Sequence[Extent]) -> tuple[int, ...]:
        shape = tuple(self.extent(e) for e in extents)
        if min(shape, default=0) < 0:
            raise Trap("SHAPE", f"negative extent in {shape}")
        return shape

    @contextmanager
    def nested(self, n: int) -> Iterator[None]:
        """A scope whose batch is `n` times larger; values defined inside end with it."""
        env, batch, defs = self.env, self.batch, self.defs
        self.env = {k: self.repeat(v, n) for k, v in env.items()} if batch > 1 else dict(env)
        self.batch, self.defs = batch * n, dict(defs)
        try:
            yield
        finally:
            self.env, self.batch, self.defs = env, batch, defs

    def call(self, region: Region, args: Sequence[V]) -> list[V]:
        """A pure region on values that already have the current batch."""
        self.env.update(zip((a.id for a in region.args), args, strict=True))
        self.execute(region.body, f"{self.pointer.split('/combine')[0]}/combine/body")
        return [self.env[y] for y in region.yields]


def run_parallel(m: Machine[Any], op: Parallel) -> None:
    """All points of the product of the domains, row-major."""
    axes = [m.domains[d].points() for d in op.domains]
    n = math.prod(len(a) for a in axes)
    if n == 0:
        return
    with m.nested(n):
        m.memory.enter(n)
        grid = np.meshgrid(*axes, indexing="ij")
        for arg, points in zip(op.body.args, grid, strict=True):
            m.env[arg.id] = m.exact(np.tile(points.reshape(-1), m.batch // n))
        m.execute(op.body.body, f"{m.pointer}/body/body")
        m.memory.leave(n)


def bind_domain(m: Machine[Any], op: Any) -> None:
    m.domains[op.results[0]] = DomainValue(m.extent(op.begin), m.extent(op.end), op.step)


def bind_indices(m: Machine[Any], op: Any) -> None:
    m.env[op.results[0]] = m.exact(m.domains[op.domain].points()[None])


def bind_extent(m: Machine[Any], op: Any) -> None:
    m.env[op.results[0]] = m.exact(np.asarray([m.extent(op.extent)], np.int64))


#: rules that do not depend on the values' representation
SHARED: dict[str, Callable[[Any, Any], None]] = {
    "parallel": run_parallel,
    "domain": bind_domain,
    "indices": bind_indices,
    "extent": bind_extent,
}


def align(arrays: Sequence[Array]) -> list[Array]:
    """Arrays with a batch axis brought to one rank: size-1 axes go between the batch and the logical shape."""
    rank = max(a.ndim for a in arrays)
    return [a if a.ndim == rank else a.reshape(a.shape[0], *[1] * (rank - a.ndim), *a.shape[1:]) for a in arrays]


def spread(arrays: Sequence[Array]) -> list[Array]:
    """Aligned and broadcast together. Traps when the shapes do not fit."""
    try:
        return list(np.broadcast_arrays(*align(arrays)))
    except ValueError:
        raise Trap("SHAPE", f"shapes {[a.shape[1:] for a in arrays]} do not broadcast") from None
