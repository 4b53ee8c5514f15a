"""Random legal kernels: the reference, the conservative program, candidates and emitted code agree; every operation is drawn and run."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eqkir.base.diagnostics import EqkirError
from eqkir.kir import dumps, load_bytes
from eqkir.kir.model import OPERATIONS
from tests.fuzz import coverage, kernels, report
from tests.fuzz.case import Result, check, run_case
from tests.fuzz.shrink import legal, shrink, smaller, stripped, swept

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
SEED, CASES = 20, 24


@pytest.mark.interpreter
@pytest.mark.parametrize("index", range(CASES))
def test_random_kernels_agree_with_the_reference(index: int) -> None:
    r = run_case(SEED, 2 * index, index % 3 == 0)
    assert r.good, f"{r.status} at {r.stage} {r.code}: {r.message}\n{r.json}"


@pytest.mark.interpreter
@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda p: p.stem)
def test_shrunk_failures_stay_mended(path: Path) -> None:
    data = json.loads(path.read_text())
    r = check(json.dumps(data["module"]), data["seed"], True)
    if not r.good and "open" in data:
        pytest.xfail(f"{data['open']}: {r.message}")
    assert r.good, f"{r.status} at {r.stage} {r.code}: {r.message}"
    assert r.status == data.get("now", "ok")


def test_every_operation_is_drawn() -> None:
    drawn: set[str] = set()
    for index in range(6 * len(kernels.names())):
        module, _ = kernels.case(SEED, index)
        drawn |= {op.op for k in module.kernels for op in coverage.every(k)} | {op.op for h in module.helpers for op in h.body}
        if drawn >= set(OPERATIONS):
            break
    assert drawn >= set(OPERATIONS), sorted(set(OPERATIONS) - drawn)


def test_a_case_depends_on_its_seed_and_number_alone() -> None:
    first, again, other = (dumps(kernels.case(s, 5)[0]) for s in (SEED, SEED, SEED + 1))
    assert first == again != other


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_drawn_kernels_are_legal_and_read_back(rng: random.Random) -> None:
    try:
        module = kernels.draw(rng, size=3)
    except EqkirError:
        return
    assert dumps(load_bytes(dumps(module).encode())) == dumps(module)


def test_shrinking_keeps_the_failure_and_loses_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    module = next(m for i in range(400) if _has(m := kernels.case(3, i)[0], "scan") and len(m.kernels[0].body) > 30)

    def fails(text: str, seed: int, emit: bool) -> Result:
        r = Result(0)
        if '"scan"' in text:
            r.fail("wrong", "p0", "it has a scan")
        return r

    monkeypatch.setattr("tests.fuzz.shrink.check", fails)
    text, r = shrink(dumps(module), 0, False, 20.0)
    body = json.loads(text)["kernels"][0]["body"]
    assert r.status == "wrong" and '"scan"' in text and legal(json.loads(text))
    assert len(body) < 15, text


def test_steps_of_shrinking_make_kernels_smaller() -> None:
    m = stripped(json.loads(dumps(kernels.case(3, 1)[0])))
    size = len(json.dumps(m))
    assert all(len(json.dumps(c)) <= size for c in (swept(x) for _, x in zip(range(20), smaller(m), strict=False)))


def _has(m: object, op: str) -> bool:
    return any(o.op == op for k in m.kernels for o in coverage.every(k))  # type: ignore[attr-defined]


def test_summary_counts_cells_by_engine() -> None:
    r = Result(0, cells={"p0": [("reduce sum", "RedLoop tree elements")], "chosen": [("reduce sum", "RedTree")]}, operations=["reduce sum"])
    bad = Result(1)
    bad.fail("wrong", "p0", "off by one")
    s = report.summary([r, bad], 0, 1.0)
    assert not s["ok"] and s["cells"] == 2 and s["failures"][0]["index"] == 1
    assert {(x["form"], x["p0"], x["chosen"]) for x in s["table"]} == {("RedLoop tree elements", 1, 0), ("RedTree", 0, 1)}
    assert "off by one" in report.text(s)
