"""Loops of maxima look for NaN beside these and are repeated with care: NaN and signs of zeros come out as without, wherever they are."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqkir.cpu import interp as task_interp
from eqkir.cpu.expand import expand
from eqkir.cpu.interp_ops import function
from eqkir.cpu.model import Op, TaskProgram, Type, statements
from eqkir.cpu.verify import verify
from eqkir.emit.mojo import toolchain
from eqkir.emit.mojo.artifact import ORDERS, emit
from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel
from eqkir.program.interp import Buffer
from eqkir.program.model import Program
from eqkir.targets import load_target
from eqkir.targets.cpu import host_level

from .test_dot4 import chain

SHAPES = ((1, 1), (3, 40), (70, 33), (64, 512), (5, 1100))
CASES = [(fn, axis) for fn in ("max", "min") for axis in (0, 1)]


def extreme(fn: str, axis: int) -> Kernel:
    """Y = max(X) or min(X) along an axis."""
    k = Builder(f"{fn}_{axis}")
    M, N = k.symbols("M", "N")
    X, Y = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (N,) if axis == 0 else (M,))
    k.noalias(X, Y)
    Y[:] = getattr(X[:, :], fn)(axis=axis)
    return k.build()


@cache
def program(fn: str, axis: int) -> Program:
    return chain(extreme(fn, axis), "mojo:x86-64-v4").program


@cache
def tasks(fn: str, axis: int, hopes: bool = True) -> TaskProgram:
    t = expand(program(fn, axis), 64, hopes=hopes)
    assert verify(t) == []
    return t


def ordered(t: TaskProgram) -> int:
    """How many maxima of numbers alone there are."""
    return sum(isinstance(s, Op) and s.op == "Extreme" for st in t.stages for g in st for s in statements(g.body))


def contents(m: int, n: int, seed: int) -> Any:
    """Zeros of both signs and few other numbers, in places NaN or infinite."""
    r = np.random.default_rng(seed)
    x = r.choice(np.array([0.0, -0.0, -1.0, 1.0], np.float32) if seed % 2 else np.array([0.0, -0.0], np.float32), (m, n))
    special = np.array([np.nan, -np.nan, np.inf, -np.inf], np.float32)
    for _ in range(seed // 2):
        x[r.integers(m), r.integers(n)] = r.choice(special)
    return x


def wanted(fn: str, x: Any, axis: int) -> Any:
    """The extreme in the order of the bits: -0 below 0; NaN wins."""
    bits = x.view(np.int32).astype(np.int64)
    key = np.where(bits < 0, -1 - (bits & 0x7FFFFFFF), bits)
    best = getattr(key, fn)(axis=axis)
    out = np.where(best < 0, (-1 - best) | 0x80000000, best).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x).any(axis=axis), np.float32(np.nan), out)


def same(got: Any, want: Any) -> bool:
    return bool(np.all((got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))))


@pytest.mark.parametrize("fn, axis", CASES)
def test_what_the_task_program_means_does_not_change(fn: str, axis: int) -> None:
    assert ordered(tasks(fn, axis)) > 0 and ordered(tasks(fn, axis, False)) == 0
    for m, n in SHAPES[:3]:
        for seed in range(6):
            x = contents(m, n, seed)
            y = np.zeros(n if axis == 0 else m, np.float32)
            task_interp.run(tasks(fn, axis), {"X": Buffer.of(x), "Y": Buffer.of(y)}, {"M": m, "N": n})
            assert same(y, wanted(fn, x, axis)), (m, n, seed)


def nested(outer: str, inner: str) -> Kernel:
    """Y[m] = an extreme over n of a sum or an extreme over k, or the other way round."""
    k = Builder(f"{outer}_{inner}")
    M, N, K = k.symbols("M", "N", "K")
    X, Y = k.view("X", "in", "f32", (M, N, K)), k.view("Y", "out", "f32", (M,))
    k.noalias(X, Y)
    Y[:] = getattr(getattr(X[:, :, :], inner)(axis=2), outer)(axis=1)
    return k.build()


@pytest.mark.parametrize("outer, inner", [("max", "sum"), ("max", "max"), ("sum", "min"), ("min", "max")])
def test_loops_inside_loops_hope_for_themselves(outer: str, inner: str) -> None:
    t = expand(chain(nested(outer, inner), "mojo:x86-64-v4").program, 64, hopes=True)
    assert verify(t) == []
    r = np.random.default_rng(5)
    for n in range(3):
        x = r.integers(-4, 5, (3, 5, 70)).astype(np.float32)
        for _ in range(n):
            x[r.integers(3), r.integers(5), r.integers(70)] = np.nan
        y = np.zeros(3, np.float32)
        task_interp.run(t, {"X": Buffer.of(x), "Y": Buffer.of(y)}, {"M": 3, "N": 5, "K": 70})
        assert np.array_equal(y, getattr(getattr(x, inner)(axis=2), outer)(axis=1), equal_nan=True)


def test_without_care_a_nan_would_be_lost() -> None:
    """`Extreme` of a NaN is a number in the interpreter, so that a loop which is not repeated is found out."""
    f = function(Op(0, "Extreme", ("maximum",), (1, 2), Type("f32", 3)), "f32", lambda _: 0, {})
    a, b = np.array([[np.nan, -1, 0.0]], np.float32), np.array([[1, np.nan, -0.0]], np.float32)
    assert np.array_equal(f(a, b), [[0, 0, 0]]) and not np.signbit(f(a, b)).any()


@pytest.mark.parametrize("name, hopes", [("x86-64-v4", True), ("x86-64-v3", False), ("riscv64-v", False)])
def test_a_machine_hopes_that_has_the_instruction(name: str, hopes: bool) -> None:
    target = load_target(f"mojo:{name}")
    assert (ORDERS in target.needs) == hopes
    assert (ordered(emit(chain(extreme("max", 0), f"mojo:{name}").program, target).tasks) > 0) == hopes


@pytest.mark.compile
@pytest.mark.skipif(not toolchain.available() or not host_level(), reason="no Mojo compiler, or no described level of this machine")
def test_native_code_gives_the_same(tmp_path: Path) -> None:
    import eqkir
    from eqkir.runtime.native import load

    for fn, axis in CASES:
        result = eqkir.optimize(extreme(fn, axis), target="mojo:native", out=tmp_path, jobs=0)
        assert result.kernels[0].ok
        k = load(tmp_path / f"{fn}_{axis}")
        for m, n in SHAPES:
            for seed in range(8):
                x = contents(m, n, seed)
                y = np.zeros(n if axis == 0 else m, np.float32)
                k(x, y)
                assert same(y, wanted(fn, x, axis)), (fn, axis, m, n, seed)
