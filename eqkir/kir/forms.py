"""Coordinates as affine forms over positions, and constants: what the effect checks know of values.

A *position* is the n-th point of an enclosing `parallel` or `for`, or the position along a tensor axis (counted from the right, so
that broadcasting keeps it).
"""

from __future__ import annotations

import math
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

Var = str | int  # the id of a point, or an axis counted from the right: -1, -2, …


@dataclass(frozen=True)
class Form:
    """``const + Σ coefficient · position``, or unknown with the positions that the value may depend on."""

    deps: frozenset[Var] = frozenset()
    terms: tuple[tuple[Var, int], ...] | None = None
    const: Expr = Int(0)

    def coefficient(self, v: Var) -> int:
        return dict(self.terms or ()).get(v, 0)


def affine(terms: dict[Var, int], const: Expr) -> Form:
    kept = {v: c for v, c in terms.items() if c}
    return Form(frozenset(kept), tuple(sorted(kept.items(), key=lambda t: str(t[0]))), const)


def unknown(*forms: Form) -> Form:
    return Form(frozenset().union(*(f.deps for f in forms)))


@dataclass
class Forms:
    """Forms and constants of the values of one well-typed kernel, filled in program order."""

    kernel: Kernel
    ctx: Context
    out: list[Diagnostic] = field(default_factory=list)
    forms: dict[str, Form] = field(default_factory=dict)
    consts: dict[str, Any] = field(default_factory=dict)
    lengths: dict[str, Expr] = field(default_factory=dict)  # of points

    def say(self, key: str, message: str, pointer: str, accepted: str = "") -> None:
        self.out.append(Diagnostic(CODES[key], message, pointer, accepted=accepted, stage=STAGE))

    def tensor(self, id: str) -> TensorType:
        t = self.ctx.types[id]
        assert isinstance(t, TensorType)
        return t

    def form(self, id: str) -> Form:
        """The form of a value; scalars and constexprs of the interface are unknown but fixed."""
        return self.forms.get(id, Form())

    def point(self, id: str, domain: str) -> None:
        """Enter a point of a domain."""
        t = self.ctx.types[domain]
        assert isinstance(t, DomainType)
        self.lengths[id] = t.length
        self.forms[id] = self.member(t, id)

    def member(self, d: DomainType, position: Var) -> Form:
        """A point of a domain by its position; slices begin nobody knows where."""
        begin = self.expression(d.begin)
        return begin if d.length == ONE else self.sum(begin, affine({position: d.step}, Int(0)), 1)

    def expression(self, e: Expr) -> Form:
        """The form of an extent: run-time values in it have forms of their own."""
        match e.op:
            case "int":
                return affine({}, e)
            case "sym":
                name = e.args[0]
                unknown_begin = name not in self.ctx.types and name not in self.ctx.names  # of a slice
                return Form(frozenset(self.lengths)) if unknown_begin else self.forms.get(name, affine({}, e))
            case "add" | "sub":
                return self.sum(self.expression(e.args[0]), self.expression(e.args[1]), 1 if e.op == "add" else -1)
            case "mul":
                return self.product(self.expression(e.args[0]), self.expression(e.args[1]))
        parts = [self.expression(a) for a in e.args]
        return affine({}, e) if all(p.terms == () for p in parts) else unknown(*parts)

    # ------------------------------------------------------------------ constants
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
                return affine({}, Int(v)) if op.dtype in dtypes.INTS else Form()
            case ops.ExtentOp():
                return self.expression(self.ctx.extent(op.extent, ""))
            case ops.Indices():
                d = self.ctx.types[op.domain]
                assert isinstance(d, DomainType)
                return self.member(d, -1)
            case ops.Binary(fn="add" | "sub"):
                return self.sum(self.form(op.x), self.form(op.y), 1 if op.fn == "add" else -1)
            case ops.Binary(fn="mul"):
                return self.product(self.form(op.x), self.form(op.y))
            case ops.Cast() if op.dtype in dtypes.INTS and self.tensor(op.x).dtype in dtypes.INTS:
                return self.form(op.x)
            case ops.AssumeInBounds():
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
                merged = unknown(*(self.form(x) for x in op.operands()))
                return Form(self.move(merged, {a - before: j - rank for j, a in enumerate(kept)}).deps)
            case ops.Contract():
                points = {v for x in op.operands() for v in self.form(x).deps if isinstance(v, str)}
                return Form(frozenset(points) | frozenset(range(-rank, 0)))
            case _:
                if op.pointwise or isinstance(op, ops.Load):
                    return unknown(*(self.form(x) for x in op.operands()))
                return self.anything(rank)  # an operation unknown here

    def anything(self, rank: int) -> Form:
        """A value that may depend on every point and on each of its axes."""
        return Form(frozenset(self.lengths) | frozenset(range(-rank, 0)))

    @staticmethod
    def sum(a: Form, b: Form, sign: int) -> Form:
        if a.terms is None or b.terms is None:
            return unknown(a, b)
        x, y = dict(a.terms), dict(b.terms)
        terms = {v: x.get(v, 0) + sign * y.get(v, 0) for v in {**x, **y}}
        return affine(terms, (add if sign > 0 else sub)(a.const, b.const))

    @staticmethod
    def product(a: Form, b: Form) -> Form:
        if a.terms is None or b.terms is None:
            return unknown(a, b)
        for f, g in ((a, b), (b, a)):
            if not f.terms and (n := f.const.value) is not None:
                return affine({v: n * c for v, c in g.terms or ()}, mul(g.const, Int(n)))
        return affine({}, mul(a.const, b.const)) if not a.terms and not b.terms else unknown(a, b)

    @staticmethod
    def move(f: Form, axes: dict[int, int]) -> Form:
        """Rename tensor axes; one that is gone was reduced."""

        def to(v: Var) -> Var | None:
            return v if isinstance(v, str) else axes.get(v)

        deps = frozenset(w for v in f.deps if (w := to(v)) is not None)
        if f.terms is None:
            return Form(deps)
        return affine({w: c for v, c in f.terms if (w := to(v)) is not None}, f.const)

    def reshape(self, op: ops.Reshape, rank: int) -> Form:
        old, new = self.tensor(op.x).shape, self.tensor(op.results[0]).shape
        a = [i - len(old) for i, e in enumerate(old) if e != ONE]
        b = [i - rank for i, e in enumerate(new) if e != ONE]
        f = self.form(op.x)
        if len(a) == len(b) and all(self.ctx.extents.equal(old[i], new[j]) for i, j in zip(a, b, strict=True)):
            return self.move(f, dict(zip(a, b, strict=True)))
        points = frozenset(v for v in f.deps if isinstance(v, str))
        return Form(points | frozenset(b) if len(points) < len(f.deps) else points)
