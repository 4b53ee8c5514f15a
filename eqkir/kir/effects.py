"""Effects: illegal reads and writes, provable conflicts between unordered points, constants out of range.

Coordinates are followed as affine forms over positions (`kir.forms`). Only what is provable is reported; the rest is left to the
run-time checks of the interpreters: what a condition, a `while` or an early exit guards may not happen at all, and is not judged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from eqkir.base.diagnostics import Diagnostic
from eqkir.base.expr import ONE, Expr, Int, add, mul, sub
from eqkir.kir import ops
from eqkir.kir.extents import symbols_of
from eqkir.kir.forms import Form, Forms, Var
from eqkir.kir.model import Kernel, Op, Region
from eqkir.kir.types import Context, TensorType

_DIFFER = "coordinates that differ"
#: writes whose coordinates may coincide
_COLLIDE = (ops.ScatterReduce, ops.AtomicStore, ops.AtomicUpdate, ops.AtomicCompareExchange, ops.AtomicLoad)
AccessOp = ops.Load | ops.Write | ops.AtomicLoad | ops.AtomicCompareExchange


@dataclass(frozen=True)
class Access:
    op: AccessOp
    pointer: str
    points: tuple[str, ...]
    loop: int  # identity of the innermost parallel
    coords: tuple[Form, ...]
    valid: Form | None
    shape: tuple[Expr, ...]
    guarded: bool  # may not happen

    @property
    def plain(self) -> bool:
        """A write whose elements must be distinct."""
        return isinstance(self.op, ops.Write) and not isinstance(self.op, _COLLIDE)


@dataclass(frozen=True)
class Place:
    """What surrounds an operation."""

    points: tuple[str, ...] = ()  # of parallels
    loop: int = 0
    guarded: bool = False


@dataclass
class Effects(Forms):
    """One pass over a well-typed kernel."""

    written: set[str] = field(default_factory=set)
    accesses: list[Access] = field(default_factory=list)
    ordered: set[str] = field(default_factory=set)  # points of ordered loops
    outside: dict[str, tuple[str, ...]] = field(default_factory=dict)  # buffer -> points around its allocation: each has its own

    def run(self, at: str) -> list[Diagnostic]:
        self.body(self.kernel.body, f"{at}/body", Place())
        if not any(isinstance(a.op, (ops.Write, ops.AtomicCompareExchange)) and a.op.view in self.ctx.views for a in self.accesses):
            self.say("NO-EFFECT", "no store", f"{at}/body", "at least one store")
        self.pairs()
        return self.out

    # ------------------------------------------------------------------ walk
    def body(self, body: tuple[Op, ...], at: str, place: Place) -> None:
        for i, op in enumerate(body):
            self.visit(op, f"{at}/{i}", place)
            if isinstance(op, (ops.Break, ops.Continue)) or (isinstance(op, ops.If) and _leaves(op)):
                place = replace(place, guarded=True)

    def visit(self, op: Op, pointer: str, place: Place) -> None:
        self.constants(op, pointer)
        match op:
            case ops.Parallel():
                for a, d in zip(op.body.args, op.domains, strict=True):
                    self.point(a.id, d)
                inner = replace(place, points=(*place.points, *(a.id for a in op.body.args)), loop=id(op))
                self.body(op.body.body, f"{pointer}/body/body", inner)
            case ops.For():
                self.point(op.body.args[0].id, op.domain)
                self.ordered.add(op.body.args[0].id)
                self.enter(op.body, skip=1)
                self.body(op.body.body, f"{pointer}/body/body", replace(place, guarded=place.guarded or _leaves(op)))
            case ops.While() | ops.If():
                for name, r in op.named_regions():
                    self.enter(r)
                    guarded = name != "cond" or place.guarded
                    self.body(r.body, f"{pointer}/{name}/body", replace(place, guarded=guarded))
            case ops.Buffer():
                self.outside[op.results[0]] = place.points
                if op.init is not None:
                    self.written.add(op.results[0])
            case ops.Load() | ops.Write() | ops.AtomicLoad() | ops.AtomicCompareExchange():
                self.access(op, pointer, place)
            case _:
                for name, r in op.named_regions():
                    self.enter(r)
                    self.body(r.body, f"{pointer}/{name}/body", replace(place, guarded=True))
        for r_id in op.results:
            if isinstance(self.ctx.types.get(r_id), TensorType):
                self.forms[r_id] = self.flow(op, r_id)

    def enter(self, r: Region, skip: int = 0) -> None:
        """Arguments of which nothing is known."""
        for a in r.args[skip:]:
            if isinstance(t := self.ctx.types.get(a.id), TensorType):
                self.forms[a.id] = self.anything(t.rank)

    # ------------------------------------------------------------------ accesses
    def access(self, op: AccessOp, pointer: str, place: Place) -> None:
        r = self.ctx.resource(op.view, "")
        writes = not isinstance(op, (ops.Load, ops.AtomicLoad))
        if writes and r.role == "in":
            self.say("WRITE-IN", f"{op.view} is an `in` view", f"{pointer}/view", "an out or inout view")
        if op.reads and op.view not in self.written:
            if r.role == "out":
                self.say("READ-OUT", f"{op.view} is an `out` view that nothing wrote yet", f"{pointer}/view", "an in or inout view")
            elif r.buffer and not place.guarded and not self.perhaps_empty(op):
                self.say("UNWRITTEN", f"{op.view} has no contents yet", f"{pointer}/view", "an initial value, or a store before")
        if writes:
            self.written.add(op.view)
        operands = [*op.coords, *([op.valid] if op.valid else [])]
        shape = self.ctx.broadcast([(x, "") for x in operands]) if operands else ()
        valid = None if op.valid is None else self.form(op.valid)
        points = tuple(p for p in place.points if p not in self.outside.get(op.view, ()))
        a = Access(op, pointer, points, place.loop, tuple(self.form(c) for c in op.coords), valid, shape, place.guarded)
        self.accesses.append(a)
        if valid is None and not a.guarded:
            self.bounds(a, r.shape)
        if a.plain and not a.guarded:
            self.injective(a)

    def perhaps_empty(self, op: AccessOp) -> bool:
        """Whether run-time values may leave no element to access."""
        shape = self.ctx.broadcast([(x, "") for x in op.coords]) if op.coords else ()
        return any(s not in self.ctx.names for e in shape for s in symbols_of(e))

    def extent_of(self, a: Access, v: Var) -> Expr:
        return self.lengths[v] if isinstance(v, str) else a.shape[v]

    def largest(self, e: Expr) -> int | None:
        """An upper bound of an extent, or None."""
        if e.op == "sym" and e.args[0] in self.ctx.extents.symbols:
            return self.ctx.extents.symbols[e.args[0]].max
        return e.value

    def variables(self, a: Access) -> list[Var]:
        """Positions that may take two values."""
        every: list[Var] = [*a.points, *range(-len(a.shape), 0)]
        bound = {v: self.largest(self.extent_of(a, v)) for v in every}
        return [] if 0 in bound.values() else [v for v in every if bound[v] != 1]

    def injective(self, a: Access) -> None:
        over = self.variables(a)
        steers = a.valid.deps if a.valid else frozenset()
        for v in over:
            if v not in steers and not any(v in c.deps for c in a.coords):
                what = f"point {v}" if isinstance(v, str) else f"axis {v + len(a.shape)} of the stored tensor"
                self.say("CONFLICT", f"no coordinate depends on {what}: elements are written more than once", a.pointer, _DIFFER)
                return
        if steers or any(c.terms is None or self.runs(c) for c in a.coords):
            return
        zero = [0] * len(a.coords)
        if (d := self.meet(a, over, zero, any)) is not None:
            self.say("CONFLICT", f"positions that differ by {_delta(d)} write one element", a.pointer, _DIFFER)

    def runs(self, f: Form) -> bool:
        """Whether a form depends on an ordered loop: fixed within an iteration, another one in the next."""
        return any(v in self.ordered for v in f.deps)

    def meet(self, a: Access, over: list[Var], offsets: list[int], moved: Callable[[list[int]], bool]) -> dict[Var, int] | None:
        """Small steps of the positions, `moved`, after which every coordinate has changed by its offset."""
        if len(over) > 5:
            return None
        ranges = []
        for v in over:
            n = self.largest(self.extent_of(a, v))
            reach = 2 if n is None else min(2, n - 1)
            ranges.append(sorted(range(-reach, reach + 1), key=lambda x: (abs(x), -x)))
        for ds in itertools.product(*ranges):
            d = dict(zip(over, ds, strict=True))
            if moved(list(ds)) and all(sum(k * d.get(v, 0) for v, k in c.terms or ()) == o for c, o in zip(a.coords, offsets, strict=True)):
                return d
        return None

    def pairs(self) -> None:
        """Different accesses of one view by two points of one parallel."""
        groups: dict[tuple[str, int], list[Access]] = {}
        for a in self.accesses:
            if a.points and not a.guarded and (a.plain or isinstance(a.op, ops.Load)):
                groups.setdefault((a.op.view, a.loop), []).append(a)
        for _, group in sorted(groups.items(), key=lambda g: g[1][0].pointer):
            for a, b in itertools.combinations(group[:24], 2):
                s, o = (a, b) if a.plain else (b, a)
                if s.plain and (d := self.clash(s, o)) is not None:
                    what = "written twice" if o.plain else "written and read"
                    self.say("CONFLICT", f"an element is {what} by points that differ by {_delta(d)} (also {o.pointer})", s.pointer)

    def clash(self, s: Access, o: Access) -> dict[Var, int] | None:
        if s.valid or o.valid or s.shape != o.shape or any(c.terms is None or self.runs(c) for c in (*s.coords, *o.coords)):
            return None
        if any(x.terms != y.terms for x, y in zip(s.coords, o.coords, strict=True)):
            return None
        offsets = [self.ctx.extents.canon(sub(x.const, y.const)).value for x, y in zip(s.coords, o.coords, strict=True)]
        if any(n is None for n in offsets):
            return None
        over = self.variables(s)
        points = [isinstance(v, str) for v in over]
        return self.meet(s, over, [n or 0 for n in offsets], lambda ds: any(d for d, p in zip(ds, points, strict=True) if p))

    def bounds(self, a: Access, extents: tuple[Expr, ...]) -> None:
        for i, (c, e) in enumerate(zip(a.coords, extents, strict=True)):
            if c.terms is None:
                continue
            low = high = c.const
            for v, k in c.terms:
                last = mul(sub(self.extent_of(a, v), ONE), Int(k))
                low, high = (low, add(high, last)) if k > 0 else (add(low, last), high)
            x = self.ctx.extents
            if x.nonneg(sub(Int(-1), low)):
                self.say("BOUNDS", f"coordinate {x.canon(low)} of {a.op.view}", f"{a.pointer}/coords/{i}", "at least 0")
            elif x.nonneg(sub(high, e)):
                what = f"coordinate {x.canon(high)} of {a.op.view}, whose extent is {e}"
                self.say("BOUNDS", what, f"{a.pointer}/coords/{i}", f"less than {e}")


def _leaves(op: Op) -> bool:
    """Whether an operation inside leaves the loop around it, or (of a loop) the loop itself."""
    bodies = [op.body] if isinstance(op, (ops.For, ops.While)) else [op.then, op.otherwise] if isinstance(op, ops.If) else []
    inner = [o for r in bodies for o in r.body]
    return any(isinstance(o, (ops.Break, ops.Continue)) or (isinstance(o, ops.If) and _leaves(o)) for o in inner)


def _delta(d: dict[Var, int]) -> str:
    return "(" + ", ".join(f"{v if isinstance(v, str) else f'axis {v}'}: {n:+d}" for v, n in d.items() if n) + ")"


def check_effects(kernel: Kernel, ctx: Context, at: str) -> Iterator[Diagnostic]:
    """Diagnostics of a kernel whose names and types are in order; `at` is its JSON pointer."""
    return iter(Effects(kernel, ctx).run(at))
