"""A crash or a hang of a worker costs its own request."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from worker_pool import Worker, spread

SCRIPT = """
    import os, time
    from worker_pool import answer

    def handle(request):
        print("noise")
        if request["do"] == "crash":
            os.abort()
        if request["do"] == "hang":
            time.sleep(60)
        return {"status": "ok", "pid": os.getpid(), "last": request["do"] == "last"}

    answer(handle)
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return [sys.executable, str(path)]


def made(command: list[str]) -> Worker:
    return Worker(command, {"PYTHONPATH": str(Path(__file__).parents[2] / "bench")})


def test_a_crash_and_a_hang_cost_one_request_each(command: list[str]) -> None:
    worker = made(command)
    first = worker.ask({"do": "work"}, 30)
    assert worker.ask({"do": "work"}, 30)["pid"] == first["pid"]
    assert worker.ask({"do": "crash"}, 30)["status"] == "process ended with -6"
    second = worker.ask({"do": "work"}, 30)
    assert second["status"] == "ok" and second["pid"] != first["pid"]
    assert worker.ask({"do": "hang"}, 0.5)["status"].startswith("time-out")
    assert worker.ask({"do": "work"}, 30)["status"] == "ok"
    worker.stop()


def test_a_last_answer_ends_the_process(command: list[str]) -> None:
    worker = made(command)
    first = worker.ask({"do": "last"}, 30)
    assert first["last"]
    worker.stop()
    assert worker.ask({"do": "work"}, 30)["pid"] != first["pid"]
    worker.stop()


def test_every_request_is_answered_once(command: list[str]) -> None:
    answers: list[Any] = []
    requests = [{"do": "crash" if i == 3 else "work", "i": i} for i in range(9)]
    spread(lambda: made(command), requests, 2, 30, lambda request, result: answers.append((request["i"], result["status"])))
    assert sorted(answers) == [(i, "process ended with -6" if i == 3 else "ok") for i in range(9)]
