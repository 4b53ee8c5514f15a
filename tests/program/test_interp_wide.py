"""Loops without effects run all their steps at once in the program interpreter: the bits are those of one step after another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.kir.helpers import link
from eqkir.kir.inputs import make_inputs
from eqkir.kir.load import load_file
from eqkir.kir.memory import ViewArg, clone
from eqkir.program import interp, interp_wide
from eqkir.program.construct import construct
from eqkir.program.lower import conservative

ROOT = Path(__file__).parents[2]
ENTRIES: dict[str, Any] = json.loads((ROOT / "tests" / "corpus_shapes.json").read_text())
NAMES = (
    "softmax_f32", "layer_norm_bf16", "variance_f32", "arg_reduce_rows", "gemm_bias_gelu_bf16", "prod_outer_f32", "cumsum_f32",
    "attention_causal_bf16", "csr_spmv_f32", "gated_delta_rule_f32", "cholesky_f32", "any_inner_f32", "sparse_2to4_gemm_f16",
    "newton_sqrt_f32", "viterbi_f32",
)  # fmt: skip


def outputs(name: str, row: dict[str, int], widest: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    k = link(load_file(ROOT / "corpus" / "json" / f"{name}.json")).kernels[0]
    args = clone(make_inputs(k, row, 3, "special", None, ENTRIES[name].get("scalars"), ENTRIES[name].get("data")))
    buffers = {n: interp.Buffer(a.memory, a.offset, a.shape, a.strides) if isinstance(a, ViewArg) else a for n, a in args.items()}
    monkeypatch.setattr(interp_wide, "WIDEST", widest)
    interp.run(conservative(construct(k)), buffers, row)
    return {n: np.ascontiguousarray(a.array()).tobytes() for n, a in args.items() if isinstance(a, ViewArg)}


@pytest.mark.parametrize("name", NAMES)
def test_all_steps_at_once_give_the_bits_of_one_after_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    for row in ENTRIES[name]["test"][:3]:
        if max(row.values()) > 24:
            row = {n: min(v, 24) for n, v in row.items()}
        try:
            slow = outputs(name, row, 1, monkeypatch)
        except EqkirError as e:
            with pytest.raises(EqkirError) as found:
                outputs(name, row, 4096, monkeypatch)
            assert found.value.diagnostics[0].code == e.diagnostics[0].code
            continue
        assert outputs(name, row, 4096, monkeypatch) == slow
        assert outputs(name, row, 9, monkeypatch) == slow, "some loops at once, others not"
        compared += 1
    assert compared
