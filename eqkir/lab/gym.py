"""The JSON of extraction-gym and egraph-serialize: reading and writing plain e-graphs.

    {"nodes": {id: {"op", "children": [node id], "eclass", "cost", "subsumed"?}}, "root_eclasses": [eclass], "class_data": {eclass: {…}}}

An operand is a node id that stands for its class. Reading keeps the ids, the order of nodes, class data and other members of the file, so
that `write(read(x))` says what x says. `cost` is 1 and `subsumed` false where the file leaves them out (as in egraph-serialize).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from eqkir.base.diagnostics import fail, register
from eqkir.extract.plain.graph import Alt, Plain

FORMAT = register(
    "EQK-GYM-FORMAT",
    "not an extraction-gym e-graph",
    "The file is not JSON of the extraction-gym (egraph-serialize) form, or it names a node or class that it does not have; the pointer "
    "says where.",
)


def read(path: Path) -> Plain:
    """Raises `EqkirError`, EQK-GYM-FORMAT."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as e:
        raise fail(FORMAT, f"{path}: {str(e)[:200]}", stage="lab") from None
    return from_json(found)


def from_json(found: Any) -> Plain:
    """A document as a plain e-graph; classes in order of first occurrence. Raises `EqkirError`, EQK-GYM-FORMAT, with a JSON pointer."""
    if not isinstance(found, dict) or not isinstance(found.get("nodes"), dict):
        raise fail(FORMAT, "no object `nodes`", "/nodes", "an object: node id -> node", "lab")
    nodes: dict[str, Any] = found["nodes"]
    number: dict[str, int] = {}
    for i, n in nodes.items():
        at = f"/nodes/{_escaped(i)}"
        if not isinstance(n, dict):
            raise fail(FORMAT, "a node is no object", at, stage="lab")
        for key in ("op", "eclass"):
            if not isinstance(n.get(key), str):
                raise fail(FORMAT, f"{key} is no text", f"{at}/{key}", stage="lab")
        cost = n.get("cost", 1.0)
        if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not isfinite(cost):
            raise fail(FORMAT, f"cost {cost!r}", f"{at}/cost", "a finite number", "lab")
        if not isinstance(n.get("children", []), list) or not isinstance(n.get("subsumed", False), bool):
            raise fail(FORMAT, "children is no list, or subsumed no boolean", at, stage="lab")
        number.setdefault(n["eclass"], len(number))
    classes: list[list[Alt]] = [[] for _ in number]
    for i, n in nodes.items():
        kids = []
        for k, ref in enumerate(n.get("children", [])):
            if not isinstance(ref, str) or ref not in nodes:
                raise fail(FORMAT, f"no node {ref!r}", f"/nodes/{_escaped(i)}/children/{k}", stage="lab")
            kids.append(number[nodes[ref]["eclass"]])
        alt = Alt(n["op"], float(n.get("cost", 1.0)), tuple(kids), n.get("subsumed", False), i, tuple(n.get("children", [])))
        classes[number[n["eclass"]]].append(alt)
    roots = found.get("root_eclasses")
    if not isinstance(roots, list) or not roots or any(r not in number for r in roots if isinstance(r, str)):
        raise fail(FORMAT, "root_eclasses names no classes of the file", "/root_eclasses", stage="lab")
    if not all(isinstance(r, str) for r in roots):
        raise fail(FORMAT, "a root is no text", "/root_eclasses", stage="lab")
    data = found.get("class_data", {})
    if not isinstance(data, dict):
        raise fail(FORMAT, "class_data is no object", "/class_data", stage="lab")
    extra = {k: v for k, v in found.items() if k not in ("nodes", "root_eclasses", "class_data")}
    return Plain([tuple(ns) for ns in classes], tuple(number[r] for r in roots), list(number), (), dict(data), extra)


def to_json(g: Plain) -> dict[str, Any]:
    """The document of an e-graph; node and class ids are made up where there are none."""
    names = g.names or [str(c) for c in range(len(g.classes))]
    ids = [[a.id or f"{names[c]}.{j}" for j, a in enumerate(ns)] for c, ns in enumerate(g.classes)]
    nodes: dict[str, Any] = {}
    for c, ns in enumerate(g.classes):
        for j, a in enumerate(ns):
            node: dict[str, Any] = {
                "op": a.op,
                "children": list(a.refs) if a.refs else [ids[k][0] for k in a.kids],
                "eclass": names[c],
                "cost": a.cost,
            }
            nodes[ids[c][j]] = {**node, "subsumed": True} if a.subsumed else node
    return {**g.extra, "nodes": nodes, "root_eclasses": [names[r] for r in g.roots], "class_data": dict(g.data)}


def write(g: Plain, path: Path) -> None:
    """Write an e-graph as one document, a node a line."""
    d = to_json(g)
    body = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in d.pop("nodes").items())
    rest = "".join(f",\n{json.dumps(k)}: {json.dumps(v)}" for k, v in d.items())
    path.write_text('{\n"nodes": {\n' + body + "\n}" + rest + "\n}\n")


def summary(g: Plain) -> Mapping[str, int]:
    """Figures that describe an e-graph."""
    return {
        "classes": len(g.classes),
        "enodes": g.enodes,
        "roots": len(g.roots),
        "subsumed": sum(a.subsumed for ns in g.classes for a in ns),
        "zero": sum(a.cost == 0 for ns in g.classes for a in ns),
        "negative": sum(a.cost < 0 for ns in g.classes for a in ns),
    }


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
