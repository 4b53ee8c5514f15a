"""Random changes of random programs: what the construction verifier accepts computes what the good program computes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from eqkir.base.expr import Coord, Expr, Int, coords, floordiv, negate, substitute
from eqkir.kir.inputs import make_inputs
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Kernel, View
from eqkir.program import interp
from eqkir.program.abstract import Abstract, VNode
from eqkir.program.construction import verify_construction
from eqkir.program.lower import LowerError, conservative
from eqkir.program.model import Program
from eqkir.program.schedule import ScheduleError
from tests.construct.kernels import draw
from tests.construct.loops import CASES, Case
from tests.construction.good import Triple, built, of, rebuilt

pytestmark = pytest.mark.construction


def changed(rng: random.Random, e: Expr, axes: list[str]) -> Expr:
    """Another index expression."""
    own = sorted(coords(e))
    if not own:
        return e + 1
    c = Coord(rng.choice(own))
    return rng.choice([e + 1, e * 2, floordiv(e, 2), substitute(e, {c: Int(0)}), substitute(e, {c: Coord(rng.choice(axes))})])


def mutant(rng: random.Random, t: Triple) -> Abstract:
    """One node changed."""
    axes = [a.name for a in t.abstract.axes]
    target = rng.randrange(len(t.abstract.nodes))
    seen = iter(range(len(t.abstract.nodes)))

    def change(n: VNode, a: Abstract) -> VNode | None:
        if next(seen) != target:
            return None
        match n.op:
            case "Load":
                view, version, ixs = n.attrs
                k = rng.randrange(3)
                if k == 0 and ixs:
                    j = rng.randrange(len(ixs))
                    ixs = (*ixs[:j], changed(rng, ixs[j], axes), *ixs[j + 1 :])
                version -= k == 1 and version > 0
                valid = a.const("true", "bool") if k == 2 else n.args[0]
                return replace(n, attrs=(view, version, ixs), args=(valid, *n.args[1:]))
            case "Index":
                e = n.attrs[0]
                return replace(n, attrs=(changed(rng, e, axes) if n.dtype == "index" else rng.choice([negate(e), Int(1), Int(0)]),))
            case "Bin" if n.dtype == "f32":
                return rng.choice([replace(n, attrs=("sub",)), replace(n, attrs=("mul",)), replace(n, args=n.args[::-1])])
            case "Un" if n.dtype == "f32":
                return replace(n, attrs=("neg",))
            case "Red":
                return replace(n, attrs=(rng.choice(("sum", "max", "min")), n.attrs[1]))
            case "Con":
                return replace(n, args=n.args[::-1])
            case "Tri":
                return replace(n, args=(n.args[0], n.args[2], n.args[1]))
            case "Const" if n.dtype == "f32":
                return replace(n, attrs=("3.0",))
        return None

    return rebuilt(t.abstract, change, lambda p, a: p)


def results(program: Program, kernel: Kernel, symbols: dict[str, int], seed: int) -> list[np.ndarray]:
    args = clone(make_inputs(kernel, symbols, seed, "plain", None, None))
    buffers = {n: interp.Buffer(a.memory, a.offset, a.shape, a.strides) if isinstance(a, ViewArg) else a for n, a in args.items()}
    with np.errstate(all="ignore"):
        interp.run(program, buffers, symbols)
    return [np.array(args[v.id].array()) for v in kernel.params if isinstance(v, View)]


def sweep(seeds: range) -> tuple[int, int]:
    """(accepted, rejected) of the mutants that differ from the good program and have a P0."""
    accepted = rejected = 0
    for seed in seeds:
        rng, kernel = random.Random(seed), draw(seed % 997)
        t = of(kernel)
        for _ in range(3):
            a = mutant(rng, t)
            if a.nodes == t.abstract.nodes:
                continue
            try:
                program = conservative(a)
            except (LowerError, ScheduleError):
                continue
            if verify_construction(kernel, t.types, a, program):
                rejected += 1
                continue
            accepted += 1
            for s, n in ((3, 2), (2, 5)):
                symbols = {"S": s, "N": n}
                pairs = zip(results(t.program, kernel, symbols, seed), results(program, kernel, symbols, seed), strict=True)
                assert all(np.array_equal(x, y, equal_nan=True) for x, y in pairs), (seed, symbols)
    return accepted, rejected


@pytest.mark.parametrize("block", range(4))
def test_accepted_mutants_compute_the_same(block: int) -> None:
    accepted, rejected = sweep(range(40 * block, 40 * (block + 1)))
    assert rejected > 5 * accepted and rejected > 20


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_accepted_mutants_compute_the_same(block: int) -> None:
    sweep(range(10000 + 100 * block, 10000 + 100 * (block + 1)))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_accepted_mutants_of_ordered_loops_compute_the_same(case: Case) -> None:
    t = built(case.fill)
    for seed in range(6):
        a = mutant(random.Random(7 * seed + 1), t)
        if a.nodes == t.abstract.nodes:
            continue
        try:
            program = conservative(a)
        except (LowerError, ScheduleError):
            continue
        if not verify_construction(t.kernel, t.types, a, program):
            for row in case.rows[:2]:
                pairs = zip(results(t.program, t.kernel, row, seed), results(program, t.kernel, row, seed), strict=True)
                assert all(np.array_equal(x, y, equal_nan=True) for x, y in pairs), (seed, row)
