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
from eqkir.program.table import REALISED_SORTS, ROWS
from eqkir.terms.engine import Engine

Class = tuple[str, Any]


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

    def classes(self) -> dict[Class, list[ENode]]:
        """All realised classes; kids are (sort, value) pairs until numbered. Without what is not complete yet: nodes with an index that
        still is to be substituted in."""
        out: dict[Class, list[ENode]] = {}
        for row in ROWS.values():
            if row.sort not in REALISED_SORTS:
                continue
            for r in self.rows(row.name):
                labels: tuple[str, ...] | None = None
                path: Path | None = None
                attrs: list[Any] = []
                kids: list[Any] = []
                for sort, v in zip(row.fields, r.inputs, strict=True):
                    if sort == "L":
                        labels = self.labels(v)
                    elif sort == "Path":
                        path = self.paths[v]
                    elif sort == "String":
                        attrs.append(self.string(v))
                    elif sort == "i64":
                        attrs.append(self.int(v))
                    elif (known := self.ix if sort == "IX" else self.ixl if sort == "IXL" else None) is not None:
                        if v not in known:
                            break
                        attrs.append(known[v])
                    elif sort == "K":
                        attrs.append(_Key(v))
                    else:
                        kids.append((sort, v))
                else:
                    by = attrs.pop(0) if row.by else ""
                    out.setdefault((row.sort, r.output), []).append(ENode(row.by or row.name, labels, path, tuple(attrs), tuple(kids), by))
        return out


def _productive(classes: dict[Class, list[ENode]]) -> dict[Class, list[ENode]]:
    """Drop e-nodes that no finite term uses (a stage that is asked for and cannot exist)."""
    users: dict[Any, list[tuple[Class, int]]] = {}
    missing: dict[tuple[Class, int], int] = {}
    done: set[Any] = set()
    queue: list[Class] = []
    for c, ns in classes.items():
        for j, n in enumerate(ns):
            ks = set(n.kids)
            missing[c, j] = len(ks)
            for k in ks:
                users.setdefault(k, []).append((c, j))
            if not ks and c not in done:
                done.add(c)
                queue.append(c)
    while queue:
        for c, j in users.get(queue.pop(), ()):
            missing[c, j] -= 1
            if not missing[c, j] and c not in done:
                done.add(c)
                queue.append(c)
    return {c: [n for j, n in enumerate(ns) if not missing[c, j]] for c, ns in classes.items() if c in done}


def classes_of(n: ENode) -> tuple[Class, ...]:
    """Children before classes are numbered: (sort, value) pairs."""
    return n.kids  # type: ignore[return-value]


def _reach(classes: dict[Class, list[ENode]], root: Class) -> dict[Class, list[ENode]]:
    seen = {root: classes[root]}
    todo = [root]
    while todo:
        for n in seen[todo.pop()]:
            for k in classes_of(n):
                if k not in seen:
                    seen[k] = classes[k]
                    todo.append(k)
    return seen


def _colours(classes: dict[Class, list[ENode]]) -> dict[Class, int]:
    """A colour a class from structure alone (partition refinement on sorted signatures); equal colours mean bisimilar classes.

    A class's signature is its colour and the sorted signatures of its e-nodes: what they are and the colours of their operands. A round
    replaces colours by the ranks of signatures, so colours of one round refine, and keep the order of, those of the round before. Only
    classes that share their colour need a signature."""
    at = {c: i for i, c in enumerate(classes)}
    nodes = [n for ns in classes.values() for n in ns]
    text = [str((n.op, n.labels, n.path, tuple(map(str, n.attrs)), *([n.by] if n.by else []))) for n in nodes]
    rank = {t: i for i, t in enumerate(sorted(set(text)))}
    static = np.array([rank[t] for t in text], np.int64)
    arity = np.array([len(n.kids) for n in nodes], np.int64)
    owner = np.repeat(np.arange(len(classes)), [len(ns) for ns in classes.values()])
    kids = np.full((len(nodes), int(arity.max(initial=0))), -1, np.int64)
    kids[np.arange(kids.shape[1]) < arity[:, None]] = [at[k] for n in nodes for k in classes_of(n)]
    colour, count = np.zeros(len(classes), np.int64), 1
    while True:
        shared = np.bincount(colour, minlength=count)[colour] > 1
        sig: list[tuple[int, tuple[int, ...]]] = [(c, ()) for c in colour.tolist()]
        of = np.flatnonzero(shared[owner])
        if len(of):
            key = static[of]
            for column in kids[of].T:  # a missing operand is less than every colour, as a shorter tuple is less than a longer one
                key = np.unique(key * (count + 1) + np.where(column < 0, 0, colour[column] + 1), return_inverse=True)[1]
            order = np.lexsort((key, owner[of]))
            ranks, owners = key[order].tolist(), owner[of][order]
            cuts = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(ranks)]
            for start, end in pairwise(cuts):
                i = int(owners[start])
                sig[i] = (sig[i][0], tuple(ranks[start:end]))
        place = {s: i for i, s in enumerate(sorted(set(sig)))}
        colour = np.array([place[s] for s in sig], np.int64)
        if len(place) == count:
            return dict(zip(classes, colour.tolist(), strict=True))
        count = len(place)


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
    classes = _reach(_productive(r.classes()), ("SGL", top))
    colour = _colours(classes)
    signature = lambda n: (n.op, n.labels or (), n.path or (), tuple(map(str, n.attrs)), tuple(colour[k] for k in n.kids), n.by)  # noqa: E731
    number: dict[Class, int] = {}
    order: list[Class] = []
    sorted_nodes: dict[Class, list[ENode]] = {}
    todo: list[Class] = [("SGL", top)]
    while todo:  # breadth first from the root, alternatives by signature
        nxt: list[Class] = []
        for c in todo:
            if c in number:
                continue
            number[c] = len(order)
            order.append(c)
            sorted_nodes[c] = sorted(classes[c], key=signature)
            nxt += [k for n in sorted_nodes[c] for k in n.kids]  # type: ignore[misc]
        todo = nxt
    if numbers is not None:
        numbers.update(number)
    names: dict[Any, str] = {}

    def attrs(xs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(names.setdefault(x.value, f"f{len(names)}") if isinstance(x, _Key) else x for x in xs)

    final = [
        tuple(
            dict.fromkeys(ENode(n.op, n.labels, n.path, attrs(n.attrs), tuple(number[k] for k in n.kids), n.by) for n in sorted_nodes[c])  # type: ignore[index]
        )
        for c in order
    ]
    g = FrozenGraph(final, [c[0] for c in order], [""] * len(order), 0)
    g.dtypes = dtypes(g, abi)
    g.origins = _origins(r, number, origins or {})
    g.steer = _steer(r, number, steer or {})
    return g


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
