"""A worker process: reads pickled tasks from its standard input, answers each on its standard output.

A frame is eight bytes of length (little endian) and a pickle. A task is ``(function, arguments)`` with the function as
``module:name``; the answer is ``("ok", value)`` or ``("error", type, text, traceback)``. Whatever the task prints goes to standard error.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import struct
import sys
import traceback
from typing import IO, Any

from eqkir.base.follow import follow


def read_frame(stream: IO[bytes]) -> Any:
    """The next object; raises EOFError at the end of the stream or in the middle of a frame."""
    head = _exactly(stream, 8)
    return pickle.loads(_exactly(stream, struct.unpack("<Q", head)[0]))


def write_frame(stream: IO[bytes], value: Any) -> None:
    """Raises OSError when the other side is gone."""
    data = pickle.dumps(value, protocol=5)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def _exactly(stream: IO[bytes], n: int) -> bytes:
    data = b""
    while len(data) < n:
        more = stream.read(n - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def resolve(name: str) -> Any:
    """``"package.module:attribute"`` -> the object. Raises ImportError, AttributeError."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def main() -> None:
    """Serve until the parent closes the pipe, or ends."""
    follow(os.getppid())
    gc.set_threshold(100_000)  # tasks make many objects and few cycles
    tasks = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    while True:
        try:
            function, arguments = read_frame(tasks)
        except EOFError:
            return
        answer: tuple[Any, ...]
        try:
            answer = ("ok", resolve(function)(*arguments))
        except BaseException as e:  # a native panic is no Exception; the parent decides what it means
            answer = ("error", type(e).__name__, str(e), traceback.format_exc())
        try:
            write_frame(answers, answer)
        except OSError:
            return
