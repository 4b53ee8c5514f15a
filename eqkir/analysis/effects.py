"""Memory effects of a kernel in program order, and what surrounds each operation: points of `parallel`s, loops, conditions.

A **loop** here is a region whose arguments have other values each time it runs: bodies of `for` and `while`, regions of folds over
slices. It has a name that no value has. The **conditions** of an operation say when it runs, given that the loops around it run: branches
of `if`, and not having left the loop before (`break`, `continue`).

A `for` or `while` may be **ordered**: its steps depend on each other through memory. Of every alias class that is written inside it, the
loop has versions of its own: on entry the one that a step starts from (what the step before left), one for each store of a step, and one
more for what the last step left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eqkir.kir import model as kir
from eqkir.kir.model import Kernel, Op, Parallel, Region, View

#: ("if", cond id, polarity) | ("stays", loop, n): the n-th leave of that loop did not happen | ("alive", loop) | ("active", loop)
Condition = tuple[Any, ...]
#: fields of an operation that are loops
LOOPS = {
    "for": ("body",), "while": ("cond", "body"), "region_fold": ("summarize", "combine"),
    "region_scan": ("summarize", "combine", "apply", "emit"),
}  # fmt: skip


@dataclass(frozen=True)
class Leave:
    """A `break` or `continue`: it happens where its conditions (inside the loop) and its own hold."""

    op: kir.Break | kir.Continue
    conditions: tuple[Condition, ...]


@dataclass
class LoopInfo:
    """A loop region: its operation, the name of its field there, and the ways to leave it, in program order."""

    op: Op
    name: str
    region: Region
    outer: tuple[str, ...]  # loops around it, outermost first
    leaves: list[Leave] = field(default_factory=list)

    @property
    def breaks(self) -> bool:
        return any(isinstance(x.op, kir.Break) for x in self.leaves)


@dataclass(frozen=True)
class StoreSite:
    """A store or update, or a buffer that is filled: its place, the version that it makes, and the points of `parallel`s (outermost
    first), the loops and the conditions around it."""

    op: kir.Write | kir.Buffer | kir.AtomicLoad | kir.AtomicCompareExchange
    pointer: str
    version: int
    scope: tuple[str, ...]
    loops: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    inner: tuple[str, ...] = ()  # the ordered loops among them
    when: int = 0  # its place in program order, counted together with the starts and ends of loops


@dataclass
class Effects:
    """`versions` maps the result of each load to the version of its alias class that it reads."""

    alias: dict[str, int]
    versions: dict[str, int] = field(default_factory=dict)
    stores: list[StoreSite] = field(default_factory=list)
    scopes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # value id -> points around its definition
    pointers: dict[str, str] = field(default_factory=dict)  # value id -> JSON pointer of its operation
    definitions: dict[str, tuple[Op, int]] = field(default_factory=dict)  # value id -> (operation, result number)
    points: dict[str, tuple[str, tuple[str, ...], str]] = field(default_factory=dict)  # point -> (domain, points around, loop or "")
    homes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # value or argument id -> loops around it
    conditions: dict[str, tuple[Condition, ...]] = field(default_factory=dict)  # value id -> when it is computed
    loops: dict[str, LoopInfo] = field(default_factory=dict)
    #: results of atomic operations that hold old values: buffers that the operation fills, in version 1
    kept: frozenset[str] = frozenset()
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)  # loop -> its start and end in program order
    ordered: frozenset[str] = frozenset()
    inner: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)  # (class, version) -> ordered loops where it lives

    def around(self, loops: Iterable[str]) -> tuple[str, ...]:
        """The ordered ones of these loops."""
        return tuple(x for x in loops if x in self.ordered)


def alias_classes(views: Sequence[View], noalias: Iterable[Sequence[str]] = ()) -> dict[str, int]:
    """Class number of each view: views that may overlap, transitively. Two `in` views never conflict; `noalias` sets are disjoint."""
    apart = {frozenset((a, b)) for s in noalias for a in s for b in s if a != b}
    root = {v.id: v.id for v in views}

    def find(x: str) -> str:
        while root[x] != x:
            x = root[x]
        return x

    for i, a in enumerate(views):
        for b in views[:i]:
            if not (a.role == "in" and b.role == "in") and frozenset((a.id, b.id)) not in apart:
                x, y = find(b.id), find(a.id)
                root[y] = x
    numbers: dict[str, int] = {}
    return {v.id: numbers.setdefault(find(v.id), len(numbers)) for v in views}


@dataclass(frozen=True)
class _Place:
    scope: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    inside: int = 0  # number of conditions that stand outside the innermost `for` or `while`
    leaving: str = ""  # the innermost `for` or `while` body
    inner: tuple[str, ...] = ()  # ordered loops around


class _Walk:
    def __init__(self, kernel: Kernel, ordered: frozenset[str]) -> None:
        self.out = Effects(alias_classes([p for p in kernel.params if isinstance(p, View)], kernel.noalias), ordered=ordered)
        self.current: dict[int, int] = {}
        self.clock = 0

    def version(self, c: int, inner: tuple[str, ...]) -> int:
        """The next version of a class."""
        v = self.current[c] = self.current.get(c, 0) + 1
        if inner:
            self.out.inner[c, v] = inner
        return v

    def region(self, r: Region | Kernel, at: str, place: _Place) -> None:
        for i, op in enumerate(r.body):
            loop = self.out.loops.get(place.leaving)
            before = len(loop.leaves) if loop else 0
            self.visit(op, f"{at}/body/{i}", place)
            if loop and len(loop.leaves) > before:
                more = tuple(("stays", place.leaving, n) for n in range(before, len(loop.leaves)))
                place = replace(place, conditions=(*place.conditions, *more))

    def visit(self, op: Op, at: str, place: _Place) -> None:
        out = self.out
        for n, id in enumerate(op.results):
            out.definitions[id] = (op, n)
            out.scopes[id], out.homes[id], out.conditions[id] = place.scope, place.loops, place.conditions
            out.pointers[id] = at
        if isinstance(op, kir.Load):
            out.versions[op.results[0]] = self.current.get(out.alias.get(op.view, -1), 0)
        elif isinstance(op, kir.Buffer):
            c = out.alias[op.results[0]] = 1 + max(out.alias.values(), default=-1)
            for depth in range(len(place.inner)):
                self.version(c, place.inner[: depth + 1])
            if op.init is not None:
                version = self.version(c, place.inner)
                self.store(op, at, version, place)
        elif isinstance(op, (kir.Write, kir.AtomicLoad, kir.AtomicCompareExchange)):
            version = self.version(out.alias.get(op.view, -1), place.inner)
            self.store(op, at, version, place)
            if op.results:
                out.alias[op.results[0]] = 1 + max(out.alias.values(), default=-1)
                out.versions[op.results[0]] = 1
                out.kept |= {op.results[0]}
        elif isinstance(op, (kir.Break, kir.Continue)):
            out.loops[place.leaving].leaves.append(Leave(op, place.conditions[place.inside :]))
        elif isinstance(op, Parallel):
            scope = place.scope
            for a, d in zip(op.body.args, op.domains, strict=True):
                out.points[a.id] = (d, scope, "")
                out.homes[a.id] = place.loops
                scope = (*scope, a.id)
            self.region(op.body, f"{at}/body", replace(place, scope=scope, leaving=""))
        elif isinstance(op, kir.If):
            for name, inner in op.named_regions():
                when = (*place.conditions, ("if", op.cond, name == "then"))
                self.region(inner, f"{at}/{name}", replace(place, conditions=when))
        else:
            body = f"@{len(out.loops) + (op.op == 'while')}"
            steps = place
            classes = self.written(op) if body in out.ordered else []
            if body in out.ordered:
                steps = replace(place, inner=(*place.inner, body))
            for c in classes:
                self.version(c, steps.inner)
            for name, inner in op.named_regions():
                if name in LOOPS.get(op.op, ()):
                    self.loop(op, name, inner, f"{at}/{name}", steps)
                else:
                    self.region(inner, f"{at}/{name}", _Place(place.scope, place.loops, place.conditions, inner=place.inner))
            for c in classes:
                self.version(c, place.inner)

    def store(self, op: Any, at: str, version: int, place: _Place) -> None:
        self.out.stores.append(StoreSite(op, at, version, place.scope, place.loops, place.conditions, place.inner, self.tick()))

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def written(self, op: Op) -> list[int]:
        """Alias classes, known before the operation, that something inside it writes."""
        todo, found = [op], set[int]()
        while todo:
            x = todo.pop()
            if isinstance(x, (kir.Write, kir.AtomicLoad, kir.AtomicCompareExchange)) and x.view in self.out.alias:
                found.add(self.out.alias[x.view])
            todo += [y for r in x.regions() for y in r.body]
        return sorted(found)

    def loop(self, op: Op, name: str, r: Region, at: str, place: _Place) -> None:
        out = self.out
        key = f"@{len(out.loops)}"
        out.loops[key] = LoopInfo(op, name, r, place.loops)
        loops = (*place.loops, key)
        out.homes[key] = loops
        for a in r.args:
            out.homes[a.id] = loops
            out.scopes[a.id], out.conditions[a.id], out.pointers[a.id] = place.scope, place.conditions, at
        left = isinstance(op, (kir.For, kir.While)) and name == "body"
        conditions = (*place.conditions, ("alive", key), ("active", key)) if left else place.conditions
        if isinstance(op, kir.For):
            out.points[r.args[0].id] = (op.domain, place.scope, key)
        start = self.tick()
        self.region(r, at, _Place(place.scope, loops, conditions, len(conditions), key if left else "", place.inner))
        out.spans[key] = start, self.tick()


def effects(kernel: Kernel, pointer: str = "", ordered: Iterable[str] = ()) -> Effects:
    """Walk the kernel in program order. The walk of a `parallel` or loop body stands for each time that it runs. `ordered` names loops
    (bodies of `for` and `while`) that are ordered, those around them included."""
    walk = _Walk(kernel, frozenset(ordered))
    walk.region(kernel, pointer, _Place())
    return walk.out
