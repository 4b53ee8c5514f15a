"""Binding rows of the CPU family: five shared bindings, each parameter with one owner, sets of implementations of distinct kinds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.cli.optimize import options
from eqkir.driver.chain import Chain
from eqkir.driver.outcome import Outcome
from eqkir.extract.cpu_rows import SHARED, checked, cpu_rows, implementation_set, local_values, owner_of, shared_values
from eqkir.extract.extents import Extents
from eqkir.extract.roles import axis_roles
from eqkir.targets import CpuTarget, load_target, row_templates

from ..terms import samples
from .test_tasks import chain_of

ROW: dict[str, Any] = {
    "name": "r",
    "grain": [1],
    "outer": [{"M": 1, "N": "4v"}],
    "K": [4, "1v"],
    "scan": [8],
    "implementations": ["reduce_loop"],
}
LOCAL: dict[str, Any] = {**ROW, "implementations": ["reduce_loop", "contract_loop"], "local": {"contract_loop.replicas": [1, 2]}}


def machine(name: str = "mojo:x86-64-v4") -> CpuTarget:
    t = load_target(name)
    assert isinstance(t, CpuTarget)
    return t


@pytest.mark.parametrize("name", ["softmax", "gemm", "two", "argmax", "in_place"])
def test_every_parameter_has_a_value_in_every_row(name: str) -> None:
    a = getattr(samples, name)()
    rows = cpu_rows(a, machine())
    assert 1 <= len(rows) <= row_templates(machine().rows)["limit"] and rows == cpu_rows(a, machine())
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


@pytest.mark.parametrize("name", ["softmax", "gemm", "two", "argmax", "in_place"])
def test_every_parameter_has_one_owner(name: str) -> None:
    a = getattr(samples, name)()
    roles = axis_roles(a, Extents(a.abi, {}))
    for r in cpu_rows(a, machine()):
        owners = {p: owner_of(p, a, roles) for p in r.values}
        assert set(owners.values()) <= {*SHARED, "extent", "family"} - {"grain"} and "grain" in r.launch
        assert all((o == "family") == (p[0] in "GP") for p, o in owners.items())


def test_values_of_the_five_change_what_they_own_alone() -> None:
    """Two rows that differ in one binding differ in the parameters that it owns."""
    a = samples.gemm()
    roles = axis_roles(a, Extents(a.abi, {}))
    rows = [r for r in cpu_rows(a, machine()) if r.template == "matrix"]
    for x, y in zip(rows, rows[1:], strict=False):
        changed = {owner_of(p, a, roles) for p in x.values if x.values[p] != y.values[p]}
        assert changed <= set(SHARED)


def test_local_parameters_that_rows_own_are_bound_within_their_domain() -> None:
    assert list(local_values(LOCAL)) == [(("contract_loop.replicas", 1),), (("contract_loop.replicas", 2),)]
    assert list(local_values(ROW)) == [()]
    values = {dict(r.options)["contract_loop.replicas"] for r in cpu_rows(samples.gemm(), machine()) if r.template == "matrix"}
    assert values == {1}


@pytest.mark.parametrize(
    "local, says",
    [
        ({}, "no owner of"),
        ({"contract_loop.replicas": 3}, "= 3"),
        ({"contract_loop.replicas": []}, r"= \[\]"),
        ({"contract_loop.replicas": True}, "= True"),
        ({"contract_loop.replicas": 1, "N": 16}, "two owners of N"),
        ({"contract_loop.replicas": 1, "contract_panels.replicas": 1}, "no local parameter of the set"),
    ],
)
def test_a_local_binding_without_one_owner_is_refused(local: dict[str, Any], says: str) -> None:
    with pytest.raises(EqkirError, match=f"EQK-EXTRACT-ROW.*{says}"):
        list(local_values({**LOCAL, "local": local}))


def test_what_an_implementation_chooses_itself_is_bound_by_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    from eqkir.cpu.implementations import Declaration, Parameter, declarations
    from eqkir.extract import cpu_rows as module

    own = Declaration("own", "a kind", ("RedLoop",), "exact", parameters=(Parameter("depth", (1, 2), "implementation"),))
    monkeypatch.setattr(module, "declarations", lambda: {**declarations(), "own": own})
    assert list(local_values({**ROW, "implementations": ["own"]})) == [()]
    with pytest.raises(EqkirError, match="two owners of own.depth"):
        list(local_values({**ROW, "implementations": ["own"], "local": {"own.depth": 1}}))


@pytest.mark.parametrize(
    "change",
    [
        {"K": [0]},
        {"K": [-4]},
        {"K": ["0v"]},
        {"K": [1.5]},
        {"K": [True]},
        {"K": ["v"]},
        {"K": []},
        {"outer": []},
        {"M": 3},
        {"priority": 1},
    ],
)
def test_rows_have_positive_values_and_are_never_empty(change: dict[str, Any]) -> None:
    assert checked({"limit": 4, "rows": [ROW]}, machine())
    with pytest.raises(EqkirError, match="EQK-EXTRACT-ROW"):
        checked({"limit": 4, "rows": [{**ROW, **change}]}, machine())


@pytest.mark.parametrize(
    "data", [{"limit": 0, "rows": [ROW]}, {"rows": [ROW]}, {"limit": 4, "rows": []}, {"limit": 4}, {"limit": 4, "rows": [3]}]
)
def test_a_file_without_rows_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(EqkirError, match="EQK-EXTRACT-ROW"):
        checked(data, machine())


def test_a_program_that_no_template_fits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from eqkir.extract import cpu_rows as module

    monkeypatch.setattr(module, "row_templates", lambda _: {"limit": 4, "rows": [{**ROW, "needs": ["matrix"]}]})
    with pytest.raises(EqkirError, match="no template fits"):
        cpu_rows(samples.softmax(), machine())


def test_a_file_of_the_user_replaces_the_rows_of_the_family(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    names = next(t["implementations"] for t in row_templates(machine().rows)["rows"] if t["name"] == "rows")
    mine = {
        **ROW,
        "name": "mine",
        "outer": [{"M": 2, "N": "1v"}],
        "K": [4],
        "implementations": names,
        "local": {"contract_loop.replicas": 1},
    }
    file.write_text(json.dumps({"limit": 1, "rows": [mine]}))
    o = options(target="mojo:x86-64-v4", shapes={}, rows=file)
    c = Chain(chain_of("softmax_f32").kernel, o, Outcome("softmax_f32", ""))
    assert c.choice.rows == 1 and c.choice.row is not None and c.choice.row.template == "mine"
    other = Chain(c.kernel, replace(o, rows=""), Outcome("softmax_f32", ""))
    assert c.rule_digests != other.rule_digests and c.options.to_json() != other.options.to_json()


@pytest.mark.parametrize("text", ["{", "[]", '{"limit": 1, "limit": 2, "rows": []}', '{"rows": [{"K": [1], "K": [2]}]}'])
def test_files_that_are_no_rows_or_bind_twice_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text(text)
    with pytest.raises(EqkirError, match="EQK-TARGET-ROWS"):
        options(target="mojo:x86-64-v4", shapes={}, rows=file)
    with pytest.raises(EqkirError, match="EQK-RUN-USAGE"):
        options(target="triton:nvidia-h200", shapes={}, rows=file)
