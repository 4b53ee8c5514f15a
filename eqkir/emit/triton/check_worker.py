"""The worker process of the checks, ``python -m eqkir.emit.triton.check_worker interpret|compile``: pickled requests on stdin, replies on
stdout, each after its length in 8 bytes.

Interpreting and compiling exclude each other within a process, hence two kinds of workers.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pickle
import struct
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from eqkir.base.follow import follow

_MODULES: dict[str, ModuleType] = {}


def load(source: str, folder: Path) -> ModuleType:
    """The emitted module, imported from a file (its functions are read back from there)."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:24]
    if digest not in _MODULES:
        if len(_MODULES) >= 256:
            _MODULES.clear()
        path = folder / f"emitted_{digest}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _MODULES[digest] = module
    return _MODULES[digest]


@contextlib.contextmanager
def captured() -> Iterator[list[str]]:
    """Everything written to file descriptors 1 and 2 (compilers write there)."""
    out: list[str] = []
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as f:
        try:
            os.dup2(f.fileno(), 1)
            os.dup2(f.fileno(), 2)
            yield out
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for fd, s in zip((1, 2), saved, strict=True):
                os.dup2(s, fd)
                os.close(s)
            f.seek(0)
            out.append(f.read().decode(errors="replace"))


def serve(kind: str, requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until the pipe closes."""
    handle: Any
    if kind == "interpret":
        os.environ["TRITON_INTERPRET"] = "1"
        from eqkir.emit.triton.check_interpret import handle as interpret

        handle = interpret
    else:
        from eqkir.emit.triton.check_compile import handle as compile_

        handle = compile_
    with tempfile.TemporaryDirectory(prefix="eqkir-check-") as tmp:
        while head := requests.read(8):
            (n,) = struct.unpack("<Q", head)
            job = pickle.loads(requests.read(n))
            log: list[str] = []
            try:
                with captured() as log:
                    reply = handle(job, Path(tmp))
            except BaseException as e:
                if isinstance(e, (KeyboardInterrupt, SystemExit)):
                    raise
                reply = {"error": f"{type(e).__name__}: {e}", "trace": traceback.format_exc()}
            reply["log"] = "".join(log)[-20_000:]
            data = pickle.dumps(reply)
            replies.write(struct.pack("<Q", len(data)) + data)
            replies.flush()


def main() -> None:
    follow(os.getppid())
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.argv[1], sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
