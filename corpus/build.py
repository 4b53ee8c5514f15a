"""The corpus as files: `corpus/json/*.json`, one kernel a file, and `tests/corpus_shapes.json`.

`python -m corpus.build` writes them from the builder scripts; with `--check` it compares only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from corpus import contraction, normalize, pointwise, reduction, structure
from corpus.shapes import entry_of
from eqkir.kir.builder import module
from eqkir.kir.canonical import dumps
from eqkir.kir.model import Kernel

JSON = Path(__file__).parent / "json"
SHAPES = JSON.parents[1] / "tests" / "corpus_shapes.json"


def kernels() -> dict[str, Kernel]:
    """Every kernel of the corpus by name, in order."""
    out: dict[str, Kernel] = {}
    for script in (pointwise, normalize, reduction, contraction, structure):
        found = [v for v in vars(script).values() if isinstance(v, Kernel)]
        for k in [*found, *getattr(script, "KERNELS", [])]:
            if out.setdefault(k.name, k) is not k:
                raise ValueError(f"two kernels are named {k.name}")
    return out


def texts() -> dict[str, str]:
    """File name -> JSON text."""
    return {f"{name}.json": dumps(module(k, name=name)) for name, k in kernels().items()}


def shapes_text() -> str:
    """The text of `tests/corpus_shapes.json`: test shapes of every kernel, one assignment on a line."""
    rows = []
    for name, k in kernels().items():
        entry = entry_of(k)
        tests = ",\n    ".join(json.dumps(t) for t in entry.pop("test"))
        rest = "".join(f',\n   "{key}": {json.dumps(v)}' for key, v in entry.items() if v)
        rows.append(f' "{name}": {{\n   "test": [\n    {tests}]{rest}}}')
    return "{\n" + ",\n".join(rows) + "\n}\n"


def stale() -> list[str]:
    """Files that differ from what the scripts give, are missing, or belong to no script."""
    want = texts()
    have = {p.name: p.read_text(encoding="utf-8") for p in JSON.glob("*.json")}
    out = sorted(n for n in want.keys() | have.keys() if want.get(n) != have.get(n))
    if not SHAPES.exists() or SHAPES.read_text(encoding="utf-8") != shapes_text():
        out.append(SHAPES.name)
    return out


def main(arguments: list[str]) -> int:
    old = stale()
    if "--check" in arguments:
        print("\n".join(old) or "up to date")
        return 1 if old else 0
    JSON.mkdir(exist_ok=True)
    want = texts()
    for name in old:
        if name == SHAPES.name:
            SHAPES.write_text(shapes_text(), encoding="utf-8")
        elif name in want:
            (JSON / name).write_text(want[name], encoding="utf-8")
        else:
            (JSON / name).unlink()
    print(f"{len(want)} kernels, {len(old)} files changed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
