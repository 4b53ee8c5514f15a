"""One workload on the GPU: check every candidate, then time candidates and peers side by side. Needs torch, triton, numpy."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from arrays import Torch
from artifacts import candidates, load, order, workload
from compare import Reference, sizes_of
from contents import arguments, poison
from peers import EAGER, LIBRARY
from timing import copy_bandwidth, matrix_rate, sets_needed, side_by_side

Arrays = dict[str, Any]
XP = Torch("cuda")


@cache
def bandwidth() -> float:
    return copy_bandwidth()


@cache
def rate(dtype: str) -> float:
    return matrix_rate(dtype)


class Checker:
    """Fresh inputs with their f64 results; every candidate gets copies of what it may change, and poisoned outputs."""

    def __init__(self, entry: dict[str, Any], sizes: dict[str, Any], data: dict[str, Any]) -> None:
        self.views, self.sizes = entry["views"], sizes
        made = arguments(XP, self.views, data, sizes)
        self.inputs = {n: made[n] for n, v in self.views.items() if v["role"] != "out"}
        del made
        self.reference = Reference(XP, entry["kernel"], self.views, self.inputs, sizes)

    def verdicts(self, launch: Callable[..., object], names: list[str]) -> list[Any]:
        """Of one launch, an output each; `names`: its arguments in order."""
        args = {}
        for n, v in self.views.items():
            role = v["role"]
            args[n] = self.inputs[n] if role == "in" else self.inputs[n].clone() if role == "inout" else poison(XP, v, self.sizes)
        launch(*arranged(names, args, self.sizes))
        torch.cuda.synchronize()
        return self.reference.verdicts({n: args[n] for n, v in self.views.items() if v["role"] != "in"})


def arranged(names: list[str], arrays: Arrays, sizes: dict[str, Any]) -> list[Any]:
    """Arguments of a launch in order: views, and scalars from the sizes."""
    return [arrays[n] if n in arrays else sizes[n] for n in names]


def floor(entry: dict[str, Any]) -> dict[str, Any]:
    """The roofline from what this process measures: the workload's bytes at copy bandwidth, its flops at the library's rate."""
    memory_ms, flop_ms, flops = entry["bytes"] / bandwidth() * 1e3, 0.0, 0.0
    if entry.get("flops"):
        flops = rate(entry["flop_dtype"])
        flop_ms = entry["flops"] / flops * 1e3
    return {
        "floor_ms": max(memory_ms, flop_ms),
        "bound": "memory" if memory_ms >= flop_ms else "matrix",
        "bytes": entry["bytes"],
        "copy_tb_per_s": bandwidth() / 1e12,
        "tflop_per_s": flops / 1e12,
    }


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """`request`: folder, seconds, peers (kinds), compile (whether torch.compile is a peer here), tiny, warps. The row of the workload;
    after an error of the device it is the process's last."""
    folder = Path(request["folder"])
    row: dict[str, Any] = {"workload": folder.name, "gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    start = time.perf_counter()
    try:
        if request.get("warps"):
            at_warps(folder, row, request["warps"])
        else:
            measure(folder, row, request)
    except torch.OutOfMemoryError as e:
        row["status"] = f"out of memory: {str(e)[:160]}"
    except Exception as e:
        row |= {"status": f"{type(e).__name__}: {e}"[:400], "last": fatal(e)}
    gc.collect()
    if not row.get("last"):
        torch.cuda.empty_cache()
    row["wall_seconds"] = time.perf_counter() - start
    return row


def fatal(e: Exception) -> bool:
    """Whether the device is unusable for this process from now on."""
    text = str(e)
    return "CUDA error" in text or "illegal" in text or "launch failure" in text or "misaligned" in text


def measure(folder: Path, row: dict[str, Any], request: dict[str, Any]) -> None:
    """Fill the row. status ``ok``, or what went wrong; a candidate that computes something wrong is never timed.

    With ``tiny`` in the request it is checked at the tiny sizes and not timed: ``right``.
    """
    entry = workload(folder)
    sizes = sizes_of(entry)
    row |= {"shapes": entry["shapes"], "kernel": entry["kernel"], "note": entry.get("note", "")}
    paths = candidates(folder)
    table: dict[str, dict[str, Any]] = {p.parent.name: dict(json.loads((p.parent / "report.json").read_text())) for p in paths}
    first = min(table)
    row |= {"candidates": table, "predicted_ms": table[first].get("cost_ns", 0.0) * 1e-6}
    tiny = request["tiny"]
    if tiny:
        sizes = {**sizes_of(entry, tiny=True), **entry["constexprs"]}
    checker = Checker(entry, sizes, entry["tiny"]["data"] if tiny else entry["data"])
    good: dict[str, tuple[ModuleType, list[str]]] = {}
    for path in paths:
        name = path.parent.name
        try:
            start = time.perf_counter()
            module, names = load(path), order(path)
            verdicts = checker.verdicts(module.launch, names)
        except Exception as e:
            if fatal(e):
                raise
            table[name]["wrong"] = [f"{type(e).__name__}: {e}"[:400]]
            continue
        table[name] |= {"first_seconds": time.perf_counter() - start, "worst": max((v.worst for v in verdicts), default=0.0)}
        table[name]["where"] = next((f"{v.name}[{v.at}]" for v in verdicts if v.worst == table[name]["worst"]), "")
        if wrong := [str(v) for v in verdicts if not v.ok]:
            table[name]["wrong"] = wrong
        else:
            good[name] = module, names
    inputs = checker.inputs
    del checker
    torch.cuda.empty_cache()
    row["worst"], row["where"] = table[first].get("worst"), table[first].get("where", "")
    if first not in good:
        row["status"] = f"wrong: {'; '.join(table[first]['wrong'])}"
        return
    if tiny:
        row["status"] = "right"
        return
    row["status"] = "checked"
    row.update(floor(entry))
    sets = buffers(entry, sizes, inputs, sets_needed(entry["bytes"]))
    calls: dict[str, list[Callable[[], object]]] = {
        n: [partial(m.launch, *arranged(names, s, sizes)) for s in sets] for n, (m, names) in good.items()
    }
    errors = peers(entry, sizes, sets, request, calls)
    times = side_by_side(calls, request["seconds"])
    for name in good:
        table[name] |= {"ms": times[name]["ms"], "min_ms": times[name]["min"]}
    row["peers"] = {n: times[n] for n in times if n not in good} | {n: {"error": e} for n, e in errors.items()}
    row["ms"] = times[first]["ms"]
    row["best"] = min(good, key=lambda n: times[n]["ms"])
    row["best_ms"] = times[row["best"]]["ms"]
    row["percent_of_floor"] = 100 * row["floor_ms"] / row["ms"]
    row["host_us"] = host_cost(calls[first][0], int(max(1, min(200, 100 / row["ms"]))))
    row["status"] = "ok"


def at_warps(folder: Path, row: dict[str, Any], warps: list[int]) -> None:
    """Check the chosen candidate with other numbers of warps than its own, and time nothing. status ``right``, or what went wrong.

    The program says where threads of an instance exchange data through memory, so its result holds for any number of them.
    """
    entry = workload(folder)
    sizes = sizes_of(entry)
    row |= {"shapes": entry["shapes"], "kernel": entry["kernel"], "warps": warps}
    checker, path, wrong = Checker(entry, sizes, entry["data"]), candidates(folder)[0], []
    for n in warps:
        module = load(path)
        module.OPTIONS["num_warps"] = n
        verdicts = checker.verdicts(module.launch, order(path))
        wrong += [f"{n} warps: {v}" for v in verdicts if not v.ok]
    row["barriers"] = path.read_text().count("tl.debug_barrier()")
    row["status"] = f"wrong: {'; '.join(wrong)}" if wrong else "right"


def buffers(entry: dict[str, Any], sizes: dict[str, Any], inputs: Arrays, n: int) -> list[Arrays]:
    """`n` sets of all views, so that a rotation outruns the cache: copies of the first."""
    views = entry["views"]
    sets = []
    for i in range(n):
        sets.append({k: (inputs[k] if not i else inputs[k].clone()) if k in inputs else poison(XP, v, sizes) for k, v in views.items()})
    return sets


def peers(
    entry: dict[str, Any], sizes: dict[str, Any], sets: list[Arrays], request: dict[str, Any], calls: dict[str, list[Callable[[], object]]]
) -> dict[str, str]:
    """Add the peers that run; the errors of those that do not."""
    kernel, kinds, errors = entry["kernel"], request["peers"], {}
    made: dict[str, Callable[[], list[Callable[[], object]]]] = {}
    if "E" in kinds and "E" in entry["peers"] and kernel in EAGER:
        made["eager"] = lambda: [_bind_pair(EAGER[kernel], s, sizes) for s in sets]
    if "L" in kinds and "L" in entry["peers"] and kernel in LIBRARY:
        made["library"] = lambda: [LIBRARY[kernel](s, sizes) for s in sets]
    if request["compile"] and "C" in entry["peers"] and kernel in EAGER:
        made["compile"] = lambda: compiled(EAGER[kernel], sets, sizes)
    for name, make in made.items():
        try:
            new = make()
            new[0]()
            torch.cuda.synchronize()
            calls[name] = new
        except Exception as e:
            if fatal(e):
                raise
            errors[name] = f"{type(e).__name__}: {e}"[:200]
            torch.cuda.empty_cache()
    return errors


def compiled(call: Callable[[Arrays, dict[str, Any]], Any], sets: list[Arrays], sizes: dict[str, Any]) -> list[Callable[[], object]]:
    names = list(sets[0])
    torch.compiler.reset()
    fn = torch.compile(lambda *ts: call(dict(zip(names, ts)), sizes), mode="max-autotune-no-cudagraphs", dynamic=False)
    return [_bind_list(fn, [s[n] for n in names]) for s in sets]


def _bind_pair(call: Callable[[Arrays, dict[str, Any]], Any], t: Arrays, sizes: dict[str, Any]) -> Callable[[], object]:
    return lambda: call(t, sizes)


def _bind_list(call: Callable[..., object], ts: list[Any]) -> Callable[[], object]:
    return lambda: call(*ts)


def host_cost(call: Callable[[], object], n: int) -> float:
    """Microseconds of the host for one repeat launch, while the device is busy."""
    torch.cuda.synchronize()
    torch.cuda._sleep(40_000_000)
    start = time.perf_counter()
    for _ in range(n):
        call()
    end = time.perf_counter()
    torch.cuda.synchronize()
    return (end - start) / n * 1e6
