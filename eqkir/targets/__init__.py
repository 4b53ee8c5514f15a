"""Targets by name: ``load_target("triton:nvidia-h200")``. A target is a data file; no code here knows any machine."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Union

from pydantic import ValidationError

from eqkir.base.diagnostics import fail, register
from eqkir.targets.cpu import CpuTarget, host_level, native
from eqkir.targets.model import Dot, Target

Machine = Union[Target, CpuTarget]

UNKNOWN = register(
    "EQK-TARGET-UNKNOWN",
    "unknown target",
    "A target is spelled provider:name, for example triton:nvidia-h200; `eqkir targets` lists those that are described by a data file.",
)
UNAVAILABLE = register(
    "EQK-TARGET-PROVIDER",
    "provider not available",
    "The provider is known but this version emits nothing for it. Nothing is emitted for another provider instead.",
)
MALFORMED = register(
    "EQK-TARGET-FILE",
    "malformed target description",
    "A target file must have exactly the fields of `eqkir.targets.Target`, with positive rates and limits.",
)

ROWS = register(
    "EQK-TARGET-ROWS",
    "unreadable row file",
    "A file of binding rows is a JSON object without repeated keys; docs/cpu.md and docs/targets.md say what it holds.",
)

#: providers that are planned and refused by name, so that the message can say so
REFUSED = ("weft",)


def _folder(name: str) -> Traversable:
    return files("eqkir.targets").joinpath(name)


def target_names() -> tuple[str, ...]:
    """Every described target as ``provider:name``, sorted."""
    return tuple(sorted(t.spec for t in all_targets()))


def all_targets() -> tuple[Machine, ...]:
    """Every described target, by name. Raises `EqkirError` (EQK-TARGET-FILE) for a malformed file."""
    names = sorted(f.name.removesuffix(".json") for f in _folder("data").iterdir() if f.name.endswith(".json"))
    return tuple(_read(n) for n in names)


def load_target(spec: str) -> Machine:
    """The target ``provider:name``. Raises `EqkirError`: EQK-TARGET-UNKNOWN unknown, EQK-TARGET-PROVIDER a provider that is not
    available, EQK-TARGET-FILE."""
    provider, colon, name = spec.partition(":")
    if provider in REFUSED:
        raise fail(UNAVAILABLE, f"provider {provider!r} is not available", accepted=", ".join(target_names()), stage="target")
    if spec == "mojo:native":
        level = host_level()
        if not level:
            raise fail(UNAVAILABLE, "this machine's instruction set has no description", accepted=", ".join(target_names()), stage="target")
        return native(_cpu(_read(level)))
    for t in all_targets():
        if colon and (t.provider, t.name) == (provider, name):
            return t
    raise fail(UNKNOWN, f"unknown target {spec!r}", accepted=", ".join(target_names()), stage="target")


def load_gpu(spec: str) -> Target:
    """`load_target` where a GPU is meant. Raises `EqkirError` besides: EQK-TARGET-UNKNOWN for a machine of another family."""
    t = load_target(spec)
    if isinstance(t, CpuTarget):
        raise fail(UNKNOWN, f"{spec!r} is no GPU", accepted=", ".join(target_names()), stage="target")
    return t


def _cpu(t: Machine) -> CpuTarget:
    assert isinstance(t, CpuTarget)
    return t


@cache
def _read(name: str) -> Machine:
    return parse_target(_folder("data").joinpath(f"{name}.json").read_text(encoding="utf-8"), f"{name}.json")


def parse_target(text: str, source: str = "<target>") -> Machine:
    """A target from JSON text. Raises `EqkirError` (EQK-TARGET-FILE)."""
    try:
        return (CpuTarget if _provider(text) == "mojo" else Target).model_validate_json(text)
    except ValidationError as e:
        first = e.errors()[0]
        where = "/" + "/".join(map(str, first["loc"]))
        raise fail(MALFORMED, f"{source}: {first['msg']}", pointer=where, stage="target") from e


def _provider(text: str) -> str:
    """The provider that a description names; empty for what is no such text."""
    try:
        data = json.loads(text)
    except ValueError:
        return ""
    return str(data.get("provider", "")) if isinstance(data, dict) else ""


def row_text(name: str) -> str:
    """The text of the row file ``rows/<name>.json``, or of the user's file where `name` ends in ``.json``. Raises EqkirError
    EQK-TARGET-ROWS."""
    try:
        file = Path(name) if name.endswith(".json") else _folder("rows").joinpath(f"{name}.json")
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as e:
        raise fail(ROWS, f"{name}: {e}", accepted="a JSON file", stage="target") from None


def row_templates(name: str) -> Any:
    """The parsed row file of that name (`row_text`). Raises EqkirError EQK-TARGET-ROWS, also for an object that gives a key twice."""
    return _templates(row_text(name), name)


@lru_cache(maxsize=16)
def _templates(text: str, name: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [k for k, _ in pairs]
        if twice := sorted({k for k in keys if keys.count(k) > 1}):
            raise fail(ROWS, f"{name}: {twice[0]!r} is given twice in one object", accepted="one owner of a binding", stage="target")
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=once)
    except ValueError as e:
        raise fail(ROWS, f"{name}: {e}", accepted="JSON", stage="target") from None
    if not isinstance(data, dict):
        raise fail(ROWS, f"{name}: no object", accepted="an object of rows", stage="target")
    return data


__all__ = [
    "CpuTarget",
    "Dot",
    "Machine",
    "Target",
    "all_targets",
    "load_gpu",
    "load_target",
    "parse_target",
    "row_templates",
    "row_text",
    "target_names",
]
