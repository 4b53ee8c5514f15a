"""A pool of worker processes in which one task's crash or time-out costs that task alone.

Workers are fresh interpreters (no fork, no need for a main guard) in sessions of their own, so that ending one ends its children too.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eqkir.base.resources import PACKAGE
from eqkir.driver.worker import read_frame, write_frame


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task has no value. kind: ``raised`` (an exception left the task), ``died`` (the worker ended), ``time`` (limit)."""

    kind: str
    message: str
    traceback: str = ""


class Worker:
    """One process. `call` is not reentrant."""

    def __init__(self) -> None:
        paths = [str(PACKAGE.parent), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # the pool is the parallelism; a child forks without threads
        env = {**os.environ, **single, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from eqkir.driver.worker import main; main()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True,
        )  # fmt: skip

    def call(self, function: str, arguments: tuple[Any, ...], seconds: float) -> Any:
        """The task's value, or a `Failure`; after ``died`` and ``time`` the worker is gone."""
        p = self.process
        assert p.stdin and p.stdout
        try:
            write_frame(p.stdin, (function, arguments))
            if not select.select([p.stdout], [], [], seconds)[0]:
                self.kill()
                return Failure("time", f"no answer after {seconds:g} s")
            answer = read_frame(p.stdout)
        except (EOFError, OSError):
            self.kill()
            code = p.returncode
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            return Failure("died", f"the worker process ended ({how})")
        if answer[0] == "ok":
            return answer[1]
        return Failure("raised", f"{answer[1]}: {answer[2]}", answer[3])

    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """End the process and what it started."""
        p = self.process
        try:  # a worker that is ending by itself keeps its own exit status
            p.wait(0.5 if p.poll() is None and p.stdout and _at_end(p.stdout.fileno()) else 0)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        p.wait()
        for stream in (p.stdin, p.stdout):
            if stream:
                try:
                    stream.close()
                except OSError:
                    pass


def _at_end(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def run(function: str, tasks: Sequence[tuple[Any, ...]], jobs: int, seconds: float) -> Iterator[tuple[int, Any]]:
    """Call `function` (``module:name``) on each tuple of arguments in `jobs` workers; yields (index, value or `Failure`) as they finish.

    `seconds` bounds one task, from when its worker takes it. Closing the iterator ends all workers.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    for i in range(len(tasks)):
        todo.put(i)
    stop = threading.Event()
    workers: dict[int, Worker] = {}

    def serve(slot: int) -> None:
        while not stop.is_set():
            try:
                i = todo.get_nowait()
            except queue.Empty:
                return
            try:
                if slot not in workers or not workers[slot].alive():
                    workers[slot] = Worker()
                done.put((i, workers[slot].call(function, tasks[i], seconds)))
            except Exception as e:  # the machine refuses a process, a task that cannot be sent
                done.put((i, Failure("died", f"{type(e).__name__}: {e}")))

    threads = [threading.Thread(target=serve, args=(k,), daemon=True) for k in range(max(1, min(jobs, len(tasks))))]
    for t in threads:
        t.start()
    try:
        for _ in tasks:
            yield done.get()
    finally:
        stop.set()
        for w in list(workers.values()):
            w.kill()
