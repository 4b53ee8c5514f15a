"""The walk that the reference interpreter and the error envelope share: values, lanes, regions, extents.

Every value carries one **batch axis** in front of its logical shape, of size 1 (the same for all) or the number of *lanes*: the
points of the enclosing `parallel`s, or the elements that a combine region visits. Lanes run in lockstep, one operation at a time: a
legal order of an unordered forall, given that no point touches what another wrote, which `kir.memory` checks. Where lanes part
(a branch, a loop that ends early, an extent that differs), each part runs by itself and the values join where the region ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from eqkir.base.diagnostics import EqkirError, fail
from eqkir.base.dtypes import NUMPY
from eqkir.base.expr import Expr, evaluate, spell
from eqkir.kir.binding import Binding
from eqkir.kir.extents import symbols_of
from eqkir.kir.floats import Array
from eqkir.kir.memory import Access, Memory, Resource
from eqkir.kir.model import Arg, Extent, Op, Region, extent_expr
from eqkir.kir.reference_codes import STAGE, Trap
from eqkir.kir.types import TensorType, Type, infer

V = TypeVar("V")


class DomainValue(NamedTuple):
    """``[begin, end)`` by `step`."""

    begin: int
    end: int
    step: int

    @property
    def length(self) -> int:
        return max(0, -(-(self.end - self.begin) // self.step))

    def points(self) -> Array:
        """Coordinates, in order."""
        return np.arange(self.begin, self.end, self.step, dtype=np.int64)

    def slice(self, start: int, stop: int) -> DomainValue:
        """The points of these positions."""
        return DomainValue(self.begin + start * self.step, min(self.end, self.begin + stop * self.step), self.step)


class Record(NamedTuple):
    """The fields of a record, in order."""

    names: tuple[str, ...]
    fields: tuple[Any, ...]


class Outcome(NamedTuple):
    """How some lanes left a block: ``yield`` (its end), ``break`` or ``continue``, with values. The same lane may occur twice
    where a condition is in doubt."""

    kind: str
    lanes: Array
    values: list[Any]


class Split(NamedTuple):
    """What an operation of control returns: outcomes of its regions, of which the yields are its results."""

    outcomes: list[Outcome]


class Diverge(Exception):
    """Lanes need different extents; raised before any effect."""

    def __init__(self, keys: Array) -> None:
        super().__init__("lanes differ")
        self.keys = keys


class Abandon(Exception):
    """Lanes of which it is in doubt whether they run met invalid input."""

    def __init__(self, error: EqkirError) -> None:
        super().__init__(str(error))
        self.error = error


class Scope(dict[str, Any]):
    """Values by id; those of the surrounding scope are brought to this scope's lanes when they are first needed."""

    def __init__(self, parent: Scope | None = None, bring: Callable[[Any], Any] = lambda v: v) -> None:
        super().__init__()
        self.parent, self.bring = parent, bring

    def __missing__(self, key: str) -> Any:
        if self.parent is None:
            raise KeyError(key)
        value = self.bring(self.parent[key])
        self[key] = value
        return value


class Machine(ABC, Generic[V]):
    """Executes a kernel's body over values of type V."""

    rules: ClassVar[dict[str, Callable[[Any, Any], Any]]]

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.memory = Memory(binding.views, {k: p.role for k, p in binding.params.items()}, {k: p.dtype for k, p in binding.params.items()})
        self.batch = 1
        self.env = Scope()
        self.domains: dict[str, DomainValue] = {}
        self.defs: dict[str, Op] = {}
        self.buffers: dict[str, Resource] = {}
        self.types: dict[str, Type] = {}  # inferred when first needed
        self.levels: list[str] = []  # names of the point numbers of the enclosing parallels
        self.doubt = False  # whether it is in doubt that the current lanes run
        self.forks = 0
        self.serial = 0
        self.pointer = ""

    # ------------------------------------------------------------------------------------------------ representation
    @abstractmethod
    def move(self, f: Callable[[Array], Array], v: V) -> V:
        """Data movement: `f` on every array of a tensor."""

    @abstractmethod
    def exact(self, a: Array) -> V:
        """A value without error from an array that has its batch axis."""

    @abstractmethod
    def assemble(self, parts: Sequence[tuple[Array, V]], n: int) -> V:
        """A tensor of n lanes from the lanes of its parts; what occurs in several parts may be any of them."""

    @abstractmethod
    def concat(self, parts: Sequence[V], axis: int) -> V:
        """Tensors one after another along an axis (the batch axis counts)."""

    @abstractmethod
    def truth(self, cond: V) -> tuple[Array, Array]:
        """Of a bool scalar: which lanes are true, and of which it is in doubt; both ``[batch]``."""

    @abstractmethod
    def integers(self, v: V) -> tuple[Array, bool]:
        """The values of an integer scalar by lane, and whether one is in doubt."""

    @abstractmethod
    def blurred(self, v: V) -> V:
        """A tensor of this shape of which nothing is known."""

    @abstractmethod
    def forget(self) -> None:
        """Nothing is known any more of what the kernel may write."""

    def each(self, f: Callable[[V], V], v: Any) -> Any:
        """`f` on the tensors of a value; internal numbers (numpy arrays) count as tensors of the reference."""
        if isinstance(v, Record):
            return Record(v.names, tuple(self.each(f, x) for x in v.fields))
        return f(v)

    def _along(self, f: Callable[[Array], Array]) -> Callable[[Any], Any]:
        """`f` along the batch axis of values that have one."""

        def leaf(v: Any) -> Any:
            return v if v.shape[0] == 1 else f(v) if isinstance(v, np.ndarray) else self.move(f, v)

        return lambda v: self.each(leaf, v)

    def rows(self, v: Any, lanes: Array) -> Any:
        """Some lanes of a value."""
        return self._along(lambda a: a[lanes])(v)

    def repeat(self, v: Any, n: int) -> Any:
        """Each lane `n` times in a row."""
        return self._along(lambda a: np.repeat(a, n, axis=0))(v)

    def joined(self, parts: Sequence[tuple[Array, Any]], n: int) -> Any:
        """`assemble` for records too."""
        first = parts[0][1]
        if len(parts) == 1 and len(parts[0][0]) == n:
            return first
        if isinstance(first, Record):
            every = [self.joined([(at, v.fields[k]) for at, v in parts], n) for k in range(len(first.fields))]
            return Record(first.names, tuple(every))
        return self.assemble(parts, n)

    # ------------------------------------------------------------------------------------------------ lanes
    @contextmanager
    def _scoped(self, scope: Scope, batch: int, doubt: bool) -> Iterator[None]:
        before = self.env, self.batch, self.doubt, self.defs
        self.env, self.batch, self.doubt, self.defs = scope, batch, doubt, dict(self.defs)
        try:
            yield
        finally:
            self.env, self.batch, self.doubt, self.defs = before

    @contextmanager
    def nested(self, n: int) -> Iterator[None]:
        """A scope with n lanes for each; values defined inside end with it."""
        with self._scoped(Scope(self.env, lambda v: self.repeat(v, n)), self.batch * n, self.doubt):
            yield

    def within(self, lanes: Array, f: Callable[[], list[Outcome]], doubt: bool = False) -> list[Outcome]:
        """`f` on some lanes; its outcomes in terms of the lanes outside. `doubt`: it is in doubt whether they run."""
        if not lanes.size:
            return []
        if lanes.size == self.batch and (self.doubt or not doubt):
            return f()
        with self._scoped(Scope(self.env, lambda v: self.rows(v, lanes)), len(lanes), self.doubt or doubt):
            return [o._replace(lanes=lanes[o.lanes]) for o in f()]

    def every(self) -> Array:
        """The lanes of the current scope."""
        return np.arange(self.batch)

    def merged(self, outcomes: Sequence[Outcome]) -> tuple[Array, list[Any]]:
        """The lanes of some outcomes, in order, and their values."""
        if not outcomes:
            return np.zeros(0, np.int64), []
        if len(outcomes) == 1:
            return outcomes[0].lanes, outcomes[0].values
        lanes = np.unique(np.concatenate([o.lanes for o in outcomes]))
        at = [np.searchsorted(lanes, o.lanes) for o in outcomes]
        columns = zip(*(o.values for o in outcomes), strict=True)
        return lanes, [self.joined(list(zip(at, vs, strict=True)), len(lanes)) for vs in columns]

    def picked(self, o: Outcome, keep: Array) -> Outcome:
        """The lanes of an outcome where `keep` holds."""
        at = np.flatnonzero(keep)
        return o if at.size == len(o.lanes) else Outcome(o.kind, o.lanes[at], [self.rows(v, at) for v in o.values])

    def unsettled(self, outcomes: Sequence[Outcome], lanes: Array) -> list[Outcome]:
        """These outcomes, with nothing known of the values of `lanes`."""
        out: list[Outcome] = []
        for o in outcomes:
            hit = np.isin(o.lanes, lanes)
            if not hit.all():
                out.append(self.picked(o, ~hit))
            if hit.any():
                p = self.picked(o, hit)
                out.append(p._replace(values=[self.each(self.blurred, v) for v in p.values]))
        return out

    def attempt(self, lanes: Array, f: Callable[[], list[Outcome]]) -> tuple[list[Outcome], EqkirError | None]:
        """`f` on lanes of which it is in doubt whether they run; the error of invalid input in it, after which nothing is known."""
        try:
            return self.within(lanes, f, doubt=True), None
        except Abandon as a:
            self.forget()
            return [], a.error

    # ------------------------------------------------------------------------------------------------ execution
    def start(self) -> None:
        """Bind scalars and constexprs, then run the body. Raises EqkirError."""
        for p in self.binding.kernel.params:
            if p.id in self.binding.scalars:
                self.env[p.id] = self.exact(self.binding.scalars[p.id].reshape(1))
        with np.errstate(all="ignore"):
            self.block(self.binding.kernel.body, (), "/body")

    def block(self, body: Sequence[Op], yields: Sequence[str], pointer: str, start: int = 0) -> list[Outcome]:
        """Execute operations from `start` on; how the current lanes left."""
        outer = self.pointer
        try:
            for i in range(start, len(body)):
                op = body[i]
                self.pointer = f"{pointer}/{i}"
                try:
                    split = self.apply(op)
                except Diverge as d:
                    again = partial(self.block, body, yields, pointer, i)
                    return [o for k in np.unique(d.keys) for o in self.within(np.flatnonzero(d.keys == k), again)]
                self.defs.update(dict.fromkeys(op.results, op))
                if split is not None:
                    left = [o for o in split.outcomes if o.kind != "yield"]
                    lanes, values = self.merged([o for o in split.outcomes if o.kind == "yield"])
                    if left:
                        return self._parting(left, Outcome("yield", lanes, values), op, partial(self.block, body, yields, pointer, i + 1))
                    self.env.update(zip(op.results, values, strict=True))
            return [Outcome("yield", self.every(), [self.env[y] for y in yields])]
        finally:
            self.pointer = outer

    def apply(self, op: Op) -> Split | None:
        """Run one operation's rule; invalid input becomes an error with its place."""
        try:
            rule = self.rules.get(op.op)
            if rule is None:
                raise Trap("UNSUPPORTED", f"{type(self).__name__} has no rule for {op.op!r}")
            out: Split | None = rule(self, op)
            return out
        except Trap as t:
            error = fail(t.code, t.message, self.pointer, stage=STAGE)
            if self.doubt:
                raise Abandon(error) from None
            raise error from None

    def _parting(self, left: list[Outcome], on: Outcome, op: Op, rest: Callable[[], list[Outcome]]) -> list[Outcome]:
        """Some lanes left at `op`: the others run the rest, those that may have left in doubt."""
        unsure = np.isin(on.lanes, np.concatenate([o.lanes for o in left]))
        for mask, doubt in ((~unsure, False), (unsure, True)):
            part = self.picked(on, mask)

            def go(part: Outcome = part) -> list[Outcome]:
                self.env.update(zip(op.results, part.values, strict=True))
                return rest()

            if doubt and part.lanes.size:
                outs, error = self.attempt(part.lanes, go)
                left = [*(self.unsettled(left, part.lanes) if error else left), *outs]
            elif part.lanes.size:
                left = [*left, *self.within(part.lanes, go)]
        return left

    def bind(self, args: Sequence[Arg], values: Sequence[Any]) -> None:
        """Give a region's arguments values."""
        self.env.update(zip((a.id for a in args), values, strict=True))

    def call(self, region: Region, args: Sequence[Any], name: str = "combine") -> list[Any]:
        """A region on values that already have the current lanes; `name` is its field."""
        self.bind(region.args, args)
        return self.merged(self.block(region.body, region.yields, f"{self.pointer}/{name}/body"))[1]

    # ------------------------------------------------------------------------------------------------ extents
    def uniform(self, v: V) -> int:
        """An integer scalar that is the same in all lanes. Raises Diverge."""
        values, doubt = self.integers(v)
        if doubt:
            raise Trap("UNSUPPORTED", "an extent depends on a value that is not certain")
        if bool((values != values[0]).any()):
            raise Diverge(np.broadcast_to(values, (self.batch,)))
        return int(values[0])

    def extent(self, e: Extent) -> int:
        """The value of an extent of the JSON: over symbols, integer scalars and the lengths of domains."""
        return self.value(extent_expr(e))

    def value(self, x: Expr) -> int:
        """The value of an extent's expression."""
        try:
            known: dict[str, int] = {}
            for s in symbols_of(x):
                known[s] = self.domains[s].length if s in self.domains else self.binding.launch.get(s, 0)
                if s not in self.domains and s not in self.binding.launch:
                    known[s] = self.uniform(self.env[s])
            return int(evaluate(x, known))
        except (KeyError, ZeroDivisionError) as exc:
            raise Trap("SHAPE", f"extent {spell(x)} has no value ({exc})") from None

    def shape(self, extents: Sequence[Extent]) -> tuple[int, ...]:
        shape = tuple(self.extent(e) for e in extents)
        if min(shape, default=0) < 0:
            raise Trap("SHAPE", f"negative extent in {shape}")
        return shape

    def empty(self, result: str) -> V:
        """A result that has no elements, of its inferred type."""
        if not self.types:
            self.types = infer(self.binding.kernel)
        t = self.types[result]
        assert isinstance(t, TensorType)
        return self.exact(np.zeros((1, *(self.value(e) for e in t.shape)), NUMPY[t.dtype]))

    # ------------------------------------------------------------------------------------------------ memory
    def resource(self, name: str) -> Resource:
        """The view or buffer of this id."""
        return self.buffers[name] if name in self.buffers else self.memory.views[name]

    def locate(self, r: Resource, coords: Sequence[Array], valid: Array | None) -> Access:
        """Addresses of an access by the current lanes."""
        return self.memory.locate(r, coords, valid, self.batch, self.env[f"@{r.name}"] if r.copies else None)

    def note(self, r: Resource, a: Access, kind: str) -> None:
        """Note who touches what (`Memory.note`)."""
        self.memory.note(r, a, kind, {k: self.env[k] for k in self.levels})


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


def to_rank(a: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast with batch axis: missing axes go behind it."""
    return np.broadcast_to(a.reshape(a.shape[0], *[1] * (len(shape) - a.ndim), *a.shape[1:]), shape)
