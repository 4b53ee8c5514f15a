"""Sums of products of bytes with the instruction: exact at the ends of the types, whatever is unpacked, for any extents and strides."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from eqkir.base.expr import Coord, Int, lt
from eqkir.cpu import interp as task_interp
from eqkir.cpu.bytes import Narrow, bounds, holds
from eqkir.cpu.expand import expand
from eqkir.cpu.model import Op, TaskProgram, statements
from eqkir.cpu.verify import verify
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel
from eqkir.program.abi import Axis
from eqkir.program.interp import Buffer

from .programs import operations
from .test_tasks import chain_of, compared

KINDS = ("i8", "u8", "codes", "wide")


def rows(kind: str) -> Kernel:
    """Y[n] = sum over k of W[n, k] x[k] of bytes; of codes in the low or the high half of a byte, by the row's flag; of 16-bit numbers."""
    k = Builder(f"rows_{kind}")
    N, K = k.symbols("N", "K")
    W, X = k.view("W", "in", {"i8": "i8", "wide": "i16"}.get(kind, "u8"), (N, K)), k.view("X", "in", "i8", (K,))
    F, Y = k.view("F", "in", "i32", (N,)), k.view("Y", "out", "i32", (N,))
    k.noalias(W, X, F, Y)
    w = W[:, :].cast("i32")
    if kind == "codes":
        w = k.where(F[:][:, None] == 0, w & 15, w >> 4)
    Y[:] = (w * X[:].cast("i32")).sum(axis=1)
    return k.build()


@cache
def chain(kind: str) -> Chain:
    return Chain(rows(kind), Options(target="mojo:x86-64-v4-vnni"), Outcome(kind, ""))


def dots(t: TaskProgram) -> list[Op]:
    return [s for st in t.stages for g in st for s in statements(g.body) if isinstance(s, Op) and s.op == "Dot4"]


@cache
def tasks(kind: str) -> TaskProgram:
    t = expand(chain(kind).program, 64)
    assert verify(t) == []
    return t


@pytest.mark.parametrize("kind", ["i8", "u8", "codes"])
@pytest.mark.parametrize("n, k", [(1, 1), (3, 0), (9, 63), (5, 64), (2, 65), (33, 300)])
def test_every_number_of_members_is_exact_at_the_ends_of_the_types(kind: str, n: int, k: int) -> None:
    assert {x.by for x in operations(chain(kind).program)} == {"reduce_dot4"} and dots(tasks(kind))
    rng = np.random.default_rng(n * k)
    w = rng.choice(np.array([-128, -127, -1, 0, 1, 127], np.int8), (n, k)).view(np.int8 if kind == "i8" else np.uint8)
    x, f = rng.choice(np.array([-128, -1, 0, 1, 127], np.int8), k), rng.integers(0, 2, n).astype(np.int32)
    y = np.full(n, 7, np.int32)
    task_interp.run(tasks(kind), {a: Buffer.of(b) for a, b in zip("WXFY", (w, x, f, y), strict=True)}, {"N": n, "K": k})
    factor = np.where(f[:, None] == 0, w & 15, w >> 4) if kind == "codes" else w
    assert np.array_equal(y, factor.astype(np.int32) @ x.astype(np.int32))


def test_views_of_any_stride_are_added_up() -> None:
    rng = np.random.default_rng(1)
    w, x = rng.integers(0, 256, (10, 300)).astype(np.uint8)[::2, ::-3], rng.integers(-128, 128, 200).astype(np.int8)[::2]
    f, y = np.zeros(5, np.int32), np.zeros(5, np.int32)
    task_interp.run(tasks("codes"), {a: Buffer.of(b) for a, b in zip("WXFY", (w, x, f, y), strict=True)}, {"N": 5, "K": 100})
    assert np.array_equal(y, (w & 15).astype(np.int32) @ x.astype(np.int32))


def test_what_is_no_byte_or_has_no_instruction_is_added_up_as_before() -> None:
    assert not dots(expand(chain("wide").program, 64))
    c = Chain(rows("i8"), Options(target="mojo:x86-64-v4"), Outcome("rows", ""))
    assert not dots(expand(c.program, 64)) and not c.choice.fallback


def test_factors_stay_in_bytes() -> None:
    assert Narrow("leaf", 0, 255).unsigned and not Narrow("leaf", 0, 255).signed and Narrow("leaf", 0, 127).signed
    assert not Narrow("select", -1, 128).signed and not Narrow("select", -1, 128).unsigned


def test_bounds_of_index_expressions() -> None:
    axes = {"a": Axis("a", Int(8), "loop"), "b": Axis("b", Int(32), "loop")}
    a, b = Coord("a"), Coord("b")
    assert bounds(b + a * 32 + 16, axes) == (16, 16 + 31 + 7 * 32) and bounds(Coord("c"), axes) is None
    for n in (16, 271, 272, 300):
        assert holds(lt(b + a * 32 + 16, Int(n)), axes) == (n >= 272)


@pytest.mark.parametrize("extractor, seed", [("greedy-dag", 0), ("random", 0), ("worst", 0)])
def test_quantized_records_agree_with_the_reference(extractor: str, seed: int) -> None:
    c = chain_of("q4k_gemv", target="mojo:x86-64-v4-vnni", extractor=extractor, seed=seed)
    t = expand(c.program, 64)
    if extractor == "greedy-dag":
        assert "reduce_dot4" in {x.by for x in operations(c.program)} and dots(t)
    v = compared(c, c.program, t)
    assert v.ok, v.mistakes
