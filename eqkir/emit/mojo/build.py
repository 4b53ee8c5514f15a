"""Mojo text to native code: batches compiled out of process, linked by the bundled linker, kept in a cache that is written atomically.

A `Module` is Mojo text without imports and helpers (`ops.prelude` supplies both); its top-level names begin with ``kt_``, and `build` makes
them unique by inserting the module's key. Several modules become one shared library; each is found again by its own key, which covers
everything that the code depends on: its text, the helpers' text, the target CPU, the flags and the compiler's version.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.base.files import write_atomic
from eqkir.emit.mojo import toolchain
from eqkir.emit.mojo.library import helpers_in
from eqkir.emit.mojo.ops import prelude

#: no contraction: a product and a sum are fused where KIR fuses them and nowhere else
FLAGS: Final = ("--fp-mode", "contract=off", "--optimization-level", "3", "--debug-level", "none")
LINK: Final = ("-flavor", "gnu", "-shared", "-z", "now", "-z", "relro", "-z", "defs", "--warn-unresolved-symbols")
#: what code may call: the C library's. Conversions and arithmetic of a compiler's own runtime library are not there for it
PROVIDED: Final = frozenset({
    "memcpy", "memmove", "memset", "memcmp", "syscall", "sched_yield", "pthread_create", "pthread_join", "pthread_sigmask", "fegetround",
    "fesetround",
})  # fmt: skip
#: part of every key: a change of how libraries are made or found
FORMAT: Final = 2
#: modules of one run of the compiler
BATCH: Final = 24
_TOP = re.compile(r"\bkt_(?=\w)")
_UNDEFINED = re.compile(r"undefined symbol: (\S+)")
_LINE = re.compile(r"^.*?([\w.]+):(\d+):\d+: (?:error|note): (.*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Module:
    """`text`: Mojo definitions, exported ones marked ``@export``; comments ``# from …`` say of which operation of KIR a line
    and those below it are part."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Built:
    """A shared library and the key that stands in its symbols: the entry ``kt_x`` of the module is the symbol ``kt_<key>_x``."""

    library: Path
    key: str

    def symbol(self, name: str) -> str:
        return symbol(name, self.key)


def symbol(name: str, key: str) -> str:
    """``("kt_s0", "1f")`` -> ``"kt_1f_s0"``."""
    return _TOP.sub(f"kt_{key}_", name, count=1)


def cache_dir() -> Path:
    """Where compiled libraries are kept: ``native`` under EQKIR_CACHE, or under the user's cache folder."""
    base = os.environ.get("EQKIR_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "eqkir")
    return Path(base) / "native"


def text_of(module: Module) -> str:
    """The complete Mojo text of one module, as a user may read or compile it."""
    return prelude(helpers_in(module.text)) + "\n\n" + module.text


def key_of(module: Module, cpu: str, triple: str = "") -> str:
    """The module's key: 20 hexadecimal digits. Raises EqkirError (EQK-MOJ-MISSING)."""
    parts = [str(FORMAT), cpu, host() if cpu == "native" else "", triple, *FLAGS, *toolchain.versions(), text_of(module)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


@cache
def host() -> str:
    """What tells this machine's processor from others, for code that is compiled for ``native``."""
    wanted = ("vendor_id", "cpu family", "model", "model name", "flags", "isa", "uarch", "CPU part", "Features")
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0]
        lines = [" ".join(line.split()) for line in first.split("\n") if line.split(":")[0].strip() in wanted]
    except OSError:
        lines = []
    return "\n".join([platform.machine(), *lines]) if lines else f"{platform.machine()} {platform.processor()} {platform.node()}"


def build(
    modules: Sequence[Module], cpu: str, *, triple: str = "", folder: Path | None = None, seconds: float | None = None
) -> list[Built | EqkirError]:
    """The library of each module, or the diagnosis of why there is none, in the order of `modules`.

    `cpu` is a name that the compiler knows (``x86-64-v4``, ``native`` for the machine's own), with ``+feature`` for what it does not
    imply; `triple` is another machine's than this one's. Modules that are not in the cache are
    compiled together; where a batch fails, its halves are tried, so that one module's failure is its own.
    """
    try:
        return _build(modules, cpu, triple, folder or cache_dir(), seconds or toolchain.default_timeout())
    except OSError as e:
        return [EqkirError(Diagnostic(toolchain.FILES, f"{m.name}: {e}", stage="build")) for m in modules]


def _build(modules: Sequence[Module], cpu: str, triple: str, folder: Path, seconds: float) -> list[Built | EqkirError]:
    """The same, in a folder. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = [key_of(m, cpu, triple) for m in modules]
    todo = {k: m for k, m in zip(keys, modules, strict=True) if find(folder, k) is None}
    failed: dict[str, EqkirError] = {}
    missing = list(todo.items())
    for at in range(0, len(missing), BATCH):
        _compile(missing[at : at + BATCH], cpu, triple, folder, seconds, failed)
    out: list[Built | EqkirError] = []
    for k in keys:
        found = find(folder, k)
        out.append(found if found is not None else failed[k])
    return out


def build_one(module: Module, cpu: str, *, triple: str = "", folder: Path | None = None, seconds: float | None = None) -> Built:
    """`build` of one module. Raises EqkirError."""
    (found,) = build([module], cpu, triple=triple, folder=folder, seconds=seconds)
    if isinstance(found, EqkirError):
        raise found
    return found


def find(folder: Path, key: str) -> Built | None:
    """What the cache in `folder` holds for a key; None for nothing, or for something that is not whole."""
    try:
        name = json.loads((folder / f"{key}.json").read_text(encoding="utf-8"))["library"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    library = folder / str(name)
    try:
        whole = library.parent == folder and library.stem == _digest(library.read_bytes())
    except OSError:
        return None
    return Built(library, key) if whole else None


def _digest(data: bytes) -> str:
    """The name of a library: of its content."""
    return hashlib.sha256(data).hexdigest()[:20]


def _compile(batch: list[tuple[str, Module]], cpu: str, triple: str, folder: Path, seconds: float, failed: dict[str, EqkirError]) -> None:
    """Libraries of a batch into `folder`, or diagnoses into `failed`."""
    bodies = [_TOP.sub(f"kt_{k}_", m.text) for k, m in batch]
    text = "\n\n".join([prelude({h for _, m in batch for h in helpers_in(m.text)}), *bodies])
    with tempfile.TemporaryDirectory(prefix="eqkir-native-") as work:
        error = _run(Path(work), text, cpu, triple, seconds)
        if error is None:
            _keep(Path(work) / "batch.so", [k for k, _ in batch], folder)
            return
    if len(batch) == 1:
        code, message = error
        key, module = batch[0]
        failed[key] = EqkirError(
            Diagnostic(code, f"{module.name}: {message}{_origin(message, text)}", stage="build", details={"text": text})
        )
        return
    half = len(batch) // 2
    _compile(batch[:half], cpu, triple, folder, seconds, failed)
    _compile(batch[half:], cpu, triple, folder, seconds, failed)


def _run(work: Path, text: str, cpu: str, triple: str, seconds: float) -> tuple[str, str] | None:
    """``batch.so`` in `work`; else a code and a message."""
    (work / "batch.mojo").write_text(text, encoding="utf-8")
    name, *features = cpu.split("+")
    target = [*([] if name == "native" else ["--target-cpu", name]), *(["--target-triple", triple] if triple else [])]
    target += ["--target-features", ",".join(f"+{f}" for f in features)] if features else []
    end = toolchain.run("mojo", ["build", *FLAGS, "--emit", "object", *target, "batch.mojo", "-o", "batch.o"], work, seconds)
    if end.code is None:
        return toolchain.TIME, f"the compiler did not end within {seconds:g} s"
    if end.aborted:
        return toolchain.ABORT, f"the compiler ended with {end.code}: {_tail(end.text)}"
    if end.code or not (work / "batch.o").is_file():
        return toolchain.COMPILE, _errors(end.text)
    end = toolchain.run("lld", [*LINK, "batch.o", "-o", "batch.so"], work, seconds)
    if end.code is None or end.code:
        return toolchain.LINK, _tail(end.text)
    if unknown := sorted(set(_UNDEFINED.findall(end.text)) - PROVIDED):
        return toolchain.LINK, f"the code calls {', '.join(unknown)}, which no library of the process provides"
    return None


def _keep(library: Path, keys: list[str], folder: Path) -> None:
    """The library, then one entry a module, each renamed into place whole: a reader sees an entry only when its library is there."""
    data = library.read_bytes()
    name = f"{_digest(data)}.so"
    write_atomic(folder / name, data)
    for key in keys:
        write_atomic(folder / f"{key}.json", json.dumps({"library": name}).encode())


def _tail(text: str) -> str:
    return " ".join(text.split())[-600:]


def _errors(text: str) -> str:
    """The compiler's errors, the first five."""
    found = [f"line {n}: {what}" if file == "batch.mojo" else what for file, n, what in _LINE.findall(text)]
    return "; ".join(found[:5]) or _tail(text)


def _origin(message: str, text: str) -> str:
    """From where the line comes that a message names: what the last comment ``# from …`` at or above it says."""
    found = re.search(r"line (\d+):", message)
    lines = text.split("\n")[: int(found[1])] if found else []
    for line in reversed(lines):
        at = line.rfind("# from ")
        if at >= 0:
            return f" (from {line[at + len('# from ') :].strip()})"
    return ""
