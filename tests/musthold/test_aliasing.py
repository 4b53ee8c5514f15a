"""``out[i] = in[i-1]`` and friends on views that may share memory: every candidate computes what the reference does."""

from __future__ import annotations

import random

import numpy as np
import pytest

from eqkir.driver import numeric
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import View
from eqkir.program.model import Program
from eqkir.terms.decode import decode
from tests.matrix.cells import Subject, configurations
from tests.terms.sampling import sample

LENGTHS = (1, 2, 7, 130, 300)


def shared(subject: Subject, n: int, distance: int, strides: tuple[int, int]) -> dict[str, ViewArg]:
    """One-dimensional views of `n` elements in one memory; the second one starts `distance` elements after the first."""
    views = [p for p in subject.kernel.params if isinstance(p, View)]
    rng = np.random.default_rng([n, distance + 100])
    memory = rng.standard_normal(8 * n + 40).astype(np.float32)
    base = 2 * n + 10
    out = {}
    for k, p in enumerate(views):
        s = strides[k % 2]
        out[p.id] = ViewArg(memory, base + k * distance + (n - 1) * -s * (s < 0), (n,), (s,))
    return out


def check(subject: Subject, program: Program, layouts: list[tuple[int, int, tuple[int, int]]]) -> None:
    for i, (n, distance, strides) in enumerate(layouts):
        args = shared(subject, n, distance, strides)
        expected = envelope(subject.kernel, args, {"N": n})
        run = numeric.interpreter(program, seed=i)
        got = run(clone(args), {"N": n})
        verdict = compare(expected, {k: got[k] for k in expected})
        assert verdict.ok, f"n={n} distance={distance} strides={strides}: {verdict.first}"


LAYOUTS = [
    (n, d, s)
    for n in LENGTHS
    for d, s in ((0, (1, 1)), (1, (1, 1)), (-1, (1, 1)), (3, (1, 1)), (-2, (2, 1)), (1, (1, 2)), (0, (1, -1)), (1, (-1, 1)))
]


@pytest.mark.parametrize("name", ["shift", "shift_in_place"])
def test_a_shift_on_overlapping_views_is_right_for_every_configuration(name: str) -> None:
    subject = Subject(name)
    for i, config in enumerate(configurations(seeds=12)):
        check(subject, subject.program(config), LAYOUTS[i % 3 :: 3])


@pytest.mark.parametrize("name", ["shift", "shift_in_place"])
def test_a_shift_on_overlapping_views_is_right_for_every_sampled_structure(name: str) -> None:
    """Structures drawn without regard to cost or target, under odd parameters."""
    subject = Subject(name)
    abstract, graph = subject.base.abstract, subject.base.saturated.graph
    rng = random.Random(1)
    seen = set()
    for i in range(60):
        bindings = {f"{x}:{a.name}": rng.choice([2, 4, 8, 64]) for a in abstract.axes for x in "BC"} | {
            f"F:{a.name}": 512 for a in abstract.axes
        }
        bindings |= {f"{x}:g{k}": rng.choice([1, 2, 3]) for x in "PG" for k in range(4)}
        program = decode(graph, sample(graph, rng), abstract, bindings, {"num_warps": 4})
        seen.add(str(program.segments))
        check(subject, program, LAYOUTS[i % 8 :: 8])
    assert len(seen) >= 8, "the sample holds several structures"


def test_without_noalias_no_instance_reads_what_another_writes() -> None:
    """Views that may alias leave one instance, whatever the rules do."""
    subject = Subject("shift")
    for config in ("chosen", "worst", "without-all", "random-3"):
        program = subject.program(config)
        assert all(str(program.length(s)) == "1" for s in program.segments), config
