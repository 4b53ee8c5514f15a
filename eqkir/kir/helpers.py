"""Helpers: their types, what is wrong with them, and their inlining (`link`).

A helper means its body at the place of the call: coordinates, slices and effects keep their identity. After `link` no `call` is left, so
every later stage sees plain kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.base.expr import Sym
from eqkir.kir import ops
from eqkir.kir.extents import Extents
from eqkir.kir.model import Helper, Kernel, Module, Op, Region, Spec, Symbol
from eqkir.kir.scopes import Scopes, diagnostic, regions_of
from eqkir.kir.type_rules_control import foreign
from eqkir.kir.types import CONSTEXPR_DTYPE, Context, DomainType, HelperType, TensorType, TypeFault, infer_all
from eqkir.kir.values import extent_json

#: pointer of an operation -> the pointer of what it came from, and whether that is a call
Origin = dict[str, tuple[str, bool]]


def calls(body: tuple[Op, ...]) -> list[ops.Call]:
    """Every call in a body, nested regions included."""
    nested = (o for r in regions_of(body) for o in r.body)
    return [o for o in (*body, *nested) if isinstance(o, ops.Call)]


def ordered(helpers: Iterable[Helper]) -> tuple[list[Helper], list[Helper]]:
    """Helpers such that each comes after those that it calls, and those that call each other in a circle."""
    left = {h.name: h for h in helpers}
    out: list[Helper] = []
    while True:
        ready = [h for h in left.values() if not any(c.helper in left for c in calls(h.body))]
        if not ready:
            return out, list(left.values())
        out += ready
        for h in ready:
            del left[h.name]


@dataclass
class Library:
    """The helpers of a module: sound ones by name with their types, without calls in their bodies."""

    types: dict[str, HelperType] = field(default_factory=dict)
    plain: dict[str, Helper] = field(default_factory=dict)
    found: list[Diagnostic] = field(default_factory=list)


def library(helpers: tuple[Helper, ...]) -> Library:
    """Check and type the helpers of a module."""
    out = Library()
    place = {h.name: i for i, h in reversed(list(enumerate(helpers)))}
    for i, h in enumerate(helpers):
        if place[h.name] != i:
            out.found.append(diagnostic("NAME", f"two helpers are named {h.name}", f"/helpers/{i}/name", "a name of its own"))
    sound, circle = ordered(helpers[i] for i in place.values())
    for h in circle:
        out.found.append(diagnostic("RECURSION", f"{h.name} calls itself, if through others", f"/helpers/{place[h.name]}", "no recursion"))
    named = {h.name: h for h in helpers}
    for h in sound:
        at = f"/helpers/{place[h.name]}"
        wrong = Scopes(h, at, named).run()
        ctx = context(h, out.types)
        if not wrong:
            wrong = _infer(h, ctx, at)
        out.found += wrong
        if not wrong:
            views = tuple(ctx.resource(v.id, "") for v in h.views)
            results = tuple(ctx.types[y] for y in h.yields)
            out.types[h.name] = HelperType(h, tuple(ctx.types[a.id] for a in h.args), views, results)
            out.plain[h.name] = _Inliner(out.plain, ctx).helper(h)
    out.found.sort(key=lambda d: [int(t) if t.isdigit() else -1 for t in d.pointer.split("/")])
    return out


def context(h: Helper, types: dict[str, HelperType]) -> Context:
    """A context with the interface of the helper declared, but for its arguments."""
    ctx = Context(Extents([Symbol(id=s) for s in h.symbols]), helpers=types)
    ctx.names |= set(h.symbols)
    ctx.views.update({v.id: v for v in h.views})
    for c in h.constexprs:
        ctx.constexprs[c.id] = c
        ctx.types[c.id] = TensorType(CONSTEXPR_DTYPE[c.type])
        if c.type == "int":
            ctx.names.add(c.id)
    return ctx


def _infer(h: Helper, ctx: Context, at: str) -> list[Diagnostic]:
    """Type the helper's body in `ctx`; what is wrong."""
    try:
        for i, a in enumerate(h.args):
            ctx.types[a.id] = ctx.spec(a, a.id, f"args/{i}")
        fixed = {e for a in h.args for e in _extents(a)} | {e for v in h.views for e in v.shape}
        for i, s in enumerate(h.symbols):
            if s not in fixed:
                raise TypeFault("HELPER", f"no argument fixes the symbol {s}", f"symbols/{i}", "the extent of an argument")
        ctx.body(h.body, f"{at}/body")
        allowed = {*h.symbols, *(c.id for c in h.constexprs), *(a.id for a in h.args)}
        for i, y in enumerate(h.yields if not ctx.faults else ()):
            if isinstance(ctx.types[y], DomainType):
                raise TypeFault("HELPER", f"{y} is a domain", f"yields/{i}", "tensors and records")
            if names := foreign(ctx.value(y, f"yields/{i}"), allowed):
                raise TypeFault("HELPER", f"the extent {names[0]} of {y} is unknown to a caller", f"yields/{i}", "extents of the arguments")
    except TypeFault as fault:
        ctx.report(fault, at)
    return ctx.faults


def _extents(s: Spec) -> list[Any]:
    return [*s.shape, *(e for f in s.fields for e in _extents(f))]


# ------------------------------------------------------------------------------------------------ inlining
class _Inliner:
    """Replaces calls in one body. `ctx` typed that body; `plain` are helpers without calls."""

    def __init__(self, plain: Mapping[str, Helper], ctx: Context, taken: Iterable[str] = ()) -> None:
        self.plain, self.ctx = plain, ctx
        self.taken = set(taken) | set(ctx.types)
        self.names: dict[str, str] = {}  # results of calls -> what they are
        self.origin: Origin = {}
        self.n = 0

    def helper(self, h: Helper) -> Helper:
        body = self.body(h.body, "", "")
        return h.model_copy(update={"body": body, "yields": tuple(self.name(y) for y in h.yields)})

    def name(self, id: str) -> str:
        return self.names.get(id, id)

    def extent(self, e: Any) -> Any:
        return _renamed(e, self.name)

    def body(self, body: tuple[Op, ...], old: str, new: str) -> tuple[Op, ...]:
        out: list[Op] = []
        for i, op in enumerate(body):
            source = f"{old}/{i}"
            if isinstance(op, ops.Call):
                for o in self.expand(op):
                    self.trace(o, f"{new}/{len(out)}", source)
                    out.append(o)
                continue
            place = f"{new}/{len(out)}"
            self.origin[place] = source, False
            regions = {
                f: r.model_copy(update={
                    "args": tuple(_spec(a, self.extent) for a in r.args),
                    "body": self.body(r.body, f"{source}/{f}/body", f"{place}/{f}/body"), "yields": tuple(map(self.name, r.yields)),
                })
                for f, r in op.named_regions()
            }  # fmt: skip
            out.append(_rewritten(op, self.name, self.extent, regions))
        return tuple(out)

    def trace(self, op: Op, place: str, source: str) -> None:
        """All of an inlined operation came from its call."""
        self.origin[place] = source, True
        for f, r in op.named_regions():
            for i, o in enumerate(r.body):
                self.trace(o, f"{place}/{f}/body/{i}", source)

    def expand(self, call: ops.Call) -> list[Op]:
        h, env = self.plain[call.helper], self.ctx.bindings[id(call)]
        while any(t.startswith(f"{h.name}.{self.n}.") for t in self.taken):
            self.n += 1
        prefix = f"{h.name}.{self.n}."
        self.n += 1
        known = {a.id: self.name(x) for a, x in zip(h.args, call.args, strict=True)}
        known |= {v.id: self.name(x) for v, x in zip(h.views, call.views, strict=True)}
        known |= {c.id: c.id for c in h.constexprs}

        domains = {a.id for a in h.args if a.dtype == "domain"}

        def name(id: str) -> str:
            return known.get(id) or prefix + id

        def symbol(id: str) -> Any:
            given = id in h.symbols or id.rpartition(".")[0] in domains
            return self.extent(extent_json(env[Sym(id)])) if given and Sym(id) in env else name(id)

        def extent(e: Any) -> Any:
            return _renamed(e, symbol)

        def regions(op: Op) -> dict[str, Region]:
            return {
                f: r.model_copy(update={
                    "args": tuple(_spec(a, extent).model_copy(update={"id": name(a.id)}) for a in r.args),
                    "body": tuple(copy(o) for o in r.body), "yields": tuple(map(name, r.yields)),
                })
                for f, r in op.named_regions()
            }  # fmt: skip

        def copy(op: Op) -> Op:
            return _rewritten(op, name, extent, regions(op)).model_copy(update={"results": tuple(map(name, op.results))})

        body = [copy(o) for o in h.body]
        self.names.update(zip(call.results, (name(y) for y in h.yields), strict=True))
        return body


def _renamed(e: Any, name: Any) -> Any:
    if isinstance(e, (list, tuple)):
        return [e[0], *(_renamed(x, name) for x in e[1:])]
    return name(e) if isinstance(e, str) else e


def _spec(s: Any, extent: Any) -> Any:
    fields = tuple(_spec(f, extent) for f in s.fields)
    return s.model_copy(update={"shape": tuple(map(extent, s.shape)), "fields": fields})


def _rewritten(op: Op, name: Any, extent: Any, regions: dict[str, Region]) -> Op:
    update: dict[str, Any] = dict(regions)
    for f in (*op.operand_fields, *op.resource_fields):
        v = getattr(op, f)
        update[f] = v if v is None else name(v) if isinstance(v, str) else tuple(map(name, v))
    for f in op.extent_fields:
        v = getattr(op, f)
        update[f] = tuple(map(extent, v)) if isinstance(v, tuple) else extent(v)
    return op.model_copy(update=update)


def inline(kernel: Kernel, lib: Library, ctx: Context | None = None) -> tuple[Kernel, Origin]:
    """The kernel without calls, and for each operation's pointer (relative to the kernel) the pointer that it came from.

    `ctx` is the kernel's, when it was typed before. Raises EqkirError when it has no types.
    """
    if not calls(kernel.body):
        return kernel, {}
    if ctx is None:
        ctx, faults = infer_all(kernel, helpers=lib.types)
        if faults:
            raise EqkirError(*faults)
    x = _Inliner(lib.plain, ctx, [p.id for p in kernel.params])
    return kernel.model_copy(update={"body": x.body(kernel.body, "/body", "/body")}), x.origin


def link(module: Module) -> Module:
    """The module with every call inlined and no helpers. Raises EqkirError when it is unsound."""
    lib = library(module.helpers)
    if lib.found:
        raise EqkirError(*lib.found)
    return module.model_copy(update={"kernels": tuple(inline(k, lib)[0] for k in module.kernels), "helpers": ()})


__all__ = ["Library", "Origin", "calls", "inline", "library", "link"]
