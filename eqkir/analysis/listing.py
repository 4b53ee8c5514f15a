"""Readable text of an index-notation program: groups, phases, stores, with shared or long subexpressions named (`eqkir show`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from eqkir.base.expr import Expr, spell

if TYPE_CHECKING:
    from eqkir.program.abstract import Abstract, Group, Put, VNode

WIDTH = 100  # a subexpression with a longer text gets a name
INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "shr": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
LEAVES = ("Const", "Scalar", "Arg", "Form")
NAMED = ("RedN", "ScanN", "Fold", "While")


def listing(abstract: Abstract) -> str:
    """The whole program. Names: ``t<n>`` computed values, ``V@k`` version k of the alias class of view V."""
    a = abstract.abi
    out = [f"kernel {a.kernel}"]
    for v in a.views:
        out.append(f"  {v.role} {v.name}: {v.dtype}[{', '.join(map(_bare, v.shape))}] class {v.alias}")
    out += [f"  scalar {s.name}: {s.dtype}" for s in a.scalars]
    for s in a.symbols:
        bounds = [f">= {s.lo}"] * (s.lo > 0) + [f"<= {s.hi}"] * (s.hi is not None) + [f"multiple of {s.multiple_of}"] * (s.multiple_of > 1)
        out += [f"  symbol {s.name} {', '.join(bounds)}"] if bounds else []
    out += [f"  constexpr {n} = {text}" for n, text in a.constexprs]
    out += [f"  axis {x.name} < {_bare(x.extent)} ({x.kind})" for x in abstract.axes]
    names = 0
    for g in abstract.groups:
        lines, names = _group(abstract, g, names)
        out += lines
    return "\n".join(out) + "\n"


def _bare(e: Expr) -> str:
    s = spell(e)
    return s[1:-1] if s.startswith("(") and s.endswith(")") and e.op in ("add", "sub", "mul", "floordiv", "mod") else s


def _group(p: Abstract, g: Group, first: int) -> tuple[list[str], int]:
    out = [f"group {g.name} over ({', '.join(g.axes)})"]
    for n, phase in enumerate(g.phases):
        out += [f"  phase {n}"] if len(g.phases) > 1 else []
        text = _Text(p, phase, first)
        out += text.lines
        first = text.next
        out += [f"    {text.put(s)}" for s in phase]
    return out, first


class _Text:
    """Texts of the nodes below the stores of a phase; the nodes with a name are in `lines`."""

    def __init__(self, p: Abstract, puts: tuple[Put, ...], first: int) -> None:
        self.p, self.next = p, first
        self.lines: list[str] = []
        self.text: dict[int, str] = {}
        roots = [r for s in puts for r in (s.value, s.valid, *s.deps)]
        seen: set[int] = set()
        uses = Counter(roots)
        todo = list(roots)
        while todo:
            i = todo.pop()
            if i not in seen:
                seen.add(i)
                todo += p.nodes[i].args
                uses.update(p.nodes[i].args)
        inside = self._regions(seen)
        for i in sorted(seen):  # children first
            n = p.nodes[i]
            s = self.node(n)
            shared = uses[i] > 1 and n.op not in ("Load", "Index", "Pick")
            if n.op in NAMED or i not in inside and n.op not in LEAVES and (shared or len(s) > WIDTH):
                name = f"t{self.next}"
                self.next += 1
                self.lines.append(f"    {name}: {n.dtype} = {_outer(s)}{self.origin(i)}")
                s = name
            self.text[i] = s

    def _regions(self, seen: set[int]) -> set[int]:
        """Nodes over formals of a combine region."""
        out: set[int] = set()
        for i in sorted(seen):
            n = self.p.nodes[i]
            if n.op == "Arg" or n.op not in ("RedN", "ScanN") and any(a in out for a in n.args):
                out.add(i)
        return out

    def origin(self, i: int) -> str:
        return f"  # {self.p.origins[i]}" if i in self.p.origins else ""

    def put(self, s: Put) -> str:
        yes = self.p.nodes[s.valid].op == "Const" and self.p.nodes[s.valid].attrs[0] == "true"
        where = "" if yes else f" where {_outer(self.text[s.valid])}"
        equals = "=" if s.mode == "store" else f"<- {s.mode}"
        return f"{s.view}@{s.version}[{self.ixs(s.ixs, s.deps)}] {equals} {_outer(self.text[s.value])}{where}"

    def ixs(self, ixs: tuple[Expr, ...], deps: tuple[int, ...]) -> str:
        return ", ".join(_outer(self.expr(e, deps)) for e in ixs)

    def expr(self, e: Expr, deps: tuple[int, ...]) -> str:
        return spell(e, lambda a: self.text[deps[a.args[0]]] if a.op == "dep" else str(a.args[0]))

    def node(self, n: VNode) -> str:
        t = [self.text[a] for a in n.args]
        match n.op:
            case "Const":
                return f"{n.attrs[0]}"
            case "Scalar":
                return str(n.attrs[0])
            case "Arg":
                return f"{n.attrs[0]}{n.attrs[1]}"
            case "Index":
                return self.expr(n.attrs[0], n.args)
            case "Load":
                valid, fill = (self.p.nodes[a] for a in n.args[:2])
                mask = "" if valid.op == "Const" and valid.attrs[0] == "true" else f" where {_outer(t[0])} else {t[1]}"
                s = f"{n.attrs[0]}@{n.attrs[1]}[{self.ixs(n.attrs[2], n.args[2:])}]{mask}"
                return f"({s})" if mask else s
            case "Bin" if n.attrs[0] in INFIX:
                return f"({t[0]} {INFIX[n.attrs[0]]} {t[1]})"
            case "Un" | "Bin" | "Tri":
                return f"{n.attrs[0]}({', '.join(map(_outer, t))})"
            case "Permit":
                return f"{n.attrs[0].replace(' ', '+')}({_outer(t[0])})"
            case "Cast":
                return f"{n.attrs[0]}({_outer(t[0])})"
            case "Bitcast":
                return f"bits_{n.attrs[0]}({_outer(t[0])})"
            case "Pick":
                return f"{t[0]}.{n.attrs[0]}"
            case "Red":
                return f"{n.attrs[0]}[{n.attrs[1]}]({_outer(t[0])})"
            case "RedN":
                k = n.attrs[1]
                parts = [", ".join(map(_outer, t[j * k : (j + 1) * k])) for j in range(3)]
                return f"reduce[{n.attrs[0]}](from ({parts[0]}), of ({parts[1]}), by ({parts[2]}))"
            case "Scan":
                return f"scan {n.attrs[0]}[{n.attrs[1]}]({_outer(t[0])})"
            case "ScanN":
                k = n.attrs[1]
                parts = [", ".join(map(_outer, t[j * k : (j + 1) * k])) for j in range(3)]
                return f"scan[{n.attrs[0]}](from ({parts[0]}), of ({parts[1]}), by ({parts[2]}))"
            case "Form":
                return f"{n.attrs[0]}.{n.attrs[1]}"
            case "Fold" | "While" | "State" | "WState":
                k = n.attrs[2]
                parts = [", ".join(map(_outer, t[j : j + k])) for j in range(0, len(t), k)]
                names = ("from", "to", "while" if n.op in ("While", "WState") else "of")
                which = f".{n.attrs[3]} before" if n.op in ("State", "WState") else ""
                body = ", ".join(f"{w} ({x})" for w, x in zip(names, parts, strict=False))
                return f"{n.op.lower()} {n.attrs[1]}{which}[{n.attrs[0]}]({body})"
            case "Con" | "ConAcc":
                init = f" + {t[2]}" if n.op == "ConAcc" else ""
                return f"contract[{n.attrs[0]}]({_outer(t[0])}, {_outer(t[1])}){init}"
        return f"{n.op}({', '.join(t)})"


def _outer(s: str) -> str:
    """Without parentheses around the whole."""
    if not s.startswith("("):
        return s
    depth = 0
    for i, c in enumerate(s):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return s[1:-1] if i == len(s) - 1 else s
    return s


__all__ = ["listing"]
