"""Values that steer are realised once, or in one fixed order.

Two realisations of one float sum may round differently. That is legal for results, and not for control: a comparison that reads one and
a comparison that reads the other could contradict each other. So for every KIR value below a comparison, a cast to an integer, an index
or a validity, all places where a program computes it must compute it by the same operations in the same order. One realised node does; so
do realisations that step through single elements in order (`L1`), whatever lanes stand beside them. Decode refuses all other candidates.
Places that nothing deciding reads do not count, and a comparison with an infinite constant does not decide: its answers differ by an
overflow alone, which no order of KIR's sums rules out. Products of the matrix unit with the same lanes and operands are the same
instructions in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eqkir.base.dtypes import FLOATS
from eqkir.program.abi import traversal, wide
from eqkir.program.abstract import Abstract
from eqkir.program.dag import Dag, RNode
from eqkir.program.lower import reachable

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
PREDICATES = frozenset({"isnan", "isinf", "isfinite"})
#: built-in reductions whose result does not depend on the order
ANY_ORDER = frozenset({"max", "min", "any", "all"})


def steering(p: Abstract) -> dict[int, str]:
    """Node id -> token, for float values below something that steers. Nodes that instantiate one KIR value at several coordinates have
    one token."""
    puts = [s for g in p.groups for ph in g.phases for s in ph]
    live = reachable(p, puts)
    roots: set[int] = {d for s in puts for d in (s.valid, *s.deps)}
    for i in live:
        n = p.nodes[i]
        if (
            n.op == "Bin"
            and n.attrs[0] in COMPARISONS
            and not any(_infinite(p.nodes[a].op, p.nodes[a].attrs) for a in n.args)
            or n.op == "Un"
            and n.attrs[0] in PREDICATES
        ):
            roots |= set(n.args)
        elif n.op == "Cast" and n.dtype not in FLOATS:
            roots |= set(n.args)
        elif n.op == "Index":
            roots |= set(n.args)
        elif n.op == "Load":
            roots |= {n.args[0], *n.args[2:]}
        elif n.op in ("RedN", "ScanN"):  # the combine may compare
            roots |= set(n.args[: 2 * n.attrs[1]])
        elif n.op in ("While", "WState"):
            roots |= set(n.args)
    below: set[int] = set()
    todo = sorted(roots)
    while todo:
        i = todo.pop()
        if i not in below:
            below.add(i)
            todo += p.nodes[i].args
    shape: dict[int, int] = {}
    table: dict[Any, int] = {}
    for i in live:  # children first
        n = p.nodes[i]
        shape[i] = table.setdefault((n.op, _plain(n.op, n.attrs), n.dtype, tuple(shape[a] for a in n.args)), len(table))
    out = {}
    for i in sorted(below):
        n = p.nodes[i]
        if n.dtype in FLOATS or n.dtype == "tuple":
            origin = p.origins.get(i, "").split()
            out[i] = f"{origin[1] if len(origin) > 1 else ''}#{shape[i]}"
    for source, copy in p.ranges.copies if p.ranges else ():  # one value, wherever its members are counted from
        if source in out:
            out[copy] = out[source]
    return out


def _infinite(op: str, attrs: tuple[Any, ...]) -> bool:
    return op in ("Const", "FConst") and attrs[0] in ("inf", "-inf")


def _plain(op: str, attrs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Attributes without axes and index maps."""
    match op:
        case "Index":
            return ()
        case "Load":
            return attrs[:2]
        case "Red" | "Scan":
            return attrs[:1]
        case "Con" | "ConAcc":
            return ()
        case "RedN" | "ScanN":
            return attrs[1:]
        case "Fold" | "While":
            return attrs[2:]
        case "State" | "WState":
            return attrs[2:]
        case "Form":
            return (attrs[1],)
    return attrs


#: structured operations on fragments whose order a provider may fix
FRAGMENTS = ("FRedTree", "FRedLoop", "FConWhole", "FConLoop", "FConAccWhole", "FConAccLoop")


def signatures(dag: Dag, dtype: dict[int, str], canonical: bool = False) -> dict[int, int]:
    """Realised node -> number; equal numbers compute equal bits from equal elements. `dtype`: of reductions' results. `canonical`: the
    provider combines the members of a fragment in an order that follows from its labels alone."""
    table: dict[Any, int] = {}
    out: dict[int, int] = {}
    for i, n in enumerate(dag.nodes):
        kids = tuple(tuple(out[j] for j in k) if isinstance(k, tuple) else out[k] for k in n.kids)
        if n.op == "FSupply":  # the value itself
            (value,) = n.kids
            assert isinstance(value, int)
            out[i] = out[value]
            continue
        key = _key(i, n, kids, dtype.get(i, ""))
        if canonical and key == (i,) and n.op in FRAGMENTS and n.path:
            loop = tuple(map(str, n.path[-1][:2])) if n.op.endswith("Loop") else ()
            key = (
                "fragment",
                n.op,
                tuple(map(_wide_text, n.attrs)),
                frozenset(map(wide, n.labels or ())),
                tuple(map(_wide_text, loop)),
                kids,
            )
        out[i] = table.setdefault((n.by, key) if n.by and key[0] != "any order" else key, len(table))
    return out


def _key(i: int, n: RNode, kids: tuple[Any, ...], dtype: str) -> Any:
    single = bool(n.path) and traversal(n.path[-1][1]) in ("L1", "N1") if n.path and n.path[-1][1] else False
    match n.op:
        case "FLoad":
            return ("load", *n.attrs[:2], kids)
        case "FIndex":
            return ("index", n.attrs[1], kids)
        case "FRedTree" | "FRedLoop":
            if n.attrs[0] in ANY_ORDER or (dtype and dtype not in FLOATS):
                return ("any order", n.attrs[0], kids)
            return ("in order", n.attrs[0], kids) if n.op == "FRedLoop" and single else (i,)
        case "FConLoop" | "FConAccLoop" | "FConWhole" | "FConAccWhole":
            acc = n.attrs[-1]
            if acc not in FLOATS:
                return ("any order", n.op[:6], kids)
            if n.attrs[0] == "mma" and n.path is not None:
                lanes = frozenset(map(wide, n.labels or ()))
                return ("matrix", n.op, n.attrs, lanes, n.path[-1][:2] if n.op.endswith("Loop") else None, kids)
            return ("in order", n.op, acc, kids) if n.op.endswith("Loop") and single and n.attrs[0] == "fma" else (i,)
        case "FRedNLoop" | "FScanLoop" | "FScanNLoop":
            return ("in order", n.op, n.attrs[:1], kids) if single else (i,)
        case "FFoldLoop" | "FWhile":
            return ("in order", n.op, kids) if single else (i,)
        case "FForm":
            return ("state", n.attrs[1:])
        case "FState" | "FWState":
            return ("before", n.attrs[1], kids) if single else (i,)
        case "FRedNTree" | "FScanWhole" | "FScanNWhole" | "FFoldWhole":
            return (i,)
    return (n.op, n.attrs, kids)


def _wide_text(a: Any) -> Any:
    """A label as that of its whole axis; anything else as it is."""
    return wide(a) if isinstance(a, str) and ":" in a else a


def contradiction(dag: Dag, places: Iterable[tuple[str, int]], dtype: dict[int, str], canonical: bool = False) -> str | None:
    """The token of a value that deciding nodes read from different realisations, or None. `places`: (token, realised node);
    `canonical` as in `signatures`."""
    wanted = list(places)
    if not wanted:
        return None
    sig, below = signatures(dag, dtype, canonical), _below(dag, _deciding(dag))
    found: dict[str, set[int]] = {}
    for token, i in wanted:
        if i in below:
            found.setdefault(token, set()).add(sig[i])
    return next((t for t in sorted(found) if len(found[t]) > 1), None)


def _deciding(dag: Dag) -> list[int]:
    """What each comparison, predicate, cast to an integer, index, access and combine function decides by: realised nodes."""
    out: list[int] = []
    for n in dag.nodes:
        kids = [k for k in n.kids if isinstance(k, int)]
        lists = [j for k in n.kids if isinstance(k, tuple) for j in k]
        match n.op:
            case "FBin" if n.attrs[0] in COMPARISONS:
                if not any(_infinite(dag.nodes[k].op, dag.nodes[k].attrs) for k in kids):
                    out += kids
            case "FUn" if n.attrs[0] in PREDICATES:
                out += kids
            case "FCast" if n.attrs[0] not in FLOATS:
                out += kids
            case "SStore":
                out += [*kids[1:], *lists]
            case "FLoad":
                out += [kids[0], *lists]
            case "FIndex" | "FWhile" | "FWState" | "FRedNTree" | "FRedNLoop" | "FScanNWhole" | "FScanNLoop":
                out += [*kids, *lists]
    return out


def _below(dag: Dag, roots: Iterable[int]) -> set[int]:
    out: set[int] = set()
    todo = list(roots)
    while todo:
        i = todo.pop()
        if i not in out:
            out.add(i)
            todo += [j for k in dag.nodes[i].kids for j in (k if isinstance(k, tuple) else (k,))]
    return out
