"""A rule file kept outside ``rulesets/`` that builds a new structure reaches emitted, verified code without a line of Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.driver import numeric
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.emit.triton import emit
from eqkir.emit.triton.checks import Case, interpret_batch
from eqkir.kir.envelope import compare
from eqkir.kir.memory import clone
from eqkir.program.model import Program
from eqkir.program.verify import verify
from tests.matrix.cells import TARGET, Subject
from tests.matrix.provider import arrays
from tests.matrix.stretch import stretched

FOREIGN = Path(__file__).parent.parent / "rules" / "foreign" / "interleave.egg"
pytestmark = pytest.mark.interpreter
MORE = ("gemm_bias_gelu_bf16", "transpose_add_f32")


def interleaved(program: Program) -> bool:
    return any("TRev" in str(s.order) and "TInter" in str(s.order) for s in program.segments)


def sampled(subject: Subject, rules: tuple[str, ...], tries: int = 40) -> Program | None:
    """The first random choice of the product that traverses an axis backwards, evens first."""
    first: Chain | None = None
    for seed in range(tries):
        chain = Chain(subject.kernel, Options(target=TARGET, rules=rules, extractor="random", seed=seed), Outcome(subject.name, ""))
        if first is None:
            first = chain
        chain.saturated = first.saturated
        try:
            program = chain.program
        except EqkirError:
            continue
        if interleaved(program):
            return program
    return None


@pytest.mark.parametrize("name", ["softmax_f32", "sum_middle_f32", *(pytest.param(k, marks=pytest.mark.slow) for k in MORE)])
def test_a_structure_from_outside_reaches_emitted_verified_code(name: str) -> None:
    subject = Subject(name)
    program = sampled(subject, (str(FOREIGN),))
    assert program is not None, "no sample uses the new order"
    assert not verify(program)
    artifact = emit(program)
    cases = [c for c in [*subject.cases()[:12], *stretched(subject.kernel, program)[:2]] if subject.case(c) is not None]
    run = numeric.interpreter(program)
    launches, expected = [], []
    for c in cases:
        args, envelopes = subject.case(c) or ({}, {})
        got = run(clone(args), dict(c.symbols))
        assert compare(envelopes, {k: got[k] for k in envelopes}).ok, f"program interpreter, {c}"
        launches.append(Case(*arrays(args)))
        expected.append(envelopes)
    (outcomes,) = interpret_batch([(artifact, launches)])
    for c, o, envelopes in zip(cases, outcomes, expected, strict=True):
        assert not o.error, f"{c}: {o.error}"
        verdict = compare(envelopes, {k: o.arrays[k] for k in envelopes})
        assert verdict.ok, f"{c}: {verdict.first}"


def test_without_the_file_the_structure_does_not_exist() -> None:
    subject = Subject("softmax_f32")
    ops = {n.op for ns in subject.base.saturated.graph.classes for n in ns}
    assert not ops & {"TRev", "TInter"}
    assert sampled(subject, (), tries=6) is None
