"""Compiling emitted modules offline (worker side): no GPU, no framework; registers, spills, shared memory and PTX are read back."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from eqkir.emit.triton.check_worker import load

POINTERS = {
    "bool": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "u8", "u16": "u16", "u32": "u32", "u64": "u64", "f16": "fp16",
    "bf16": "bf16", "f32": "fp32", "f64": "fp64", "f8e4m3fn": "fp8e4nv", "f8e5m2": "fp8e5", "index": "i64",
}  # fmt: skip
SCALARS = {
    "f64": "i64", "i64": "i64", "u64": "i64", "index": "i64", "u32": "i64", "f16": "fp32", "bf16": "fp32", "f32": "fp32",
    "f8e4m3fn": "fp32", "f8e5m2": "fp32",
}  # fmt: skip


def handle(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """`job`: source, arguments, capability, options, spec (see `checks.Specialization`)."""
    module = load(job["source"], folder)
    spec, wide = job["spec"], job["spec"]["wide"]
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    attrs: dict[tuple[int], list[Any]] = {}
    divisible = [["tt.divisibility", 16]]
    for k, (name, kind) in enumerate(job["arguments"]):
        if kind == "constexpr":
            signature[name] = "constexpr"
            index = triton.language.int64 if wide else triton.language.int32
            constants[name] = {"IDX": index, "SPREAD": spec["spread"]}.get(name, spec["even"])
        elif kind == "stride" and name in spec["ones"]:
            signature[name], constants[name] = "constexpr", 1
        elif kind.startswith("*"):
            signature[name] = "*" + POINTERS[kind[1:]]
            if spec["aligned"]:
                attrs[(k,)] = divisible
        elif kind in ("stride", "symbol"):
            signature[name] = "i64" if wide else "i32"
            if spec["divisible"]:
                attrs[(k,)] = divisible
        else:
            signature[name] = SCALARS.get(kind, "i32")
    source = ASTSource(module.kernel, signature, constants, attrs)
    compiled = triton.compile(source, target=GPUTarget("cuda", job["capability"], 32), options=dict(module.OPTIONS))
    ptx = compiled.asm["ptx"]
    usage = assembled(ptx, folder)
    return {"ptx": ptx, "shared": compiled.metadata.shared, "warps": compiled.metadata.num_warps, **usage}


def assembled(ptx: str, folder: Path) -> dict[str, int]:
    """Registers a thread, spilled bytes and stack bytes, from the bundled assembler."""
    arch = re.search(r"\.target\s+(sm_\w+)", ptx)
    assert arch
    tool = get_ptxas(int(re.sub(r"\D", "", arch[1])))
    with tempfile.NamedTemporaryFile("w", suffix=".ptx", dir=folder) as f:
        f.write(ptx)
        f.flush()
        command = [tool.path, "-v", "--fmad=false", f"--gpu-name={arch[1]}", f.name, "-o", "/dev/null"]
        log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    patterns = {"registers": r"Used (\d+) registers", "spills": r"(\d+) bytes spill stores", "stack": r"(\d+) bytes stack frame"}
    return {k: sum(map(int, re.findall(p, log))) for k, p in patterns.items()}
