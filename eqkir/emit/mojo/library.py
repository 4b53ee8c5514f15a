"""The library of helpers (``lib/*.mojo``): which definitions a module needs, in one fixed order."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

IMPORTS: Final = """\
from std.atomic import Atomic
from std.ffi import external_call
from std.math import fma
from std.memory import bitcast, stack_allocation
from std.sys.info import CompilationTarget, size_of
from std.sys.intrinsics import gather, llvm_intrinsic, masked_load, masked_store
"""
_NAME = re.compile(r"^def (\w+)", re.MULTILINE)
_USED = re.compile(r"\beqk_\w+")
_COMMENT = re.compile(r"#[^\n]*")


@cache
def blocks() -> dict[str, str]:
    """Name -> text of every definition, comments above it included."""
    out: dict[str, str] = {}
    for path in sorted((Path(__file__).parent / "lib").glob("*.mojo")):
        for block in re.split(r"\n\n\n", path.read_text(encoding="utf-8").strip("\n")):
            found = _NAME.search(block)
            if found is None:
                continue
            if found[1] in out:
                raise ValueError(f"{path.name}: {found[1]} is defined twice")
            out[found[1]] = block + "\n"
    return out


def helpers_in(text: str) -> set[str]:
    """The helpers that a module's text names."""
    return set(_USED.findall(_COMMENT.sub("", text)))


@cache
def _calls(name: str) -> frozenset[str]:
    return frozenset(helpers_in(blocks()[name]) - {name})


def needed(used: set[str]) -> set[str]:
    """`used` and everything that these helpers call. Raises KeyError for a name that is no helper."""
    todo, out = sorted(used), set(used)
    while todo:
        new = _calls(todo.pop()) - out
        out |= new
        todo += sorted(new)
    return out


def definitions(names: set[str]) -> list[str]:
    """The texts of the helpers, in the order of the library."""
    return [text for name, text in blocks().items() if name in names]
