"""What the checks of a program share: diagnostics, and each phase laid out as places with the definitions in scope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from eqkir.base.diagnostics import Diagnostic
from eqkir.program.abi import Axis, axis_of, parameter
from eqkir.program.model import Carry, Item, Let, Loop, Program, Segment, Store, order_labels
from eqkir.program.ops import COMBINING, PLAIN_MODES


@dataclass(frozen=True)
class Place:
    """One item of a phase. `path`: item indices from the phase's block down; `loops`: enclosing loops, outermost first."""

    item: Item
    path: tuple[int, ...]
    loops: tuple[Loop, ...]
    pointer: str

    def before(self, other: Place) -> bool:
        """Whether this item runs before `other` in every iteration of the loops that both are in (and is not `other`)."""
        return self.path < other.path and other.path[: len(self.path)] != self.path

    def common(self, other: Place) -> tuple[Loop, ...]:
        """Loops around both."""
        n = 0
        while n < min(len(self.loops), len(other.loops)) and self.path[: n + 1] == other.path[: n + 1]:
            n += 1
        return self.loops[:n]


@dataclass
class Phase:
    """One phase: places in order, definitions by id, carries' places (the loop's)."""

    program: Program
    segment: Segment
    number: tuple[int, int]
    places: list[Place] = field(default_factory=list)
    defs: dict[int, Let | Carry] = field(default_factory=dict)
    home: dict[int, Place] = field(default_factory=dict)

    @property
    def pointer(self) -> str:
        return f"/segments/{self.number[0]}/phases/{self.number[1]}"

    @property
    def order(self) -> tuple[str, ...]:
        return order_labels(self.segment.order)

    def axis(self, label: str) -> Axis:
        return self.program.axis[axis_of(label)]


def phases(program: Program) -> list[Phase]:
    """All phases, in order."""
    out = []
    for n, s in enumerate(program.segments):
        for k, items in enumerate(s.phases):
            p = Phase(program, s, (n, k))
            _walk(p, items, (), (), p.pointer)
            out.append(p)
    return out


def _walk(p: Phase, items: tuple[Item, ...], path: tuple[int, ...], loops: tuple[Loop, ...], pointer: str) -> None:
    for k, i in enumerate(items):
        place = Place(i, (*path, k), loops, f"{pointer}/{k}")
        p.places.append(place)
        if isinstance(i, Let):
            p.defs.setdefault(i.id, i)
            p.home.setdefault(i.id, place)
        elif isinstance(i, Loop):
            for c in i.carries:
                p.defs.setdefault(c.id, c)
                p.home.setdefault(c.id, place)
            _walk(p, i.body, (*path, k), (*loops, i), f"{place.pointer}/body")


@dataclass(frozen=True)
class Access:
    """A load or store. `mask`: id of its validity (structured) or whole mask (legal); `deps`: data operands of the index map. An atomic
    operation that keeps its old value is two of them, the second a plain store to the workspace."""

    phase: Phase
    place: Place
    view: str
    version: int
    ixs: tuple[object, ...]
    mask: int
    deps: tuple[int, ...]
    dims: tuple[str, ...]
    is_store: bool
    mode: str = "store"

    @property
    def atomic(self) -> bool:
        return self.mode not in PLAIN_MODES

    @property
    def shared(self) -> tuple[str, ...]:
        """Axes between whose points an atomic operation comes in any order."""
        return self.place.item.shared if self.atomic and isinstance(self.place.item, Store) else ()

    def commutes(self, other: Access) -> bool:
        """Whether two atomic operations have the same effect in either order, and nobody sees which came first."""
        a, b = self.place.item, other.place.item
        if not (self.atomic and other.atomic and isinstance(a, Store) and isinstance(b, Store)):
            return False
        return self.mode == other.mode and self.mode in COMBINING and not a.into and not b.into and (a.order, b.order) == ("relaxed",) * 2

    @property
    def alias(self) -> int:
        return self.phase.program.abi.view(self.view).alias

    @property
    def inner(self) -> tuple[str, ...]:
        """Axes of the ordered loops inside which its version lives."""
        return self.phase.program.inner.get((self.alias, self.version), ())

    @property
    def around(self) -> tuple[str, ...]:
        """Labels of the order and of the enclosing loops."""
        return (*self.phase.order, *(x.label for x in self.place.loops))

    @property
    def segment(self) -> int:
        return self.phase.number[0]


def accesses(ps: list[Phase]) -> list[Access]:
    """Loads and stores in execution order."""
    out = []
    for p in ps:
        for at in p.places:
            i = at.item
            if isinstance(i, Store):
                out.append(Access(p, at, i.view, i.version, i.ixs, i.valid, i.places, i.dims, True, i.mode))
                if i.into:
                    out.append(Access(p, at, i.into, 1, i.at, i.live, (), i.dims, True))
            elif isinstance(i, Let) and i.op in ("Load", "LoadM"):
                out.append(Access(p, at, i.attrs[0], i.attrs[1], i.attrs[2], i.args[0], i.args[2:], i.dims, False))
    return out


class Report:
    """Collects diagnostics of one check."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.found: list[Diagnostic] = []

    def __call__(self, message: str, pointer: str, accepted: str = "") -> None:
        self.found.append(Diagnostic(self.code, message, pointer, accepted=accepted, stage="verify"))


def lets(p: Phase) -> Iterator[tuple[Place, Let]]:
    for at in p.places:
        if isinstance(at.item, Let):
            yield at, at.item


def loops(p: Phase) -> Iterator[tuple[Place, Loop]]:
    for at in p.places:
        if isinstance(at.item, Loop):
            yield at, at.item


def stores(p: Phase) -> Iterator[tuple[Place, Store]]:
    for at in p.places:
        if isinstance(at.item, Store):
            yield at, at.item


def lane_labels(dims: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(d for d in dims if parameter(d))
