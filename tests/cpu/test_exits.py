"""Costs of rows beside each other: what leaving a loop costs is paid once for all of them, memory and registers for each."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from eqkir.cpu.layout import Layout
from eqkir.extract.cost.cpu import program_cost
from eqkir.extract.cost.cpu_exits import accumulators, constants, given, waits
from eqkir.extract.cost.walk import Shape
from eqkir.program.model import Loop, Program
from eqkir.targets import load_target
from eqkir.targets.cpu import CpuTarget
from tests.cpu.test_tasks import chain_of

ROWS = {"M": 8192, "N": 2048}
TENSOR = {"A": 64, "B": 512, "C": 1024}
SHAPES = {"sum_inner_f32": TENSOR, "max_inner_f32": TENSOR}


def target() -> CpuTarget:
    t = load_target("mojo:x86-64-v4")
    assert isinstance(t, CpuTarget)
    return t


@cache
def program(name: str) -> Program:
    return chain_of(name, target="mojo:x86-64-v4", shapes=SHAPES.get(name, ROWS)).program


def beside(name: str, rows: int, chunk: int) -> Program:
    """The chosen program with so many rows in an instance."""
    p = program(name)
    axis = "i1" if name in SHAPES else "i0"
    old, new = (f"{axis}:OB", f"{axis}:O1") if rows == 1 else (f"{axis}:O1", f"{axis}:OB")

    def renamed(x: Any) -> Any:
        if isinstance(x, str):
            return x.replace(old, new)
        if isinstance(x, tuple):
            return tuple(renamed(y) for y in x)
        if hasattr(x, "__dataclass_fields__"):
            return replace(x, **{f: renamed(getattr(x, f)) for f in x.__dataclass_fields__})
        return x

    return replace(p, segments=renamed(p.segments), bindings={**p.bindings, f"B:{axis}": rows, "C:c0": chunk})


def waited(name: str, rows: int, chunk: int = 64) -> float:
    """Clocks that an instance waits."""
    p = beside(name, rows, chunk)
    shape = Shape(p, SHAPES.get(name, ROWS))
    return sum(waits(p, shape, target(), Layout(p, ph, 64), ph) for s in p.segments for ph in s.phases)


def figures(name: str, rows: int, chunk: int = 64) -> dict[str, float]:
    return dict(program_cost(beside(name, rows, chunk), target(), SHAPES.get(name, ROWS)).figures)


def test_a_loop_waits_for_what_the_one_before_reduces() -> None:
    """Once for the mean of squares, twice for mean and variance; what no later loop reads hides behind the next instance."""
    assert waited("sum_inner_f32", 1) == 0.0
    assert 40.0 < waited("rms_norm_bf16", 1) < waited("layer_norm_bf16", 1) < 250.0


@pytest.mark.parametrize("name", ["rms_norm_bf16", "layer_norm_bf16", "softmax_f32"])
def test_rows_beside_each_other_wait_together(name: str) -> None:
    assert waited(name, 4) == waited(name, 1) > 0.0
    assert figures(name, 4)["core_ns"] < figures(name, 1)["core_ns"]


def test_more_accumulators_take_longer_to_combine() -> None:
    assert waited("log_softmax_f32", 1, 128) > waited("log_softmax_f32", 1, 64)


def test_one_pass_over_rows_beside_each_other_takes_memory_longer() -> None:
    """What a second pass has fetched does not: rows of norms lie in a cache."""
    for name in ("sum_inner_f32", "max_inner_f32"):
        assert figures(name, 4)["memory_ns"] > 1.2 * figures(name, 1)["memory_ns"]
    assert figures("rms_norm_bf16", 4)["memory_ns"] == figures("rms_norm_bf16", 1)["memory_ns"]


def test_constants_and_what_a_loop_is_given_take_registers() -> None:
    p = beside("log_softmax_f32", 4, 64)
    (ph,) = p.segments[0].phases
    layout, t = Layout(p, ph, 64), target()
    maxima, sums, results = (x for x in ph if isinstance(x, Loop))
    assert constants(t, maxima.body) == 0.0 and constants(t, sums.body) == t.slots("exp") - 1.0 and constants(t, results.body) == 0.0
    assert given(layout, maxima) == [] and given(layout, sums) == [maxima.carries[0].id] and len(given(layout, results)) == 2
    assert accumulators(p, layout, sums, sums.carries[0]) == (4.0, 16)


def test_norms_take_rows_beside_each_other_and_sums_one_at_a_time() -> None:
    assert program("rms_norm_bf16").bindings.get("B:i0", 1) > 1 and program("layer_norm_bf16").bindings.get("B:i0", 1) > 1
    assert program("sum_inner_f32").bindings.get("B:i1", 1) == 1 and program("max_inner_f32").bindings.get("B:i1", 1) == 1
