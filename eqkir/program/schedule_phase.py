"""One phase of a segment, from a realised DAG to blocks with explicit loops. It refuses (ScheduleError), it never repairs.

A block holds the nodes of its position and the loops below it, ordered by data dependences and by anti-dependences (a load of a
version before the store that ends it). Nodes with one path share one loop, so fusion of loops is sharing of positions.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from eqkir.program.abi import Abi, Axis, axis_of, slice_axis, traversal, wide
from eqkir.program.dag import Dag, Path, flat
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Store
from eqkir.program.schedule_region import ScheduleError, node_dtype, region_of
from eqkir.program.schedule_scan import expanded
from eqkir.program.table import ROWS


class Phase:
    """One phase of a segment: its blocks, what stands in each, and in which order."""

    def __init__(
        self, dag: Dag, roots: Iterable[int], abi: Abi, axes: tuple[Axis, ...], inner: dict[tuple[int, int], tuple[str, ...]],
        ranges: dict[Path, tuple[int, int, int]],
    ) -> None:  # fmt: skip
        self.dag, self.abi, self.inner, self.ranges = dag, abi, inner, ranges
        self.rank = {a.name: i for i, a in enumerate(axes)}
        self.kinds = {a.name: a.kind for a in axes}
        self.roots = tuple(dict.fromkeys(roots))
        self.ids: dict[int, int] = {}
        self.next = 0
        self.whole: set[str] = set()
        self.phis: dict[tuple[Path, str], tuple[tuple[int, ...], tuple[int, ...], int]] = {}  # inits, yields, cond (or -1)
        self.phi_ids: dict[tuple[Path, str], list[int]] = {}
        self.tuples: dict[int, list[int]] = {}
        self.known: dict[Any, int] = {}
        self.fences: dict[Path, set[tuple[Any, Any]]] = defaultdict(set)  # (first, then) that depend through memory
        self.scan_carries: dict[Path, list[Carry]] = defaultdict(list)
        self.before: dict[Path, list[Item]] = defaultdict(list)
        self.used = self._reach()
        self.pos = {i: n for n, i in enumerate(self.used)}
        self._traversals()
        self.home: dict[int, Path] = {}
        for i in self.used:  # children first
            self.home[i] = self._home(i)
        self.dtype = dict.fromkeys(self.used, "")
        for i in self.used:
            self.dtype[i] = self._dtype(i)
        self.edges: dict[Path, dict[Any, set[Any]]] = defaultdict(lambda: defaultdict(set))
        self.items: dict[Path, set[Any]] = defaultdict(set)
        self._collect()

    # ---------------------------------------------------------------- structure
    def row(self, i: int) -> Any:
        return ROWS[self.dag.nodes[i].op]

    def is_loop(self, i: int) -> bool:
        return bool(self.row(i).loop)

    def split(self, i: int) -> tuple[list[int], list[int]]:
        """(operands read in the loop's body or in place, operands read where the loop starts); combine regions are neither."""
        body: list[int] = []
        outer: list[int] = []
        r = self.row(i)
        for j, k in enumerate(self.dag.nodes[i].kids):
            if j not in r.region:
                (outer if j in r.outer else body).extend(k if isinstance(k, tuple) else (k,))
        return body, outer

    def _reach(self) -> list[int]:
        seen: dict[int, None] = {}
        done: set[int] = set()
        for r in self.roots:
            todo = [(r, False)]
            while todo:
                i, out = todo.pop()
                if out:
                    seen.setdefault(i)
                elif i not in done:
                    done.add(i)
                    todo.append((i, True))
                    body, outer = self.split(i)
                    todo += [(k, False) for k in reversed(outer + body + self.bounds(self.dag.nodes[i].path or ()))]
        return list(seen)

    def bounds(self, path: Path) -> list[int]:
        """Bounds of the narrowed loops of a path."""
        found = [self.ranges[path[:d]] for d in range(1, len(path) + 1) if path[:d] in self.ranges]
        return [b for pair in found for b in pair if b >= 0]

    def _traversals(self) -> None:
        """The states that each loop carries, from its folds and from the states that are read inside it."""
        for i in self.used:
            n = self.dag.nodes[i]
            if n.op in ("FFoldLoop", "FWhile", "FState", "FWState"):
                assert n.path and isinstance(n.kids[0], tuple) and isinstance(n.kids[1], tuple)
                cond = n.kids[2] if n.op in ("FWhile", "FWState") else -1
                assert isinstance(cond, int)
                new = (n.kids[0], n.kids[1], cond)
                if self.phis.setdefault((n.path, n.attrs[0]), new) != new:
                    raise ScheduleError("two versions of one traversal in a loop")
        for i in self.used:
            n = self.dag.nodes[i]
            if n.op == "FForm" and (n.path, n.attrs[0]) not in self.phis:
                raise ScheduleError("a state outside the loop that carries it")

    def _home(self, i: int) -> Path:
        n = self.dag.nodes[i]
        if self.is_loop(i):
            assert n.path
            return n.path[:-1]
        if n.path is not None:
            return n.path
        return max((self.home[k] for k in flat(n.kids)), key=len, default=())

    def item(self, i: int) -> Any:
        """The item that makes value `i` in its home block: a path (a loop) or a node id."""
        return self.dag.nodes[i].path if self.is_loop(i) else i

    def _collect(self) -> None:
        for i in self.used:
            h = self.home[i]
            self.items[h].add(self.item(i))
            p = self.dag.nodes[i].path or ()
            for d in range(1, len(p) + 1):
                self.items[p[: d - 1]].add(p[:d])
            body, outer = self.split(i)
            scope = self.dag.nodes[i].path if self.is_loop(i) else h
            assert scope is not None
            later = self.is_loop(i) or self.dag.nodes[i].op in ("FState", "FWState")  # read at the end of a step
            for k in body:
                self._read(i, k, scope, None if later else i)
            inside = bool(outer) and not self.is_loop(i)
            for k in outer:
                self._read(i, k, h[:-1] if inside else h, h if inside else self.item(i))
        for path in [p for p in self.ranges if p in self.items[p[:-1]]]:
            for k in self.ranges[path]:
                if k >= 0:
                    self._read(k, k, path[:-1], path)
        self._memory()

    def _read(self, i: int, k: int, scope: Path, user: Any) -> None:
        h = self.home[k]
        if scope[: len(h)] != h:
            raise ScheduleError(f"{self.dag.nodes[i].op} at {scope} reads {self.dag.nodes[k].op} of {h}")
        consumer = user if h == scope else scope[: len(h) + 1]
        if consumer is None:
            return
        if consumer == self.item(k):
            raise ScheduleError("a loop reads its own result")
        self.edges[h][consumer].add(self.item(k))

    def _memory(self) -> None:
        """Dependences through memory: older loads before the store that ends their version, younger ones after the store that made it."""
        nodes = self.dag.nodes
        touch = [(i, *nodes[i].attrs[:3]) for i in self.used if nodes[i].op in ("FLoad", "SStore")]
        touch += [(i, nodes[i].attrs[6], 1, nodes[i].attrs[7]) for i in self.used if nodes[i].op == "SStore" and nodes[i].attrs[6] != "-"]
        stores = [t for t in touch if self.dag.nodes[t[0]].op == "SStore"]
        for s, sv, sver, six in stores:
            alias = self.abi.view(sv).alias
            for o, ov, over, oix in touch:
                if o == s or self.abi.view(ov).alias != alias:
                    continue
                is_store = self.dag.nodes[o].op == "SStore"
                ordered = set(self.inner.get((alias, sver), ())) & set(self.inner.get((alias, over), ()))
                if not ordered and over >= sver:
                    if not is_store:
                        raise ScheduleError("a phase reads what it writes")
                    continue
                self._order(s, o, sver, over, ordered, is_store, (sv, six) == (ov, oix))

    def _order(self, s: int, o: int, sver: int, over: int, ordered: set[str], is_store: bool, same: bool) -> None:
        a, b = self.home[s], self.home[o]
        d = 0
        while d < min(len(a), len(b)) and a[d] == b[d]:
            d += 1
        if not same and any(x not in ordered for x, _, _ in a[:d]):
            raise ScheduleError("a loop overwrites what another of its iterations reads")
        late_item = s if len(a) == d else a[: d + 1]
        other = o if len(b) == d else b[: d + 1]
        before = over < sver
        if before or not is_store:  # two stores are ordered once, from the younger one
            first, then = (other, late_item) if before else (late_item, other)
            if first == then:
                raise ScheduleError("accesses of one item depend on each other")
            self.edges[a[:d]][then].add(first)
            if ordered:
                self.fences[a[:d]].add((first, then))

    # ---------------------------------------------------------------- layout
    @cached_property
    def first(self) -> dict[Any, int]:
        """Position of the first node of every item: of a node itself, of what stands in a loop."""
        first: dict[Any, int] = {}
        for i in self.used:
            first.setdefault(i, self.pos[i])
            for h in (self.home[i], self.dag.nodes[i].path or ()):
                for d in range(len(h), 0, -1):
                    if h[:d] in first:  # and so is what encloses it
                        break
                    first[h[:d]] = self.pos[i]
        return first

    def block(self, path: Path) -> tuple[Item, ...]:
        """Items of a block in a deterministic topological order."""
        items, edges, first = self.items[path], self.edges[path], self.first
        need = {it: {d for d in edges.get(it, ()) if d in items} for it in items}
        users: dict[Any, list[Any]] = defaultdict(list)
        for it, ds in need.items():
            for d in ds:
                users[d].append(it)

        def key(it: Any) -> tuple[int, bool, str]:
            return first[it], isinstance(it, tuple), str(it)

        heap = [(key(it), it) for it in items if not need[it]]
        heapq.heapify(heap)
        out: list[Item] = []
        done = 0
        fences, since = self.fences.get(path, set()), set[Any]()
        while heap:
            _, it = heapq.heappop(heap)
            done += 1
            if any(then == it and first in since for first, then in fences):
                out.append(Barrier())
                since = set()
            since.add(it)
            out += self.loop(it) if isinstance(it, tuple) else self.node(it)
            for u in users[it]:
                need[u].discard(it)
                if not need[u]:
                    heapq.heappush(heap, (key(u), u))
        if done < len(items):
            raise ScheduleError("cyclic dependences between loops of one block")
        if path and any(path[-1][0] in axes for axes in self.inner.values()):  # the next step sees what this one wrote
            out.append(Barrier())
        return tuple(out)

    def new(self) -> int:
        self.next += 1
        return self.next - 1

    def fresh(self, i: int) -> int:
        self.ids[i] = self.new()
        return self.ids[i]

    def loop(self, path: Path) -> list[Item]:
        axis, label, stage = path[-1]
        keys = [key for p, key in self.phis if p == path]
        for key in keys:
            self.phi_ids[path, key] = [self.new() for _ in self.phis[path, key][0]]
        body = self.block(path)
        carries = [self.carry(i) for i in self.used if self.is_loop(i) and self.dag.nodes[i].path == path and not self.is_fold(i)]
        conds = []
        for key in keys:
            inits, yields, cond = self.phis[path, key]
            for pid, a, b in zip(self.phi_ids[path, key], inits, yields, strict=True):
                dims = self.sort(t for t in {*self.dims_of_value(a), *self.dims_of_value(b)} if axis_of(t) != axis)
                carries.append(Carry(pid, "Phi", (), (self.ids[b],), (self.ids[a],), dims, self.dtype[a]))
            conds += [self.ids[cond]] if cond >= 0 else []
        if len(conds) > 1 or (conds and len(keys) > 1):
            raise ScheduleError("two while loops in one")
        before = self.before.pop(path, [])
        carries += self.scan_carries.pop(path, ())
        lo, hi, on = (self.ids[b] if b >= 0 else -1 for b in self.ranges.get(path, (-1, -1, -1)))
        return [*before, Loop(axis, wide(label), stage, tuple(carries), body, cond=conds[0] if conds else -1, lo=lo, hi=hi, on=on)]

    def is_fold(self, i: int) -> bool:
        return self.dag.nodes[i].op in ("FFoldLoop", "FWhile")

    def carry(self, i: int) -> Carry:
        n = self.dag.nodes[i]
        body, outer = self.split(i)
        assert n.path
        dims = self.dims(i, n.path[-1][1])
        op = n.op[1:]
        attrs: tuple[Any, ...] = n.attrs[:1]
        if op == "RedLoop":
            attrs = n.attrs
        elif op == "RedNLoop":
            attrs = (n.attrs[0], region_of(self.dag, i, self.abi))
        args, inits = tuple(self.ids[k] for k in body), tuple(self.ids[k] for k in outer)
        return Carry(self.fresh(i), op, attrs, args, inits, dims, self.dtype[i], n.by)

    def node(self, i: int) -> list[Item]:
        n = self.dag.nodes[i]
        if self.is_loop(i):
            return []
        if n.op in ("FForm", "FState", "FWState"):
            assert n.path
            self.ids[i] = self.phi_ids[n.path, n.attrs[0]][n.attrs[1]]
            return []
        if n.op == "FFoldWhole":
            self.tuples[i] = [self.ids[k] for k in flat(n.kids)]
            return []
        if n.op.startswith("FScan"):
            return expanded(self, i)
        if n.op == "FPick":
            t = flat(n.kids)[0]
            m = self.dag.nodes[t]
            if self.is_fold(t):
                assert m.path
                self.ids[i] = self.phi_ids[m.path, m.attrs[0]][n.attrs[0]]
                return []
            if t in self.tuples:
                self.ids[i] = self.tuples[t][n.attrs[0]]
                return []
        if n.op == "SStore":
            value, valid, *deps = (self.ids[k] for k in flat(n.kids))
            view, version, ixs, mode, order, shared, into, at = n.attrs
            dims = self.dims(i, None)
            order, shared, into = (x if x != "-" else "" for x in (order, shared, into))
            return [Store(view, version, ixs, value, valid, tuple(deps), dims, False, mode, order, tuple(shared.split()), into, at)]
        body, _ = self.split(i)
        args = tuple(self.ids[k] for k in body)
        op, attrs, dims = n.op[1:], n.attrs, self.dims(i, None)
        if op in ("Const", "Scalar", "Index"):
            attrs = n.attrs[:1]
        elif op == "Arg":
            attrs = n.attrs[:2]
        elif op == "RedTree":
            dims = self.dims(i, n.attrs[1])
        elif op in ("ConWhole", "ConAccWhole"):
            attrs, dims = n.attrs[:2], self.dims(i, n.attrs[1])
        elif op == "RedNTree":
            attrs, dims = (n.attrs[0], region_of(self.dag, i, self.abi)), self.dims(i, n.attrs[0])
            ids, elems = n.kids[0], n.kids[1]
            assert isinstance(ids, tuple) and isinstance(elems, tuple)
            args = tuple(self.ids[k] for k in (*ids, *elems))
        elif op == "Pick":
            dims = self.dims_of_value(body[0])
        key = (op, attrs, args, dims, self.dtype[i], self.home[i], n.by)
        if key in self.known:  # one value, once: states read as `FState` and as `FForm` make equal nodes
            self.ids[i] = self.known[key]
            return []
        self.known[key] = self.fresh(i)
        return [Let(self.ids[i], op, attrs, args, dims, self.dtype[i], n.by)]

    def dims_of_value(self, i: int) -> tuple[str, ...]:
        n = self.dag.nodes[i]
        if n.op == "FPick":
            t = flat(n.kids)[0]
            m = self.dag.nodes[t]
            if m.op in ("FFoldLoop", "FWhile", "FFoldWhole"):
                ks = [k[n.attrs[0]] for k in m.kids[:2] if isinstance(k, tuple)]
                axis = m.path[-1][0] if m.path else ""
                return self.sort({t for k in ks for t in self.dims_of_value(k) if axis_of(t) != axis})
            return self.dims_of_value(t)
        bound = n.path[-1][1] if self.is_loop(i) and n.path else {"FRedNTree": n.attrs[0] if n.attrs else None}.get(n.op)
        return self.dims(i, bound)

    def sort(self, labels: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(labels, key=lambda t: self.rank[axis_of(t)]))

    def dims(self, i: int, bound: str | None) -> tuple[str, ...]:
        labels = [wide(t) for t in self.dag.nodes[i].labels or ()]
        bound = bound and wide(bound)
        self.whole |= {slice_axis(axis_of(t)) for t in labels if traversal(t) in ("W", "MW")}
        return self.sort(t for t in labels if t != bound)

    def _dtype(self, i: int) -> str:
        n = self.dag.nodes[i]
        if n.op == "FPick":
            return self.pick_dtype(i)
        if n.op in ("FState", "FWState"):
            assert isinstance(n.kids[0], tuple)
            return self.dtype[n.kids[0][n.attrs[1]]]
        body, outer = self.split(i)
        return node_dtype(n, [self.dtype[k] for k in body + outer], self.abi)

    def pick_dtype(self, i: int) -> str:
        n = self.dag.nodes[i]
        t = self.dag.nodes[flat(n.kids)[0]]
        elems = t.kids[0 if t.op in ("FFoldLoop", "FWhile", "FFoldWhole") else 1]
        assert isinstance(elems, tuple)
        return self.dtype[elems[n.attrs[0]]]
