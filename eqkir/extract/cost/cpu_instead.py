"""What values cost of which a reader reads something else instead (`eqkir.cpu.instead`): their definitions are for free there."""

from __future__ import annotations

import numpy as np

from eqkir.cpu.bytes import BYTES, Lets, factors
from eqkir.cpu.implementations import declarations
from eqkir.cpu.instead import INSTEAD
from eqkir.cpu.keys import KEYS
from eqkir.cpu.layout import Layout
from eqkir.extract.graph import ENode, FrozenGraph
from eqkir.extract.labels import Bools, Floats, LabelTable
from eqkir.program.abi import parameter
from eqkir.program.model import Carry, Program

#: slots of a member that is counted in the element that its key names
KEY_SLOTS = 8.0
#: slots of a vector of bytes in a dot product: two loads' share, a few operations on bytes, the instruction
DOT_SLOTS = 6.0
#: slots for each vector that a reader of the value itself pays for its definition: a comparison, a condition, a choice
COMPARED = 3.0


def taken_instead(program: Program, layout: Layout, loop: str, x: Carry) -> float | None:
    """Slots of one step of a carry that reads something else instead of its operand; None where it reads the operand."""
    s = layout.supply(x.args[0]) if x.args else None
    if s is None or s.attrs[0] not in INSTEAD:
        return None
    members = program.lanes(loop) if parameter(loop) else 1
    if s.attrs[0] == KEYS:
        return members * KEY_SLOTS
    found = factors(Lets(layout.defs), program.axis, s.args[0], loop)
    each = sum(f.size for f in found) + (1.0 if found[0].unsigned else 3.0) if found else 0.0
    points = float(np.prod([program.lanes(d) for d in layout.dims[x.id]]))
    folds = 2.0 * float(np.log2(max(2.0, min(members, layout.bytes_) / 4)))
    return points * (each * max(1.0, members / layout.bytes_) + folds)


class Instead:
    """Of a graph: e-nodes that only define such values, and who may take them. `rows`: form -> rows with an implementation for it."""

    def __init__(self, graph: FrozenGraph, table: LabelTable) -> None:
        self.graph = graph
        self.forms: dict[int, str] = {}  # class of a value -> the form that it can be had in
        self.defining: dict[tuple[int, int], str] = {}
        for ns in graph.classes:
            for n in ns:
                if n.op == "FSupply" and n.attrs[0] in INSTEAD:
                    self.forms[n.kids[0]] = str(n.attrs[0])
                    self._walk(n.kids[0], str(n.attrs[0]), str(n.attrs[1]))
        known = declarations()
        self.rows: dict[str, Bools] = {}
        for form in INSTEAD:
            able = {n for n, d in known.items() if any(form in f for f in d.forms)}
            self.rows[form] = np.array([not able.isdisjoint(r.implementations) for r in table.rows], bool)

    def _walk(self, c: int, form: str, label: str) -> None:
        ops = ("FTri", "FBin") if form == KEYS else ("FTri", "FBin", "FCast")
        for j, n in enumerate(self.graph.classes[c]):
            if n.op in ops and label in (n.labels or ()) and (c, j) not in self.defining:
                self.defining[c, j] = form
                for k in n.kids[:1] if form == KEYS and n.op == "FTri" else n.kids:
                    self._walk(k, form, label)

    def share(self, c: int, j: int) -> Floats:
        """By row: 0 where the e-node is for free, else 1."""
        return np.where(self.rows[self.defining[c, j]], 0.0, 1.0)

    def kind(self, n: ENode) -> tuple[str, str]:
        """Of a reduction along a loop: the form that its operand is supplied in, the form that it could be had in."""
        if n.op != "FRedLoop":
            return "", ""
        for k in self.graph.classes[n.kids[0]]:
            if k.op == "FSupply" and k.attrs[0] in INSTEAD:
                return str(k.attrs[0]), ""
        return "", self.forms.get(n.kids[0], "")


__all__ = ["BYTES", "COMPARED", "DOT_SLOTS", "KEY_SLOTS", "Instead", "taken_instead"]
