"""Checks of emitted modules without a GPU: run them in Triton's interpreter, compile them offline. Batched, in worker processes, cached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
