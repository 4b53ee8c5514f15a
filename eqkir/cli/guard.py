"""The outermost frame of the command line: whatever happens becomes an exit status and coded lines on standard error."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from io import TextIOWrapper

from eqkir.base.diagnostics import Diagnostic, EqkirError


def guarded(work: Callable[[], object]) -> int:
    """Run `work`, flush, and return the exit status: 0, 1 (a failure) or 2 (usage)."""
    _streams()
    try:
        status = _status(work)
        sys.stdout.flush()
    except BrokenPipeError:
        _mute()  # the reader went away; nothing more to say
        return 1
    except OSError as e:
        _mute()
        return _say(_io(e))
    return status


def _status(work: Callable[[], object]) -> int:
    from eqkir.driver import codes

    try:
        work()
    except EqkirError as e:
        return _say(*e.diagnostics)
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else 1 if e.code else 0
    except BrokenPipeError:
        raise
    except OSError as e:
        return _say(_io(e))
    except MemoryError as e:
        return _say(Diagnostic(codes.MEMORY, _line(e) or "the system gives no more"))
    except KeyboardInterrupt:
        return 130
    except BaseException as e:  # a native panic is no Exception
        return _say(Diagnostic(codes.INTERNAL, f"{type(e).__name__}: {_line(e)}{_kept(traceback.format_exc())}"))
    return 0


def _say(*diagnostics: Diagnostic) -> int:
    for d in diagnostics:
        print(d, file=sys.stderr)
    return 2 if all(d.stage == "options" for d in diagnostics) else 1


def _io(e: OSError) -> Diagnostic:
    from eqkir.driver import codes

    return Diagnostic(codes.IO, e.strerror or _line(e), file=str(e.filename) if isinstance(e.filename, (str, os.PathLike)) else None)


def _line(e: BaseException) -> str:
    return " ".join(str(e).split())[:500]


def _kept(text: str) -> str:
    """Write the traceback where bundles go; what the message says of it."""
    from eqkir.driver.artifacts import digest, write_atomic
    from eqkir.driver.bundle import scratch

    try:
        path = scratch() / f"traceback-{digest(text)[:12]}.txt"
        write_atomic(path, text)
    except OSError:
        return ""
    return f"; traceback {path}"


def _streams() -> None:
    """Characters that the encoding lacks are replaced; a closed stream takes everything."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace" if name == "stdout" else "backslashreplace")


def _mute() -> None:
    """Let standard output go nowhere, so that the flush at exit finds nothing wrong."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
