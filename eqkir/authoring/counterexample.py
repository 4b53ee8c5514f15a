"""A refutation as files that replay: the kernel, the program that the rule made of it, and the inputs on which they part.

eqkir run kernel.json --engine program --program program.json --inputs inputs.npz
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from eqkir.authoring.trial import Failure, Input, Subject
from eqkir.base.diagnostics import EqkirError
from eqkir.kir import dumps, load_bytes
from eqkir.kir.builder import module
from eqkir.kir.memory import ViewArg
from eqkir.kir.model import Kernel, View
from eqkir.program.serialize import to_json


def write(folder: Path, s: Subject, f: Failure) -> list[Path]:
    """Write what there is of a refutation; the paths. A failure without a program (a broken invariant) has the kernel alone."""
    folder.mkdir(parents=True, exist_ok=True)
    out = [folder / "kernel.json"]
    out[0].write_text(dumps(module(s.kernel, name=s.kernel.name)))
    if f.program is not None:
        out.append(folder / "program.json")
        out[-1].write_text(json.dumps(to_json(f.program), sort_keys=True) + "\n")
    if f.input is not None:
        out.append(folder / "inputs.npz")
        with out[-1].open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays(s.kernel, f.input))
    about = {"kind": f.kind, "message": f.message, "symbols": f.input.symbols if f.input else {}, "permit": list(s.permit)}
    out.append(folder / "failure.json")
    out[-1].write_text(json.dumps(about, indent=1, sort_keys=True) + "\n")
    return out


def arrays(kernel: Kernel, x: Input) -> dict[str, Any]:
    """Arrays of the views that are read and of the scalars; what numpy has no dtype for as unsigned integers of the same bits."""
    out = {}
    for p in kernel.params:
        value = x.args.get(p.id)
        if isinstance(p, View) and p.role != "out" and isinstance(value, ViewArg):
            a = np.ascontiguousarray(value.array())
            out[p.id] = a if a.dtype.kind in "biuf" and a.dtype.isbuiltin == 1 else a.view(f"u{a.dtype.itemsize}")
        elif value is not None and not isinstance(value, ViewArg):
            out[p.id] = np.asarray(value)
    return out


def smaller(kernel: Kernel, refuted: Callable[[Kernel], bool], tries: int = 16) -> Kernel:
    """The kernel less the operations, views and symbols without which it is still refuted; at most `tries` are asked about."""
    text = json.loads(dumps(module(kernel, name=kernel.name)))
    best = kernel
    body = text["kernels"][0]["body"]
    for i in reversed(range(len(body))):
        if not tries:
            break
        if i >= len(text["kernels"][0]["body"]):
            continue
        less = json.loads(json.dumps(text))
        op = less["kernels"][0]["body"].pop(i)
        if "results" in op and op["results"] and _used(less["kernels"][0]["body"], op["results"]):
            continue
        made = _read(less)
        if made is None:
            continue
        if op.get("results") or _spend(refuted, made):  # what nothing reads changes nothing
            best, text = made, less
        tries -= not op.get("results")
    return _parameters(text) or best


def _spend(refuted: Callable[[Kernel], bool], k: Kernel) -> bool:
    try:
        return refuted(k)
    except EqkirError:
        return False


def _used(body: list[Any], results: Any) -> bool:
    text = json.dumps(body)
    names = results if isinstance(results, list) else [results]
    return any(f'"{n}"' in text for n in names)


def _parameters(text: dict[str, Any]) -> Kernel | None:
    """Without the parameters and symbols that nothing speaks of."""
    k = text["kernels"][0]
    body = json.dumps(k["body"])
    k["params"] = [p for p in k["params"] if f'"{p["id"]}"' in body]
    kept = {p["id"] for p in k["params"]}
    k["noalias"] = [x for x in ([n for n in group if n in kept] for group in k.get("noalias", [])) if len(x) > 1]
    rest = json.dumps([k["params"], k["body"], k.get("equal", [])])
    k["symbols"] = [s for s in k["symbols"] if f'"{s["id"]}"' in rest]
    return _read(text)


def _read(text: dict[str, Any]) -> Kernel | None:
    from eqkir.kir.helpers import link

    try:
        return link(load_bytes(json.dumps(text).encode())).kernels[0]
    except EqkirError:
        return None
