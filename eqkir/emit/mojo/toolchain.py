"""The Mojo compiler and linker of the extra ``cpu`` as processes of their own, with a time limit. Nothing of them is imported."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from eqkir.base.diagnostics import fail, register
from eqkir.base.follow import following

INSTALL: Final = 'pip install "eqkir[cpu]"'
MISSING: Final = register(
    "EQK-MOJ-MISSING", "the Mojo compiler is not installed",
    f"Native kernels are compiled by the package `mojo-compiler`, an optional extra: {INSTALL}. An artifact that is already "
    "compiled runs without it.",
)  # fmt: skip
COMPILE: Final = register(
    "EQK-MOJ-COMPILE", "the Mojo compiler refuses a module",
    "An emitted module is not valid Mojo, or a function is not available for the target CPU. The message has the compiler's words "
    "and says from which operation of KIR the line comes (comments `# from …` of the text). Report it with the module's text.",
)  # fmt: skip
ABORT: Final = register(
    "EQK-MOJ-ABORT", "the Mojo compiler ended abnormally",
    "The compiler process died while it compiled a module. It runs apart from this process, so nothing else is affected. Another "
    "target CPU or another candidate may compile.",
)  # fmt: skip
TIME: Final = register(
    "EQK-MOJ-TIME", "compilation took too long",
    "The Mojo compiler did not end within the limit (EQKIR_NATIVE_TIMEOUT seconds, 600 if unset).",
)  # fmt: skip
LINK: Final = register(
    "EQK-MOJ-LINK", "a native module does not link",
    "The bundled linker refuses the object file, and the message has its words; or the code calls a function that only a compiler's own "
    "runtime library has.",
)  # fmt: skip
FILES: Final = register(
    "EQK-MOJ-FILES", "files of a compilation cannot be written",
    "The cache of compiled kernels (EQKIR_CACHE) or the folder for temporary files cannot be used; the message has the system's words.",
)  # fmt: skip

PACKAGES: Final = ("mojo-compiler", "mojo-compiler-mojo-libs")
_NOISE = re.compile(r"^.*(Crashpad|crash reporting).*\n?", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: `code` < 0 is a signal, None is the time limit."""

    code: int | None
    text: str

    @property
    def aborted(self) -> bool:
        return self.code is not None and (self.code < 0 or self.code >= 128)


def available() -> bool:
    """Whether the compiler is installed."""
    return find_spec("mojo") is not None


@cache
def versions() -> tuple[str, ...]:
    """Name and version of every package that takes part in a compilation. Raises EqkirError (EQK-MOJ-MISSING)."""
    out = []
    for name in PACKAGES:
        try:
            out.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            raise fail(MISSING, f"the package {name} is not installed", accepted=INSTALL, stage="build") from None
    return tuple(out)


@cache
def _root() -> Path:
    """The folder that holds ``bin/mojo`` and ``lib/mojo``."""
    spec = find_spec("mojo")
    places = [Path(p).parent / "modular" for p in (spec.submodule_search_locations or ())] if spec else []
    for root in [*places, Path(sys.prefix)]:
        if (root / "bin" / "mojo").exists() and (root / "lib" / "mojo").exists():
            return root
    raise fail(MISSING, "the Mojo compiler is not installed", accepted=INSTALL, stage="build")


def default_timeout() -> float:
    """Seconds that one run of the compiler may take."""
    text = os.environ.get("EQKIR_NATIVE_TIMEOUT", "")
    try:
        return float(text) if text and float(text) > 0 else 600.0
    except ValueError:
        return 600.0


def run(tool: str, arguments: list[str], folder: Path, seconds: float) -> Ended:
    """``mojo`` or ``lld`` in `folder`. The process, with all that it started, is killed at the limit; it ends with this process, too."""
    root = _root()
    env = {
        "MODULAR_MAX_PACKAGE_ROOT": str(root), "MODULAR_MOJO_MAX_PACKAGE_ROOT": str(root),
        "MODULAR_MOJO_MAX_DRIVER_PATH": str(root / "bin" / "mojo"), "MODULAR_MOJO_MAX_IMPORT_PATH": str(root / "lib" / "mojo"),
    }  # fmt: skip
    command = following([str(root / "bin" / tool), *arguments])
    process = subprocess.Popen(
        command, cwd=folder, env={**env, **os.environ}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, _ = process.communicate(timeout=seconds)
    except BaseException as e:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()
        if isinstance(e, subprocess.TimeoutExpired):
            return Ended(None, "")
        raise
    return Ended(process.returncode, _NOISE.sub("", out.decode(errors="replace")))
