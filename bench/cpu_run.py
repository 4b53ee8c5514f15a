"""The run of the CPU benchmark: first every implementation is checked, as many at a time as there are processors, then all are timed alone.

The checks warm what lasts (code that torch.compile made, pages of files). Processes of one workload then take turns of a fraction of a
second, in another order each round. A turn that fails is a failure of the row, not a gap in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cpu_numpy import PEERS
from worker_pool import Worker, spread

HERE = Path(__file__).resolve().parent
Entry = dict[str, Any]
Row = dict[str, Any]
#: workload, kind, threads -> "ok", or what is wrong
Said = dict[tuple[str, str, int], str]
#: seconds that one answer may take
CHECK_SECONDS, TURN_SECONDS = 240.0, 120.0
#: the kind of worker that copies as many bytes as a workload moves
COPY = "copy"
#: where torch's processes find the code that torch.compile made
CODE = "TORCHINDUCTOR_CACHE_DIR"


def environment(threads: int, code: str) -> dict[str, str]:
    """Every library to the same number of threads; the choice of its kernels is left to the peer's linear algebra. Large blocks that a
    peer frees and wants again are not given back to the system between, which would cost it a page fault a page and call."""
    out = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "EQKIR_NUM_THREADS"), str(threads))
    return out | {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "CUDA_VISIBLE_DEVICES": "", CODE: code}


class Bench:
    """`python`: interpreter of torch's processes. `left()`: seconds until the run must end."""

    def __init__(self, artifacts: Path, kinds: list[str], python: str, budget: float, rounds: int, seconds: float) -> None:
        self.artifacts, self.kinds, self.python, self.rounds, self.seconds = artifacts, kinds, python, rounds, seconds
        self.end = time.monotonic() + budget
        self.code = tempfile.mkdtemp(prefix="eqkir-bench-")
        for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
            os.environ.pop(name, None)
        self.cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def left(self) -> float:
        return self.end - time.monotonic()

    def worker(self, kind: str, threads: int) -> Worker:
        python = self.python if kind in ("torch", "compile") else sys.executable
        return Worker([python, str(HERE / "cpu_one.py")], environment(threads, self.code))

    def request(self, entry: Entry, kind: str, threads: int, check: bool) -> dict[str, Any]:
        return {"do": "prepare", "entry": entry, "kind": kind, "threads": threads, "folder": str(self.artifacts), "check": check}

    # ---------------------------------------------------------------------------------------------- what ran where
    def machine(self) -> dict[str, Any]:
        out: dict[str, Any] = {"processor": _processor(), "cores": self.cores, "system": platform.release(), "machine": platform.machine()}
        out |= {"caches": _caches(), "load": os.getloadavg()[0]}
        for kind in self.kinds:
            w = self.worker(kind, 1)
            got = w.ask({"do": "about", "kind": kind}, TURN_SECONDS)
            w.stop()
            out[kind] = got.get("about", got["status"])
        return out

    # ---------------------------------------------------------------------------------------------- checks
    def check(self, entries: list[Entry], threads: list[int]) -> Said:
        """What each implementation of each workload says of itself: "ok", or what is wrong."""
        out: Said = {}
        wanted = []
        for kind in ("compile", "eqkir", "torch", "numpy"):  # what takes long first
            for e in entries:
                for n in threads if kind in ("eqkir", "compile") else threads[:1]:
                    if kind in self.kinds and (kind != "numpy" or e["kernel"] in PEERS):
                        wanted.append(self.request(e, kind, n, True))
        started = time.monotonic()
        limit = self.left() * 0.5

        def done(request: dict[str, Any], got: dict[str, Any]) -> None:
            bad = f"{got['status']} {got.get('stderr', '')[-200:]}".strip()
            said = ("; ".join(got["wrong"][:2]) or "ok") if got["status"] == "ok" else bad
            for n in [request["threads"]] if request["kind"] in ("eqkir", "compile") else threads:
                out[request["entry"]["name"], request["kind"], n] = said

        spread(lambda: _Fresh(self), wanted, max(1, self.cores - 1), CHECK_SECONDS, done, lambda: time.monotonic() - started < limit)
        print(f"checked {len(out)} in {time.monotonic() - started:.0f} s", flush=True)
        return out

    # ---------------------------------------------------------------------------------------------- times
    def time(self, entries: list[Entry], threads: int, said: Said, done: Callable[[Row], None]) -> None:
        """One row a workload; `done` has each as soon as it is there. A copy of as many bytes takes its turns beside all others."""
        workers = {kind: self.worker(kind, threads) for kind in (*self.kinds, COPY)}
        try:
            for e in entries:
                done(self._row(e, threads, workers, said))
        finally:
            for w in workers.values():
                w.stop()

    def _row(self, e: Entry, threads: int, workers: dict[str, Worker], said: Said) -> Row:
        row: Row = {"workload": e["name"], "threads": threads, "status": "ok", "copy_bytes_per_s": 0.0, "bytes": e["bytes"]}
        row |= {"memory": e["memory"], "flops": flops(e), "peers": {}}
        told = self.artifacts / e["name"] / "workload.json"
        if told.exists():
            row |= {k: v for k, v in json.loads(told.read_text(encoding="utf-8")).items() if k in ("predicted_ms", "target")}
        if self.left() < 5.0 * self.rounds * self.seconds + 3.0:
            return row | {"status": "not run: no time left"}
        verdicts = {k: said.get((e["name"], k, threads), "ok" if k == COPY else "not checked: no time left") for k in workers}
        if "numpy" in verdicts and e["kernel"] not in PEERS:
            verdicts["numpy"] = "numpy has no such numbers or function"
        if verdicts["eqkir"] != "ok":
            return row | {"status": verdicts["eqkir"]}
        ready = [k for k in workers if verdicts[k] == "ok"]
        answers: dict[str, dict[str, Any]] = {}

        def prepare(k: str) -> None:
            answers[k] = workers[k].ask(self.request(e, k, threads, False), CHECK_SECONDS)

        asked = [threading.Thread(target=prepare, args=(k,)) for k in ready]
        for t in asked:
            t.start()
        for t in asked:
            t.join()
        failed = {k: a["status"] for k, a in answers.items() if a["status"] != "ok"} | {k: v for k, v in verdicts.items() if v != "ok"}
        medians = self._turns([k for k in ready if k not in failed], workers, failed)
        if "eqkir" in failed:
            return row | {"status": failed["eqkir"]}
        row["ms"] = statistics.median(medians["eqkir"]) * 1e3
        row["spread"] = max(medians["eqkir"]) / min(medians["eqkir"])
        if COPY in medians and COPY not in failed:
            row["copy_bytes_per_s"] = e["bytes"] / statistics.median(medians[COPY])
        for k in workers:
            if k in ("eqkir", COPY):
                continue
            if k in failed:
                row["peers"][k] = {"status": failed[k][-300:]}
            else:
                ratios = [p / m for p, m in zip(medians[k], medians["eqkir"])]
                row["peers"][k] = {"ms": statistics.median(medians[k]) * 1e3, "ratio": statistics.median(ratios)}
        return row

    def _turns(self, kinds: list[str], workers: dict[str, Worker], failed: dict[str, str]) -> dict[str, list[float]]:
        """Median seconds of every turn; who fails in one is out, with what happened in `failed`."""
        out: dict[str, list[float]] = {k: [] for k in kinds}
        for n in range(self.rounds):
            turn = kinds[n % len(kinds) :] + kinds[: n % len(kinds)] if kinds else []
            for k in turn:
                if k in failed:
                    continue
                got = workers[k].ask({"do": "time", "seconds": self.seconds}, TURN_SECONDS)
                if got["status"] == "ok":
                    out[k].append(statistics.median(got["times"]))
                else:
                    failed[k] = f"in round {n}: {got['status']}"
        return out


class _Fresh:
    """Workers of the checks: one request a process of a kind and number of threads, kept while these stay the same."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.key = bench, ("", 0)
        self.worker: Worker | None = None

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        key = (request["kind"], request["threads"])
        if self.worker is None or key != self.key:
            self.stop()
            self.key, self.worker = key, self.bench.worker(*key)
        return self.worker.ask(request, seconds)

    def stop(self) -> None:
        if self.worker is not None:
            self.worker.stop()
            self.worker = None


def flops(entry: Entry) -> float:
    formula = entry.get("flops_formula")
    return float(eval(formula, {"__builtins__": {}}, dict(entry["shapes"]))) if formula else 0.0


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    fields = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in text.splitlines()[:40])}
    return f"{fields.get('model name', '?')} (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"


def _caches() -> str:
    out = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((folder / f).read_text(encoding="ascii").strip() for f in ("level", "type", "size"))
            out.append(f"L{level} {kind} {size}")
        except OSError:
            continue
    return ", ".join(out)


def identity(machine: dict[str, Any]) -> str:
    """A short name of a machine with its software, for rows of several in one file."""
    text = json.dumps({k: v for k, v in machine.items() if k != "load"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


class Results:
    """The file of results: machines by identity, rows by machine, workload and threads. What is measured again replaces the old row."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.machines: dict[str, dict[str, Any]] = {}
        self.rows: dict[tuple[str, str, int], Row] = {}
        if path.exists():
            old = json.loads(path.read_text(encoding="utf-8"))
            self.machines = old["machines"]
            self.rows = {(r["on"], r["workload"], r["threads"]): r for r in old["rows"]}

    def put(self, on: str, row: Row) -> None:
        """A row that was not run leaves what is known of its workload as it is."""
        key = (on, row["workload"], row["threads"])
        if not (row["status"].startswith("not run") and key in self.rows):
            self.rows[key] = {**row, "on": on}
        self.write()

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"machines": self.machines, "rows": list(self.rows.values())}, indent=1, sort_keys=True) + "\n"
        part = self.path.with_name(self.path.name + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(self.path)
