"""Delta debugging of a failing kernel's JSON: fewer operations, values passed through, fewer and smaller extents, fewer promises.

A smaller kernel counts when it is legal and fails in the same way: same verdict, same stage, same code. Combine regions and the regions of
folds stay as they are: what their author declares of them could not be checked.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

from eqkir.base.diagnostics import EqkirError
from eqkir.kir import load_bytes
from eqkir.kir.model import OPERATIONS
from tests.fuzz.case import Result, check

Json = dict[str, Any]
CONTROL = ("parallel", "for", "while", "if", "call")


def bodies(x: Any) -> Iterator[list[Json]]:
    """Every list of operations, outer ones first; not those of closed regions, whose laws a step would break."""
    if isinstance(x, dict):
        if x.get("op") in OPERATIONS and OPERATIONS[x["op"]].closed_regions:
            return
        for k, v in x.items():
            if k == "body" and isinstance(v, list):
                yield v
            yield from bodies(v)
    elif isinstance(x, list):
        for v in x:
            yield from bodies(v)


def names(x: Any) -> Iterator[str]:
    """Every text in a piece of JSON."""
    if isinstance(x, str):
        yield x
    elif isinstance(x, (dict, list)):
        for v in x.values() if isinstance(x, dict) else x:
            yield from names(v)


def renamed(x: Any, old: str, new: Any) -> Any:
    """With `new` for every text `old`."""
    if isinstance(x, dict):
        return {k: renamed(v, old, new) for k, v in x.items()}
    if isinstance(x, list):
        return [renamed(v, old, new) for v in x]
    return new if x == old and isinstance(x, str) else x


def without(m: Json, gone: set[str]) -> None:
    """Take out every operation that needs a value in `gone`, and what needs its results."""
    changed = True
    while changed:
        changed = False
        for body in bodies(m["kernels"][0]):
            for op in list(body):
                flat = {k: v for k, v in op.items() if not (isinstance(v, dict) and "body" in v)}
                if gone & set(names({k: v for k, v in flat.items() if k != "results"})):
                    body.remove(op)
                    gone |= set(op.get("results", ()))
                    changed = True


def swept(m: Json) -> Json:
    """Without values, parameters and symbols that nothing uses."""
    m = copy.deepcopy(m)
    k = m["kernels"][0]
    while True:
        used = {}
        for n in names(k):
            used[n] = used.get(n, 0) + 1
        before = json.dumps(k)
        for body in bodies(k):
            for op in list(body):
                pure = not OPERATIONS[op["op"]].writes and op["op"] not in CONTROL or op["op"] == "buffer"
                if pure and op.get("results") and all(used[r] == 1 for r in op["results"]):
                    body.remove(op)
        k["params"] = [p for p in k.get("params", []) if used[p["id"]] > 1 or p.get("role") in ("out", "inout")]
        views = {p["id"] for p in k["params"]}
        touched = {n for body in bodies(k) for op in body for n in names(op)}
        k["params"] = [p for p in k["params"] if p["id"] in touched or p["kind"] != "view"]
        views = {p["id"] for p in k["params"]}
        k["noalias"] = [g for g in ([v for v in s if v in views] for s in k.get("noalias", [])) if len(g) > 1]
        shown = set(names([k["params"], k["body"]]))
        k["symbols"] = [s for s in k.get("symbols", []) if s["id"] in shown]
        if json.dumps(k) == before:
            return m


def smaller(m: Json) -> Iterator[Json]:
    """Kernels one step smaller, the boldest steps first."""
    k = m["kernels"][0]
    flat = [(n, i) for n, body in enumerate(bodies(k)) for i in range(len(body))]
    for n, i in reversed(flat):  # drop an operation and what needs it
        c = copy.deepcopy(m)
        body = list(bodies(c["kernels"][0]))[n]
        op = body.pop(i)
        without(c, set(op.get("results", ())))
        yield c
    for n, i in reversed(flat):  # pass an operand through
        op = list(bodies(k))[n][i]
        if len(op.get("results", ())) != 1:
            continue
        for f in OPERATIONS[op["op"]].operand_fields:
            v = op.get(f)
            for x in [v] if isinstance(v, str) else v or []:
                c = copy.deepcopy(m)
                list(bodies(c["kernels"][0]))[n].pop(i)
                yield renamed(c, op["results"][0], x)
    symbols = [s["id"] for s in k.get("symbols", [])]
    for s in symbols:
        for to in (2, *[t for t in symbols if t < s]):
            c = copy.deepcopy(m)
            c["kernels"][0]["symbols"] = [x for x in c["kernels"][0]["symbols"] if x["id"] != s]
            yield renamed(c, s, to)
    for n, i in flat:  # fewer options of an operation
        for f in ("valid", "fill", "init"):
            if f in list(bodies(k))[n][i]:
                c = copy.deepcopy(m)
                del list(bodies(c["kernels"][0]))[n][i][f]
                yield c
    if k.get("noalias"):
        c = copy.deepcopy(m)
        c["kernels"][0]["noalias"] = []
        yield c


def legal(m: Json) -> bool:
    try:
        load_bytes(json.dumps(m).encode())
    except EqkirError:
        return False
    return True


def stripped(m: Json) -> Json:
    """Without locations and helpers that nothing calls."""

    def clean(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: clean(v) for k, v in x.items() if k != "loc"}
        return [clean(v) for v in x] if isinstance(x, list) else x

    m = clean(m)
    called = set(names([m["kernels"], m.get("helpers", [])]))
    m["helpers"] = [h for h in m.get("helpers", []) if h["name"] in called]
    return m


def shrink(text: str, seed: int, emit: bool, seconds: float = 60.0) -> tuple[str, Result]:
    """(JSON of the smallest kernel found, its result). The kernel given must fail."""
    first = check(text, seed, emit)
    end = time.monotonic() + seconds
    wanted = (first.status, first.stage, first.code)
    best, result = stripped(json.loads(text)), first

    def fails(m: Json) -> Result | None:
        if not legal(m):
            return None
        r = check(json.dumps(m), seed, emit)
        return r if (r.status, r.stage, r.code) == wanted else None

    tidy = swept(best)
    got = fails(tidy)
    if got:
        best, result = tidy, got
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for c in smaller(best):
            if time.monotonic() > end:
                break
            c = swept(c)
            if len(json.dumps(c)) >= len(json.dumps(best)):
                continue
            got = fails(c)
            if got:
                best, result, progress = c, got, True
                break
    return json.dumps(best), result
