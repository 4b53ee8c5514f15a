"""Targets by name: ``load_target("triton:nvidia-h200")``. A target is a data file; no code here knows any machine."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
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


@cache
def row_templates(name: str) -> Any:
    """The parsed row file ``rows/<name>.json``. Raises FileNotFoundError."""
    return json.loads(_folder("rows").joinpath(f"{name}.json").read_text(encoding="utf-8"))


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
    "target_names",
]
