"""The emitted 64-bit path: strides, offsets and program numbers past 2**31 in Triton's interpreter, and in the PTX."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.driver import pool
from eqkir.emit.triton import emit
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.inputs import make_inputs
from eqkir.kir.memory import ViewArg
from eqkir.program.interp import run_index_only
from eqkir.program.interp_space import Space
from tests.matrix.cells import Subject
from tests.musthold.sparse_values import BIG, element, spread

pytestmark = pytest.mark.interpreter


@pytest.fixture(scope="module")
def worker() -> Iterator[pool.Worker]:
    w = pool.Worker()
    yield w
    w.kill()


def ask(worker: pool.Worker, function: str, *args: Any) -> dict[str, Any]:
    answer = worker.call(f"tests.musthold.sparse:{function}", args, 120.0)
    assert not isinstance(answer, pool.Failure), answer
    assert "error" not in answer, answer["error"]
    return dict(answer)


@pytest.mark.parametrize("config", ["chosen", *(pytest.param(c, marks=pytest.mark.slow) for c in ("worst", "random-2", "without-all"))])
@pytest.mark.parametrize(
    ("name", "symbols"),
    [
        ("relu_f32", {"M": 3, "N": 5}), ("softmax_f32", {"M": 3, "N": 7}), ("transpose_add_f32", {"M": 3, "N": 5}),
        ("sum_middle_f32", {"A": 2, "B": 5, "C": 3}), ("argmax_inner_f32", {"A": 2, "B": 3, "C": 5}),
        ("gemm_f32", {"M": 3, "N": 5, "K": 4}),
        ("add_in_place", {"M": 3, "N": 5}), ("shift_in_place", {"N": 5}), ("reshape_heads", {"T": 3, "H": 2, "D": 5}),
    ],
)  # fmt: skip
def test_offsets_past_31_bits_are_right(worker: pool.Worker, name: str, symbols: dict[str, int], config: str) -> None:
    subject = Subject(name)
    source = emit(subject.program(config)).source
    for step in (BIG, -BIG, (1 << 30) + 1):
        args = make_inputs(subject.kernel, symbols, 3, "plain", subject.constexprs, subject.entry.get("scalars"))
        expected = envelope(subject.kernel, args, symbols, subject.constexprs)
        views, scalars = {}, {}
        for k, (n, a) in enumerate(args.items()):
            if isinstance(a, ViewArg):
                data = np.ascontiguousarray(a.array())
                views[n] = (data.dtype.name, a.shape, spread(a.shape, k % max(1, len(a.shape)), step), data)
            else:
                scalars[n] = a.item()
        got = ask(worker, "strided", source, views, scalars)["views"]
        verdict = compare(expected, {k: got[k] for k in expected})
        assert verdict.ok, f"stride {step}: {verdict.first}"


@pytest.mark.parametrize("config", ["chosen", "without-all", *(pytest.param(f"random-{s}", marks=pytest.mark.slow) for s in (0, 1, 4))])
@pytest.mark.parametrize("shape", [(3, BIG), (BIG, 3), ((1 << 32) + 1, 1), (65539, 65537)])
def test_program_numbers_past_31_bits_own_the_right_elements(worker: pool.Worker, shape: tuple[int, int], config: str) -> None:
    subject = Subject("relu_f32")
    program = subject.program(config)
    artifact = emit(program)
    symbols = dict(zip(("M", "N"), shape, strict=True))
    space = Space(program, program.segments[0], symbols)
    if program.segments[0].mode == "stride" and space.length > 64 * space.programs:
        pytest.skip("a program that strides over the instances runs too many of them")
    programs = sorted({0, space.programs // 2, space.programs - 1})
    views = {v.name: ("float32", shape, tuple(prod(shape[k + 1 :]) for k in range(2)), NUMPY[v.dtype].itemsize) for v in program.abi.views}
    got = ask(worker, "huge", artifact.source, views, {}, programs)
    stored = got["stored"]["Y"]
    assert stored and max(stored) > 1 << 31
    assert prod(got["grid"]) >= space.programs
    at = np.array(sorted(stored), np.int64)
    assert np.array_equal(np.array([stored[i] for i in at.tolist()]), np.maximum(element(at), 0))
    wanted: set[int] = set()
    for t in run_index_only(program, symbols, programs):
        if t.kind == "store":
            live = np.broadcast_to(t.active, np.broadcast_shapes(t.active.shape, t.address.shape))
            wanted |= set(np.broadcast_to(t.address, live.shape)[live].tolist())
    assert wanted <= set(stored), "the programs own at least the elements that the program says"


def test_wide_index_arithmetic_has_no_narrow_products_of_strides() -> None:
    """In the 64-bit specialization every product that reaches an address is 64 bits wide."""
    from eqkir.emit.triton.checks import WIDE, compile_batch
    from tests.matrix.provider import CACHE, CAPABILITY

    names = ("relu_f32", "softmax_f32", "gemm_nn_bf16", "sum_middle_f32")
    artifacts = [emit(Subject(n).program("chosen")) for n in names]
    for name, r in zip(names, compile_batch([(a, CAPABILITY, WIDE) for a in artifacts], cache=CACHE), strict=True):
        assert not r.error, r.error
        narrow = re.findall(r"^\s*(?:@!?%\w+\s+)?(?:mul|mad)\.lo\.s32[^;]*;", r.ptx, re.M)
        wide = re.findall(r"^\s*(?:@!?%\w+\s+)?(?:mul|mad)\.lo\.s64[^;]*;", r.ptx, re.M)
        assert wide and not narrow, f"{name}: {narrow[:3]}"
