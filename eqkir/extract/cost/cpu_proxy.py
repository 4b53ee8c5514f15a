"""The additive form of the costs of the CPU family, by which extractors select: executions * parts * slots, with vectors wherever a
fragment has lanes enough."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqkir.base.dtypes import NUMPY, itemsize
from eqkir.cpu.bytes import BYTES
from eqkir.cpu.implementations import declarations
from eqkir.cpu.keys import KEYS
from eqkir.extract.cost.cpu_instead import COMPARED, DOT_SLOTS, KEY_SLOTS, Instead
from eqkir.extract.cost.model import Weights
from eqkir.extract.cost.reach import segment_labels
from eqkir.extract.cost.strides import contiguous_axes
from eqkir.extract.features import CONTRACTS, FREE, LOOPS, access, function
from eqkir.extract.graph import ENode, FrozenGraph
from eqkir.extract.labels import Bools, Floats, LabelTable
from eqkir.program.abi import Abi, axis_of
from eqkir.program.dag import FN
from eqkir.targets.cpu import CpuTarget

NS = 1e9
#: operations a vector of a scan
SCAN_STEPS = 8.0
TIE = 1e-9


class _Proxy:
    def __init__(self, graph: FrozenGraph, table: LabelTable, abi: Abi, target: CpuTarget) -> None:
        self.g, self.t, self.abi, self.m = graph, table, abi, target
        self.clock = target.clock_hz / NS
        self.instead = Instead(graph, table)
        self.along: dict[str, int] = {}  # axis -> distinct accesses that are contiguous along it; stores count twice
        nodes = [n for ns in graph.classes for n in ns]
        for found in ({access(n) for n in nodes}, {access(n) for n in nodes if n.op == "SStore"}):
            for _, ixs in filter(None, found):
                for axis in contiguous_axes(ixs):
                    self.along[axis] = self.along.get(axis, 0) + 1

    def weights(self) -> Weights:
        segments = segment_labels(self.g)
        out = np.zeros((self.g.enodes, self.t.n))
        scale: dict[int, Floats] = {}
        memo: dict[Any, Floats] = {}
        e = 0
        with np.errstate(divide="ignore", invalid="ignore"):
            for c, ns in enumerate(self.g.classes):
                for j, n in enumerate(ns):
                    if n.op == "Seg":
                        count = np.nan_to_num(self.t.product("pieces", segments[c, j]), nan=1.0, posinf=1.0)
                        out[e], scale[e] = self.m.instance_ns * count, count
                    elif n.op in ("TAx", "TProd", "TSwz", "TRev", "TInter"):
                        rank = {"TSwz": 3.0, "TProd": 1.0, "TRev": 4.0, "TInter": 5.0, "TAx": 0.0}[n.op]
                        out[e] = self.t.ones * TIE * rank
                    elif n.op not in FREE and n.path != FN:
                        key = (n.op, n.by, n.labels, n.path, n.attrs, self.g.dtypes[c], len(n.kids), self.instead.kind(n))
                        if key not in memo:
                            memo[key] = np.nan_to_num(self._node(c, n), nan=0.0, posinf=1e30)
                        out[e] = memo[key] * self.instead.share(c, j) if (c, j) in self.instead.defining else memo[key]
                    e += 1
        return Weights(out, scale)

    def _vectors(self, labels: tuple[str, ...], dtype: str) -> Floats:
        """Vectors of a fragment, at least one operation; the widest label runs along them."""
        width = max(self.m.vector_bytes // (itemsize(dtype) if dtype in NUMPY and dtype not in ("bool", "index") else 4), 1)
        lanes = self.t.product("lanes", labels)
        widest = self.t.ones
        for x in labels:
            widest = np.maximum(widest, np.minimum(self.t.lanes(x), width))
        return np.asarray(np.maximum(lanes / np.maximum(widest, 1.0), 1.0))

    def _node(self, c: int, n: ENode) -> Floats:
        labels, dtype = n.labels or (), self.g.dtypes[c]
        trips = self.t.trips(n.path, labels)
        found = access(n)
        if found:
            view, ixs = found
            size = itemsize(self.abi.view(view).dtype)
            along = contiguous_axes(ixs)
            vectors = self._vectors(tuple(x for x in labels if axis_of(x) in along), self.abi.view(view).dtype)
            rest = self.t.product("lanes", tuple(x for x in labels if axis_of(x) not in along))
            per = (self.m.stores_per_clock if n.op == "SStore" else self.m.loads_per_clock) * self.clock
            used = self.t.product("active", labels) * size
            form = {"wide": 0.0, "stream": 2.0, "keep": 3.0}.get(str(n.attrs[-1]), 1.0) if n.op == "FLoad" else 0.0
            return np.asarray(trips * (vectors * rest / per + used / self.m.l3_bytes_per_s * NS * 0.5) + TIE * form)
        if n.op == "FKept":  # stored once and loaded once
            per = 1.0 / self.m.loads_per_clock + 1.0 / self.m.stores_per_clock
            return np.asarray(trips * self._vectors(labels, dtype) * per / self.clock)
        if n.op == "FSupply":  # along the label that neighbouring accesses prefer
            return self.t.ones * TIE * (1.0 + max(self.along.values(), default=0) - self.along.get(axis_of(str(n.attrs[1])), 0))
        if n.op in CONTRACTS:
            slots = declarations()[n.by].slots if n.by else 1.0
            return np.asarray(slots * trips * self._vectors(labels, dtype) / (self.m.slots_per_clock * self.clock))
        supplied, may = self.instead.kind(n)
        if supplied:
            inner = self.t.product("lanes", tuple(x for x in labels if n.path and x == n.path[-1][1]))
            own = self.t.product("lanes", tuple(x for x in labels if n.path and x != n.path[-1][1])) if supplied == BYTES else self.t.ones
            each = KEY_SLOTS if supplied == KEYS else DOT_SLOTS / self.m.vector_bytes
            return np.asarray(trips * inner * own * each / (self.m.slots_per_clock * self.clock))
        slots = self.m.slots(function(n))
        if n.op.startswith(("FRedN", "FScanN")):
            slots = 6.0
        if n.op.startswith("FScan"):
            return np.asarray(trips * self._vectors(labels, dtype) * slots * SCAN_STEPS / (self.m.slots_per_clock * self.clock))
        work = trips * self._vectors(labels, dtype) * slots / (self.m.slots_per_clock * self.clock)
        chain = trips * self.m.latency_clocks / self.clock if n.op in LOOPS else 0.0
        tree = 4.0 * trips / self.clock if n.op in LOOPS and "tree" in n.attrs else 0.0
        if may:  # where what is read instead makes the value's definition free, who reads the value pays it
            tree = tree + self.instead.rows[may] * COMPARED * trips * self._vectors(labels, dtype) / (self.m.slots_per_clock * self.clock)
        return np.asarray(np.maximum(work, chain) + tree)


def proxy_weights(graph: FrozenGraph, table: LabelTable, abi: Abi, target: CpuTarget, legal: Bools) -> Weights:
    """The additive weights (ns of one core). `legal` is not needed: illegal pairs are masked by the caller."""
    return _Proxy(graph, table, abi, target).weights()
