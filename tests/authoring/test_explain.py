"""The chain of rules from P0 to the choice: every step a verified program; where a query ends."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from eqkir.authoring.explain import Explanation, explain, why, write
from eqkir.authoring.impact import Job, measure, summary
from eqkir.authoring.impact_page import page
from eqkir.authoring.use import use
from eqkir.driver.options import Options
from eqkir.kir.helpers import link
from eqkir.kir.load import load_file
from eqkir.kir.model import Kernel
from eqkir.program.serialize import from_json
from eqkir.program.verify import verify

CORPUS = Path(__file__).parents[2] / "corpus" / "json"


def kernel(name: str) -> Kernel:
    return link(load_file(CORPUS / f"{name}.json")).kernels[0]


@cache
def softmax() -> Explanation:
    return explain(kernel("softmax_bf16"), Options(check="none"))


def test_the_chain_ends_at_the_choice_and_begins_at_scalar_loops() -> None:
    e = softmax()
    assert e.complete and e.steps and e.steps[0].before == e.initial and e.steps[-1].after == e.chosen
    assert all(a.after == b.before for a, b in zip(e.steps, e.steps[1:]))
    assert {"chunk-loop", "reduce-lanes"} <= {s.rule for s in e.steps}
    assert e.steps[-1].cost_after < e.steps[0].cost_before


def test_every_program_of_the_chain_replays(tmp_path: Path) -> None:
    write(softmax(), tmp_path)
    rows = json.loads((tmp_path / "chain.json").read_text())
    assert rows["complete"] and len(rows["steps"]) == len(softmax().steps)
    for n in range(len(softmax().steps) + 1):
        assert not verify(from_json(json.loads((tmp_path / f"step-{n:02}.json").read_text())))


def test_a_rule_that_does_not_fire_ends_at_a_fact() -> None:
    facts = why(kernel("softmax_bf16"), Options(check="none"), "sum-of-products")
    assert facts[0].matches > 0 and facts[-1].matches == 0
    failed = next(f for f in facts if not f.matches)
    assert "mul" in failed.text, "there is a sum, and no product in it"
    fires = why(kernel("softmax_bf16"), Options(check="none"), "reduce-tree")
    assert fires[-1].matches > 0


def test_impact_says_what_a_rule_changes_and_flags_what_changes_nothing(tmp_path: Path) -> None:
    idle = tmp_path / "idle.egg"
    idle.write_text('; name: idle\n; family: idle\n\n; a => a\n(rule ((= v (Un "exp" a))) ((union v v)) :name "idle")\n')
    o = Options(check="none", rules=(str(idle),))
    rows = measure(Job(str(CORPUS / "softmax_bf16.json"), o, ("idle", "reduce-lanes"), True))
    table = {r["rule"]: r for r in summary(rows, o, ("idle", "reduce-lanes"))}
    assert table["idle"]["without_effect"] and table["idle"]["matches"] > 0
    assert not table["reduce-lanes"]["without_effect"] and table["reduce-lanes"]["choices_changed"] == 1
    assert all(r["cost_none"] > r["cost"] for r in rows)
    failed = {"kernel": "<lost>", "rule": "", "error": "EQK-X"}
    text = page(list(table.values()), [*rows, failed], 2, o)
    assert "reduce-lanes" in text and "http" not in text and "<script" not in text, "self-contained"
    assert "1 rules match and change nothing" in text and "&lt;lost&gt; (EQK-X)" in text and "cost of it alone" in text
    assert table["reduce-lanes"]["alone"] <= 1 and table["reduce-lanes"]["enodes_without"] < 1


def test_a_file_in_use_is_compared_with_the_reference(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.egg", Path(__file__).parents[1] / "rules" / "wrong" / "sum-is-maximum.egg"
    right.write_text(
        '; name: right\n; family: right\n\n; a + b => b + a\n(rule ((= v (Bin "add" a b))) ((union v (Bin "add" b a))) :name "commute")\n'
    )
    (row,) = use(CORPUS / "batch_norm_infer_f32.json", right, Options(check="none"))
    assert row.ok and row.matches["commute"] > 0 and row.cases > 3
    rows = list(use(CORPUS / "sum_inner_f32.json", wrong, Options(check="none")))
    assert rows[0].matches["wrong-sum-is-maximum"] > 0 and (not rows[0].ok or not rows[0].changed)


