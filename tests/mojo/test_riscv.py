"""Kernels for riscv64 with vectors, cross-compiled and run by an emulator: nothing assumes the registers or instructions of x86.

A driver in Mojo reads one block of memory (a table of words, all views and workspaces) and a list of tasks, runs them and writes the block
back. Needs qemu's user mode emulation and a C library for riscv64 (Debian: ``qemu-user``, ``libc6-riscv64-cross``).
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqkir.base.dtypes import FLOATS, NUMPY
from eqkir.base.expr import evaluate
from eqkir.cpu.model import TaskProgram
from eqkir.emit.mojo import toolchain
from eqkir.emit.mojo.artifact import TaskArtifact
from eqkir.emit.mojo.build import Built, build, symbol
from eqkir.emit.mojo.ops import prelude
from eqkir.emit.mojo.spell import entry
from eqkir.kir.memory import ViewArg, clone
from eqkir.targets import CpuTarget, load_target
from tests.matrix.cells import Cell, Subject, judge

TARGET = "mojo:riscv64-v"
LIBRARIES = Path("/usr/riscv64-linux-gnu")
#: one kernel of each kind: pointwise, a row reduction, a product of narrow floats, integers, gathered reads, atomics, a scan,
#: narrow dtypes, memory of a task
KERNELS = (
    "relu_f32", "softmax_f32", "gemm_nn_bf16", "integer_mix", "shift", "bit_flags_u32", "cumsum_f32", "swiglu_bf16", "random_words_u32",
    "gelu_erf_f32", "histogram_parts_i32",
)  # fmt: skip
#: vector registers of 128 bits, which every such machine has, and wider ones
WIDTHS = (128, 512)
REASON = (
    "no Mojo compiler" if not toolchain.available()
    else "qemu-riscv64 is not installed" if not shutil.which("qemu-riscv64")
    else "no C library for riscv64 (libc6-riscv64-cross)" if not (LIBRARIES / "lib" / "libc.so.6").exists()
    else ""
)  # fmt: skip
pytestmark = [pytest.mark.slow, pytest.mark.compile, pytest.mark.skipif(bool(REASON), reason=REASON)]

DRIVER = """
comptime P64 = Pointer[Int64, MutAnyOrigin]


def kt_read(at: Int, size: Int):
    var n = 0
    while n < size:
        var got = external_call["read", Int](Int32(0), at + n, size - n)
        if got <= 0:
            external_call["_exit", NoneType](Int32(2))
        n += got


@export
def _start() abi("C"):
    var head = stack_allocation[2, Int64, alignment=64]()
    kt_read(Int(head), 16)
    var calls = Int(head[unsafe_offset=0])
    var size = Int(head[unsafe_offset=1])
    var base = external_call["aligned_alloc", Int](4096, size)
    var list = external_call["aligned_alloc", Int](4096, (calls * 24 + 4095) // 4096 * 4096)
    kt_read(list, calls * 24)
    kt_read(base, size)
    var words = P64(unsafe_from_address=base)
    var count = Int(words[unsafe_offset=0])
    for i in range(count):
        if words[unsafe_offset=1 + i] != 0:
            words[unsafe_offset=1 + count + i] += Int64(base)
    var ctx = base + 8 * (1 + count)
    var t = P64(unsafe_from_address=list)
    for i in range(calls):
        var which = t[unsafe_offset=3 * i]
        var lo = Int(t[unsafe_offset=3 * i + 1])
        var hi = Int(t[unsafe_offset=3 * i + 2])
{cases}
    var n = 0
    while n < size:
        n += external_call["write", Int](Int32(1), base + n, size - n)
    external_call["_exit", NoneType](Int32(0))
"""


def target() -> CpuTarget:
    t = load_target(TARGET)
    assert isinstance(t, CpuTarget)
    return t


def executable(tasks: TaskProgram, built: Built, folder: Path) -> Path:
    """The driver linked with a kernel's library."""
    groups = [g for stage in tasks.stages for g in stage]
    cases = [
        f'        if which == {k}:\n            external_call["{symbol(entry(g), built.key)}", NoneType](ctx, lo, hi)'
        for k, g in enumerate(groups)
    ]
    text = prelude(set()) + DRIVER.replace("{cases}", "\n".join(cases))
    (folder / "driver.mojo").write_text(text)
    name, *more = target().cpu.split("+")
    flags = ["--target-triple", target().triple, "--target-cpu", name, "--target-features", ",".join(f"+{f}" for f in more)]
    end = toolchain.run("mojo", ["build", "--emit", "object", *flags, "driver.mojo", "-o", "driver.o"], folder, 600)
    assert end.code == 0, end.text
    (folder / "kernel.so").write_bytes(built.library.read_bytes())
    libc, loader = str(LIBRARIES / "lib" / "libc.so.6"), "/lib/ld-linux-riscv64-lp64d.so.1"
    link = ["-flavor", "gnu", "-pie", "--dynamic-linker", loader, "-rpath", str(folder), "driver.o", "kernel.so", libc, "-o", "program"]
    end = toolchain.run("lld", link, folder, 600)
    assert end.code == 0, end.text
    return folder / "program"


def launch(tasks: TaskProgram, args: dict[str, Any], symbols: dict[str, int], program: Path, width: int, seed: int) -> dict[str, Any]:
    """The views after one launch under the emulator; tasks are cut and ordered at random within a stage."""
    args = clone(args)
    rng = random.Random(seed)
    memories: dict[int, tuple[int, np.ndarray[Any, Any]]] = {}
    words, relocated, at = [], [], 4096 * (1 + len(tasks.words) // 200)
    whole = {s.name: int(args[s.name]) for s in tasks.abi.scalars if s.dtype not in FLOATS}
    env = {**symbols, **whole}

    def number(e: Any) -> int:
        return int(evaluate(e, lambda a: env[a.args[0]]))

    for kind, name in tasks.words:
        relocated.append(int(kind in ("view", "resource")))
        if kind == "view":
            v = args[name]
            if id(v.memory) not in memories:
                memories[id(v.memory)] = at, v.memory
                at += -(-v.memory.nbytes // 64) * 64
            words.append(memories[id(v.memory)][0] + v.offset * v.memory.itemsize)
        elif kind == "resource":
            r = next(r for r in tasks.resources if r.name == name)
            words.append(at)
            at += -(-number(r.size) * NUMPY[r.dtype].itemsize // 64) * 64
        elif kind == "scalar":
            dtype = next(s.dtype for s in tasks.abi.scalars if s.name == name)
            words.append(int.from_bytes(np.asarray([args[name]]).astype(NUMPY[dtype]).tobytes(), "little"))
        elif name in tasks.limits:
            words.append(tasks.limits[name])
        elif name in env:
            words.append(env[name])
        else:
            view, _, axis = name.removeprefix("stride(").removesuffix(")").partition(",")
            words.append(args[view].strides[int(axis)])
    block = np.frombuffer(rng.randbytes(-(-at // 4096) * 4096), np.uint8).copy()
    table = np.array([w - (1 << 64) if w >= 1 << 63 else w for w in (len(words), *relocated, *words)], np.int64)
    block[: table.nbytes] = table.view(np.uint8)
    for start, m in memories.values():
        block[start : start + m.nbytes] = m.view(np.uint8)
    calls, first = [], 0
    for stage in tasks.stages:
        mine = []
        for k, g in enumerate(stage):
            n = number(g.launch)
            cuts = sorted({0, n, *(rng.randrange(n) for _ in range(min(n, 4)))}) if n > 0 else []
            mine += [(first + k, lo, hi) for lo, hi in zip(cuts, cuts[1:], strict=False)]
        rng.shuffle(mine)
        calls, first = calls + mine, first + len(stage)
    data = np.array([len(calls), block.size], np.int64).tobytes() + np.array(calls, np.int64).tobytes() + block.tobytes()
    cpu = f"rv64,v=true,vlen={width},elen=64,vext_spec=v1.0,zba=true,zbb=true,zbs=true"
    done = subprocess.run(
        ["qemu-riscv64", "-L", str(LIBRARIES), "-cpu", cpu, str(program)], input=data, capture_output=True, timeout=300, check=False
    )
    assert done.returncode == 0 and len(done.stdout) == block.size, (done.returncode, done.stderr[-300:])
    out = np.frombuffer(done.stdout, np.uint8)
    for start, m in memories.values():
        m.view(np.uint8)[:] = out[start : start + m.nbytes]
    return {k: a for k, a in args.items() if isinstance(a, ViewArg)}


@pytest.fixture(scope="module")
def made() -> dict[str, tuple[Subject, TaskArtifact, Built]]:
    subjects = [Subject(n, TARGET) for n in KERNELS]
    artifacts: list[Any] = [s.base.provider.spell(s.program("chosen")) for s in subjects]
    libraries = build([a.module for a in artifacts], target().cpu, triple=target().triple)
    assert all(isinstance(x, Built) for x in libraries), libraries
    return {s.name: (s, a, x) for s, a, x in zip(subjects, artifacts, libraries, strict=True)}  # type: ignore[misc]


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_computes_the_same_on_riscv64(made: dict[str, tuple[Subject, TaskArtifact, Built]], name: str, tmp_path: Path) -> None:
    subject, artifact, built = made[name]
    program = executable(artifact.tasks, built, tmp_path)
    cell = Cell(name, "chosen")
    for i, case in enumerate(subject.cases()[:6]):
        if found := subject.case(case):
            args, expected = found
            width = WIDTHS[i % len(WIDTHS)]
            judge(cell, case, expected, lambda a=args, c=case, w=width, s=i: launch(artifact.tasks, a, dict(c.symbols), program, w, s))
    assert cell.ok and cell.cases, cell.faults[:3]
