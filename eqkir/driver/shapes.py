"""Values of ``--shape``: text to numbers, names against the kernels at hand, and whether the arrays fit into this machine."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eqkir.base.diagnostics import fail
from eqkir.base.dtypes import INTS
from eqkir.driver import codes
from eqkir.driver.outcome import Outcome
from eqkir.driver.scan import Task

_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
INT64 = 1 << 63


def parse_shapes(texts: Iterable[str]) -> dict[str, Any]:
    """``["M=4096,N=7", "MODE=fast"]`` -> values; ints of 64 bits, ``true``/``false``, floats, else the text. Raises EqkirError
    EQK-RUN-SHAPE, also for an empty item and for what is not ASCII."""
    out: dict[str, Any] = {}
    for item in (x for t in texts for x in t.split(",")):
        name, sep, text = (p.strip() for p in item.partition("="))
        if not sep or not name.isidentifier() or not text or not item.isascii():
            raise fail(codes.SHAPE, f"{item!r:.80} is not NAME=VALUE", accepted="M=4096,N=128", stage="options")
        if name in out:
            raise fail(codes.SHAPE, f"{name} is given twice", stage="options")
        out[name] = _value(name, text)
    return out


def _value(name: str, text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        if len(text) > 20 or not -INT64 <= int(text) < INT64:
            raise fail(codes.SHAPE, f"{name} = {text:.40} is beyond 64 bits", accepted=f"{-INT64} to {INT64 - 1}", stage="options")
        return int(text)
    if _FLOAT.fullmatch(text):
        if math.isinf(v := float(text)):
            raise fail(codes.SHAPE, f"{name} = {text:.40} is beyond f64", accepted="a finite number or `inf`", stage="options")
        return v
    return float(text) if text in ("inf", "-inf", "nan") else text


def check_names(tasks: Sequence[Task | Outcome], values: Mapping[str, Any]) -> None:
    """See that some kernel has each name, and that extents are integers. Raises EqkirError EQK-RUN-USAGE or EQK-RUN-SHAPE.

    Nothing is said when no kernel could be read: that is diagnosed already.
    """
    found = [names(t.kir) for t in tasks if isinstance(t, Task)] if values else []
    if found:
        check(values, set().union(*(f[0] for f in found)), set().union(*(f[1] for f in found)))


def names(module: str) -> tuple[set[str], set[str]]:
    """Symbols with the integer scalars, and the other scalars with the constexprs, of a well-formed module's text."""
    extents: set[str] = set()
    others: set[str] = set()
    for k in json.loads(module)["kernels"]:
        extents |= {s["id"] for s in k.get("symbols", ())}
        for p in k.get("params", ()):
            if p["kind"] == "scalar" and p["dtype"] in INTS:
                extents.add(p["id"])
            elif p["kind"] != "view":
                others.add(p["id"])
    return extents, others


def check(values: Mapping[str, Any], extents: Iterable[str], others: Iterable[str]) -> None:
    """`extents` take integers, `others` any value; a name in neither is refused. Raises EqkirError EQK-RUN-USAGE or EQK-RUN-SHAPE."""
    whole, free = set(extents), set(others)
    for name, v in values.items():
        if name not in whole | free:
            known = ", ".join(sorted(whole | free)) or "none"
            raise fail(codes.USAGE, f"--shape: no kernel has {name!r:.80}", accepted=known, stage="options")
        if name not in free and (isinstance(v, bool) or not isinstance(v, int)):
            raise fail(codes.SHAPE, f"{name} = {v!r:.80} is no integer", stage="options")


def check_memory(arrays: Iterable[tuple[Sequence[int], int]]) -> None:
    """See that dense arrays (shape, bytes of an element) fit into this machine's memory. Raises EqkirError EQK-RUN-MEMORY."""
    need = sum(math.prod(shape) * size for shape, size in arrays)
    if need > (have := physical_memory()):
        raise fail(codes.MEMORY, f"the arrays take {need / 2**30:,.1f} GiB", accepted=f"at most {have / 2**30:,.1f} GiB", stage="run")


def physical_memory() -> int:
    """Bytes of this machine's memory; 2**40 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return 1 << 40
