"""Which implementation does an operation, under every row: exactly one member of the row's set, or none of its alternatives is legal.

In the e-graph, an operation stands beside itself done by every implementation that declares it (`rulesets/cpu.egg`). Under a row, those are
legal that the row's set names and that apply to the operation's types, forms, blocks and machine. Where that leaves one member, its
alternatives are legal (one for each way to supply its operands); where it leaves none, or several, the operation has no legal alternative:
the row is rejected for every program that needs it. The operation itself, of which nothing says who does it, is legal only where the
e-graph has no implementation for it (the family is switched off).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from eqkir.cpu.bytes import BYTES, Shown, factors
from eqkir.cpu.forms import FORMS, admits
from eqkir.cpu.implementations import PLAIN, Implementation, Operation, registered, takes
from eqkir.cpu.keys import KEYS
from eqkir.extract.features import bound_label
from eqkir.extract.graph import ENode, FrozenGraph
from eqkir.extract.labels import Bools, LabelTable
from eqkir.program.abi import Abi, Axis, parameter
from eqkir.targets.cpu import CpuTarget

NONE, SEVERAL = "no implementation", "several implementations"
STRUCTURED = ("FRed", "FConWhole", "FConLoop", "FConAcc", "FScan")


@dataclass
class Members:
    """Selects in place; `refused`: reason -> (operation, row) pairs; `notes`: what was refused, in words, the first few."""

    graph: FrozenGraph
    table: LabelTable
    target: CpuTarget
    refused: dict[str, int] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    _known: dict[object, bool] = field(default_factory=dict)
    _forms: dict[int, str] = field(default_factory=dict)

    def select(self, legal: Bools) -> None:
        """Take out of `legal` (by e-node and row) what is not the one implementation of an operation."""
        units = {i.declaration.name: i for i in registered()}
        sets = [frozenset(r.implementations) for r in self.table.rows]
        first = 0
        for c, alternatives in enumerate(self.graph.classes):
            same: dict[object, list[int]] = {}
            for j, n in enumerate(alternatives):
                if n.op.startswith(STRUCTURED):
                    same.setdefault((n.op, n.labels, n.path, n.attrs), []).append(j)
            for js in same.values():
                if any(alternatives[j].by for j in js):
                    self._one(c, js, first, legal, units, sets)
            first += len(alternatives)

    def _one(
        self, c: int, js: list[int], first: int, legal: Bools, units: Mapping[str, Implementation], sets: list[frozenset[str]]
    ) -> None:
        alternatives = self.graph.classes[c]
        bare = [j for j in js if not alternatives[j].by]
        possible = np.any([legal[first + j] for j in bare], axis=0) if bare else np.ones(self.table.n, bool)
        found: dict[str, Bools] = {}
        for j in js:
            n = alternatives[j]
            if n.by:
                ok = np.array([bool(legal[first + j, r]) and n.by in s and self._applies(c, n, r, units[n.by]) for r, s in enumerate(sets)])
                legal[first + j] = ok
                found[n.by] = found.get(n.by, np.zeros(self.table.n, bool)) | ok
        count = np.sum(list(found.values()), axis=0)
        for j in js:
            legal[first + j] &= (count == 1) & bool(alternatives[j].by)
        for why, rows in ((NONE, possible & (count == 0)), (SEVERAL, count > 1)):
            if rows.any():
                self.refused[why] = self.refused.get(why, 0) + int(rows.sum())
                r = int(np.argmax(rows))
                names = [name for name, ok in sorted(found.items()) if ok[r]]
                self._note(f"row {self.table.rows[r].template}: {alternatives[js[0]].op[1:]} of {self._dtypes(c, js[0])}: {why}", names)

    def _note(self, text: str, names: list[str]) -> None:
        if len(self.notes) < 20:
            self.notes.setdefault(text + (f" ({', '.join(names)})" if names else ""))

    def _dtypes(self, c: int, j: int) -> str:
        return " ".join(_operands(self.graph, self.graph.classes[c][j])) or self.graph.dtypes[c]

    def _applies(self, c: int, n: ENode, row: int, unit: Implementation) -> bool:
        values = self.table.rows[row].values
        bound = bound_of(n)
        labels = tuple(sorted({*(n.labels or ()), bound}))
        lanes = {t: values.get(p, 0) if (p := parameter(t)) else 1 for t in labels}
        forms = tuple(self._form(k) for k in n.kids[:2]) if n.op.startswith("FCon") else ()
        forms = (forms[0], PLAIN) if forms and n.kids[0] == n.kids[1] else forms  # one operand, wanted once
        forms = (self._form(n.kids[0]), PLAIN) if n.op == "FRedLoop" else forms
        operands = _operands(self.graph, n)
        options = self.table.rows[row].options
        key = (n.op, n.by, n.attrs, operands, self.graph.dtypes[c], bound, tuple(lanes.items()), forms, options)
        if key not in self._known:
            o = Operation(
                operation_name(n), tuple(a for a in n.attrs[: ATTRS.get(n.op, 1)] if isinstance(a, str) and a != bound), operands,
                self.graph.dtypes[c], labels, bound, lanes, (forms[0], forms[1]) if forms else (PLAIN, PLAIN),
                frozenset(self.target.features), self.target.vector_bytes, self.table.rows[row].launch,
            )  # fmt: skip
            self._known[key] = takes(unit, o)
        return self._known[key]

    def _form(self, c: int, depth: int = 4) -> str:
        """The form that a class of operands is in; empty: as memory has it."""
        if c not in self._forms:
            found = ""
            for n in self.graph.classes[c]:
                if n.op == "FSupply":
                    found = str(n.attrs[0])
                elif n.op == "FCast" and depth and c not in n.kids:
                    found = found or self._form(n.kids[0], depth - 1)
            self._forms[c] = found
        return self._forms[c]


#: attributes of an e-node that its program's operation has
ATTRS = {"FRedLoop": 2}


def operation_name(n: ENode) -> str:
    """The operation of a program that an e-node becomes."""
    return {"FScanWhole": "Scan", "FScanLoop": "Scan", "FScanNWhole": "ScanN", "FScanNLoop": "ScanN"}.get(n.op, n.op[1:])


def bound_of(n: ENode) -> str:
    """The label that a structured e-node binds or runs along."""
    if n.op.endswith("Loop"):
        return n.path[-1][1] if n.path else ""
    return bound_label(n) or str(n.attrs[-1])


def _operands(g: FrozenGraph, n: ENode) -> tuple[str, ...]:
    """Dtypes of the operands that vary along the bound label."""
    if n.op.startswith(("FRedN", "FScanN")):
        out, c = [], n.kids[1]
        while (cons := next((x for x in g.classes[c] if x.op == "FCons"), None)) is not None:
            out.append(g.dtypes[cons.kids[0]])
            c = cons.kids[1]
        return tuple(out)
    return tuple(g.dtypes[k] for k in n.kids[: 2 if n.op.startswith("FCon") else 1])


@dataclass(frozen=True)
class Classes:
    """The definitions of values in an e-graph (`eqkir.cpu.bytes.Source`); `alternatives`: the e-nodes of a class."""

    graph: FrozenGraph
    alternatives: Callable[[int], list[ENode]]

    def definitions(self, c: int) -> Iterator[Shown]:
        for n in self.alternatives(c):
            if n.op in ("FConst", "FIndex", "FLoad", "FBin", "FTri", "FCast", "FBitcast"):
                args = tuple(i for k in n.kids for i in (self._list(k) if self.graph.sorts[k] == "FL" else (k,)))
                dtype = self.graph.dtypes[c] or str(n.attrs[-1])
                yield Shown(n.op[1:], n.attrs, args, dtype, n.labels or ())

    def _list(self, c: int) -> tuple[int, ...]:
        cons = next((n for n in self.graph.classes[c] if n.op == "FCons"), None)
        return () if cons is None else (cons.kids[0], *self._list(cons.kids[1]))


class Supplies:
    """Which loads can be had in a form: those of views that nothing writes, valid everywhere, along a block and a loop alone."""

    def __init__(self, graph: FrozenGraph, abi: Abi, axes: Mapping[str, Axis]) -> None:
        self.graph, self.abi, self.axes = graph, abi, axes
        stored = {str(n.attrs[0]) for ns in graph.classes for n in ns if n.op == "SStore"}
        stored |= {str(n.attrs[6]) for ns in graph.classes for n in ns if n.op == "SStore" and n.attrs[6] != "-"}
        self.written = {abi.view(v).alias for v in stored}

    def has(self, n: ENode) -> bool:
        """Whether the operand of a ``FSupply`` has the form that it asks for."""
        form, vector = n.attrs
        if form == KEYS:
            return any(x.op == "FTri" and self._keys(x, str(vector)) for x in self._unready(n.kids[0]))
        if form == BYTES:
            return factors(Classes(self.graph, self._unready), self.axes, n.kids[0], str(vector)) is not None
        return form in FORMS and bool(n.path) and any(self._load(x, str(vector), n) for x in self._unready(n.kids[0]))

    def _load(self, x: ENode, vector: str, n: ENode) -> bool:
        if x.op != "FLoad" or not n.path:
            return False
        view = self.abi.view(x.attrs[0])
        fits = admits(str(n.attrs[0]), vector, n.path[-1][1], x.labels or (), tuple(x.attrs[2]), view.dtype)
        dense = fits and all(m.op == "FNil" for m in self.graph.classes[x.kids[2]])
        always = any(m.op == "FConst" and m.attrs[0] == "true" for m in self._unready(x.kids[0]))
        return dense and always and view.role == "in" and view.alias not in self.written

    def _keys(self, x: ENode, label: str) -> bool:
        """Whether a choice counts in one lane of a label alone (`eqkir.cpu.keys`): the rules have found the lane; key, conditions and
        weight must be the same in all."""
        return not self._varies(x.kids[1], label) and self._hit(x.kids[0], label)

    def _hit(self, c: int, label: str) -> bool:
        for n in self._unready(c):
            for a, b in (n.kids, n.kids[::-1]) if n.op == "FBin" else ():
                if self._varies(a, label):
                    continue
                if n.attrs[0] == "eq" and any(m.op == "FIndex" and m.labels == (label,) for m in self._unready(b)):
                    return True
                if n.attrs[0] == "and" and self._hit(b, label):
                    return True
        return False

    def _varies(self, c: int, label: str) -> bool:
        return any(label in (n.labels or ()) for n in self._unready(c))

    def _unready(self, c: int) -> list[ENode]:
        return [m for n in self.graph.classes[c] for m in (self.graph.classes[n.kids[0]] if n.op == "FReady" else (n,))]
