"""A structured program as a flat list of visits: every item with its executions per instance and its lanes. Shared by the whole-program
cost models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from eqkir.extract.extents import Extents
from eqkir.extract.labels import INSIDE
from eqkir.extract.narrowed import definitions, has_effects, of_loop
from eqkir.program.abi import STEPS, axis_of, parameter, step_parameter, traversal
from eqkir.program.model import Carry, Item, Let, Loop, Program, Segment, Store, order_labels


@dataclass(frozen=True, slots=True)
class Visit:
    """`trips`: executions per instance; `loops`: enclosing loops, outermost first; `labels`: those that the work spreads over."""

    where: str
    item: Let | Carry | Store
    trips: float
    loops: tuple[Loop, ...]
    labels: tuple[str, ...]
    phase: int


class Shape:
    """Lanes, pieces and active lanes of labels of one program under assumed extents. All at least 1."""

    def __init__(self, program: Program, shapes: Mapping[str, int]) -> None:
        self.program = program
        self.extents = Extents(program.abi, shapes)
        self.axes = program.axis
        self._labels: dict[str, tuple[float, float, float]] = {}  # lanes, pieces, active
        self._products: dict[tuple[tuple[str, ...], bool], float] = {}
        self._dims: dict[str, tuple[float, ...]] = {}
        self._defs: list[dict[int, Let | Carry]] = []
        self._visited: dict[int, frozenset[str]] = {}  # by identity: axes of the loops around a loop that visit what counts alone
        self._steps: dict[int, float] = {}  # by identity: loops belong to the program

    def extent(self, axis: str) -> float:
        return float(max(1, self.extents.estimate(self.axes[axis].extent)))

    def _label(self, label: str) -> tuple[float, float, float]:
        if label not in self._labels:
            bindings, extent = self.program.bindings, self.extent(axis_of(label))
            p = parameter(label)
            lanes = float(bindings.get(p, 1)) if p else 1.0
            if traversal(label) in INSIDE:
                self._labels[label] = lanes, 1.0, min(lanes, extent)
            else:
                p = step_parameter(label) if traversal(label) in STEPS else p
                pieces = float(-(-extent // (bindings.get(p, 1) if p else 1)))
                self._labels[label] = lanes, pieces, min(lanes, extent / pieces)
        return self._labels[label]

    def lanes(self, label: str) -> float:
        return self._label(label)[0]

    def pieces(self, label: str) -> float:
        """Blocks or iterations that cover the axis; 1 for whole fragments and members of slices."""
        return self._label(label)[1]

    def steps(self, loop: Loop) -> float:
        """Iterations of a loop: fewer than its pieces where it has bounds."""
        every = self.pieces(loop.label)
        if not loop.ends:
            return every
        if id(loop) not in self._steps:
            if not self._defs:
                blocks = [ph for s in self.program.segments for ph in s.phases]
                self._defs = [definitions(ph) for ph in blocks]
                for ph in blocks:
                    self._visits(ph, frozenset())
            defs = next((d for d in self._defs if all(i in d for i in loop.ends)), {})
            step = step_parameter(loop.label)
            size = float(self.program.bindings.get(step, 1)) if step else 1.0
            expected, labels = of_loop(loop, defs, self.axes, self.extents)
            if self._visited[id(loop)] & set(expected.loops):
                expected = replace(expected, loops=())
            self._steps[id(loop)] = float(expected.steps(size, every, lambda a: self.pieces(labels[a])))
        return self._steps[id(loop)]

    def _visits(self, items: tuple[Item, ...], axes: frozenset[str]) -> None:
        for i in items:
            if isinstance(i, Loop):
                self._visited[id(i)] = axes
                self._visits(i.body, axes | {i.axis} if i.ends and has_effects(i.body) else axes)

    def active(self, label: str) -> float:
        """Lanes that hold members of the axis, averaged over its pieces."""
        return self._label(label)[2]

    def product(self, labels: tuple[str, ...], active: bool = False) -> float:
        key = labels, active
        if key not in self._products:
            out = 1.0
            for x in labels:
                out *= self._label(x)[2 if active else 0]
            self._products[key] = out
        return self._products[key]

    def dims(self, view: str) -> tuple[float, ...]:
        """Assumed extents of a view's dimensions."""
        if view not in self._dims:
            self._dims[view] = tuple(float(max(1, self.extents.estimate(e))) for e in self.program.abi.view(view).shape)
        return self._dims[view]

    def instances(self, s: Segment) -> float:
        out = 1.0
        for x in order_labels(s.order):
            out *= self.pieces(x)
        return out


def work_labels(item: Let | Carry | Store, loops: tuple[Loop, ...]) -> tuple[str, ...]:
    """The labels an item's work spreads over: those of its value, and the one that it binds."""
    labels = item.dims
    bound: str | None = None
    if isinstance(item, Carry):
        bound = loops[-1].label if loops else None
    elif isinstance(item, Let) and item.op in ("RedTree", "RedNTree", "ConWhole", "ConAccWhole"):
        bound = next(a for a in item.attrs if isinstance(a, str) and ":" in a)
    return labels if bound is None or bound in labels else (*labels, bound)


def visits(shape: Shape, index: int, s: Segment) -> Iterator[Visit]:
    """Every let, carry and store of a segment, in program order; the carries of a loop come after its body."""

    def walk(items: tuple[Item, ...], phase: int, trips: float, loops: tuple[Loop, ...]) -> Iterator[Visit]:
        for it in items:
            if isinstance(it, Loop):
                inner = (*loops, it)
                n = trips * shape.steps(it)
                yield from walk(it.body, phase, n, inner)
                for c in it.carries:
                    yield Visit(f"{index}/{phase}/{c.id}", c, n, inner, work_labels(c, inner), phase)
            elif isinstance(it, (Let, Store)):
                name = it.id if isinstance(it, Let) else f"store {it.view}"
                yield Visit(f"{index}/{phase}/{name}", it, trips, loops, work_labels(it, loops), phase)

    for p, items in enumerate(s.phases):
        yield from walk(items, p, 1.0, ())
