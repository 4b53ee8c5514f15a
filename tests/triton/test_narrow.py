"""Bounds of loops in emitted code: scalars before the loop, steps at multiples of their size, and wrong ones are caught when run."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from corpus.build import every
from corpus.cases import SCALARS
from eqkir.emit.triton import emit
from eqkir.emit.triton.checks import Case, interpret_batch
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.inputs import make_inputs
from tests.matrix.provider import arrays
from tests.terms.test_met import block, candidates, data
from tests.terms.test_narrow import loops, narrowed
from tests.triton.against import Trial, check_all

pytestmark = pytest.mark.interpreter
NAME = "sliding_mean_f32"
#: what is done to the text: (pattern, replacement, whether the result stays right)
CHANGES = [
    (r"(_first = .*) // 4 \* 4", r"\1 // 4 * 4", True),
    (r"(_first = )(.*) // 4 \* 4", r"\1(\2 + 3) // 4 * 4", False),
    (r"(_first = )(.*) // 4 \* 4", r"\1\2 // 4 * 4 + 4", False),
    (r"(_first = )(.*) // 4 \* 4", r"\1tl.maximum(\2 // 4 * 4 - 4, 0)", True),
    (r"(_end = )(.*)", r"\1\2 - 4", False),
    (r"(_end = )(.*)", r"\1\2 - 1", False),
]


def test_emitted_bounds_are_scalars_at_multiples_of_the_step_and_wrong_ones_give_wrong_results() -> None:
    q = next(p for p in narrowed(NAME, (), 12) if any(x.label == "c0:LC" and x.lo >= 0 and x.hi >= 0 for x in loops(p)))
    artifact, k = emit(q), every()[NAME]
    assert re.search(r"for c0_from in tl.range\(c0_first, c0_end, 4", artifact.source)
    work, cases = [], []
    for n in (19, 13, 16):  # rows end anywhere in a step
        symbols = {"M": 1, "N": n}
        args = make_inputs(k, symbols, n, "plain", {}, SCALARS[NAME])
        cases.append((Case(*arrays(args)), envelope(k, args, symbols)))
    for pattern, text, _ in CHANGES:
        source, found = re.subn(pattern, text, artifact.source)
        assert found
        work.append((replace(artifact, source=source), [c for c, _ in cases]))
    for (_, _, good), outcomes in zip(CHANGES, interpret_batch(work), strict=True):
        right = all(not o.error and compare(e, {x: o.arrays[x] for x in e}).ok for o, (_, e) in zip(outcomes, cases, strict=True))
        assert right == good


def test_groups_that_a_block_meets_are_found_in_the_kernel() -> None:
    """Emitted code gives what the program interpreter gives, for groups that overlap, are upside down or reach beyond the rows, and for
    none; there is one launch, of a size that the data do not change."""
    programs = [block(), *candidates()[:3]]
    trials = [
        Trial(f"{n}/{t}x{g}/{seed}", q, {**data(t, g, seed), "out": np.arange(t, dtype=np.int32)})
        for n, q in enumerate(programs)
        for t, g, seed in ((37, 9, 0), (37, 9, 1), (21, 3, 2), (7, 0, 1))
    ]
    artifact = check_all(trials)[0]
    assert re.search(r"for c0_L1_from in tl.range\(c0_L1_first, c0_L1_end, 1\)", artifact.source)
