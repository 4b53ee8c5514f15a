"""One workload in one process: check every candidate, then time candidates and peers side by side. Needs torch, triton, numpy."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from formulas import JOBS, Reference, Tensors
from timing import copy_bandwidth, matrix_rate, sets_needed, side_by_side

DTYPES = {
    "bool": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "f8e4m3fn": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}  # fmt: skip


def load(path: Path) -> ModuleType:
    """An emitted module."""
    spec = importlib.util.spec_from_file_location(f"candidate_{path.parent.name}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fresh(view: dict[str, Any], extents: dict[str, int]) -> torch.Tensor:
    """Random contents of a view that is read, from the process's own entropy."""
    shape = [e if isinstance(e, int) else extents[e] for e in view["shape"]]
    t = DTYPES[view["dtype"]]
    if t == torch.bool:
        return torch.rand(shape, device="cuda") < 0.5
    if not t.is_floating_point:
        return torch.randint(-100, 101, shape, device="cuda", dtype=torch.int8 if t == torch.int8 else torch.int64).to(t)
    if t.itemsize == 1:
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16).to(t)
    return torch.randn(shape, device="cuda", dtype=t)


def poisoned(view: dict[str, Any], extents: dict[str, int]) -> torch.Tensor:
    """An output that nobody has written: NaN, or a conspicuous integer; a bool holds the byte 0x5A's truth in every second place."""
    shape = [e if isinstance(e, int) else extents[e] for e in view["shape"]]
    t = DTYPES[view["dtype"]]
    if t == torch.bool:
        return (torch.arange(max(1, torch.Size(shape).numel()), device="cuda") % 2 == 0)[: torch.Size(shape).numel()].reshape(shape)
    return torch.full(shape, float("nan") if t.is_floating_point else 0x5A, device="cuda", dtype=t)


def arguments(views: dict[str, Any], extents: dict[str, int]) -> Tensors:
    return {n: poisoned(v, extents) if v["role"] == "out" else fresh(v, extents) for n, v in views.items()}


class Checker:
    """Fresh inputs with their f64 results; every candidate gets copies of what it may change, and poisoned outputs."""

    def __init__(self, job: Any, views: dict[str, Any], extents: dict[str, int], scalars: dict[str, Any]) -> None:
        self.views, self.extents, self.scalars = views, extents, scalars
        self.inputs = {n: fresh(v, extents) for n, v in views.items() if v["role"] != "out"}
        self.reference = Reference(job, {**self.inputs, **scalars})

    def mistakes(self, launch: Callable[..., object]) -> dict[str, str]:
        """What is wrong with one launch; empty when right."""
        args = {}
        for n, v in self.views.items():
            role = v["role"]
            args[n] = self.inputs[n] if role == "in" else self.inputs[n].clone() if role == "inout" else poisoned(v, self.extents)
        launch(**args, **self.scalars)
        torch.cuda.synchronize()
        return self.reference.mistakes({n: args[n] for n, v in self.views.items() if v["role"] != "in"})


def floor(entry: dict[str, Any], views: dict[str, Any], extents: dict[str, int]) -> dict[str, Any]:
    """The roofline from what this process measures: every view once (inout twice) at copy bandwidth, flops at the library's rate."""
    size = 0
    for v in views.values():
        n = DTYPES[v["dtype"]].itemsize
        for e in v["shape"]:
            n *= e if isinstance(e, int) else extents[e]
        size += 2 * n if v["role"] == "inout" else n
    bandwidth = copy_bandwidth()
    memory_ms, flop_ms, rate = size / bandwidth * 1e3, 0.0, 0.0
    if entry.get("flops"):
        rate = matrix_rate(entry["flop_dtype"])
        flop_ms = entry["flops"] / rate * 1e3
    bound = "memory" if memory_ms >= flop_ms else "matrix"
    return {
        "floor_ms": max(memory_ms, flop_ms),
        "bound": bound,
        "bytes": size,
        "copy_tb_per_s": bandwidth / 1e12,
        "tflop_per_s": rate / 1e12,
    }


def compiled(call: Callable[[Tensors], Tensors], names: list[str]) -> Callable[..., Any]:
    return torch.compile(lambda *ts: call(dict(zip(names, ts))), mode="max-autotune-no-cudagraphs", dynamic=False)


def measure(folder: Path, seconds: float, with_compile: bool) -> dict[str, Any]:
    """The row of a workload. status ``ok``, or what went wrong; a candidate that computes something wrong is never timed."""
    entry = json.loads((folder / "workload.json").read_text())
    views, extents, scalars = entry["views"], entry["shapes"], entry.get("scalars", {})
    job = JOBS[entry["kernel"]]
    row: dict[str, Any] = {"workload": entry["name"], "shapes": extents, "gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    checker = Checker(job, views, extents, scalars)
    candidates: dict[str, ModuleType] = {}
    table: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*/kernel.py")):
        name = path.parent.name
        table[name] = dict(json.loads((path.parent / "report.json").read_text()))
        try:
            start = time.perf_counter()
            module = load(path)
            wrong = checker.mistakes(module.launch)
            table[name]["first_seconds"] = time.perf_counter() - start
        except Exception as e:
            wrong = {"error": f"{type(e).__name__}: {e}"[:500]}
        if wrong:
            table[name]["wrong"] = wrong
        else:
            candidates[name] = module
    del checker
    torch.cuda.empty_cache()
    first = min(table)
    row["candidates"] = table
    row["predicted_ms"] = table[first].get("cost_ns", 0.0) * 1e-6
    if first not in candidates:
        return {**row, "status": f"wrong: {table[first]['wrong']}"}

    row.update(floor(entry, views, extents))
    sets = [arguments(views, extents) for _ in range(sets_needed(row["bytes"]))]
    calls: dict[str, list[Callable[[], object]]] = {}
    for name, module in candidates.items():
        calls[name] = [_bind(module.launch, {**s, **scalars}) for s in sets]
    errors: dict[str, str] = {}
    reads = [n for n, v in views.items() if v["role"] != "out"]
    peers = {"eager": job.call if "E" in entry["peers"] else None, "library": job.library if "L" in entry["peers"] else None}
    for name, call in peers.items():
        if call:
            calls[name] = [_bind_one(call, {**{n: s[n] for n in reads}, **scalars}) for s in sets]
    if with_compile and "C" in entry["peers"]:
        names = [*reads, *scalars]
        fn = compiled(job.call, names)
        calls["compile"] = [_bind_list(fn, [*(s[n] for n in reads), *scalars.values()]) for s in sets]
    for name in [n for n in ("eager", "library", "compile") if n in calls]:
        try:
            calls[name][0]()
            torch.cuda.synchronize()
        except Exception as e:
            errors[name] = f"{type(e).__name__}: {e}"[:200]
            del calls[name]
    times = side_by_side(calls, seconds)
    for name in candidates:
        table[name]["ms"] = times[name]["ms"]
        table[name]["min_ms"] = times[name]["min"]
    row["peers"] = {n: times[n] for n in times if n not in candidates} | {n: {"error": e} for n, e in errors.items()}
    row["ms"] = times[first]["ms"]
    row["best"] = min(candidates, key=lambda n: times[n]["ms"])
    row["best_ms"] = times[row["best"]]["ms"]
    row["percent_of_floor"] = 100 * row["floor_ms"] / row["ms"]
    row["host_us"] = host_cost(calls[first][0])
    return {**row, "status": "ok"}


def _bind(launch: Callable[..., object], kwargs: Tensors) -> Callable[[], object]:
    return lambda: launch(**kwargs)


def _bind_one(call: Callable[[Tensors], Tensors], t: Tensors) -> Callable[[], object]:
    return lambda: call(t)


def _bind_list(call: Callable[..., object], ts: list[Any]) -> Callable[[], object]:
    return lambda: call(*ts)


def host_cost(call: Callable[[], object], n: int = 200) -> float:
    """Microseconds of the host for one repeat launch, while the device is busy."""
    torch.cuda.synchronize()
    torch.cuda._sleep(400_000_000)
    start = time.perf_counter()
    for _ in range(n):
        call()
    end = time.perf_counter()
    torch.cuda.synchronize()
    return (end - start) / n * 1e6
