"""Which e-nodes are legal under which rows on a CPU.

================  =======================================================================================================
rule              an e-node is illegal under a row where …
================  =======================================================================================================
bound             … a parameter of its labels or of its loops has no value
covers            … a ``W`` or ``MW`` fragment is not known to cover its extent
lanes             … its fragment has more than `max_fragment_lanes` lanes
registers         … its fragment takes more than `max_fragment_bytes`
matrix            … it uses a matrix unit, which no CPU of this family has
form              … it supplies a value in a form that the value does not have
kept              … it keeps a value for a later loop that is not in chunks of a whole axis, or whose dtype memory has not
no implementation … no member of the row's set does the operation (`eqkir.extract.cpu_members`)
several …         … more than one does
================  =======================================================================================================

A contraction keeps its accumulators in registers, not its products, so the bound label does not count. Scalar traversals are always legal.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eqkir.base.dtypes import NUMPY, itemsize
from eqkir.extract.cpu_members import Members, Supplies
from eqkir.extract.features import CONTRACTS, free_labels, implementation
from eqkir.extract.graph import ENode, FrozenGraph
from eqkir.extract.labels import Bools, LabelTable
from eqkir.extract.legality import Legality, judged
from eqkir.program.abi import Abi, traversal
from eqkir.program.dag import FN
from eqkir.targets.cpu import CpuTarget


def cpu_legality(graph: FrozenGraph, table: LabelTable, target: CpuTarget, abi: Abi) -> Legality:
    """Legality of every e-node under every row of `table`; at most one implementation of an operation is left under a row."""
    supplies = Supplies(graph, abi, table.axes)

    def key(c: int, n: ENode) -> object:
        dtype = graph.dtypes[c] or (graph.dtypes[n.kids[0]] if n.kids else "")
        supply = n.op == "FSupply" and (n.attrs, n.kids)
        return n.op in CONTRACTS, n.op == "TAx" and n.attrs, n.labels, n.path, implementation(n), dtype, supply

    out = judged(graph, table.n, key, lambda c, n: _rules(graph, c, n, table, target, supplies))
    members = Members(graph, table, target)
    members.select(out.legal)
    out.reasons |= members.refused
    out.notes = list(members.notes)
    return out


def _rules(graph: FrozenGraph, c: int, n: ENode, t: LabelTable, target: CpuTarget, supplies: Supplies) -> Iterator[tuple[str, Bools]]:
    if n.op == "FSupply":
        yield "form", np.full(t.n, supplies.has(n))
    own = n.labels or ((str(n.attrs[0]),) if n.op == "TAx" else ())
    if n.op == "FKept":
        kept = n.path and traversal(n.path[-1][1]) == "LC" and graph.dtypes[c] in NUMPY and graph.dtypes[c] not in ("bool", "index")
        yield "kept", np.full(t.n, bool(kept))
    for x in (*own, *(p[1] for p in (n.path or ()) if n.path != FN)):
        yield "bound", (t.lanes(x) > 0) & (t.step(x) > 0)
    for x in own:
        yield "covers", t.covers(x)
    if not n.labels:
        return
    lanes = t.product("lanes", free_labels(n) if n.op in CONTRACTS else n.labels)
    yield "lanes", lanes <= target.max_fragment_lanes
    dtype = graph.dtypes[c] or (graph.dtypes[n.kids[0]] if n.kids else "")
    yield "registers", lanes * (itemsize(dtype) if dtype in NUMPY else 4) <= target.max_fragment_bytes
    if n.op in CONTRACTS and implementation(n) == "mma":
        yield "matrix", np.zeros(t.n, bool)
