"""Conservative realisation: an `Abstract` becomes P0, every axis traversed one element at a time (seed section 4).

The same realisation, with the stages (`FReady`) kept, is what `terms.encode` puts into the e-graph.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from eqkir.program.abi import axis_of
from eqkir.program.abstract import BOUND, Abstract, Put, VNode, axes_in, bound_axis
from eqkir.program.dag import FN, Dag, Kid, Path, RNode, SegmentDag, erase
from eqkir.program.model import Program
from eqkir.program.schedule import schedule

#: values that exist inside the loop over their axis only
SCANS = ("Scan", "ScanN", "State", "WState")


def scan_axis(n: VNode) -> str:
    """The axis along which a scan or a state runs."""
    axis: str = n.attrs[1] if n.op == "Scan" else n.attrs[0]
    return axis


class LowerError(Exception):
    """P0 has no place for a value: a scan outside the innermost loop over its axis."""


@dataclass
class Facts:
    """What contexts and positions are computed from; static properties of the source program."""

    program: Abstract
    private: frozenset[str] = frozenset()  # bound by one structured operation only, and by no store: traversed as its binder likes
    members: frozenset[str] = frozenset()  # axes of slices: never a loop
    stages: int = 0  # no value needs more loops finished than there are structured operations
    late: frozenset[tuple[str, int]] = frozenset()  # (view, version) of stores that end a version still read in their phase
    _occ: dict[int, frozenset[str]] = field(default_factory=dict)
    _depth: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def of(p: Abstract) -> Facts:
        f = Facts(p)
        used = reachable(p, [put for g in p.groups for ph in g.phases for put in ph])
        bound = [bound_axis(p.nodes[i]) for i in used if p.nodes[i].op in BOUND]
        stored = {a for g in p.groups for ph in g.phases for put in ph for a in f.put_axes(put)}
        n = Counter(bound)
        f.private = frozenset(a.name for a in p.axes if a.kind == "mem" or (a.kind != "own" and a.name not in stored and n[a.name] <= 1))
        f.members = frozenset(a.name for a in p.axes if a.kind == "mem")
        f.stages = sum(a not in f.members for a in bound)
        late = set()
        for g in p.groups:
            for ph in g.phases:
                reads = {(p.abi.view(p.nodes[i].attrs[0]).alias, p.nodes[i].attrs[1]) for i in reachable(p, ph) if p.nodes[i].op == "Load"}
                late |= {
                    (s.view, s.version)
                    for s in ph
                    if p.inside(s.view, s.version) or any(a == p.abi.view(s.view).alias and v < s.version for a, v in reads)
                }
        f.late = frozenset(late)
        return f

    def occ(self, i: int) -> frozenset[str]:
        """Axes that a context of node `i` speaks of: free ones, and shared bound ones below it."""
        if i not in self._occ:
            n = self.program.nodes[i]
            out = self.program.free(i).union(*(self.occ(a) for a in n.args))
            self._occ[i] = out - {bound_axis(n)} if n.op in BOUND and bound_axis(n) in self.private else out
        return self._occ[i]

    def depth(self, i: int) -> int:
        """Loops that must have finished before the value can be read, when every reduction is a loop."""
        if i not in self._depth:
            n = self.program.nodes[i]
            loops = n.op in BOUND and bound_axis(n) not in self.members
            self._depth[i] = max((self.depth(a) for a in n.args), default=0) + loops
        return self._depth[i]

    def put_roots(self, s: Put) -> tuple[int, ...]:
        return (s.value, s.valid, *s.deps)

    def put_axes(self, s: Put) -> frozenset[str]:
        """The iteration space of a store: axes of its index map, its data-dependent coordinates, its value and its validity."""
        inside = self.program.inside(s.view, s.version)
        return frozenset(inside).union(*(axes_in(e) for e in (*s.ixs, *s.at)), *(self.program.free(i) for i in self.put_roots(s)))

    def put_depth(self, s: Put) -> int:
        return max(self.depth(i) for i in self.put_roots(s))

    def nest(self, s: Put) -> tuple[str, ...]:
        """Loop axes of a store: ordered loops around it, those that its index map names, then the others; scanned ones come last."""
        kinds = {a.name: a.kind for a in self.program.axes}
        named = (a for e in (*s.ixs, *s.at) for a in sorted(axes_in(e)))
        axes = [*self.program.inside(s.view, s.version), *named, *sorted(self.put_axes(s))]
        names = dict.fromkeys(a for a in axes if kinds[a] not in ("own", "mem"))
        scanned = {scan_axis(self.program.nodes[i]) for i in reachable(self.program, [s]) if self.program.nodes[i].op in SCANS}
        scanned -= set(self.program.inside(s.view, s.version))  # an ordered loop goes around all that happens in a step
        return tuple(sorted(names, key=lambda a: a in scanned))


def reachable(p: Abstract, puts: Iterable[Put]) -> list[int]:
    """Nodes below these stores, ascending."""
    seen: set[int] = set()
    todo = [r for s in puts for r in (s.value, s.valid, *s.deps)]
    while todo:
        i = todo.pop()
        if i not in seen:
            seen.add(i)
            todo += p.nodes[i].args
    return sorted(seen)


def put_attrs(s: Put) -> tuple[object, ...]:
    """The attributes of a store's term, in the order of the operation table; ``-`` where there is none."""
    return s.view, s.version, s.ixs, s.mode, s.order or "-", " ".join(s.shared) or "-", s.into or "-", s.at


Context = frozenset[str]


class Realizer:
    """Realises abstract values at base labels. `requests` records (context, path, stage, node) -> id in `dag`."""

    def __init__(self, program: Abstract) -> None:
        self.program = program
        self.facts = Facts.of(program)
        self.base = {a.name: a.labels[0] for a in program.axes}
        self.rank = {a.name: i for i, a in enumerate(program.axes)}
        self.dag = Dag()
        self.requests: dict[tuple[Context, Path, int, int], int] = {}
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 100_000))

    def sort(self, labels: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(labels))

    def at(self, x: Context, path: Path, k: int, v: int) -> int:
        """The realisation of `v` at a position, hoisted out of loops that it does not depend on."""
        occ = self.facts.occ(v)
        x = frozenset(t for t in x if axis_of(t) in occ)
        key = (x, path, k, v)
        if key not in self.requests:
            if path and path != FN and path[-1][0] not in self.program.free(v):
                r = self.at(x, path[:-1], path[-1][2], v)
            else:
                r = self.here(x, path, k, v)
            self.requests[key] = r
        return self.requests[key]

    def ready(self, k: int, n: RNode) -> int:
        return self.dag.make(RNode("FReady", None, None, (k,), (self.dag.make(n),)))

    def here(self, x: Context, path: Path, k: int, v: int) -> int:
        n, free = self.program.nodes[v], self.program.free(v)
        own = self.sort(t for t in x if axis_of(t) in free)

        def kid(i: int) -> int:
            return self.at(x, path, k, i)

        def kids(ids: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(map(kid, ids))

        match n.op:
            case "Const" | "Scalar":
                return self.ready(k, RNode("F" + n.op, None, None, (n.attrs[0], n.dtype), ()))
            case "Arg":
                return self.ready(k, RNode("FArg", None, None, (*n.attrs, n.dtype), ()))
            case "Index":
                return self.ready(k, RNode("FIndex", own, path, (n.attrs[0], n.dtype), (kids(n.args),)))
            case "Load":
                return self.ready(k, RNode("FLoad", own, path, (*n.attrs, "ptr"), (kid(n.args[0]), kid(n.args[1]), kids(n.args[2:]))))
            case "Permit":  # stage -1: the value itself, as a value of its own
                return self.dag.make(RNode("FReady", None, None, (-1,), (kid(n.args[0]),)))
            case "Pick":
                return self.dag.make(RNode("FPick", None, None, n.attrs, (kid(n.args[0]),)))
            case "Form":
                return self.ready(k, RNode("FForm", own, path, (*n.attrs[:2], n.dtype), ()))
            case "Scan" | "ScanN" | "State" | "WState":
                return self.carried(x, path, k, v, own)
            case "Un" | "Bin" | "Tri" | "Cast" | "Bitcast":
                return self.dag.make(RNode("F" + n.op, own, path, n.attrs, kids(n.args)))
        return self.structured(x, path, k, v)

    def carried(self, x: Context, path: Path, k: int, v: int, own: tuple[str, ...]) -> int:
        """A scan or a state: carried by the loop that it stands in, which runs over its axis."""
        n = self.program.nodes[v]
        if scan_axis(n) in self.facts.members:
            return self.prefix(x, path, k, v, own)
        if not path or path == FN or path[-1][0] != scan_axis(n):
            raise LowerError(f"{n.op} over {scan_axis(n)} at {path}")
        q = path[-1][2]

        def here(ids: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(self.at(x, path, k, i) for i in ids)

        def before(ids: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(self.at(x, path[:-1], q, i) for i in ids)

        if n.op == "Scan":
            return self.dag.make(RNode("FScanLoop", own, path, n.attrs[:1], here(n.args)))
        if n.op == "ScanN":
            c = n.attrs[1]
            fn = tuple(self.at(frozenset(), FN, 0, i) for i in n.args[2 * c :])
            return self.dag.make(RNode("FScanNLoop", own, path, (), (before(n.args[:c]), here(n.args[c : 2 * c]), fn)))
        c = n.attrs[2]
        cond = here(n.args[2 * c :])
        kids: tuple[Kid, ...] = (before(n.args[:c]), here(n.args[c : 2 * c]), *cond)
        return self.ready(k, RNode("FWState" if cond else "FState", own, path, (n.attrs[1], n.attrs[3]), kids))

    def prefix(self, x: Context, path: Path, k: int, v: int, own: tuple[str, ...]) -> int:
        """A scan over the members of a slice: of one fragment."""
        n = self.program.nodes[v]
        label = self.base[scan_axis(n)]
        if n.op == "Scan":
            return self.dag.make(RNode("FScanWhole", own, path, (n.attrs[0], label), (self.at(x, path, k, n.args[0]),)))
        c = n.attrs[1]
        ids, elems = (tuple(self.at(x, path, k, i) for i in part) for part in (n.args[:c], n.args[c : 2 * c]))
        fn = tuple(self.at(frozenset(), FN, 0, i) for i in n.args[2 * c :])
        return self.dag.make(RNode("FScanNWhole", own, path, (label,), (ids, elems, fn)))

    def member(self, x: Context, path: Path, k: int, v: int) -> int:
        """A reduction over the members of a slice: one fragment."""
        n, axis = self.program.nodes[v], bound_axis(self.program.nodes[v])
        inner = x | {self.base[axis]}
        a = n.args

        def read(ids: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(self.at(inner, path, k, i) for i in ids)

        def space(ids: tuple[int, ...]) -> tuple[str, ...]:
            return self.sort({t for t in inner if any(axis_of(t) in self.program.free(i) for i in ids)})

        match n.op:
            case "Red":
                return self.dag.make(RNode("FRedTree", space(a), path, (n.attrs[0], self.base[axis]), read(a)))
            case "RedN":
                c = n.attrs[1]
                ids = tuple(self.at(x, path, k, i) for i in a[:c])
                fn = tuple(self.at(frozenset(), FN, 0, i) for i in a[2 * c :])
                elems = a[c : 2 * c]
                return self.dag.make(RNode("FRedNTree", space(elems), path, (self.base[axis],), (ids, read(elems), fn)))
            case "Con":
                return self.dag.make(RNode("FConWhole", space(a), path, ("fma", self.base[axis], n.dtype), read(a)))
            case "ConAcc":
                kids = (*read(a[:2]), self.at(x, path, k, a[2]))
                return self.dag.make(RNode("FConAccWhole", space(a[:2]), path, ("fma", self.base[axis], n.dtype), kids))
        raise AssertionError(n.op)

    def structured(self, x: Context, path: Path, k: int, v: int) -> int:
        n, free, q = self.program.nodes[v], self.program.free, self.facts.depth(v) - 1
        axis = bound_axis(n)
        if axis in self.facts.members:
            return self.member(x, path, k, v)
        label = self.base[axis]
        inner = x | {label} if axis in self.facts.private else x
        body = (*path, (axis, label, q))

        def read(i: int) -> int:
            return self.at(inner, body, q, i)

        def space(ids: tuple[int, ...]) -> tuple[str, ...]:
            return self.sort({t for t in inner if any(axis_of(t) in free(i) for i in ids)})

        a = n.args
        match n.op:
            case "Red":
                node = RNode("FRedLoop", space(a), body, (n.attrs[0], "tree"), (read(a[0]),))
            case "RedN":
                c = n.attrs[1]
                ids, elems, comb = a[:c], a[c : 2 * c], a[2 * c :]
                k0 = tuple(self.at(x, path, q, i) for i in ids)
                fn = tuple(self.at(frozenset(), FN, 0, i) for i in comb)
                node = RNode("FRedNLoop", space(elems), body, ("tree",), (k0, tuple(map(read, elems)), fn))
            case "Con":
                node = RNode("FConLoop", space(a), body, ("fma", n.dtype), (read(a[0]), read(a[1])))
            case "ConAcc":
                node = RNode("FConAccLoop", space(a[:2]), body, ("fma", n.dtype), (read(a[0]), read(a[1]), self.at(x, path, q, a[2])))
            case "Fold" | "While":
                c = n.attrs[2]
                k0 = tuple(self.at(x, path, q, i) for i in a[:c])
                yields = tuple(map(read, a[c : 2 * c]))
                more: tuple[int, ...] = (read(a[2 * c]),) if n.op == "While" else ()
                node = RNode("FWhile" if more else "FFoldLoop", None, body, (n.attrs[1],), (k0, yields, *more))
            case _:
                raise AssertionError(n.op)
        return self.ready(k, node)

    def plan(self, puts: Iterable[Put]) -> Context:
        """The base context of a group: labels of every axis that its stores or values speak of."""
        occ = {a for s in puts for a in self.put_occ(s)}
        return frozenset(self.base[a] for a in occ)

    def put_occ(self, s: Put) -> frozenset[str]:
        return self.facts.put_axes(s).union(*(self.facts.occ(i) for i in self.facts.put_roots(s)))

    def put(self, s: Put, x: Context) -> int:
        """A store in its loop nest: after every loop of its values, or after all loops when it ends a version read beside it."""
        x = frozenset(t for t in x if axis_of(t) in self.put_occ(s))
        k = self.facts.stages if (s.view, s.version) in self.facts.late else self.facts.put_depth(s)
        path: Path = tuple((a, self.base[a], k) for a in self.facts.nest(s))
        own = self.sort(t for t in x if axis_of(t) in self.facts.put_axes(s))
        deps = tuple(self.at(x, path, k, d) for d in s.deps)
        return self.dag.make(RNode("SStore", own, path, put_attrs(s), (self.at(x, path, k, s.value), self.at(x, path, k, s.valid), deps)))

    def order(self, axes: tuple[str, ...]) -> tuple[object, ...]:
        """Row-major order over base labels."""
        out: tuple[object, ...] = ("TUnit",)
        for a in reversed(axes):
            leaf = ("TAx", self.base[a])
            out = leaf if out == ("TUnit",) else ("TProd", leaf, out)
        return out

    def segments(self) -> list[SegmentDag]:
        """Realise every group; ids refer to `dag` with stages kept."""
        out = []
        for g in self.program.groups:
            x = self.plan(s for ph in g.phases for s in ph)
            out.append(SegmentDag("grid", self.order(g.axes), tuple(tuple(self.put(s, x) for s in ph) for ph in g.phases)))
        return out


def conservative(program: Abstract) -> Program:
    """P0: complete and executable; every loop and instance covers one element."""
    r = Realizer(program)
    segments = r.segments()
    origin = {i: program.origins[v] for (_, _, _, v), i in r.requests.items() if v in program.origins}
    dag, segs, origins = erase(r.dag, segments, origin)
    return schedule(dag, segs, program.abi, program.axes, origins=origins, inner=program.inner)
