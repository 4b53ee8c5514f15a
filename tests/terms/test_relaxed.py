"""Under `relaxed_normalization`, rules alone turn plain softmax attention into one traversal in slices; without it, nothing does."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import numpy as np
import pytest

from eqkir.base.dtypes import NUMPY
from eqkir.driver.numeric import interpreter
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.helpers import link
from eqkir.kir.inputs import make_inputs
from eqkir.kir.load import load_file
from eqkir.kir.memory import clone
from eqkir.program.abstract import Abstract, with_slices
from eqkir.program.construct import construct
from eqkir.program.interp import Buffer, run
from eqkir.program.listing import listing
from eqkir.program.model import Program
from eqkir.program.schedule import ScheduleError
from eqkir.program.verify import verify
from eqkir.rules.saturate import saturate
from eqkir.terms.decode import decode
from tests.terms.samples import plain_attention
from tests.terms.sampling import sample

CORPUS = Path(__file__).parents[2] / "corpus" / "json"


def parameters(p: Abstract) -> dict[str, int]:
    return {f"{k}:{a.name}": 16 for a in p.axes for k in "BCF"} | {"G:g0": 2, "P:g0": 2}


def candidates(p: Abstract, permit: tuple[str, ...], n: int) -> list[Program]:
    s = saturate(p, permit=permit)
    assert s.report.stop == "saturated"
    rng = random.Random(1)
    out = []
    for _ in range(n):
        with contextlib.suppress(ScheduleError):  # one traversal in two versions has no order; an extractor takes another selection
            out.append(decode(s.graph, sample(s.graph, rng), p, parameters(p), {}))
    assert len(out) >= n // 2
    return out


def one_pass(q: Program) -> bool:
    """K and V are each loaded at one place, inside a loop that carries states."""
    text = listing(q)
    return "Phi" in text and text.count("Load K.") == text.count("Load V.") == 1


def test_without_the_permission_no_candidate_traverses_in_slices() -> None:
    assert not any("Phi" in listing(q) for q in candidates(with_slices(plain_attention()), (), 60))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_with_it_candidates_reach_one_pass_and_are_right(dtype: str) -> None:
    p = with_slices(plain_attention(dtype))
    found = candidates(p, ("relaxed_normalization",), 300)
    folds = [q for q in found if "Phi" in listing(q)]
    assert len(folds) >= 30 and any(one_pass(q) for q in found)
    rng = np.random.default_rng(0)
    m, n, d, e = 5, 13, 3, 6
    data = {k: rng.normal(size=s).astype(NUMPY[dtype]) for k, s in (("Q", (m, d)), ("K", (n, d)), ("V", (n, e)))}
    q, k, v = (x.astype(np.float64) for x in data.values())
    w = np.exp(q @ k.T)
    want = w @ v / w.sum(1, keepdims=True)
    bound = 2e-5 if dtype == "f32" else 2.0**-7  # weights are rounded to the operand dtype once more or less; |v| is about 1
    for c in [x for x in found if one_pass(x)][:4] + folds[:12] + found[:6]:
        assert not verify(c)
        out = np.full((m, e), np.nan, np.float32)
        run(c, {name: Buffer.of(a.copy()) for name, a in data.items()} | {"Y": (y := Buffer.of(out))})
        assert np.max(np.abs(y.array() - want)) < bound


def test_rows_that_see_nothing_keep_what_zero_weights_make_of_infinities_and_nan() -> None:
    """0 times an infinity or NaN is NaN, in rows without a visible key too: no rule may give them 0 under this permission alone."""
    k = link(load_file(CORPUS / "softmax_attention_bf16.json")).kernels[0]
    p, symbols, permit = with_slices(construct(k)), {"B": 1, "H": 2, "S": 9, "T": 5, "D": 4}, ("relaxed_normalization",)
    args = make_inputs(k, symbols, 1, "plain", None, {"scale": 0.5}, None)
    args["V"].array()[0, 0, 1, 2], args["V"].array()[0, 1, 4, 0] = np.inf, np.nan
    expected = envelope(k, args, symbols, {}, permit)
    s, rng, seen = saturate(p, permit=permit), random.Random(3), 0
    for _ in range(400):
        with contextlib.suppress(ScheduleError):
            q = decode(s.graph, sample(s.graph, rng), p, parameters(p), {})
            if "Phi" not in listing(q):
                continue
            got = interpreter(q)(clone(args), symbols)
            assert compare(expected, {n: got[n] for n in expected}).ok
            seen += 1
            if seen == 12:
                break
    assert seen == 12
    assert np.isnan(got["O"].array()[0, 0, 0, 2]), "the first rows see nothing"
