"""Task programs mean what the programs mean that they are expanded from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.cli.optimize import read_inputs
from eqkir.cpu import interp as task_interp
from eqkir.cpu.expand import expand
from eqkir.cpu.model import TaskProgram
from eqkir.cpu.verify import verify
from eqkir.driver import numeric
from eqkir.driver.chain import Chain
from eqkir.driver.job import kernel_of
from eqkir.driver.native import interpreted
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.scan import Task, scan
from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel
from eqkir.program import interp as program_interp
from eqkir.program.model import Program
from tests.construct.test_two_members import KERNELS as SLICED

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "corpus" / "json"
INPUTS = read_inputs(ROOT / "tests" / "corpus_shapes.json")
#: one kernel of each kind: pointwise, reductions along either axis, generic ones, scans, contractions, ordered loops, data-dependent loops
#: and coordinates, atomics, bools and narrow floats, random numbers
SAMPLE = (
    "relu_f32", "softmax_f32", "argmax_middle_f32", "transpose_add_f32", "swiglu_bf16", "histogram_global_u8", "random_words_u32",
    "workspace_counts", "attention_causal_bf16", "carried_record",
)  # fmt: skip


def chain_of(name: str, **options: Any) -> Chain:
    return chains_of(name, **options)[0]


def chains_of(name: str, **options: Any) -> list[Chain]:
    tasks = [t for t in scan(str(CORPUS / f"{name}.json")) if isinstance(t, Task)]
    return [Chain(kernel_of(t), Options(inputs=INPUTS, **options), Outcome(name, t.file)) for t in tasks]


def compared(c: Chain, program: Program, tasks: TaskProgram, seed: int = 0) -> numeric.Verdict:
    return numeric.check(
        c.kernel, program, c.constexprs, {}, seed, interpreted(tasks, seed), numeric.scalar_steps(c.initial),
        described=c.options.described(c.kernel.name),
    )  # fmt: skip


def agrees(c: Chain, program: Program, vector_bytes: int) -> None:
    tasks = expand(program, vector_bytes)
    assert verify(tasks) == []
    v = compared(c, program, tasks)
    assert v.ok, v.mistakes


@pytest.mark.parametrize("name", SAMPLE)
def test_the_conservative_program_expands_to_its_meaning(name: str) -> None:
    c = chain_of(name)
    agrees(c, c.initial, 64)


@pytest.mark.parametrize("name", ["relu_f32", "softmax_f32", "argmax_middle_f32", "transpose_add_f32"])
@pytest.mark.parametrize("target", ["mojo:x86-64-v4", "mojo:x86-64-v3"])
def test_the_chosen_program_expands_to_its_meaning(name: str, target: str) -> None:
    c = chain_of(name, target=target)
    agrees(c, c.program, 64 if target.endswith("v4") else 32)


@pytest.mark.parametrize("seed", range(4))
def test_random_candidates_expand_to_their_meaning(seed: int) -> None:
    c = chain_of("softmax_f32", target="mojo:x86-64-v4", extractor="random", seed=seed)
    agrees(c, c.program, 64)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.stem for p in CORPUS.glob("*.json")))
def test_every_conservative_program_expands_to_its_meaning(name: str) -> None:
    for c in chains_of(name):
        agrees(c, c.initial, 64)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.stem for p in CORPUS.glob("*.json")))
@pytest.mark.parametrize("extractor", ["greedy-dag", "random"])
def test_every_chosen_program_expands_to_its_meaning(name: str, extractor: str) -> None:
    for c in chains_of(name, target="mojo:x86-64-v4", extractor=extractor):
        agrees(c, c.program, 64)


def test_what_memory_held_before_does_not_count() -> None:
    c = chain_of("workspace_counts")
    tasks = expand(c.initial, 64)
    for seed in (0, 1):
        assert compared(c, c.initial, tasks, seed).ok


def test_the_same_program_expands_to_the_same_statements() -> None:
    c = chain_of("softmax_f32", target="mojo:x86-64-v4")
    assert expand(c.program, 64) == expand(c.program, 64)


def test_programs_for_another_stage_are_refused() -> None:
    from dataclasses import replace

    c = chain_of("relu_f32")
    with pytest.raises(EqkirError, match="EQK-MOJ-STAGE"):
        expand(replace(c.initial, stage="legal"))


def test_a_fragment_that_fits_no_registers_is_refused() -> None:
    c = chain_of("relu_f32", target="mojo:x86-64-v4")
    from dataclasses import replace

    wide: Mapping[str, int] = {**c.program.bindings, **{k: 1 << 20 for k in c.program.bindings if k.startswith("B:")}}
    with pytest.raises(EqkirError, match="EQK-MOJ-LARGE"):
        expand(replace(c.program, bindings=dict(wide)), 64)


@pytest.mark.parametrize("name", sorted(SLICED))
@pytest.mark.parametrize("extractor", ["conservative", "greedy-dag", "random"])
def test_slices_of_several_members_expand_to_their_meaning(name: str, extractor: str) -> None:
    """Pairs and triples of the points of a slice: the axes of all its members move with it."""
    chosen = "greedy-dag" if extractor == "conservative" else extractor
    for seed in range(4 if extractor == "random" else 1):
        c = Chain(SLICED[name](), Options(target="mojo:x86-64-v4", extractor=chosen, seed=seed), Outcome(name, ""))
        agrees(c, c.initial if extractor == "conservative" else c.program, 64)


def nested_while() -> Kernel:
    """Rows of different lengths, and inside each step a loop of its own: a row that has stopped does not enter it."""
    k = Builder("nested_while")
    M, T = k.symbols("M", "T")
    C, D, Y = k.view("C", "in", "i32", (M,)), k.view("D", "in", "i32", (M, T)), k.view("Y", "out", "i32", (M,))
    k.noalias(C, D, Y)
    with k.parallel(M) as m:
        with k.while_(k.const(0, "i32"), k.const(0, "i32")) as o:
            i, s = o.test(o.carried[0] < C[m])
            t = D.load((m, D.assume_in_bounds(i.cast("index"), 1)))
            with k.while_(k.const(1, "i32")) as w:
                (x,) = w.test(w.carried[0] != t)
                w.yield_(x + 1)
            o.yield_(i + 1, s + w.result)
        Y[m] = o.results[1]
    return k.build()


@pytest.mark.parametrize("extractor", ["conservative", "greedy-dag", "random"])
def test_what_has_stopped_does_not_enter_a_loop(extractor: str) -> None:
    chosen = "greedy-dag" if extractor == "conservative" else extractor
    for seed in range(4 if extractor == "random" else 1):
        c = Chain(nested_while(), Options(target="mojo:x86-64-v4", extractor=chosen, seed=seed), Outcome("nested_while", ""))
        p = c.initial if extractor == "conservative" else c.program
        tasks = expand(p, 64)
        assert verify(tasks) == []
        for execute, it in ((program_interp.run, p), (task_interp.run, tasks)):
            a = {"C": np.array([1, 3, 2], np.int32), "D": np.array([[1, 2, 3], [2, 2, 2], [3, 1, 1]], np.int32), "Y": np.zeros(3, np.int32)}
            execute(it, {n: program_interp.Buffer.of(v) for n, v in a.items()}, {"M": 3, "T": 3})  # type: ignore[operator]
            assert a["Y"].tolist() == [1, 6, 4]


def short_rows() -> Kernel:
    """Sums over an axis of three members."""
    k = Builder("short_rows")
    (N,) = k.symbols("N")
    X, Y = k.view("X", "in", "f32", (N, 3)), k.view("Y", "out", "f32", (N,))
    k.noalias(X, Y)
    Y[:] = X[:, :].sum(axis=1)
    return k.build()


def test_a_fragment_that_is_longer_than_its_constant_axis_is_never_full() -> None:
    """Nothing is inside then, whatever the extents: there is a body for it all the same."""
    c = Chain(short_rows(), Options(target="mojo:x86-64-v4"), Outcome("short_rows", ""))
    assert c.program.bindings["F:c0"] == 4
    v = compared(c, c.program, expand(c.program, 64))
    assert v.ok, v.mistakes
