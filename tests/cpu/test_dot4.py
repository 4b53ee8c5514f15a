"""Products of bytes four at a time: exact at the ends of the types, for any number of members, where the machine has the instruction."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from eqkir.cpu import interp as task_interp
from eqkir.cpu.expand import expand
from eqkir.cpu.interp_ops import _dot4
from eqkir.cpu.model import Op, TaskProgram, statements
from eqkir.cpu.verify import verify
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel
from eqkir.program.interp import Buffer

from .programs import operations


def product(turned: bool = False, start: bool = False) -> Kernel:
    """Y = A B of bytes, A with the members of the sum adjacent or not; or Y = C + A B."""
    k = Builder("product")
    M, N, K = k.symbols("M", "N", "K")
    A, B = k.view("A", "in", "i8", (K, M) if turned else (M, K)), k.view("B", "in", "i8", (K, N))
    Y = k.view("Y", "out", "i32", (M, N))
    if start:
        C = k.view("C", "in", "i32", (M, N))
        k.noalias(A, B, C, Y)
        Y[:, :] = C[:, :] + k.contract(A[:, :], B[:, :], [(0 if turned else 1, 0)], acc="i32")
    else:
        k.noalias(A, B, Y)
        Y[:, :] = k.contract(A[:, :], B[:, :], [(0 if turned else 1, 0)], acc="i32")
    return k.build()


def chain(kernel: Kernel, target: str = "mojo:x86-64-v4-vnni") -> Chain:
    return Chain(kernel, Options(target=target), Outcome(kernel.name, ""))


@cache
def tasks(start: bool = False) -> TaskProgram:
    c = chain(product(start=start))
    assert {x.by for x in operations(c.program)} == {"contract_dot4"} and c.choice.row is not None and c.choice.row.template == "bytes"
    t = expand(c.program, 64)
    assert verify(t) == [] and [r.dtype for r in t.resources] == ["i32"]
    assert any(isinstance(s, Op) and s.op == "Dot4" for st in t.stages for g in st for s in statements(g.body))
    return t


def buffers(**arrays: Any) -> dict[str, Buffer]:
    return {name: Buffer.of(a) for name, a in arrays.items()}


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (8, 32, 4), (9, 33, 5), (3, 40, 7), (16, 64, 130), (2, 31, 0)])
def test_every_number_of_members_is_exact_at_the_ends_of_the_types(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(m * n + k)
    ends = np.array([-128, -127, -1, 0, 1, 127], np.int8)
    a, b, y = rng.choice(ends, (m, k)), rng.choice(ends, (k, n)), np.zeros((m, n), np.int32)
    task_interp.run(tasks(), buffers(A=a, B=b, Y=y), {"M": m, "N": n, "K": k})
    assert np.array_equal(y, a.astype(np.int32) @ b.astype(np.int32))


def test_sums_that_start_at_a_value_wrap_as_i32() -> None:
    m, n, k = 5, 20, 9
    a, b = np.full((m, k), -128, np.int8), np.full((k, n), -128, np.int8)
    c, y = np.full((m, n), np.iinfo(np.int32).max, np.int32), np.zeros((m, n), np.int32)
    task_interp.run(tasks(True), buffers(A=a, B=b, C=c, Y=y), {"M": m, "N": n, "K": k})
    want = (c.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)).astype(np.uint64).astype(np.uint32).view(np.int32)
    assert np.array_equal(y, want)


def test_the_instruction_in_numbers() -> None:
    rng = np.random.default_rng(0)
    acc, a, b = (rng.integers(-(1 << 31), 1 << 31, (3, 16)).astype(np.int32) for _ in range(3))
    x, y = a.view(np.uint8).reshape(3, 16, 4).astype(np.int64), b.view(np.int8).reshape(3, 16, 4).astype(np.int64)
    want = (acc.astype(np.int64) + (x * y).sum(2)).astype(np.uint64).astype(np.uint32).view(np.int32)
    assert np.array_equal(_dot4(acc, a, b), want)


def test_without_the_instruction_or_adjacent_members_another_implementation_does_it() -> None:
    for c in (chain(product(), "mojo:x86-64-v4"), chain(product(turned=True))):
        assert not {x.by for x in operations(c.program)} & {"contract_dot4"} and not c.choice.fallback
