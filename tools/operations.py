"""`docs/operations.md`: every operation of KIR from its class, with an example out of the corpus.

`python -m tools.operations` writes the page; with ``--check`` it compares only. The example of an operation is its shortest occurrence in
the corpus, beside the line of the builder script that made it.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

from corpus.build import every
from eqkir.kir.canonical import to_json
from eqkir.kir.model import OPERATIONS, Op
from eqkir.kir.node import Region

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "operations.md"
HEAD = """# The operations of KIR

Written by `python -m tools.operations` from the operations' classes and from the corpus. [kir.md](kir.md) explains the language around
them. Fields in *italics* are optional. A field holds an operand (the id of an earlier value), a resource (the id of a view or buffer), an
extent, a region, or data. Examples are the shortest in the corpus, in canonical names, with the line of Python that wrote each.
"""
TOPICS = {
    "coords": "Extents and domains", "pointwise": "Scalar and pointwise", "shape": "Shape", "records": "Records and calls",
    "memory": "Memory", "atomics": "Atomics", "control": "Control", "structured": "Structured", "regions": "Folds over slices",
    "formats": "Encoded numbers", "rng": "Random numbers",
}  # fmt: skip


def examples() -> dict[str, tuple[str, str]]:
    """op -> (JSON text, Python text) of its shortest occurrence in the corpus."""
    out: dict[str, tuple[str, str]] = {}
    sources: dict[str, list[str]] = {}
    for k in every().values():
        for found, model in zip(_operations(to_json(k)["body"]), _in_order(k.body), strict=True):
            text, loc = json.dumps(found, ensure_ascii=False), model.loc
            if loc is None or (found["op"] in out and len(out[found["op"]][0]) <= len(text)):
                continue
            path = ROOT / "corpus" / loc.file
            lines = sources.setdefault(loc.file, path.read_text(encoding="utf-8").splitlines() if path.exists() else [])
            if lines:
                out[found["op"]] = text, lines[loc.line - 1].strip()
    return out


def _operations(body: list[Any]) -> list[Any]:
    out = []
    for o in body:
        out.append(o)
        for v in o.values():
            if isinstance(v, dict) and "body" in v:
                out += _operations(v["body"])
    return out


def _in_order(body: tuple[Op, ...]) -> list[Op]:
    out: list[Op] = []
    for o in body:
        out.append(o)
        for r in o.regions():
            out += _in_order(r.body)
    return out


def fields(cls: type[Op]) -> str:
    """The fields of an operation in one line."""
    parts = []
    for name, info in cls.model_fields.items():
        if name in ("op", "results", "loc"):
            continue
        kinds = {"operand": cls.operand_fields, "resource": cls.resource_fields, "extent": cls.extent_fields}
        region = Region in (info.annotation, *getattr(info.annotation, "__args__", ()))
        kind = next((w for w, names in kinds.items() if name in names), "region" if region else "")
        label = f"`{name}`" if info.is_required() else f"*`{name}`*"
        parts.append(f"{label}{f' ({kind})' if kind else ''}")
    return ", ".join(parts) or "none"


def facts(cls: type[Op]) -> str:
    """What the operation may do, and where it may stand."""
    out = [w for w, has in (("pointwise", cls.pointwise), ("reads memory", cls.reads), ("writes or allocates memory", cls.writes)) if has]
    out += [f"{f}: {p}" for f, p in cls.purity.items()]
    return "; ".join(out) or "pure"


def page() -> str:
    """The text of the page."""
    shown = examples()
    lines = [HEAD]
    for module, title in TOPICS.items():
        lines.append(f"\n## {title}\n")
        for name, cls in sorted(OPERATIONS.items()):
            if cls.__module__.rpartition(".")[2] != module:
                continue
            lines.append(f"### `{name}`\n\n{inspect.getdoc(cls) or ''}\n\nFields: {fields(cls)}. Effect: {facts(cls)}.\n")
            if name in shown:
                text, source = shown[name]
                lines.append(f"```json\n{text}\n```\n\n```python\n{source}\n```\n")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    text = page()
    if "--check" in arguments:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
