"""egglog's rows as a `FrozenGraph`: realised classes reachable from the program, in an order that egglog's ids do not influence."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from eqkir.base.expr import Expr, rebuild
from eqkir.extract.graph import ENode, FrozenGraph, Path
from eqkir.program.abi import Abi
from eqkir.program.dag import FN, RNode
from eqkir.program.schedule import node_dtype
from eqkir.program.table import REALISED_SORTS, ROWS, Row
from eqkir.terms.canonical import Flat, Numbered, Static, numbered, productive, reachable
from eqkir.terms.engine import Engine

Class = tuple[str, Any]
Numbers = dict[Class, int]
#: sorts of fields that are no operands
SAID = ("L", "Path", "String", "i64", "IX", "IXL", "K")


class _Key:
    """A value class that names a traversal; it gets its final name from the order of first occurrence."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __str__(self) -> str:
        return "key"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


class Reader:
    def __init__(self, engine: Engine) -> None:
        self.eg = engine.egraph
        self.fns = self.eg.freeze().functions
        self.strings: dict[Any, str] = {}
        self.ints: dict[Any, int] = {}
        self.sets: dict[Any, tuple[str, ...]] = {}
        self.paths = self._paths()
        self.ix = self._expressions()
        self.ixl = self._lists()

    def rows(self, name: str) -> Any:
        return self.fns[name].rows if name in self.fns else ()

    def string(self, v: Any) -> str:
        if v not in self.strings:
            self.strings[v] = self.eg.value_to_string(v)
        return self.strings[v]

    def int(self, v: Any) -> int:
        if v not in self.ints:
            self.ints[v] = self.eg.value_to_i64(v)
        return self.ints[v]

    def labels(self, v: Any) -> tuple[str, ...]:
        if v not in self.sets:
            self.sets[v] = tuple(sorted(self.string(x) for x in self.eg.value_to_set(v)))
        return self.sets[v]

    def _paths(self) -> dict[Any, Path]:
        out: dict[Any, Path] = {r.output: () for r in self.rows("Top")} | {r.output: FN for r in self.rows("Fn")}
        todo = list(self.rows("In"))
        while todo:
            rest = []
            for r in todo:
                if r.inputs[0] in out:
                    a, label, q = r.inputs[1:]
                    out[r.output] = (*out[r.inputs[0]], (self.string(a), self.string(label), self.int(q)))
                else:
                    rest.append(r)
            if len(rest) == len(todo):
                break
            todo = rest
        return out

    def _expressions(self) -> dict[Any, Expr]:
        """The smallest expression of every index class, ties by text."""
        best: dict[Any, tuple[int, str, Expr]] = {}
        changed = True
        while changed:
            changed = False
            for name in ("IInt", "ISym", "ICoord", "IDep", "INot", "IBin", "ISel"):
                for r in self.rows(name):
                    i = r.inputs
                    op: str
                    args: list[tuple[int, str, Any]]
                    match name:
                        case "IInt":
                            op, args = "int", [(0, "", self.int(i[0]))]
                        case "ISym" | "ICoord":
                            op, args = name[1:].lower(), [(0, "", self.string(i[0]))]
                        case "IDep":
                            op, args = "dep", [(0, "", self.int(i[0]))]
                        case _:
                            op = {"INot": "not", "ISel": "select"}.get(name) or self.string(i[0])
                            kids = i[1:] if name == "IBin" else i
                            if any(k not in best for k in kids):
                                continue
                            args = [best[k] for k in kids]
                    e = Expr(op, (args[0][2],)) if not isinstance(args[0][2], Expr) else rebuild(op, tuple(a[2] for a in args))
                    cand = (1 + sum(a[0] for a in args), str(e), e)
                    if r.output not in best or cand[:2] < best[r.output][:2]:
                        best[r.output] = cand
                        changed = True
        return {c: e for c, (_, _, e) in best.items()}

    def _lists(self) -> dict[Any, tuple[Expr, ...]]:
        out: dict[Any, tuple[Expr, ...]] = {r.output: () for r in self.rows("INil")}
        todo = list(self.rows("ICons"))
        while todo:
            rest = []
            for r in todo:
                h, t = r.inputs
                if t in out and h in self.ix:
                    cand = (self.ix[h], *out[t])
                    if r.output not in out or str(cand) < str(out[r.output]):
                        out[r.output] = cand
                else:
                    rest.append(r)
            if len(rest) == len(todo):
                break
            todo = rest
        return out

    def flat(self) -> tuple[Flat, Numbers]:
        """All realised e-nodes, and the number of every class by (sort, value). Without what is not complete yet: nodes with an index that
        still is to be substituted in."""
        number: Numbers = {}
        of: dict[str, dict[Any, int]] = {}
        statics: dict[Static, int] = {}
        nodes: list[tuple[int, int, list[int]]] = []
        classes = 0
        for row in ROWS.values():
            if row.sort not in REALISED_SORTS or not (found := self.rows(row.name)):
                continue
            own = of.setdefault(row.sort, {})
            operands = [(i, of.setdefault(s, {})) for i, s in enumerate(row.fields) if s not in SAID]
            said = [(i, s) for i, s in enumerate(row.fields) if s in SAID]
            known: dict[tuple[Any, ...], int] = {}
            for r in found:
                inputs = r.inputs
                key = tuple([inputs[i] for i, _ in said])
                static = known.get(key)
                if static is None:
                    told = self._static(row, [s for _, s in said], key)
                    static = known[key] = -1 if told is None else statics.setdefault(told, len(statics))
                if static < 0:
                    continue
                kids = []
                for i, at in operands:
                    v = inputs[i]
                    k = at.get(v)
                    if k is None:
                        at[v] = k = classes
                        classes += 1
                    kids.append(k)
                c = own.get(r.output)
                if c is None:
                    own[r.output] = c = classes
                    classes += 1
                nodes.append((c, static, kids))
        for sort, at in of.items():
            number.update({(sort, v): c for v, c in at.items()})
        kids_of = np.full((len(nodes), max((len(ks) for _, _, ks in nodes), default=0)), -1, np.int64)
        for width in range(1, kids_of.shape[1] + 1):
            some = [i for i, (_, _, ks) in enumerate(nodes) if len(ks) == width]
            if some:
                kids_of[some, :width] = [nodes[i][2] for i in some]
        owner, static_of = (np.array([n[i] for n in nodes], np.int64) for i in (0, 1))
        return Flat(classes, list(statics), owner, static_of, kids_of), number

    def _static(self, row: Row, sorts: list[str], values: tuple[Any, ...]) -> Static | None:
        """What an e-node says about itself; None where an index is not there yet."""
        labels: tuple[str, ...] | None = None
        path: Path | None = None
        attrs: list[Any] = []
        for sort, v in zip(sorts, values, strict=True):
            if sort == "L":
                labels = self.labels(v)
            elif sort == "Path":
                path = self.paths[v]
            elif sort == "String":
                attrs.append(self.string(v))
            elif sort == "i64":
                attrs.append(self.int(v))
            elif sort == "K":
                attrs.append(_Key(v))
            else:
                known: dict[Any, Any] = self.ix if sort == "IX" else self.ixl
                if v not in known:
                    return None
                attrs.append(known[v])
        by = attrs.pop(0) if row.by else ""
        return row.by or row.name, labels, path, tuple(attrs), by


def freeze(
    engine: Engine, root: int, abi: Abi, origins: dict[int, str] | None = None, steer: dict[int, str] | None = None,
    numbers: dict[tuple[str, Any], int] | None = None,
) -> FrozenGraph:  # fmt: skip
    """The realised part of the e-graph that is reachable from the program. `origins`: abstract node id -> text; `steer`: -> token;
    `numbers`: is filled with the number of each class by (sort, egglog's value).

    Raises KeyError when the program has no complete candidate (P0 is one, so a well-formed session always has).
    """
    r = Reader(engine)
    top = next(x.output for x in r.rows("NSGL") if r.int(x.inputs[0]) == root)
    every, known = r.flat()
    start = known["SGL", top]
    f = productive(every)
    if not (f.owner == start).any():
        raise KeyError("the program has no complete candidate")
    done = numbered(reachable(f, start), start)
    place = {c: i for i, c in enumerate(done.order)}
    number = {at: place[c] for at, c in known.items() if c in place}
    if numbers is not None:
        numbers.update(number)
    sorts = [""] * len(done.order)
    for (sort, _), i in number.items():
        sorts[i] = sort
    g = FrozenGraph(_alternatives(f.statics, done), sorts, [""] * len(sorts), 0)
    g.dtypes = dtypes(g, abi)
    g.origins = _origins(r, number, origins or {})
    g.steer = _steer(r, number, steer or {})
    return g


def _alternatives(statics: list[Static], done: Numbered) -> list[tuple[ENode, ...]]:
    """E-nodes by class. Traversals get their names in the order of first occurrence."""
    names: dict[Any, str] = {}
    keyed = np.array([any(isinstance(x, _Key) for x in s[3]) for s in statics], bool)
    for i in dict.fromkeys(done.static[keyed[done.static]].tolist()):
        for x in statics[i][3]:
            if isinstance(x, _Key):
                names.setdefault(x.value, f"f{len(names)}")
    said = [
        (op, labels, path, tuple(names.get(x.value, "") if isinstance(x, _Key) else x for x in attrs), by)
        for op, labels, path, attrs, by in statics
    ]
    nodes = []
    for i, kids, n in zip(done.static.tolist(), done.kids.tolist(), (done.kids >= 0).sum(1).tolist(), strict=True):
        op, labels, path, attrs, by = said[i]
        nodes.append(ENode(op, labels, path, attrs, tuple(kids[:n]), by))
    return [tuple(nodes[a:b]) for a, b in pairwise(done.first)]


def _steer(r: Reader, number: dict[Class, int], steer: dict[int, str]) -> dict[int, tuple[str, ...]]:
    """Tokens by realised class: those of the abstract values that it was asked for as."""
    tokens: dict[Any, set[str]] = {}
    for x in r.rows("NV"):
        i = r.int(x.inputs[0])
        if i in steer:
            tokens.setdefault(x.output, set()).add(steer[i])
    out: dict[int, set[str]] = {}
    for x in r.rows("Here"):
        c = number.get(("F", x.output))
        if c is not None and x.inputs[3] in tokens:
            out.setdefault(c, set()).update(tokens[x.inputs[3]])
    return {c: tuple(sorted(out[c])) for c in sorted(out)}


def _origins(r: Reader, number: dict[Class, int], origins: dict[int, str]) -> list[str]:
    name: dict[Any, str] = {}
    for x in sorted(r.rows("NV"), key=lambda x: r.int(x.inputs[0])):
        i = r.int(x.inputs[0])
        if i in origins:
            name.setdefault(x.output, origins[i])
    out = [""] * len(number)
    for x in r.rows("Here"):
        c = number.get(("F", x.output))
        if c is not None and x.inputs[3] in name:
            out[c] = min(out[c] or name[x.inputs[3]], name[x.inputs[3]])
    return out


def dtypes(g: FrozenGraph, abi: Abi) -> list[str]:
    """The dtype of every F class (a class invariant), ``""`` for other sorts."""
    out = [""] * len(g.classes)
    changed = True
    while changed:
        changed = False
        for c, ns in enumerate(g.classes):
            if g.sorts[c] != "F" or out[c]:
                continue
            for n in ns:
                d = _dtype(g, n, out, abi)
                if d:
                    out[c] = d
                    changed = True
                    break
    return out


def _dtype(g: FrozenGraph, n: ENode, out: list[str], abi: Abi) -> str:
    if n.op == "FReady":
        return out[n.kids[0]]
    if n.op in ("FState", "FWState"):
        return _nth(g, n.kids[0], n.attrs[1], out)
    if n.op == "FPick":
        for t in _unready(g, n.kids[0]):
            lst = t.kids[1 if t.op.startswith(("FRedN", "FScanN")) else 0]
            return _nth(g, lst, n.attrs[0], out)
        return ""
    return node_dtype(RNode(n.op, n.labels, n.path, n.attrs, ()), [out[k] for k in n.kids] + [""] * 3, abi)


TUPLES = ("FRedNTree", "FRedNLoop", "FScanNWhole", "FScanNLoop", "FFoldLoop", "FFoldWhole", "FWhile")


def _nth(g: FrozenGraph, lst: int, i: int, out: list[str]) -> str:
    for _ in range(i):
        lst = g.classes[lst][0].kids[1]
    return out[g.classes[lst][0].kids[0]]


def _unready(g: FrozenGraph, c: int) -> list[ENode]:
    out = []
    for n in g.classes[c]:
        if n.op == "FReady":
            out += [m for m in g.classes[n.kids[0]] if m.op in TUPLES]
        elif n.op in TUPLES:
            out.append(n)
    return out
