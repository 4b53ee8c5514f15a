"""Two plain cost models: the number of nodes, and operations weighted by their issue slots. Both additive and monotone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from eqkir.extract.cost.model import Contract, Cost, Part, Weights, register_model
from eqkir.extract.cost.reach import segment_labels
from eqkir.extract.cost.walk import Shape, visits
from eqkir.extract.features import CONTRACTS, FREE, function
from eqkir.extract.graph import ENode, FrozenGraph
from eqkir.extract.labels import Bools, Floats, LabelTable
from eqkir.program.abi import Abi
from eqkir.program.dag import FN
from eqkir.program.model import Carry, Let, Program
from eqkir.targets import Machine


class NodeCount:
    """Decoded items, each once."""

    name = "node_count"
    contract = Contract(additive=True, monotone=True, unit="nodes")

    def weights(self, graph: FrozenGraph, table: LabelTable, abi: Abi, target: Machine, legal: Bools) -> Weights:
        ops = [n.op for ns in graph.classes for n in ns]
        w = np.array([0.0 if op in FREE else 1.0 for op in ops])[:, None] * table.ones
        return Weights(w, {e: table.ones for e, op in enumerate(ops) if op == "Seg"})

    def program(self, program: Program, target: Machine, shapes: Mapping[str, int]) -> Cost:
        shape = Shape(program, shapes)
        parts = [Part(v.where, _name(v.item), "compute", 1.0) for i, s in enumerate(program.segments) for v in visits(shape, i, s)]
        parts += [Part(str(i), "segment", "fixed", 1.0) for i in range(len(program.segments))]
        return Cost(sum(p.cost for p in parts), tuple(parts))


def weighed(graph: FrozenGraph, table: LabelTable, cost: Callable[[ENode, Floats, Floats], Floats]) -> Weights:
    """Weights of a function of each e-node that computes: it is given lanes and executions by row (NaN or infinite where a label has no
    value) and gives costs by row. A segment multiplies its body by its instances."""
    w: Floats = np.zeros((graph.enodes, table.n))
    scale: dict[int, Floats] = {}
    segments = segment_labels(graph)
    e = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        for c, ns in enumerate(graph.classes):
            for j, n in enumerate(ns):
                if n.op == "Seg":
                    scale[e] = np.nan_to_num(table.product("pieces", segments[c, j]), nan=1.0, posinf=1.0)
                elif n.op not in FREE and n.path != FN:
                    w[e] = cost(n, table.product("lanes", n.labels or ()), table.trips(n.path, n.labels or ()))
                e += 1
    return Weights(w, scale)


class WeightedOps:
    """Issue slots times lanes times executions over all instances."""

    name = "weighted_ops"
    contract = Contract(additive=True, monotone=True, unit="slots")

    def weights(self, graph: FrozenGraph, table: LabelTable, abi: Abi, target: Machine, legal: Bools) -> Weights:
        def cost(n: ENode, lanes: Floats, trips: Floats) -> Floats:
            slots = 2.0 if n.op in CONTRACTS else target.slots(function(n))
            return np.nan_to_num(slots * lanes * trips, nan=0.0, posinf=1e30)

        return weighed(graph, table, cost)

    def program(self, program: Program, target: Machine, shapes: Mapping[str, int]) -> Cost:
        shape = Shape(program, shapes)
        parts = []
        for i, s in enumerate(program.segments):
            for v in visits(shape, i, s):
                it = v.item
                if isinstance(it, (Let, Carry)) and it.op in ("Const", "Scalar", "Pick"):
                    continue
                slots = 2.0 if isinstance(it, (Let, Carry)) and it.op.startswith("Con") else target.slots(_name(it))
                parts.append(Part(v.where, _name(it), "compute", slots * shape.product(v.labels) * v.trips * shape.instances(s)))
        return Cost(sum(p.cost for p in parts), tuple(parts))


def _name(it: object) -> str:
    if isinstance(it, (Let, Carry)):
        return str(it.attrs[0]) if it.op in ("Un", "Bin", "Tri", "RedTree", "RedLoop") else it.op
    return "store"


register_model(NodeCount())
register_model(WeightedOps())
