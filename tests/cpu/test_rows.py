"""Binding rows of the CPU family: five shared bindings, each parameter with one owner, sets of implementations of distinct kinds."""

from __future__ import annotations

from typing import Any

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.extract.cpu_rows import SHARED, cpu_rows, implementation_set, shared_values
from eqkir.targets import CpuTarget, load_target, row_templates

from ..terms import samples

ROW: dict[str, Any] = {
    "name": "r",
    "grain": [1],
    "outer": [{"M": 1, "N": "4v"}],
    "K": [4, "1v"],
    "scan": [8],
    "implementations": ["reduce_loop"],
}


def machine(name: str = "mojo:x86-64-v4") -> CpuTarget:
    t = load_target(name)
    assert isinstance(t, CpuTarget)
    return t


@pytest.mark.parametrize("name", ["softmax", "gemm", "two", "argmax", "in_place"])
def test_every_parameter_has_a_value_in_every_row(name: str) -> None:
    a = getattr(samples, name)()
    rows = cpu_rows(a, machine())
    assert 1 <= len(rows) <= 48 and rows == cpu_rows(a, machine())
    for r in rows:
        assert {k for k in r.values if k[0] == "B"} == {f"B:{x.name}" for x in a.axes if x.kind == "own"}
        assert r.launch["grain"] >= 1 and r.implementations


def test_a_row_gives_each_shared_binding_once() -> None:
    found = list(shared_values(ROW, machine()))
    assert found == [{"grain": 1, "M": 1, "N": 64, "K": k, "scan": 8} for k in (4, 16)] and set(found[0]) == set(SHARED)
    for broken in ({"N": [16]}, {"outer": [{"M": 1}]}, {"outer": [{"M": 1, "N": 4, "P": 2}]}):
        with pytest.raises(EqkirError, match="EQK-EXTRACT-ROW"):
            list(shared_values({**ROW, **broken}, machine()))


def test_vectors_scale_with_the_machine() -> None:
    assert [machine(f"mojo:x86-64-{v}").vectors("4v") for v in ("v3", "v4")] == [32, 64]


def test_a_set_of_implementations_has_one_member_of_a_kind() -> None:
    assert implementation_set(ROW) == ("reduce_loop",)
    with pytest.raises(EqkirError, match="EQK-EXTRACT-ROW"):
        implementation_set({**ROW, "implementations": ["no_such_thing"]})
    for t in row_templates(machine().rows)["rows"]:
        assert implementation_set(t)


def test_two_members_of_one_kind_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from eqkir.cpu.implementations import Declaration, declarations
    from eqkir.extract import cpu_rows as module

    known = declarations()
    other = Declaration("other", known["reduce_loop"].kind, ("RedLoop",), "exact")
    monkeypatch.setattr(module, "declarations", lambda: {**known, "other": other})
    with pytest.raises(EqkirError, match="one kind"):
        implementation_set({**ROW, "implementations": ["reduce_loop", "other"]})
