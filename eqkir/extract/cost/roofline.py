"""The default cost model: nanoseconds of one launch on a target, from a decoded program.

Per segment, with N instances, R programs resident on each of S multiprocessors, C = R S::

    dram      bytes / DRAM rate            bytes with reuse and gaps (`eqkir.extract.cost.traffic`)
    l2        bytes / L2 rate * tail       sector-expanded requests
    vector    sum of executions * slots * max(lanes, threads) / lane rate * N * tail * (1 + half_issue_warps / resident warps)
              (work: operations, and elements of computed operands that change warps)
    matrix    sum of executions * (max(2 m n k / rate, operand tiles / shared memory rate) + turned elements) * N * tail, m padded
    latency   (start + critical path of one instance) * max(1, N / C)
    tail      ceil(N / S) S / N            multiprocessors that idle at the end

    segment = max of the five + overlap * (sum of the others)     overlap by what hides: see the constants
    total   = launch + sum of segments + barrier * (phases - 1)

The critical path adds, per block of items, one load latency (the level that serves it; divided by ``num_stages - 1`` in chunk loops,
where loads are issued ahead), one issue latency an operation, one barrier a reduction; loops multiply by their trips. `contract` is not
additive (maximum, reuse); it is monotone in bytes, work and executions.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from eqkir.base.dtypes import itemsize
from eqkir.extract.cost import cpu, cpu_proxy
from eqkir.extract.cost.model import Contract, Cost, Part, Weights, register_model
from eqkir.extract.cost.occupancy import Occupancy, occupancy
from eqkir.extract.cost.proxy import NS, proxy_weights
from eqkir.extract.cost.registers import SYNCHRONISING, is_dot, pipelined
from eqkir.extract.cost.strides import contiguous_axes
from eqkir.extract.cost.traffic import accesses
from eqkir.extract.cost.walk import Shape, Visit, visits
from eqkir.extract.graph import FrozenGraph
from eqkir.extract.labels import Bools, LabelTable
from eqkir.program.abi import Abi, axis_of, parameter
from eqkir.program.broadcasts import repeated
from eqkir.program.model import Carry, Item, Let, Loop, Program, Region, Segment, Store
from eqkir.targets import CpuTarget, Machine, Target

#: widest load or store of a thread, and its issue slots (the load-store units take a quarter of the lanes a clock; as much for the address)
VECTOR_BYTES, MEMORY_SLOTS = 16, 8.0
#: rows of a fragment that one warp holds
WARP_ROWS = 16
#: items that cost nothing
FIXED = ("Const", "Scalar", "Pick", "Arg", "Phi", "Last")


class Roofline:
    name = "roofline"
    contract = Contract(additive=False, monotone=True, unit="ns")

    def weights(self, graph: FrozenGraph, table: LabelTable, abi: Abi, target: Machine, legal: Bools) -> Weights:
        if isinstance(target, CpuTarget):
            return cpu_proxy.proxy_weights(graph, table, abi, target, legal)
        return proxy_weights(graph, table, abi, target, legal)

    def program(self, program: Program, target: Machine, shapes: Mapping[str, int]) -> Cost:
        """Cost in ns of a structured program. Symbols without a value in `shapes` count with their default (`Extents`)."""
        if isinstance(target, CpuTarget):
            return cpu.program_cost(program, target, shapes)
        shape = Shape(program, shapes)
        walked = [list(visits(shape, i, s)) for i, s in enumerate(program.segments)]
        occ = occupancy(shape, target, walked)
        parts: list[Part] = [Part("launch", "launch", "fixed", target.launch_ns)]
        figures = {"registers": occ.registers, "shared_bytes": occ.shared, "resident": float(occ.resident)}
        for i, (s, items) in enumerate(zip(program.segments, walked, strict=True)):
            seg = _Segment(shape, target, occ, i, s, items)
            parts += seg.parts
            for k, v in seg.figures.items():
                figures[k] = figures.get(k, 0.0) + v
        return Cost(sum(p.cost for p in parts), tuple(parts), figures, occ.reject)


class _Segment:
    def __init__(self, shape: Shape, target: Target, occ: Occupancy, index: int, s: Segment, items: list[Visit]) -> None:
        self.shape, self.m, self.occ, self.s = shape, target, occ, s
        self.index, self.items = index, items
        self.stages = shape.program.options.get("num_stages", 1)
        self.threads = shape.program.options.get("num_warps", 1) * target.warp_size
        self.n = max(1.0, shape.instances(s))
        programs = self.n
        if s.mode == "stride":
            programs = min(self.n, float(shape.program.bindings.get(f"P:{s.group}", self.n)))
        self.concurrent = min(float(occ.resident * target.sms), programs)
        self.tail = ceil(self.n / target.sms) * target.sms / self.n
        self.operands = {x for v in items if is_dot(v.item) and isinstance(v.item, (Let, Carry)) for x in v.item.args[:2]}
        self.repeated = [repeated(ph) for ph in s.phases]
        self.copies = {
            i: dims for found in self.repeated for i, dims in found.items()
            if any(isinstance(v.item, Let) and v.item.id == i and v.item.attrs[3:] == ("wide",) for v in items)
        }  # fmt: skip
        self.types = {v.item.id: v.item for v in items if isinstance(v.item, (Let, Carry))}
        self.parts: list[Part] = []
        self.figures: dict[str, float] = {}
        self._run()

    def _run(self) -> None:
        moved = accesses(self.shape, self.m, self.s, self.items, self.concurrent)
        memory = [(a, a.dram * a.gaps / self.m.dram_bytes_per_s * NS, a.l2 / self.m.l2_bytes_per_s * NS * self.tail) for a in moved]
        compute = [(v, *self._work(v)) for v in self.items] + [(v, self._exchange(v), "vector", 0.0) for v in self.items if is_dot(v.item)]
        terms = {
            "dram": sum(d for _, d, _ in memory),
            "l2": sum(x for _, _, x in memory),
            "vector": sum(t for _, t, unit, _ in compute if unit == "vector") * self._issue_efficiency(),
            "matrix": sum(t for _, t, unit, _ in compute if unit == "matrix"),
            "latency": self._latency(),
        }
        top = max(terms, key=lambda k: (terms[k], k))
        rest = self._overlap()
        total = terms[top] + rest * sum(v for k, v in terms.items() if k != top)
        share = {k: (1.0 if k == top else rest) for k in terms}
        slow = self._issue_efficiency()
        issue = {id(v): t * slow for v, t, _, _ in compute if _is_access(v)}
        for a, d, x in memory:
            cost = share["dram"] * d + share["l2"] * x + share["vector"] * issue[id(a.visit)]
            details = {"dram_bytes": a.dram, "l2_bytes": a.l2, "executions": a.visit.trips * self.n}
            self.parts.append(Part(a.visit.where, f"{'store' if a.store else 'load'} {a.view}", "memory", cost, details))
        for v, t, unit, flops in compute:
            if t > 0 and not _is_access(v):
                t *= slow if unit == "vector" else 1.0
                self.parts.append(Part(v.where, _what(v), "compute", share[unit] * t, {"flops": flops, "executions": v.trips * self.n}))
        self.parts.append(Part(str(self.index), f"critical path, {top} bound", "latency", share["latency"] * terms["latency"]))
        self.parts.append(Part(str(self.index), "barriers", "fixed", self.m.barrier_ns * (len(self.s.phases) - 1)))
        self.figures = {
            "dram_bytes": sum(a.dram for a in moved), "l2_bytes": sum(a.l2 for a in moved), "flops": sum(f for *_, f in compute),
            "instances": self.n, **{f"{k}_ns": v for k, v in terms.items()}, "segments_ns": total,
        }  # fmt: skip

    # ------------------------------------------------------------------------------------------------ compute
    def _work(self, v: Visit) -> tuple[float, str, float]:
        """(ns of the whole segment, unit, flops)."""
        it = v.item
        runs = v.trips * self.n * self.tail
        if isinstance(it, (Let, Carry)) and it.op in FIXED:
            return 0.0, "vector", 0.0
        lanes = self.shape.product(v.labels)
        issue = max(lanes, float(self.threads))
        if isinstance(it, Store) or it.op == "Load":
            return runs * self._issue(v, lanes) / self.m.lane_rate("default") * NS, "vector", 0.0
        if it.op.startswith("Con"):
            return self._contract(v, it, runs, lanes, issue)
        slots, dtype = self.m.slots(_function(it)), it.dtype
        region = next((a for a in it.attrs if isinstance(a, Region)), None)
        if region is not None:
            rate = self.m.lane_rate("default")
            slots = sum(self.m.slots(_function(x)) * rate / self.m.lane_rate(x.dtype) for x in region.body if x.op not in FIXED)
            dtype = "default"
        if it.op == "Index":
            dtype = "index"
        return runs * slots * issue / self.m.lane_rate(dtype) * NS, "vector", v.trips * self.n * lanes

    def _issue(self, v: Visit, lanes: float) -> float:
        """Slots of the instructions of one load or store: each moves up to `VECTOR_BYTES` of adjacent elements of one thread."""
        lanes = max(lanes, self.shape.product(self.copies.get(getattr(v.item, "id", -1), ())))
        view, ixs = (v.item.view, v.item.ixs) if isinstance(v.item, Store) else (v.item.attrs[0], v.item.attrs[2])
        along = contiguous_axes(ixs)
        run = self.shape.product(tuple(x for x in v.labels if axis_of(x) in along))
        size = itemsize(self.shape.program.abi.view(view).dtype)
        dims = self.shape.dims(view)
        aligned = int(dims[-1] * size) if len(dims) > 1 else VECTOR_BYTES  # rows start at multiples of this
        vector = max(1.0, min(min(VECTOR_BYTES, aligned & -aligned) / size, lanes / self.threads, run))
        staged = self._is_staged(v) and not (isinstance(v.item, Let) and v.item.id in self.operands)
        return MEMORY_SLOTS * max(lanes / vector, float(self.threads)) * (2.0 if staged else 1.0)

    def _is_staged(self, v: Visit) -> bool:
        """Whether a load goes through shared memory: once in, once out again."""
        return not isinstance(v.item, Store) and self.shape.product(v.item.dims) > 1 and pipelined(v.loops, self.stages)

    def _overlap(self) -> float:
        """The part of the other terms that does not hide behind the largest: little where many programs are resident."""
        loops = [v.loops for v in self.items if v.loops]
        rest = self.m.overlap
        least = rest.straight if not loops else rest.ahead if all(pipelined(x, self.stages) for x in loops) else rest.waiting
        dots = [v for v in self.items if is_dot(v.item)]
        chained = any(v.loops and isinstance(v.item, Let) for v in dots)  # what follows waits for the matrix unit in each iteration
        alone = rest.alone / self.occ.resident
        hidden = max(rest.ahead, alone) if chained else rest.ahead if dots else max(least, alone)
        return hidden + rest.stride * (self.s.mode == "stride")

    def _contract(self, v: Visit, it: Let | Carry, runs: float, lanes: float, issue: float) -> tuple[float, str, float]:
        flops = 2 * lanes * v.trips * self.n
        a, b = (self.types[x] for x in it.args[:2])
        dot = self.m.dot(a.dtype, b.dtype, it.dtype) if is_dot(it) else None
        if dot is None:
            return runs * 2 * issue / self.m.lane_rate(it.dtype) * NS, "vector", flops
        bound = [x for x in v.labels if parameter(x)]
        k = next(iter(sorted((x for x in bound if x not in it.dims), key=lambda x: -((x in a.dims) + (x in b.dims)))), None)
        if k is None:
            return runs * 2 * issue / self.m.lane_rate(it.dtype) * NS, "vector", flops
        m = self.shape.product(tuple(x for x in a.dims if x != k and x not in b.dims))
        n = self.shape.product(tuple(x for x in b.dims if x != k and x not in a.dims))
        kk = self.shape.lanes(k)
        unit = self.m.matrix_rows if dot.unit == "matrix" else 1
        padded = 2 * ceil(m / unit) * unit * kk * n
        tiles = m * kk * itemsize(dot.a) + kk * n * itemsize(dot.b)
        shared = self.m.shared_bytes_per_clock * self.m.clock_hz * self.m.sms
        turned = sum(self.shape.product(x.dims) for x in (a, b) if not self._contiguous_along(x, k)) * dot.transpose_slots
        return runs * (max(padded / dot.flops_per_s, tiles / shared) + turned / self.m.lane_rate("default")) * NS, "matrix", flops

    def _exchange(self, v: Visit) -> float:
        """Ns of bringing a computed operand to the warps: where rows do not fill them, its columns lie in several of them."""
        assert isinstance(v.item, (Let, Carry))
        a, b = (self.types[x] for x in v.item.args[:2])
        rows = self.shape.product(tuple(x for x in a.dims if x not in b.dims))
        if not _computed(a) or rows * self.m.warp_size >= WARP_ROWS * self.threads:
            return 0.0
        lanes = self.shape.product(a.dims)
        return v.trips * self.n * self.tail * self.m.exchange_slots * lanes / self.m.lane_rate("default") * NS

    def _contiguous_along(self, x: Let | Carry, k: str) -> bool:
        """Whether an operand is loaded with the contracted axis as its last coordinate (computed operands count as such)."""
        return _computed(x) or axis_of(k) in contiguous_axes(x.attrs[2])

    # ------------------------------------------------------------------------------------------------ latency
    def _latency(self) -> float:
        path = sum(self._block(items, (), copied) for items, copied in zip(self.s.phases, self.repeated, strict=True))
        return (self.m.instance_ns + path) * max(1.0, self.n / self.concurrent)

    def _block(self, items: tuple[Item, ...], loops: tuple[Loop, ...], copied: Mapping[int, tuple[str, ...]]) -> float:
        """Critical path of a block: loads of one block are in flight together, everything else follows in order. `copied`: `repeated` of
        the phase."""
        load = total = 0.0
        for it in items:
            if isinstance(it, Loop):
                inner = self._block(it.body, (*loops, it), copied)
                waits = sum(self.m.barrier_ns for c in it.carries if "tree" in c.attrs or is_dot(c))
                after = sum(self.m.barrier_ns for c in it.carries if "lanes" in c.attrs)
                total += self.shape.steps(it) * (inner + waits + self.m.op_latency_ns * len(it.carries)) + after
            elif isinstance(it, Let):
                if it.op == "Load":
                    latency = self._load_latency(it, loops)
                    if it.id in copied and it.attrs[3] != "wide":  # one thread's copy for all, through memory, before what follows
                        total += latency + 2 * self.m.barrier_ns
                    load = max(load, latency)
                elif it.op not in FIXED:
                    slots = self.m.slots(_function(it))
                    total += self.m.op_latency_ns * max(1.0, slots / 4)
                    if it.op in SYNCHRONISING:
                        total += self.m.barrier_ns
        return total + load

    def _load_latency(self, it: Let, loops: tuple[Loop, ...]) -> float:
        size = itemsize(self.shape.program.abi.view(it.attrs[0]).dtype)
        along = contiguous_axes(it.attrs[2])
        run = self.shape.product(tuple(x for x in it.dims if axis_of(x) in along), active=True) * size
        miss = 1.0
        if loops and loops[-1].axis in along:
            miss = min(1.0, run / self.m.sector_bytes)
        latency = self.m.l1_latency_ns + (self.m.dram_latency_ns - self.m.l1_latency_ns) * miss
        return latency / self._ahead(loops)

    def _issue_efficiency(self) -> float:
        """How much longer vector work takes with few warps: ``1 + half / resident warps``."""
        warps = min(float(self.occ.resident), ceil(self.n / self.m.sms)) * self.threads / self.m.warp_size
        return 1.0 + self.m.half_issue_warps / warps

    def _ahead(self, loops: tuple[Loop, ...]) -> float:
        """Iterations whose loads are in flight together: ``num_stages - 1`` where they are issued ahead, no more than the trips."""
        if not pipelined(loops, self.stages) or not any(is_dot(x) for x in (*loops[-1].carries, *loops[-1].body)):
            return 1.0
        return max(1.0, min(self.stages - 1.0, self.shape.steps(loops[-1])))


def _function(it: Let | Carry) -> str:
    return str(it.attrs[0]) if it.op in ("Un", "Bin", "Tri", "RedTree", "RedLoop", "Scan") else "default"


def _computed(x: Let | Carry) -> bool:
    return not (isinstance(x, Let) and x.op == "Load")


def _is_access(v: Visit) -> bool:
    return isinstance(v.item, Store) or (isinstance(v.item, Let) and v.item.op == "Load")


def _what(v: Visit) -> str:
    it = v.item
    assert not isinstance(it, Store)
    text = " ".join(str(a) for a in it.attrs if isinstance(a, str))
    return f"{it.op} {text}".strip()


register_model(Roofline())

__all__ = ["Roofline"]
