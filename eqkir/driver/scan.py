"""From a file to the kernels in it: what is wrong with one kernel (or with its JSON) costs that kernel alone."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, replace
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
    from eqkir.kir.load import read, read_file
    from eqkir.kir.verify import verify

    start = time.perf_counter()
    faults: dict[int, list[Diagnostic]] = {}
    names: dict[int, str] = {}
    places: list[int] | None = None
    positions = None
    try:
        module, positions = read_file(file) if data is None else read(data, file)
    except EqkirError as e:
        split = _by_kernel(e.diagnostics)
        if split is None:
            return [_failed(None, file, "read", e.diagnostics)]
        raw = json.loads(Path(file).read_bytes() if data is None else data)
        names = {i: str(k.get("name", i)) if isinstance(k, dict) else str(i) for i, k in enumerate(raw["kernels"])}
        places = list(range(len(raw["kernels"])))
        while split:
            for i, ds in split.items():
                faults[places[i]] = [_moved(d, places[i]) for d in ds]
            places = [p for j, p in enumerate(places) if j not in split]
            raw["kernels"] = [k for j, k in enumerate(raw["kernels"]) if j not in split]
            try:
                module, _ = read(json.dumps(raw).encode(), file)
                split = {}
            except EqkirError as again:
                split = _by_kernel(again.diagnostics)
                if split is None:
                    return [_failed(None, file, "read", again.diagnostics)]
    if places is None:
        places = list(range(len(module.kernels)))
    share = (time.perf_counter() - start) / max(1, len(places))
    out: dict[int, Task | Outcome] = {i: _failed(names.get(i), file, "read", ds) for i, ds in faults.items()}
    taken: set[str] = set()
    for place, kernel in zip(places, module.kernels, strict=True):
        start = time.perf_counter()
        alone = module.model_copy(update={"kernels": (kernel,)})
        found = [_moved(d, place) for d in verify(alone)]
        if kernel.name in taken:
            found.append(_duplicate(kernel.name, place))
        taken.add(kernel.name)
        if found:
            out[place] = _failed(kernel.name, file, "check", [_located(d, positions) for d in found])
        else:
            text = alone.model_dump_json(exclude_unset=True)
            out[place] = Task(file, place, kernel.name, text, share + time.perf_counter() - start)
    return [out[i] for i in sorted(out)]


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


def _by_kernel(diagnostics: tuple[Diagnostic, ...]) -> dict[int, list[Diagnostic]] | None:
    """Diagnostics by the kernel that they point into; None when one of them points elsewhere."""
    out: dict[int, list[Diagnostic]] = {}
    for d in diagnostics:
        m = _KERNEL.match(d.pointer)
        if not m:
            return None
        out.setdefault(int(m[1]), []).append(d)
    return out


def _moved(d: Diagnostic, place: int) -> Diagnostic:
    m = _KERNEL.match(d.pointer)
    return replace(d, pointer=f"/kernels/{place}{m[2] or ''}") if m else d


def _located(d: Diagnostic, positions: Any) -> Diagnostic:
    if positions is None:
        return d
    file, line = positions.locate(d.pointer)
    return replace(d, file=file, line=line)


def _duplicate(name: str, place: int) -> Diagnostic:
    from eqkir.kir.codes import CODES, STAGE

    return Diagnostic(CODES["NAME"], f"two kernels are named {name}", f"/kernels/{place}/name", accepted="a name of its own", stage=STAGE)


def _failed(kernel: str | None, file: str, stage: str, diagnostics: Any) -> Outcome:
    o = Outcome(kernel, file, stage=stage)
    o.fail(*diagnostics)
    return o
