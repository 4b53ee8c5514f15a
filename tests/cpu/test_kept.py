"""Values kept between passes: the bits of computing them again, for any extents; chosen where that pays; refused without a source."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.cpu import interp as task_interp
from eqkir.cpu.expand import expand
from eqkir.cpu.kept import KEPT, LIMIT, is_kept, kept_in
from eqkir.cpu.model import Alloc, If, Load, Op, TaskProgram, Write, statements
from eqkir.cpu.verify import verify
from eqkir.driver.chain import Chain
from eqkir.driver.native import lowerings
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.extract.check import check_legal
from eqkir.extract.choose import problem
from eqkir.extract.cost import cost_model
from eqkir.extract.cost.cpu import program_cost
from eqkir.extract.extractors import extract
from eqkir.extract.keeping import keeping
from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel
from eqkir.program.interp import Buffer
from eqkir.program.model import Carry, Item, Let, Loop, Program
from eqkir.program.verify import verify as program_verify
from eqkir.terms.decode import decode

from .programs import changed
from .test_tasks import chain_of, compared

V4 = "mojo:x86-64-v4"


def weights(in_place: bool, heads: bool = False) -> Kernel:
    """Softmax of rows, in place or not; with `heads`, of products with a vector instead."""
    k = Builder("weights")
    if heads:
        M, N, D = k.symbols("M", "N", "D")
        A, B = k.view("A", "in", "f32", (M, D)), k.view("B", "in", "f32", (N, D))
        Y = k.view("Y", "out", "f32", (M, N))
        k.noalias(A, B, Y)
        x = k.contract(A[:, :], B[:, :], [(1, 1)])
    else:
        M, N = k.symbols("M", "N")
        X = k.view("X", "inout" if in_place else "in", "f32", (M, N))
        Y = X if in_place else k.view("Y", "out", "f32", (M, N))
        if not in_place:
            k.noalias(X, Y)
        x = X[:, :]
    e = (x - x.max(axis=1, keepdims=True)).exp()
    Y[:, :] = e / e.sum(axis=1, keepdims=True)
    return k.build()


@cache
def chain(in_place: bool, heads: bool = False) -> Chain:
    return Chain(weights(in_place, heads), Options(target=V4), Outcome("weights", ""))


def values(items: tuple[Item, ...]) -> list[Let | Carry]:
    out: list[Let | Carry] = []
    for x in items:
        if isinstance(x, Loop):
            out += [*values(x.body), *x.carries]
        elif isinstance(x, Let):
            out.append(x)
    return out


def supplies(program: Program) -> list[Let]:
    return [x for s in program.segments for ph in s.phases for x in values(ph) if isinstance(x, Let) and is_kept(x)]


def tasks_of(program: Program) -> TaskProgram:
    tasks = expand(program, 64)
    assert verify(tasks) == []
    return tasks


def run(tasks: TaskProgram, x: np.ndarray, in_place: bool) -> np.ndarray:
    x, y = x.copy(), np.full_like(x, 7)
    m, n = x.shape
    task_interp.run(tasks, {"X": Buffer.of(x)} if in_place else {"X": Buffer.of(x), "Y": Buffer.of(y)}, {"M": m, "N": n})
    return x if in_place else y


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 127), (5, 128), (2, 129), (9, 700), (1, 0), (0, 5), (1, 16384), (1, 16385)])
def test_what_is_kept_has_the_bits_of_what_is_computed_again(in_place: bool, shape: tuple[int, int]) -> None:
    p = chain(in_place).program
    assert len(supplies(p)) == 1 and program_verify(p) == []
    tasks = tasks_of(p)
    assert tasks.limits[LIMIT] == KEPT
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 4
    x.ravel()[::97] = np.inf
    x.ravel()[5::301] = np.nan
    found = [run(t, x, in_place).view(np.uint32) for t in lowerings(tasks)]
    assert all((found[0] == f).all() for f in found)
    plain = tasks_of(changed(p, _again))
    assert LIMIT not in plain.limits
    assert (run(plain, x, in_place).view(np.uint32) == found[0]).all()


def _again(x: Item) -> tuple[Item, ...]:
    """Nothing kept: the value under another name."""
    if isinstance(x, Let) and is_kept(x):
        return (Let(x.id, "Bitcast", (x.dtype,), x.args, x.dims, x.dtype),)
    return (x,)


def test_a_row_that_is_kept_is_computed_once() -> None:
    """One body makes each exponential once and has memory for it; the other has none and makes it twice."""
    tasks = tasks_of(chain_of("softmax_f32", target=V4).program)
    ((g,),) = tasks.stages
    tests = [s for s in statements(g.body) if isinstance(s, If)]
    bodies = [(s.then, s.orelse) for s in tests if any(isinstance(x, Alloc) for x in statements(s.then)) and s.orelse]
    short, long = [(a, b) for a, b in bodies if not any(isinstance(x, Alloc) for x in statements(b))][-1]  # the innermost

    def count(body: tuple, what: str) -> int:  # type: ignore[type-arg]
        return sum(isinstance(x, Op) and x.op == "Un" and x.attrs == (what,) for x in statements(body))

    assert 2 * count(short, "exp") == count(long, "exp") > 0
    memory = {s.name: s for s in statements(short) if isinstance(s, Alloc)}
    assert all(s.size * 4 <= KEPT and s.align == 64 and s.dtype == "f32" for s in memory.values())
    for kind in (Load, Write):
        assert any(isinstance(s, kind) and s.place in memory for s in statements(short))


@pytest.mark.parametrize("name", ["softmax_f32", "softmax_bf16"])
def test_kept_rows_agree_with_the_reference(name: str) -> None:
    c = chain_of(name, target=V4)
    assert supplies(c.program)
    tasks = tasks_of(c.program)
    v = compared(c, c.program, tasks)
    assert v.ok, v.mistakes


def test_what_loops_inside_make_is_kept_too() -> None:
    """Products of rows, and functions of them: whether it pays is not asked here."""
    c = chain(False, heads=True)
    graph, target = c.saturated.graph, c.target
    p, _ = problem(graph, c.abstract, target, {}, cost_model("roofline"))
    found = {x.key: x for x in keeping(p, extract(p, "greedy-dag", 0), 4, 8)}
    ops: set[str] = set()  # what is kept, each tried once
    for x in found.values():
        check_legal(p, x.selection, x.row)
        row = p.rows[x.row]
        program = decode(graph, x.selection, c.abstract, row.values, row.launch, canonical=True)
        program = replace(program, implementations=row.implementations)
        assert program_verify(program) == []
        held = [(ph, v) for s in program.segments for ph in s.phases for v in kept_in(program, ph).values()]
        new = {y.op for ph, v in held for y in values(ph) if y.id == v.source} - ops
        if new and len(held) == len(supplies(program)):
            ops |= new
            v = compared(c, program, tasks_of(program), 1)
            assert v.ok, v.mistakes
    assert ops >= {"Un", "ConLoop"}, ops


def twice() -> Kernel:
    """Softmax of rows, and softmax of that, through memory."""
    k = Builder("twice")
    M, N = k.symbols("M", "N")
    X, Y, Z = k.view("X", "in", "f32", (M, N)), k.view("Y", "out", "f32", (M, N)), k.view("Z", "out", "f32", (M, N))
    k.noalias(X, Y, Z)
    for a, b in ((X, Y), (Y, Z)):
        x = a[:, :]
        e = (x - x.max(axis=1, keepdims=True)).exp()
        b[:, :] = e / e.sum(axis=1, keepdims=True)
    return k.build()


def test_every_phase_keeps_its_own() -> None:
    c = Chain(twice(), Options(target=V4), Outcome("twice", ""))
    p = c.program
    assert len(supplies(p)) == 2 and any(len(s.phases) == 2 for s in p.segments)
    tasks = tasks_of(p)
    assert len({s.name for g in tasks.stages[0] for s in statements(g.body) if isinstance(s, Alloc)}) == 2
    v = compared(c, p, tasks)
    assert v.ok, v.mistakes


def test_rows_too_long_for_the_memory_are_no_reason_to_keep() -> None:
    c = Chain(weights(False), Options(target=V4, shapes={"M": 8, "N": 1 << 20}), Outcome("weights", ""))
    assert not supplies(c.program)


def test_a_value_that_nothing_keeps_is_refused() -> None:
    """A supply in the first loop that makes the value, whatever loops come later."""
    p = chain(False).program
    (old,) = supplies(p)
    ((phase,),) = (s.phases for s in p.segments)
    first = next(x for x in phase if isinstance(x, Loop) and any(isinstance(i, Let) and i.op == "Un" for i in x.body))
    made = next(i for i in first.body if isinstance(i, Let) and i.op == "Un")
    wrong = replace(first, body=(*first.body, replace(old, id=900, args=(made.id,))))
    segment = replace(p.segments[0], phases=(tuple(wrong if x is first else x for x in phase),))
    with pytest.raises(EqkirError, match="kept"):
        expand(replace(p, segments=(segment,)), 64)
    cost = program_cost(replace(p, segments=(segment,)), chain(False).target, {})
    assert "kept" in cost.reject


@pytest.mark.parametrize("extractor", ["random", "worst"])
def test_any_program_of_the_graph_keeps_what_it_says(extractor: str) -> None:
    kept = 0
    for seed in (3, 4, 11) if extractor == "random" else (0,):
        c = Chain(weights(False), Options(target=V4, extractor=extractor, seed=seed), Outcome("weights", ""))
        kept += len(supplies(c.program))
        v = compared(c, c.program, tasks_of(c.program), seed)
        assert v.ok, v.mistakes
    assert extractor != "random" or kept
