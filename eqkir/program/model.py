"""Physical programs: P0, P* and legalized programs are the same kind of object (architecture.md sections 1 and 3).

A program is a list of segments of one launch. A segment maps program ids to instances (an `Order`) and holds phases; a phase is a
block of items in execution order, with explicit loops. All values are SSA ids, unique in a phase. A value is a fragment whose
dimensions are the *lane labels* among its `dims`, in that order (labels with one lane, ``O1`` and ``L1``, name scalars).

Structured stage (what encode and decode handle; P0 and P*). Inactive lanes (coordinate >= extent) are unspecified in every value;
loads and stores touch active lanes only; structured operations combine the active members of the axis that they bind:

============  ============================  ==============================================================================
op            attrs                         args -> result
============  ============================  ==============================================================================
Const Scalar Index Un Bin Tri Cast Bitcast Pick Arg     as in `abstract`
Load          (view, version, ixs, form)    valid, fill, deps…; form: ``ptr``, ``stream`` (evicted first), ``keep`` (evicted last), ``wide``
                                            (loaded by every lane that will hold a copy)
Supply        (form, label)                 a -> the same value, in the form in which an implementation wants it (CPU family, docs/cpu.md);
                                            vectors run along the label
RedTree       (fn, label)                   a -> without that label: one fragment covers the axis (label ``W``), or of the block that the
                                            instance owns (``OB``)
RedNTree      (label, Region)               idents…, elems… -> tuple
ConWhole      (impl, label)                 a, b -> impl ``mma`` (matrix unit) or ``fma`` (multiply and reduce); result dtype accumulates
ConAccWhole   (impl, label)                 a, b, init
Store (item)  Put-like, see `Store`; `deps`: data operands of the index map, then the expected value of a ``compare_exchange``, then,
              with `into`, where the old value is kept
Scan          (fn, label)                   a -> inclusive forward scan of the active lanes of that label
ScanN         (label, Region)               elems… -> tuple
Last          (label,)                      a -> the value in the last active lane of that label
carries of a `Loop` (results are readable after the loop):
Phi           ()                            args next, inits start: `id` is the current value inside the loop and the last one after it
RedLoop       (fn, mode)                    args a; mode ``tree``: each chunk is reduced and combined into an accumulator without the
                                            axis; ``lanes``: fragment accumulator, reduced once after the loop
RedNLoop      (mode, Region)                args elems…, inits idents…
ConLoop       (impl,)                       args a, b
ConAccLoop    (impl,)                       args a, b, inits init
============  ============================  ==============================================================================

Legal stage (what `legalize` makes and what an emitter spells, one construct each; nothing is implied, all lanes take part):

============  ============================  ==============================================================================
Active        (label,)                      -> bool fragment over that label: coordinate < extent
LoadM         (view, version, ixs, form)    mask, other, deps… -> form ``wide``: repeated over `dims`
FragRed       (fn, label)                   a -> reduced over that label's lanes
FragRedN      (label, Region)               elems… -> tuple
FragScan      (fn, label)                   a -> inclusive forward scan of that label's lanes
FragScanN     (label, Region)               elems… -> tuple
Dot           (label,)                      a, b, acc -> acc + a·b on the matrix unit; operand dims end (…, label) and (label, …)
Splat                                       a -> the value repeated over `dims`
Trans                                       a -> dimensions permuted to `dims`
============  ============================  ==============================================================================

``Store`` items carry an explicit mask in the legal stage (`masked` True: the `valid` argument is the whole mask).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

from eqkir.base.expr import Expr, Int, Param, Sym, ceildiv, product
from eqkir.program.abi import Abi, Axis, axis_of, parameter, step_parameter, traversal
from eqkir.program.ops import PLAIN_MODES

# ------------------------------------------------------------------------------------------------ program space
#: An order of instances: ("TAx", label) | ("TProd", a, b) row-major | ("TRev", a) last first | ("TInter", a) evens then odds |
#: ("TSwz", a, b) bands of ``Param("G:<group>")`` rows of a, inside a band column by column (L2 grouping) | ("TUnit",) the one instance.
#: Every constructor is a bijection from 0 <= lid < size onto the product of the block indices of its labels.
Order = tuple[Any, ...]


def order_labels(t: Order) -> tuple[str, ...]:
    """Labels in an order term, left to right."""
    return (t[1],) if t[0] == "TAx" else tuple(x for a in t[1:] if isinstance(a, tuple) for x in order_labels(a))


def blocks(label: str, axes: dict[str, Axis]) -> Expr:
    """Number of blocks of an instance label: ``extent`` or ``ceildiv(extent, B)``."""
    e, p = axes[axis_of(label)].extent, parameter(label)
    return ceildiv(e, Param(p)) if p else e


def order_size(t: Order, axes: dict[str, Axis]) -> Expr:
    """Number of instances: the launch expression L_g of a segment."""
    return product([blocks(x, axes) for x in order_labels(t)])


# ------------------------------------------------------------------------------------------------ items
@dataclass(frozen=True, slots=True)
class Let:
    id: int
    op: str
    attrs: tuple[Any, ...]
    args: tuple[int, ...]
    dims: tuple[str, ...]
    dtype: str
    by: str = ""  # structured operations, CPU family: the implementation that does it (empty: the one of the program's set that applies)


@dataclass(frozen=True, slots=True)
class Carry:
    id: int
    op: str
    attrs: tuple[Any, ...]
    args: tuple[int, ...]  # values of the loop body
    inits: tuple[int, ...]  # values before the loop
    dims: tuple[str, ...]  # of the result; a ``lanes`` accumulator has the loop's label besides
    dtype: str
    by: str = ""  # as of a let


@dataclass(frozen=True, slots=True)
class Loop:
    """Ordered traversal of an axis: ``L1`` one element, ``LC`` chunks of C; trip count ``ceildiv(extent, step)``.

    `stage` numbers the loops of one block over one axis (they differ in what they may read). `stages` > 1 asks the provider for
    software pipelining of that depth (legal stage).

    `cond` (>= 0) makes it a while loop: the bool value `cond` of the body is read with the carries at the start of a step; where it is
    false the
    carries keep their values, and the loop ends when it is false everywhere. Loads of such a body are valid only where `cond` holds.

    `lo` and `hi` (>= 0) are values of dtype index before the loop. Let l be the least `lo` and h the greatest `hi` over their active
    lanes: the loop takes the steps from the one that holds l up to the last one that holds a member before h; steps start at multiples
    of their size. Members that are skipped are neutral for every carry, and no store in the loop is valid there. `on` (>= 0) is a bool
    before the loop: only lanes in which it holds count for l and h, and there is no step where it holds in none; the carries of other
    lanes reach no effect.
    """

    axis: str
    label: str
    stage: int
    carries: tuple[Carry, ...]
    body: tuple[Item, ...]
    stages: int = 1
    cond: int = -1
    lo: int = -1
    hi: int = -1
    on: int = -1

    @property
    def ends(self) -> tuple[int, ...]:
        """What it reads of `lo`, `hi` and `on`."""
        return tuple(i for i in (self.lo, self.hi, self.on) if i >= 0)


@dataclass(frozen=True, slots=True)
class Store:
    view: str
    version: int
    ixs: tuple[Expr, ...]
    value: int
    valid: int
    deps: tuple[int, ...]
    dims: tuple[str, ...]
    masked: bool = False
    mode: str = "store"  # or ``unique``: a store declared injective by its author; or an atomic operation (`ops.STORE_MODES`)
    order: str = ""  # memory order of an atomic operation
    shared: tuple[str, ...] = ()  # as in `abstract.Put`
    into: str = ""  # workspace that keeps the old value (zero where not valid), at `at`, in version 1
    at: tuple[Expr, ...] = ()
    scope: str = ""  # legal stage, atomic operations: who takes part, `ops.SCOPES`

    @property
    def atomic(self) -> bool:
        return self.mode not in PLAIN_MODES

    @property
    def places(self) -> tuple[int, ...]:
        """Data operands of the index map."""
        return self.deps[: len(self.deps) - (self.mode == "compare_exchange") - bool(self.into)]

    @property
    def expected(self) -> int:
        """The expected value of a ``compare_exchange``; -1 of other modes."""
        return self.deps[-1 - bool(self.into)] if self.mode == "compare_exchange" else -1

    @property
    def live(self) -> int:
        """Where the old value is kept: the constant true, and in the legal stage the active lanes; -1 where it is not kept."""
        return self.deps[-1] if self.into else -1


@dataclass(frozen=True, slots=True)
class Barrier:
    """Every thread of the instance arrives before any goes on, and sees what the others wrote before. Explicit in an ordered
    loop between accesses that depend on each other through memory, and, in the legal stage, before a store whose alias class the same
    phase has
    loaded (a thread may hold a late copy of the old element); implied between phases."""


Item = Union[Let, Loop, Store, Barrier]


@dataclass(frozen=True, slots=True)
class Region:
    """A combine function on scalars: ``Arg ("l", i)`` and ``("r", i)`` lets with the left and right state, one yield a component."""

    dtypes: tuple[str, ...]
    body: tuple[Let, ...]
    yields: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """One execution group's part of program space. mode ``grid``: one program an instance; ``stride``: at most ``P:<group>`` programs,
    each looping over the instances ``lid, lid + programs, …``."""

    group: str
    order: Order
    mode: str
    phases: tuple[tuple[Item, ...], ...]


@dataclass(frozen=True)
class Program:
    """`bindings` gives every physical parameter its value (empty for P0); `options` are the provider's launch options of the row
    (``num_warps``, ``num_stages`` …); `preconditions` are predicates over symbols and scalars that `launch` checks."""

    abi: Abi
    axes: tuple[Axis, ...]
    segments: tuple[Segment, ...]
    bindings: dict[str, int] = field(default_factory=dict)
    options: dict[str, int] = field(default_factory=dict)
    preconditions: tuple[Expr, ...] = ()
    stage: str = "structured"  # structured | legal
    origins: dict[str, str] = field(default_factory=dict)  # "segment/phase/id", the first two counted -> text; comments only
    #: (alias class, version) -> ordered loops (strict axes) inside which that version lives; see `Abstract.inner`
    inner: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)
    #: legal stage: (label, launch predicate under which every lane of the label is active); a provider may compile both cases
    specializations: tuple[tuple[str, Expr], ...] = ()
    permissions: tuple[str, ...] = ()  # of the compile call, where the program relies on them
    implementations: tuple[str, ...] = ()  # CPU family: the set that expands structured operations (empty: all that are registered)

    @property
    def axis(self) -> dict[str, Axis]:
        return {a.name: a for a in self.axes}

    def lanes(self, label: str) -> int:
        """Lanes of a label under the bindings. Raises KeyError for an unbound parameter."""
        p = parameter(label)
        return self.bindings[p] if p else 1

    def lane_dims(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        """The labels that are fragment dimensions (those with a parameter, whatever its value)."""
        return tuple(d for d in dims if parameter(d))

    def alone(self, alias: int) -> bool:
        """Whether one instance touches an alias class, for all launches."""
        views = {v.name for v in self.abi.views if v.alias == alias}
        users = [s for s in self.segments if any(touched(ph) & views for ph in s.phases)]
        sizes = [self.axis[axis_of(x)].extent.value for s in users for x in order_labels(s.order)]
        return len(users) <= 1 and all(n is not None and n <= 1 for n in sizes)

    def length(self, s: Segment) -> Expr:
        """Instances of a segment, parameters bound: a launch expression."""
        from eqkir.base.expr import substitute

        return substitute(order_size(s.order, self.axis), {Param(p): Int(v) for p, v in self.bindings.items()})


def touched(items: tuple[Item, ...]) -> set[str]:
    """Views that a block loads from or stores to."""
    out: set[str] = set()
    for i in items:
        if isinstance(i, Loop):
            out |= touched(i.body)
        elif isinstance(i, Store):
            out |= {i.view, *([i.into] if i.into else [])}
        elif isinstance(i, Let) and i.op in ("Load", "LoadM"):
            out.add(i.attrs[0])
    return out


def step(loop: Loop) -> Expr:
    """Elements that one iteration covers."""
    p = step_parameter(loop.label)
    return Param(p) if p else Int(1)


__all__ = [
    "Abi", "Axis", "Barrier", "Carry", "Expr", "Item", "Let", "Loop", "Order", "Program", "Region", "Segment", "Store", "Sym", "axis_of",
    "blocks", "order_labels", "order_size", "parameter", "step", "step_parameter", "traversal",
]  # fmt: skip
