"""From a selection (one e-node a class) to a structured `Program`: stages disappear, equal nodes become one, blocks are laid out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eqkir.extract.graph import FrozenGraph, Selection
from eqkir.program.abi import Abi, Axis
from eqkir.program.abstract import Abstract
from eqkir.program.dag import Dag, Kid, Path, RNode, SegmentDag, flat
from eqkir.program.model import Program
from eqkir.program.schedule import Laid, Lay, ScheduleError, lay_out, schedule
from eqkir.program.table import ROWS
from eqkir.terms.bounds import loop_bounds
from eqkir.terms.steer import contradiction

DecodeError = ScheduleError
#: form of a supply that stands for what an earlier loop has kept (docs/cpu.md)
FORM = "kept"


#: what may be kept for a later loop: nodes that carry nothing from step to step of their own loop
_MOVABLE = ("FConst", "FScalar", "FIndex", "FLoad", "FUn", "FBin", "FTri", "FCast", "FBitcast", "FPick", "FSupply", "FRed", "FCon")


class Memory:
    """Phases that were laid out before, of one abstract program: candidates differ in the order of segments, or in one of their phases.

    A node's *term* is what it is made of, all the way down, as a number that is the same in every DAG; a phase is known by the terms of its
    statements and of the bounds of narrowed loops."""

    def __init__(self) -> None:
        self.numbers: dict[RNode, int] = {}
        self.phases: dict[Any, tuple[Laid, tuple[tuple[int, int], ...]]] = {}  # with the term and id of every value

    def terms(self, dag: Dag) -> list[int]:
        """The term of every node."""
        out: list[int] = []
        for n in dag.nodes:
            kids = tuple([tuple([out[j] for j in k]) if isinstance(k, tuple) else out[k] for k in n.kids])
            out.append(self.numbers.setdefault(RNode(n.op, n.labels, n.path, n.attrs, kids, n.by), len(self.numbers)))
        return out

    def layer(self, dag: Dag, ranges: dict[Path, tuple[int, int, int]], make: Callable[[tuple[int, ...]], Laid]) -> Lay:
        """`make`, asked for what is not known only."""
        terms = self.terms(dag)
        node = {t: i for i, t in enumerate(terms)}
        limits = tuple((p, *(terms[i] if i >= 0 else i for i in ranges[p])) for p in sorted(ranges))

        def laid(g: int, p: int, roots: tuple[int, ...]) -> Laid:
            key = tuple([terms[i] for i in roots]), limits
            if key not in self.phases:
                made = make(roots)
                self.phases[key] = made, tuple((terms[i], v) for i, v in made.ids.items())
                return made
            known, ids = self.phases[key]
            return Laid(known.items, known.whole, {node[t]: v for t, v in ids})

        return laid


class _Decoder:
    """`again`: classes whose ``FKept`` stands for the value made again, because nothing else has its source made."""

    def __init__(self, graph: FrozenGraph, selection: Selection, again: frozenset[int] = frozenset()) -> None:
        self.g, self.sel, self.again = graph, selection, again
        self.kept: dict[int, tuple[int, int]] = {}  # class -> the node that reads what is kept, the node that was kept
        self.dag = Dag()
        self.memo: dict[int, int] = {}
        self.origins: dict[int, str] = {}
        self.places: list[tuple[str, int]] = []
        self.dtypes: dict[int, str] = {}
        self.open: set[int] = set()
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 100_000))

    def node(self, c: int) -> Any:
        try:
            return self.g.classes[c][self.sel[c]]
        except (KeyError, IndexError):
            raise DecodeError(f"class {c} has no choice") from None

    def value(self, c: int) -> int:
        if c not in self.memo:
            if c in self.open:
                raise DecodeError("the selection is cyclic")
            self.open.add(c)
            n = self.node(c)
            if n.op == "FReady":
                r = self.value(n.kids[0])
            elif n.op == "FKept":
                r = self.recalled(c, n)
            else:
                kids: tuple[Kid, ...] = tuple(self.items(k) if self.g.sorts[k] == "FL" else self.value(k) for k in n.kids)
                r = self.dag.make(RNode(n.op, n.labels, n.path, n.attrs, kids, n.by))
            self.memo[c] = r
            self.open.discard(c)
            self.dtypes.setdefault(r, self.g.dtypes[c])
            self.places += [(t, r) for t in self.g.steer.get(c, ())]
            if self.g.origins and self.g.origins[c]:
                self.origins.setdefault(r, self.g.origins[c])
        return self.memo[c]

    def recalled(self, c: int, n: Any) -> int:
        """What an earlier loop has kept, as a node of this one: the same operations on the same operands, supplied."""
        source = self.value(n.kids[0])
        made = self.dag.nodes[source]
        start = made.path[:-1] if made.path and ROWS[made.op].loop else made.path
        if not start or not n.path or start[:-1] != n.path[:-1] or start[-1][:2] != n.path[-1][:2] or start[-1][2] >= n.path[-1][2]:
            raise DecodeError("what is kept is of no earlier loop of the block")
        r = self.moved(source, start, n.path, {})
        if c not in self.again:
            r = self.dag.make(RNode("FSupply", n.labels, n.path, (FORM, n.path[-1][1]), (r,)))
            self.kept[c] = r, source
        return r

    def moved(self, i: int, start: Path, end: Path, memo: dict[int, int]) -> int:
        """A node of one loop's body as one of another's."""
        if i not in memo:
            n = self.dag.nodes[i]
            path = (*end, *n.path[len(start) :]) if n.path and n.path[: len(start)] == start else n.path
            if path != n.path and not n.op.startswith(_MOVABLE):
                raise DecodeError(f"{n.op} belongs to its loop")

            def kid(j: int) -> int:
                return self.moved(j, start, end, memo)

            kids = tuple(tuple(map(kid, k)) if isinstance(k, tuple) else kid(k) for k in n.kids)
            memo[i] = i if path == n.path and kids == n.kids else self.dag.make(RNode(n.op, n.labels, path, n.attrs, kids, n.by))
            self.dtypes.setdefault(memo[i], self.dtypes.get(i, ""))
            if i in self.origins:
                self.origins.setdefault(memo[i], self.origins[i])
        return memo[i]

    def unmade(self, segments: list[SegmentDag]) -> frozenset[int]:
        """Classes that read what nothing but them has made."""
        live: set[int] = set()
        todo = [i for s in segments for ph in s.phases for i in ph]
        while todo:
            i = todo.pop()
            if i not in live:
                live.add(i)
                todo += flat(self.dag.nodes[i].kids)
        return frozenset(c for c, (_, source) in self.kept.items() if source not in live)

    def items(self, c: int) -> tuple[int, ...]:
        out: list[int] = []
        seen: set[int] = set()
        while (n := self.node(c)).op == "FCons":
            if c in seen:
                raise DecodeError("the selection is cyclic")
            seen.add(c)
            out.append(self.value(n.kids[0]))
            c = n.kids[1]
        return tuple(out)

    def order(self, c: int, depth: int = 0) -> tuple[Any, ...]:
        if depth > 200:
            raise DecodeError("the selection is cyclic")
        n = self.node(c)
        return (n.op, *n.attrs, *(self.order(k, depth + 1) for k in n.kids))

    def phases(self, c: int, depth: int = 0) -> list[list[int]]:
        """Phases in order, each a list of stores."""
        if depth > 2000:
            raise DecodeError("the selection is cyclic")
        n = self.node(c)
        if n.op == "SSeq":
            return self.phases(n.kids[0], depth + 1) + self.phases(n.kids[1], depth + 1)
        if n.op == "SPar":
            a, b = self.phases(n.kids[0], depth + 1), self.phases(n.kids[1], depth + 1)
            if len(a) > 1 or len(b) > 1:
                raise DecodeError("phases beside each other")
            return [a[0] + b[0]]
        return [[self.value(c)]]

    def segments(self) -> list[SegmentDag]:
        out = []
        c = self.g.root
        while (n := self.node(c)).op == "SGCons":
            s = self.node(n.kids[0])
            out.append(SegmentDag(s.attrs[0], self.order(s.kids[0]), tuple(tuple(p) for p in self.phases(s.kids[1]))))
            c = n.kids[1]
            if len(out) > 10_000:
                raise DecodeError("the selection is cyclic")
        return out


def decode(
    graph: FrozenGraph,
    selection: Selection,
    program: Abstract | tuple[Abi, tuple[Axis, ...]],
    bindings: dict[str, int],
    options: dict[str, int],
    canonical: bool = False,
    memory: Memory | None = None,
) -> Program:
    """The program that a selection denotes, under one binding row. `canonical`: see `steer.signatures`; `memory`: of this graph and
    program, where several selections are decoded. Raises DecodeError where it has no legal order or scope."""
    abi, axes = (program.abi, program.axes) if isinstance(program, Abstract) else program
    d = _Decoder(graph, selection)
    segments = d.segments()
    if again := d.unmade(segments):
        d = _Decoder(graph, selection, again)
        segments = d.segments()
    token = contradiction(d.dag, d.places, d.dtypes, canonical)
    if token is not None:
        raise DecodeError(f"two places compute {token.split('#')[0] or 'one value'} in different orders, and both steer")
    inner = program.inner if isinstance(program, Abstract) else {}
    ranges = loop_bounds(d.dag, program) if isinstance(program, Abstract) else {}
    laid = memory.layer(d.dag, ranges, lambda roots: lay_out(d.dag, roots, abi, axes, inner, ranges)) if memory is not None else None
    p = schedule(
        d.dag, segments, abi, axes, bindings=bindings, options=options, origins=d.origins, inner=inner, ranges=ranges, laid=laid
    )  # fmt: skip
    if isinstance(program, Abstract) and ranges:
        p = replace(p, permissions=program.permissions)
    used = _used_parameters(p)
    return replace(p, bindings={k: v for k, v in p.bindings.items() if k in used})


def _used_parameters(p: Program) -> set[str]:
    from eqkir.program.abi import parameter
    from eqkir.program.model import Carry, Let, Loop, Store, order_labels

    out: set[str] = set()

    def labels(ls: tuple[str, ...]) -> None:
        out.update(x for t in ls if (x := parameter(t)))

    def walk(items: Any) -> None:
        for it in items:
            if isinstance(it, (Let, Carry, Store)):
                labels(it.dims)
                for a in getattr(it, "attrs", ()):
                    if isinstance(a, str) and ":" in a:
                        labels((a,))
            if isinstance(it, Loop):
                labels((it.label,))
                walk(it.carries)
                walk(it.body)

    for s in p.segments:
        labels(order_labels(s.order))
        if s.mode == "stride":
            out.add(f"P:{s.group}")
        if "TSwz" in str(s.order):
            out.add(f"G:{s.group}")
        for ph in s.phases:
            walk(ph)
    return out
