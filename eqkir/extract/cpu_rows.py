"""Binding rows of the CPU family: five shared bindings, the block parameters that they own, and the fragments that cover an axis.

A row template (``targets/rows/mojo-cpu.json``) is chosen by axis roles (`eqkir.extract.roles`) and lists values of the five bindings:

``grain``   instances that a task has at least
``M``       block of the owned axis that is ``left`` of a contraction, else ``adjacent`` to the contiguous one
``N``       block of the owned axis that is contiguous, or ``right`` of a contraction
``K``       chunk of loops over contracted and reduced axes
``scan``    chunk of all other loops, and of slices

Every block parameter of a program is owned by exactly one of them; owned axes of another kind (batches) go one by one. Values are lanes, or
vectors of 32-bit lanes (``"4v"``). The rows of a template have one set of ``implementations``, by name and of distinct kinds: each
structured operation needs exactly one member that applies. The cartesian product of a template's lists is taken (``outer`` lists values
of M and N that belong together), templates take turns up to the file's limit, equal rows are kept once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from eqkir.base.diagnostics import fail, register
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
    "A row of the CPU family gives each of its five shared bindings (grain, M, N, K, scan) exactly one value, from one place of its "
    "template.",
)  # fmt: skip
SHARED = ("grain", "M", "N", "K", "scan")


def owner(axis: Axis, roles: frozenset[str], left: bool) -> str:
    """The shared binding that owns an axis' block, or an empty text. `left`: whether some axis of the program is left of a contraction."""
    if axis.kind == "own":
        if "contiguous" in roles or ("right" in roles and "batch" not in roles):
            return "N"
        return "M" if ("left" in roles if left else "adjacent" in roles) and "batch" not in roles else ""
    if axis.kind == "loop":
        return "K" if roles & {"contracted", "reduced", "folded"} else "scan"
    return "scan"


def cpu_rows(abstract: Abstract, target: CpuTarget, shapes: Mapping[str, int] | None = None) -> list[Row]:
    """The rows of a program on a CPU, deterministic, without duplicates; never empty. Raises EqkirError EQK-EXTRACT-ROW."""
    extents = Extents(abstract.abi, shapes)
    roles = axis_roles(abstract, extents)
    data = row_templates(target.rows)
    streams = [
        _rows(t, abstract, target, extents, roles)
        for t in data["rows"]
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
    return list(seen.values())


def shared_values(template: Mapping[str, Any], target: CpuTarget) -> Iterator[dict[str, int]]:
    """The shared bindings of every row of a template. Raises EqkirError EQK-EXTRACT-ROW."""
    lists = {k: v for k, v in template.items() if k in SHARED}
    for outer in template.get("outer", [{}]):
        twice, missing = set(outer) & set(lists), set(SHARED) - set(outer) - set(lists)
        if twice or missing or set(outer) - set(SHARED):
            what = f"{'two owners of' if twice else 'no value of'} {' '.join(sorted(twice or missing or set(outer)))}"
            raise fail(MALFORMED, f"row {template['name']}: {what}", accepted="one value for each of " + " ".join(SHARED), stage="extract")
        for values in product(*lists.values()):
            yield {k: target.vectors(v) for k, v in {**outer, **dict(zip(lists, values, strict=True))}.items()}


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
    left = any("left" in roles[a.name] and a.kind == "own" and "contiguous" not in roles[a.name] for a in abstract.axes)
    for shared in shared_values(template, target):
        bindings: dict[str, int] = {}
        for a in abstract.axes:
            for letter in PARAMETERS.get(a.kind, ()):
                n = _cover(a, extents, target) if letter == "F" else shared.get(owner(a, roles[a.name], left), 1)
                bound = extents.bound(a.extent)
                if n is not None:
                    bindings[f"{letter}:{a.name}"] = n if letter == "F" or bound is None else min(n, next_pow2(bound))
        for i in range(sum(len(phase) for g in abstract.groups for phase in g.phases)):  # no more segments than puts
            bindings[f"G:g{i}"], bindings[f"P:g{i}"] = 8, 1 << (4 * target.cores).bit_length() - 1
        yield Row(tuple(sorted(bindings.items())), (("grain", shared["grain"]),), template["name"], names)


def _cover(axis: Axis, extents: Extents, target: CpuTarget) -> int | None:
    """Lanes of a fragment that covers a whole axis, where a bound is known and small enough."""
    bound = extents.bound(axis.extent)
    f = next_pow2(bound) if bound is not None else None
    return f if f is not None and f <= target.max_fragment_lanes else None
