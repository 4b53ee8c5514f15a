"""Effects: illegal reads and writes, provable conflicts between unordered points, constants out of range.

Coordinates are followed as affine forms over *positions*: the n-th point of an enclosing `parallel` and the position along a
tensor axis (counted from the right, so that broadcasting keeps it). Only what is provable is reported; the rest is left to
the run-time checks of the interpreters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from eqkir.base import dtypes
from eqkir.base.diagnostics import Diagnostic
from eqkir.base.expr import ONE, Expr, Int, add, mul, sub
from eqkir.kir import ops
from eqkir.kir.codes import CODES, STAGE
from eqkir.kir.model import Kernel, Op
from eqkir.kir.type_rules import constant_value, int_range
from eqkir.kir.types import Context, DomainType, TensorType

_DIFFER = "coordinates that differ"
Var = str | int  # the id of a point, or an axis counted from the right: -1, -2, …


@dataclass(frozen=True)
class Form:
    """``const + Σ coefficient · position``, or unknown with the positions that the value may depend on."""

    deps: frozenset[Var] = frozenset()
    terms: tuple[tuple[Var, int], ...] | None = None
    const: Expr = Int(0)

    def coefficient(self, v: Var) -> int:
        return dict(self.terms or ()).get(v, 0)


def _affine(terms: dict[Var, int], const: Expr) -> Form:
    kept = {v: c for v, c in terms.items() if c}
    return Form(frozenset(kept), tuple(sorted(kept.items(), key=lambda t: str(t[0]))), const)


def _unknown(*forms: Form) -> Form:
    return Form(frozenset().union(*(f.deps for f in forms)))


@dataclass(frozen=True)
class Access:
    op: ops.Load | ops.Store
    pointer: str
    points: tuple[str, ...]
    loop: int  # identity of the innermost parallel
    coords: tuple[Form, ...]
    valid: Form | None
    shape: tuple[Expr, ...]


@dataclass
class Effects:
    """One pass over a well-typed kernel."""

    kernel: Kernel
    ctx: Context
    out: list[Diagnostic] = field(default_factory=list)
    forms: dict[str, Form] = field(default_factory=dict)
    consts: dict[str, Any] = field(default_factory=dict)
    lengths: dict[str, Expr] = field(default_factory=dict)  # of points
    written: set[str] = field(default_factory=set)
    accesses: list[Access] = field(default_factory=list)

    def say(self, key: str, message: str, pointer: str, accepted: str = "") -> None:
        self.out.append(Diagnostic(CODES[key], message, pointer, accepted=accepted, stage=STAGE))

    def run(self, at: str) -> list[Diagnostic]:
        self.body(self.kernel.body, f"{at}/body", (), 0)
        if not any(isinstance(a.op, ops.Store) for a in self.accesses):
            self.say("NO-EFFECT", "no store", f"{at}/body", "at least one store")
        self.pairs()
        return self.out

    def tensor(self, id: str) -> TensorType:
        t = self.ctx.types[id]
        assert isinstance(t, TensorType)
        return t

    def form(self, id: str) -> Form:
        """The form of a value; scalars and constexprs of the interface are unknown but fixed."""
        return self.forms.get(id, Form())

    def body(self, body: tuple[Op, ...], at: str, points: tuple[str, ...], loop: int) -> None:
        for i, op in enumerate(body):
            pointer = f"{at}/{i}"
            if isinstance(op, ops.Parallel):
                for a, d in zip(op.body.args, op.domains, strict=True):
                    t = self.ctx.types[d]
                    assert isinstance(t, DomainType)
                    self.lengths[a.id] = t.length
                    self.forms[a.id] = _affine({} if t.length == ONE else {a.id: t.step}, t.begin)
                self.body(op.body.body, f"{pointer}/body/body", (*points, *(a.id for a in op.body.args)), id(op))
                continue
            for r in op.regions():
                self.scan_constants(r.body)
            self.constants(op, pointer)
            if isinstance(op, (ops.Load, ops.Store)):
                self.access(op, pointer, points, loop)
            for r_id in op.results:
                if isinstance(self.ctx.types.get(r_id), TensorType):
                    self.forms[r_id] = self.flow(op, r_id)

    # ------------------------------------------------------------------ constants
    def scan_constants(self, body: tuple[Op, ...]) -> None:
        for op in body:
            if isinstance(op, ops.Constant):
                self.consts[op.results[0]] = constant_value(op.value, op.dtype)

    def constants(self, op: Op, pointer: str) -> None:
        match op:
            case ops.Constant():
                self.consts[op.results[0]] = constant_value(op.value, op.dtype)
            case ops.Full() if op.value in self.consts:
                self.consts[op.results[0]] = self.consts[op.value]
            case ops.Broadcast() | ops.Reshape() | ops.Transpose() if op.x in self.consts:
                self.consts[op.results[0]] = self.consts[op.x]
            case ops.Binary(fn="shl" | "shr") if op.y in self.consts:
                width = dtypes.bits(self.tensor(op.y).dtype)
                if not 0 <= self.consts[op.y] < width:
                    self.say("SHIFT", f"a shift by {self.consts[op.y]}", f"{pointer}/y", f"0 <= n < {width}")
            case ops.Binary(fn="floordiv" | "mod") if self.consts.get(op.y) == 0:
                self.say("DIVISION", f"{op.fn} by the constant 0", f"{pointer}/y", "a nonzero divisor")
            case ops.Cast() if op.x in self.consts and dtypes.is_float(self.tensor(op.x).dtype):
                v = self.consts[op.x]
                if op.dtype in dtypes.INTS:
                    lo, hi = int_range(op.dtype)
                    if not math.isfinite(v) or not lo <= math.trunc(v) <= hi:
                        self.say("CAST", f"{v} as {op.dtype}", f"{pointer}/x", f"a value in {lo}..{hi}")
                elif op.dtype == "f8e4m3fn":
                    try:
                        constant_value(v, op.dtype)
                    except ValueError as err:
                        self.say("CAST", str(err), f"{pointer}/x", "a magnitude of at most 448")

    # ------------------------------------------------------------------ forms
    def flow(self, op: Op, result: str) -> Form:
        rank = self.tensor(result).rank
        match op:
            case ops.Constant():
                v = self.consts[op.results[0]]
                return _affine({}, Int(v)) if op.dtype in dtypes.INTS else Form()
            case ops.ExtentOp():
                return _affine({}, self.ctx.extent(op.extent, ""))
            case ops.Indices():
                d = self.ctx.types[op.domain]
                assert isinstance(d, DomainType)
                return _affine({} if d.length == ONE else {-1: d.step}, d.begin)
            case ops.Binary(fn="add" | "sub" | "mul"):
                return self.arithmetic(op)
            case ops.Cast() if op.dtype in dtypes.INTS and self.tensor(op.x).dtype in dtypes.INTS:
                return self.form(op.x)
            case ops.Broadcast() | ops.Full():
                return self.form(op.operands()[0])
            case ops.Transpose():
                return self.move(self.form(op.x), {op.perm[j] - rank: j - rank for j in range(rank)})
            case ops.Reshape():
                return self.reshape(op, rank)
            case ops.Reduce():
                before = self.tensor(op.xs[0]).rank
                kept = [a for a in range(before) if a not in op.axes]
                merged = _unknown(*(self.form(x) for x in op.operands()))
                return Form(self.move(merged, {a - before: j - rank for j, a in enumerate(kept)}).deps)
            case ops.Contract():
                points = {v for x in op.operands() for v in self.form(x).deps if isinstance(v, str)}
                return Form(frozenset(points) | frozenset(range(-rank, 0)))
            case _:
                known = (ops.Unary, ops.Binary, ops.Compare, ops.Fma, ops.Select, ops.Cast, ops.Bitcast, ops.Load)
                if isinstance(op, known):
                    return _unknown(*(self.form(x) for x in op.operands()))
                return Form(frozenset(self.lengths) | frozenset(range(-rank, 0)))  # an operation unknown here: anything

    def arithmetic(self, op: ops.Binary) -> Form:
        a, b = self.form(op.x), self.form(op.y)
        if a.terms is None or b.terms is None:
            return _unknown(a, b)
        x, y = dict(a.terms), dict(b.terms)
        if op.fn != "mul":
            sign = 1 if op.fn == "add" else -1
            terms = {v: x.get(v, 0) + sign * y.get(v, 0) for v in {**x, **y}}
            return _affine(terms, (add if sign > 0 else sub)(a.const, b.const))
        for f, g in ((a, b), (b, a)):
            if not f.terms and (n := f.const.value) is not None:
                return _affine({v: n * c for v, c in g.terms or ()}, mul(g.const, Int(n)))
        return _unknown(a, b)

    @staticmethod
    def move(f: Form, axes: dict[int, int]) -> Form:
        """Rename tensor axes; one that is gone was reduced."""

        def to(v: Var) -> Var | None:
            return v if isinstance(v, str) else axes.get(v)

        deps = frozenset(w for v in f.deps if (w := to(v)) is not None)
        if f.terms is None:
            return Form(deps)
        return _affine({w: c for v, c in f.terms if (w := to(v)) is not None}, f.const)

    def reshape(self, op: ops.Reshape, rank: int) -> Form:
        old, new = self.tensor(op.x).shape, self.tensor(op.results[0]).shape
        a = [i - len(old) for i, e in enumerate(old) if e != ONE]
        b = [i - rank for i, e in enumerate(new) if e != ONE]
        f = self.form(op.x)
        if len(a) == len(b) and all(self.ctx.extents.equal(old[i], new[j]) for i, j in zip(a, b, strict=True)):
            return self.move(f, dict(zip(a, b, strict=True)))
        points = frozenset(v for v in f.deps if isinstance(v, str))
        return Form(points | frozenset(b) if len(points) < len(f.deps) else points)

    # ------------------------------------------------------------------ accesses
    def access(self, op: ops.Load | ops.Store, pointer: str, points: tuple[str, ...], loop: int) -> None:
        view = self.ctx.views[op.view]
        store = isinstance(op, ops.Store)
        if store and view.role == "in":
            self.say("WRITE-IN", f"{op.view} is an `in` view", f"{pointer}/view", "an out or inout view")
        if not store and view.role == "out" and op.view not in self.written:
            self.say("READ-OUT", f"{op.view} is an `out` view that nothing wrote yet", f"{pointer}/view", "an in or inout view")
        if store:
            self.written.add(op.view)
        operands = [*op.coords, *([op.valid] if op.valid else [])]
        shape = self.ctx.broadcast([(x, "") for x in operands]) if operands else ()
        valid = None if op.valid is None else self.form(op.valid)
        a = Access(op, pointer, points, loop, tuple(self.form(c) for c in op.coords), valid, shape)
        self.accesses.append(a)
        if valid is None:
            self.bounds(a)
        if store:
            self.injective(a)

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
        if steers or any(c.terms is None for c in a.coords):
            return
        zero = [0] * len(a.coords)
        if (d := self.meet(a, over, zero, any)) is not None:
            self.say("CONFLICT", f"positions that differ by {_delta(d)} write one element", a.pointer, _DIFFER)

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
            if a.points:
                groups.setdefault((a.op.view, a.loop), []).append(a)
        for _, group in sorted(groups.items(), key=lambda g: g[1][0].pointer):
            for a, b in itertools.combinations(group[:24], 2):
                s, o = (a, b) if isinstance(a.op, ops.Store) else (b, a)
                if isinstance(s.op, ops.Store) and (d := self.clash(s, o)) is not None:
                    what = "written twice" if isinstance(o.op, ops.Store) else "written and read"
                    self.say("CONFLICT", f"an element is {what} by points that differ by {_delta(d)} (also {o.pointer})", s.pointer)

    def clash(self, s: Access, o: Access) -> dict[Var, int] | None:
        if s.valid or o.valid or s.shape != o.shape or any(c.terms is None for c in (*s.coords, *o.coords)):
            return None
        if any(x.terms != y.terms for x, y in zip(s.coords, o.coords, strict=True)):
            return None
        offsets = [self.ctx.extents.canon(sub(x.const, y.const)).value for x, y in zip(s.coords, o.coords, strict=True)]
        if any(n is None for n in offsets):
            return None
        over = self.variables(s)
        points = [isinstance(v, str) for v in over]
        return self.meet(s, over, [n or 0 for n in offsets], lambda ds: any(d for d, p in zip(ds, points, strict=True) if p))

    def bounds(self, a: Access) -> None:
        view = self.ctx.views[a.op.view]
        for i, (c, e) in enumerate(zip(a.coords, view.shape, strict=True)):
            if c.terms is None:
                continue
            low = high = c.const
            for v, k in c.terms:
                last = mul(sub(self.extent_of(a, v), ONE), Int(k))
                low, high = (low, add(high, last)) if k > 0 else (add(low, last), high)
            x = self.ctx.extents
            if x.nonneg(sub(Int(-1), low)):
                self.say("BOUNDS", f"coordinate {x.canon(low)} of {view.id}", f"{a.pointer}/coords/{i}", "at least 0")
            elif x.nonneg(sub(high, self.ctx.extent(e, ""))):
                what = f"coordinate {x.canon(high)} of {view.id}, whose extent is {e}"
                self.say("BOUNDS", what, f"{a.pointer}/coords/{i}", f"less than {e}")


def _delta(d: dict[Var, int]) -> str:
    return "(" + ", ".join(f"{v if isinstance(v, str) else f'axis {v}'}: {n:+d}" for v, n in d.items() if n) + ")"


def check_effects(kernel: Kernel, ctx: Context, at: str) -> Iterator[Diagnostic]:
    """Diagnostics of a kernel whose names and types are in order; `at` is its JSON pointer."""
    return iter(Effects(kernel, ctx).run(at))
