"""Binding rows: one value for every physical parameter of a program, and the provider's launch options. They come from data files.

A template (``targets/rows/*.json``) speaks of axis roles (`eqkir.extract.roles`) and never of kernels or operations:

``needs`` / ``excludes``   selectors that must / must not match an axis of the program
``grid``                   setting -> list of values; the cartesian product is taken
``variants``               list of settings that belong together
``set``                    settings common to the template

A *setting* is ``B:<selector>`` (owned block), ``C:<selector>`` (chunk), ``F:<selector>`` (always ``"cover"``: the smallest power of two
that covers the extent, where a bound is known), ``G`` (band of a swizzle), ``P`` (programs in stride mode, in multiples of the machine's
multiprocessors, rounded down to a power of two), ``num_warps`` or ``num_stages``. A *selector* is a conjunction of roles joined by ``&``,
each possibly negated with ``!``. For one parameter the first matching setting counts, in the order variant, grid, set, file defaults.
Blocks and chunks are clipped to the next power of two of a known extent, but not below the dot minimum of a contraction's axis. Equal
rows are kept once; templates take turns until the file's `limit`. All values are powers of two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from eqkir.extract.extents import Extents, next_pow2
from eqkir.extract.roles import axis_roles
from eqkir.program.abi import Axis
from eqkir.program.abstract import Abstract
from eqkir.targets import Target, row_templates

#: kind of axis -> letters of its parameters (members of a slice share those of their seg axis)
PARAMETERS = {"own": ("B",), "loop": ("C", "F"), "seg": ("C", "F")}


@dataclass(frozen=True, slots=True)
class Row:
    """`bindings`: parameter -> value (``B:i0``, ``C:c``, ``F:c``, ``G:<segment>``, ``P:<segment>``; segments are g0, g1, …); `options`:
    launch options. Sorted."""

    bindings: tuple[tuple[str, int], ...]
    options: tuple[tuple[str, int], ...]
    template: str
    implementations: tuple[str, ...] = ()  # CPU family: names of those that expand structured operations, one of each kind

    @property
    def values(self) -> dict[str, int]:
        return dict(self.bindings)

    @property
    def launch(self) -> dict[str, int]:
        return dict(self.options)

    @property
    def warps(self) -> int:
        """Warps of one program."""
        return self.launch.get("num_warps", 1)

    def __str__(self) -> str:
        return " ".join(f"{k}={v}" for k, v in (*self.bindings, *self.options))


def matches(selector: str, roles: frozenset[str]) -> bool:
    """Whether every literal of the conjunction holds."""
    return all((r[1:] not in roles) if r.startswith("!") else r in roles for r in selector.split("&"))


def binding_rows(abstract: Abstract, target: Target, shapes: Mapping[str, int] | None = None) -> list[Row]:
    """The rows of a program on a target, deterministic, without duplicates; never empty.

    `shapes` pins extent symbols; a fragment parameter ``F`` exists only where a bound of its extent is known.
    """
    extents = Extents(abstract.abi, shapes)
    roles = axis_roles(abstract, extents)
    data = row_templates(target.rows)
    minima = _dot_minima(abstract, target)
    streams = [
        _rows_of(t, data["defaults"], abstract, target, extents, roles, minima)
        for t in data["templates"]
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
                seen.setdefault((row.bindings, row.options), row)
    return list(seen.values())


def _rows_of(
    t: Mapping[str, Any], defaults: Mapping[str, Any], abstract: Abstract, target: Target, extents: Extents,
    roles: Mapping[str, frozenset[str]], minima: Mapping[str, int],
) -> Iterator[Row]:  # fmt: skip
    grid = t.get("grid", {})
    for variant in t.get("variants", [{}]):
        for values in product(*grid.values()):
            settings = [variant, dict(zip(grid, values, strict=True)), t.get("set", {}), defaults]
            yield _row(t["name"], settings, abstract, target, extents, roles, minima)


def _row(
    name: str, settings: list[Mapping[str, Any]], abstract: Abstract, target: Target, extents: Extents,
    roles: Mapping[str, frozenset[str]], minima: Mapping[str, int],
) -> Row:  # fmt: skip
    bindings: dict[str, int] = {}
    for a in abstract.axes:
        for letter in PARAMETERS.get(a.kind, ()):
            v = _lookup(settings, letter, roles[a.name])
            n = _cover(a, extents, target) if letter == "F" and v == "cover" else None if letter == "F" else _clip(v, a, extents, minima)
            if n is not None:
                bindings[f"{letter}:{a.name}"] = n
    for i in range(sum(len(phase) for g in abstract.groups for phase in g.phases)):  # no more segments than puts
        bindings[f"G:g{i}"] = _scalar(settings, "G")
        bindings[f"P:g{i}"] = 1 << (_scalar(settings, "P") * target.sms).bit_length() - 1
    warps = min(_scalar(settings, "num_warps"), target.max_warps_per_block)
    return Row(tuple(sorted(bindings.items())), (("num_stages", _scalar(settings, "num_stages")), ("num_warps", warps)), name)


def _lookup(settings: list[Mapping[str, Any]], letter: str, roles: frozenset[str]) -> Any:
    for s in settings:
        for key, value in s.items():
            head, colon, selector = key.partition(":")
            if colon and head == letter and matches(selector, roles):
                return value
    return None


def _scalar(settings: list[Mapping[str, Any]], key: str) -> int:
    return int(next(s[key] for s in settings if key in s))


def _clip(value: int, axis: Axis, extents: Extents, minima: Mapping[str, int]) -> int:
    bound = extents.bound(axis.extent)
    return int(value) if bound is None else min(int(value), max(next_pow2(bound), minima.get(axis.name, 1)))


def _cover(axis: Axis, extents: Extents, target: Target) -> int | None:
    bound = extents.bound(axis.extent)
    f = next_pow2(bound) if bound is not None else None
    return f if f is not None and f <= target.max_fragment_lanes else None


def _dot_minima(abstract: Abstract, target: Target) -> dict[str, int]:
    """Smallest useful block of every axis of a contraction that the target's matrix path takes."""
    out: dict[str, int] = {}
    for n in abstract.nodes:
        if n.op not in ("Con", "ConAcc"):
            continue
        a, b = n.args[0], n.args[1]
        d = target.dot(abstract.nodes[a].dtype, abstract.nodes[b].dtype, n.dtype)
        if d is None:
            continue
        k = n.attrs[0]
        free = abstract.free(a) ^ abstract.free(b)
        for axis, least in [(k, d.min_k), *((x, d.min_m if x in abstract.free(a) else d.min_n) for x in sorted(free - {k}))]:
            out[axis] = max(out.get(axis, 1), least)
    return out
