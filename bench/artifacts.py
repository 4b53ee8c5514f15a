"""Emitted modules on disk, and stand-ins for tensors. Needs neither torch nor a GPU."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any


def load(path: Path) -> ModuleType:
    """An emitted module."""
    spec = importlib.util.spec_from_file_location(f"candidate_{path.parent.parent.name}_{path.parent.name}".replace("-", "_"), path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def order(path: Path) -> list[str]:
    """The names of what the module's ``launch`` takes, in its order (a parameter's own name may differ where it is a reserved one)."""
    abi = json.loads((path.parent / "manifest.json").read_text())["abi"]
    return [*(v["name"] for v in abi["views"] if v["role"] != "workspace"), *(s["name"] for s in abi["scalars"])]


def workload(folder: Path) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads((folder / "workload.json").read_text())
    return entry


def candidates(folder: Path) -> list[Path]:
    """The emitted modules of a workload, the chosen one first."""
    return sorted(folder.glob("*/kernel.py"))


class Described:
    """A contiguous tensor that has a dtype, a shape and an address but no memory: enough to specialize and compile for it."""

    device = None
    _next = 1 << 40

    def __init__(self, dtype: str, shape: tuple[int, ...]) -> None:
        self.dtype, self.shape = dtype, shape
        self.address = Described._next
        Described._next += 1 << 40

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, ...]:
        return tuple(math.prod(max(n, 1) for n in self.shape[k + 1 :]) for k in range(len(self.shape)))

    def new_empty(self, shape: Any, *, dtype: str, device: object = None) -> Described:
        return Described(dtype, tuple(shape) if isinstance(shape, (tuple, list)) else (shape,))
