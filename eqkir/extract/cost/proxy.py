"""The additive form of the roofline: nanoseconds of the whole machine per execution of one instance, for every e-node and row at once.

With S multiprocessors, T threads a program, R = max(1, min(blocks, threads/T) / 2) programs resident on one, ``trips`` executions an
instance::

    load, store   trips * (max(dram, l2) + latency / (S R))      dram = active lanes * bytes / DRAM rate, 0 where instances share the data
                                                              l2   = dram bytes * sector expansion / L2 rate
    arithmetic    trips * (slots * max(lanes, T) / lane rate + op latency / (S R))
    reduction     arithmetic over all its lanes + barrier / (S R)
    contraction   matrix unit: trips * max(2 m n k / rate, operand tiles / shared memory rate), m padded; else two slots a lane
    segment       body * ceil(instances / S) * S  +  start cost * ceil(instances / (S R))

A load's latency is the level's that serves it: one miss a sector when a scalar loop runs along the last coordinate. It chooses nodes;
whole programs are costed by `eqkir.extract.cost.roofline`."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqkir.base.dtypes import itemsize
from eqkir.extract.cost.model import Weights
from eqkir.extract.cost.reach import instance_axes, segment_labels
from eqkir.extract.cost.strides import contiguous_axes
from eqkir.extract.features import CONTRACTS, FREE, LOOPS, access, class_labels, function, implementation
from eqkir.extract.graph import ENode, FrozenGraph
from eqkir.extract.labels import Bools, Floats, LabelTable
from eqkir.extract.legality import dot_dims
from eqkir.program.abi import Abi, axis_of
from eqkir.program.dag import FN
from eqkir.targets import Target

NS = 1e9
#: breaks ties between orders and load forms (ns); far below any real difference
TIE = 1e-9
#: operations on one fragment whose lanes exchange values
SYNCHRONISING = ("FRedTree", "FRedNTree", "FScanWhole", "FScanLoop", "FScanNWhole", "FScanNLoop")


class Proxy:
    """Weights of one graph. `weights()` gives them all."""

    def __init__(self, graph: FrozenGraph, table: LabelTable, abi: Abi, target: Target) -> None:
        self.g, self.t, self.abi, self.m = graph, table, abi, target
        self.labels = class_labels(graph)
        self.segments = segment_labels(graph)
        self.instances = instance_axes(graph, self.segments)
        resident = np.minimum(target.max_blocks_per_sm, np.maximum(1, target.max_threads_per_sm // np.maximum(table.threads, 1)))
        self.parallel: Floats = target.sms * np.maximum(1.0, resident / 2)
        self.matrix = any(implementation(n) == "mma" for ns in graph.classes for n in ns if n.op in CONTRACTS)

    def weights(self) -> Weights:
        out = np.zeros((self.g.enodes, self.t.n))
        scale: dict[int, Floats] = {}
        memo: dict[Any, Floats] = {}
        spaces: dict[tuple[bool, tuple[str, ...]], tuple[Floats, Floats]] = {}
        e = 0
        for c, ns in enumerate(self.g.classes):
            for j, n in enumerate(ns):
                if n.op == "Seg":
                    at = "stride" in n.attrs, self.segments[c, j]
                    if at not in spaces:
                        spaces[at] = self._segment(*at)
                    out[e], scale[e] = spaces[at]
                elif n.op in ("TAx", "TProd", "TSwz", "TRev", "TInter"):
                    out[e] = self._order(n)
                elif n.op not in FREE and n.path != FN:
                    key = self._key(c, n)
                    if key not in memo:
                        memo[key] = np.nan_to_num(self._node(c, n), nan=0.0, posinf=1e30)
                    out[e] = memo[key]
                e += 1
        return Weights(out, scale)

    def _key(self, c: int, n: ENode) -> Any:
        extra: Any = ()
        if n.op in CONTRACTS:
            extra = tuple((self.g.dtypes[k], self.labels[k]) for k in n.kids[:2])
        elif access(n):
            extra = self.instances[c]
        elif n.op.startswith(("FRedN", "FScanN")):
            extra = len(n.kids), n.kids[-1]
        return n.op, n.labels, n.path, n.attrs, self.g.dtypes[c], extra

    # ------------------------------------------------------------------------------------------------ nodes
    def _node(self, c: int, n: ENode) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            if access(n):
                return self._access(c, n)
            if n.op in CONTRACTS:
                return self._contract(c, n)
            work = self._arithmetic(c, n)
            if n.op in LOOPS:
                if implementation(n) == "tree" or n.op == "FRedNLoop":
                    work = work + self.t.trips(n.path, n.labels or ()) * self.m.barrier_ns / self.parallel
                return work + self.t.trips((n.path or ())[:-1], n.labels or ()) * self.m.barrier_ns / self.parallel
            if n.op in SYNCHRONISING:
                return work + self.t.trips(n.path, n.labels or ()) * self.m.barrier_ns / self.parallel
            return work

    def _access(self, c: int, n: ENode) -> Floats:
        view, ixs = access(n) or ("", ())
        labels = n.labels or ()
        size = itemsize(self.abi.view(view).dtype)
        trips = self.t.trips(n.path, n.labels or ())
        lanes = self.t.product("active", labels)
        useful = lanes * trips * size
        along = contiguous_axes(ixs)
        run = self.t.ones
        for x in labels:
            if axis_of(x) in along:
                run = run * self.t.active(x)
        inner = (n.path or (("", "", 0),))[-1][0]
        walked = inner in along
        expansion = self.t.ones if walked else np.maximum(1.0, self.m.sector_bytes / (run * size))
        shared = self.instances[c] - {axis_of(x) for x in labels}
        l2 = useful * expansion / self.m.l2_bytes_per_s * NS
        dram = 0.0 if shared else useful / self.m.dram_bytes_per_s * NS
        miss = np.minimum(1.0, run * size / self.m.sector_bytes) if walked else self.t.ones
        latency = self.m.l1_latency_ns + (self.m.dram_latency_ns - self.m.l1_latency_ns) * miss
        if n.op == "SStore":
            latency = latency * 0.25  # nobody waits for a store; it occupies its queue
        form = {"wide": 0.0, "stream": 2.0, "keep": 3.0}.get(str(n.attrs[-1]), 1.0) if n.op == "FLoad" else 0.0
        vector = np.maximum(1.0, np.minimum(np.minimum(16 / size, self.t.product("lanes", labels) / self.t.threads), run))
        issue = trips * 4 * np.maximum(self.t.product("lanes", labels) / vector, self.t.threads) / self.m.lane_rate("default") * NS
        return np.asarray(np.maximum(dram, l2) + issue + trips * latency / self.parallel + TIE * form)

    def _arithmetic(self, c: int, n: ENode) -> Floats:
        labels = n.labels or ()
        trips = self.t.trips(n.path, n.labels or ())
        lanes = np.maximum(self.t.product("lanes", labels), self.t.threads)
        dtype = self.g.dtypes[c]
        slots = self.m.slots(function(n))
        if n.op.startswith(("FRedN", "FScanN")):
            slots = float(self._region_size(n))
            dtype = "default"
        if n.op == "FIndex":
            dtype = "index"
        return np.asarray(
            trips * (slots * lanes / self.m.lane_rate(dtype) * NS + self.m.op_latency_ns * max(1.0, slots / 4) / self.parallel)
        )

    def _region_size(self, n: ENode) -> int:
        """Nodes of a combine region (each counted once), at least 1."""
        seen: set[int] = set()
        todo = [n.kids[-1]]
        while todo:
            c = todo.pop()
            if c not in seen:
                seen.add(c)
                todo += self.g.classes[c][0].kids
        return max(1, sum(self.g.classes[c][0].op not in FREE for c in seen))

    def _contract(self, c: int, n: ENode) -> Floats:
        a, b = n.kids[0], n.kids[1]
        trips = self.t.trips(n.path, n.labels or ())
        dot = self.m.dot(self.g.dtypes[a], self.g.dtypes[b], self.g.dtypes[c])
        shape = dot_dims(n, self.labels[a], self.labels[b]) if implementation(n) == "mma" else None
        wait = self.m.barrier_ns / self.parallel
        if shape is None or dot is None:
            lanes = np.maximum(self.t.product("lanes", n.labels or ()), self.t.threads)
            return np.asarray(trips * (2 * lanes / self.m.lane_rate(self.g.dtypes[c]) * NS + wait))
        m, k, nn = (self.t.lanes(x) for x in shape)
        unit = self.m.matrix_rows if dot.unit == "matrix" else 1
        flops = 2 * np.ceil(m / unit) * unit * k * nn
        tiles = m * k * itemsize(dot.a) + k * nn * itemsize(dot.b)
        shared_rate = self.m.shared_bytes_per_clock * self.m.clock_hz * self.m.sms
        return np.asarray(trips * (np.maximum(flops / dot.flops_per_s, tiles / shared_rate) * NS + wait))

    # ------------------------------------------------------------------------------------------------ program space
    def _segment(self, stride: bool, labels: tuple[str, ...]) -> tuple[Floats, Floats]:
        with np.errstate(divide="ignore", invalid="ignore"):
            count = np.nan_to_num(self.t.product("pieces", labels), nan=1.0, posinf=1.0)
        sms = self.m.sms
        start = self.m.instance_ns * np.ceil(count / self.parallel) * (1.05 if stride else 1.0)
        return start, np.ceil(count / sms) * sms

    def _order(self, n: ENode) -> Floats:
        """Only ties: row-major before other orders, bands first where there are matrix products (neighbours share both operands)."""
        rank = {"TSwz": 0.5 if self.matrix else 3.0, "TProd": 1.0, "TRev": 4.0, "TInter": 5.0, "TAx": 0.0}[n.op]
        return self.t.ones * TIE * rank


def proxy_weights(graph: FrozenGraph, table: LabelTable, abi: Abi, target: Target, legal: Bools) -> Weights:
    """The additive roofline weights (ns). `legal` is not needed: illegal pairs are masked by the caller."""
    return Proxy(graph, table, abi, target).weights()
