"""Dtypes of realised nodes, and combine regions as straight-line code."""

from __future__ import annotations

from eqkir.program.abi import Abi
from eqkir.program.dag import FN, Dag, RNode, flat
from eqkir.program.model import Let, Region
from eqkir.program.table import ROWS

BOOL_RESULTS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
BOOL_UNARY = frozenset({"isnan", "isinf", "isfinite"})


class ScheduleError(Exception):
    """The DAG has no legal order, or reads a value out of scope."""


def region_of(dag: Dag, i: int, abi: Abi) -> Region:
    """The combine region of a node as straight-line scalar code. Raises ScheduleError."""
    roots = [k for j in ROWS[dag.nodes[i].op].region for k in flat((dag.nodes[i].kids[j],))]
    ids: dict[int, int] = {}
    body: list[Let] = []
    dt: dict[int, str] = {}

    def go(j: int) -> int:
        if j not in ids:
            n = dag.nodes[j]
            if n.path not in (None, FN):
                raise ScheduleError("a combine region reads a value of a block")
            args = tuple(go(k) for k in flat(n.kids))
            dt[j] = node_dtype(n, [dt[k] for k in flat(n.kids)], abi)
            attrs = n.attrs[:2] if n.op == "FArg" else n.attrs[:1]
            ids[j] = len(body)
            body.append(Let(ids[j], n.op[1:], attrs, args, (), dt[j]))
        return ids[j]

    yields = tuple(go(j) for j in roots)
    return Region(tuple(dt[j] for j in roots), tuple(body), yields)


def node_dtype(n: RNode, args: list[str], abi: Abi) -> str:
    """Result dtype of a realised node from its operands' dtypes."""
    match n.op:
        case "FConst" | "FScalar" | "FIndex":
            return str(n.attrs[1])
        case "FArg":
            return str(n.attrs[2])
        case "FLoad":
            return abi.view(n.attrs[0]).dtype
        case "FCast" | "FBitcast":
            return str(n.attrs[0])
        case "FUn":
            return "bool" if n.attrs[0] in BOOL_UNARY else args[0]
        case "FBin":
            return "bool" if n.attrs[0] in BOOL_RESULTS else args[0]
        case "FTri":
            return args[1]
        case "FRedTree" | "FRedLoop" | "FScanWhole" | "FScanLoop" | "FSupply" | "FKept":
            return args[0]
        case "FRedNTree" | "FRedNLoop" | "FScanNWhole" | "FScanNLoop" | "FFoldLoop" | "FFoldWhole" | "FWhile":
            return "tuple"
        case "FForm":
            return str(n.attrs[2])
        case "FConWhole" | "FConAccWhole":
            return str(n.attrs[2])
        case "FConLoop" | "FConAccLoop":
            return str(n.attrs[1])
    return ""


__all__ = ["ScheduleError", "node_dtype", "region_of"]
