"""Which e-nodes are legal under which rows, from the target's capabilities alone.

================  =======================================================================================================
rule              an e-node is illegal under a row where …
================  =======================================================================================================
bound             … a parameter of its labels or of its loops has no value
covers            … a ``W`` or ``MW`` fragment is not known to cover its extent
lanes             … its fragment has more than `max_fragment_lanes` lanes
registers         … its fragment takes more than `max_fragment_bytes_per_thread` bytes of a thread
dot-dtype         … it uses the matrix path and the target has none for its dtypes
dot-shape         … it uses the matrix path and its fragment dimensions are not (free of a, free of b, bound), each free in just its operand
dot-minimum       … it uses the matrix path and a dimension has fewer lanes than the path's minimum
shared            … its staged operand tiles exceed `max_shared_per_block` (num_stages tiles in a chunk loop, one otherwise)
================  =======================================================================================================

A contraction by multiply and reduce (``fma``) is one fragment over all its labels; on the matrix path only the accumulator is in registers.
Scalar traversals (``O1``, ``L1``) are always legal. Reasons are counted per rule for reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from eqkir.base.dtypes import NUMPY, itemsize
from eqkir.extract.features import CONTRACTS, bound_label, class_labels, free_labels, implementation
from eqkir.extract.graph import ENode, FrozenGraph
from eqkir.extract.labels import Bools, Floats, LabelTable
from eqkir.program.abi import parameter
from eqkir.program.dag import FN
from eqkir.targets import Target

#: lists, and how statements follow each other: legal under every row
PLACELESS = frozenset({"FNil", "FCons", "SPar", "SSeq", "Seg", "SGNil", "SGCons"})


@dataclass
class Legality:
    """`legal[e, r]`: e-node e (numbered class by class) under row r. `reasons[rule]`: pairs refused by that rule first;
    `refused[e][rule]`: the rows of those pairs."""

    legal: Bools
    reasons: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # CPU family: operations that rows have no implementation for, or several
    refused: list[Mapping[str, Bools]] = field(default_factory=list, repr=False)


def legality(graph: FrozenGraph, table: LabelTable, target: Target) -> Legality:
    """Legality of every e-node under every row of `table`."""
    labels = class_labels(graph)

    def key(c: int, n: ENode) -> object:
        kids = tuple((graph.dtypes[k], labels[k]) for k in n.kids[:2]) if n.op in CONTRACTS or n.op == "SStore" else ()
        operation = n.op if n.op in CONTRACTS or n.op == "TAx" else ""
        attrs = n.attrs if n.op in ("TAx", *CONTRACTS) else ()
        return operation, n.labels, n.path, implementation(n), attrs, graph.dtypes[c], kids

    return judged(graph, table.n, key, lambda c, n: _rules(graph, c, n, table, target, labels))


def judged(
    graph: FrozenGraph, rows: int, key: Callable[[int, ENode], object], rules: Callable[[int, ENode], Iterable[tuple[str, Bools]]]
) -> Legality:
    """Every e-node (class, e-node) by (rule, rows under which it holds); e-nodes of equal `key` are judged once. A pair counts
    for the first rule that refuses it."""
    out = np.ones((graph.enodes, rows), bool)
    reasons: dict[str, int] = {}
    cache: dict[object, tuple[Bools, dict[str, Bools]]] = {}
    refused: list[Mapping[str, Bools]] = []
    nothing: Mapping[str, Bools] = {}
    e = 0
    for c, alternatives in enumerate(graph.classes):
        for n in alternatives:
            if n.op in PLACELESS:
                refused.append(nothing)
                e += 1
                continue
            at = key(c, n)
            if at not in cache:
                ok, why = np.ones(rows, bool), dict[str, Bools]()
                for rule, good in rules(c, n):
                    if (ok & ~good).any():
                        why[rule] = (ok & ~good) | why.get(rule, False)
                    ok = ok & good
                cache[at] = ok, why
            out[e], why = cache[at]
            refused.append(why)
            for rule, first in why.items():
                reasons[rule] = reasons.get(rule, 0) + int(first.sum())
            e += 1
    return Legality(out, dict(sorted(reasons.items())), refused=refused)


def _rules(
    graph: FrozenGraph, c: int, n: ENode, t: LabelTable, target: Target, labels: list[frozenset[str]]
) -> Iterator[tuple[str, Bools]]:
    own = n.labels or ((str(n.attrs[0]),) if n.op == "TAx" else ())
    for x in (*own, *(p[1] for p in (n.path or ()) if n.path != FN)):
        yield "bound", (t.lanes(x) > 0) & (t.step(x) > 0)
    for x in own:
        yield "covers", t.covers(x)
    if not n.labels:
        return
    mma = n.op in CONTRACTS and implementation(n) == "mma"
    fragment = free_labels(n) if mma else n.labels
    lanes = t.product("lanes", fragment)
    yield "lanes", lanes <= target.max_fragment_lanes
    dtype = graph.dtypes[c] or (graph.dtypes[n.kids[0]] if n.kids else "")
    width = itemsize(dtype) if dtype in NUMPY else 4
    yield "registers", lanes * width <= target.max_fragment_bytes_per_thread * np.maximum(t.threads, 1)
    if mma:
        yield from _dot_rules(graph, c, n, t, target, labels)


def _dot_rules(
    graph: FrozenGraph, c: int, n: ENode, t: LabelTable, target: Target, labels: list[frozenset[str]]
) -> Iterator[tuple[str, Bools]]:
    no = np.zeros(t.n, bool)
    a, b = n.kids[0], n.kids[1]
    dot = target.dot(graph.dtypes[a], graph.dtypes[b], graph.dtypes[c])
    if dot is None:
        yield "dot-dtype", no
        return
    shape = dot_dims(n, labels[a], labels[b])
    if shape is None:
        yield "dot-shape", no
        return
    m, k, nn = (t.lanes(x) for x in shape)
    yield "dot-minimum", (m >= dot.min_m) & (k >= dot.min_k) & (nn >= dot.min_n)
    tiles: Floats = m * k * itemsize(dot.a) + k * nn * itemsize(dot.b)
    staged = t.stages if (n.path and bound_label(n) == n.path[-1][1] and n.op.endswith("Loop")) else t.ones
    yield "shared", tiles * staged <= target.max_shared_per_block


def dot_dims(n: ENode, a: frozenset[str], b: frozenset[str]) -> tuple[str, str, str] | None:
    """(left free, bound, right free) fragment labels of a contraction, or None where it is no matrix product of two fragments.

    `a` and `b` are the free labels of the operands; scalar labels do not count: they are no fragment dimensions.
    """
    k = bound_label(n)
    lanes = {x for x in n.labels or () if parameter(x)}
    if k is None or k not in lanes or k not in a or k not in b:
        return None
    left, right = (a & lanes) - {k}, (b & lanes) - {k}
    if len(left) != 1 or len(right) != 1 or left == right or lanes != left | right | {k}:
        return None
    return next(iter(left)), k, next(iter(right))
