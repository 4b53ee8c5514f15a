"""Kernels made from a value rule's own query, so that there is something to match: its pattern with loads for variables.

A draw varies what the query leaves open: dtypes, functions, which axes a variable has, whether an intermediate result has another reader.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eqkir.authoring.patterns import Pattern, Term, is_variable, pattern
from eqkir.base.diagnostics import EqkirError
from eqkir.base.dtypes import FLOATS, INTS
from eqkir.kir import ops
from eqkir.kir.builder import Builder, kernel
from eqkir.kir.model import Kernel
from eqkir.kir.values import Value
from eqkir.program.ops import BINARY, COMPARE, REDUCTIONS, UNARY
from eqkir.rules.load import Rule
from eqkir.rules.signatures import Signature
from eqkir.rules.sorts import SortCheck

FLOAT, INT = ("f32", "f16", "bf16", "f64"), ("i32", "u8", "i64", "i16")
DRAWS = 60
#: axes of the result, and of what is bound inside
FREE = ("M", "N")


class Impossible(Exception):
    """This draw has no kernel."""


@dataclass
class _Draw:
    """`values`: variable -> its value; `names`: variables of attributes -> their text; `dtypes`: variables that hold a dtype."""

    k: Builder
    rng: random.Random
    p: Pattern
    sorts: Mapping[str, str]
    dims: dict[str, Any]
    dtype: str
    values: dict[tuple[str, tuple[str, ...]], Value] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    inner: list[Value] = field(default_factory=list)
    views: list[Any] = field(default_factory=list)
    bound: dict[str, str] = field(default_factory=dict)  # axis variable -> dim

    def name(self, t: Term, choices: Sequence[str]) -> str:
        """An attribute: a literal, or what the query says of the variable, or a draw."""
        if isinstance(t, str) and t.startswith('"'):
            return t.strip('"')
        v = str(t)
        if v not in self.names:
            said = [d for d in self.p.defined.get(v, ()) if isinstance(d, str) and d.startswith('"')]
            self.names[v] = said[0].strip('"') if said else self.rng.choice(choices)
        return self.names[v]

    def value(self, t: Term, axes: tuple[str, ...], dtype: str) -> Value:
        """A value over `axes` (a subset of them where it is a variable) of a dtype."""
        if is_variable(t):
            v = str(t)
            olds = [d for d in self.p.defined.get(v, ()) if isinstance(d, tuple)]
            structure = next((d for d in olds if d[0] in KINDS), None)
            if (v, axes) not in self.values:
                self.values[v, axes] = self.leaf(axes, dtype) if structure is None else self.term(structure, axes, dtype)
                if structure is not None:
                    self.inner.append(self.values[v, axes])
            x = self.values[v, axes]
            return x if x.dtype == dtype else x.cast(dtype)
        if not isinstance(t, tuple):
            raise Impossible
        return self.term(t, axes, dtype)

    def leaf(self, axes: tuple[str, ...], dtype: str) -> Value:
        held = [a for a in axes if self.rng.random() < 0.85] if self.rng.random() < 0.5 else list(axes)
        if dtype == "bool":
            x = self.leaf(axes, "f32")
            return x < 0.5
        shape = [self.dims[a] if a in held else 1 for a in axes]
        view = self.k.view(f"X{len(self.views)}", "in", dtype, shape)
        self.views.append(view)
        x = view[(slice(None),) * len(axes)] if axes else view[()]
        return x

    def full(self, x: Value, axes: tuple[str, ...]) -> Value:
        return x.broadcast_to(tuple(self.dims[a] for a in axes)) if axes else x

    def axis(self, t: Term) -> str:
        v = str(t)
        if v not in self.bound:
            self.bound[v] = f"K{len(self.bound)}"
        return self.bound[v]

    def term(self, t: tuple[Term, ...], axes: tuple[str, ...], dtype: str) -> Value:
        match t:
            case ("Un", fn, a):
                names = [f for f in UNARY if dtype in FLOATS or f in ("neg", "abs", "not")]
                f = self.name(fn, names)
                if f.startswith("is"):
                    return self.value(a, axes, self.float_of(dtype)).unary(f)
                return self.value(a, axes, dtype).unary(f)
            case ("Bin", fn, a, b):
                float_ = dtype in FLOATS
                names = (
                    [*COMPARE, "and", "or"]
                    if dtype == "bool"
                    else ["add", "sub", "mul", "maximum", "minimum", *(["div"] if float_ else [])]
                )
                f = self.name(fn, names)
                if f not in BINARY + COMPARE:
                    raise Impossible
                of = dtype
                if f in COMPARE:
                    of = self.float_of(dtype)
                return self.k.binary(f, self.value(a, axes, of), self.value(b, axes, of))
            case ("Tri", fn, a, b, c):
                f = self.name(fn, ("select", "fma") if dtype in FLOATS else ("select",))
                if f == "select":
                    return self.k.where(self.value(a, axes, "bool"), self.value(b, axes, dtype), self.value(c, axes, dtype))
                return self.k.fma(self.value(a, axes, dtype), self.value(b, axes, dtype), self.value(c, axes, dtype))
            case ("Cast", d, a):
                to = self.name(d, (dtype,))
                if to != dtype:
                    raise Impossible
                other = self.rng.choice(
                    [x for x in ("f32", "bf16", "f16", "f64") if x != dtype] if dtype in FLOATS else ["i32", "i64", "i8"]
                )
                if isinstance(a, str) and is_variable(a) and (said := self.dtype_of(a)):
                    other = said
                elif inner := self.cast_in(a):
                    other = inner
                return self.value(a, axes, other).cast(dtype)
            case ("Const", z, d):
                text, of = self.name(z, ("0.0", "1.0", "2.0") if dtype in FLOATS else ("0", "1", "2")), self.name(d, (dtype,))
                if of != dtype:
                    raise Impossible
                return self.k.const(text == "true" if dtype == "bool" else float(text) if dtype in FLOATS else int(text), dtype)
            case ("Permit", o, a):
                what = self.name(o, ("approximate", "flush_to_zero", "approximate flush_to_zero"))
                marks = dict.fromkeys(what.split(), True)
                what_of: Term = self.p.defined.get(str(a), [a])[0] if is_variable(a) else a
                if isinstance(what_of, tuple) and what_of[0] == "Un":
                    x = self.value(what_of[2], axes, dtype)
                    return self.k.one(ops.Unary, fn=self.name(what_of[1], ("exp2", "tanh")), x=x.id, **marks)
                if isinstance(what_of, tuple) and what_of[0] == "Bin":
                    x, y = self.value(what_of[2], axes, dtype), self.value(what_of[3], axes, dtype)
                    return self.k.one(ops.Binary, fn="div", x=self.full(x, axes).id, y=self.full(y, axes).id, **marks)
                raise Impossible
            case ("Red", o, c, a):
                dim = self.axis(c)
                fn = self.name(o, [r for r in REDUCTIONS if (r in ("any", "all")) == (dtype == "bool")])
                return self.full(self.value(a, (*axes, dim), dtype), (*axes, dim)).reduce(fn, len(axes))
            case (("Con" | "ConAcc"), c, d, a, b, *rest):
                dim, acc = self.axis(c), self.name(d, (dtype,))
                if acc != dtype or dtype in ("f16", "bf16", "bool"):
                    raise Impossible
                of = self.rng.choice(("f32", "bf16", "f16")) if dtype == "f32" else dtype
                left, right = ((axes[0], dim), (dim, *axes[1:])) if axes else ((dim,), (dim,))
                x, y = self.full(self.value(a, left, of), left), self.full(self.value(b, right, of), right)
                v = self.k.contract(x, y, [(len(left) - 1, 0)], (), acc)
                return v + self.value(rest[0], axes, dtype) if rest else v
            case ("Load", *_):
                return self.leaf(axes, dtype)
        raise Impossible

    def float_of(self, dtype: str) -> str:
        return self.dtype if self.dtype != "bool" else "f32"

    def dtype_of(self, v: str) -> str:
        """What the query says of a variable's dtype, where it names one."""
        for name, ds in self.p.defined.items():
            if ("dty", v) in ds:
                return next((d.strip('"') for d in ds if isinstance(d, str) and d.startswith('"')), self.names.get(name, ""))
        return ""

    def cast_in(self, a: Term) -> str:
        d = next((x for x in self.p.defined.get(str(a), ()) if isinstance(x, tuple)), a) if is_variable(a) else a
        if isinstance(d, tuple) and d[0] == "Cast":
            return self.name(d[1], ("f32", "f64", "bf16", "f16"))
        return ""


KINDS = ("Un", "Bin", "Tri", "Cast", "Const", "Permit", "Red", "Con", "ConAcc", "Load")


def witnesses(rule: Rule, known: Mapping[str, Signature], seed: int = 0, draws: int = DRAWS) -> Iterator[Kernel]:
    """Kernels that hold the pattern of a value rule, each another draw; none for rules on other sorts or on what rules make."""
    for ast in rule.asts:
        p = pattern(ast)
        check = SortCheck(known, "")
        check.rule(ast)
        targets = [str(x) for a, b, _ in p.unions for x in (a, b) if is_variable(x) and check.variables.get(str(x)) == "V"]
        roots = [v for v in targets if any(isinstance(d, tuple) and d[0] in KINDS for d in p.defined.get(v, ()))]
        for n in range(draws if roots else 0):
            try:
                yield _kernel(p, check.variables, roots, random.Random(f"{seed}/{n}"), n)
            except (Impossible, EqkirError, TypeError, ValueError, IndexError):
                continue


def _kernel(p: Pattern, sorts: Mapping[str, str], roots: list[str], rng: random.Random, n: int) -> Kernel:
    dtype = ("f32", rng.choice((*FLOAT, *FLOAT, *INT, "bool")))[n % 2]

    def build(k: Builder) -> None:
        dims = {d: k.symbol(d) for d in ("M", "N", "K0", "K1", "K2")}
        d = _Draw(k, rng, p, sorts, dims, dtype)
        for v in roots:
            x = d.full(d.value(v, FREE, dtype), FREE)
            out = [k.view(f"Y{v}", "out", x.dtype, [dims[a] for a in FREE])]
            if rng.random() < 0.35:
                for i, other in enumerate(y for y in d.inner if y is not x and len(y.shape) == 2):
                    side = k.view(f"Z{i}", "out", other.dtype, other.shape)
                    side[:, :] = other
                    out.append(side)
            k.noalias(*d.views, *out)
            out[0][:, :] = x

    made: Kernel = kernel(name="witness")(build)
    return made


__all__ = ["FLOAT", "INT", "INTS", "witnesses"]
