"""Checks of emitted modules without a GPU: run them in Triton's interpreter, compile them offline. Batched, in worker processes, cached."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from eqkir.emit.triton import check_pool
from eqkir.emit.triton.artifact import Artifact

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """Arguments of one launch: an array a view (strided, offset and overlapping ones keep their memory), a number a scalar."""

    arrays: Mapping[str, Array]
    scalars: Mapping[str, int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """`arrays`: every view after the run, dense; `error` instead when the launch raised."""

    arrays: Mapping[str, Array]
    error: str = ""


def _memory(a: Array) -> Array:
    """The bytes of the allocation under an array. Raises ValueError when that is not contiguous."""
    root: Any = a
    while isinstance(root.base, np.ndarray):
        root = root.base
    flat = root.reshape(-1) if root.flags.c_contiguous else root.T.reshape(-1) if root.flags.f_contiguous else None
    if flat is None:
        raise ValueError("the array does not lie in contiguous memory")
    return np.asarray(flat).view(np.uint8) if flat.size else np.zeros(1, np.uint8)


def pack(artifact: Artifact, case: Case) -> dict[str, Any]:
    """A case as the worker takes it. Raises KeyError for a missing argument."""
    memories: list[Array] = []
    at: dict[int, int] = {}
    views: dict[str, Any] = {}
    for v in artifact.legal.abi.views:
        if v.role == "workspace":
            continue
        a = case.arrays[v.name]
        raw = _memory(a)
        key = int(raw.__array_interface__["data"][0])
        if key not in at:
            at[key] = len(memories)
            memories.append(raw.copy())
        offset = int(a.__array_interface__["data"][0]) - key if a.size else 0
        views[v.name] = (at[key], a.dtype.name, a.shape, tuple(s // a.itemsize for s in a.strides), offset, v.role != "in")
    return {"memories": memories, "views": views, "scalars": {s.name: case.scalars[s.name] for s in artifact.legal.abi.scalars}}


def interpret_batch(jobs: Sequence[tuple[Artifact, Sequence[Case]]], processes: int = 1, seconds: float = 300.0) -> list[list[Outcome]]:
    """Run each artifact on each of its cases in Triton's interpreter, out-of-bounds accesses caught; outcomes in the same order."""
    packed = [{"source": a.source, "cases": [pack(a, c) for c in cases]} for a, cases in jobs]
    out = []
    for (_, cases), reply in zip(jobs, check_pool.ask_all("interpret", packed, processes, seconds), strict=True):
        if reply.get("error"):
            out.append([Outcome({}, reply["error"]) for _ in cases])
        else:
            out.append([Outcome(o.get("views", {}), o.get("error", "")) for o in reply["outcomes"]])
    return out


# ------------------------------------------------------------------------------------------------ offline compilation
@dataclass(frozen=True)
class Specialization:
    """What a launch fixes: `even` extents (no masks), `divisible` extents and strides (by 16), `aligned` pointers (to 16 bytes), `wide`
    64-bit index arithmetic, `ones` unit strides by parameter name (default: the last axis of every view), `spread` over two grid axes."""

    name: str = "even"
    even: bool = True
    divisible: bool = True
    wide: bool = False
    aligned: bool = True
    spread: bool = False
    ones: tuple[str, ...] | None = None


EVEN = Specialization()
RAGGED = Specialization("ragged", even=False)
ODD = Specialization("odd", even=False, divisible=False)
WIDE = Specialization("wide", even=False, divisible=False, wide=True, aligned=False, spread=True, ones=())


@dataclass(frozen=True)
class Compiled:
    """`findings`: PTX instructions that the program does not permit; `error` instead when compilation failed."""

    target: int
    specialization: str
    registers: int = 0
    spills: int = 0
    stack: int = 0
    shared: int = 0
    warps: int = 0
    findings: tuple[str, ...] = ()
    ptx: str = ""
    error: str = ""
    log: str = ""

    @property
    def clean(self) -> bool:
        return not self.error and not self.findings and not self.spills


_INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][a-z0-9_]*(?:\.[a-z0-9_:]+)+)\s", re.M)
#: approximate, flushing; maxima and minima that drop a NaN
_SUSPECT = re.compile(r"\.approx|\.full|\.ftz|\.tf32|^(?:max|min)\.b?f(?:16|32)")


def scan(ptx: str, permits: Sequence[str], fused: bool) -> tuple[str, ...]:
    """Approximate, flushing, fused and NaN-dropping instructions beyond those permitted."""
    found = {m for m in _INSTRUCTION.findall(ptx) if _SUSPECT.search(m) and m not in permits}
    if not fused:
        found |= {m for m in _INSTRUCTION.findall(ptx) if m.startswith("fma.")}
    return tuple(sorted(found))


def default_ones(artifact: Artifact) -> tuple[str, ...]:
    """Names of the last stride of every view: row-major views."""
    strides = [n for n, kind in artifact.arguments if kind == "stride"]
    out, k = [], 0
    for v in artifact.legal.abi.views:
        k += len(v.shape)
        if v.shape:
            out.append(strides[k - 1])
    return tuple(out)


def compile_batch(
    jobs: Sequence[tuple[Artifact, int, Specialization]], processes: int = 1, seconds: float = 600.0, cache: Path | None = None
) -> list[Compiled]:
    """Compile each artifact for a compute capability (80, 90, 100) and specialization; `cache`: a folder for results, keyed by everything
    that they depend on."""
    out: list[Compiled | None] = [None] * len(jobs)
    todo: list[tuple[int, dict[str, Any], str]] = []
    for n, (a, capability, spec) in enumerate(jobs):
        if capability < a.capability:
            out[n] = Compiled(capability, spec.name, error=f"needs compute capability {a.capability}")
            continue
        ones = default_ones(a) if spec.ones is None else spec.ones
        job = {"source": a.source, "arguments": a.arguments, "capability": capability, "spec": {**asdict(spec), "ones": ones}}
        key = hashlib.sha256(json.dumps([job, a.permits, a.fused, _version()], sort_keys=True).encode()).hexdigest()
        hit = _read(cache, key)
        if hit:
            out[n] = replace(hit, findings=scan(hit.ptx, a.permits, a.fused))  # judged anew: what is refused may have changed
        else:
            todo.append((n, job, key))
    for (n, _, key), reply in zip(todo, check_pool.ask_all("compile", [j for _, j, _ in todo], processes, seconds), strict=True):
        a, capability, spec = jobs[n]
        if reply.get("error"):
            out[n] = Compiled(capability, spec.name, error=reply["error"], log=reply.get("log", ""))
            continue
        fields = {k: reply[k] for k in ("registers", "spills", "stack", "shared", "warps", "ptx")}
        out[n] = Compiled(capability, spec.name, findings=scan(reply["ptx"], a.permits, a.fused), **fields)
        _write(cache, key, out[n])
    return [c for c in out if c is not None]


def _version() -> str:
    from importlib.metadata import version

    return version("triton")


def _read(cache: Path | None, key: str) -> Compiled | None:
    if cache is None:
        return None
    try:
        data = json.loads((cache / f"{key}.json").read_text())
        return Compiled(**{**data, "findings": tuple(data["findings"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write(cache: Path | None, key: str, result: Compiled | None) -> None:
    """Whole or not at all: written beside and renamed."""
    if cache is None or result is None:
        return
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=cache, delete=False, suffix=".tmp") as f:
        json.dump(asdict(result), f)
    os.replace(f.name, cache / f"{key}.json")
