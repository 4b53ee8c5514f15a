"""A frozen e-graph as text: the alternatives of every class that the root reaches."""

from __future__ import annotations

from typing import Any

from eqkir.base.expr import Expr
from eqkir.extract.graph import ENode, FrozenGraph, Selection


def graph_text(g: FrozenGraph, chosen: Selection | None = None, all_classes: bool = False) -> str:
    """Classes from the root down; those with one alternative are left out unless `all_classes`. ``*`` marks the chosen alternative."""
    order, seen, todo = [], {g.root}, [g.root]
    while todo:
        c = todo.pop()
        order.append(c)
        for n in g.classes[c]:
            for k in reversed(n.kids):
                if k not in seen:
                    seen.add(k)
                    todo.append(k)
    several = sum(len(g.classes[c]) > 1 for c in order)
    lines = [f"{g.enodes} e-nodes in {len(g.classes)} classes, root c{g.root}; {several} reachable classes have alternatives"]
    for c in order:
        if len(g.classes[c]) == 1 and not all_classes:
            continue
        lines.append(f"c{c}: {g.sorts[c]}{' ' + g.dtypes[c] if g.dtypes[c] else ''}")
        for i, n in enumerate(g.classes[c]):
            mark = "*" if chosen is not None and chosen.get(c) == i else " "
            lines.append(f" {mark} {node_text(n)}")
    return "\n".join(lines) + "\n"


def node_text(n: ENode) -> str:
    """One e-node: operation, attributes, operand classes, iteration space and position."""
    parts = [n.op, *(_attr(a) for a in n.attrs), *(f"c{k}" for k in n.kids)]
    space = f" over {', '.join(n.labels)}" if n.labels else ""
    place = f" in {' > '.join(f'{label}#{stage}' for _, label, stage in n.path)}" if n.path else ""
    return " ".join(parts) + space + place


def _attr(a: Any) -> str:
    if isinstance(a, tuple):
        return f"[{', '.join(_attr(x) for x in a)}]"
    return str(a) if isinstance(a, Expr) else str(a)
