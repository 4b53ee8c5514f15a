"""Streamed stores that follow each other leave as whole lines, wherever a line begins, and touch nothing else."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from eqkir.api import optimize
from eqkir.cpu.model import INDEX, Op, Statement, Type, Write
from eqkir.emit.mojo import ops, toolchain
from eqkir.emit.mojo.lines import LINE, SHORTEST, affine, runs
from eqkir.kir.builder import Builder
from tests.mojo.opsuite import functions

DTYPES = ("f32", "f64", "u16", "i8")
LENGTHS = (SHORTEST, SHORTEST + 3)
V = Type("f32", 16)


def const(i: int, value: int) -> Op:
    return Op(i, "Const", (str(value),), (), INDEX)


def add(i: int, a: int, b: int) -> Op:
    return Op(i, "Bin", ("add",), (a, b), INDEX)


def stores(offsets: list[int], base: int = 0, first: int = 100, place: str = "Y", stream: bool = True) -> list[Statement]:
    """Stores of 16 lanes at `base` + offset; their values are `first`, `first` + 1, …"""
    out: list[Statement] = []
    for k, o in enumerate(offsets):
        i = first + 10 * len(offsets) + 2 * k
        out += [const(i, o), add(i + 1, base, i), Write(place, i + 1, first + k, stream=stream)]
    return out


def types(n: int = 4000) -> dict[int, Type]:
    return {i: V if i >= 100 else INDEX for i in range(n)}


def test_offsets_are_sums_and_a_constant() -> None:
    made = {x.id: x for x in (const(3, 16), const(4, 32), add(5, 2, 1), add(6, 5, 3), add(7, 4, 6))}
    assert affine(7, made) == ((1, 2), 48)
    assert affine(1, made) == ((1,), 0)


def test_a_run_is_of_one_place_and_goes_on_without_a_gap() -> None:
    body = stores([0, 16, 32, 48, 64, 96, 112])
    found = runs(body, {}, types())
    assert [(p.run[0], p.before, p.last) for p in found.values()] == [(100, n, k == 4) for k, n in enumerate((-1, 100, 101, 102, 103))]
    assert [body[n].value for n in found] == [100, 101, 102, 103, 104]  # type: ignore[union-attr]
    assert not runs(stores([0, 16, 32]), {}, types()) and not runs(stores([0, 16, 32, 48], stream=False), {}, types())


def test_rows_beside_each_other_are_runs_of_their_own() -> None:
    rows = [stores([0, 16, 32, 48], base=b, first=1000 * (b + 1)) for b in (0, 1)]
    mixed = [s for parts in zip(*([r[3 * k : 3 * k + 3] for k in range(4)] for r in rows), strict=True) for part in parts for s in part]
    found = runs(mixed, {}, types())
    assert len(found) == 8 and {p.run[0] for p in found.values()} == {1000, 2000}
    assert all(p.before < 0 or p.before // 1000 == p.run[0] // 1000 for p in found.values())


def test_one_value_in_two_places_or_twice_in_one_are_runs_apart() -> None:
    once = stores([0, 16, 32, 48])
    twice = [Write(x.place, x.at + 1000, x.value, stream=True) if isinstance(x, Write) else x for x in stores([0, 16, 32, 48])]
    moved = [add(x.id + 1000, 2, x.args[1]) if isinstance(x, Op) and x.op == "Bin" else x for x in twice]
    found = runs([*once, *stores([0, 16, 32, 48], place="Z"), *moved], {}, types())
    assert len(found) == 12 and len({p.run for p in found.values()}) == 3 and {p.run[0] for p in found.values()} == {100}


@pytest.mark.compile
@pytest.mark.skipif(not toolchain.available(), reason="no Mojo compiler")
def test_a_value_streamed_to_two_places_compiles_and_is_right() -> None:
    k = Builder("stored_twice")
    M, N = k.symbols("M", "N")
    X, Y, Z = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.view("Z", "out", "f32", (M, N))
    k.noalias(X, Y, Z)
    v = X[:, :] * 2.0
    Y[:, :] = v
    Z[:, :] = v
    got = optimize(k.build(), target="mojo:native", check="all")["stored_twice"]
    assert got.status == "ok" and got.source.count("eqk_line_head[") > 1, got.diagnostics


@pytest.fixture(scope="module")
def compiled() -> dict[Any, Any]:
    out = {}
    for d in DTYPES:
        w = LINE // np.dtype(ops_dtype(d)).itemsize
        pointer = f"Pointer[Scalar[{ops.mojo_dtype(d)}], MutAnyOrigin]"
        for n in LENGTHS:
            lines = [f"    var {p} = {pointer}(unsafe_from_address=w[unsafe_offset={k}])" for k, p in enumerate(("x", "y"))]
            for k in range(n):
                lines += [f"    var at{k} = SIMD[DType.int64, 1]({k * w})", f"    var v{k} = x.unsafe_load[width={w}]({k * w})"]
                generic = f"[{ops.mojo_dtype(d)}, {w}](y, at{k}"
                if k == 0:
                    lines += [f"    var m = eqk_line_part{generic})", f"    eqk_line_head{generic}, v0, m)"]
                else:
                    lines.append(f"    eqk_line{generic}, v{k - 1}, v{k}, m)")
            out[d, n] = [*lines, f"    eqk_line_tail{generic}, v{n - 1}, m)", "    eqk_stream_end()"]
    return functions(out)


def ops_dtype(d: str) -> str:
    return {"f32": "float32", "f64": "float64", "u16": "uint16", "i8": "int8"}[d]


@pytest.mark.compile
@pytest.mark.skipif(not toolchain.available(), reason="no Mojo compiler")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("start", (0, 16, 32, 48))
def test_lines_begin_anywhere(compiled: dict[Any, Any], dtype: str, start: int) -> None:
    r = np.random.default_rng(start)
    for n in LENGTHS:
        x = np.frombuffer(r.bytes(n * LINE), np.uint8)
        memory = np.frombuffer(r.bytes((n + 4) * LINE), np.uint8).copy()
        before = memory.copy()
        at = -memory.ctypes.data % LINE + LINE + start
        words = (ctypes.c_int64 * 2)(x.ctypes.data, memory.ctypes.data + at)
        compiled[dtype, n](ctypes.addressof(words), 0)
        before[at : at + n * LINE] = x
        assert np.array_equal(memory, before)
