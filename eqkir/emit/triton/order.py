"""One order of labels per phase, such that matrix operands come out as (…, m, k) and (…, k, n) without transposition where possible."""

from __future__ import annotations

from collections.abc import Mapping

from eqkir.program.abi import member_labels, parameter, slice_label, traversal
from eqkir.program.model import Carry, Item, Let, Loop, Program, Store


def label_order(program: Program, items: tuple[Item, ...], defs: Mapping[int, Let | Carry]) -> dict[str, int]:
    """Label -> position. Constraints of matrix products in program order, each taken unless it contradicts the ones before."""
    seen: dict[str, None] = {}
    edges: dict[str, set[str]] = {}

    def visit(block: tuple[Item, ...]) -> None:
        for i in block:
            match i:
                case Let():
                    seen.update(dict.fromkeys(i.dims))
                    if i.op in ("ConWhole", "ConAccWhole") and i.attrs[0] == "mma":
                        product(i, i.attrs[1])
                    if i.op in ("RedTree", "RedNTree", "Scan", "ScanN", "Last", "ConWhole", "ConAccWhole"):
                        seen.update(dict.fromkeys(a for a in i.attrs if isinstance(a, str) and ":" in a))
                case Loop():
                    seen[i.label] = None
                    visit(i.body)
                    for c in i.carries:
                        seen.update(dict.fromkeys(c.dims))
                        if c.op in ("ConLoop", "ConAccLoop") and c.attrs[0] == "mma":
                            product(c, i.label)
                case Store():
                    seen.update(dict.fromkeys(i.dims))

    def product(x: Let | Carry, k: str) -> None:
        a, b = ({d for d in defs[j].dims if parameter(d)} - {k} for j in x.args[:2])
        free = sorted(a | b)
        for batch in sorted(a & b):
            for other in (*(f for f in free if f not in a & b), k):
                constrain(batch, other)
        for m in sorted(a - b):
            constrain(m, k)
        for n in sorted(b - a):
            constrain(k, n)
        for m in sorted(a - b):
            for n in sorted(b - a):
                constrain(m, n)

    def reaches(x: str, y: str) -> bool:
        todo, done = [x], set()
        while todo:
            z = todo.pop()
            if z == y:
                return True
            if z not in done:
                done.add(z)
                todo += edges.get(z, ())
        return False

    def constrain(x: str, y: str) -> None:
        if not reaches(y, x):
            edges.setdefault(x, set()).add(y)

    visit(items)
    for x in [y for y in seen if traversal(y)[0] == "M"]:
        seen[slice_label(x)] = None
    for x in [y for y in seen if traversal(y) in ("S1", "SC")]:
        seen.update(dict.fromkeys(member_labels(x, program.axis)))
    axes = {a.name: n for n, a in enumerate(program.axes)}
    rest = sorted(seen, key=lambda x: (axes[x.split(":", 1)[0]], x))
    out: dict[str, int] = {}
    while rest:
        x = next(x for x in rest if not any(x in edges.get(y, ()) for y in rest if y != x))
        rest.remove(x)
        out[x] = len(out)
    return out
