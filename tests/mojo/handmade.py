"""Small native kernels written by hand: Mojo text and task programs without bodies, for tests of the runtime alone."""

from __future__ import annotations

from pathlib import Path

from eqkir.base.expr import Expr, Int, Sym
from eqkir.cpu.model import Group, Resource, TaskProgram
from eqkir.emit.mojo.build import Built, Module, build_one
from eqkir.emit.mojo.native import Native, write
from eqkir.emit.mojo.pool import pool_library
from eqkir.program.abi import Abi, ScalarParam, SymbolParam, ViewParam
from eqkir.targets import CpuTarget, load_target

HEAD = '@export\ndef {}(ctx: Int, lo: Int, hi: Int) abi("C"):\n'
HEAD += "    var w = Pointer[Int, MutAnyOrigin](unsafe_from_address=ctx)\n"
POINTER = "    var {} = Pointer[{}, MutAnyOrigin](unsafe_from_address=w[unsafe_offset={}])\n"
N = Sym("N")


def group(name: str, launch: Expr, grain: int = 1) -> Group:
    return Group(name, launch, (), (), grain)


def view(name: str, role: str, dtype: str, *shape: Expr, alias: int = 0) -> ViewParam:
    return ViewParam(name, role, dtype, shape, alias)


def scaled(noalias: bool = False, grain: int = 16) -> Native:
    """``Y[i] = X[i] * factor``; words X Y N stride(X,0) stride(Y,0) factor."""
    abi = Abi(
        "scaled", (view("X", "in", "f32", N), view("Y", "out", "f32", N, alias=1)), (ScalarParam("factor", "f32"),), (SymbolParam("N", 0),),
        (("X", "Y"),) if noalias else (),
    )  # fmt: skip
    program = TaskProgram(abi, ("N", "stride(X,0)", "stride(Y,0)"), (), ((group("all", N, grain),),))
    text = HEAD.format("kt_s0g0") + POINTER.format("x", "Float32", 0) + POINTER.format("y", "Float32", 1)
    text += "    var f = bitcast[DType.float32, 1](SIMD[DType.uint32, 1](w[unsafe_offset=5]))\n    for i in range(lo, hi):\n"
    text += "        y[unsafe_offset=i * w[unsafe_offset=4]] = x[unsafe_offset=i * w[unsafe_offset=3]] * f[0]\n"
    return Native(program, Module("scaled", text), (("kt_s0g0",),))


def staged(rounds: int = 6, grain: int = 1) -> Native:
    """Stage k adds 1 to every element's running value, which stage k - 1 left in the other of two buffers, at a shifted place: a missing
    join shows. Two groups a stage, one for each half. words X Y N T U."""
    half = N // Int(2)
    abi = Abi("staged", (view("X", "in", "i64", N), view("Y", "out", "i64", N, alias=1)), (), (SymbolParam("N", 1),))
    resources = (Resource("T", "i64", N), Resource("U", "i64", N))
    stages = tuple((group(f"low{k}", half, grain), group(f"high{k}", N - half, grain)) for k in range(rounds))
    parts = []
    for k in range(rounds):
        source = 0 if k == 0 else 3 + (k - 1) % 2
        target = 1 if k == rounds - 1 else 3 + k % 2
        for g in range(2):
            text = HEAD.format(f"kt_s{k}g{g}") + POINTER.format("s", "Int64", source) + POINTER.format("t", "Int64", target)
            text += "    var n = w[unsafe_offset=2]\n    var base = 0\n" + ("    base = n // 2\n" if g else "")
            text += "    for i in range(base + lo, base + hi):\n        t[unsafe_offset=i] = s[unsafe_offset=(i + 1) % n] + 1\n"
            parts.append(text)
    names = tuple((f"kt_s{k}g0", f"kt_s{k}g1") for k in range(rounds))
    return Native(TaskProgram(abi, ("N",), resources, stages), Module("staged", "\n\n".join(parts)), names)


def sums(grain: int = 1) -> Native:
    """``Y[i] = (X[i] + X[i]·2**-40) · 2**-140 · 2**140 + 1/3`` in f32: shows another rounding mode and flushing. words X Y N."""
    abi = Abi("sums", (view("X", "in", "f32", N), view("Y", "out", "f32", N, alias=1)), (), (SymbolParam("N", 0),))
    text = HEAD.format("kt_s0g0") + POINTER.format("x", "Float32", 0) + POINTER.format("y", "Float32", 1)
    text += "    for i in range(lo, hi):\n        var v = x[unsafe_offset=i]\n"
    text += "        var small = v * bitcast[DType.float32, 1](SIMD[DType.uint32, 1](0x00000010))[0]\n"
    text += "        y[unsafe_offset=i] = (small * 8.507059173023462e+37) + v / 3\n"
    return Native(TaskProgram(abi, ("N",), (), ((group("all", N, grain),),)), Module("sums", text), (("kt_s0g0",),))


def made(native: Native, folder: Path, cpu: str = "native") -> Path:
    """The artifact folder of a kernel. Raises EqkirError."""
    library: Built = build_one(native.module, cpu)
    target = load_target(f"mojo:{cpu}")
    assert isinstance(target, CpuTarget)
    write(folder, native, target, library, pool_library(cpu))
    return folder
