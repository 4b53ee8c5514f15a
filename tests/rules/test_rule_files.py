"""Rule files are data: a header, named rules, and a diagnosis for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.rules.load import PERMISSIONS, load_rules, parse
from eqkir.rules.saturate import Limits, saturate
from tests.terms.samples import SAMPLES

HEAD = "; name: t\n; family: own\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (HEAD + "(rule (", "EQK-RUL-002"),
        (HEAD + "(rule ()))", "EQK-RUL-002"),
        (HEAD + "(" * 300, "EQK-RUL-002"),
        (HEAD + '(rule ((= a "x', "EQK-RUL-002"),
        (HEAD + "stray", "EQK-RUL-002"),
        (HEAD + '(input plan "x.tsv")', "EQK-RUL-003"),
        (HEAD + "(run 5)", "EQK-RUL-003"),
        (HEAD + '(include "/etc/passwd")', "EQK-RUL-003"),
        (HEAD + '(rule ((plan g x)) ((panic "boom")) :name "p")', "EQK-RUL-003"),
        ("(rule ((plan g x)) () :name \"p\")", "EQK-RUL-004"),
        (HEAD + "(rule ((plan g x)) ())", "EQK-RUL-005"),
    ],
)  # fmt: skip
def test_malformed_files_are_diagnosed(text: str, code: str) -> None:
    with pytest.raises(EqkirError) as e:
        parse(text, "t.egg")
    assert e.value.diagnostics[0].code == code
    assert e.value.diagnostics[0].file == "t.egg" and e.value.diagnostics[0].line


def test_every_shipped_rule_has_a_name_and_one_comment() -> None:
    rules = [r for f in load_rules(permit=PERMISSIONS) for r in f.rules if r.family != "facts"]
    assert len({r.name for r in rules}) == len(rules) >= 30
    for r in rules:
        assert "=>" in r.comment, r.name


def test_unknown_family_is_diagnosed() -> None:
    with pytest.raises(EqkirError) as e:
        load_rules(without=["nope"])
    assert e.value.diagnostics[0].code == "EQK-RUL-006"


def write(tmp_path: Path, body: str, family: str = "mine") -> Path:
    p = tmp_path / "mine.egg"
    p.write_text(f"; name: mine\n; family: {family}\n{body}")
    return p


def test_a_rule_that_egglog_refuses_is_diagnosed_with_its_file(tmp_path: Path) -> None:
    p = write(tmp_path, '; a => b\n(rule ((= v (Bni "add" a b))) ((union v a)) :name "typo")')
    with pytest.raises(EqkirError) as e:
        saturate(SAMPLES["softmax"](), rules=[p])
    assert e.value.diagnostics[0].code == "EQK-RUL-008" and e.value.diagnostics[0].file == "mine.egg"


def test_a_rule_that_explodes_stops_at_a_limit_and_keeps_the_graph(tmp_path: Path) -> None:
    p = write(tmp_path, '; t => rev t\n(rule ((= s (Seg m t b))) ((union s (Seg m (TRev t) b))) :name "grow")')
    s = saturate(SAMPLES["softmax"](), rules=[p], limits=Limits(enodes=600))
    assert s.report.stop in ("enodes", "iterations") and s.report.reproducible
    assert s.graph.enodes > s.report.initial_enodes


def test_one_endless_iteration_is_killed_and_p0_survives(tmp_path: Path) -> None:
    # a product over five copies of a growing relation: far too much for one iteration
    body = "(relation big (i64))\n; seed => more\n"
    body += '(rule ((plan g x)) ((big 0)) :name "seed")\n'
    body += '(rule ((big a) (< a 4000)) ((big (+ a 1))) :ruleset facts :name "count")\n'
    body += '(rule ((big a) (big b) (big c) (< (+ a (+ b c)) 0)) ((big -1)) :name "join")'
    s = saturate(SAMPLES["softmax"](), rules=[write(tmp_path, body)], limits=Limits(seconds=1.0))
    assert s.report.stop in ("seconds", "memory", "killed") and not s.report.reproducible
    assert s.graph.enodes >= s.report.initial_enodes > 0


@pytest.mark.parametrize("family", ["regroup", "own", "realize", "access", "algebra"])
def test_any_family_may_be_left_out(family: str) -> None:
    full = saturate(SAMPLES["gemm"]()).graph.enodes
    assert saturate(SAMPLES["gemm"](), without=[family]).graph.enodes < full


def test_a_family_that_ends_in_an_error_is_left_out_and_named(tmp_path: Path) -> None:
    p = write(tmp_path, '(relation foo (i64))\n; a => nothing\n(rule ((= v (Bin o a b))) ((foo (/ 1 0))) :name "divide")')
    s = saturate(SAMPLES["softmax"](), rules=[p])
    assert s.report.stop == "error" and s.report.reproducible and "family mine" in s.report.message
    assert s.graph == saturate(SAMPLES["softmax"]()).graph, "the other families do all they can"


@pytest.mark.parametrize(
    ("body", "family", "code"),
    [
        ("", "plan", "EQK-RUL-004"),
        ("", "bad family)(run 5)", "EQK-RUL-004"),
        ('(rule ((plan g x)) ((plan g x)) :ruleset place :name "p")', "mine", "EQK-RUL-004"),
        ('(rule ((= v (Un o a))) ((delete (Un o a))) :name "p")', "mine", "EQK-RUL-003"),
        ("; permissions: bogus", "mine", "EQK-RUL-007"),
        ("; permissions: relaxed_normalization", "mine", "EQK-RUL-007"),
    ],
)
def test_names_actions_and_permissions_are_checked(tmp_path: Path, body: str, family: str, code: str) -> None:
    with pytest.raises(EqkirError) as e:
        load_rules([write(tmp_path, body, family)])
    assert e.value.diagnostics[0].code == code


def test_a_pipe_and_an_empty_folder_are_diagnosed(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "f.egg")
    for p in (tmp_path / "f.egg", tmp_path / "none"):
        (tmp_path / "none").mkdir(exist_ok=True)
        with pytest.raises(EqkirError) as e:
            load_rules([p])
        assert e.value.diagnostics[0].code == "EQK-RUL-001"
