"""Wrong rules are refuted with counterexamples that replay; right ones are not; vacuous ones are found."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eqkir.authoring.check import Checker, Effort, Result, checked_files
from eqkir.authoring.check_job import Job, run
from eqkir.authoring.conditions import conditions
from eqkir.authoring.prove import prove
from eqkir.authoring.unfold import unfolded
from eqkir.cli.app import app
from eqkir.rules.load import PERMISSIONS, load_rules, signatures

WRONG = sorted((Path(__file__).parents[1] / "rules" / "wrong").glob("*.egg"))
HEAD = "; name: t\n; family: t\n; claim: c\n\n; a => b\n"


def check(path: Path) -> Result:
    files, mine = checked_files([path])
    return Checker(files).check(mine[0], mine[0].rules[-1])


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.stem)
def test_a_wrong_rule_is_refuted(path: Path) -> None:
    got = check(path)
    assert got.verdict == "refuted", got
    assert got.failure is not None and got.subject is not None or "solver" in got.method


def test_there_are_enough_wrong_rules() -> None:
    assert len(WRONG) >= 25


@pytest.mark.parametrize("stem", ["cancel", "order-twice", "off-by-one"])
def test_a_counterexample_replays(stem: str, tmp_path: Path) -> None:
    path = next(p for p in WRONG if p.stem == stem)
    (row,) = run(Job((str(path),), f"wrong-{stem}", (), str(tmp_path), False, proofs=False))
    assert row["verdict"] == "refuted" and row["counterexample"]
    folder = tmp_path / f"wrong-{stem}"
    about = json.loads((folder / "failure.json").read_text())
    words = ["run", str(folder / "kernel.json"), "--engine", "program", "--program", str(folder / "program.json")]
    words += ["--inputs", str(folder / "inputs.npz"), "--shape", ",".join(f"{k}={v}" for k, v in about["symbols"].items())]
    got = CliRunner().invoke(app, words)
    assert got.exit_code == 1 and ("WRONG" in got.output or about["kind"] == "unverified" or got.exception), got.output
    assert len(json.loads((folder / "kernel.json").read_text())["kernels"][0]["body"]) <= 14, "the kernel is made small"


@pytest.mark.parametrize(
    "query",
    [
        '(= v (Un "neg" a)) (= d (dty a)) (= d "f32") (= d "f16")',
        '(= v (Un "neg" a)) (= x (flab a)) (set-contains x "i0") (set-not-contains x "i0")',
        '(= v (Un "neg" a)) (hasd a k) (< k 3) (< 5 k)',
        '(= v (Un "neg" a)) (= x (flab a)) (= x (set-empty)) (set-contains x "i0")',
        '(= v (Un "neg" a)) (!= a a)',
    ],
)
def test_a_rule_whose_conditions_contradict_is_vacuous(query: str, tmp_path: Path) -> None:
    path = tmp_path / "t.egg"
    path.write_text(HEAD + f'(rule ({query}) ((union v (Un "neg" (Un "abs" a)))) :name "t")')
    assert check(path).verdict == "vacuous"


@cache
def proved() -> frozenset[str]:
    files = load_rules(permit=PERMISSIONS)
    known = signatures(files)
    return frozenset(r.name for f in files for r in f.rules if r.family != "facts" and (p := prove(r, f, files, known)) and p.holds)


def test_shipped_rules_that_a_solver_can_decide_are_proved() -> None:
    assert len(proved()) >= 25
    assert {"fms", "narrow-widen", "select-load", "reduce-interchange", "order-band", "slice-load", "slice-contract"} <= proved()


def test_no_shipped_rule_is_disproved() -> None:
    files = load_rules(permit=PERMISSIONS)
    known = signatures(files)
    bad = [(r.name, p) for f in files for r in f.rules if r.family != "facts" and (p := prove(r, f, files, known)) and not p.holds]
    assert bad == []


@pytest.mark.parametrize("name", ["fms", "sum-of-products", "contract-accumulate", "reduce-lanes", "merge-groups", "load-wide"])
def test_a_shipped_rule_stands_trial(name: str) -> None:
    files = load_rules(permit=PERMISSIONS)
    c = Checker(files, effort=Effort(kernels=2, candidates=3, draws=4))
    file, rule = next((f, r) for f in files for r in f.rules if r.name == name)
    got = c.check(file, rule, proofs=False)
    assert got.verdict == "tested" and got.candidates >= 1 and got.comparisons >= 4, got


@pytest.mark.slow
@pytest.mark.parametrize("name", [r.name for f in load_rules(permit=PERMISSIONS) for r in f.rules if r.family != "facts"])
def test_every_shipped_rule_is_proved_or_tested(name: str) -> None:
    files = load_rules(permit=PERMISSIONS)
    corpus = sorted((Path(__file__).parents[2] / "corpus" / "json").glob("*.json"), key=lambda p: (p.stat().st_size, p.name))
    file, rule = next((f, r) for f in files for r in f.rules if r.name == name)
    got = Checker(files, corpus).check(file, rule)
    assert got.verdict in ("proved", "tested"), got


def test_a_left_hand_side_that_is_a_relation_is_opened() -> None:
    files = load_rules(permit=PERMISSIONS)
    rule = next(r for f in files for r in f.rules if r.name == "fma")
    both = unfolded(rule, files)
    assert [r.text.count("(consumer1 m v)") for r in both] == [1, 1] and "joins" not in both[0].text
    assert '(Bin "add" m c)' in both[0].text and '(Bin "add" c m)' in both[1].text, "once for each definition"
    plain = next(r for f in files for r in f.rules if r.name == "narrow-widen")
    assert unfolded(plain, files) == [plain]


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        ("fms", "(contracts d)"), ("contract-accumulate", "(= fy (set-intersect fy fg))"), ("scan-whole", "(lab c l)"),
        ("pull-guarded-narrow", "(set-not-contains fr c)"), ("slice-contract", "(!= c x)"), ("approximate-exp2", "(approximates o)"),
        ("contract-whole-matrix", "(matrix y c a b)"),
    ],
)  # fmt: skip
def test_a_rule_less_a_condition_is_refuted(name: str, condition: str) -> None:
    files = load_rules(permit=PERMISSIONS)
    file, rule = next((f, r) for f in files for r in f.rules if r.name == name)
    (got,) = [v for v in conditions(Checker(files), file, rule) if v.mutant.condition == condition]
    assert got.verdict == "refuted" and got.result is not None and got.result.subject is not None, got
