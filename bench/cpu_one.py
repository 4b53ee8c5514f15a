"""A worker of the CPU benchmark: one implementation with a fixed number of threads in a process of its own.

``python bench/cpu_one.py`` answers requests (`worker_pool`): ``prepare`` makes the inputs (the same in every process), the call and, where
asked, the comparison with the f64 formula; ``time`` repeats the call; ``calls`` measures what calls cost; ``about`` tells versions. Kinds
of ``prepare``: eqkir (needs the artifacts, numpy and ctypes alone), numpy, torch, compile (torch.compile), copy (as many bytes as the
workload moves, half of them read and half written).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from arrays import Numpy  # noqa: E402
from compare import Reference, sizes_of  # noqa: E402
from contents import arguments  # noqa: E402
from worker_pool import answer  # noqa: E402

Call = Callable[[], Any]
#: errors of a peer, in units of the bound, that are taken for another way of rounding
GROSS = 1e4


class Workload:
    """Inputs of one line of the list, alike in every process."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.entry, self.sizes, self.xp = entry, sizes_of(entry), Numpy(7)
        self.views: dict[str, Any] = entry["views"]
        self.arrays = arguments(self.xp, self.views, entry["data"], self.sizes)
        self.initial = {n: self.arrays[n].copy() for n, v in self.views.items() if v["role"] == "inout"}

    def reset(self) -> None:
        for n, a in self.initial.items():
            self.arrays[n][...] = a

    def verdicts(self, call: Call, back: Callable[[], None], limit: float = 1.0) -> list[str]:
        """What is wrong after one call, by more than `limit` bounds; `back` brings results into `arrays`."""
        self.reset()
        read = {n: self.arrays[n].copy() for n, v in self.views.items() if v["role"] != "out"}
        reference = Reference(self.xp, self.entry["kernel"], self.views, read, self.sizes)
        call()
        back()
        found = reference.verdicts({n: self.arrays[n] for n, v in self.views.items() if v["role"] != "in"})
        self.reset()
        return [str(v) for v in found if not v.ok and (v.note or not v.worst <= limit)]


def nothing() -> None:
    return None


def eqkir(w: Workload, request: dict[str, Any]) -> tuple[Call, Callable[[], None]]:
    from eqkir.runtime.native import load

    kernel = load(Path(request["folder"]) / w.entry["name"])
    scalars = {s["name"]: w.sizes[s["name"]] for s in kernel.told["scalars"]}
    return kernel.bind(**w.arrays, **scalars), nothing


def numpy(w: Workload, request: dict[str, Any]) -> tuple[Call, Callable[[], None]]:
    from cpu_numpy import PEERS

    return PEERS[w.entry["kernel"]](w.arrays, w.sizes), nothing


def torch(w: Workload, request: dict[str, Any]) -> tuple[Call, Callable[[], None]]:
    """Results are new tensors, which is what torch's users have; memory that is free is used again (`environment` of `cpu`)."""
    import torch as t
    from cpu_torch import EAGER

    t.set_num_threads(request["threads"])
    given = {n: _tensor(t, a) for n, a in w.arrays.items()}
    f = EAGER[w.entry["kernel"]]
    if request["kind"] == "compile":
        t._dynamo.reset()
        f = t.compile(f, dynamic=False)
    state: dict[str, Any] = {}

    def call() -> None:
        state.clear()
        with t.no_grad():
            state["out"] = f(given, w.sizes)

    def back() -> None:
        results = state["out"] if isinstance(state["out"], tuple) else (state["out"],)
        names = [n for n, v in w.views.items() if v["role"] != "in"]
        for n, r in zip(names, results):
            w.arrays[n][...] = _array(t, r, w.arrays[n])

    return call, back


def _tensor(t: Any, a: Any) -> Any:
    if a.dtype.name == "bfloat16":
        return t.from_numpy(a.view("int16")).view(t.bfloat16)
    return t.from_numpy(a)


def _array(t: Any, x: Any, like: Any) -> Any:
    if like.dtype.name == "bfloat16":
        return x.contiguous().view(t.int16).numpy().view(like.dtype)
    return x.to(t.from_numpy(like).dtype).numpy()


class Copying:
    """A copy with numpy that moves as many bytes as a workload, one part a thread."""

    initial: dict[str, Any] = {}

    def __init__(self, moved: int, threads: int) -> None:
        from concurrent.futures import ThreadPoolExecutor

        import numpy as np

        a = np.ones(max(moved // 8, 1), np.float32)
        b = np.zeros_like(a)
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.parts = list(zip(np.array_split(b, threads), np.array_split(a, threads)))
        self.copy = np.copyto

    def __call__(self) -> None:
        if self.pool is None:
            self.copy(*self.parts[0])
        else:
            list(self.pool.map(lambda p: self.copy(*p), self.parts))


MAKE = {"eqkir": eqkir, "numpy": numpy, "torch": torch, "compile": torch}
STATE: dict[str, Any] = {}


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """``prepare`` (entry, kind, threads, folder, check), ``time`` (seconds), ``calls`` (folder), ``about``."""
    match request["do"]:
        case "prepare":
            STATE.clear()
            if request["kind"] == "copy":
                copying = Copying(request["entry"]["bytes"], request["threads"])
                copying()
                STATE.update(call=copying, w=copying)
                return {"status": "ok", "wrong": []}
            w = Workload(request["entry"])
            call, back = MAKE[request["kind"]](w, request)
            own = request["kind"] == "eqkir"
            wrong = w.verdicts(call, back, 1.0 if own else GROSS) if request["check"] else []
            if not request["check"]:
                call()
                w.reset()
            STATE.update(call=call, w=w)
            return {"status": "ok", "wrong": wrong}
        case "time":
            return {"status": "ok", "times": timed(STATE["call"], STATE["w"], request["seconds"])}
        case "calls":
            return {"status": "ok", **calls(Path(request["folder"]))}
        case "about":
            return {"status": "ok", "about": about(request["kind"])}
    raise ValueError(request["do"])


def timed(call: Call, w: Workload | Copying, seconds: float) -> list[float]:
    """Seconds of single calls, for about `seconds` (at least three, or one that is longer); what a kernel changes in place is put back
    between them, untimed."""
    out: list[float] = []
    start = time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds or (len(out) < 3 and spent < max(3 * seconds, 1.0)) or not out:
        if isinstance(w, Workload) and w.initial and len(out) % 8 == 0:
            w.reset()
        begin = time.perf_counter()
        call()
        out.append(time.perf_counter() - begin)
        if len(out) == 2000:
            break
    return out


def calls(folder: Path) -> dict[str, float]:
    """Microseconds of a call of a kernel on the smallest arrays: bound; checked; checked, with new arrays each time. Medians."""
    import statistics

    import numpy as np

    from eqkir.runtime.native import load

    k = load(folder)
    x = np.ones((2, 8), np.float32)
    y = np.empty_like(x)
    bound = k.bind(x, y)
    kept = iter([(x.copy(), y.copy()) for _ in range(21000)])

    def each(f: Call) -> float:
        out = []
        for _ in range(20000):
            t = time.perf_counter()
            f()
            out.append(time.perf_counter() - t)
        return statistics.median(out) * 1e6

    return {"bound_us": each(bound), "checked_us": each(lambda: k(x, y)), "fresh_us": each(lambda: k(*next(kept)))}


def about(kind: str) -> dict[str, Any]:
    """Versions of what a peer is made of."""
    import contextlib
    import io
    import platform

    import numpy as np

    out: dict[str, Any] = {"python": platform.python_version(), "numpy": np.__version__}
    if kind == "numpy":
        with contextlib.redirect_stdout(io.StringIO()):
            blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        out["blas"] = f"{blas.get('name')} {blas.get('version')}"
    if kind in ("torch", "compile"):
        import torch as t

        out["torch"] = t.__version__
        out["cpu"] = t.backends.cpu.get_cpu_capability()
    return out


if __name__ == "__main__":
    raise SystemExit(answer(handle))
