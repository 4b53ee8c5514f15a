"""A body of a group that leaves out what its segment stores is found without running it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eqkir.cpu.completion import completion
from eqkir.cpu.expand import expand
from eqkir.cpu.model import If, Statement, TaskProgram
from eqkir.targets import CpuTarget, load_target

from .test_tasks import chain_of

KERNELS = ("iteration_private_buffer", "relu_f32", "softmax_f32", "column_scale")


def emptied(body: tuple[Statement, ...], side: str) -> tuple[Statement, ...]:
    """The last test between bodies with one of them empty."""
    *head, last = body
    assert isinstance(last, If)
    return (*head, replace(last, then=()) if side == "then" else replace(last, orelse=()))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_body_without_its_stores_is_found(kernel: str) -> None:
    machine = load_target("mojo:x86-64-v4")
    assert isinstance(machine, CpuTarget)
    program = chain_of(kernel, target="mojo:x86-64-v4").program
    tasks = expand(program, machine.vector_bytes, machine.stream_bytes, machine.prefetch_bytes)
    assert not completion(program, tasks)
    tested = 0
    for n, stage in enumerate(tasks.stages):
        for g in stage:
            if not isinstance(g.body[-1], If):
                continue
            for side in ("then", "orelse"):
                broken = replace(g, body=emptied(g.body, side))
                stages = [tuple(broken if x is g else x for x in st) if m == n else st for m, st in enumerate(tasks.stages)]
                found = completion(program, replace(tasks, stages=tuple(stages)))
                assert found and g.name in found[0].message, (kernel, side)
                tested += 1
    assert tested


def test_a_group_that_is_gone_is_found() -> None:
    machine = load_target("mojo:x86-64-v4")
    assert isinstance(machine, CpuTarget)
    program = chain_of("relu_f32", target="mojo:x86-64-v4").program
    tasks: TaskProgram = expand(program, machine.vector_bytes, machine.stream_bytes, machine.prefetch_bytes)
    assert completion(program, replace(tasks, stages=()))
