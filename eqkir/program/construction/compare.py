"""Comparison of a constructed program's values with the kernel's, node by node from the stores down.

`Compare.match` walks a term of the kernel's relation and a node of the abstract program together. A node is read at a point of its axes:
``sigma`` says which (axes that are not in it stand for themselves). Every bound axis gets a coordinate of its own, so nothing is
captured. Index arithmetic and predicates are compared as expressions, by proof; data inside them, by comparing it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from eqkir.base.expr import (
    FALSE,
    TRUE,
    ZERO,
    Coord,
    Expr,
    atoms,
    conj,
    le,
    lt,
    negate,
    substitute,
)
from eqkir.kir.model import Kernel
from eqkir.kir.types import Type
from eqkir.program.abi import is_member, members_of
from eqkir.program.abstract import Abstract, Put
from eqkir.program.construction.codes import Fault
from eqkir.program.construction.points import Points, Sigma
from eqkir.program.construction.reason import poly
from eqkir.program.construction.relation import K, Path, Term, Unknown
from eqkir.program.construction.relation_loops import Recurrence
from eqkir.program.model import Program

Faults = tuple[Fault, ...]
#: head of a term -> the check that a missing or different operation concerns
CONCERNS = {
    **dict.fromkeys(("Red", "RedN", "Con", "Scan", "ScanN", "Arg"), "structured-complete"),
    **dict.fromkeys(("Fold", "While", "Form", "State", "WState", "Nonempty"), "folds-complete"), "Load": "coordinates-equivalent",
}  # fmt: skip


class Compare(Points):
    def __init__(self, kernel: Kernel, types: Mapping[str, Type], abstract: Abstract, program: Program) -> None:
        super().__init__(kernel, types, abstract, program)
        self.workspaces = {v.name for v in abstract.abi.views if v.role == "workspace"}
        self.fills: dict[str, list[Put]] = {}
        for g in abstract.groups:
            for phase in g.phases:
                for p in phase:
                    self.fills.setdefault(p.view, []).append(p)
        self.buffers: dict[str, str] = {}  # buffer of the kernel -> its workspace
        self.carries: dict[tuple[str, int, Path], str] = {}  # carry of an ordered loop (loop, number, record path) -> its workspace
        self.memo: dict[tuple[K, int, tuple[tuple[str, Expr], ...]], Faults] = {}
        self.reduced: dict[tuple[int, int, tuple[tuple[str, Expr], ...], tuple[Expr, ...]], Faults] = {}
        self.instances: dict[object, Recurrence] = {}  # loops of the kernel at operations of the program
        self.journal: list[Callable[[], object]] = []  # how to undo what an attempt noted
        self.pointer = ""

    def fault(self, check: str, message: str) -> Faults:
        return (Fault(check, message, self.pointer),)

    # ------------------------------------------------------------------ comparison of expressions
    def unified(self, kernel: Iterable[Expr], program: Iterable[Expr]) -> dict[Expr, Expr]:
        """Data of the kernel -> the same data of the program."""
        ks = sorted({a for e in kernel for a in atoms(e) if a.op == "sym" and a.args[0].startswith("?")}, key=lambda a: int(a.args[0][1:]))
        ps = sorted({a for e in program for a in atoms(e) if a.op == "sym" and a.args[0].startswith("!")}, key=lambda a: a.args[0])
        env: dict[Expr, Expr] = {}
        for k in ks:
            for p in ps:
                if p.args[0] == "!none":
                    continue
                node, sigma = self.reads[int(p.args[0][1:])]
                if any(self.clean(t, node, sigma) for t in self.terms[int(k.args[0][1:])]):
                    env[k] = p
                    break
        return env

    def equal(self, k: Expr, p: Expr, given: Sequence[Expr] = ()) -> bool:
        if k == p or self.reason.simple(k) == self.reason.simple(p):
            return True
        env = self.unified((k, *given), (p,))
        return self.reason.equal(substitute(k, env), p, [substitute(g, env) for g in given])

    def clean(self, k: K, node: int, sigma: Sigma) -> bool:
        """Whether both are the same value; an attempt that fails leaves no trace."""
        mark = len(self.journal)
        ok = not self.match(k, node, sigma)
        if not ok:
            self.undo(mark)
        return ok

    def undo(self, mark: int) -> None:
        """Forget what was noted since."""
        while len(self.journal) > mark:
            self.journal.pop()()

    # ------------------------------------------------------------------ values
    def match(self, k: K, node: int, sigma: Sigma) -> Faults:
        """Why a node is not the value of the term, or nothing."""
        key = k, node, self.restricted(node, sigma)
        if key not in self.memo:
            self.memo[key] = ()  # a value reached again through a state
            try:
                out = self._match(self.r.head(k), node, sigma)
            except Unknown as e:
                out = self.fault("coordinates-equivalent", f"the relation of {e} is not known")
            self.memo[key] = out
            self.journal.append(lambda: self.memo.pop(key, None))
        return self.memo[key]

    def _match(self, t: Term, node: int, sigma: Sigma) -> Faults:
        n = self.nodes[node]
        if n.op == "Load" and n.attrs[0] in self.workspaces:
            return self.stored(t, node, sigma)
        if t.head == "Nonempty":
            from eqkir.program.construction.compare_loops import nonempty

            t = nonempty(self, t)
        if t.dtype != n.dtype:
            return self.fault("types-legal", f"%{node} ({n.op}) has dtype {n.dtype} instead of {t.dtype}")
        if t.dtype in ("index", "bool"):
            e, p = self.of(t), self.at(node, sigma)
            if not (_data(e) and _data(p)):
                if self.equal(e, p, t.given):
                    return ()
                indexed = t.dtype == "index" or any(a.op == "coord" for a in atoms(p))
                check = "coordinates-equivalent" if indexed else CONCERNS.get(t.head, "effects-covered-once")
                return self.fault(check, f"%{node} = {p} instead of {e}")
            node, sigma = self.reads[int(p.args[0][1:])]
            t = replace(self.terms[int(e.args[0][1:])][0], given=t.given)
            n = self.nodes[node]
            if n.op == "Load" and n.attrs[0] in self.workspaces:
                return self.stored(t, node, sigma)
        return self.structural(t, node, sigma)

    def structural(self, t: Term, node: int, sigma: Sigma) -> Faults:
        """The operation and its operands; else, of a choice that is decided where the term is read, what it takes."""
        mark = len(self.journal)
        out = self.operation(t, node, sigma)
        n = self.nodes[node]
        if out and t.given and n.op == "Tri" and n.attrs == ("select",) and (c := self.decided(t, n.args[0], sigma)) is not None:
            self.undo(mark)
            return self.match(t, n.args[1 if c else 2], sigma)
        return out

    def operation(self, t: Term, node: int, sigma: Sigma) -> Faults:
        from eqkir.program.construction import compare_binders as binders
        from eqkir.program.construction import compare_loops as loops

        n = self.nodes[node]
        if n.op == "Tri" and n.attrs == ("select",) and (c := self.reason.simple(self.at(n.args[0], sigma))).value is not None:
            return self.match(t, n.args[1 if c.value else 2], sigma)
        if t.head != "Load" and self.absent(n, sigma):
            return self.match(t, n.args[1], sigma)
        match t.head:
            case "Load":
                return self.load(t, node, sigma)
            case "Red":
                return binders.red(self, t, node, sigma)
            case "RedN":
                return binders.redn(self, t, node, sigma)
            case "Con":
                return binders.con(self, t, node, sigma)
            case "Scan" | "ScanN":
                return binders.scan(self, t, node, sigma)
            case "Fold" | "While":
                return loops.fold(self, t, node, sigma)
            case "Form":
                return loops.form(self, t, node, sigma)
            case "State":
                return loops.state(self, t, node, sigma)
            case "Tri" if t.attrs == ("select",):
                chosen = self.chosen(t, node, sigma)
                if chosen is not None:
                    return chosen
        if n.op != t.head or n.attrs != t.attrs or len(n.args) != len(t.kids):
            what = f"{n.op} {' '.join(map(str, n.attrs))}" if n.op != "Load" else f"Load {n.attrs[0]}"
            check = CONCERNS.get(t.head) or CONCERNS.get(n.op, "effects-covered-once")
            return self.fault(check, f"%{node} is {what} instead of {t.head} {' '.join(map(str, t.attrs))}")
        return tuple(f for k, a in zip(t.kids, n.args, strict=True) for f in self.match(k, a, sigma))

    def decided(self, t: Term, node: int, sigma: Sigma) -> bool | None:
        """What a condition is by what holds where the term is read, or None."""
        have = self.at(node, sigma)
        env = self.unified(t.given, (have,))
        given = [substitute(g, env) for g in t.given]
        return True if self.reason.implied(have, given) else False if self.reason.implied(negate(have), given) else None

    def chosen(self, t: Term, node: int, sigma: Sigma) -> Faults | None:
        """A choice that the program has decided; None where it has not."""
        c = self.of(t.kids[0])
        if (simple := self.reason.simple(c)).value is not None:
            return self.match(t.kids[1 if simple.value else 2], node, sigma)
        n = self.nodes[node]
        if n.op == "Tri" and n.attrs == ("select",):
            return None
        if not _data(c):
            for branch, holds in ((1, c), (2, negate(c))):
                if self.reason.implied(holds, t.given):
                    return self.match(t.kids[branch], node, sigma)
        if self.clean(t.kids[1], node, sigma) and self.clean(t.kids[2], node, sigma):
            return ()
        return None

    # ------------------------------------------------------------------ memory
    def candidates(self, name: str) -> list[str]:
        """Views of the program that a view or buffer of the kernel may be."""
        if not self.r.is_buffer(name):
            return [name] if name not in self.workspaces else []
        if name in self.buffers:
            return [self.buffers[name]]
        shape, dtype = self.r.resource(name), getattr(self.r.types[name], "dtype", "")
        free = [v for v in self.a.abi.views if v.role == "workspace" and v.name not in self.buffers.values() and v.dtype == dtype]
        return [v.name for v in free if v.shape[len(v.shape) - len(shape) :] == shape]

    def assign(self, name: str, view: str) -> None:
        """From now on the buffer is that workspace."""
        if self.r.is_buffer(name) and name not in self.buffers:
            self.buffers[name] = view
            self.journal.append(lambda: self.buffers.pop(name, None))

    def load(self, t: Term, node: int, sigma: Sigma) -> Faults:
        n = self.nodes[node]
        (view, id), (valid, fill, *coords) = t.attrs, t.kids
        want = self.of(valid)
        if self.reason.simple(want) == FALSE:
            return self.match(fill, node, sigma)
        if n.op != "Load" or n.attrs[0] not in self.candidates(view):
            what = f"{n.op} {n.attrs[0] if n.op == 'Load' else ''}".strip()
            return self.fault("coordinates-equivalent", f"%{node} is {what} instead of a load of {view} ({id})")
        self.assign(view, n.attrs[0])
        out: list[Fault] = []
        version = self.r.effects.versions[id]
        if n.attrs[1] != version:
            out += self.fault("order-kept", f"the load of {view} ({id}) reads version {n.attrs[1]} instead of {version}")
        place = self.coordinates(coords, n.attrs[2], n.args[2:], sigma, t.given, f"the load of {view} ({id})", out)
        hyps = [*t.given, *(_inside(x, e) for x, e in zip(place, self.a.abi.view(n.attrs[0]).shape, strict=False))]
        out += self.validity(want, n.args[0], sigma, hyps, f"the load of {view} ({id})")
        if self.match(fill, n.args[1], sigma):
            out += self.fault("accesses-complete", f"the load of {view} ({id}) has another fill")
        return tuple(out)

    def coordinates(
        self,
        coords: Sequence[K],
        ixs: Sequence[Expr],
        deps: Sequence[int],
        sigma: Sigma,
        given: Sequence[Expr],
        what: str,
        out: list[Fault],
    ) -> list[Expr]:
        """Compare coordinates; the program's are returned."""
        if len(coords) != len(ixs):
            out += self.fault("accesses-complete", f"{what} has {len(ixs)} coordinates instead of {len(coords)}")
            return []
        place = []
        for d, (c, ix) in enumerate(zip(coords, ixs, strict=True)):
            e, p = self.of(self.r.index(c)), self.put_in(ix, deps, sigma)
            place.append(p)
            if not self.equal(e, p, given):
                out += self.fault("coordinates-equivalent", f"coordinate {d} of {what} is {p} instead of {e}")
        return place

    def validity(self, want: Expr, node: int, sigma: Sigma, given: Sequence[Expr], what: str) -> Faults:
        """The program's validity implies the kernel's, and follows from it where the kernel's access is defined."""
        have = self.at(node, sigma)
        if have == want and want == TRUE:
            return ()
        env = self.unified((want, *given), (have,))
        want, hyps = substitute(want, env), [substitute(g, env) for g in given]
        if not self.reason.implied(want, [have]):
            return self.fault("accesses-complete", f"{what} is valid where {have}, which does not imply {want}")
        if not self.reason.implied(have, [*hyps, want]):
            return self.fault("accesses-complete", f"{what} is valid where {have} only, instead of {want}")
        return ()

    def stored(self, t: Term, node: int, sigma: Sigma) -> Faults:
        """A load of a workspace: of the buffer that it is, or of a value that it keeps."""
        from eqkir.program.construction.compare_carries import carried, keeps

        view = self.nodes[node].attrs[0]
        if t.head == "Tri" and t.attrs == ("select",) and (c := self.reason.simple(self.of(t.kids[0]))).value is not None:
            return self.match(t.kids[1 if c.value else 2], node, sigma)
        if keeps(self, t, node):
            return carried(self, t, node, sigma)
        own = t.head == "Load" and self.r.is_buffer(t.attrs[0]) and view in self.candidates(t.attrs[0])
        return self.load(t, node, sigma) if own else self.kept(t, node, sigma)

    def kept(self, t: Term, node: int, sigma: Sigma) -> Faults:
        """A load of a workspace is the value that was written there."""
        n = self.nodes[node]
        fills = [p for p in self.fills.get(n.attrs[0], ()) if p.mode == "store"]
        if len(fills) != 1 or fills[0].version != n.attrs[1]:
            return self.fault("buffers-owned", f"version {n.attrs[1]} of {n.attrs[0]} is not made by one store")
        put = fills[0]
        read = [self.put_in(e, n.args[2:], sigma) for e in n.attrs[2]]
        place = self.solved(put.ixs, read)
        if place is not None:
            place |= {a: sigma.get(a, Coord(a)) for a in self.a.inside(n.attrs[0], n.attrs[1])}  # written and read in one step
        kept = set(place or ())
        missing = {a for a in self.a.free(put.value) - kept if not is_member(a) and not members_of(a, kept)}
        if place is None or missing:
            return self.fault("buffers-owned", f"{n.attrs[0]} does not keep every element of its value")
        have = self.at(n.args[0], sigma)
        env = self.unified(t.given, (have,))
        if not self.reason.implied(have, [substitute(g, env) for g in t.given]):
            inside = [_inside(x, e) for x, e in zip(read, self.a.abi.view(n.attrs[0]).shape, strict=True)]
            if not self.reason.implied(have, [*(substitute(g, env) for g in t.given), *inside]):
                return self.fault("accesses-complete", f"the kept value {n.attrs[0]} is read where {have} only")
        return self.match(t, put.value, place)

    def solved(self, ixs: Sequence[Expr], read: Sequence[Expr]) -> dict[str, Expr] | None:
        """The point of the axes whose index map gives `read`; None where it is not ``±coordinate + rest`` for each."""
        out: dict[str, Expr] = {}
        for e, x in zip(ixs, read, strict=True):
            e = self.reason.simple(e)
            names = [a for a in sorted({a.args[0] for a in atoms(e) if a.op == "coord"}) if a not in out]
            if not names:
                continue
            if len(names) > 1:
                return None
            got = unit(e, names[0])
            if got is None:
                return None
            sign, rest = got
            out[names[0]] = self.reason.simple((x - rest) if sign > 0 else (rest - x))
        return out


def unit(e: Expr, name: str) -> tuple[int, Expr] | None:
    """(sign, rest) of ``sign·coordinate + rest``."""
    p = poly(e)
    c = p.get((Coord(name),))
    rest = {x for m in p if m != (Coord(name),) for x in m}
    if c not in (1, -1) or any(Coord(name) in atoms(x) for x in rest):
        return None
    return c, e - Coord(name) * c


def _data(e: Expr) -> bool:
    return e.op == "sym" and e.args[0][:1] in "?!"


def _inside(x: Expr, extent: Expr) -> Expr:
    return conj(le(ZERO, x), lt(x, extent))


__all__ = ["Compare", "Faults", "Sigma", "unit"]
