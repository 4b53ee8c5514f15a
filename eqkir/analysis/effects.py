"""Memory effects of a kernel in program order: alias classes, memory versions, and which `parallel` points surround an operation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from eqkir.kir.model import Kernel, Load, Op, Parallel, Region, Store, View


@dataclass(frozen=True)
class StoreSite:
    """A store: its place, the version that it makes, and the ids of the points of the `parallel`s around it, outermost first."""

    op: Store
    pointer: str
    version: int
    scope: tuple[str, ...]


@dataclass
class Effects:
    """`versions` maps the result of each load to the version of its alias class that it reads."""

    alias: dict[str, int]
    versions: dict[str, int] = field(default_factory=dict)
    stores: list[StoreSite] = field(default_factory=list)
    scopes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # value id -> points around its definition
    pointers: dict[str, str] = field(default_factory=dict)  # value id -> JSON pointer of its operation
    definitions: dict[str, tuple[Op, int]] = field(default_factory=dict)  # value id -> (operation, result number)
    points: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)  # point id -> (domain id, points around the parallel)


def alias_classes(views: Sequence[View], noalias: Iterable[Sequence[str]] = ()) -> dict[str, int]:
    """Class number of each view: views that may overlap, transitively. Two `in` views never conflict; `noalias` sets are disjoint."""
    apart = {frozenset((a, b)) for s in noalias for a in s for b in s if a != b}
    root = {v.id: v.id for v in views}

    def find(x: str) -> str:
        while root[x] != x:
            x = root[x]
        return x

    for i, a in enumerate(views):
        for b in views[:i]:
            if not (a.role == "in" and b.role == "in") and frozenset((a.id, b.id)) not in apart:
                x, y = find(b.id), find(a.id)
                root[y] = x
    numbers: dict[str, int] = {}
    return {v.id: numbers.setdefault(find(v.id), len(numbers)) for v in views}


def effects(kernel: Kernel, pointer: str = "") -> Effects:
    """Walk the kernel in program order. The walk of a `parallel` body stands for each of its points."""
    out = Effects(alias_classes([p for p in kernel.params if isinstance(p, View)], kernel.noalias))
    current: dict[int, int] = {}

    def region(r: Region, at: str, scope: tuple[str, ...]) -> None:
        for i, op in enumerate(r.body):
            visit(op, f"{at}/body/{i}", scope)

    def visit(op: Op, at: str, scope: tuple[str, ...]) -> None:
        for n, r in enumerate(op.results):
            out.definitions[r] = (op, n)
            out.scopes[r] = scope
            out.pointers[r] = at
        if isinstance(op, Load):
            out.versions[op.results[0]] = current.get(out.alias[op.view], 0)
        elif isinstance(op, Store):
            c = out.alias[op.view]
            current[c] = current.get(c, 0) + 1
            out.stores.append(StoreSite(op, at, current[c], scope))
        elif isinstance(op, Parallel):
            for a, d in zip(op.body.args, op.domains, strict=True):
                out.points[a.id] = (d, scope)
                scope = (*scope, a.id)
            region(op.body, f"{at}/body", scope)
        else:
            for name in sorted(type(op).model_fields):
                inner = getattr(op, name)
                if isinstance(inner, Region):
                    region(inner, f"{at}/{name}", scope)

    for i, op in enumerate(kernel.body):
        visit(op, f"{pointer}/body/{i}", ())
    return out
