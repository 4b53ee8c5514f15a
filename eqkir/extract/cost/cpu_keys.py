"""What values in the form *keys* cost (`eqkir.cpu.keys`): who takes a value so never makes it, so its definition is for free there."""

from __future__ import annotations

import numpy as np

from eqkir.cpu.implementations import declarations
from eqkir.cpu.keys import KEYS
from eqkir.cpu.layout import Layout
from eqkir.extract.graph import ENode, FrozenGraph
from eqkir.extract.labels import Bools, LabelTable
from eqkir.program.model import Carry, Let

#: slots of a member that is counted in the element that its key names
KEY_SLOTS = 8.0
#: vectors that comparing one vector of lanes with a key takes: the comparison, the condition, the choice
COMPARED = 3.0


def takes_keys(layout: Layout, x: Let | Carry) -> bool:
    """Whether an operation of a program takes keys in."""
    s = layout.supply(x.args[0]) if isinstance(x, Carry) and x.args else None
    return s is not None and s.attrs[0] == KEYS


def takers(table: LabelTable) -> Bools:
    """Rows whose set has an implementation that takes keys."""
    known = declarations()
    able = {n for n, d in known.items() if any(KEYS in f for f in d.forms)}
    return np.array([not able.isdisjoint(r.implementations) for r in table.rows], bool)


def supplied(graph: FrozenGraph, n: ENode) -> bool:
    """Whether an e-node's first operand is supplied so."""
    return any(k.op == "FSupply" and k.attrs[0] == KEYS for k in graph.classes[n.kids[0]])


def definitions_of(graph: FrozenGraph) -> set[tuple[int, int]]:
    """(class, place) of the e-nodes that only define values in this form: the choices, and the conditions that vary along their label."""
    out: set[tuple[int, int]] = set()

    def walk(c: int, label: str) -> None:
        for j, n in enumerate(graph.classes[c]):
            if n.op in ("FTri", "FBin") and label in (n.labels or ()) and (c, j) not in out:
                out.add((c, j))
                walk(n.kids[0], label)
                if n.op == "FBin":
                    walk(n.kids[1], label)

    for ns in graph.classes:
        for n in ns:
            if n.op == "FSupply" and n.attrs[0] == KEYS:
                walk(n.kids[0], str(n.attrs[1]))
    return out


def keyed_classes(graph: FrozenGraph) -> set[int]:
    """Classes of values that can be had so."""
    return {n.kids[0] for ns in graph.classes for n in ns if n.op == "FSupply" and n.attrs[0] == KEYS}
