"""Which values are visible where, and what regions may do (purity). One pass over a kernel or a helper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from eqkir.base.diagnostics import Diagnostic
from eqkir.base.expr import Expr
from eqkir.kir import ops
from eqkir.kir.codes import CODES, STAGE
from eqkir.kir.extents import symbols_of
from eqkir.kir.model import Helper, Kernel, Op, Region, Spec, View, extent_expr
from eqkir.kir.node import Purity

LIMIT = 20


def diagnostic(key: str, message: str, pointer: str, accepted: str = "") -> Diagnostic:
    """A diagnostic of this stage."""
    return Diagnostic(CODES[key], message, pointer, accepted=accepted, stage=STAGE)


@dataclass
class Scopes:
    """Which ids are visible where. A scope is the tuple of pointers of the enclosing regions."""

    owner: Kernel | Helper
    at: str
    helpers: Mapping[str, Helper] = field(default_factory=dict)
    out: list[Diagnostic] = field(default_factory=list)
    defined: dict[str, tuple[tuple[str, ...], Op | None]] = field(default_factory=dict)
    parents: dict[int, Op] = field(default_factory=dict)  # op (by id) -> the op whose region holds it
    views: set[str] = field(default_factory=set)
    values: set[str] = field(default_factory=set)  # of the interface

    def run(self) -> list[Diagnostic]:
        x = self.owner
        if isinstance(x, Kernel):
            for i, s in enumerate(x.symbols):
                self.define(s.id, (), None, f"{self.at}/symbols/{i}/id")
            for i, p in enumerate(x.params):
                self.define(p.id, (), None, f"{self.at}/params/{i}/id")
            self.views = {p.id for p in x.params if isinstance(p, View)}
            self.values = {p.id for p in x.params if not isinstance(p, View)}
        else:
            for i, name in enumerate(x.symbols):
                self.define(name, (), None, f"{self.at}/symbols/{i}")
            for kind in ("constexprs", "args", "views"):
                for i, q in enumerate(getattr(x, kind)):
                    self.define(q.id, (), None, f"{self.at}/{kind}/{i}/id")
            self.views = {v.id for v in x.views}
            self.values = {c.id for c in x.constexprs} | {a.id for a in x.args}
        self.collect(x.body, (), f"{self.at}/body", None)
        visible = [set(self.values)]
        if isinstance(x, Helper):
            self.specs(x.args, None, (), self.at, visible)
        level: Purity = "read" if isinstance(x, Helper) and x.effect == "pure" else "any"
        self.walk(x.body, (), f"{self.at}/body", visible, visible, level)
        for j, y in enumerate(x.yields if isinstance(x, Helper) else ()):
            self.use(y, None, (), f"{self.at}/yields/{j}", visible)
        return self.out

    def define(self, id: str, scope: tuple[str, ...], op: Op | None, pointer: str) -> None:
        if id in self.defined:
            self.out.append(diagnostic("NAME", f"{id} is defined twice", pointer, "a name of its own"))
        else:
            self.defined[id] = (scope, op)

    def collect(self, body: tuple[Op, ...], scope: tuple[str, ...], at: str, parent: Op | None) -> None:
        for i, op in enumerate(body):
            if parent is not None:
                self.parents[id(op)] = parent
            for j, r in enumerate(op.results):
                self.define(r, scope, op, f"{at}/{i}/results/{j}")
            for name, region in op.named_regions():
                inner = (*scope, f"{at}/{i}/{name}")
                for j, a in enumerate(region.args):
                    self.define(a.id, inner, op, f"{at}/{i}/{name}/args/{j}/id")
                self.collect(region.body, inner, f"{at}/{i}/{name}/body", op)

    def walk(self, body: tuple[Op, ...], scope: tuple[str, ...], at: str, visible: list[set[str]], lexical: list[set[str]],
             level: Purity) -> None:  # fmt: skip
        """`visible`: ids that operands may name; `lexical`: those that extents may name, beyond closed regions too."""
        for i, op in enumerate(body):
            here = f"{at}/{i}"
            self.effect(op, level, here)
            for f in op.operand_fields:
                v = getattr(op, f)
                for j, x in enumerate(() if v is None else (v,) if isinstance(v, str) else v):
                    self.use(x, op, scope, f"{here}/{f}" + ("" if isinstance(v, str) else f"/{j}"), visible)
            for f in op.resource_fields:
                v = getattr(op, f)
                for j, x in enumerate((v,) if isinstance(v, str) else v):
                    if x not in self.views and x in self.defined:
                        self.use(x, op, scope, f"{here}/{f}" + ("" if isinstance(v, str) else f"/{j}"), visible)
            for f in op.extent_fields:
                v = getattr(op, f)
                for j, e in enumerate(v if isinstance(v, tuple) else (v,)):
                    self.extent(e, op, scope, f"{here}/{f}" + (f"/{j}" if isinstance(v, tuple) else ""), lexical)
            for name, region in op.named_regions():
                inner = (*scope, f"{here}/{name}")
                args = {a.id for a in region.args}
                seen = [*([] if op.closed_regions else visible), args]
                wide = [*lexical, args]
                self.specs(region.args, op, inner, f"{here}/{name}", wide)
                allowed = _strictest(level, op.purity.get(name, "any"))
                self.walk(region.body, inner, f"{here}/{name}/body", seen, wide, allowed)
                for j, y in enumerate(region.yields):
                    self.use(y, op, inner, f"{here}/{name}/yields/{j}", seen)
            visible[-1].update(op.results)
            if lexical[-1] is not visible[-1]:
                lexical[-1].update(op.results)

    # ------------------------------------------------------------------ purity
    def effect(self, op: Op, level: Purity, at: str) -> None:
        """Refuse what the region may not do. Effects inside nested regions are met there."""
        h = self.helpers.get(op.helper) if isinstance(op, ops.Call) else None
        if level == "pointwise" and not (op.pointwise if h is None else h.effect == "pure" and self.scalar(h, 0)):
            self.out.append(diagnostic("REGION", f"{op.op} in a combine region", at, "pointwise operations"))
        if level in ("pointwise", "any"):
            return
        if isinstance(op, ops.Call):
            writes, reads = h is not None and h.effect != "pure", h is not None and bool(h.views)
        else:
            writes, reads = op.writes and not isinstance(op, (ops.Break, ops.Continue)), op.reads
        if writes or isinstance(op, ops.Parallel):
            self.out.append(diagnostic("PURITY", f"{op.op} in a region that writes nothing", at, "operations without effects"))
        elif reads and level == "pure":
            self.out.append(diagnostic("PURITY", f"{op.op} in a region that reads no memory", at, "operations on values"))

    def scalar(self, h: Helper, depth: int) -> bool:
        """Whether a helper is pointwise: it may stand in a combine region."""
        inner = [self.helpers.get(o.helper) if isinstance(o, ops.Call) else None for o in h.body]
        return depth < 50 and all(o.pointwise or (i is not None and self.scalar(i, depth + 1)) for o, i in zip(h.body, inner, strict=True))

    # ------------------------------------------------------------------ extents
    def specs(self, args: tuple[Spec, ...], op: Op | None, scope: tuple[str, ...], at: str, lexical: list[set[str]]) -> None:
        for i, a in enumerate(args):
            for j, e in enumerate(a.shape):
                self.extent(e, op, scope, f"{at}/args/{i}/shape/{j}", lexical)
            self.specs(a.fields, op, scope, f"{at}/args/{i}/fields", lexical)

    def extent(self, e: Any, op: Op | None, scope: tuple[str, ...], pointer: str, lexical: list[set[str]]) -> None:
        try:
            x: Expr = extent_expr(e)
        except (ValueError, RecursionError, ZeroDivisionError):
            return  # the types say so
        for s in symbols_of(x):
            base = s if s in self.defined else s.removesuffix(".begin").removesuffix(".end")
            if base in self.defined and base not in self.values and self.defined[base][1] is not None:
                self.use(base, op, scope, pointer, lexical)

    # ------------------------------------------------------------------ uses
    def use(self, x: str, op: Op | None, scope: tuple[str, ...], pointer: str, visible: list[set[str]]) -> None:
        if any(x in v for v in visible) or len(self.out) > LIMIT:
            return
        if x not in self.defined:
            self.out.append(diagnostic("ID", f"nothing defines {x}", pointer, "the id of an earlier value"))
            return
        where, source = self.defined[x]
        if source is None and x not in self.values:
            hint = "the result of a load" if x in self.views else "the result of an extent operation"
            self.out.append(diagnostic("ID", f"{x} is a view or a symbol, not a value", pointer, hint))
        elif where != scope[: len(where)]:
            self.out.append(diagnostic("SCOPE", f"{x} belongs to a region that does not enclose this operation", pointer))
        elif source is not None and op is not None and self.reaches(source, op):
            self.out.append(diagnostic("CYCLE", f"{x} depends on the operation that uses it", pointer, "an earlier value"))
        elif source is None or len(visible) <= len(scope) and self.earlier(source, op):
            self.out.append(diagnostic("REGION", f"a closed region captures {x}", pointer, "its own arguments, values and constants"))
        else:
            self.out.append(diagnostic("ORDER", f"{x} is used before its definition", pointer, "the id of an earlier value"))

    def earlier(self, source: Op, user: Op | None) -> bool:
        """Whether `source` stands before the kernel-level operation that contains `user`."""
        tops = []
        for op in (source, user):
            while op is not None and id(op) in self.parents:
                op = self.parents[id(op)]
            tops.append(next((i for i, o in enumerate(self.owner.body) if o is op), len(self.owner.body)))
        return tops[0] <= tops[1]

    def reaches(self, source: Op, target: Op) -> bool:
        """Whether `source` depends on `target` (through operands, regions included)."""
        stack, seen = [source], {id(source)}
        while stack:
            op = stack.pop()
            if op is target:
                return True
            for x in _reads(op):
                nxt = self.defined.get(x, ((), None))[1]
                if nxt is not None and id(nxt) not in seen:
                    seen.add(id(nxt))
                    stack.append(nxt)
        return False


_LEVELS: tuple[Purity, ...] = ("pointwise", "pure", "read", "any")


def _strictest(a: Purity, b: Purity) -> Purity:
    return _LEVELS[min(_LEVELS.index(a), _LEVELS.index(b))]


def _reads(op: Op) -> Iterator[str]:
    yield from op.operands()
    for r in op.regions():
        yield from r.yields
        for inner in r.body:
            yield from _reads(inner)


def regions_of(body: tuple[Op, ...]) -> Iterator[Region]:
    """Every region below, outermost first."""
    for op in body:
        for r in op.regions():
            yield r
            yield from regions_of(r.body)
