"""Processes that end with their parent."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence

#: of a fresh interpreter: ask the kernel to end this process with its parent (prctl PR_SET_PDEATHSIG, SIGKILL), see that the parent is
#: still there, and become the program. Arguments: the parent's id, the program, its arguments
_FOLLOWING = """
import os, sys
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
except (ImportError, OSError, AttributeError):
    pass
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def follow(parent: int, period: float = 2.0) -> None:
    """End this process soon after its parent: a thread looks every `period` seconds, because a busy task reads no end of file."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(period)
        os._exit(1)

    threading.Thread(target=watch, name="follow", daemon=True).start()


def following(command: Sequence[str]) -> list[str]:
    """The command line of a program (its path first) that ends with this process, however this process ends. Start it without a shell, from
    a thread that waits for it: the end of that thread counts. Where the system cannot tell (not Linux), it is the program alone."""
    return [sys.executable, "-I", "-S", "-c", _FOLLOWING, str(os.getpid()), *command]
