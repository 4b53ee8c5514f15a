"""Extents, axes and nodes of a program under construction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from eqkir.analysis.coords import Facts, Poly, normal, poly, size, total
from eqkir.analysis.effects import Effects
from eqkir.base import dtypes
from eqkir.base.diagnostics import EqkirError, fail
from eqkir.base.expr import FALSE, ONE, TRUE, ZERO, Coord, Dep, Expr, Int, Sym, atoms, lt, rebuild, sub, substitute
from eqkir.kir.extents import Extents
from eqkir.kir.model import Kernel, RegionFold, RegionScan, Scalar
from eqkir.kir.types import DomainType, Type
from eqkir.program.abi import Abi, member_axis
from eqkir.program.abstract import Abstract, axes_in
from eqkir.program.construct_codes import CONSTEXPR, EXPR_LIMIT, EXPRESSION, EXTENT, NODE_LIMIT, NODES, SLICE, STAGE
from eqkir.program.construct_env import ROOT, Env, Ixs
from eqkir.program.construct_whole import Whole


class Open(Abstract):
    """A program without an interface yet: `home` says inside which ordered loops a version of a view or workspace lives."""

    home: Callable[[str, int], tuple[str, ...]]

    def inside(self, view: str, version: int) -> tuple[str, ...]:
        return self.home(view, version)


class Nodes(ABC):
    """What construction makes nodes of: the arena, axes by extent, what is known of extents."""

    def __init__(
        self, kernel: Kernel, types: Mapping[str, Type], effects: Effects, constexprs: Mapping[str, Any],
        whole: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.whole = whole  # operations over slices (their first results) that are taken in one slice
        self.kernel, self.types, self.effects, self.constexprs = kernel, types, effects, constexprs
        self.program: Abstract = self.opened()
        self.extents = Extents(kernel.symbols, kernel.equal)
        self.params = {p.id: p for p in kernel.params}
        self.views = {p.id: p for p in kernel.params if p.kind == "view"}
        self.env: Env = ROOT
        self.environments: dict[Any, int] = {}
        least: dict[str, int] = {}
        for s in kernel.symbols:
            r = self.extents.find(s.id)
            least[r] = max(least.get(r, 0), s.min)
        self.extent_of: dict[str, Expr] = {}  # axis -> extent
        self.kind_of: dict[str, str] = {}  # axis -> kind, before instances are chosen
        self.pool_of: dict[str, Expr] = {}  # axis -> the extent of the dimension that it was made for
        self.regions: dict[str, tuple[Expr, Expr, Expr]] = {}  # axis of a subregion -> (begin of its source, begin, end)
        self.facts = Facts(self.extent_of, least)
        self._pools: dict[tuple[Expr, str], int] = {}
        self._shapes: dict[str, tuple[Expr, ...]] = {}
        self._env: dict[Expr, Expr] = {Sym(k): Int(v) for k, v in constexprs.items() if isinstance(v, int) and not isinstance(v, bool)}
        self._launch = {x.id for x in kernel.symbols} | {p.id for p in kernel.params if isinstance(p, Scalar)}
        cut = {
            i.region.args[0].id: i.op for i in effects.loops.values()
            if isinstance(i.op, (RegionFold, RegionScan)) and i.name in ("summarize", "emit")
        }  # fmt: skip
        #: argument that is a slice -> the operation that cuts it
        self._slices = {arg: op.results[0] for arg, op in cut.items() if op.results[0] not in whole}
        #: length known at run time only -> (source's begin, source's length, begin, end)
        self._bounded: dict[Expr, tuple[Expr, Expr, Expr, Expr]] = {}
        domains = [(id, t) for id, t in types.items() if isinstance(t, DomainType) and id not in cut]
        self._env.update({Sym(id): t.length for id, t in domains})  # an extent may name a domain: its length
        for arg, op in cut.items():
            if op.results[0] in whole:
                source = op.domain
                while source in cut and source not in self._slices:
                    source = cut[source].domain
                t = types[source]
                assert isinstance(t, DomainType)
                self._env.update({Sym(arg): t.length, Sym(f"{arg}.begin"): t.begin, Sym(f"{arg}.end"): t.end})
        for _, t in domains:
            self._subregion(t)

    def opened(self) -> Open:
        """An empty program in which versions live where construction says."""
        out = Open(Abi(self.kernel.name, (), (), ()), ())
        out.home = self.home
        return out

    @abstractmethod
    def home(self, view: str, version: int) -> tuple[str, ...]:
        """The axes of the ordered loops inside which a version lives."""

    def _subregion(self, t: DomainType) -> None:
        try:
            begin, end, length = self.extent(t.begin), self.extent(t.end), self._length(t)
            source: DomainType | None = t
            while source is not None and not self.known(self._length(source)):
                source = self.types.get(source.source) if source.source else None  # type: ignore[assignment]
            if source is None or source is t or source.step != 1 or not self.known(self.extent(source.begin)):
                return
        except EqkirError:
            return  # of an unbounded domain: refused where it is used
        self._bounded.setdefault(length, (self.extent(source.begin), self._length(source), begin, end))

    def _length(self, t: DomainType) -> Expr:
        return self.extents.length(self.extent(t.begin), self.extent(t.end), t.step)

    # ------------------------------------------------------------------ extents and axes
    def known(self, e: Expr) -> bool:
        """Whether an expression over extents is known before the launch."""
        return all(a.op == "sym" and a.args[0] in self._launch for a in atoms(e))

    def pinned(self, e: Expr) -> Expr:
        """The expression with the nodes of the current environment in place of values that are known only at run time."""
        env: dict[Expr, Expr] = {}
        for a in atoms(e):
            if a.op == "sym" and a.args[0] not in self._launch and a.args[0] not in self._slices and not a.args[0].startswith("#"):
                n = self.program.nodes[node := self.runtime(a.args[0])]
                if n.op == "Const":
                    env[a] = Int(int(n.attrs[0]))
                else:
                    env[a] = n.attrs[0] if n.op == "Index" and not n.args else Sym(f"#{node}.{self.const(True, 'bool')}")
        return self.fold(substitute(e, env)) if env else e

    def extent(self, e: Expr) -> Expr:
        """An extent with constexprs substituted, in normal form."""
        return self.extents.canon(substitute(e, self._env))

    def checked(self, e: Expr, pointer: str) -> Expr:
        if e.value is not None and e.value < 0:
            raise fail(CONSTEXPR, f"an extent is {e.value}", pointer, "extents >= 0", STAGE)
        return e

    def axis(self, extent: Expr, avoid: AbstractSet[str], kind: str = "loop", owner: str = "") -> str:
        """The lowest-numbered axis for a dimension of this extent that is not in `avoid`; an `owner` has axes of its own."""
        bound = None
        if kind != "while" and not self.known(extent):
            source = self._bounded.get(extent)
            if source is None:
                raise fail(EXTENT, f"the extent {extent} is known only at run time", accepted="a subregion of a domain", stage=STAGE)
            extent, bound = self.pinned(extent), (source[0], source[1], self.pinned(source[2]), self.pinned(source[3]))
            self._bounded.setdefault(extent, bound)
        pool, n = self._pools.setdefault((extent, f"{kind} {owner}"), len(self._pools)), 0
        while f"a{pool}.{n}" in avoid:
            n += 1
        name = f"a{pool}.{n}"
        if name not in self.extent_of:
            if bound:
                self.regions[name] = bound[0], bound[2], bound[3]
            self.extent_of[name] = bound[1] if bound else extent
            self.kind_of[name], self.pool_of[name] = kind, extent
        return name

    def dimension(self, extent: Expr, avoid: AbstractSet[str], kind: str = "loop", owner: str = "") -> tuple[Expr, str | None]:
        """A coordinate for a dimension, and its axis (none where the extent is 1)."""
        if extent == ONE:
            return ZERO, None
        if extent.op == "sym" and extent.args[0] in self._slices:
            seg = self.env.slice(extent.args[0])
            if seg is None or kind != "loop":
                raise self.uncut(extent, "a slice is used outside of its region, or step by step", "its indices inside")
            mem = self.members(seg, avoid)
            return self.coordinate(mem), mem
        if self.is_slice(extent):
            raise self.uncut(extent, f"an axis of extent {extent}", "one axis of the slice's extent")
        name = self.axis(extent, avoid, kind, owner)
        return self.coordinate(name), name

    def is_slice(self, extent: Expr) -> bool:
        """Whether the extent is that of a slice, or made of it."""
        return any(a.args[0] in self._slices for a in atoms(extent) if a.op == "sym")

    def uncut(self, extent: Expr, what: str, accepted: str) -> Whole:
        """What is raised where slices of this extent have no form: the operations that cut them are taken in one slice."""
        ops = {self._slices[a.args[0]] for a in atoms(extent) if a.op == "sym" and a.args[0] in self._slices}
        return Whole(ops, fail(SLICE, what, accepted=accepted, stage=STAGE))

    def coordinate(self, axis: str) -> Expr:
        """The position along the dimension that an axis was made for."""
        if axis in self.regions:
            source, begin, _ = self.regions[axis]
            return normal(Coord(axis) + source - begin)
        return Coord(axis)

    def slices(self, extent: Expr, avoid: AbstractSet[str]) -> tuple[str, str]:
        """A seg axis and its first mem axis."""
        if self.is_slice(extent):
            raise self.uncut(extent, "slices of a slice", "a fold over a domain")
        seg = self.axis(extent, avoid, "seg")
        return seg, self.members(seg, ())

    def members(self, seg: str, avoid: Container[str]) -> str:
        """The lowest-numbered mem axis of a seg axis that is not in `avoid`."""
        n = 0
        while (mem := member_axis(seg, n)) in avoid:
            n += 1
        if mem not in self.extent_of:
            self.extent_of[mem], self.kind_of[mem], self.pool_of[mem] = self.extent_of[seg], "mem", self.pool_of[seg]
            if seg in self.regions:
                self.regions[mem] = self.regions[seg]
        return mem

    def axes_of(self, e: Expr) -> frozenset[str]:
        """Axes that an index expression depends on, through data too."""
        out = axes_in(e)
        for a in atoms(e):
            if a.op == "sym" and a.args[0] not in self._launch:
                for i in self.data(a.args[0]):
                    out |= self.program.free(i)
        return out

    def data(self, name: str) -> tuple[int, ...]:
        """The nodes that a symbol for data speaks of: its value, and where it is defined."""
        if name.startswith("#"):
            return tuple(map(int, name[1:].split(".")))
        return (self.runtime(name),)

    @abstractmethod
    def runtime(self, name: str) -> int:
        """The node of a value that index expressions speak of by its name."""

    # ------------------------------------------------------------------ nodes
    def make(self, op: str, attrs: tuple[Any, ...], args: Sequence[int], dtype: str) -> int:
        """A node. Raises EQK-CON-NODES past the limit."""
        i = self.program.make(op, attrs, tuple(args), dtype)
        if i >= NODE_LIMIT:
            raise fail(NODES, f"more than {NODE_LIMIT} nodes", stage=STAGE)
        return i

    def const(self, value: float | int | bool, dtype: str) -> int:
        return self.program.const(dtypes.literal(value, dtype), dtype)

    def is_const(self, node: int, text: str) -> bool:
        n = self.program.nodes[node]
        return n.op == "Const" and n.attrs[0] == text

    def fold(self, e: Expr) -> Expr:
        """Normal form of an index expression. Raises EQK-CON-INDEX when it is too large."""
        if size(e, EXPR_LIMIT) > EXPR_LIMIT or size(e := normal(e), EXPR_LIMIT) > EXPR_LIMIT:
            raise fail(EXPRESSION, "an index expression is too large", stage=STAGE)
        return e

    def spread(self, node: int, axis: str, identity: int | None = None) -> int:
        """`node` with `axis` free, and `identity` (default zero) where the axis has no member: an operand of a reduction varies along the
        reduced axis, if only formally."""
        dtype = self.program.nodes[node].dtype
        neutral = self.const(0, dtype) if identity is None else identity
        member = self.member(axis)
        if member is not None:
            return self.make("Tri", ("select",), (member, node, neutral), dtype)
        if axis in self.program.free(node):
            return node
        inside = self.make("Index", (lt(Coord(axis), self.extent_of[axis]),), (), "bool")
        return self.make("Tri", ("select",), (inside, node, neutral), dtype)

    def member(self, axis: str) -> int | None:
        """Whether a coordinate takes part, for axes of subregions."""
        p = self.predicate(axis)
        return None if p is None else self.index(p, (), "bool")

    @abstractmethod
    def predicate(self, axis: str) -> Expr | None:
        """Whether a coordinate of an axis takes part; None where all of the axis do."""

    def aligned(self, shape: tuple[Expr, ...], ixs: Ixs) -> Ixs:
        return tuple(ZERO if e == ONE else x for e, x in zip(shape, ixs[len(ixs) - len(shape) :], strict=True))

    def index(self, e: Expr, deps: Sequence[int], dtype: str) -> int:
        """The node of an index expression or predicate: a constant where it is one, a data operand itself where it is just that."""
        e = self.fold(self.decided(e) if dtype == "bool" else e)
        e, deps = self.resolved(e, deps)
        if e.value is not None:
            return self.const(e.value, dtype)
        if e.op == "dep":
            return int(deps[e.args[0]])
        return self.make("Index", (e,), deps, dtype)

    def resolved(self, e: Expr, deps: Sequence[int]) -> tuple[Expr, tuple[int, ...]]:
        """The expression with data operands in place of symbols for data."""
        names = sorted({a.args[0] for a in atoms(e) if a.op == "sym"} - self._launch)
        if not names:
            return e, tuple(deps)
        out = list(deps)
        env: dict[Expr, Expr] = {}
        for name in names:
            n = self.program.nodes[node := self.data(name)[0]]
            parts: tuple[int, ...] = n.args if n.op == "Index" else (node,)
            where = {Dep(i): Dep(out.index(d) if d in out else (out.append(d) or len(out) - 1)) for i, d in enumerate(parts)}  # type: ignore[func-returns-value]
            if n.op == "Const":
                env[Sym(name)] = Int(int(n.attrs[0]))
            else:
                env[Sym(name)] = substitute(n.attrs[0], where) if n.op == "Index" else where[Dep(0)]
        e = self.fold(substitute(e, env))
        used = sorted({a.args[0] for a in atoms(e) if a.op == "dep"})
        return substitute(e, {Dep(i): Dep(k) for k, i in enumerate(used)}), tuple(out[i] for i in used)

    def widened(self, node: int) -> int:
        """An integer as ``index``: scalars of the interface and constants become expressions."""
        n = self.program.nodes[node]
        if n.dtype == "index":
            return node
        if n.op == "Scalar" and n.dtype != "u64":
            return self.index(Sym(n.attrs[0]), (), "index")
        if n.op == "Const":
            return self.const(int(n.attrs[0]), "index")
        return self.make("Cast", ("index",), (node,), "index")

    def decided(self, e: Expr) -> Expr:
        """A predicate with the comparisons decided that follow from ``0 <= coordinate < extent`` alone.

        Only differences of a few coordinates, extents and small constants are decided: they cannot leave 64 bits.
        """
        if e.op in ("and", "or", "not"):
            return rebuild(e.op, tuple(map(self.decided, e.args)))
        if e.op not in ("lt", "le"):
            return e
        gap = poly(sub(e.args[1], e.args[0]))
        if len(gap) > 4 or any(len(m) > 1 or (abs(c) > 1 if m else abs(c) >= 1 << 31) for m, c in gap.items()):
            return e
        strict: Poly = {(): 1} if e.op == "lt" else {}
        if self.facts.nonneg(total(gap, strict, -1)):
            return TRUE
        reverse: Poly = {m: -c for m, c in gap.items()}
        return FALSE if self.facts.nonneg(total(reverse, {} if strict else {(): 1}, -1)) else e
