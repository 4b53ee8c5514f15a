"""Every shipped rule fires on a kernel of the corpus, with the permissions that a compile call may grant.

The fast suite takes `WITNESSES`, kernels that are enough together, each with the rules that it is there for. Marked slow: the same with
each rule taken out alone, which changes the graph of a witness.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.kir.helpers import link
from eqkir.kir.load import load_file
from eqkir.rules import saturate as saturation
from eqkir.rules.load import PERMISSIONS, load_rules
from eqkir.rules.saturate import Saturated

CORPUS = Path(__file__).parents[2] / "corpus" / "json"
#: kernel -> what it is there for
WITNESSES = {
    "gemm_bias_gelu_bf16": "accumulating contractions, wide loads, orders of instances",
    "attention_causal_bf16": "folds, narrowed loops, rotated orders",
    "alibi_attention_bf16": "one-pass attention: slices of indices, selects, contractions",
    "key_norm_attention_f32": "one-pass attention: slices of reductions, a normaliser that is not narrowed",
    "softmax_attention_bf16": "one-pass attention whose rows may see nothing",
    "softmax_bf16": "one-pass normalisation",
    "approximate_sigmoid": "approximate exp2, tanh and quotients",
    "variance_f32": "own combines, merged and split groups",
    "segmented_scan_rows_f32": "scans with own combines",
    "cumsum_f32": "scans",
    "collatz_i64": "loops with a condition",
    "two_outputs": "orders of groups",
    "global_max_pool_f32": "reductions that change places",
    "keys_to_cache_bf16": "what is widened and narrowed again",
    "attention_delta_bf16": "sums of products",
    "batch_norm_infer_f32": "fused multiply and add",
    "adamw_f32": "fused multiply and subtract",
    "mla_decode_bf16": "contractions that start at a sum",
    "csr_spmv_f32": "members counted from where a group starts",
    "jagged_softmax_f32": "loops between bounds in which another operation goes over all members",
    "moe_grouped_gemm_bf16": "groups that a block of rows meets",
    "sliding_mean_f32": "loads filled with what a select puts beside them",
    "instance_norm_f32": "loops of a store that change places",
}


def named() -> dict[str, str]:
    """Every rule but the auxiliary ones -> its text."""
    return {r.name: r.text for f in load_rules(permit=PERMISSIONS) for r in f.rules if r.family != "facts"}


def saturated(kernel: str) -> Saturated:
    k = link(load_file(CORPUS / f"{kernel}.json")).kernels[0]
    return Chain(k, Options(permit=tuple(PERMISSIONS), limits={"seconds": 300}), Outcome(kernel, "")).saturated


@cache
def whole(kernel: str) -> Saturated:
    """With every rule."""
    s = saturated(kernel)
    assert s.report.reproducible, kernel
    return s


def test_every_shipped_rule_fires_on_the_corpus() -> None:
    fired = {rule for kernel in WITNESSES for rule, n in whole(kernel).report.matches.items() if n}
    assert set(named()) <= fired, f"no witness: {sorted(set(named()) - fired)}"


@pytest.mark.slow
@pytest.mark.parametrize("rule", sorted(named()))
def test_every_rule_taken_out_alone_changes_a_graph(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = named()[rule]

    def without(*arguments: Any) -> Any:
        files = load_rules(*arguments)
        return [
            replace(f, commands=tuple(c for c in f.commands if c != text), rules=tuple(r for r in f.rules if r.name != rule)) for f in files
        ]

    for kernel in WITNESSES:
        if whole(kernel).report.matches.get(rule):
            monkeypatch.setattr(saturation, "load_rules", without)
            changed = saturated(kernel).graph != whole(kernel).graph
            monkeypatch.undo()
            if changed:
                return
    raise AssertionError(f"{rule} changes no graph")
