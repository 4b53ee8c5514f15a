"""Programs as JSON: exact round trip, stable digests, coded diagnosis of anything else."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_samples import argmax, elementwise, gemm, softmax

from eqkir.base.diagnostics import EqkirError
from eqkir.base.expr import Sym, le
from eqkir.program.model import Program, Segment
from eqkir.program.serialize import digest, dumps, from_json, loads, renumbered, to_json

PROGRAMS = [
    elementwise(), elementwise(("TRev", ("TInter", ("TAx", "i:OB"))), "stride", **{"B:i": 16, "P:g0": 3}),
    softmax("LC", "OB", **{"B:r": 8, "C:c": 16}),
    gemm("OB", "LC", ("TSwz", ("TAx", "i:OB"), ("TAx", "j:OB")), **{"B:i": 2}), argmax("W", **{"F:c": 16}), argmax("L1"),
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_round_trip_is_exact(program: Program) -> None:
    p = replace(program, preconditions=(le(Sym("N"), 16),), options={"num_warps": 4}, origins={"0/0/3": "k.py:3"})
    assert from_json(json.loads(json.dumps(to_json(p)))) == p
    assert loads(dumps(p)) == p and dumps(loads(dumps(p))) == dumps(p)


def test_digest_ignores_numbering_and_origins() -> None:
    p = softmax()
    shifted = json.loads(json.dumps(to_json(p)))

    def shift(j: Any) -> Any:
        if isinstance(j, dict):
            ids = {"let", "carry", "value", "valid"}
            lists = {"args", "inits", "deps"}
            return {k: v + 100 if k in ids else [x + 100 for x in v] if k in lists else shift(v) for k, v in j.items()}
        return [shift(x) for x in j] if isinstance(j, list) else j

    q = from_json(shift(shifted))
    assert q != p and digest(q) == digest(p) and renumbered(q) == renumbered(p)
    o = replace(p, origins={"0/0/1": "somewhere"})
    assert digest(o) == digest(p) != digest(o, strip_origins=False)


def test_structure_digest_erases_parameters_only() -> None:
    a, b = softmax("LC", "OB", **{"B:r": 8, "C:c": 16}), softmax("LC", "OB", **{"B:r": 4, "C:c": 16})
    assert digest(a) != digest(b) and digest(a, erase_bindings=True) == digest(b, erase_bindings=True)
    assert digest(a, erase_bindings=True) != digest(softmax("LC", "O1", **{"B:r": 8, "C:c": 16}), erase_bindings=True)


def test_renumbering_moves_origins() -> None:
    p = elementwise()
    items = tuple(p.segments[0].phases[0])
    q = replace(p, segments=(Segment("g0", p.segments[0].order, "grid", (items,)),), origins={"0/0/1": "x", "0/0/3": "y"})
    r = renumbered(q)
    assert sorted(r.origins.values()) == ["x", "y"]


def paths(j: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    out = [at]
    for k, v in j.items() if isinstance(j, dict) else enumerate(j) if isinstance(j, list) else ():
        out += paths(v, (*at, k))
    return out


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_programs_get_a_diagnosis_or_stay_programs(data: st.DataObject) -> None:
    j = copy.deepcopy(to_json(data.draw(st.sampled_from(PROGRAMS))))
    where = data.draw(st.sampled_from(paths(j)[1:]))
    parent = j
    for k in where[:-1]:
        parent = parent[k]
    parent[where[-1]] = data.draw(st.sampled_from([None, -1, 1.5, "junk", [], {}, True, ["sym", 3], [["a"]], {"let": 1}]))
    try:
        p = from_json(j)
    except EqkirError as e:
        assert e.diagnostics[0].code == "EQK-PRG-JSON" and e.diagnostics[0].pointer.startswith("/")
    else:
        assert to_json(p)["program"] == 1


@pytest.mark.parametrize("text", [b"", b"[", b"{}", b"[]", b"null", b'{"program": 2}', b"[" * 100_000, b"\xff"])
def test_junk_gets_a_diagnosis(text: bytes) -> None:
    with pytest.raises(EqkirError) as e:
        loads(text)
    assert e.value.diagnostics[0].code == "EQK-PRG-JSON"
