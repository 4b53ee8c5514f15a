"""Small e-graphs in the exchange format, and where the public corpus of the field lies when it is there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

GYM = Path(os.environ.get("EQKIR_GYM", Path(__file__).resolve().parents[3] / "shared" / "data" / "gym"))
files = sorted(GYM.glob("*/*.json"), key=lambda f: (f.stat().st_size, str(f)))
needs_gym = pytest.mark.skipif(not files, reason="the extraction-gym corpus is not there")


def document(nodes: dict[str, tuple[str, float, list[str]]], *roots: str, **more: Any) -> dict[str, Any]:
    """`nodes`: id -> (class, cost, children)."""
    made = {i: {"op": i, "children": kids, "eclass": c, "cost": cost} for i, (c, cost, kids) in nodes.items()}
    return {"nodes": made, "root_eclasses": list(roots), "class_data": {}, **more}


#: sharing pays: greedy takes 3 + 3, the optimum is 4 + 1 + 1
SHARED = document(
    {"top": ("r", 0, ["a", "b"]), "a": ("A", 3, []), "b": ("B", 3, []), "a2": ("A", 1, ["s"]), "b2": ("B", 1, ["s"]), "s": ("S", 3.5, [])},
    "r",
)
#: the cheapest alternatives by themselves form a cycle
LOOP = document({"x": ("X", 1, ["y"]), "x0": ("X", 10, []), "y": ("Y", 1, ["x"]), "y0": ("Y", 12, []), "r": ("R", 0, ["x", "y"])}, "R")
