"""The native part of a kernel's artifacts: what the loader needs (``native.json``), the compiled code, the Mojo text, the pool."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from eqkir.base.expr import Expr
from eqkir.base.files import write_atomic
from eqkir.cpu.model import TaskProgram
from eqkir.emit.mojo.build import Built, Module, text_of
from eqkir.emit.mojo.host import identifier, python
from eqkir.targets.cpu import CpuTarget

#: version of ``native.json`` and of the task functions' interface
FORMAT: Final = 1
FILES: Final = ("kernel.mojo", "kernel.so", "pool.so", "native.json")


@dataclass(frozen=True)
class Native:
    """A task program spelled as Mojo. `entries`: for each stage, the name (``kt_…``) of each group's task function in `module`."""

    program: TaskProgram
    module: Module
    entries: tuple[tuple[str, ...], ...]

    @property
    def source(self) -> str:
        """The complete Mojo text."""
        return text_of(self.module)


def describe(native: Native, cpu: str) -> dict[str, Any]:
    """What the loader must know, without paths and symbols: interface, words, resources, stages with launch expressions as Python text."""
    p = native.program
    abi = p.abi

    def text(e: Expr) -> str:
        return python(e)

    return {
        "native": FORMAT,
        "kernel": abi.kernel,
        "cpu": cpu,
        "views": [
            {"name": v.name, "role": v.role, "dtype": v.dtype, "shape": [{"text": text(e), "symbol": _symbol(e)} for e in v.shape]}
            for v in abi.views if v.role != "workspace"
        ],
        "scalars": [{"name": s.name, "dtype": s.dtype, "identifier": identifier(s.name)} for s in abi.scalars],
        "symbols": [
            {"name": s.name, "identifier": identifier(s.name), "min": s.lo, "max": s.hi, "multiple_of": s.multiple_of} for s in abi.symbols
        ],
        "noalias": [list(g) for g in abi.noalias],
        "preconditions": [{"text": text(e), "shown": str(e)} for e in p.preconditions],
        "limits": p.limits,
        "words": [[kind, name] for kind, name in p.words],
        "resources": [{"name": r.name, "dtype": r.dtype, "size": text(r.size), "align": r.align} for r in p.resources],
        "stages": [
            [{"entry": entry, "launch": text(g.launch), "grain": g.grain} for g, entry in zip(stage, names, strict=True)]
            for stage, names in zip(p.stages, native.entries, strict=True)
        ],
    }  # fmt: skip


def _symbol(e: Expr) -> str | None:
    return str(e.args[0]) if e.op == "sym" else None


def write(folder: Path, native: Native, target: CpuTarget, library: Built, pool: Built) -> None:
    """The four files of `FILES`, each whole or not at all, ``native.json`` last. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "native.json").unlink(missing_ok=True)
    files = {"kernel.mojo": native.source.encode(), "kernel.so": library.library.read_bytes(), "pool.so": pool.library.read_bytes()}
    for name, data in files.items():
        write_atomic(folder / name, data)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    told = describe(native, target.cpu) | {
        "key": library.key, "pool": pool.key, "digests": digests, "machine": target.machine, "needs": list(target.needs),
    }  # fmt: skip
    write_atomic(folder / "native.json", (json.dumps(told, sort_keys=True, indent=2) + "\n").encode())
