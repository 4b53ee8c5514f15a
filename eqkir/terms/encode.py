"""Encode an index-notation program, fully realised at its base labels, as egglog facts: TSV rows and one insertion rule a constructor.

The result knows no target, row or rule family. After it, egglog is sent rulesets and run commands only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from eqkir.base.expr import Expr
from eqkir.program.abi import Axis, member_labels, narrow_label, parameter, slice_axis, traversal
from eqkir.program.abstract import Abstract, Put
from eqkir.program.dag import FN, Path
from eqkir.program.lower import Realizer, put_attrs, reachable
from eqkir.program.table import BASE, ROWS
from eqkir.terms.prelude import PATHS, REQUESTS, SORTS

#: table -> sorts of its columns
_TABLE_FIELDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("axlab", "coordlab", "bundle"), ("String", "L")),
    **dict.fromkeys(("lab", "step-block", "step-chunk", "step-whole", "vdt", "alias", "step-narrow", "step-met"), ("String", "String")),
    **dict.fromkeys(("looped", "chunked", "whole", "single", "sliced", "oneslice", "inslice", "loopable", "unordered"), ("String",)),
    "narrowslices": ("String",),
    **dict.fromkeys(("shared", "private", "en"), ("String",)),
    **dict.fromkeys(("VEC", "INST"), ("L",)),
    **dict.fromkeys(("late", "early"), ("String", "i64")),
    **dict.fromkeys(("member", "slices"), ("String", "String", "String")),
    "dmax": ("i64",),
    "consumer1": ("V", "V"),
    "narrows": ("V", "String"),
    "counted": ("V", "V"),
    "orders": ("St", "AL"),
    "verlab": ("String", "i64", "L"),
    "base": ("G", "L"),
}
_FUNCTIONS = {"axlab", "coordlab", "bundle", "vdt", "verlab", "alias", "base"}  # the last field is the output


LABEL_KINDS = {
    "looped": ("L1", "LC", "S1", "SC", "N1", "NC", "R1", "RC"), "chunked": ("LC", "NC"), "whole": ("W", "M1", "MC", "MW"),
    "single": ("L1", "N1"), "sliced": ("S1", "SC", "R1", "RC"), "oneslice": ("SW",),
}  # fmt: skip
LOOP_STEPS = ("step-chunk", "step-whole")


@cache
def loader() -> str:
    """Row relations and insertion rules for every constructor, request and table."""
    out = [
        "(function lset (i64) L :merge (set-union old new)) (relation r_lset (i64 String)) (relation r_lempty (i64)) (ruleset load-sets)"
    ]
    out.append(
        "(rule ((r_lset i s)) ((set (lset i) (set-of s))) :ruleset load-sets) "
        "(rule ((r_lempty i)) ((set (lset i) (set-empty))) :ruleset load-sets)"
    )
    out += [f"(constructor N{s} (i64) {s} :unextractable)" for s in SORTS]

    def rule(name: str, fields: tuple[str, ...], head: str) -> None:
        fields = tuple("V" if f == "K" else f for f in fields)
        cols = [f if f in BASE else "i64" for f in fields]
        vs = [f"f{i}" for i in range(len(fields))]
        q = " ".join(f"(= s_{v} (lset {v}))" for v, f in zip(vs, fields, strict=True) if f == "L")
        term = [v if f in BASE else f"s_{v}" if f == "L" else f"(N{f} {v})" for v, f in zip(vs, fields, strict=True)]
        ident = "" if head == "table" else "i "
        if head == "table":
            act = f"(set ({name} {' '.join(term[:-1])}) {term[-1]})" if name in _FUNCTIONS else f"({name} {' '.join(term)})"
        else:
            act = f"(union (N{head} i) ({name} {' '.join(term)}))"
        out.append(f"(relation r_{name} ({'' if head == 'table' else 'i64 '}{' '.join(cols)}))")
        out.append(f"(rule ((r_{name} {ident}{' '.join(vs)}) {q}) ({act}) :ruleset load)")

    for r in ROWS.values():
        rule(r.name, r.fields, r.sort)
    for n, (a, s) in REQUESTS.items():
        rule(n, a, s)
    for n, p in PATHS.items():
        rule(n, p, "Path")
    for n, f in _TABLE_FIELDS.items():
        rule(n, f, "table")
    return "\n".join(out)


@dataclass
class Rows:
    """Rows by relation (without the ``r_`` prefix); `root` is the id of the program in sort SGL; `values` maps V ids to nodes."""

    tables: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))
    root: int = 0

    def tsv(self) -> dict[str, str]:
        """File name -> text. Raises ValueError for a string that a TSV field cannot hold."""
        out = {}
        for n, rows in sorted(self.tables.items()):
            for r in rows:
                if any(isinstance(c, str) and (set(c) & set("\t\n\r") or not c) for c in r):
                    raise ValueError(f"not a TSV field: {r!r}")
            out[f"{n}.tsv"] = "".join("\t".join(map(str, r)) + "\n" for r in rows)
        return out


class _Encoder:
    def __init__(self, p: Abstract) -> None:
        self.p = p
        self.rows = Rows()
        self.ids: dict[tuple[str, Any], int] = {}
        self.z = Realizer(p)

    def key(self, sort: str, k: Any) -> tuple[int, bool]:
        if (sort, k) in self.ids:
            return self.ids[sort, k], False
        n = self.ids[sort, k] = len(self.ids)
        return n, True

    def add(self, name: str, *cols: Any) -> None:
        self.rows.tables[name].append(cols)

    def put_term(self, sort: str, name: str, *cols: Any) -> int:
        """The id of a term given by its row."""
        i, new = self.key(sort, (name, cols))
        if new:
            self.add(name, i, *cols)
        return i

    def labels(self, x: Any) -> int:
        x = frozenset(x)
        i, new = self.key("L", x)
        if new:
            for s in sorted(x):
                self.add("lset", i, s)
            if not x:
                self.add("lempty", i)
        return i

    def path(self, p: Path) -> int:
        if p == FN:
            return self.put_term("Path", "Fn")
        if not p:
            return self.put_term("Path", "Top")
        a, label, q = p[-1]
        return self.put_term("Path", "In", self.path(p[:-1]), a, label, q)

    def ix(self, e: Expr) -> int:
        match e.op:
            case "int":
                return self.put_term("IX", "IInt", e.args[0])
            case "sym":
                return self.put_term("IX", "ISym", e.args[0])
            case "coord":
                return self.put_term("IX", "ICoord", e.args[0])
            case "dep":
                return self.put_term("IX", "IDep", e.args[0])
            case "not":
                return self.put_term("IX", "INot", self.ix(e.args[0]))
            case "select":
                return self.put_term("IX", "ISel", *(self.ix(a) for a in e.args))
        return self.put_term("IX", "IBin", e.op, *(self.ix(a) for a in e.args))

    def listing(self, sort: str, nil: str, cons: str, ids: list[Any]) -> int:
        out = self.put_term(sort, nil)
        for i in reversed(ids):
            out = self.put_term(sort, cons, i, out)
        return out

    def ixs(self, es: tuple[Expr, ...]) -> int:
        return self.listing("IXL", "INil", "ICons", [self.ix(e) for e in es])

    def name(self, key: str) -> int:
        """The value that names a traversal; its id lies beyond the nodes'."""
        i, new = self.key("K", key)
        i += len(self.p.nodes)
        if new:
            self.add("Const", i, key, "key")
        return i

    def axis_labels(self, axes: Any) -> set[str]:
        return {t for a in axes for t in (a, *self.labels_of(self.p.axis(a)))}

    def labels_of(self, a: Axis) -> tuple[str, ...]:
        """The labels of an axis, those between its bounds, or over the groups that a block meets (if it has any), last."""
        found = self.p.ranges
        more = [narrow_label(t) for t in a.labels] if found and (a.name in found.bounds or a.name in found.met) else []
        return (*a.labels, *(t for t in more if t))

    def values(self, ids: tuple[int, ...]) -> int:
        return self.listing("VL", "VNil", "VCons", list(ids))

    def live(self) -> list[int]:
        """Nodes that the groups use, and those that a rule may put in their place."""
        more = [j for _, j, _ in self.p.ranges.counted] if self.p.ranges else []
        seen = {*reachable(self.p, [s for g in self.p.groups for ph in g.phases for s in ph])}
        while more:
            j = more.pop()
            if j not in seen:
                seen.add(j)
                more += self.p.nodes[j].args
        return sorted(seen)

    # ---------------------------------------------------------------- abstract values: the SSA id is the node's index
    def value_rows(self) -> None:
        for i in self.live():
            n = self.p.nodes[i]
            a = n.args
            match n.op:
                case "Const" | "Scalar":
                    self.add(n.op, i, n.attrs[0], n.dtype)
                case "Index":
                    self.add("Index", i, self.ix(n.attrs[0]), n.dtype, self.values(a))
                case "Load":
                    self.add("Load", i, n.attrs[0], n.attrs[1], self.ixs(n.attrs[2]), a[0], a[1], self.values(a[2:]))
                case "Arg":
                    self.add("Arg", i, *n.attrs, n.dtype)
                case "RedN" | "ScanN":
                    c = n.attrs[1]
                    self.add(n.op, i, n.attrs[0], *(self.values(a[j * c : (j + 1) * c]) for j in range(3)))
                case "Fold":
                    axis, key, c = n.attrs
                    self.add("Fold", i, axis, self.name(key), *(self.values(x) for x in (a[:c], a[c : 2 * c], a[2 * c :])))
                case "While":
                    axis, key, c = n.attrs
                    self.add("While", i, axis, self.name(key), self.values(a[:c]), self.values(a[c : 2 * c]), a[2 * c])
                case "Form":
                    self.add("Form", i, self.name(n.attrs[0]), n.attrs[1], n.dtype, self.labels(self.axis_labels(n.attrs[2])))
                case "State":
                    axis, key, c, j = n.attrs
                    self.add("State", i, axis, self.name(key), j, self.values(a[:c]), self.values(a[c : 2 * c]))
                case "WState":
                    axis, key, c, j = n.attrs
                    self.add("WState", i, axis, self.name(key), j, self.values(a[:c]), self.values(a[c : 2 * c]), a[2 * c])
                case "Con" | "ConAcc":
                    self.add(n.op, i, n.attrs[0], n.dtype, *a)
                case _:
                    self.add(n.op, i, *n.attrs, *a)

    # ---------------------------------------------------------------- realised values: the id is the index in the DAG
    def realised_rows(self) -> None:
        for i, n in enumerate(self.z.dag.nodes):
            if n.op == "SStore":
                continue
            kids = iter(n.kids)
            attrs = iter(n.attrs)
            cols: list[Any] = []
            for f in ROWS[n.op].fields:
                if f == "L":
                    cols.append(self.labels(n.labels or ()))
                elif f == "Path":
                    cols.append(self.path(n.path or ()))
                elif f == "F":
                    cols.append(next(kids))
                elif f == "FL":
                    ks = next(kids)
                    assert isinstance(ks, tuple)
                    cols.append(self.listing("FL", "FNil", "FCons", list(ks)))
                elif f == "IX":
                    cols.append(self.ix(next(attrs)))
                elif f == "K":
                    cols.append(self.name(next(attrs)))
                elif f == "IXL":
                    cols.append(self.ixs(next(attrs)))
                else:
                    cols.append(next(attrs))
            self.add(n.op, i, *cols)
        for (x, path, k, v), i in self.z.requests.items():
            self.add("At", i, self.labels(x), self.path(path), k, v)

    # ---------------------------------------------------------------- statements, groups
    def store(self, s: Put, x: frozenset[str]) -> tuple[int, int]:
        """(abstract, realised) ids of one store."""
        attrs = [self.ixs(x) if isinstance(x, tuple) else x for x in put_attrs(s)]
        a = self.put_term("St", "APut", *attrs, s.value, s.valid, self.values(s.deps))
        n = self.z.dag.nodes[self.z.put(s, x)]
        deps = n.kids[2]
        assert n.op == "SStore" and n.labels is not None and n.path is not None and isinstance(deps, tuple)
        dl = self.listing("FL", "FNil", "FCons", list(deps))
        r = self.put_term("S", "SStore", self.labels(n.labels), self.path(n.path), *attrs, *n.kids[:2], dl)
        key = self.labels(t for t in x if t.split(":")[0] in self.z.put_occ(s))
        self.add("AtS", r, key, a)
        self.add("orders", a, self.listing("AL", "ANil", "ACons", list(self.z.facts.nest(s))))
        self.add("late" if (s.view, s.version) in self.z.facts.late else "early", s.view, s.version)
        return a, r

    def order(self, t: tuple[Any, ...]) -> int:
        if t[0] == "TUnit":
            return self.put_term("T", "TUnit")
        if t[0] == "TAx":
            return self.put_term("T", "TAx", t[1])
        return self.put_term("T", t[0], self.order(t[1]), self.order(t[2]))

    def groups(self) -> None:
        segs, gs = [], []
        for g, dag in zip(self.p.groups, self.z.segments(), strict=True):
            x = self.z.plan(s for ph in g.phases for s in ph)
            a = r = -1
            for ph in reversed(g.phases):
                pa = pr = -1
                for s in reversed(ph):
                    sa, sr = self.store(s, x)
                    pa, pr = (sa, sr) if pa < 0 else (self.put_term("St", "APar", sa, pa), self.put_term("S", "SPar", sr, pr))
                a, r = (pa, pr) if a < 0 else (self.put_term("St", "ASeq", pa, a), self.put_term("S", "SSeq", pr, r))
            al = self.listing("AL", "ANil", "ACons", list(g.axes))
            gid = self.put_term("G", "Grp", al, a)
            t = self.order(dag.order)
            self.add("Order", t, self.labels(y for y in x if traversal(y).startswith("O")), al)
            sid = self.put_term("SG", "Seg", dag.mode, t, r)
            self.add("RealG", sid, gid)
            self.add("base", gid, self.labels(x))
            segs.append(sid)
            gs.append(gid)
        self.rows.root = self.listing("SGL", "SGNil", "SGCons", segs)
        self.add("RealGL", self.rows.root, self.listing("GL", "GNil", "GCons", gs))

    def tables(self) -> None:
        f = self.z.facts
        for c, seg in self.p.sliced:
            self.add("slices", c, seg, f"{seg}.m")
        for a in self.p.axes:
            labels = self.labels_of(a)
            self.add("axlab", a.name, self.labels({a.name, *labels}))
            seg = slice_axis(a.name)
            self.add("coordlab", a.name, self.labels(self.axis_labels({a.name, seg})))
            for t in labels:
                for kind, traversals in LABEL_KINDS.items():
                    if traversal(t) in traversals:
                        self.add(kind, t)
            self.add("private" if a.name in f.private else "shared", a.name)
            self.add("inslice" if a.kind == "mem" else "loopable", a.name)
            if a.kind == "loop":
                self.add("unordered", a.name)
            if a.kind == "mem":
                for t, m in zip(self.p.axis(seg).labels, a.labels, strict=True):
                    self.add("member", a.name, t, m)
                    self.add("lab", a.name, m)
                    if (n := narrow_label(t)) in self.labels_of(self.p.axis(seg)):
                        self.add("member", a.name, n, m)
                continue
            self.add("en", a.labels[0])
            for t in a.labels:
                self.add("lab", a.name, t)
                self.add("bundle", t, self.labels({t, *member_labels(t, (x.name for x in self.p.axes))}))
                if (n := narrow_label(t)) in labels and self.p.ranges and a.name in self.p.ranges.met:
                    self.add("step-met", t, n)
                    self.add("lab", a.name, n)
                    self.add("bundle", n, self.labels({n}))
                elif n in labels:
                    self.add("step-narrow", t, n)
            for step, t in zip({"own": ("step-block",), "loop": LOOP_STEPS, "seg": LOOP_STEPS}.get(a.kind, ()), a.labels[1:], strict=False):
                self.add(step, a.labels[0], t)
        labels = tuple(t for a in self.p.axes for t in self.labels_of(a))
        self.add("VEC", self.labels(t for t in labels if parameter(t)))
        self.add("INST", self.labels(t for t in labels if traversal(t).startswith("O")))
        self.add("dmax", f.stages)
        for v in self.p.abi.views:
            self.add("vdt", v.name, v.dtype)
            self.add("alias", v.name, f"m{v.alias}")
        puts = [s for g in self.p.groups for ph in g.phases for s in ph]
        reads = [self.p.nodes[i].attrs[:2] for i in self.live() if self.p.nodes[i].op == "Load"]
        for view, version in sorted({*map(tuple, reads), *((s.view, s.version) for s in puts)}):
            self.add("verlab", view, version, self.labels(self.axis_labels(self.p.inside(view, version))))
        if self.p.ranges:
            for op, axis in self.p.ranges.narrows:
                self.add("narrows", op, axis)
            for op, same, _ in self.p.ranges.counted:
                self.add("counted", op, same)
            for axis in self.p.ranges.slices:
                self.add("narrowslices", axis)
        for operand, user in single_uses(self.p):
            self.add("consumer1", operand, user)

    def run(self) -> Rows:
        self.value_rows()
        self.groups()
        self.realised_rows()
        self.tables()
        for n, rows in self.rows.tables.items():
            self.rows.tables[n] = list(dict.fromkeys(rows))
        return self.rows


def single_uses(p: Abstract) -> list[tuple[int, int]]:
    """(operand, user) where the source uses a value exactly once; stores count as uses."""
    puts = [s for g in p.groups for ph in g.phases for s in ph]
    uses: Counter[int] = Counter(i for s in puts for i in (s.value, s.valid, *s.deps))
    live = reachable(p, puts)
    for i in live:
        uses.update(p.nodes[i].args)
    return [(a, i) for i in live for a in dict.fromkeys(p.nodes[i].args) if uses[a] == 1]


def encode(p: Abstract) -> Rows:
    """The rows of P0: abstract values, their base realisation, and the tables that rules read."""
    return _Encoder(p).run()
