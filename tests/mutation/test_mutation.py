"""The checks of emitted kernels catch what is wrong: mutants of the source do not get past them."""

from __future__ import annotations

import ast

import pytest

from tests.matrix.cells import kernels
from tests.mutation import campaign
from tests.mutation.battery import Battery
from tests.mutation.operators import edits
from tools.mutate import OUT, SHARE

pytestmark = pytest.mark.interpreter
SAMPLE = ("sum_middle_f32", "two_outputs", "gemm_nn_bf16")


def test_operators_make_one_change_each_and_keep_the_module_readable() -> None:
    source = Battery("softmax_f32").artifact.source
    found = edits(source)
    assert len({e.source for e in found}) == len(found) > 60
    assert len({e.operator for e in found}) >= 18
    for e in found:
        ast.parse(e.source)
        assert e.source != source and e.before != e.after
    assert [str(e) for e in edits(source)] == [str(e) for e in found], "the same mutants every time"


def test_the_originals_pass_every_check() -> None:
    b = Battery("sum_middle_f32")
    source = b.artifact.source
    assert b.numeric([source]) == [""] and b.refusals([source]) == [""] and b.ptx([source]) == [""]
    assert len(b.launches) >= 20 and len(b.wrong) >= 6


def test_a_sample_of_mutants_is_caught() -> None:
    sites = {(n, "chosen"): edits(Battery(n).artifact.source) for n in SAMPLE}
    verdicts = [v for (n, c), mine in campaign.choose(sites, 1).items() for v in campaign.run(n, c, None, mine)]
    assert len(verdicts) >= 20
    left = [v for v in verdicts if not v.caught]
    assert len(left) <= (1 - SHARE) * len(verdicts), campaign.report(verdicts)


@pytest.mark.slow
def test_mutants_over_the_corpus_are_caught_and_survivors_harmless() -> None:
    verdicts = campaign.campaign()
    text = campaign.report(verdicts)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "report.txt").write_text(text + "\n")
    (OUT / "report.json").write_text(campaign.to_json(verdicts))
    print(text)
    caught = [v for v in verdicts if v.caught]
    assert len(verdicts) >= 200 and len({v.kernel for v in verdicts}) == len(kernels())
    assert len(caught) >= SHARE * len(verdicts), text
    assert all(v.reason for v in verdicts if not v.caught), text
