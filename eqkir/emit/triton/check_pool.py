"""Worker processes of the checks, kept between calls: restarted when they die, killed when they hang."""

from __future__ import annotations

import atexit
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


class Worker:
    def __init__(self, kind: str) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_") or k == "TRITON_CACHE_DIR"}
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        env["OMP_NUM_THREADS"] = env["OPENBLAS_NUM_THREADS"] = "1"
        env["CUDA_VISIBLE_DEVICES"] = ""
        command = [sys.executable, "-W", "ignore", "-m", "eqkir.emit.triton.check_worker", kind]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)

    def ask(self, job: Any, seconds: float) -> dict[str, Any]:
        """The reply. Raises TimeoutError, or EOFError when the worker died."""
        p = self.process
        assert p.stdin and p.stdout
        data = pickle.dumps(job)
        try:
            p.stdin.write(struct.pack("<Q", len(data)) + data)
            p.stdin.flush()
        except BrokenPipeError:
            raise EOFError("the worker is gone") from None
        end = time.monotonic() + seconds
        (n,) = struct.unpack("<Q", self._read(8, end))
        reply: dict[str, Any] = pickle.loads(self._read(n, end))
        return reply

    def _read(self, n: int, end: float) -> bytes:
        assert self.process.stdout
        fd = self.process.stdout.fileno()
        out = b""
        while len(out) < n:
            left = end - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise TimeoutError
            piece = os.read(fd, min(n - len(out), 1 << 20))
            if not piece:
                raise EOFError(f"the worker died with {self.process.wait()}")
            out += piece
        return out

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for f in (self.process.stdin, self.process.stdout):
            if f:
                try:
                    f.close()
                except BrokenPipeError:
                    pass


_IDLE: dict[str, list[Worker]] = {"interpret": [], "compile": []}
_LOCK = threading.Lock()


def _close_all() -> None:
    for ws in _IDLE.values():
        while ws:
            ws.pop().close()


def _forget() -> None:
    """A forked child must not talk to its parent's workers."""
    for ws in _IDLE.values():
        ws.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def ask(kind: str, job: Any, seconds: float = 300.0) -> dict[str, Any]:
    """One job on an idle or new worker; ``{"error": …}`` when it hangs or dies."""
    with _LOCK:
        worker = _IDLE[kind].pop() if _IDLE[kind] else None
    worker = worker or Worker(kind)
    try:
        reply = worker.ask(job, seconds)
    except TimeoutError:
        worker.close()
        return {"error": f"no answer within {seconds:g} s"}
    except EOFError as e:
        worker.close()
        return {"error": str(e)}
    with _LOCK:
        _IDLE[kind].append(worker)
    return reply


def ask_all(kind: str, jobs: list[Any], processes: int = 1, seconds: float = 300.0) -> list[dict[str, Any]]:
    """Replies in the order of the jobs, from up to `processes` workers."""
    out: list[dict[str, Any]] = [{} for _ in jobs]
    queue = list(enumerate(jobs))[::-1]

    def work() -> None:
        while True:
            with _LOCK:
                if not queue:
                    return
                n, job = queue.pop()
            out[n] = ask(kind, job, seconds)

    threads = [threading.Thread(target=work) for _ in range(min(processes, len(jobs)))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out
