"""What an e-node says about itself, read off its operation, labels, path and attributes. Nothing here knows rows or targets."""

from __future__ import annotations

from collections.abc import Sequence

from eqkir.base.expr import Expr
from eqkir.extract.graph import ENode, FrozenGraph
from eqkir.program.abi import axis_of

#: structured operations whose body is the loop at the end of their path
LOOPS = frozenset({"FRedLoop", "FRedNLoop", "FConLoop", "FConAccLoop"})
#: structured operations on one fragment that covers the bound axis
WHOLES = frozenset({"FRedTree", "FRedNTree", "FConWhole", "FConAccWhole"})
CONTRACTS = frozenset({"FConWhole", "FConLoop", "FConAccWhole", "FConAccLoop"})
#: e-nodes that decode into nothing of their own
FREE = frozenset(
    {
        "FReady",
        "FForm",
        "FState",
        "FWState",
        "FFoldLoop",
        "FFoldWhole",
        "FWhile",
        "FPick",
        "FArg",
        "FConst",
        "FScalar",
        "FNil",
        "FCons",
        "SPar",
        "SSeq",
        "SGNil",
        "SGCons",
        "TUnit",
        "TAx",
        "TProd",
        "TRev",
        "TInter",
        "TSwz",
    }
)


def bound_label(node: ENode) -> str | None:
    """The label that a structured e-node binds, None for others."""
    if node.op in LOOPS:
        return node.path[-1][1] if node.path else None
    if node.op in WHOLES:
        for a in node.attrs:
            if isinstance(a, str) and a in (node.labels or ()):
                return a
        for a in node.attrs:
            for x in node.labels or ():
                if a == axis_of(x):
                    return x
    return None


def free_labels(node: ENode) -> tuple[str, ...]:
    """The labels of an e-node's value (its iteration space without what it binds)."""
    b = bound_label(node)
    return tuple(x for x in node.labels or () if x != b)


def class_labels(graph: FrozenGraph) -> list[frozenset[str]]:
    """Free labels of every F class: those of its first alternative that has a place; others are seen through (`_source`)."""
    known: list[frozenset[str]] | None = graph.derived.get("labels")
    if known is None:
        known = graph.derived["labels"] = _class_labels(graph)
    return known


def _class_labels(graph: FrozenGraph) -> list[frozenset[str]]:
    out: list[frozenset[str] | None] = [None] * len(graph.classes)
    for c, sort in enumerate(graph.sorts):
        if sort not in ("F", "S"):
            continue
        seen: list[int] = []
        d: int | None = c
        while d is not None and out[d] is None and d not in seen:
            seen.append(d)
            placed = next((n for n in graph.classes[d] if n.labels is not None), None)
            if placed is not None:
                out[d] = frozenset(free_labels(placed))
            else:
                d = _source(graph, d)
        found = (out[d] if d is not None else None) or frozenset()
        for e in seen:
            out[e] = found
    return [x or frozenset() for x in out]


def _source(graph: FrozenGraph, c: int) -> int | None:
    """The class whose place a placeless class shares: behind ``FReady``; a component of a fold is where what it yields is."""
    for n in graph.classes[c]:
        if n.op == "FReady":
            return n.kids[0]
        if n.op == "FPick":
            t = n.kids[0]
            for m in (x for y in graph.classes[t] for x in (graph.classes[y.kids[0]] if y.op == "FReady" else (y,))):
                if m.labels is not None:
                    return t
                if m.op in ("FFoldLoop", "FFoldWhole", "FWhile"):
                    return _element(graph, m.kids[0 if m.op == "FFoldWhole" else 1], n.attrs[0])
            return t
    return None


def _element(graph: FrozenGraph, c: int, i: int) -> int | None:
    """The i-th class of a list."""
    for _ in range(i + 1):
        cons = next((n for n in graph.classes[c] if n.op == "FCons"), None)
        if cons is None:
            return None
        found, c = cons.kids
    return found


def implementation(node: ENode) -> str | None:
    """``mma`` or ``fma`` for contractions, ``tree`` or ``lanes`` for loop reductions, else None."""
    return (
        next((a for a in node.attrs if a in ("mma", "fma", "tree", "lanes")), None)
        if node.op in CONTRACTS or node.op == "FRedLoop"
        else None
    )


def function(node: ENode) -> str:
    """The scalar function that is applied lane by lane (``default`` where the operation has none of its own)."""
    return str(node.attrs[0]) if node.op in ("FUn", "FBin", "FTri", "FRedTree", "FRedLoop", "FScanWhole", "FScanLoop") else "default"


def access(node: ENode) -> tuple[str, tuple[Expr, ...]] | None:
    """(view, coordinates) of a load or store."""
    if node.op not in ("FLoad", "SStore"):
        return None
    ixs: Sequence[Expr] = next((a for a in node.attrs if isinstance(a, (tuple, list))), ())
    return str(node.attrs[0]), tuple(ixs)


def order_labels(graph: FrozenGraph, c: int) -> tuple[str, ...]:
    """Instance labels of an order class (every order of one class enumerates the same instances), sorted."""

    def walk(d: int, open_: frozenset[int]) -> frozenset[str] | None:
        for n in graph.classes[d]:
            if n.op == "TAx":
                return frozenset((str(n.attrs[0]),))
            parts = [walk(k, open_ | {d}) if k not in open_ else None for k in n.kids]
            if all(p is not None for p in parts):
                return frozenset().union(*(p for p in parts if p is not None))
        return None

    return tuple(sorted(walk(c, frozenset()) or ()))
