"""The corpus as files: `corpus/json/*.json`, one kernel a file, and `tests/corpus_shapes.json`.

Kernels that later layers do not take yet are listed in `PENDING`: they go to `corpus/pending/*.json` and `tests/pending_shapes.json`.
`python -m corpus.build` writes the files from the builder scripts; with `--check` it compares only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from corpus import (
    attention,
    attention_backward,
    bands,
    contraction,
    convolution,
    counting,
    distance,
    encoded,
    iteration,
    language,
    linalg,
    losses,
    normalize,
    norms,
    optimizers,
    pointwise,
    randomness,
    reduction,
    rotary,
    scans,
    selection,
    sequences,
    sparse,
    statespace,
    structure,
    textbook,
    transforms,
)
from corpus.pending import PENDING
from corpus.shapes import entry_of
from eqkir.kir.builder import HelperRef, module
from eqkir.kir.canonical import dumps
from eqkir.kir.helpers import calls
from eqkir.kir.model import Kernel

ROOT = Path(__file__).parents[1]
JSON, PENDING_JSON = ROOT / "corpus" / "json", ROOT / "corpus" / "pending"
SHAPES, PENDING_SHAPES = ROOT / "tests" / "corpus_shapes.json", ROOT / "tests" / "pending_shapes.json"
SCRIPTS = (
    pointwise, normalize, reduction, contraction, structure, rotary, norms, losses, scans, encoded, convolution, attention,
    attention_backward, textbook, statespace, sparse, counting, randomness, optimizers, selection, transforms, linalg, sequences, distance,
    iteration, language, bands,
)  # fmt: skip


def every() -> dict[str, Kernel]:
    """Every kernel by name, in order, pending ones included."""
    out: dict[str, Kernel] = {}
    for script in SCRIPTS:
        found = [v for v in vars(script).values() if isinstance(v, Kernel)]
        for k in [*found, *getattr(script, "KERNELS", [])]:
            if out.setdefault(k.name, k) is not k:
                raise ValueError(f"two kernels are named {k.name}")
    return out


def kernels() -> dict[str, Kernel]:
    """Every kernel of the corpus by name, in order."""
    return {name: k for name, k in every().items() if name not in PENDING}


def pending() -> dict[str, Kernel]:
    """The kernels that later layers do not take yet."""
    return {name: k for name, k in every().items() if name in PENDING}


def helpers() -> dict[str, HelperRef]:
    """Every helper by name."""
    return {h.name: h for script in SCRIPTS for h in getattr(script, "HELPERS", [])}


def text(k: Kernel) -> str:
    """The JSON of one kernel and the helpers that it calls."""
    known = helpers()
    used = [known[n] for n in dict.fromkeys(c.helper for c in calls(k.body))]
    return dumps(module(k, name=k.name, helpers=used))


def texts() -> dict[Path, str]:
    """The text of every file."""
    out = {JSON / f"{name}.json": text(k) for name, k in kernels().items()}
    out |= {PENDING_JSON / f"{name}.json": text(k) for name, k in pending().items()}
    return out | {SHAPES: shapes_text(kernels()), PENDING_SHAPES: shapes_text(pending())}


def shapes_text(chosen: dict[str, Kernel]) -> str:
    """Test shapes of the chosen kernels, one assignment on a line."""
    rows = []
    for name, k in chosen.items():
        entry = entry_of(k)
        tests = ",\n    ".join(json.dumps(t) for t in entry.pop("test"))
        rest = "".join(f',\n   "{key}": {json.dumps(v)}' for key, v in entry.items() if v)
        rows.append(f' "{name}": {{\n   "test": [\n    {tests}]{rest}}}')
    return "{\n" + ",\n".join(rows) + "\n}\n"


def stale() -> list[Path]:
    """Files that differ from what the scripts give, are missing, or belong to no script."""
    want = texts()
    have = {p: p.read_text(encoding="utf-8") for d in (JSON, PENDING_JSON) for p in d.glob("*.json")}
    have |= {p: p.read_text(encoding="utf-8") for p in (SHAPES, PENDING_SHAPES) if p.exists()}
    return sorted(p for p in want.keys() | have.keys() if want.get(p) != have.get(p))


def main(arguments: list[str]) -> int:
    old = stale()
    if "--check" in arguments:
        print("\n".join(p.relative_to(ROOT).as_posix() for p in old) or "up to date")
        return 1 if old else 0
    want = texts()
    for p in old:
        if p in want:
            p.parent.mkdir(exist_ok=True)
            p.write_text(want[p], encoding="utf-8")
        else:
            p.unlink()
    print(f"{len(kernels())} kernels, {len(pending())} pending, {len(old)} files changed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
