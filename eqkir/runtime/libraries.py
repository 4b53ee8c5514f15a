"""Shared libraries by content: the dynamic loader knows a library by its path, and a folder may have been written again since."""

from __future__ import annotations

import ctypes
import hashlib
import tempfile
import threading
from pathlib import Path

_LOADED: dict[str, ctypes.CDLL] = {}
_LOCK = threading.Lock()


def library(path: Path) -> ctypes.CDLL:
    """The library that `path` holds now, loaded once a process under a name of its own. Raises OSError."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with _LOCK:
        if digest not in _LOADED:
            with tempfile.TemporaryDirectory(prefix="eqkir-load-") as folder:
                name = Path(folder) / f"{digest}.so"
                name.symlink_to(path.absolute())
                _LOADED[digest] = ctypes.CDLL(str(name))
        return _LOADED[digest]
