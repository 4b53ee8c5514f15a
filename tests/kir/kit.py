"""Modules from short texts."""

from __future__ import annotations

import json
from typing import Any

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.kir import load_bytes, verify

VIEWS = [
    {"kind": "view", "id": "X", "role": "in", "dtype": "f32", "shape": ["M", "N"]},
    {"kind": "view", "id": "Y", "role": "out", "dtype": "f32", "shape": ["M", "N"]},
    {"kind": "view", "id": "V", "role": "inout", "dtype": "i32", "shape": ["N"]},
    {"kind": "view", "id": "W", "role": "inout", "dtype": "f32", "shape": [4]},
    {"kind": "scalar", "id": "s", "dtype": "i32"},
    {"kind": "scalar", "id": "eps", "dtype": "f32"},
]
#: coordinates: rows `r` [M, 1], columns `c` [N], the matrix `x` [M, N], constants
PRELUDE = [
    {"op": "domain", "results": ["dm"], "end": "M"},
    {"op": "indices", "results": ["im"], "domain": "dm"},
    {"op": "reshape", "results": ["r"], "x": "im", "shape": ["M", 1]},
    {"op": "domain", "results": ["dn"], "end": "N"},
    {"op": "indices", "results": ["c"], "domain": "dn"},
    {"op": "load", "results": ["x"], "view": "X", "coords": ["r", "c"]},
    {"op": "constant", "results": ["one"], "dtype": "f32", "value": 1.0},
    {"op": "constant", "results": ["i0"], "dtype": "index", "value": 0},
    {"op": "constant", "results": ["i1"], "dtype": "index", "value": 1},
    {"op": "constant", "results": ["n3"], "dtype": "i32", "value": 3},
    {"op": "constant", "results": ["t"], "dtype": "bool", "value": True},
]
STORE = {"op": "store", "view": "Y", "coords": ["r", "c"], "value": "x"}
N = len(PRELUDE)


def op(name: str, results: str = "", /, **fields: Any) -> dict[str, Any]:
    """An operation; results separated by spaces."""
    return {"op": name, "results": results.split(), **fields}


def text(*body: Any, store: bool = True, **kernel: Any) -> bytes:
    """A module of one kernel: the prelude, `body`, a sound store."""
    ops = [*PRELUDE, *body, *([STORE] if store else [])]
    k = {"name": "k", "symbols": [{"id": "M"}, {"id": "N"}], "params": VIEWS, "body": ops, **kernel}
    return json.dumps({"kir": 1, "kernels": [k]}, indent=1).encode()


def found(data: bytes) -> list[Diagnostic]:
    """What loading and verifying say."""
    try:
        return verify(load_bytes(data, "k.json"))
    except EqkirError as e:
        return list(e.diagnostics)
