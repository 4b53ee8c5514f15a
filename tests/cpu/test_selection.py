"""The e-graph and the extraction choose who does an operation and in which form its operands come; the expansion does what was chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eqkir.cpu import implementations
from eqkir.cpu.expand import expand
from eqkir.cpu.implementations import Declaration, Operation, definitions, facts, registered
from eqkir.cpu.implementations.reductions import Accumulators
from eqkir.cpu.verify import verify
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.extract import cpu_members, cpu_rows
from eqkir.kir.builder import Builder
from eqkir.kir.model import Kernel
from eqkir.program.model import Item, Let, Loop, Program
from eqkir.program.serialize import dumps, loads
from eqkir.rules.load import load_rules
from eqkir.targets import row_templates

from .programs import operations
from .test_tasks import chain_of, compared

V4 = "mojo:x86-64-v4"


def twice() -> Kernel:
    """Two products with one right operand."""
    k = Builder("twice")
    M, N, K = k.symbols("M", "N", "K")
    A, C, B = k.view("A", "in", "f32", (M, K)), k.view("C", "in", "f32", (M, K)), k.view("B", "in", "f32", (K, N))
    Y, Z = k.view("Y", "out", "f32", (M, N)), k.view("Z", "out", "f32", (M, N))
    k.noalias(A, B, C, Y, Z)
    b = B[:, :]
    Y[:, :] = k.contract(A[:, :], b, [(1, 0)])
    Z[:, :] = k.contract(C[:, :], b, [(1, 0)])
    return k.build()


def widened() -> Kernel:
    """A product with a right operand that is widened first."""
    k = Builder("widened")
    M, N, K = k.symbols("M", "N", "K")
    A, B, Y = k.view("A", "in", "f32", (M, K)), k.view("B", "in", "f16", (K, N)), k.view("Y", "out", "f32", (M, N))
    k.noalias(A, B, Y)
    Y[:, :] = k.contract(A[:, :], B[:, :].cast("f32"), [(1, 0)])
    return k.build()


def chain(kernel: Kernel, **options: Any) -> Chain:
    return Chain(kernel, Options(target=V4, **options), Outcome(kernel.name, ""))


def supplies(p: Program) -> list[Let]:
    def walk(items: tuple[Item, ...]) -> list[Let]:
        out: list[Let] = []
        for x in items:
            out += walk(x.body) if isinstance(x, Loop) else [x] if isinstance(x, Let) and x.op == "Supply" else []
        return out

    return [x for s in p.segments for ph in s.phases for x in walk(ph)]


def test_two_contractions_over_one_operand_pack_it_once() -> None:
    c = chain(twice())
    assert [x.by for x in operations(c.program)] == ["contract_panels"] * 2
    tasks = expand(c.program, 64)
    assert verify(tasks) == [] and len(tasks.resources) == 1 and len(tasks.stages[0]) == 1
    v = compared(c, c.program, tasks)
    assert v.ok, v.mistakes
    panels = {n.attrs for ns in c.saturated.graph.classes for n in ns if n.op == "FSupply" and n.attrs[0] == "panels"}
    assert panels, "the form is a term of the e-graph"


def test_a_cast_is_made_of_what_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    templates = row_templates("mojo-cpu")
    panels = {**templates, "rows": [t for t in templates["rows"] if t["name"] == "panels"]}
    monkeypatch.setattr(cpu_rows, "row_templates", lambda _: panels)
    c = chain(widened())
    assert [x.dtype for x in supplies(c.program)] == ["f16"] and [x.by for x in operations(c.program)] == ["contract_panels"]
    tasks = expand(c.program, 64)
    assert verify(tasks) == [] and [r.dtype for r in tasks.resources] == ["f16"]
    v = compared(c, c.program, tasks)
    assert v.ok, v.mistakes


def test_a_program_says_who_does_what_and_reads_back() -> None:
    c = chain_of("gemm_f32", target=V4)
    assert {x.by for x in operations(c.program)} == {"contract_panels"} and len(supplies(c.program)) == 1
    assert loads(dumps(c.program)) == c.program
    assert all(x.by in c.program.implementations for x in operations(c.program))


@pytest.mark.parametrize("extractor", ["random", "worst"])
def test_every_candidate_says_who_does_what(extractor: str) -> None:
    c = chain_of("softmax_f32", target=V4, extractor=extractor, seed=3)
    ops = operations(c.program)
    assert ops and all(x.by in c.program.implementations for x in ops) and not c.choice.fallback


def test_without_the_family_nothing_is_said_and_the_member_that_applies_is_taken() -> None:
    c = chain_of("softmax_f32", target=V4, without=("implement",))
    assert not c.choice.fallback and not operations(c.program)
    assert verify(expand(c.program, 64)) == []


class Other(Accumulators):
    """A second unit for the same operations, of another kind."""

    declaration = Declaration("other", "another kind", ("RedLoop",), "any tree", slots=0.5)

    def applies(self, o: Operation) -> bool:
        return o.dtype == "f32"


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> None:
    units = (*registered(), Other())
    for module in (implementations, cpu_members):
        monkeypatch.setattr(module, "registered", lambda: units)
    assert "other" in definitions() and any('"other"' in f for f in facts())


def rows_with(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    templates = row_templates("mojo-cpu")
    new = {**templates, "rows": [{**t, "implementations": change(t["implementations"])} for t in templates["rows"]]}
    monkeypatch.setattr(cpu_rows, "row_templates", lambda _: new)


@pytest.mark.usefixtures("other")
def test_a_unit_that_a_row_names_is_taken_where_it_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    rows_with(monkeypatch, lambda names: ["other" if n == "reduce_loop" else n for n in names])
    c = chain_of("softmax_f32", target=V4)
    assert {x.by for x in operations(c.program)} == {"other"}
    tasks = expand(c.program, 64)
    v = compared(c, c.program, tasks)
    assert v.ok, v.mistakes


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize("add, reason", [(["other"], "several implementations"), ([], "no implementation")])
def test_none_or_several_members_reject_the_row(monkeypatch: pytest.MonkeyPatch, add: list[str], reason: str) -> None:
    rows_with(monkeypatch, lambda names: [n for n in names if add or n not in ("reduce_loop", "reduce_fragment")] + add)
    c = chain_of("softmax_f32", target=V4)
    found = c.choice.to_json()
    assert found["illegal"][reason] > 0 and any(reason in n for n in found["unimplemented"])
    assert not any(x.op == "RedLoop" for x in operations(c.program))


def test_gpu_programs_know_nothing_of_implementations() -> None:
    assert all(f.family != "implement" for f in load_rules()) and any(f.family == "implement" for f in load_rules(machine="cpu"))
    c = chain_of("softmax_f32", target="triton:nvidia-h200")
    assert not operations(c.program) and "by" not in dumps(replace(c.program, origins={})).decode().replace("bytes", "")
