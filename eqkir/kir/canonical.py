"""Canonical JSON of KIR: one text a meaning-preserving spelling, and its digest.

Values are renamed v0, v1, … in order of definition (parameters and symbols keep their names), keys follow the schema's order,
defaults are left out, constants are rounded to their dtype. `canonical` also drops `loc`; `dumps` keeps it and puts one
operation on a line.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from eqkir.kir.model import Frozen, Helper, Kernel, Module, Op, Region, Spec
from eqkir.kir.ops import Constant
from eqkir.kir.type_rules import constant_value
from eqkir.kir.values import number

_KEEP = ("op", "kind", "kir", "name")


class _Names:
    """The new id of every value."""

    def __init__(self, x: Kernel | Helper) -> None:
        if isinstance(x, Kernel):
            self.taken = {p.id for p in x.params} | {s.id for s in x.symbols}
        else:
            self.taken = {p.id for p in x.constexprs} | {p.id for p in x.views} | set(x.symbols)
        self.ids: dict[str, str] = {}
        self.n = 0
        for a in x.args if isinstance(x, Helper) else ():
            self.add(a.id)
        self.body(x.body)

    def body(self, ops: tuple[Op, ...]) -> None:
        for op in ops:
            for r in op.regions():
                for a in r.args:
                    self.add(a.id)
                self.body(r.body)
            for x in op.results:
                self.add(x)

    def add(self, id: str) -> None:
        while f"v{self.n}" in self.taken:
            self.n += 1
        self.ids[id] = f"v{self.n}"
        self.n += 1

    def __call__(self, id: str) -> str:
        return self.ids.get(id, id)

    def extent(self, e: Any) -> Any:
        """An extent with its names renewed; an operator is no name."""
        if isinstance(e, (list, tuple)):
            return [e[0], *map(self.extent, e[1:])]
        if not isinstance(e, str) or e in self.ids:
            return self(e)
        base, dot, bound = e.rpartition(".")  # a bound of a domain
        return f"{self(base)}{dot}{bound}"


def _plain(x: Any) -> Any:
    """Data without models, tuples or names to rewrite."""
    if isinstance(x, (tuple, list)):
        return [_plain(y) for y in x]
    return _fields(x, {}) if isinstance(x, Frozen) else x


def _fields(m: Any, special: dict[str, Any], loc: bool = False) -> dict[str, Any]:
    """The fields of a model in order, defaults left out, `loc` last; `special` holds fields already converted."""
    out: dict[str, Any] = {}
    for name, info in type(m).model_fields.items():
        value = getattr(m, name)
        if name == "loc" or (name not in _KEEP and not info.is_required() and value == info.default and type(value) is type(info.default)):
            continue
        out[name] = special[name] if name in special else _plain(value)
    if loc and getattr(m, "loc", None) is not None:
        out["loc"] = {"file": m.loc.file, "line": m.loc.line}
    return out


def _spec(s: Spec, names: _Names) -> dict[str, Any]:
    """The type of an argument or field, its id or name first."""
    out: dict[str, Any] = {k: names(v) if k == "id" else v for k in ("id", "name") if (v := getattr(s, k, None)) is not None}
    out["dtype"] = s.dtype
    if s.shape:
        out["shape"] = [names.extent(e) for e in s.shape]
    if s.fields:
        out["fields"] = [_spec(f, names) for f in s.fields]
    return out


def _region(r: Region, names: _Names, loc: bool) -> dict[str, Any]:
    args = [_spec(a, names) for a in r.args]
    special = {"args": args, "body": [_op(o, names, loc) for o in r.body], "yields": [names(y) for y in r.yields]}
    return _fields(r, special)


def _op(op: Op, names: _Names, loc: bool) -> dict[str, Any]:
    special: dict[str, Any] = {"results": [names(x) for x in op.results]}
    for f in (*op.operand_fields, *op.resource_fields):
        v = getattr(op, f)
        special[f] = v if v is None else names(v) if isinstance(v, str) else [names(x) for x in v]
    for f in op.extent_fields:
        v = getattr(op, f)
        several = isinstance(v, tuple)  # a shape; one extent is an int, a name or a list
        special[f] = [names.extent(e) for e in v] if several else names.extent(v)
    for f, r in op.named_regions():
        special[f] = _region(r, names, loc)
    if isinstance(op, Constant):
        special["value"] = number(constant_value(op.value, op.dtype), op.dtype)
    return _fields(op, special, loc)


def to_json(x: Module | Kernel, loc: bool = False) -> dict[str, Any]:
    """The canonical data of a verified module or kernel (`loc`: with source locations)."""
    if isinstance(x, Module):
        kernels = [to_json(k, loc) for k in x.kernels]
        return _fields(x, {"helpers": [_helper(h, loc) for h in x.helpers], "kernels": kernels})
    names = _Names(x)
    params = [_fields(p, {}) for p in x.params]
    body = [_op(o, names, loc) for o in x.body]
    return _fields(x, {"params": params, "symbols": [_fields(s, {}) for s in x.symbols], "body": body}, loc)


def _helper(h: Helper, loc: bool) -> dict[str, Any]:
    names = _Names(h)
    args, body = [_spec(a, names) for a in h.args], [_op(o, names, loc) for o in h.body]
    special = {"args": args, "body": body, "yields": [names(y) for y in h.yields]}
    return _fields(h, special, loc)


def canonical(x: Module | Kernel) -> bytes:
    """Canonical JSON in UTF-8: no whitespace, no `loc`. Raises ValueError for a constant that its dtype cannot hold."""
    return json.dumps(to_json(x), separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


def digest(x: Module | Kernel) -> str:
    """sha256 of `canonical`, in hexadecimal."""
    return hashlib.sha256(canonical(x)).hexdigest()


def dumps(module: Module) -> str:
    """Readable JSON with `loc`: one operation, parameter or symbol on a line."""
    return _pretty(to_json(module, loc=True), 0) + "\n"


def _pretty(x: Any, depth: int) -> str:
    flat = json.dumps(x, allow_nan=False, ensure_ascii=False)
    nested = isinstance(x, (dict, list)) and (depth < 4 or '"body"' in flat or (isinstance(x, list) and '"op"' in flat))
    if not nested or len(flat) <= 60:
        return flat
    pad, end = "\n" + "  " * (depth + 1), "\n" + "  " * depth
    if isinstance(x, list):
        return "[" + pad + ("," + pad).join(_pretty(y, depth + 1) for y in x) + end + "]"
    return "{" + pad + ("," + pad).join(f"{json.dumps(k)}: {_pretty(y, depth + 1)}" for k, y in x.items()) + end + "}"


def schema() -> dict[str, Any]:
    """JSON Schema of a module."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Module.model_json_schema()}
