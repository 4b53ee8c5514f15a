"""One task's crash, time-out or exception costs that task alone."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from eqkir.driver import pool

HERE = "tasks_for_pool"


def _with_path(monkeypatch, tmp_path: Path) -> str:
    (tmp_path / f"{HERE}.py").write_text(
        "import os, signal, subprocess, sys, time\n"
        "def double(x): print('noise'); return 2 * x\n"
        "def crash(x): os.kill(os.getpid(), signal.SIGSEGV)\n"
        "def leave(x): os._exit(7)\n"
        "def hang(x):\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "    open(x, 'w').write(str(child.pid)); time.sleep(60)\n"
        "def bad(x): raise ValueError('no')\n"
        "def some(x): return {'crash': crash, 'bad': bad, 'leave': leave}.get(x, double)(x)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return HERE


def test_answers_come_with_their_index_whatever_the_order(monkeypatch, tmp_path):
    name = _with_path(monkeypatch, tmp_path)
    assert dict(pool.run(f"{name}:double", [(i,) for i in range(20)], 2, 30)) == {i: 2 * i for i in range(20)}


def test_a_crash_harms_no_other_task(monkeypatch, tmp_path):
    name = _with_path(monkeypatch, tmp_path)
    tasks = [("a",), ("crash",), ("b",), ("bad",), ("leave",), ("c",)]
    got = dict(pool.run(f"{name}:some", tasks, 2, 30))
    assert [got[i] for i in (0, 2, 5)] == ["aa", "bb", "cc"]
    assert (got[1].kind, got[3].kind, got[4].kind) == ("died", "raised", "died")
    assert "SIGSEGV" in got[1].message and "status 7" in got[4].message
    assert "ValueError: no" in got[3].message and "Traceback" in got[3].traceback


def test_a_time_out_ends_the_worker_and_its_children(monkeypatch, tmp_path):
    name = _with_path(monkeypatch, tmp_path)
    pidfile = tmp_path / "pid"
    start = time.monotonic()
    got = dict(pool.run(f"{name}:hang", [(str(pidfile),)], 1, 3.0))
    assert got[0].kind == "time" and time.monotonic() - start < 50  # the task sleeps for 60 s
    pid = int(pidfile.read_text())
    for _ in range(50):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
        if not state or state.startswith("Z"):
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the child of an ended worker lives on")


def test_closing_early_ends_the_workers(monkeypatch, tmp_path):
    name = _with_path(monkeypatch, tmp_path)
    answers = pool.run(f"{name}:double", [(i,) for i in range(50)], 2, 30)
    next(answers)
    answers.close()
