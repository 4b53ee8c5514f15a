"""Corpus kernels that later layers do not take yet: construction takes them, and gives KIR's result, or refuses them with a code."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from corpus.data import overrides
from corpus.shapes import entry_of
from eqkir.analysis.listing import listing
from eqkir.base.diagnostics import EqkirError
from eqkir.kir.helpers import link
from eqkir.kir.inputs import make_inputs
from eqkir.kir.load import load_file
from eqkir.program.construct import construct
from eqkir.program.lower import conservative
from eqkir.program.verify import verify
from tests.construct.against import agrees

FILES = sorted((Path(__file__).parents[2] / "corpus" / "pending").glob("*.json"))
POINTS = 120  # of the product of a kernel's symbols


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_pending_kernel(path: Path) -> None:
    for k in link(load_file(path)).kernels:
        try:
            p = construct(k)
        except EqkirError as e:
            d = e.diagnostics[0]
            assert d.code.startswith("EQK-CON-") and d.pointer.startswith("/body/")
            continue
        assert listing(p)
        faults = verify(conservative(p))
        assert {d.code for d in faults} <= {"EQK-PRG-BUFFER"}, "P0 verifies, but for the author's word that a buffer is written first"
        entry = entry_of(k)
        rows = [r for r in entry["test"] if prod(max(v, 1) for v in r.values()) <= POINTS]
        assert rows
        for seed, row in enumerate(rows):
            args = make_inputs(k, row, seed, "plain", None, entry["scalars"])
            for name, contents in overrides(k, entry["data"], row, seed).items():
                args[name].array()[...] = contents
            assert agrees(k, p, row, seed, args=args, scalars=entry["scalars"]) or entry.get("free"), row
