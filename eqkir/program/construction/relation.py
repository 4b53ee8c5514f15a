"""What a kernel's values are, as terms expanded one operation at a time: the relation that a constructed program is compared with.

A `Val` is a value of the kernel at index expressions, inside a `Frame` that says what the arguments of regions stand for. `Relation.head`
expands it, through everything that only moves elements, to the `Term` that computes it. Terms use the names of the abstract
program's operations. Integer expressions speak of coordinates of the program, launch symbols, and symbols ``?n`` for data.

Nothing here knows axes' kinds, groups, worksets or how construction chooses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Union

from eqkir.analysis.effects import Condition, LoopInfo, effects
from eqkir.base import dtypes
from eqkir.base.expr import ONE, ZERO, Expr, Int, Sym, atoms, lift, substitute
from eqkir.kir import model as kir
from eqkir.kir.extents import Extents
from eqkir.kir.model import Constexpr, Kernel, Scalar
from eqkir.kir.types import BufferType, DomainType, RecordType, TensorType, Type

At = tuple[Expr, ...]
Path = tuple[str, ...]


class Unknown(Exception):
    """The relation does not know an operation."""


@dataclass(eq=False)
class Frame:
    """What the arguments of one region stand for. `active`: where the current step is a point of the loop's domain (ordered loops)."""

    depth: int = 0
    parent: Frame | None = None
    binds: dict[str, Callable[[Path, At], K]] = field(default_factory=dict)
    #: slice argument -> (domain id, the loop over slices, or a position in the slice)
    slices: dict[str, tuple[str, Any]] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)  # captured domain -> the domain outside
    active: dict[str, Expr] = field(default_factory=dict)
    places: dict[str, Expr] = field(default_factory=dict)  # point of a `parallel`, or loop -> the coordinate that traverses it

    def chain(self) -> Iterator[Frame]:
        f: Frame | None = self
        while f is not None:
            yield f
            f = f.parent

    def home(self, depth: int) -> Frame:
        """The frame of the value's own region: frames inside it say nothing about it."""
        return next((f for f in self.chain() if f.depth <= depth), self)


@dataclass(frozen=True)
class Val:
    id: str
    path: Path
    at: At
    frame: Frame
    given: tuple[Expr, ...] = ()  # what holds where the value is read
    hashed: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hashed", hash((self.id, self.path, self.at, id(self.frame), self.given)))

    def __hash__(self) -> int:
        return self.hashed


@dataclass(frozen=True)
class Term:
    """`attrs` and `kids` as in the abstract program; binders hold a specification with callables instead."""

    head: str
    attrs: tuple[Any, ...]
    kids: tuple[K, ...]
    dtype: str
    given: tuple[Expr, ...] = ()
    hashed: int = field(default=0, init=False, repr=False, compare=False)  # terms share operands: hash each once

    def __post_init__(self) -> None:
        object.__setattr__(self, "hashed", hash((self.head, self.attrs, self.kids, self.dtype, self.given)))

    def __hash__(self) -> int:
        return self.hashed


K = Union[Val, Term]


@dataclass(eq=False)
class Body:
    """A binder: the extents of its dimensions, its operands at positions along them, neutral elements, a combine region."""

    extents: tuple[Expr, ...]
    operands: Callable[[At], tuple[K, ...]]
    frame: Frame
    neutral: tuple[K, ...] = ()
    combine: tuple[K, ...] = ()
    reverse: bool = False


#: op -> how one of its values is expanded: (relation, operation, result number, value)
Expand = Callable[["Relation", Any, int, Val], K]
EXPAND: dict[str, Expand] = {}


def expands(*ops: str) -> Callable[[Expand], Expand]:
    """Register the expansion of operations by their ``op`` literal."""

    def put(f: Expand) -> Expand:
        EXPAND.update(dict.fromkeys(ops, f))
        return f

    return put


class Relation:
    """`points` gives the coordinates of the points of `parallel`s; it changes from store to store."""

    def __init__(
        self, kernel: Kernel, types: Mapping[str, Type], constexprs: Mapping[str, str], ordered: Iterable[str] = (),
        whole: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.kernel, self.types, self.whole = kernel, types, frozenset(whole)
        self.effects = effects(kernel, ordered=ordered)
        self.params = {p.id: p for p in kernel.params}
        self.extents = Extents(kernel.symbols, kernel.equal)
        self.launch = {s.id for s in kernel.symbols} | {p.id for p in kernel.params if isinstance(p, Scalar)}
        self.constexprs = {n: dtypes.parse(t, self.dtype_of(n)) for n, t in constexprs.items()}
        self.fixed: dict[Expr, Expr] = {
            Sym(n): Int(int(x)) for n, x in self.constexprs.items() if isinstance(x, int) and not isinstance(x, bool)
        }
        self.fixed.update({Sym(i): t.length for i, t in types.items() if isinstance(t, DomainType) and not self.is_slice(i)})
        for arg, (domain, op) in self.cuts().items():
            if op in self.whole:  # the slice is the domain
                self.fixed[Sym(arg)] = self.fixed.get(Sym(domain), Sym(domain))
        self.data: Callable[[K], Expr] = lambda k: ZERO  # the integer expression of a value
        self._heads: dict[Val, Term] = {}
        self._extents: dict[Expr, Expr] = {}
        self._shapes: dict[tuple[str, Path], At] = {}

    def cuts(self) -> dict[str, tuple[str, str]]:
        """Slice arguments, outer ones first -> (the domain that is cut, the first result of the operation)."""
        found = [(i.op, r) for i in self.effects.loops.values() for r in i.op.regions() if r is i.region]
        return {
            r.args[0].id: (op.domain, op.results[0])
            for op, r in found
            if isinstance(op, (kir.RegionFold, kir.RegionScan)) and r.args and self.is_slice(r.args[0].id)
        }

    # ------------------------------------------------------------------ types and extents
    def dtype_of(self, name: str) -> str:
        t = self.types.get(name)
        if isinstance(t, TensorType):
            return t.dtype
        p = self.params.get(name)
        return {"bool": "bool", "int": "index", "float": "f64", "enum": "index"}[p.type] if isinstance(p, Constexpr) else "index"

    def is_slice(self, id: str) -> bool:
        return id not in self.effects.definitions and isinstance(self.types.get(id), DomainType)

    def type_of(self, id: str, path: Path = ()) -> Type:
        t = self.types[id]
        for name in path:
            assert isinstance(t, RecordType)
            t = dict(t.fields)[name]
        return t

    def dtype(self, id: str, path: Path = ()) -> str:
        t = self.type_of(id, path)
        assert isinstance(t, TensorType)
        return t.dtype

    def extent(self, e: Expr) -> Expr:
        """Normal form, constexprs and lengths of domains put in."""
        if e not in self._extents:
            self._extents[e] = self.extents.canon(substitute(substitute(e, self.fixed), self.fixed))
        return self._extents[e]

    def shape(self, id: str, path: Path = ()) -> At:
        if (id, path) not in self._shapes:
            t = self.type_of(id, path)
            assert isinstance(t, (TensorType, BufferType))
            self._shapes[id, path] = tuple(self.extent(e) for e in t.shape)
        return self._shapes[id, path]

    def resource(self, name: str) -> At:
        p = self.params.get(name)
        if isinstance(p, kir.View):
            return tuple(self.extent(lift(e)) for e in p.shape)
        return self.shape(name)

    def is_buffer(self, name: str) -> bool:
        return isinstance(self.types.get(name), BufferType) or name in self.effects.kept

    def owner(self, name: str, frame: Frame) -> tuple[K, ...]:
        """Coordinates that tell the instances of a buffer apart: of the points and steps around its declaration."""
        if not self.is_buffer(name):
            return ()
        return self.places((*self.effects.scopes[name], *self.effects.homes[name]), frame)

    def places(self, around: Iterable[str], frame: Frame) -> tuple[K, ...]:
        """Coordinates of the points and steps that have one."""
        found = [next((f.places[p] for f in frame.chain() if p in f.places), None) for p in around]
        return tuple(number(x) for x in found if x is not None)

    def known(self, e: Expr) -> bool:
        """Whether an extent is known before the launch."""
        return all(a.args[0] in self.launch for a in atoms(e) if a.op == "sym")

    def resolved(self, e: Expr, v: Val | Term, frame: Frame) -> Expr:
        """An extent with run-time values in it as a number: their expressions put in."""
        e = self.extent(e)
        names = sorted({str(a.args[0]) for a in atoms(e) if a.op == "sym" and a.args[0] not in self.launch})
        return substitute(e, {Sym(n): self.data(self.index(Val(n, (), (), frame, v.given))) for n in names}) if names else e

    def domain(self, id: str, frame: Frame) -> tuple[DomainType, str]:
        """The domain that an id names, and the slice argument through which it does (or an empty text)."""
        for f in frame.chain():
            if id in f.slices:
                return self.domain(f.slices[id][0], frame)[0], id
            if id in f.domains:
                return self.domain(f.domains[id], frame)
        t = self.types[id]
        assert isinstance(t, DomainType)
        return t, ""

    def length(self, id: str, frame: Frame) -> Expr:
        """The length of the domain that an id names: of a slice, its own symbol, but where the slice is the domain."""
        t, arg = self.domain(id, frame)
        return self.extent(Sym(arg) if arg else t.length)

    def source(self, length: Expr) -> tuple[DomainType, DomainType] | None:
        """(part, source known at launch) of a domain whose length is `length`."""
        for id, t in self.types.items():
            if isinstance(t, DomainType) and not self.is_slice(id) and self.extent(t.length) == length:
                s: DomainType | None = t
                while s is not None and not self.known(self.extent(s.length)):
                    s = self.types.get(s.source) if s.source else None  # type: ignore[assignment]
                if s is not None and s is not t:
                    return t, s
        return None

    # ------------------------------------------------------------------ expansion
    def head(self, k: K) -> Term:
        """The operation that computes a value. Raises Unknown."""
        if isinstance(k, Term):
            return k
        if k not in self._heads:
            out: K = k
            for _ in range(100_000):
                if isinstance(out, Term):
                    break
                out = self._step(out)
            assert isinstance(out, Term)
            self._heads[k] = out
        return self._heads[k]

    def _step(self, v: Val) -> K:
        for f in v.frame.chain():
            if v.id in f.binds:
                return given(f.binds[v.id](v.path, v.at), v.given)
        p = self.params.get(v.id)
        if isinstance(p, Constexpr):
            dtype = self.dtype(v.id)
            return const(self.constexprs[v.id], dtype)
        if isinstance(p, Scalar):
            return Term("Int", (Sym(v.id),), (), "index") if p.dtype == "index" else Term("Scalar", (v.id,), (), p.dtype)
        op, n = self.effects.definitions[v.id]
        if op.op not in EXPAND:
            raise Unknown(op.op)
        depth = len(self.effects.homes.get(v.id, ()))
        return EXPAND[op.op](self, op, n, replace(v, frame=v.frame.home(depth)))

    def operand(self, v: Val, id: str, at: At | None = None, path: Path = (), more: tuple[Expr, ...] = ()) -> Val:
        """An operand that broadcasts to where `v` is read (or `at`)."""
        at = v.at if at is None else at
        t = self.type_of(id, path)
        if isinstance(t, TensorType):
            shape = self.shape(id, path)
            at = tuple(ZERO if e == ONE else x for e, x in zip(shape, at[len(at) - len(shape) :], strict=True))
        return Val(id, path, at, v.frame, (*v.given, *(m for m in more if m not in v.given)))

    def index(self, k: K) -> K:
        """The value as ``index``."""
        t = self.head(k)
        if t.dtype == "index":
            return t
        if t.head == "Scalar" and t.dtype != "u64":
            return Term("Int", (Sym(t.attrs[0]),), (), "index")
        if t.head == "Const":
            return const(int(dtypes.parse(t.attrs[0], t.dtype)), "index")
        return Term("Cast", ("index",), (t,), "index", t.given)

    # ------------------------------------------------------------------ conditions
    def holds(self, conditions: tuple[Condition, ...], v: Val) -> K:
        """The conjunction of what an operation runs under."""
        out: K = TRUE_TERM
        for c in conditions:
            match c[0]:
                case "if":
                    p: K = Val(c[1], (), (), v.frame, v.given)
                    out = both(out, p if c[2] else opposite(p))
                case "stays":
                    out = both(out, opposite(self.happens(self.effects.loops[c[1]], c[2], v)))
                case "alive":
                    info = self.effects.loops[c[1]]
                    if isinstance(info.op, kir.For) and info.breaks:
                        out = both(out, Val(c[1], (), (), v.frame, v.given))
                case _:
                    where = next((f.active[c[1]] for f in v.frame.chain() if c[1] in f.active), None)
                    out = out if where is None else both(out, Term("Int", (where,), (), "bool"))
        return out

    def happens(self, info: LoopInfo, n: int, v: Val) -> K:
        leave = info.leaves[n]
        return both(self.holds(leave.conditions, v), Val(leave.op.cond, (), (), v.frame, v.given))


def given(k: K, more: tuple[Expr, ...]) -> K:
    """`k` where `more` holds, too; what a pointwise operation reads is read there as well."""
    extra = tuple(m for m in more if m not in k.given)
    if not extra:
        return k
    if isinstance(k, Term) and k.head in ("Cast", "Un", "Bin", "Tri"):
        return replace(k, given=(*k.given, *extra), kids=tuple(given(x, more) for x in k.kids))
    return replace(k, given=(*k.given, *extra))


def const(x: float | int | bool, dtype: str) -> Term:
    return Term("Const", (dtypes.literal(x, dtype),), (), dtype)


TRUE_TERM, FALSE_TERM = const(True, "bool"), const(False, "bool")


def number(e: Expr, dtype: str = "index") -> Term:
    return Term("Int", (e,), (), dtype)


def both(a: K, b: K) -> K:
    return b if a == TRUE_TERM else a if b == TRUE_TERM else Term("Bin", ("and",), (a, b), "bool", a.given)


def opposite(a: K) -> K:
    return Term("Un", ("not",), (a,), "bool", a.given)


def choose(c: K, a: K, b: K, dtype: str) -> K:
    return a if a == b or c == TRUE_TERM else b if c == FALSE_TERM else Term("Tri", ("select",), (c, a, b), dtype, a.given)


__all__ = [
    "EXPAND", "FALSE_TERM", "TRUE_TERM", "At", "Body", "Frame", "K", "Path", "Relation", "Term", "Unknown", "Val", "both", "choose",
    "const", "expands", "given", "number", "opposite",
]  # fmt: skip
