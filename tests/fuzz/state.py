"""The state of a random kernel: its builder, the typed values that are visible, its views, and the registry of productions.

A production is a function of the state that emits operations and returns the values that it made. Whatever the builder refuses is
passed over, so productions need not foresee every type; what they do owe is *valid input*: divisors are not zero, shift counts lie in the
width, floats are finite where they become integers, indices lie inside or are masked. Randomness comes from an object with the interface
of `random.Random`, which may be Hypothesis's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from eqkir.base.diagnostics import EqkirError
from eqkir.kir import ops
from eqkir.kir.builder import Builder, MemoryRef, ViewRef
from eqkir.kir.values import Dim, Value

T = TypeVar("T")
FLOAT = ("f32", "f64", "bf16", "f16")
SIGNED = ("i32", "i64", "i16", "i8", "index")
UNSIGNED = ("u32", "u8", "u16", "u64")
INT = (*SIGNED, *UNSIGNED)
NARROW = ("f8e4m3fn", "f8e5m2")
ANY = (*FLOAT, *INT, "bool")
#: how often a dtype is drawn
OFTEN = {"f32": 10, "i32": 5, "bf16": 3, "f16": 2, "f64": 2, "i64": 2, "u32": 2, "bool": 2}
SYMBOLS = ("M", "N", "K")
MAX_VIEWS, MAX_RANK = 12, 3
#: what a builder refuses, and draws that find nothing
PASSED = (EqkirError, IndexError, ValueError, LookupError)


@dataclass(frozen=True)
class Production:
    """`pure`: it touches no memory that is written and holds no control, so that it may stand in any region that reads. `wishes`: what
    its draws with `State.choose` are asked for in turn, where it is the focus of a case."""

    name: str
    make: Callable[[State], Any]
    weight: float
    pure: bool
    wishes: tuple[str, ...]


PRODUCTIONS: dict[str, Production] = {}


def production(
    weight: float = 1.0, pure: bool = True, wishes: Sequence[str] = ("",)
) -> Callable[[Callable[[State], Any]], Callable[[State], Any]]:
    """Register a production under its function's name."""

    def register(f: Callable[[State], Any]) -> Callable[[State], Any]:
        PRODUCTIONS[f.__name__] = Production(f.__name__, f, weight, pure, tuple(wishes))
        return f

    return register


def key(dim: Any) -> str:
    """Text that is equal for equal extents."""
    return repr(dim.json if isinstance(dim, Dim) else dim)


class State:
    """A kernel under construction. `scopes` holds the visible values, innermost last; `depth` counts open regions."""

    def __init__(self, rng: random.Random, name: str = "fuzz") -> None:
        self.rng, self.k = rng, Builder(name)
        self.scopes: list[list[Value]] = [[]]
        self.used: set[str] = set()
        self.views: list[ViewRef] = []
        self.symbols: dict[str, Dim] = {}
        self.depth = 0
        self.updated: set[str] = set()  # views that the kernel updates: not read elsewhere, so that their contents stay determined
        self.wish = ""

    # ------------------------------------------------------------------ draws
    def pick(self, xs: Sequence[T]) -> T:
        return xs[self.rng.randrange(len(xs))]

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def dtype(self, among: Sequence[str] = ANY) -> str:
        weights = [OFTEN.get(d, 1) for d in among]
        at = self.rng.random() * sum(weights)
        for d, w in zip(among, weights, strict=True):
            at -= w
            if at < 0:
                return d
        return among[-1]

    def symbol(self, name: str) -> Dim:
        if name not in self.symbols:
            self.symbols[name] = self.k.symbol(name)
        return self.symbols[name]

    def choose(self, xs: Sequence[T], among: Sequence[T] = ()) -> T:
        """One of `xs` at random, or what the case's focus asks for where that is one of them (or of `among`)."""
        return next((x for x in (*xs, *among) if x == self.wish), None) or self.pick(xs)

    def dim(self) -> Any:
        """An extent of a view: mostly a symbol, sometimes a small number."""
        return self.symbol(self.pick(SYMBOLS)) if self.chance(0.75) else self.pick((1, 2, 3, 4, 5))

    def shape(self, least: int = 0, most: int = MAX_RANK) -> tuple[Any, ...]:
        rank = max(least, min(most, self.pick((1, 1, 2, 2, 2, 3))))
        dims: list[Any] = []
        for _ in range(rank):  # mostly distinct symbols
            d = self.dim()
            dims.append(self.dim() if any(key(d) == key(e) for e in dims) and self.chance(0.7) else d)
        return tuple(dims)

    # ------------------------------------------------------------------ values
    @property
    def values(self) -> list[Value]:
        return [v for s in self.scopes for v in s]

    def add(self, *values: Value) -> None:
        self.scopes[-1] += [v for v in values if not v.is_record]

    @contextmanager
    def scope(self, *values: Value) -> Iterator[None]:
        """Values of a region; what is outside stays visible."""
        self.scopes.append(list(values))
        self.depth += 1
        try:
            yield
        finally:
            self.scopes.pop()
            self.depth -= 1

    @contextmanager
    def closed(self, *values: Value) -> Iterator[None]:
        """Values of a closed region, which sees nothing outside."""
        kept, self.scopes = self.scopes, [list(values)]
        self.depth += 1
        try:
            yield
        finally:
            self.scopes, self.depth = kept, self.depth - 1

    def take(self, fits: Callable[[Value], bool]) -> Value | None:
        """A visible value that fits, rather a late or unused one."""
        pool = [v for v in self.values if fits(v)]
        if not pool:
            return None
        fresh = [v for v in pool if v.id not in self.used]
        v = self.pick(fresh[-4:] if fresh and self.chance(0.6) else pool[-8:])
        self.used.add(v.id)
        return v

    def value(self, among: Sequence[str] = ANY, least: int = 0, most: int = MAX_RANK, load: float = 0.2) -> Value:
        """A value of one of the dtypes with a rank in the range: a visible one, or a new load."""
        v = None if self.chance(load) else self.take(lambda x: x.dtype in among and least <= x.rank <= most)
        return v if v is not None else self.load(self.dtype(among), self.shape(least, most))

    def like(self, x: Value, dtype: str | None = None, load: float = 0.4) -> Value:
        """Another value of `x`'s dtype (or `dtype`) that broadcasts with it."""
        d = dtype or x.dtype
        v = self.take(lambda y: y.dtype == d and y.id != x.id and broadcasts(x, y))
        if v is not None and not self.chance(load):
            return v
        shape = x.shape
        if self.chance(0.3):
            return self.constant(d)
        if self.chance(0.2) and shape:
            shape = shape[self.rng.randrange(len(shape)) :]
        elif self.chance(0.2) and shape:
            a = self.rng.randrange(len(shape))
            shape = (*shape[:a], 1, *shape[a + 1 :])
        return self.load(d, shape) if self.plain(shape) else self.constant(d)

    def plain(self, shape: Sequence[Any]) -> bool:
        """Whether a view may have this shape: numbers and symbols."""
        return all(isinstance(d, int) or isinstance(d.json, str) and d.json in self.symbols for d in shape) and len(shape) <= MAX_RANK

    def constant(self, dtype: str) -> Value:
        if dtype == "bool":
            return self.k.const(self.chance(0.5), "bool")
        if dtype in INT:
            return self.k.const(self.pick((0, 1, 2, 3, 5, 7, 100, *((-1, -2, -7) if dtype in SIGNED else ()))), dtype)
        if dtype in NARROW:
            return self.k.const(self.pick((0.0, 1.0, -2.0, 0.5)), dtype)
        plain = (0.0, 1.0, -1.0, 0.5, 2.0, -0.25, 3.0, -0.0)
        return self.k.const(self.pick(("inf", "-inf", "nan", 1e-40)) if self.chance(0.06) else self.pick(plain), dtype)

    # ------------------------------------------------------------------ memory
    def view(self, role: str, dtype: str, shape: Sequence[Any]) -> ViewRef:
        """A new view."""
        if len(self.views) >= 2 * MAX_VIEWS:
            raise LookupError("too many views")
        v = self.k.view(f"V{len(self.views)}", role, dtype, shape)
        self.views.append(v)
        return v

    def source(self, dtype: str, shape: Sequence[Any]) -> ViewRef:
        """A view to read: one that exists, or a new one."""
        known = [v for v in self.views if v.dtype == dtype and [*map(key, v.shape)] == [*map(key, shape)] and self.readable(v)]
        if known and (self.chance(0.5) or len(self.views) >= MAX_VIEWS):
            return self.pick(known)
        return self.view("inout" if self.chance(0.15) else "in", dtype, shape)

    def readable(self, v: MemoryRef) -> bool:
        return isinstance(v, ViewRef) and v.view.role != "out" and v.id not in self.updated

    def load(self, dtype: str, shape: Sequence[Any]) -> Value:
        """All of a view of this shape."""
        v = self.source(dtype, shape)
        return v[(slice(None),) * len(shape)] if shape else v[()]

    def outer(self) -> bool:
        """Whether no region is open."""
        return self.depth == 0

    # ------------------------------------------------------------------ growth
    def grow(self, n: int, pure: bool = False, first: str = "", wish: str = "") -> None:
        """Apply `n` productions, `first` among them when it is named, with what it is asked for."""
        kept = self.wish
        names = [p.name for p in PRODUCTIONS.values() if p.pure or not pure]
        weights = [PRODUCTIONS[x].weight for x in names]
        for i in range(n):
            mine = bool(first) and i == n // 2
            name = first if mine else self._weighted(names, weights)
            for _ in range(6 if mine else 1):
                self.wish = wish if mine else ""
                if self.apply(name):
                    break
        self.wish = kept

    def _weighted(self, names: list[str], weights: list[float]) -> str:
        at = self.rng.random() * sum(weights)
        for x, w in zip(names, weights, strict=True):
            at -= w
            if at < 0:
                return x
        return names[-1]

    def apply(self, name: str) -> bool:
        """Apply one production; False when the builder refuses it."""
        try:
            made = PRODUCTIONS[name].make(self)
        except PASSED:
            return False
        self.add(*(made if isinstance(made, (tuple, list)) else () if made is None else (made,)))
        return True

    def emit(self, cls: type[ops.Unary] | Any, **fields: Any) -> Value:
        """One operation with one result, by its class."""
        return self.k.one(cls, **fields)


def broadcasts(x: Value, y: Value) -> bool:
    """Whether two shapes broadcast (and the result is no larger than the larger one, so that sizes stay small)."""
    a, b = x.shape[::-1], y.shape[::-1]
    return all(key(p) == key(q) or 1 in (p, q) for p, q in zip(a, b, strict=False)) and len(b) <= MAX_RANK


def tail(shape: Sequence[Any], axis: int) -> tuple[int, ...]:
    """Ones that place a coordinate of one axis in a shape."""
    return (1,) * (len(shape) - 1 - axis)


# ------------------------------------------------------------------------------------------------ valid operands
def finite(x: Value, low: float, high: float) -> Value:
    """`x` where it is a number, held inside [low, high]; else zero."""
    k = x.k
    return k.where(x.isfinite(), x.maximum(low).minimum(high), 0.0)


def index_below(x: Value, extent: Any) -> Value:
    """An integer value as a coordinate inside an extent (which is not zero where elements are)."""
    i = x if x.dtype == "index" else x.cast("index")
    return i % x.k.value(extent, "index").maximum(1)


def whole(x: Value, dtype: str) -> Value:
    """A value of any dtype as a small number of an integer dtype."""
    if x.dtype in FLOAT:
        return finite(x, 0.0 if dtype in UNSIGNED else -100.0, 100.0).cast(dtype)
    return x.cast(dtype)
