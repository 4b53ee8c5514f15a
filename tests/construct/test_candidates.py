"""Random candidates of constructed kernels: what the rules make of them, verified and interpreted, stays inside the envelope."""

from __future__ import annotations

import random
from math import prod
from pathlib import Path
from typing import Any

import pytest

from corpus.data import overrides
from corpus.shapes import entry_of
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.helpers import link
from eqkir.kir.inputs import make_inputs
from eqkir.kir.load import load_file
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Kernel, View
from eqkir.program.construct import construct
from eqkir.program.interp import Buffer, run
from eqkir.program.model import Program
from eqkir.program.verify import verify
from eqkir.rules.saturate import Limits, saturate
from eqkir.terms.decode import decode
from tests.terms.sampling import sample
from tests.terms.test_encode_decode import bindings

CORPUS = Path(__file__).parents[2] / "corpus"
NAMES = (
    "attention_causal_bf16", "collatz_i64", "contract_of_scan", "cumsum_reverse_f32", "histogram_parts_i32", "index_add_f32",
    "jagged_mean_f32", "linear_recurrence_f32", "mamba2_state_passing_f32", "random_words_u32", "skip_and_stop_i32", "workspace_transpose",
)  # fmt: skip
CANDIDATES = 6


def kernel(name: str) -> Kernel:
    path = next(p for folder in ("pending", "json") if (p := CORPUS / folder / f"{name}.json").exists())
    return link(load_file(path)).kernels[0]


def holds(p: Program, k: Kernel, row: dict[str, int], given: dict[str, Any], expected: Any) -> bool:
    """Whether the candidate takes these extents; asserts that its results are in the envelope."""
    from eqkir.base.expr import evaluate

    env = {**p.bindings, **row, **{n: int(x) for n, x in given.items() if isinstance(x, int)}}
    if not all(evaluate(c, env) for c in p.preconditions):
        return False
    got = clone(given)
    run(p, {n: Buffer(a.memory, a.offset, a.shape, a.strides) if isinstance(a, ViewArg) else a for n, a in got.items()}, row)
    verdict = compare(expected, {v.id: got[v.id] for v in k.params if isinstance(v, View)})
    assert verdict.ok, (k.name, row, str(verdict)[:300])
    return True


@pytest.mark.parametrize("name", NAMES)
def test_random_candidates(name: str) -> None:
    k = kernel(name)
    abstract = construct(k)
    graph = saturate(abstract, limits=Limits(seconds=60)).graph
    entry = entry_of(k)
    rows = [r for r in entry["test"] if prod(max(v, 1) for v in r.values()) <= 400][:3]
    cases = []
    for seed, row in enumerate(rows):
        given = make_inputs(k, row, seed, "plain", None, entry["scalars"])
        for view, contents in overrides(k, entry["data"], row, seed).items():
            given[view].array()[...] = contents
        cases.append((row, given, envelope(k, clone(given), row, None)))
    rng = random.Random(3)
    taken = 0
    for _ in range(CANDIDATES):
        p = decode(graph, sample(graph, rng), abstract, bindings(abstract), {})
        assert verify(p) == []
        taken += sum(holds(p, k, row, given, expected) for row, given, expected in cases)
    assert taken >= CANDIDATES
