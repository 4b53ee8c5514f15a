"""CUDA-event timing of several implementations side by side, and the machine's own limits measured in the same process.

Needs torch alone. Times are medians in milliseconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

import torch

#: the last-level cache that rotating buffers must outrun, times this
L2_FACTOR = 4


def sets_needed(bytes_of_one: int) -> int:
    """How many independent sets of buffers a rotation needs so that its total is at least four times the L2 cache."""
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    return int(max(1, min(64, -(-L2_FACTOR * l2 // max(1, bytes_of_one)))))


#: a call that takes this many milliseconds is timed a few times only
SLOW = 100.0


def side_by_side(calls: Mapping[str, Sequence[Callable[[], object]]], seconds: float = 1.0, rounds: int = 7) -> dict[str, dict[str, float]]:
    """Time each implementation in turn, round after round, so that clocks and heat treat all alike.

    `calls`: name -> one callable per set of buffers, called in rotation. A round starts with a device-side sleep during which the host
    queues ahead, so that launch cost on the host does not count as device time unless it exceeds the kernel's. Slow ones run twice after
    the first call. Returns, per name, median, minimum and maximum over all calls (ms) and the number of calls.
    """
    estimate: dict[str, float] = {}
    times: dict[str, list[float]] = {}
    for name, fs in calls.items():
        fs[0]()
        (first,) = _batch(fs, 1)
        times[name] = []
        if first > SLOW:
            times[name], estimate[name] = [first, *_batch(fs, 1)], first
            continue
        for f in fs[1:]:
            f()
        estimate[name] = max(1e-3, statistics.median(_batch(fs, 5)))
    for _ in range(rounds):
        for name, fs in calls.items():
            if estimate[name] <= SLOW:
                n = int(max(3, min(100, seconds * 1e3 / rounds / estimate[name])))
                times[name] += _batch(fs, n)
    return {name: {"ms": statistics.median(t), "min": min(t), "max": max(t), "calls": float(len(t))} for name, t in times.items()}


def _batch(fs: Sequence[Callable[[], object]], n: int) -> list[float]:
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(n)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(n)]
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000 if n < 5 else 6_000_000)
    for i in range(n):
        starts[i].record()
        fs[i % len(fs)]()
        ends[i].record()
    torch.cuda.synchronize()
    return [s.elapsed_time(e) for s, e in zip(starts, ends)]


def copy_bandwidth() -> float:
    """Bytes per second of a device-to-device copy, read and write counted (2 GiB each way)."""
    a = torch.empty(2**31, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    a.random_()
    ms = side_by_side({"copy": [lambda: b.copy_(a)]}, 0.3, 3)["copy"]["ms"]
    return float(2 * a.numel() / (ms * 1e-3))


def matrix_rate(dtype: str) -> float:
    """Flop per second of the library's 8192³ product of that dtype on random data (f32 without TF32)."""
    n = 8192 if dtype != "f32" else 4096
    a, b = torch.randn(n, n, device="cuda"), torch.randn(n, n, device="cuda")
    if dtype in ("bf16", "f16", "f32"):
        t = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
        torch.backends.cuda.matmul.allow_tf32 = False
        x, y = a.to(t), b.to(t)
        call = lambda: x @ y  # noqa: E731
    elif dtype == "i8":
        x, y = (a * 30).to(torch.int8), (b * 30).to(torch.int8).t()
        call = lambda: torch._int_mm(x, y)  # noqa: E731
    elif dtype == "f8e4m3fn":
        x, y = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t()
        one = torch.ones((), device="cuda")
        call = lambda: torch._scaled_mm(x, y, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)  # noqa: E731
    else:
        raise ValueError(f"no matrix rate for {dtype}")
    ms = side_by_side({"mm": [call]}, 0.5, 3)["mm"]["ms"]
    return 2 * n**3 / (ms * 1e-3)
