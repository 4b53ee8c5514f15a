"""The verifier of KIR: what a module must satisfy before anything is built from it. It changes nothing.

`verify` returns every diagnosis; `check` raises them and returns the types. Order: interface, scoping, types, effects
(`kir.effects`). A value with an error is not followed further, so one mistake gives one message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.kir.codes import CODES
from eqkir.kir.effects import check_effects
from eqkir.kir.helpers import Library, Origin, calls, inline, library
from eqkir.kir.model import Constexpr, Kernel, Module, View
from eqkir.kir.scopes import LIMIT, Scopes, diagnostic
from eqkir.kir.types import Type, infer_all


class Locator(Protocol):
    """Where a JSON pointer stands (`kir.positions`)."""

    def locate(self, pointer: str) -> tuple[str | None, int | None]: ...


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


# ------------------------------------------------------------------------------------------------ the whole
def _verify(k: Kernel, at: str, lib: Library) -> tuple[list[Diagnostic], dict[str, Type]]:
    named = {h.helper.name: h.helper for h in lib.types.values()}
    out = [*_interface(k, at), *Scopes(k, at, named).run()]
    broken = bool(out)
    if any(d.code in (CODES["NAME"], CODES["CYCLE"]) for d in out):
        return out, {}
    try:
        ctx, faults = infer_all(k, at, lib.types)
    except RecursionError:
        return [*out, diagnostic("DEPTH", "regions nest too deeply", at)], {}
    seen = {d.pointer for d in out}
    out += [d for d in faults if d.pointer not in seen]
    if not broken and not faults:
        plain, origin = inline(k, lib, ctx)
        inner = ctx if plain is k else infer_all(plain)[0]
        out += [_original(d, at, origin) for d in check_effects(plain, inner, at)]
    return out, ctx.types


def _original(d: Diagnostic, at: str, origin: Origin) -> Diagnostic:
    """A diagnosis on an inlined kernel in terms of the kernel as written: what a helper does is said at its call."""
    head = pointer = d.pointer.removeprefix(at)
    while origin and head and head not in origin:
        head = head.rpartition("/")[0]
    if not origin or not head:
        return d
    source, called = origin[head]
    return replace(d, pointer=at + source + ("" if called else pointer[len(head) :]))


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


def verify_kernel(
    k: Kernel, index: int = 0, positions: Locator | None = None, helpers: Library | None = None
) -> tuple[list[Diagnostic], dict[str, Type]]:
    """What is wrong with one kernel, which stands at ``/kernels/index``, and the types of the values that have one.

    `helpers` are those of its module (`kir.helpers.library`).
    """
    at = f"/kernels/{index}"
    found, types = _verify(k, at, helpers or Library())
    return [_locate(k, at, d, positions) for d in found], types


def check_kernel(k: Kernel, index: int = 0, positions: Locator | None = None, helpers: Library | None = None) -> dict[str, Type]:
    """The types of all values of one kernel by id. Raises EqkirError with the first diagnostics when it is unsound."""
    found, types = verify_kernel(k, index, positions, helpers)
    if found:
        raise EqkirError(*found[:LIMIT])
    return types


def verify_helpers(module: Module, positions: Locator | None = None) -> tuple[Library, list[Diagnostic]]:
    """The helpers of a module, and what is wrong with them."""
    lib = library(module.helpers)
    return lib, [_locate(module, "", d, positions) for d in lib.found]


def _run(module: Module, positions: Locator | None) -> tuple[list[Diagnostic], dict[str, dict[str, Type]]]:
    lib, out = verify_helpers(module, positions)
    broken = {h.name for h in module.helpers} - set(lib.types)
    types: dict[str, dict[str, Type]] = {}
    for i, k in enumerate(module.kernels):
        if k.name in types:
            d = diagnostic("NAME", f"two kernels are named {k.name}", f"/kernels/{i}/name", "a name of its own")
            out.append(_locate(module, "", d, positions))
        if any(c.helper in broken for c in calls(k.body)):  # said at the helper
            types[k.name] = {}
            continue
        found, types[k.name] = verify_kernel(k, i, positions, lib)
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
