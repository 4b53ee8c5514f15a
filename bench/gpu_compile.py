"""Compile emitted modules for a workload's shapes into Triton's cache, without a GPU and without torch: what many processes can do at
once, so that the one that measures finds everything compiled.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import triton
from artifacts import Described, candidates, load, order, workload
from compare import sizes_of
from contents import shape
from triton.backends.compiler import GPUTarget

NAMES = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "index": "int64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip


class Absent:
    """A driver that knows the target and has no device."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """`request`: folder, capability. ``{"status": "ok", "seconds": …}``, or what went wrong with the first candidate that fails."""
    triton.runtime.driver.set_active(Absent(request.get("capability", 90)))
    folder, start = Path(request["folder"]), time.perf_counter()
    entry = workload(folder)
    sizes, wrong = sizes_of(entry), {}
    for path in candidates(folder):
        try:
            one(path, entry, sizes)
        except Exception as e:
            wrong[path.parent.name] = f"{type(e).__name__}: {e.__cause__ or e}"[:300]
    return {"status": "ok" if not wrong else str(wrong), "seconds": time.perf_counter() - start}


def one(path: Path, entry: dict[str, Any], sizes: dict[str, Any]) -> None:
    """Compile what a launch on contiguous, aligned tensors of these sizes would compile."""
    module = load(path)

    def compile_only(plan: Any, key: Any, tensors: Any, pointers: Any, scalars: Any) -> None:
        module.kernel.warmup(*tensors, *plan.integers, *scalars, *plan.flags, grid=plan.grid, **module.OPTIONS)

    module._Plan.run = compile_only
    tensors = {n: Described(NAMES[v["dtype"]], shape(v, sizes)) for n, v in entry["views"].items()}
    module.launch(*(tensors[n] if n in tensors else sizes[n] for n in order(path)))
