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
from tests.fuzz import cells, coverage, kernels, report
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


def test_impossible_cells_are_documented_with_their_reasons() -> None:
    assert cells.table() in (Path(__file__).parents[2] / "docs" / "fuzzing.md").read_text()
    assert cells.impossible() and all(why for why in (*cells.IMPOSSIBLE.values(), *cells.NEVER.values()))
    assert not {f for _, f in cells.every()} & set(cells.NEVER)


def test_every_operation_has_cells_that_a_run_is_to_meet() -> None:
    assert {x for x, _ in cells.possible()} == set(cells.labels()) - {"scatter_reduce mul"}
    assert {x.split(" ")[-1] if x.endswith(("contract", " scan")) else x.split(" ")[0] for x in cells.labels()} == set(OPERATIONS)


def test_every_operation_drawn_is_a_name_of_the_table() -> None:
    for index in range(0, len(kernels.foci()), 7):
        module, _ = kernels.case(SEED, index)
        assert coverage.operations(module.kernels[0]) <= set(cells.labels())


@pytest.mark.parametrize(
    ("focus", "name"),
    [
        ("function: lgamma", "unary lgamma"), ("cast: u16", "cast to u16"), ("scatter_reduce: xor", "scatter_reduce xor"),
        ("atomic_own: load", "atomic_load"), ("scaled_contract: e2m1 by e4m3", "e2m1 by e4m3 scaled_contract"),
    ],
)  # fmt: skip
def test_a_focus_is_drawn_with_what_it_is_asked_for(focus: str, name: str) -> None:
    module = kernels.draw(random.Random(f"{SEED}/{focus}"), (focus,))
    assert name in coverage.operations(module.kernels[0])


def test_a_run_fails_that_meets_an_impossible_cell() -> None:
    s = report.summary([Result(0, cells={"p0": [("sparse_contract two_of_four", "ConWhole mma")]})], 0, 1.0)
    assert not s["ok"] and s["impossible"] == ["sparse_contract two_of_four as ConWhole mma"]
    assert "impossible" in report.text(s)


def test_summary_counts_cells_by_engine() -> None:
    r = Result(0, cells={"p0": [("reduce sum", "RedLoop tree elements")], "chosen": [("reduce sum", "RedTree")]}, operations=["reduce sum"])
    bad = Result(1)
    bad.fail("wrong", "p0", "off by one")
    s = report.summary([r, bad], 0, 1.0)
    assert not s["ok"] and s["cells"] == len(cells.possible()) and s["failures"][0]["index"] == 1
    assert {(x["form"], x["p0"], x["chosen"], x["hits"]) for x in s["table"] if x["hits"]} == {
        ("RedLoop tree elements", 1, 0, 1), ("RedTree", 0, 1, 1),
    }  # fmt: skip
    assert "off by one" in report.text(s)
