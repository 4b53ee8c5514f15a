"""Running emitted modules in Triton's interpreter (worker side)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from eqkir.emit.triton import check_patch
from eqkir.emit.triton.check_tensor import GUARD, Tensor
from eqkir.emit.triton.check_worker import load

check_patch.install()


def handle(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """`job`: source, cases. One outcome a case: ``{"views": name -> dense array}`` or ``{"error": text}``."""
    try:
        module = load(job["source"], folder)
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}", "outcomes": []}
    return {"outcomes": [run(module, c) for c in job["cases"]]}


def run(module: Any, case: dict[str, Any]) -> dict[str, Any]:
    """`case`: memories (byte arrays), views (name -> memory, dtype, shape, strides, byte offset, writable), scalars."""
    GUARD.clear()
    marks = [GUARD.memory(m) for m in case["memories"]]
    tensors: dict[str, Tensor] = {}
    for name, (m, dtype, shape, strides, offset, writable) in case["views"].items():
        t = tensors[name] = Tensor(case["memories"][m], dtype, tuple(shape), tuple(strides), offset)
        t.allow(marks[m], writable)
    try:
        module.launch(*tensors.values(), *case["scalars"].values())
    except Exception as e:
        cause = e.__cause__ or e
        return {"error": f"{type(cause).__name__}: {cause}"}
    return {"views": {n: np.array(t.array()) for n, t in tensors.items()}}
