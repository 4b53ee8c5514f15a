"""After P0, egglog gets rulesets and run commands, and a rule file from outside changes the program without Python."""

from __future__ import annotations

import random
import re
from pathlib import Path

from eqkir.program.model import order_labels
from eqkir.rules.load import load_rules
from eqkir.rules.saturate import Limits, _Run, saturate
from eqkir.terms.decode import decode
from eqkir.terms.engine import session
from tests.terms.samples import SAMPLES
from tests.terms.sampling import sample
from tests.terms.test_encode_decode import bindings

FOREIGN = Path(__file__).parent.parent / "rules" / "foreign" / "interleave.egg"
ALLOWED = re.compile(r"\s*\((rule|rewrite|birewrite|relation|ruleset|run-schedule)\s")


def test_only_rules_and_runs_follow_the_program() -> None:
    with session() as e:
        run = _Run(SAMPLES["two"](), load_rules(), Limits())
        run.start(e)
        while run.step(e)[0]:
            pass
        phases = [p for p, _ in e.log]
        assert phases == sorted(phases, key=["vocabulary", "program", "rules"].index), "vocabulary, then the program, then rules"
        for phase, text in e.log:
            if phase == "rules":
                assert all(ALLOWED.match(t) for t in re.split(r"\n(?=\()", text) if t.strip()), text[:200]


def test_a_rule_file_from_outside_reaches_the_program() -> None:
    for name in ("softmax", "gemm"):
        p = SAMPLES[name]()
        s = saturate(p, rules=[FOREIGN])
        rng = random.Random(0)
        orders = {decode(s.graph, sample(s.graph, rng), p, bindings(p), {}).segments[0].order for _ in range(60)}
        assert any("TRev" in str(o) and "TInter" in str(o) for o in orders)
        assert all(len(order_labels(o)) == len(set(order_labels(o))) for o in orders)
