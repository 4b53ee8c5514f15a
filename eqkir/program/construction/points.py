"""A kernel's terms and a program's nodes as expressions: data inside them are symbols, ``?n`` of the kernel and ``!n`` of the program."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from eqkir.base import dtypes
from eqkir.base.expr import FALSE, Coord, Expr, Int, Sym, atoms, substitute
from eqkir.kir.model import Kernel
from eqkir.kir.types import Type
from eqkir.program.abi import slice_axis
from eqkir.program.abstract import Abstract, VNode
from eqkir.program.construction.reason import Reason, expression
from eqkir.program.construction.relation import K, Relation, Term, Unknown
from eqkir.program.model import Program
from eqkir.program.verify_prove import dtype_range

Sigma = Mapping[str, Expr]


class Points:
    """A node is read at a point of its axes: `sigma` says which (axes that are not in it stand for themselves)."""

    def __init__(self, kernel: Kernel, types: Mapping[str, Type], abstract: Abstract, program: Program) -> None:
        self.a, self.nodes = abstract, abstract.nodes
        self.r = Relation(kernel, types, dict(abstract.abi.constexprs), abstract.ordered, abstract.whole)
        self.r.data = self.of
        self.reason = Reason(program)
        self.reason.extents.update({x.name: x.extent for x in abstract.axes if x.kind != "while"})
        self.axes = {x.name: x for x in abstract.axes}
        self.terms: list[list[Term]] = []  # data of the kernel, by number: one value, read under different conditions
        self.reads: list[tuple[int, Sigma]] = []  # data of the program, by number
        self._term: dict[Hashable, Expr] = {}
        self._identity: dict[K, Hashable] = {}
        self._read: dict[tuple[int, tuple[tuple[str, Expr], ...]], Expr] = {}
        self._of: dict[K, Expr] = {}
        self._at: dict[tuple[int, tuple[tuple[str, Expr], ...]], Expr] = {}
        self._fresh: dict[tuple[str, int, tuple[tuple[str, Expr], ...]], Expr] = {}

    def of(self, k: K) -> Expr:
        """A term of dtype index or bool as an expression; data is a symbol ``?n``."""
        if k not in self._of:
            t = self.r.head(k)
            self._of[k] = self._expression(t)
        return self._of[k]

    def _expression(self, t: Term) -> Expr:
        if t.head == "Int":
            e: Expr = t.attrs[0]
            return e
        if t.head == "Const" and t.dtype in ("index", "bool"):
            return Int(int(dtypes.parse(t.attrs[0], t.dtype)))
        if t.head in ("Un", "Bin", "Tri") and t.dtype in ("index", "bool"):
            operand = self.r.head(t.kids[-1]).dtype
            if operand in ("index", "bool"):
                e2 = expression(t.head, t.attrs[0], t.dtype, operand, [self.of(k) for k in t.kids])
                if e2 is not None:
                    return e2
        if t.head == "Load" and self.reason.simple(self.of(t.kids[0])) == FALSE:
            return self.of(t.kids[1])
        key = self.identity(t)
        if key not in self._term:
            self._term[key] = self.atom(f"?{len(self.terms)}", t.dtype)
            self.terms.append([])
        e3 = self._term[key]
        self.terms[int(e3.args[0][1:])].append(t)
        return e3

    def identity(self, k: K) -> Hashable:
        """What is equal for equal data: two loads of one place are one value where nothing is stored between them."""
        bare_k = bare(k) if isinstance(k, Term) else replace(k, given=())
        if bare_k not in self._identity:
            self._identity[bare_k] = bare_k
            try:
                t = self.r.head(k)
                version = self.r.effects.versions[t.attrs[1]] if t.head == "Load" else 0
                if t.head == "Load" and not self.r.is_buffer(t.attrs[0]) and not (version and self.r.effects.homes.get(t.attrs[1])):
                    valid, fill, *coords = t.kids
                    place = tuple(self.reason.simple(self.of(self.r.index(c))) for c in coords)
                    self._identity[bare_k] = ("Load", t.attrs[0], version, self.reason.simple(self.of(valid)), self.identity(fill), place)
                elif t.head in ("Un", "Bin", "Tri", "Cast", "Bitcast"):
                    self._identity[bare_k] = (t.head, t.attrs, t.dtype, tuple(map(self.identity, t.kids)))
                else:
                    self._identity[bare_k] = bare(t)
            except Unknown:
                pass
        return self._identity[bare_k]

    def at(self, node: int, sigma: Sigma) -> Expr:
        """A node of dtype index or bool as an expression; data is a symbol ``!n``."""
        key = node, self.restricted(node, sigma)
        if key not in self._at:
            self._at[key] = self._node(node, sigma, key)
        return self._at[key]

    def _node(self, node: int, sigma: Sigma, key: tuple[int, tuple[tuple[str, Expr], ...]]) -> Expr:
        n = self.nodes[node]
        if n.op == "Index":
            return self.put_in(n.attrs[0], n.args, sigma)
        if n.op == "Const" and n.dtype in ("index", "bool"):
            return Int(int(dtypes.parse(n.attrs[0], n.dtype)))
        if n.op in ("Un", "Bin", "Tri") and n.dtype in ("index", "bool") and self.nodes[n.args[-1]].dtype in ("index", "bool"):
            e = expression(n.op, n.attrs[0], n.dtype, self.nodes[n.args[-1]].dtype, [self.at(a, sigma) for a in n.args])
            if e is not None:
                return e
        if self.absent(n, sigma):
            return self.at(n.args[1], sigma)
        if key not in self._read:
            self._read[key] = self.atom(f"!{len(self.reads)}", n.dtype)
            self.reads.append((node, dict(sigma)))
        return self._read[key]

    def absent(self, n: VNode, sigma: Sigma) -> bool:
        """Whether a node is a load that is valid nowhere: its value is its fill."""
        return n.op == "Load" and self.reason.simple(self.at(n.args[0], sigma)) == FALSE

    def atom(self, name: str, dtype: str) -> Expr:
        if dtype in dtypes.NUMPY and dtypes.NUMPY[dtype].kind in "biu":
            self.reason.prover.range(name, *dtype_range(dtype))
        return Sym(name)

    def put_in(self, e: Expr, deps: Sequence[int], sigma: Sigma) -> Expr:
        """An index expression with its data operands, at a point."""
        env: dict[Expr, Expr] = {Coord(a): x for a, x in sigma.items()}
        for a in atoms(e):
            if a.op == "dep":
                env[a] = self.at(deps[a.args[0]], sigma) if 0 <= a.args[0] < len(deps) else Sym("!none")
        return substitute(e, env)

    def restricted(self, node: int, sigma: Sigma) -> tuple[tuple[str, Expr], ...]:
        free = self.a.free(node)
        return tuple(sorted(((a, x) for a, x in sigma.items() if a in free or slice_axis(a) in free), key=lambda t: t[0]))

    def fresh(self, axis: str, node: int, sigma: Sigma) -> Expr:
        """The coordinate that a binder's axis gets."""
        key = axis, node, self.restricted(node, sigma)
        if key not in self._fresh:
            name = f"{axis}~{len(self._fresh)}"
            self._fresh[key] = Coord(name)
            if axis in self.axes and self.axes[axis].kind != "while":
                self.reason.extents[name] = self.axes[axis].extent
        return self._fresh[key]


def bare(t: Term) -> Term:
    """The term whatever holds where it is read."""
    return replace(t, given=(), kids=tuple(bare(k) if isinstance(k, Term) else replace(k, given=()) for k in t.kids))


__all__ = ["Points", "Sigma"]
