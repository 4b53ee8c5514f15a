"""What the children of test_forks.py do."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.connection import Connection


def double(c: Connection, x: int) -> None:
    c.send((2 * x, len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1))


def die(c: Connection) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def raise_(c: Connection) -> None:
    raise ValueError("on purpose")


def hang(c: Connection) -> None:
    c.send(os.getpid())
    time.sleep(600)
