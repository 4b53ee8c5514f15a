"""Running an emitted kernel on a GPU through torch (not a dependency: it is imported here, when asked for)."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from eqkir.base.diagnostics import fail
from eqkir.base.dtypes import NUMPY
from eqkir.driver import codes
from eqkir.kir.memory import ViewArg

#: dtype -> torch's name
TORCH = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "index": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip


def torch_or_diagnosis() -> Any:
    """The torch module with a usable GPU. Raises EqkirError EQK-RUN-EXTRA."""
    try:
        import torch
    except ModuleNotFoundError:
        raise fail(codes.EXTRA, "torch is not installed", accepted="pip install torch", stage="run") from None
    if not torch.cuda.is_available():
        raise fail(codes.EXTRA, "torch sees no GPU", accepted="a machine with an NVIDIA GPU", stage="run")
    return torch


def load_source(source: str, folder: Path) -> ModuleType:
    """An emitted module from its text (it must stand in a file, from which Triton reads it)."""
    path = folder / "kernel.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("eqkir_emitted_kernel", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launch(source: str, args: Mapping[str, Any]) -> Mapping[str, ViewArg]:
    """One launch on copies of the arguments' memory; the results are copied back. Views that share memory share it on the device."""
    torch = torch_or_diagnosis()
    with tempfile.TemporaryDirectory() as d:
        module = load_source(source, Path(d))
        roots: dict[int, tuple[np.ndarray[Any, Any], Any]] = {}
        call: dict[str, Any] = {}
        for name, a in args.items():
            if not isinstance(a, ViewArg):
                call[name] = a.item() if hasattr(a, "item") else a
                continue
            root = a.memory
            while isinstance(root.base, np.ndarray):
                root = root.base
            raw = root.reshape(-1).view(np.uint8)
            if id(root) not in roots:
                roots[id(root)] = raw, torch.from_numpy(raw.copy()).cuda()
            start = a.memory.__array_interface__["data"][0] - root.__array_interface__["data"][0]
            dtype = next(k for k, v in NUMPY.items() if v == a.memory.dtype)
            flat = roots[id(root)][1][start : start + a.memory.nbytes].view(getattr(torch, TORCH[dtype]))
            call[name] = torch.as_strided(flat, a.shape, a.strides, a.offset)
        module.launch(**call)
        torch.cuda.synchronize()
        for raw, device in roots.values():
            raw[...] = device.cpu().numpy()
    return {k: a for k, a in args.items() if isinstance(a, ViewArg)}
