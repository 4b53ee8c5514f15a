"""The verifier of KIR: what a module must satisfy before anything is built from it. It changes nothing.

`verify` returns every diagnosis; `check` raises them and returns the types. Order: interface, scoping, types, effects
(`kir.effects`). A value with an error is not followed further, so one mistake gives one message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.kir.codes import CODES, STAGE
from eqkir.kir.effects import check_effects
from eqkir.kir.model import Constexpr, Kernel, Module, Op, View
from eqkir.kir.types import Type, infer_all

LIMIT = 20  # diagnostics reported at once


class Locator(Protocol):
    """Where a JSON pointer stands (`kir.positions`)."""

    def locate(self, pointer: str) -> tuple[str | None, int | None]: ...


def diagnostic(key: str, message: str, pointer: str, accepted: str = "") -> Diagnostic:
    """A diagnostic of this stage."""
    return Diagnostic(CODES[key], message, pointer, accepted=accepted, stage=STAGE)


# ------------------------------------------------------------------------------------------------ interface
def _interface(k: Kernel, at: str) -> Iterator[Diagnostic]:
    for i, s in enumerate(k.symbols):
        low = -(-s.min // s.multiple_of) * s.multiple_of
        if s.max is not None and low > s.max:
            yield diagnostic("SYMBOL", f"no multiple of {s.multiple_of} lies in {s.min}..{s.max}", f"{at}/symbols/{i}", "min <= max")
        if max(s.min, s.multiple_of, s.max or 0) >= 1 << 63:
            yield diagnostic("SYMBOL", "an extent beyond 64 bits", f"{at}/symbols/{i}", "less than 2^63")
    names = {s.id for s in k.symbols}
    for i, pair in enumerate(k.equal):
        for j, name in enumerate(pair):
            if name not in names:
                yield diagnostic("SYMBOL", f"unknown symbol {name}", f"{at}/equal/{i}/{j}", " ".join(sorted(names)))
    ints = {p.id for p in k.params if isinstance(p, Constexpr) and p.type == "int"}
    for i, p in enumerate(k.params):
        if isinstance(p, View):
            for j, e in enumerate(p.shape):
                if isinstance(e, str) and e not in names | ints:
                    yield diagnostic("SYMBOL", f"unknown symbol {e}", f"{at}/params/{i}/shape/{j}", " ".join(sorted(names | ints)))
        elif isinstance(p, Constexpr):
            yield from _constexpr(p, f"{at}/params/{i}")
    views = [p.id for p in k.params if isinstance(p, View)]
    for i, group in enumerate(k.noalias):
        for j, v in enumerate(group):
            if v not in views:
                yield diagnostic("VIEW", f"noalias names {v}, which is no view", f"{at}/noalias/{i}/{j}", " ".join(views))
            elif v in group[:j]:
                yield diagnostic("NOALIAS", f"{v} stands twice in one set", f"{at}/noalias/{i}/{j}", "each view once")
        if len(group) < 2:
            yield diagnostic("NOALIAS", "a set of fewer than two views says nothing", f"{at}/noalias/{i}", "two views or more")


def _constexpr(p: Constexpr, at: str) -> Iterator[Diagnostic]:
    d = p.default
    fits = {
        "bool": isinstance(d, bool),
        "int": isinstance(d, int) and not isinstance(d, bool) and abs(d) < 1 << 63,
        "float": isinstance(d, (int, float)) and not isinstance(d, bool) or d in ("nan", "inf", "-inf"),
        "enum": isinstance(d, str),
    }[p.type]
    if not fits:
        yield diagnostic("CONSTEXPR", f"the default of {p.id} is no {p.type}", f"{at}/default", p.type)
    if p.type == "enum" and (d not in p.choices or len(set(p.choices)) < len(p.choices)):
        yield diagnostic("CONSTEXPR", f"{p.id}: the default {d!r} must be one of distinct choices", f"{at}/choices", "distinct choices")
    if p.type != "enum" and p.choices:
        yield diagnostic("CONSTEXPR", f"{p.id} is no enum", f"{at}/choices", "choices for an enum only")


# ------------------------------------------------------------------------------------------------ scoping
@dataclass
class _Scopes:
    """Which ids are visible where. A scope is the tuple of pointers of the enclosing regions."""

    kernel: Kernel
    at: str
    out: list[Diagnostic] = field(default_factory=list)
    defined: dict[str, tuple[tuple[str, ...], Op | None]] = field(default_factory=dict)
    parents: dict[int, Op] = field(default_factory=dict)  # op (by id) -> the op whose region holds it

    def run(self) -> list[Diagnostic]:
        k = self.kernel
        for kind, items in (("symbols", k.symbols), ("params", k.params)):
            for i, p in enumerate(items):
                self.define(p.id, (), None, f"{self.at}/{kind}/{i}/id")
        self.collect(k.body, (), f"{self.at}/body", None)
        values = {p.id for p in k.params if not isinstance(p, View)}
        self.walk(k.body, (), f"{self.at}/body", [values])
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
            for name, region in _regions(op):
                inner = (*scope, f"{at}/{i}/{name}")
                for j, a in enumerate(region.args):
                    self.define(a.id, inner, op, f"{at}/{i}/{name}/args/{j}/id")
                self.collect(region.body, inner, f"{at}/{i}/{name}/body", op)

    def walk(self, body: tuple[Op, ...], scope: tuple[str, ...], at: str, visible: list[set[str]]) -> None:
        for i, op in enumerate(body):
            for f in op.operand_fields:
                v = getattr(op, f)
                for j, x in enumerate(() if v is None else (v,) if isinstance(v, str) else v):
                    self.use(x, op, scope, f"{at}/{i}/{f}" + ("" if isinstance(v, str) else f"/{j}"), visible)
            for name, region in _regions(op):
                inner = (*scope, f"{at}/{i}/{name}")
                outer: list[set[str]] = [] if op.closed_regions else visible
                seen = [*outer, {a.id for a in region.args}]
                if op.closed_regions:
                    self.pure(region.body, f"{at}/{i}/{name}/body")
                self.walk(region.body, inner, f"{at}/{i}/{name}/body", seen)
                for j, y in enumerate(region.yields):
                    self.use(y, op, inner, f"{at}/{i}/{name}/yields/{j}", seen)
            visible[-1].update(op.results)

    def pure(self, body: tuple[Op, ...], at: str) -> None:
        for i, op in enumerate(body):
            if not op.pointwise:
                self.out.append(diagnostic("REGION", f"{op.op} in a combine region", f"{at}/{i}", "pointwise operations"))

    def use(self, x: str, op: Op, scope: tuple[str, ...], pointer: str, visible: list[set[str]]) -> None:
        if any(x in v for v in visible) or len(self.out) > LIMIT:
            return
        if x not in self.defined:
            self.out.append(diagnostic("ID", f"nothing defines {x}", pointer, "the id of an earlier value"))
            return
        where, source = self.defined[x]
        if source is None and x not in {p.id for p in self.kernel.params if not isinstance(p, View)}:
            hint = "the result of a load" if any(p.id == x for p in self.kernel.params) else "the result of an extent operation"
            self.out.append(diagnostic("ID", f"{x} is a view or a symbol, not a value", pointer, hint))
        elif where != scope[: len(where)]:
            self.out.append(diagnostic("SCOPE", f"{x} belongs to a region that does not enclose this operation", pointer))
        elif source is not None and self.reaches(source, op):
            self.out.append(diagnostic("CYCLE", f"{x} depends on the operation that uses it", pointer, "an earlier value"))
        elif source is None or len(visible) <= len(scope) and self.earlier(source, op):
            self.out.append(diagnostic("REGION", f"a combine region captures {x}", pointer, "its own arguments, values and constants"))
        else:
            self.out.append(diagnostic("ORDER", f"{x} is used before its definition", pointer, "the id of an earlier value"))

    def earlier(self, source: Op, user: Op) -> bool:
        """Whether `source` stands before the kernel-level operation that contains `user`."""
        tops = []
        for op in (source, user):
            while id(op) in self.parents:
                op = self.parents[id(op)]
            tops.append(next(i for i, o in enumerate(self.kernel.body) if o is op))
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


def _regions(op: Op) -> Iterator[tuple[str, Any]]:
    """(field, region) of an operation."""
    regions = op.regions()
    for name in type(op).model_fields:
        value = getattr(op, name)
        if any(value is r for r in regions):
            yield name, value


def _reads(op: Op) -> Iterator[str]:
    yield from op.operands()
    for r in op.regions():
        yield from r.yields
        for inner in r.body:
            yield from _reads(inner)


# ------------------------------------------------------------------------------------------------ the whole
def _verify(k: Kernel, at: str) -> tuple[list[Diagnostic], dict[str, Type]]:
    out = [*_interface(k, at), *_Scopes(k, at).run()]
    broken = bool(out)
    if any(d.code in (CODES["NAME"], CODES["CYCLE"]) for d in out):
        return out, {}
    try:
        ctx, faults = infer_all(k, at)
    except RecursionError:
        return [*out, diagnostic("DEPTH", "regions nest too deeply", at)], {}
    seen = {(d.pointer, d.code) for d in out}
    out += [d for d in faults if (d.pointer, d.code) not in seen]
    if not broken and not faults:
        out += check_effects(k, ctx, at)
    return out, ctx.types


def _locate(root: Any, prefix: str, d: Diagnostic, positions: Locator | None) -> Diagnostic:
    """With the file and line of the JSON, or else of the author's statement; `root` stands at `prefix`."""
    if positions is not None:
        file, line = positions.locate(d.pointer)
        return replace(d, file=file, line=line)
    at, loc = root, getattr(root, "loc", None)
    for part in d.pointer.removeprefix(prefix).split("/")[1:]:
        at = at[int(part)] if isinstance(at, tuple) and part.isdigit() and int(part) < len(at) else getattr(at, part, None)
        loc = getattr(at, "loc", None) or loc
    return replace(d, file=loc.file, line=loc.line) if loc else d


def verify_kernel(k: Kernel, index: int = 0, positions: Locator | None = None) -> tuple[list[Diagnostic], dict[str, Type]]:
    """What is wrong with one kernel, which stands at ``/kernels/index``, and the types of the values that have one."""
    at = f"/kernels/{index}"
    found, types = _verify(k, at)
    return [_locate(k, at, d, positions) for d in found], types


def check_kernel(k: Kernel, index: int = 0, positions: Locator | None = None) -> dict[str, Type]:
    """The types of all values of one kernel by id. Raises EqkirError with the first diagnostics when it is unsound."""
    found, types = verify_kernel(k, index, positions)
    if found:
        raise EqkirError(*found[:LIMIT])
    return types


def _run(module: Module, positions: Locator | None) -> tuple[list[Diagnostic], dict[str, dict[str, Type]]]:
    out: list[Diagnostic] = []
    types: dict[str, dict[str, Type]] = {}
    for i, k in enumerate(module.kernels):
        if k.name in types:
            d = diagnostic("NAME", f"two kernels are named {k.name}", f"/kernels/{i}/name", "a name of its own")
            out.append(_locate(module, "", d, positions))
        found, types[k.name] = verify_kernel(k, i, positions)
        out += found
    return out, types


def verify(module: Module, positions: Locator | None = None) -> list[Diagnostic]:
    """Everything that is wrong with the module, in order; empty when it is sound."""
    return _run(module, positions)[0]


def check(module: Module, positions: Locator | None = None) -> dict[str, dict[str, Type]]:
    """The types of all values by kernel name and id. Raises EqkirError with the first diagnostics when the module is unsound."""
    found, types = _run(module, positions)
    if found:
        raise EqkirError(*found[:LIMIT])
    return types
