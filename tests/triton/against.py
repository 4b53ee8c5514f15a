"""One program three ways: structured and legal on the program interpreter, emitted in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqkir.emit.triton import Artifact, emit
from eqkir.emit.triton.checks import Case, Outcome, interpret_batch
from eqkir.program.interp import run
from eqkir.program.interp_memory import Buffer
from eqkir.program.model import Program

Array = np.ndarray[Any, np.dtype[Any]]
EPS = 2.0**-24


@dataclass(frozen=True)
class Trial:
    """`bound`: views -> allowed absolute difference (array), from the inputs; absent views must agree bit by bit (NaN as NaN)."""

    name: str
    program: Program
    arrays: Mapping[str, Array]
    scalars: Mapping[str, float | int | bool] = field(default_factory=dict)
    bound: Callable[[Mapping[str, Array]], Mapping[str, Array]] = lambda arrays: {}


def own(a: Array) -> Array:
    """A copy with the same memory around the view: strides, offset and neighbours."""
    root: Any = a
    while isinstance(root.base, np.ndarray):
        root = root.base
    memory = np.array(root, order="K", copy=True)
    shift = a.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    flat = memory.reshape(-1) if memory.flags.c_contiguous else memory.T.reshape(-1)
    return np.ndarray(a.shape, a.dtype, flat.view(np.uint8), shift, a.strides)


def on_program(p: Program, t: Trial) -> dict[str, Array]:
    copies = {k: own(v) for k, v in t.arrays.items()}
    run(p, {**{k: Buffer.of(v) for k, v in copies.items()}, **t.scalars})
    return copies


def bits(a: Array) -> Array:
    """Elements as integers, every NaN the same."""
    if a.dtype.kind in "biu":
        return a.astype(np.int64)
    raw = np.ascontiguousarray(a).view(f"u{a.itemsize}").astype(np.int64)
    return np.where(np.isnan(a.astype(np.float64)), -1, raw)


def compare(t: Trial, got: Mapping[str, Array], want: Mapping[str, Array], what: str) -> None:
    allowed = t.bound(t.arrays)
    for k, w in want.items():
        g = got[k]
        if k not in allowed:
            bad = bits(g) != bits(w)
        else:
            x, y = g.astype(np.float64), w.astype(np.float64)
            with np.errstate(invalid="ignore"):
                near = np.abs(x - y) <= allowed[k]
            bad = ~((bits(g) == bits(w)) | near)
        assert not bad.any(), f"{t.name}: {what}: {k} differs at {np.argwhere(bad)[:4].tolist()}: {g[bad][:4]} against {w[bad][:4]}"


def check_all(trials: Sequence[Trial]) -> list[Artifact]:
    """Structured = legal = emitted, for every trial; one batch for the interpreter."""
    artifacts = [emit(t.program) for t in trials]
    outcomes: list[Outcome] = [
        r[0] for r in interpret_batch([(a, [Case(t.arrays, t.scalars)]) for a, t in zip(artifacts, trials, strict=True)])
    ]
    for t, a, o in zip(trials, artifacts, outcomes, strict=True):
        structured = on_program(t.program, t)
        compare(t, on_program(a.legal, t), structured, "legal")
        assert not o.error, f"{t.name}: {o.error}"
        compare(t, o.arrays, structured, "emitted")
    return artifacts


def matmul_bound(arrays: Mapping[str, Array], out: str = "c", eps: float = EPS, start: float = 0.0) -> dict[str, Array]:
    """Any order of K products and sums in f32: (K + 2) roundings of the sum of magnitudes, and one rounding of the result per order."""
    a, b = (np.abs(np.nan_to_num(arrays[k].astype(np.float64), posinf=0, neginf=0)) for k in ("a", "b"))
    total = a @ b + start
    return {out: 2 * (a.shape[-1] + 2) * EPS * total + 2 * eps * total}


def softmax_bound(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Quotients of the same exponentials by sums of N positive terms in any order."""
    return {"y": np.full(arrays["y"].shape, 2 * (arrays["x"].shape[-1] + 4) * EPS)}


def poisoned(shape: Sequence[int], dtype: Any = np.float32) -> Array:
    """An output full of NaN (all ones for integers)."""
    a = np.empty(tuple(shape), dtype)
    a.reshape(-1).view(np.uint8)[:] = 0xFF
    return a


def inside(a: Array, fill: float = float("nan")) -> Array:
    """`a` as a view with unequal padding around it, full of `fill`."""
    big = np.full([n + 3 for n in a.shape], fill, a.dtype)
    view = big[tuple(slice(1, 1 + n) for n in a.shape)]
    view[...] = a
    return view
