"""From a file to the kernels in it: what is wrong with one kernel (or with its JSON) costs that kernel alone."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.driver.outcome import Outcome

_KERNEL = re.compile(r"/kernels/(\d+)(/.*)?$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Task:
    """A verified kernel to do: its file, its place in the file's module, its name, and a module's text with this kernel alone."""

    file: str
    index: int
    kernel: str
    kir: str
    seconds: float = 0.0  # reading and verifying, its share


def scan(file: str, data: bytes | None = None) -> list[Task | Outcome]:
    """The kernels of a file in order, each a `Task` or a failed `Outcome`; one failed outcome when the file as a whole is unreadable.

    `data` stands for the file's contents when given.
    """
    from eqkir.kir import survey, survey_file, verify_kernel
    from eqkir.kir.helpers import calls, inline
    from eqkir.kir.verify import verify_helpers

    start = time.perf_counter()
    try:
        reading = survey_file(file) if data is None else survey(data, file)
    except EqkirError as e:
        return [_failed(None, file, "read", e.diagnostics)]
    share = (time.perf_counter() - start) / max(1, len(reading.indices))
    out: dict[int, Task | Outcome] = {b.index: _failed(b.name, file, "read", b.diagnostics) for b in reading.broken}
    library, wrong = verify_helpers(reading.module, reading.positions)
    broken = {h.name for h in reading.module.helpers} - set(library.types)
    taken: set[str] = set()
    for place, kernel in zip(reading.indices, reading.module.kernels, strict=True):
        start = time.perf_counter()
        harmed = any(c.helper in broken for c in calls(kernel.body))
        found = wrong if harmed else verify_kernel(kernel, place, reading.positions, library)[0]
        if kernel.name in taken:
            found = [*found, _duplicate(kernel.name, place, reading.positions.locate(f"/kernels/{place}/name")[1], file)]
        taken.add(kernel.name)
        if found:
            out[place] = _failed(kernel.name, file, "check", found)
        else:
            alone = {"helpers": (), "kernels": (inline(kernel, library)[0],)}
            text = reading.module.model_copy(update=alone).model_dump_json(exclude_none=True)
            out[place] = Task(file, place, kernel.name, text, share + time.perf_counter() - start)
    unused = [_failed(None, file, "check", wrong)] if wrong and not any(isinstance(o, Outcome) for o in out.values()) else []
    return [*unused, *(out[i] for i in sorted(out))]


def located(d: dict[str, Any], task: Task) -> dict[str, Any]:
    """A later stage's diagnostic on a task's kernel (pointer into the one-kernel module, or relative to the kernel) in the file's terms."""
    pointer = d.get("pointer") or ""
    m = _KERNEL.match(pointer)
    full = f"/kernels/{task.index}{(m[2] or '') if m else pointer}"
    d = {**d, "pointer": full, "file": task.file}
    try:
        from eqkir.kir.positions import Positions

        d["line"] = Positions(Path(task.file).read_text(encoding="utf-8"), task.file).locate(full)[1]
    except (OSError, UnicodeDecodeError):
        d["line"] = None
    return d


def _duplicate(name: str, place: int, line: int | None, file: str) -> Diagnostic:
    from eqkir.kir.codes import CODES, STAGE

    return Diagnostic(CODES["NAME"], f"two kernels are named {name}", f"/kernels/{place}/name", file, line, "a name of its own", STAGE)


def _failed(kernel: str | None, file: str, stage: str, diagnostics: Any) -> Outcome:
    o = Outcome(kernel, file, stage=stage)
    o.fail(*diagnostics)
    return o
