"""Files: reading what a user named (regular files only, never more than a bound), writing whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
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


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write `data` (text as UTF-8) to `path`, making its folder: a reader, or a crash, sees the old file or the new one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(fd, "wb") as f:
            f.write(data.encode() if isinstance(data, str) else data)
            f.flush()
            os.fsync(f.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
