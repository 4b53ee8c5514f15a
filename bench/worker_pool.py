"""Worker processes that answer one JSON request a line: a crash or a hang costs the request in hand, and the next one gets a new process.

Standard library alone.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Protocol

#: marks the lines of standard output that are answers
MARK = "\x1e"
Request = dict[str, Any]
Answer = dict[str, Any]


class Worker:
    """A process that runs `command` and answers on standard output. Started with the first request."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        self.command, self.environment = command, {**os.environ, **(environment or {})}
        self.process: subprocess.Popen[str] | None = None
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.errors: Any = None

    def start(self) -> None:
        """Start the process if there is none, to have it ready."""
        if self.process is not None:
            return
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=self.environment,
            start_new_session=True,
        )  # fmt: skip
        self.lines = queue.Queue()
        threading.Thread(target=self._read, args=(self.process, self.lines), daemon=True).start()

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
        assert process.stdout
        for text in process.stdout:
            lines.put(text)
        lines.put(None)

    def ask(self, request: Request, seconds: float) -> Answer:
        """The answer, or ``{"status": what happened, "stderr": its end}`` when the process ended or took too long."""
        self.start()
        assert self.process and self.process.stdin
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            while True:
                text = self.lines.get(timeout=seconds)
                if text is None:
                    return self._lost("process ended")
                if text.startswith(MARK):
                    answer: Answer = json.loads(text[len(MARK) :])
                    return answer
        except queue.Empty:
            return self._lost(f"time-out after {seconds:.0f} s")
        except OSError:
            return self._lost("process ended")

    def _lost(self, what: str) -> Answer:
        process = self.process
        assert process
        self.stop()
        self.errors.seek(0)
        tail = self.errors.read()[-1500:]
        return {"status": what if what.startswith("time") else f"{what} with {process.returncode}", "stderr": tail}

    def stop(self) -> None:
        """End the process and all that it started."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
            self.process = None


def answer(handle: Callable[[Request], Answer]) -> int:
    """The loop of a worker: `handle` each request of standard input; an exception is an answer too. One with ``"last": true`` ends the
    process after it."""
    for text in sys.stdin:
        try:
            result = handle(json.loads(text))
        except Exception as e:
            traceback.print_exc()
            result = {"status": f"{type(e).__name__}: {e}"[:300]}
        sys.stdout.write(MARK + json.dumps(result, sort_keys=True) + "\n")
        sys.stdout.flush()
        if result.pop("last", False):
            os._exit(0)
    return 0


class Answers(Protocol):
    """What answers requests: a `Worker`, or several."""

    def ask(self, request: Request, seconds: float) -> Answer: ...

    def stop(self) -> None: ...


def spread(
    make: Callable[[], Answers], requests: Iterable[Request], workers: int, seconds: float, done: Callable[[Request, Answer], None],
    going: Callable[[], bool] = lambda: True,
) -> None:  # fmt: skip
    """Answer all requests by `workers` processes; `done` is called under a lock as answers come, in no order. No request is begun when
    `going` says no."""
    waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
    for r in requests:
        waiting.put(r)
    lock = threading.Lock()

    def work() -> None:
        worker = make()
        try:
            while True:
                try:
                    request = waiting.get_nowait()
                except queue.Empty:
                    return
                if not going():
                    return
                result = worker.ask(request, seconds)
                with lock:
                    done(request, result)
        finally:
            worker.stop()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
