"""The task pool of a process: threads started once, shared by all kernels, renewed in a forked child, joined at exit."""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import mmap
import os
import threading
from pathlib import Path
from typing import Any, Final

from eqkir.runtime.libraries import library as loaded

STATE_BYTES: Final = 8 * (64 + 1024)
_POOLS: dict[str, Pool] = {}
_LOCK = threading.Lock()


def thread_count() -> int:
    """Threads of a call, the caller's included: EQKIR_NUM_THREADS, else the processors that this process may use.

    Raises ValueError for a setting that is no number from 1 to 1024.
    """
    text = os.environ.get("EQKIR_NUM_THREADS", "").strip()
    if text:
        if not text.isdecimal() or not 1 <= int(text) <= 1024:
            raise ValueError(f"EQKIR_NUM_THREADS is {text!r}, expected a number from 1 to 1024")
        return int(text)
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    return max(1, min(count, _quota(count), 1024))


def _quota(count: int) -> int:
    """The processors that the control group grants, rounded up."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return count if quota == "max" else -(-int(quota) // int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return count


class Pool:
    """`state`: address of the pool's words (see ``pool.mojo``); `threads`: how many take part in a call. `run` is ``kt_run``."""

    def __init__(self, library: Path, key: str) -> None:
        self._library = loaded(library)
        self.run: Any = self._function(f"kt_{key}_run", 3, None)
        self._start: Any = self._function(f"kt_{key}_start", 2, ctypes.c_ssize_t)
        self._stop: Any = self._function(f"kt_{key}_stop", 1, None)
        self.threads = thread_count()
        self._states: list[Any] = []
        self.renew()

    def _function(self, name: str, arguments: int, result: Any) -> Any:
        f = getattr(self._library, name)
        f.argtypes, f.restype = [ctypes.c_void_p] * arguments, result
        return f

    def renew(self) -> None:
        """A fresh state without workers, which a fork copies, not shares; the memory of the old one stays, for calls that still use it."""
        view = ctypes.c_char.from_buffer(mmap.mmap(-1, STATE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        self._states.append(view)
        self.state = ctypes.addressof(view)
        self.started = self.threads == 1

    def start(self) -> None:
        """Start the workers, once. Fewer than wanted is no error: calls then use those that there are."""
        with _LOCK:
            if not self.started:
                self._start(self.state, self.threads - 1)
                self.started = True

    def stop(self) -> None:
        """End and join the workers; the next call starts new ones."""
        with _LOCK:
            if self.started and self.threads > 1:
                self._stop(self.state)
                self.renew()


def pool(library: Path, key: str) -> Pool:
    """The process's pool for this code: artifacts that carry the same pool share one, whatever folders they lie in."""
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    with _LOCK:
        if digest not in _POOLS:
            _POOLS[digest] = Pool(library, key)
        return _POOLS[digest]


def stop_all() -> None:
    """End the workers of every pool of this process."""
    for p in list(_POOLS.values()):
        p.stop()


def _after_fork() -> None:
    """Threads do not survive a fork: a child starts with fresh states, and its own lock."""
    global _LOCK
    _LOCK = threading.Lock()
    for p in _POOLS.values():
        p.renew()


atexit.register(stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
