"""Binding rows of the CPU family: five shared bindings, the block parameters that they own, and the fragments that cover an axis.

A row template (``targets/rows/mojo-cpu.json``) is chosen by axis roles (`eqkir.extract.roles`) and lists values of the five bindings:

``grain``   instances that a task has at least
``M``       block of the owned axis that is ``left`` of a contraction, else ``adjacent`` to the contiguous one
``N``       block of the owned axis that is contiguous, or ``right`` of a contraction
``K``       chunk of loops over contracted and reduced axes
``scan``    chunk of all other loops, and of slices

Values are lanes, or vectors of 32-bit lanes (``"4v"``). A template's rows have one set of ``implementations``, by name and of distinct
kinds: each structured operation needs exactly one member that applies. ``local`` binds the members' local parameters that rows own
(``"contract_loop.replicas": [1, 2]``). The cartesian product of a template's lists is taken (``outer`` lists values of M and N that
belong together), templates take turns up to the file's limit, equal rows are kept once.

Every parameter of a program has one owner (`owner_of`): one of the five; ``extent``, whose value follows from the extent of the axis
(``F``, and blocks of one of axes that no binding owns); or ``family``, which has one value on a machine (``G``, the height of a swizzle's
bands, and ``P``, the instances of a persistent segment).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from eqkir.base.diagnostics import EqkirError, fail, register
from eqkir.cpu.implementations import declarations
from eqkir.extract.extents import Extents, next_pow2
from eqkir.extract.roles import axis_roles
from eqkir.extract.rows import PARAMETERS, Row, matches
from eqkir.program.abi import Axis
from eqkir.program.abstract import Abstract
from eqkir.targets import row_templates
from eqkir.targets.cpu import CpuTarget

MALFORMED = register(
    "EQK-EXTRACT-ROW", "malformed binding row",
    "A row of the CPU family gives each of its five shared bindings (grain, M, N, K, scan) exactly one positive value, from one place of "
    "its template; each local parameter that rows own a value of its domain, where the row's set has the implementation, and no other; and "
    "names implementations of distinct kinds. At least one template must fit every program.",
)  # fmt: skip
SHARED = ("grain", "M", "N", "K", "scan")
FIELDS = (*SHARED, "name", "needs", "excludes", "outer", "local", "implementations")
#: height of the bands of a swizzle, and instances of a persistent segment a core
BAND, PROGRAMS = 8, 4


def owner(axis: Axis, roles: frozenset[str], left: bool) -> str:
    """The shared binding that owns an axis' block, or an empty text. `left`: whether some axis of the program is left of a contraction."""
    if axis.kind == "own":
        if roles & {"contiguous", "keyed"} or ("right" in roles and "batch" not in roles):
            return "N"
        return "M" if ("left" in roles if left else "adjacent" in roles) and "batch" not in roles else ""
    if axis.kind == "loop":
        return "K" if roles & {"contracted", "reduced", "folded"} else "scan"
    return "scan"


def owner_of(parameter: str, abstract: Abstract, roles: Mapping[str, frozenset[str]]) -> str:
    """The one owner of a parameter: one of `SHARED`, ``extent`` or ``family``."""
    letter, _, name = parameter.partition(":")
    if letter in ("G", "P"):
        return "family"
    axis = abstract.axis(name)
    return "extent" if letter == "F" else owner(axis, roles[name], _left(abstract, roles)) or "extent"


def _left(abstract: Abstract, roles: Mapping[str, frozenset[str]]) -> bool:
    return any("left" in roles[a.name] and a.kind == "own" and "contiguous" not in roles[a.name] for a in abstract.axes)


def cpu_rows(abstract: Abstract, target: CpuTarget, shapes: Mapping[str, int] | None = None) -> list[Row]:
    """The rows of a program on a CPU, deterministic, without duplicates; never empty. Raises EqkirError EQK-EXTRACT-ROW."""
    extents = Extents(abstract.abi, shapes)
    roles = axis_roles(abstract, extents)
    data = row_templates(target.rows)
    templates = checked(data, target)
    streams = [
        _rows(t, abstract, target, extents, roles)
        for t in templates
        if all(any(matches(s, r) for r in roles.values()) for s in t.get("needs", ()))
        and not any(matches(s, r) for s in t.get("excludes", ()) for r in roles.values())
    ]
    seen: dict[tuple[Any, Any], Row] = {}
    while streams and len(seen) < data["limit"]:
        for s in list(streams):
            row = next(s, None)
            if row is None:
                streams.remove(s)
            elif len(seen) < data["limit"]:
                seen.setdefault((row.bindings, (*row.options, (" ".join(row.implementations), 0))), row)
    if not seen:
        raise fail(MALFORMED, f"{target.rows}: no template fits this program", accepted="a template for every program", stage="extract")
    return list(seen.values())


def checked(data: Mapping[str, Any], target: CpuTarget) -> list[Mapping[str, Any]]:
    """The templates of a row file, each well formed. Raises EqkirError EQK-EXTRACT-ROW."""

    def bad(what: str, accepted: str = "") -> EqkirError:
        return fail(MALFORMED, f"{target.rows}: {what}", accepted=accepted, stage="extract")

    limit, templates = data.get("limit"), data.get("rows")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise bad(f"limit {limit!r}", "a positive number")
    if not isinstance(templates, list) or not templates or not all(isinstance(t, dict) for t in templates):
        raise bad("no rows", "a list of templates")
    for t in templates:
        if not isinstance(t.get("name"), str) or not isinstance(t.get("implementations"), list):
            raise bad("a template without a name or a set of implementations", "name, implementations")
        if unknown := sorted(set(t) - set(FIELDS)):
            raise bad(f"row {t['name']}: {unknown[0]!r} is nobody's", " ".join(FIELDS))
        implementation_set(t)
        if not list(shared_values(t, target)):
            raise bad(f"row {t['name']}: no value of some binding", "one for each of " + " ".join(SHARED))
        list(local_values(t))
    return templates


def local_values(template: Mapping[str, Any]) -> Iterator[tuple[tuple[str, int], ...]]:
    """Values of the local parameters that rows own, by ``implementation.parameter``. Raises EqkirError EQK-EXTRACT-ROW: for a binding with
    two owners, one without an owner, one that the set does not have, and a value outside its domain."""
    given = template.get("local", {})
    known = declarations()
    owned = {d.parameter(p.name): p for n in template["implementations"] for d in (known[n],) for p in d.parameters}

    def bad(what: str, accepted: str) -> EqkirError:
        return fail(MALFORMED, f"row {template['name']}: {what}", accepted=accepted, stage="extract")

    for name in given:
        if name in SHARED:
            raise bad(f"two owners of {name}", "shared bindings beside, not among the local ones")
        if name not in owned:
            raise bad(f"{name} is no local parameter of the set", " ".join(sorted(n for n, p in owned.items() if p.owner == "row")))
        if owned[name].owner != "row":
            raise bad(f"two owners of {name}: the row and the implementation", "no value in the row")
    lists = []
    for name, p in owned.items():
        if p.owner != "row":
            continue
        if name not in given:
            raise bad(f"no owner of {name}", f"one of {list(p.domain)}")
        values = given[name] if isinstance(given[name], list) else [given[name]]
        if not values or any(isinstance(v, bool) or v not in p.domain for v in values):
            raise bad(f"{name} = {given[name]}", f"of {list(p.domain)}")
        lists.append([(name, v) for v in values])
    yield from product(*lists)


def shared_values(template: Mapping[str, Any], target: CpuTarget) -> Iterator[dict[str, int]]:
    """The shared bindings of every row of a template. Raises EqkirError EQK-EXTRACT-ROW."""
    lists = {k: v if isinstance(v, list) else [v] for k, v in template.items() if k in SHARED}
    outers = template.get("outer", [{}])
    for v in (*(x for vs in lists.values() for x in vs), *(x for o in outers for x in o.values())):
        if not _positive(v):
            raise fail(MALFORMED, f"row {template['name']}: {v!r}", accepted='a positive number, or vectors: "4v"', stage="extract")
    for outer in outers:
        twice, missing = set(outer) & set(lists), set(SHARED) - set(outer) - set(lists)
        if twice or missing or set(outer) - set(SHARED):
            what = f"{'two owners of' if twice else 'no value of'} {' '.join(sorted(twice or missing or set(outer)))}"
            raise fail(MALFORMED, f"row {template['name']}: {what}", accepted="one value for each of " + " ".join(SHARED), stage="extract")
        for values in product(*lists.values()):
            yield {k: target.vectors(v) for k, v in {**outer, **dict(zip(lists, values, strict=True))}.items()}


def _positive(v: Any) -> bool:
    number = v.removesuffix("v") if isinstance(v, str) and v.endswith("v") else v
    if isinstance(number, str):
        return number.isascii() and number.isdigit() and int(number) > 0
    return isinstance(number, int) and not isinstance(number, bool) and number > 0


def implementation_set(template: Mapping[str, Any]) -> tuple[str, ...]:
    """The implementations of a template's rows. Raises EqkirError EQK-EXTRACT-ROW for an unknown one, and for two of one kind."""
    known, kinds = declarations(), dict[str, str]()
    for name in template["implementations"]:
        if name not in known:
            accepted = " ".join(sorted(known))
            raise fail(MALFORMED, f"row {template['name']}: no implementation {name}", accepted=accepted, stage="extract")
        other = kinds.setdefault(known[name].kind, name)
        if other != name:
            raise fail(MALFORMED, f"row {template['name']}: {other} and {name} are of one kind", accepted="one of a kind", stage="extract")
    return tuple(template["implementations"])


def _rows(
    template: Mapping[str, Any], abstract: Abstract, target: CpuTarget, extents: Extents, roles: Mapping[str, frozenset[str]]
) -> Iterator[Row]:
    names = implementation_set(template)
    left = _left(abstract, roles)
    for shared, local in product(list(shared_values(template, target)), list(local_values(template))):
        bindings: dict[str, int] = {}
        for a in abstract.axes:
            for letter in PARAMETERS.get(a.kind, ()):
                n = _cover(a, extents, target) if letter == "F" else shared.get(owner(a, roles[a.name], left), 1)
                bound = extents.bound(a.extent)
                if n is not None:
                    bindings[f"{letter}:{a.name}"] = n if letter == "F" or bound is None else min(n, next_pow2(bound))
        for i in range(sum(len(phase) for g in abstract.groups for phase in g.phases)):  # no more segments than puts
            bindings[f"G:g{i}"], bindings[f"P:g{i}"] = BAND, 1 << (PROGRAMS * target.cores).bit_length() - 1
        yield Row(tuple(sorted(bindings.items())), tuple(sorted((("grain", shared["grain"]), *local))), template["name"], names)


def _cover(axis: Axis, extents: Extents, target: CpuTarget) -> int | None:
    """Lanes of a fragment that covers a whole axis, where a bound is known and small enough."""
    bound = extents.bound(axis.extent)
    f = next_pow2(bound) if bound is not None else None
    return f if f is not None and f <= target.max_fragment_lanes else None
