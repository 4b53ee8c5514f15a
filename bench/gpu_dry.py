"""A workload's artifacts in Triton's interpreter on numpy arrays, at its tiny sizes: the structured inputs, the formula and the calling
convention are the GPU's, only the device is not. Needs eqkir (whose check repairs Triton's interpreter) and ``TRITON_INTERPRET=1``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from arrays import Numpy
from artifacts import candidates, load, order, workload
from compare import Reference, sizes_of
from contents import arguments

from eqkir.emit.triton import check_patch
from eqkir.emit.triton.check_tensor import GUARD, Tensor

check_patch.install()


def tensor(x: Any, writable: bool) -> Tensor:
    """A guarded tensor over a copy of `x`."""
    raw = np.frombuffer(bytearray(np.ascontiguousarray(x).tobytes() or b"\0"), np.uint8)
    strides = tuple(int(np.prod([max(n, 1) for n in x.shape[k + 1 :]], dtype=np.int64)) for k in range(x.ndim))
    t = Tensor(raw, x.dtype.name, x.shape, strides, 0)
    t.allow(GUARD.memory(raw), writable)
    return t


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """`request`: folder. ``{"status": "ok", "worst": …}``, or what is wrong."""
    folder = Path(request["folder"])
    entry = workload(folder)
    sizes = {**sizes_of(entry, tiny=True), **entry["constexprs"]}
    views, xp, worst = entry["views"], Numpy(request.get("seed", 0)), 0.0
    made = arguments(xp, views, entry["tiny"]["data"], sizes)
    reference = Reference(xp, entry["kernel"], views, {n: made[n] for n, v in views.items() if v["role"] != "out"}, sizes)
    for path in candidates(folder):
        GUARD.clear()
        tensors = {n: tensor(made[n], v["role"] != "in") for n, v in views.items()}
        try:
            load(path).launch(*(tensors[n] if n in tensors else sizes[n] for n in order(path)))
        except Exception as e:
            return {"status": f"{path.parent.name}: {type(e).__name__}: {e.__cause__ or e}"[:400]}
        verdicts = reference.verdicts({n: tensors[n].array() for n, v in views.items() if v["role"] != "in"})
        if wrong := [str(v) for v in verdicts if not v.ok]:
            return {"status": f"wrong: {path.parent.name}: {'; '.join(wrong)}"}
        worst = max([worst, *(v.worst for v in verdicts)])
    return {"status": "ok", "worst": worst}
