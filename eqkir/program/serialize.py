"""Programs as JSON: exact round trip, canonical bytes, digests. `from_json` accepts nothing that does not have the shape of a program.

Layout: ``{"program": 1, "stage", "abi", "axes", "segments", "bindings", "options", "preconditions", "specializations", "inner",
"origins"}``; an item is ``{"let": id, …}``, ``{"loop": axis, …}``, ``{"store": view, …}`` or ``{"barrier": true}``; expressions as in
`base.expr`; orders are nested lists.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

from eqkir.base import expr as E
from eqkir.base.dtypes import ALL
from eqkir.base.expr import Expr
from eqkir.program.abi import KINDS, Abi, Axis, ScalarParam, SymbolParam, ViewParam
from eqkir.program.decode_json import Reader
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Order, Program, Region, Segment, Store
from eqkir.program.ops import CARRIES, LETS, MEMORY_ORDERS, ORDERS, REGION_LETS, SCOPES, STAGES, STORE_MODES, OpSpec

VERSION = 1
ROLES = ("in", "out", "inout", "workspace")
ATOMIC = ("mode", "order", "shared", "into", "at", "scope")  # of a store; left out where empty
DEPTH = 64  # nesting of loops and orders


# ------------------------------------------------------------------------------------------------ out
def to_json(program: Program) -> dict[str, Any]:
    """The program as plain JSON data; `from_json` gives back an equal program."""
    abi = program.abi
    more = {k: list(v) for k in ("permissions", "implementations") if (v := getattr(program, k))}
    return {
        **more,
        "program": VERSION,
        "stage": program.stage,
        "abi": {
            "kernel": abi.kernel,
            "views": [
                {"name": v.name, "role": v.role, "dtype": v.dtype, "shape": [E.to_json(e) for e in v.shape], "alias": v.alias}
                | ({"owed": True} if v.owed else {})
                for v in abi.views
            ],
            "scalars": [{"name": s.name, "dtype": s.dtype} for s in abi.scalars],
            "symbols": [{"name": s.name, "lo": s.lo, "hi": s.hi, "multiple_of": s.multiple_of} for s in abi.symbols],
            "noalias": [list(g) for g in abi.noalias],
            "constexprs": [list(c) for c in abi.constexprs],
        },
        "axes": [{"name": a.name, "extent": E.to_json(a.extent), "kind": a.kind} for a in program.axes],
        "segments": [
            {"group": s.group, "order": _order(s.order), "mode": s.mode, "phases": [[_item(i) for i in ph] for ph in s.phases]}
            for s in program.segments
        ],
        "bindings": dict(sorted(program.bindings.items())),
        "options": dict(sorted(program.options.items())),
        "preconditions": [E.to_json(p) for p in program.preconditions],
        "inner": [[alias, version, list(axes)] for (alias, version), axes in sorted(program.inner.items())],
        "origins": dict(sorted(program.origins.items())),
        "specializations": [[label, E.to_json(p)] for label, p in program.specializations],
    }


def _order(t: Order) -> list[Any]:
    return [_order(x) if isinstance(x, tuple) else x for x in t]


def _attr(kind: str, a: Any) -> Any:
    if kind == "ix":
        return E.to_json(a)
    if kind == "ixs":
        return [E.to_json(e) for e in a]
    if kind == "region":
        return {"dtypes": list(a.dtypes), "body": [_let(x, REGION_LETS) for x in a.body], "yields": list(a.yields)}
    return a


def _head(x: Let | Carry, table: dict[str, OpSpec]) -> dict[str, Any]:
    attrs = [_attr(k, a) for k, a in zip(table[x.op].attrs, x.attrs, strict=True)]
    out = {"op": x.op, "attrs": attrs, "args": list(x.args), "dims": list(x.dims), "dtype": x.dtype}
    return {**out, "by": x.by} if x.by else out


def _let(x: Let, table: dict[str, OpSpec]) -> dict[str, Any]:
    return {"let": x.id, **_head(x, table)}


def _item(x: Item) -> dict[str, Any]:
    match x:
        case Let():
            return _let(x, LETS)
        case Loop():
            carries = [{"carry": c.id, **_head(c, CARRIES), "inits": list(c.inits)} for c in x.carries]
            body = [_item(i) for i in x.body]
            head = {"loop": x.axis, "label": x.label, "stage": x.stage, "stages": x.stages, "carries": carries, "body": body}
            more = {"while": x.cond, "lo": x.lo, "hi": x.hi, "on": x.on}
            return {**head, **{k: v for k, v in more.items() if v >= 0}}
        case Store():
            return {
                "store": x.view, "version": x.version, "ixs": [E.to_json(e) for e in x.ixs], "value": x.value, "valid": x.valid,
                "deps": list(x.deps), "dims": list(x.dims), "masked": x.masked, "mode": x.mode, **_sharing(x),
            }  # fmt: skip
        case Barrier():
            return {"barrier": True}


def _sharing(x: Store) -> dict[str, Any]:
    """What an atomic operation has besides."""
    out: dict[str, Any] = {"order": x.order, "shared": list(x.shared), "into": x.into, "at": [E.to_json(e) for e in x.at], "scope": x.scope}
    return {k: v for k, v in out.items() if v}


# ------------------------------------------------------------------------------------------------ in
def from_json(data: Any) -> Program:
    """Inverse of `to_json`. Raises EqkirError EQK-PRG-JSON, pointing at the part that has not the shape of a program."""
    try:
        return _program(Reader(data))
    except RecursionError:
        raise Reader(data).bad("is nested too deeply") from None


def _program(r: Reader) -> Program:
    optional = ("bindings", "options", "preconditions", "specializations", "inner", "origins", "permissions", "implementations")
    r.keys(("program", "stage", "abi", "axes", "segments", *optional), optional=optional)
    if r.at("program").integer() != VERSION:
        raise r.at("program").bad(f"is not version {VERSION}")
    return Program(
        abi=_abi(r.at("abi")),
        axes=tuple(_axis(x) for x in r.at("axes").items()),
        segments=tuple(_segment(x) for x in r.at("segments").items()),
        bindings={k: v.integer() for k, v in r.get("bindings", {}).entries()},
        options={k: v.integer() for k, v in r.get("options", {}).entries()},
        preconditions=tuple(x.expr() for x in r.get("preconditions", []).items()),
        stage=r.at("stage").one_of(STAGES),
        origins={k: v.text() for k, v in r.get("origins", {}).entries()},
        inner=dict(_inner(x) for x in r.get("inner", []).items()),
        specializations=tuple(_specialization(x) for x in r.get("specializations", []).items()),
        permissions=r.get("permissions", []).strs(),
        implementations=r.get("implementations", []).strs(),
    )


def _inner(r: Reader) -> tuple[tuple[int, int], tuple[str, ...]]:
    xs = r.items()
    if len(xs) != 3:
        raise r.bad("is not an alias class, a version and its loops")
    return (xs[0].integer(), xs[1].integer()), xs[2].strs()


def _specialization(r: Reader) -> tuple[str, Expr]:
    pair = r.items()
    if len(pair) != 2:
        raise r.bad("is not a label and a predicate")
    return pair[0].text(), pair[1].expr()


def _abi(r: Reader) -> Abi:
    r.keys(("kernel", "views", "scalars", "symbols", "noalias", "constexprs"), optional=("noalias", "constexprs"))
    views, scalars, symbols = [], [], []
    for v in r.at("views").items():
        v.keys(("name", "role", "dtype", "shape", "alias", "owed"), optional=("owed",))
        shape = tuple(e.expr() for e in v.at("shape").items())
        dtype, alias, owed = v.at("dtype").one_of(ALL), v.at("alias").integer(), v.get("owed", False).boolean()
        views.append(ViewParam(v.at("name").text(), v.at("role").one_of(ROLES), dtype, shape, alias, owed))
    for v in r.at("scalars").items():
        v.keys(("name", "dtype"))
        scalars.append(ScalarParam(v.at("name").text(), v.at("dtype").one_of(ALL)))
    for v in r.at("symbols").items():
        v.keys(("name", "lo", "hi", "multiple_of"), optional=("lo", "hi", "multiple_of"))
        hi = v.get("hi", None)
        top = None if hi.data is None else hi.integer()
        symbols.append(SymbolParam(v.at("name").text(), v.get("lo", 0).integer(), top, v.get("multiple_of", 1).integer()))
    pairs = []
    for c in r.get("constexprs", []).items():
        if len(c.strs()) != 2:
            raise c.bad("is not a pair of texts")
        pairs.append((c.strs()[0], c.strs()[1]))
    noalias = tuple(g.strs() for g in r.get("noalias", []).items())
    return Abi(r.at("kernel").text(), tuple(views), tuple(scalars), tuple(symbols), noalias, tuple(pairs))


def _axis(r: Reader) -> Axis:
    r.keys(("name", "extent", "kind"))
    return Axis(r.at("name").text(), r.at("extent").expr(), r.at("kind").one_of(tuple(KINDS)))


def _segment(r: Reader) -> Segment:
    r.keys(("group", "order", "mode", "phases"))
    phases = tuple(tuple(_read_item(i, 0) for i in ph.items()) for ph in r.at("phases").items())
    return Segment(r.at("group").text(), _read_order(r.at("order"), 0), r.at("mode").one_of(("grid", "stride")), phases)


def _read_order(r: Reader, depth: int) -> Order:
    xs = r.items()
    head = xs[0].one_of(tuple(ORDERS)) if xs else ""
    if depth > DEPTH:
        raise r.bad("is nested too deeply")
    if head == "TAx" and len(xs) == 2:
        return (head, xs[1].text())
    if head and head != "TAx" and len(xs) == ORDERS[head] + 1:
        return (head, *(_read_order(x, depth + 1) for x in xs[1:]))
    raise r.bad("is not an order")


def _read_attr(kind: str, r: Reader) -> Any:
    match kind:
        case "ix":
            return r.expr()
        case "ixs":
            return tuple(x.expr() for x in r.items())
        case "region":
            r.keys(("dtypes", "body", "yields"))
            body = tuple(_read_let(x, REGION_LETS) for x in r.at("body").items())
            return Region(tuple(x.one_of(ALL) for x in r.at("dtypes").items()), body, r.at("yields").ints())
        case "int" | "version":
            return r.integer()
        case "dtype":
            return r.one_of(ALL)
    return r.text()


def _read_head(r: Reader, table: dict[str, OpSpec]) -> tuple[str, tuple[Any, ...], tuple[int, ...]]:
    op = r.at("op").one_of(tuple(table))
    spec, attrs, args = table[op], r.at("attrs").items(), r.at("args").ints()
    if len(attrs) != len(spec.attrs):
        raise r.at("attrs").bad(f"has not the {len(spec.attrs)} attributes of {op}")
    if len(args) < spec.args[0] or (spec.args[1] is not None and len(args) > spec.args[1]):
        raise r.at("args").bad(f"has not the operands of {op}")
    return op, tuple(_read_attr(k, a) for k, a in zip(spec.attrs, attrs, strict=True)), args


def _dtype(r: Reader) -> str:
    return r.one_of((*ALL, "tuple"))


def _read_let(r: Reader, table: dict[str, OpSpec]) -> Let:
    r.keys(("let", "op", "attrs", "args", "dims", "dtype", "by"), optional=("by",))
    op, attrs, args = _read_head(r, table)
    return Let(r.at("let").integer(), op, attrs, args, r.at("dims").strs(), _dtype(r.at("dtype")), r.get("by", "").text())


def _read_carry(r: Reader) -> Carry:
    r.keys(("carry", "op", "attrs", "args", "inits", "dims", "dtype", "by"), optional=("by",))
    op, attrs, args = _read_head(r, CARRIES)
    dims, dtype = r.at("dims").strs(), _dtype(r.at("dtype"))
    return Carry(r.at("carry").integer(), op, attrs, args, r.at("inits").ints(), dims, dtype, r.get("by", "").text())


def _read_item(r: Reader, depth: int) -> Item:
    if depth > DEPTH:
        raise r.bad("is nested too deeply")
    if r.has("let"):
        return _read_let(r, LETS)
    if r.has("barrier"):
        r.keys(("barrier",))
        r.at("barrier").boolean()
        return Barrier()
    if r.has("store"):
        r.keys(("store", "version", "ixs", "value", "valid", "deps", "dims", "masked", *ATOMIC), optional=ATOMIC)
        ixs = tuple(x.expr() for x in r.at("ixs").items())
        return Store(
            r.at("store").text(), r.at("version").integer(), ixs, r.at("value").integer(), r.at("valid").integer(), r.at("deps").ints(),
            r.at("dims").strs(), r.at("masked").boolean(), r.get("mode", "store").one_of(STORE_MODES),
            r.get("order", "").one_of(("", *MEMORY_ORDERS)), r.get("shared", []).strs(), r.get("into", "").text(),
            tuple(e.expr() for e in r.get("at", []).items()), r.get("scope", "").one_of(("", *SCOPES)),
        )  # fmt: skip
    optional = ("while", "lo", "hi", "on")
    r.keys(("loop", "label", "stage", "stages", "carries", "body", *optional), optional=optional)
    carries = tuple(_read_carry(x) for x in r.at("carries").items())
    body = tuple(_read_item(x, depth + 1) for x in r.at("body").items())
    ends = [r.get(k, -1).integer() for k in optional]
    return Loop(r.at("loop").text(), r.at("label").text(), r.at("stage").integer(), carries, body, r.at("stages").integer(), *ends)


# ------------------------------------------------------------------------------------------------ bytes and digests
def dumps(program: Program) -> bytes:
    """Canonical bytes: sorted keys, no spaces, a newline at the end."""
    return json.dumps(to_json(program), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def loads(text: bytes | str) -> Program:
    """Inverse of `dumps`. Raises EqkirError EQK-PRG-JSON."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise Reader(None).bad(f"is not JSON: {type(e).__name__}") from None
    return from_json(data)


def digest(program: Program, erase_bindings: bool = False, strip_origins: bool = True) -> str:
    """SHA-256 (hex) of the canonical bytes, value ids renumbered in order of appearance.

    `erase_bindings`: the structure digest; values of parameters, launch options, pipelining depths and the preconditions that
    follow from them do not count.
    """
    p = renumbered(program)
    if erase_bindings:
        segments = tuple(replace(s, phases=tuple(tuple(_unstaged(i) for i in ph) for ph in s.phases)) for s in p.segments)
        p = replace(p, bindings=dict.fromkeys(p.bindings, 0), options={}, preconditions=(), specializations=(), segments=segments)
    if strip_origins:
        p = replace(p, origins={})
    return hashlib.sha256(dumps(p)).hexdigest()


def _unstaged(i: Item) -> Item:
    return replace(i, stages=1, body=tuple(_unstaged(x) for x in i.body)) if isinstance(i, Loop) else i


def renumbered(program: Program) -> Program:
    """The same program with value ids 0, 1, … in order of appearance, by phase; origins follow. Ids without definition get numbers too."""
    segments, origins = [], dict(program.origins)
    for g, s in enumerate(program.segments):
        phases = []
        for k, ph in enumerate(s.phases):
            ids: dict[int, int] = {}
            phases.append(tuple(_renumber(i, ids) for i in ph))
            for old in ids:
                origins.pop(f"{g}/{k}/{old}", None)
            for old, new in ids.items():
                text = program.origins.get(f"{g}/{k}/{old}")
                if text is not None:
                    origins[f"{g}/{k}/{new}"] = text
        segments.append(replace(s, phases=tuple(phases)))
    return replace(program, segments=tuple(segments), origins=origins)


def _renumber(i: Item, ids: dict[int, int]) -> Item:
    def n(old: int) -> int:
        return ids.setdefault(old, len(ids))

    def ns(xs: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(n(x) for x in xs)

    match i:
        case Let():
            return replace(i, args=ns(i.args), id=n(i.id), attrs=_attrs(i.attrs))
        case Store():
            return replace(i, value=n(i.value), valid=n(i.valid), deps=ns(i.deps))
        case Loop():
            lo, hi, on = (n(b) if b >= 0 else -1 for b in (i.lo, i.hi, i.on))
            inits = [ns(c.inits) for c in i.carries]
            phis = [n(c.id) if c.op == "Phi" else None for c in i.carries]
            body = tuple(_renumber(x, ids) for x in i.body)
            carries = tuple(
                replace(c, id=n(c.id) if p is None else p, inits=x, args=ns(c.args), attrs=_attrs(c.attrs))
                for c, x, p in zip(i.carries, inits, phis, strict=True)
            )
            return replace(i, carries=carries, body=body, cond=n(i.cond) if i.cond >= 0 else -1, lo=lo, hi=hi, on=on)
    return i


def _attrs(attrs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_region(a) if isinstance(a, Region) else a for a in attrs)


def _region(r: Region) -> Region:
    ids: dict[int, int] = {}
    body = tuple(_renumber(x, ids) for x in r.body)
    return Region(r.dtypes, tuple(x for x in body if isinstance(x, Let)), tuple(ids.setdefault(y, len(ids)) for y in r.yields))


__all__ = ["Expr", "digest", "dumps", "from_json", "loads", "renumbered", "to_json"]
