"""Cost of programs on a CPU, in nanoseconds of one launch.

Per segment, with N instances on P cores at work (N where there are fewer)::

    compute   sum of executions * parts * slots / slots a clock      parts: vectors of the fragment (`eqkir.cpu.layout`), scalars alone
    load      sum of executions * accesses / loads a clock           an access: a vector where lanes are contiguous, else a lane
    store     the same with stores
    chain     executions * latency of every structured carry         what a step waits for the one before
    instance  N * instance_ns
    spilled   sum of executions * accumulators without a register * SPILLED
    exits     what a loop waits for that the one before reduces (`cpu_exits`)
    core      (max(compute, load, store, chain) + 0.25 * the rest + exits + instance) / P
    memory    bytes that cross DRAM / DRAM rate, bytes that miss L2 / (L3 rate * P)

    segment = max(core, memory) + 0.1 * the smaller + spilled * N / P

Bytes: an access asks for all its executions; *unique* is what all instances touch together. It crosses DRAM once a launch (unique) where
what is re-read fits half of L3, else as often as it is asked for between reuses that do not fit half of L2. A store costs a read of what it
overwrites, too, unless it is streamed. What is read or written in pieces that lie far apart takes longer (`run_factor`); how long a piece
is follows from the fragment, the loops around it and the order of instances, from the inside out, while each goes on where the last ended.

Extractors use an additive form of the same (`cpu_proxy`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eqkir.base.dtypes import NUMPY, itemsize
from eqkir.base.expr import Expr, coords
from eqkir.cpu.blocking import blocking
from eqkir.cpu.expand import MAX_STATEMENTS, only_written
from eqkir.cpu.forms import Form, form_of
from eqkir.cpu.implementations import declarations
from eqkir.cpu.instead import INSTEAD, avoided, read_instead
from eqkir.cpu.kept import is_kept, wanted
from eqkir.cpu.layout import Layout, contiguous
from eqkir.cpu.memory import STREAMED
from eqkir.extract.cost.cpu_exits import registers, waits
from eqkir.extract.cost.cpu_instead import taken_instead
from eqkir.extract.cost.cpu_kept import kept_by_phase
from eqkir.extract.cost.cpu_runs import FOLLOWED, run_of
from eqkir.extract.cost.cpu_tiles import Moved, Tiles, capacity
from eqkir.extract.cost.model import Cost, Part
from eqkir.extract.cost.strides import contiguous_axes
from eqkir.extract.cost.walk import Shape, Visit, visits
from eqkir.program.abi import axis_of, parameter
from eqkir.program.model import Carry, Item, Let, Loop, Order, Program, Region, Segment, Store, order_labels
from eqkir.program.ops import label_of
from eqkir.targets.cpu import CpuTarget

NS = 1e9
FREE_ITEMS = ("Const", "Scalar", "Pick", "Phi", "Last", "Supply")
#: what of the work that is not the bottleneck fails to hide behind it: in a core, and between core and memory
REST, OVERLAP = 0.25, 0.1
#: slots of a lane that is moved alone (gathered, or taken out of a vector)
LANE_SLOTS = 2.0
#: slots of a vector scanned inside, besides its steps: what its last lane and all before it come to
SCAN_SLOTS = 4.0
#: clocks that an accumulator in memory costs in a step, which hide behind nothing
SPILLED = 2.0
#: part of a load that it costs more where what an instance touches is larger than the first cache
SECOND = 0.5
#: statements of one part of an access: its address, its mask, itself
ACCESS_STATEMENTS = 6.0
#: bytes that a store moves for each byte of its own where the old content is fetched first
FETCHING = 1.4
#: statements of a block's main part from which decoding them is what takes time, and how much more that is
LONG, LONG_FACTOR = 400.0, 1.5


# ------------------------------------------------------------------------------------------------ whole programs
def program_cost(program: Program, target: CpuTarget, shapes: Mapping[str, int]) -> Cost:
    """Cost in ns of a structured program. Symbols without a value in `shapes` count with their default (`Extents`)."""
    shape = Shape(program, shapes)
    parts: list[Part] = []
    figures: dict[str, float] = {}
    total, reject = target.launch_ns, ""
    for n, s in enumerate(program.segments):
        cost = _Segment(program, s, n, target, shape)
        total += cost.total
        figures["statements"] = max(figures.get("statements", 0.0), cost.statements)
        if cost.statements > MAX_STATEMENTS * 0.75:
            reject = f"about {cost.statements:.0f} statements (at most {MAX_STATEMENTS * 3 // 4})"
        reject = reject or cost.misfit
        parts += [Part(f"{n}", what, "compute" if what != "memory" else "memory", v) for what, v in cost.terms.items()]
        for k, v in cost.terms.items():
            figures[f"{k}_ns"] = figures.get(f"{k}_ns", 0.0) + v
    return Cost(total, tuple(parts), figures, reject)


class _Segment:
    def __init__(self, program: Program, s: Segment, n: int, target: CpuTarget, shape: Shape) -> None:
        self.program, self.s, self.target, self.shape = program, s, target, shape
        self.layouts = [Layout(program, ph, target.vector_bytes) for ph in s.phases]
        self.instances = shape.instances(s)
        self.owned = {axis_of(x) for x in order_labels(s.order)}
        self.slots = self.loads = self.stores = self.chain = self.statements = self.spilled = 0.0
        self.bytes: dict[tuple[str, tuple[Expr, ...]], Moved] = {}
        self.plan = blocking(program, s)
        self.tiles = Tiles(program, s, shape, target, self.plan)
        self.written = only_written(program, s)
        self.places: dict[tuple[str, tuple[Expr, ...]], set[tuple[int, ...]]] = {}  # of each load: the loops around it, one a place
        for x in visits(shape, n, s):
            if isinstance(x.item, Let) and x.item.op == "Load":
                self.places.setdefault((x.item.attrs[0], x.item.attrs[2]), set()).add(tuple(id(t) for t in x.loops))
        self.loaded = {view for view, _ in self.places}
        self.kept, self.misfit = kept_by_phase(program, s, shape, self.plan is not None)
        self.forms: dict[Form, None] = {}
        self.lengths: dict[int, float] = {}  # of each block without a loop inside: statements of its main part
        sources = [{i: v.source for i, v in held.items()} for held in self.kept]
        self.avoided = [avoided(ph, program.axis, held) for ph, held in zip(s.phases, sources, strict=True)]
        self.supplied = self._supplied()
        self.filled = self._fill()
        for v in visits(shape, n, s):
            self._visit(v)
        exits = 0.0
        for ph, layout in zip(s.phases, self.layouts, strict=True):
            exits += waits(program, shape, target, layout, ph)
            spilled, combined = registers(program, shape, target, layout, ph)
            self.spilled, self.slots = self.spilled + spilled * SPILLED, self.slots + combined
        self._held()
        self.slots += sum(map(wanted, s.phases))  # the test between the bodies
        cores = min(float(target.cores), max(self.instances / self.tiles.side(), 1.0))
        clock = target.clock_hz / NS
        if max(self.lengths.values(), default=0.0) > LONG:
            self.slots, self.loads, self.stores = (LONG_FACTOR * x for x in (self.slots, self.loads, self.stores))
        terms = [
            self.slots / target.slots_per_clock,
            self.loads / target.loads_per_clock,
            self.stores / target.stores_per_clock,
            self.chain,
        ]
        each = self.tiles.instance_ns + _order_ns(s.order) + self._stray()
        work = (max(terms) + REST * (sum(terms) - max(terms)) + exits) / clock * self.instances
        core = (work + self.instances * each) / cores
        memory = self._memory(cores)
        self.total = max(core, memory) + OVERLAP * min(core, memory) + self.spilled / clock * self.instances / cores
        self.terms = {"core": core, "memory": memory, "instances": self.instances * each / cores}

    def _supplied(self) -> dict[tuple[int, int], Form]:
        """(phase, load) of what is supplied -> its form; `misfit` says of a supply that it cannot be made as its reader takes it."""
        out: dict[tuple[int, int], Form] = {}

        def walk(items: tuple[Item, ...], layout: Layout, n: int, loop: Loop | None) -> None:
            for x in items:
                if isinstance(x, Loop):
                    for c in x.carries:
                        for a in c.args:
                            s = layout.supply(a)
                            if s is not None and s.attrs[0] not in ("words", *INSTEAD) and layout.vector(c, x.label) != s.attrs[1]:
                                self.misfit = f"{c.op} by {c.by} does not run along the label of its supply"
                    walk(x.body, layout, n, x)
                elif isinstance(x, Let) and x.op == "Supply" and x.attrs[0] in INSTEAD:
                    self.misfit = self.misfit if read_instead(layout.defs, self.program.axis, x) else f"no form {x.attrs[0]}"
                elif isinstance(x, Let) and x.op == "Supply" and not is_kept(x):
                    form = form_of(self.program, self.s, loop, x, layout.defs[x.args[0]]) if loop is not None else None
                    if form is None:
                        self.misfit = f"no form {x.attrs[0]}"
                        continue
                    out[n, x.args[0]] = form
                    if form.kind != "words":
                        self.forms.setdefault(form)

        for n, (ph, layout) in enumerate(zip(self.s.phases, self.layouts, strict=True)):
            walk(ph, layout, n, None)
        return out

    def _fill(self) -> float:
        """ns of one core that filling the forms of the segment takes: bytes, and lanes taken one by one where a panel lies across."""
        out = 0.0
        for f in self.forms:
            count = self.shape.extent(axis_of(f.vector)) * self.shape.extent(axis_of(f.loop))
            out += 2.0 * itemsize(f.dtype) * count / self.target.l3_bytes_per_s * NS
            if not contiguous(f.ixs, axis_of(f.vector), frozenset()):
                out += LANE_SLOTS * count / self.target.loads_per_clock / self.target.clock_hz * NS
        return out

    def _stray(self) -> float:
        """A small charge where neighbouring instances do not lie side by side in memory: the last label of the order is the contiguous
        axis of no access, though another label is."""
        labels = order_labels(self.s.order)
        along = {a for _, ixs in self.bytes for a in contiguous_axes(ixs)} & self.owned
        return 2.0 if len(labels) > 1 and along and axis_of(labels[-1]) not in along else 0.0

    def _parts(self, layout: Layout, i: int) -> float:
        f = layout.shape(i)
        out = 1.0
        for d, lanes in zip(f.dims, f.lanes, strict=True):
            out *= lanes / f.width if d == f.vector else lanes
        return out

    def _visit(self, v: Visit) -> None:
        x, layout = v.item, self.layouts[v.phase]
        unmade, keeps = not isinstance(x, Store) and x.id in self.avoided[v.phase], bool(self.kept[v.phase])
        if unmade and not keeps:
            return
        main = 2.0 ** sum(parameter(t.label) is not None for t in v.loops) * (2.0 if keeps and not unmade else 1.0)
        bodies = main + 2.0  # main parts and tails; the end of an axis, any stride
        each = (
            ACCESS_STATEMENTS
            if isinstance(x, Store) or x.op == "Load"
            else 4.0
            if x.op.startswith("Con")
            else 1.0
            if x.op in ("Un", "Bin", "Tri", "Cast", "Bitcast")
            else 2.0
        )
        self.statements += each * bodies * self._unrolled(v, layout, x)
        if unmade:
            return
        here = id(v.loops[-1]) if v.loops else -1 - v.phase
        self.lengths[here] = self.lengths.get(here, 0.0) + each * self._unrolled(v, layout, x)
        if isinstance(x, Store):
            self._access(v, x.view, x.ixs, layout.best(self.program.lane_dims(x.dims)) if not x.atomic else "", x.places, layout, True)
            if x.atomic:
                self.chain += v.trips * 20 * self.shape.product(v.labels)
            return
        if x.op == "Load":
            self._access(v, x.attrs[0], x.attrs[2], layout.along(x.id), x.args[2:], layout, False)
        elif x.op == "Supply" and x.id in self.kept[v.phase]:  # by now from a near cache
            self.loads += v.trips * self._parts(layout, self.kept[v.phase][x.id].source)
            self.stores += v.trips * self._parts(layout, self.kept[v.phase][x.id].source)
        elif x.op not in FREE_ITEMS:
            self.slots += v.trips * self._slots(v, layout, x)
            if isinstance(x, Carry):
                self.chain += v.trips * self.target.latency_clocks * (self._chunk(v, layout, x) if x.op.startswith("Con") else 1)

    def _unrolled(self, v: Visit, layout: Layout, x: Let | Carry | Store) -> float:
        """Vectors that one execution is spelled as, one statement or a few each."""
        if isinstance(x, Carry) and (found := taken_instead(self.program, layout, v.loops[-1].label, x)) is not None:
            return found
        if isinstance(x, Let) and x.op == "Supply":
            return 0.0
        vector = layout.best(self.program.lane_dims(x.dims)) if isinstance(x, Store) else layout.along(x.id)
        args = () if isinstance(x, Store) else x.args
        out = 1.0
        for d in v.labels:
            if parameter(d):
                wide = d == vector or (d not in x.dims and any(layout.along(a) == d for a in args))
                out *= self.program.lanes(d) / (layout.width[d] if wide and d in layout.width else 1)
        return out

    def _chunk(self, v: Visit, layout: Layout, x: Carry) -> float:
        """Products that one accumulator takes in a step, one after another."""
        label = v.loops[-1].label
        n = float(self.program.lanes(label)) if parameter(label) else 1.0
        n = n / layout.width[label] if layout.along(x.args[0]) == label and label in layout.width else n
        slots = declarations()[x.by].slots if x.by else 1.0
        return max(1.0, n * min(slots, 1.0) / self._replicas(x))

    def _replicas(self, x: Carry) -> int:
        """Accumulators of one element."""
        return self.program.options.get(f"{x.by}.replicas", 1)

    def _slots(self, v: Visit, layout: Layout, x: Let | Carry) -> float:
        """Issue slots of one execution."""
        if isinstance(x, Carry) and (found := taken_instead(self.program, layout, v.loops[-1].label, x)) is not None:
            return found
        parts = self._parts(layout, x.id)
        bound = [d for d in v.labels if d not in x.dims and parameter(d)]
        if x.op.startswith(("Red", "Con")):
            for d in bound:
                n = self.program.lanes(d)
                wide = any(layout.along(a) == d for a in x.args)
                parts *= n / layout.width[d] if wide else n
                if wide and isinstance(x, Let):
                    parts += self._parts(layout, x.id) * 2 * np.log2(layout.width[d])
            region = next((a for a in x.attrs if isinstance(a, Region)), None)
            if x.by:
                parts *= declarations()[x.by].slots
            return float(parts * (len(region.body) if region else self.target.slots(str(x.attrs[0])) if x.op.startswith("Red") else 1))
        if x.op in ("Scan", "ScanN"):
            label, f = label_of(x.op, x.attrs), layout.shape(x.id)
            inside = 2.0 * np.log2(f.width) + SCAN_SLOTS if f.vector and f.vector == label else 1.0 if f.vector else LANE_SLOTS
            region = next((a for a in x.attrs if isinstance(a, Region)), None)
            return float(parts * inside * (len(region.body) if region else 1.0))
        fn = str(x.attrs[0]) if x.op in ("Un", "Bin", "Tri") else "default"
        slots = self.target.slots(fn)
        size = itemsize(x.dtype) if x.dtype in NUMPY else 8
        f = layout.shape(x.id)
        registers = max(1.0, f.width * size / self.target.vector_bytes) if f.width > 1 else 1.0
        return parts * (slots * registers + sum(self._moved(layout, a, f.vector) for a in x.args))

    def _moved(self, layout: Layout, i: int, vector: str) -> float:
        """Slots of bringing lanes of value `i` into one vector along a label."""
        if not vector or vector not in layout.dims[i] or layout.along(i) == vector:
            return 0.0
        w = layout.width[vector]
        return float(np.log2(w)) if layout.turned(i, vector) else w * LANE_SLOTS

    def _access(self, v: Visit, view: str, ixs: tuple[Expr, ...], along: str, deps: tuple[int, ...], layout: Layout, store: bool) -> None:
        dims = self.program.lane_dims(v.item.dims)
        count = 1.0
        for d in dims:
            count *= self.program.lanes(d)
        size = itemsize(self.program.abi.view(view).dtype)
        form = self.supplied.get((v.phase, v.item.id)) if isinstance(v.item, Let) else None
        if along:
            varying = frozenset(k for k, i in enumerate(deps) if along in layout.dims[i])
            dense = contiguous(ixs, axis_of(along), varying) or (form is not None and form.vector == along)
            width = layout.width[along]
            count = count / width * max(1.0, width * size / self.target.vector_bytes) if dense else count * LANE_SLOTS
        if form is not None:
            count /= form.members
        if store and isinstance(v.item, Store):
            self.slots += v.trips * count * self._moved(layout, v.item.value, along)
        if store:
            self.stores += v.trips * count
        else:
            self.loads += v.trips * count
        request = v.trips * self.instances * self.shape.product(tuple(dims), active=True) * size
        unique = float(size)
        for a in sorted({a for e in ixs for a in coords(e)}):
            unique *= self.shape.extent(a)
        whole = float(size)
        for n in self.shape.dims(view):
            whole *= n
        unique = min(unique, request) if deps else min(unique, request, whole)
        footprint = self._footprint(v, ixs, size)
        again = len(self.places.get((view, ixs), ())) > 1 and footprint <= FOLLOWED * self.target.l2_bytes
        if not store and (view, ixs) in self.bytes and footprint * (1.0 + again) > self.target.l1_bytes:  # loaded before
            self.loads += v.trips * count * SECOND
        row = self.program.lanes(along) * size if along else size
        run = 1.0
        if (form is None or form.kind == "words") and unique > self.target.l2_bytes / 2:
            run = run_of(self.shape, self.s, self.target, v, view, ixs, size, store or again)
        if store and view not in self.loaded and not (view in self.written and 0 < self.target.stream_bytes <= unique and row >= STREAMED):
            run *= FETCHING
        key = (view, ixs)
        old = self.bytes.get(key, Moved(frozenset(a for e in ixs for a in coords(e))))
        held = footprint * self.tiles.part(v)
        touched = {a: self.shape.extent(a) for a in old.axes - self.owned}
        touched |= {axis_of(d): self.shape.active(d) for d in v.item.dims if axis_of(d) in self.owned & old.axes}
        room = capacity(ixs, size, tuple(self.shape.dims(view)), lambda a: touched.get(a, 1.0), self.target)
        self.bytes[key] = Moved(
            old.axes, old.request + request * run, max(old.unique, unique * run), max(old.footprint, footprint), max(old.held, held),
            self.tiles.inside(v), old.stays and (form is not None or held <= room),
        )  # fmt: skip

    def _footprint(self, v: Visit, ixs: tuple[Expr, ...], size: int) -> float:
        """Bytes that one instance touches."""
        out = float(size)
        for a in sorted({a for e in ixs for a in coords(e)}):
            label = next((d for d in v.item.dims if axis_of(d) == a), "")
            out *= self.shape.active(label) if a in self.owned and label else self.shape.extent(a)
        return out

    def _held(self) -> None:
        """What a tile carries is stored at the end of a block and loaded at the start of the next one."""
        if self.plan and (again := self.tiles.blocks - 1):
            (layout,) = self.layouts
            parts = sum(self._parts(layout, c.id) * self._replicas(c) for c in self.plan.loop.carries)
            self.loads += again * parts
            self.stores += again * parts

    def _reuse(self, axes: frozenset[str], footprint: float, rest: float) -> float:
        """How many instances in a row find what an access reads where the one before left it: its axes do not name the label that moves
        fastest (or the one behind, while the data of a whole turn of the fastest stays in L2, beside the `rest` of an instance's)."""
        t, order = self.target, self.s.order
        labels = order_labels(order)
        if len(labels) < 2:
            return 1.0
        if order[0] == "TSwz":
            fast, slow = (order_labels(x)[-1] for x in order[1:])
            turn = min(float(self.program.bindings.get(f"G:{self.s.group}", 1)), self.shape.pieces(fast))
        else:
            fast, slow = labels[-1], labels[-2]
            turn = self.shape.pieces(fast)
        if axis_of(fast) not in axes:
            return turn if footprint <= t.l2_bytes / 2 else 1.0
        if axis_of(slow) not in axes and turn * footprint + rest <= t.l2_bytes / 2:
            return self.shape.pieces(slow)
        return 1.0

    def _memory(self, cores: float) -> float:
        t, moved = self.target, list(self.bytes.values())
        touched = sum(m.footprint for m in moved)
        fits_l2 = self.tiles.fit(moved) if self.plan else touched <= t.l2_bytes / 2
        everything = sum(m.unique for m in moved)
        dram = l3 = 0.0
        for m in moved:
            shared, found = bool(self.owned - m.axes), fits_l2 and m.stays
            again = min(m.request, m.footprint * self.instances) if found else m.request
            if m.cut:
                again /= self.tiles.reuse(m) if found else 1.0
            elif m.stays:
                again /= self._reuse(m.axes, m.footprint, touched - m.footprint)
            if shared and m.unique <= t.l2_bytes / 2:
                again = m.unique * cores
            some = min(again, m.request) / (self.tiles.kept(m) if m.cut else 1.0)
            dram += m.unique if everything <= t.l3_bytes / 2 or not shared else max(some, m.unique) if m.cut else some
            l3 += max(again, m.unique)
        filling = t.launch_ns / 2 + self.filled / cores if self.filled else 0.0
        return max(dram / t.dram_bytes_per_s, l3 / (t.l3_bytes_per_s * cores)) * NS + filling


def _order_ns(t: Order) -> float:
    """What finding an instance costs besides its digits: divisions, where an order is no product."""
    own = {"TSwz": 30.0, "TInter": 4.0, "TRev": 1.0}.get(t[0], 0.0)
    return own + sum(_order_ns(a) for a in t[1:] if isinstance(a, tuple))
