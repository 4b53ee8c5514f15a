"""Child processes by fork, which starts at once with everything imported.

A fork of a process with several threads may find locks that nobody will ever release. So this process forks only while it has one
thread; otherwise a nursery does: a process of one thread, started at the first need, that forks on request until its parent closes
the socket between them. The function and its arguments then travel pickled.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from eqkir.base.resources import PACKAGE

#: what a child needs; the nursery imports it once
PRELOADED = ("numpy", "eqkir.rules.saturate", "eqkir.terms.encode", "eqkir.terms.engine", "eqkir.terms.freeze")
FORK, JOIN, KILL = b"F", b"J", b"K"
_REPLY = struct.Struct("<q")


class Child:
    """A process that runs ``function(connection, *arguments)``; `connection` is this side's end. Finish with `join` or `kill`."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        self.process: Any = None
        if threads() == 1:
            ctx: Any = mp.get_context("fork")
            self.connection, there = ctx.Pipe()
            self.process = ctx.Process(target=function, args=(there, *arguments), daemon=True)
            self.process.start()
            there.close()
        else:
            here, end = socket.socketpair()
            with end:
                self.pid = _nursery(FORK, fd=end.fileno())
            self.connection = Connection(here.detach())
            self.connection.send((function, arguments))

    def join(self) -> int | None:
        """Close the connection and wait for the child, which is ending. The exit code; negative: the signal that ended it."""
        self.connection.close()
        if self.process is None:
            return _nursery(JOIN, self.pid)
        self.process.join(5.0)
        code: int | None = self.process.exitcode
        return code

    def kill(self) -> int | None:
        """End the child; its exit code as `join` gives it (an own one when the child had ended already)."""
        self.connection.close()
        if self.process is None:
            return _nursery(KILL, self.pid)
        self.process.kill()
        return self.join()


def threads() -> int:
    """How many threads this process has, native ones too where the system tells."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


# ------------------------------------------------------------------------------------------------ this side of the nursery
_LOCK = threading.Lock()
_CONTROL: list[socket.socket] = []


def _forget() -> None:
    """A forked child must not talk to its parent's nursery."""
    global _LOCK
    _LOCK = threading.Lock()
    while _CONTROL:
        _CONTROL.pop().close()


os.register_at_fork(after_in_child=_forget)


def _nursery(request: bytes, pid: int = 0, fd: int | None = None) -> int:
    """One request. A nursery that is gone is replaced; its children's exit codes are lost then (-9 stands for them)."""
    with _LOCK:
        for _ in range(2):
            fresh = not _CONTROL
            if fresh:
                _CONTROL.append(_start())
            control = _CONTROL[0]
            try:
                message = request + _REPLY.pack(pid)
                if fd is None:
                    control.sendall(message)
                else:
                    socket.send_fds(control, [message], [fd])
                return int(_REPLY.unpack(_exactly(control, _REPLY.size))[0])
            except (OSError, EOFError):
                _CONTROL.pop().close()
                if request != FORK:
                    return -signal.SIGKILL
                if fresh:
                    raise
    raise EOFError("the process that forks workers cannot be started")


def _start() -> socket.socket:
    here, there = socket.socketpair()
    paths = [str(PACKAGE.parent), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    with there:
        command = [sys.executable, "-P", "-c", f"from eqkir.rules.forks import serve; serve({there.fileno()})"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=env, pass_fds=[there.fileno()])
        process.returncode = 0  # it ends with this process or with the socket: nothing waits for it
    return here


def _exactly(s: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise EOFError("the socket was closed")
        data += more
    return data


# ------------------------------------------------------------------------------------------------ the nursery
def serve(fd: int) -> None:
    """Fork on request until the other side closes the socket."""
    from importlib import import_module

    for name in PRELOADED:
        import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's business
    control = socket.socket(fileno=fd)
    running: set[int] = set()
    while True:
        try:
            data, fds, _, _ = socket.recv_fds(control, 1, 1)
            if not data:
                break
            (pid,) = _REPLY.unpack(_exactly(control, _REPLY.size))
        except (OSError, EOFError):
            break
        if data == FORK:
            answer = os.fork()
            if not answer:
                control.close()
                _run(Connection(fds[0]))
            os.close(fds[0])
            running.add(answer)
        elif pid in running:
            if data == KILL:
                os.kill(pid, signal.SIGKILL)
            answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            running.remove(pid)
        else:  # the child of another nursery, which ended and took it along
            answer = -signal.SIGKILL
        try:
            control.sendall(_REPLY.pack(answer))
        except OSError:
            break
    for pid in sorted(running):
        os.kill(pid, signal.SIGKILL)


def _run(connection: Connection) -> None:
    """A child's whole life."""
    code = 1
    try:
        function, arguments = connection.recv()
        function(connection, *arguments)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        connection.close()
        sys.stderr.flush()
        os._exit(code)
