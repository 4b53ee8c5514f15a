"""A process of several threads never forks itself: a process of one thread does it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from eqkir.rules import forks
from eqkir.rules.forks import Child
from tests.rules import children


@pytest.fixture(autouse=True)
def several_threads() -> Iterator[None]:
    done = threading.Event()
    t = threading.Thread(target=done.wait)
    t.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    done.set()
    t.join()


def test_a_child_answers_and_has_one_thread() -> None:
    for x in range(3):
        c = Child(children.double, x)
        assert c.process is None and c.connection.recv() == (2 * x, 1)
        assert c.join() == 0


def test_how_a_child_ended_is_known() -> None:
    for function, code in ((children.die, -signal.SIGSEGV), (children.raise_, 1)):
        c = Child(function)
        with pytest.raises(EOFError):
            c.connection.recv()
        assert c.join() == code


def test_a_child_that_hangs_is_killed() -> None:
    c, other = Child(children.hang), Child(children.double, 4)
    pid = c.connection.recv()
    assert c.kill() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert other.connection.recv()[0] == 8 and other.join() == 0


def test_a_nursery_that_died_is_replaced() -> None:
    lost = Child(children.hang)
    os.kill(lost.connection.recv(), signal.SIGKILL)
    forks._CONTROL[0].shutdown(2)
    c = Child(children.double, 5)
    assert c.connection.recv()[0] == 10 and c.join() == 0
    assert lost.join() == -signal.SIGKILL


def test_children_of_many_threads_do_not_mix() -> None:
    got: dict[int, int] = {}

    def work(x: int) -> None:
        for n in range(5):
            c = Child(children.double, 100 * x + n)
            got[100 * x + n] = c.connection.recv()[0]
            c.join()

    threads = [threading.Thread(target=work, args=(x,)) for x in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == {100 * x + n: 2 * (100 * x + n) for x in range(4) for n in range(5)}


SCRIPT = """
import threading, warnings
import eqkir
warnings.simplefilter("error")
if {threads}:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
r = eqkir.optimize({file!r})
print(r.kernels[0].status, hash(r.kernels[0].source))
"""


def test_the_result_is_the_same_with_threads_and_without() -> None:
    file = str(Path(__file__).parents[2] / "corpus" / "json" / "softmax_bf16.json")
    outs = set()
    for threads in (True, False):
        env = {**os.environ, "PYTHONHASHSEED": "0"}
        r = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(threads=threads, file=file)], capture_output=True, text=True, env=env, timeout=300
        )
        assert r.returncode == 0, r.stderr
        outs.add(r.stdout)
    assert len(outs) == 1 and "ok" in outs.pop()
