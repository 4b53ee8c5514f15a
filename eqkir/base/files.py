"""Reading files that a user named: regular files only, never more than a bound."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: str | Path, limit: int) -> bytes:
    """At most ``limit + 1`` bytes of a regular file (so that a longer one can be told). Raises OSError, also for a device, a pipe or a
    folder, and ValueError for a path with a null character. It does not wait for the other end of a pipe."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with open(fd, "rb") as f:
        return f.read(limit + 1)
