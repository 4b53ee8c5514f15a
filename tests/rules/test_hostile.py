"""Rule files from strangers: a coded diagnosis with a position for each, in bounded time and memory, and nothing of them is run."""

from __future__ import annotations

import random
import time
import tracemalloc
from pathlib import Path

import pytest

from eqkir.base.diagnostics import EqkirError
from eqkir.rules.load import PERMISSIONS, load_rules, parse

HEAD = "; name: t\n; family: own\n"
RULE = '(rule ((plan g x)) ({}) :name "p")'
HOSTILE: dict[str, tuple[str, str]] = {
    "deep nesting": (HEAD + "(rule " + "(" * 100_000, "EQK-RUL-002"),
    "deep and closed": (HEAD + "(rule " + "(" * 5_000 + ")" * 5_001, "EQK-RUL-002"),
    "huge string": (HEAD + f'(rule ((= v (Un "{"x" * 100_000}" a))) ((union v a)) :name "p")', "EQK-RUL-002"),
    "huge name": (HEAD + RULE.format("plan " + "g" * 100_000), "EQK-RUL-002"),
    "huge number": (HEAD + f'(rule ((hasd v {"9" * 200})) () :name "p")', "EQK-RUL-002"),
    "string without end": (HEAD + '(rule ((= v (Un "exp', "EQK-RUL-002"),
    "escapes": (HEAD + '(rule ((= v (Un "\\n" a))) ((union v a)) :name "p")', "EQK-RUL-002"),
    "control characters": (HEAD + "(rule ((plan \x00 x)) ())", "EQK-RUL-002"),
    "other letters": (HEAD + "(rule ((plan ɡ x)) ())", "EQK-RUL-002"),
    "many commands": (HEAD + "(relation r ())" * 5_000, "EQK-RUL-002"),
    "file input": (HEAD + '(input plan "/etc/passwd")', "EQK-RUL-003"),
    "file output": (HEAD + '(output "/tmp/x" a)', "EQK-RUL-003"),
    "include": (HEAD + '(include "/etc/passwd")', "EQK-RUL-003"),
    "run": (HEAD + "(run-schedule (saturate (run own)))", "EQK-RUL-003"),
    "function with a merge": (HEAD + "(function f (i64) i64 :merge (+ old new))", "EQK-RUL-003"),
    "sort of Python": (HEAD + "(sort P (PyObject))", "EQK-RUL-003"),
    "push": (HEAD + "(push)", "EQK-RUL-003"),
    "panic": (HEAD + RULE.format('(panic "boom")'), "EQK-RUL-003"),
    "subsume": (HEAD + '(rewrite (Un o a) a :subsume :name "p")', "EQK-RUL-003"),
    "delete": (HEAD + RULE.format("(delete (plan g x))"), "EQK-RUL-003"),
    "extract in an action": (HEAD + RULE.format("(extract g)"), "EQK-RUL-003"),
    "condition in an action": (HEAD + RULE.format('(set-contains x "a")'), "EQK-RUL-003"),
    "strings that grow": (HEAD + '(relation s (String))(rule ((s a)) ((s (+ a a))) :name "p")', "EQK-RUL-008"),
    "unknown primitive": (HEAD + '(rule ((plan g x) (= y (py-eval "1"))) () :name "p")', "EQK-RUL-008"),
    "power": (HEAD + '(relation n (i64))(rule ((n a)) ((n (^ a a))) :name "p")', "EQK-RUL-008"),
    "unbound": (HEAD + RULE.format("(plan h x)"), "EQK-RUL-008"),
    "look-up in an action": (HEAD + '(rule ((= v (Un o a))) ((union v (Const "0.0" (dty a)))) :name "p")', "EQK-RUL-008"),
    "a fact of the source": (HEAD + RULE.format('(unordered "i0")'), "EQK-RUL-009"),
    "a derived fact": (HEAD + '(rule ((= v (Un o a))) ((set (flab v) (set-empty))) :name "p")', "EQK-RUL-009"),
    "no header": (RULE.format(""), "EQK-RUL-004"),
    "header without end": ("; name: t\n; family: own\n; claim: " + "x" * 100_000, "EQK-RUL-004"),
    "ruleset of the vocabulary": (HEAD + '(rule ((plan g x)) ((plan g x)) :ruleset place :name "p")', "EQK-RUL-004"),
    "name with a parenthesis": (HEAD + '(rule ((plan g x)) () :name "a)(b")', "EQK-RUL-005"),
    "relation of the vocabulary": (HEAD + "(relation plan (G L))", "EQK-RUL-011"),
    "relation of another file": (HEAD + "(relation broadcasts (V))", "EQK-RUL-011"),
    "relation with a primitive's name": (HEAD + "(relation set-union (V))", "EQK-RUL-011"),
    "rule of another file": (HEAD + '(rule ((plan g x)) () :name "merge-groups")', "EQK-RUL-005"),
    "removal of nothing": (HEAD + "; removes: nothing-at-all", "EQK-RUL-010"),
}


@pytest.mark.parametrize("what", sorted(HOSTILE))
def test_hostile_text_is_diagnosed_where_it_stands(what: str, tmp_path: Path) -> None:
    text, code = HOSTILE[what]
    path = tmp_path / "t.egg"
    path.write_text(text)
    start = time.thread_time()
    with pytest.raises(EqkirError) as e:
        load_rules([path], permit=PERMISSIONS)
    assert time.thread_time() - start < 10, "shipped files included"
    d = e.value.diagnostics[0]
    assert (d.code, d.file) == (code, "t.egg") and d.line
    assert len(str(d)) < 1000


@pytest.mark.parametrize("seed", range(3))
def test_junk_of_ten_megabytes_is_refused_without_reading_it_whole(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "junk.egg"
    path.write_bytes(random.Random(seed).randbytes(10 << 20))
    load_rules()
    tracemalloc.start()
    with pytest.raises(EqkirError) as e:
        load_rules([path])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert e.value.diagnostics[0].code == "EQK-RUL-001" and peak < 8 << 20


def test_text_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.egg"
    path.write_bytes(HEAD.encode() + b"; caf\xe9\n")
    with pytest.raises(EqkirError) as e:
        load_rules([path])
    assert e.value.diagnostics[0].code == "EQK-RUL-001"


@pytest.mark.parametrize("seed", range(20))
def test_mutated_shipped_files_load_or_are_diagnosed(seed: int) -> None:
    rng = random.Random(seed)
    for f in sorted((Path(__file__).parents[2] / "rulesets").glob("*.egg")):
        text = f.read_text()
        for _ in range(3):
            at, n = rng.randrange(len(text)), rng.randrange(1, 40)
            broken = text[:at] + rng.choice(["", "(", ")", '"', ";", text[at : at + n] * 2, "\x7f"]) + text[at + n :]
            try:
                parse(broken, f.name)
            except EqkirError as e:
                assert e.diagnostics[0].code.startswith("EQK-RUL-") and e.diagnostics[0].line


def test_a_file_removes_rules_and_may_put_others_in_their_place(tmp_path: Path) -> None:
    path = tmp_path / "t.egg"
    head = "; name: t\n; family: access\n; removes: load-keep, load-stream\n"
    path.write_text(head + '; a => b\n(rule ((= f (FReady k g))) () :name "load-keep")')
    names = [r.name for f in load_rules([path]) for r in f.rules]
    assert names.count("load-keep") == 1 and "load-stream" not in names and "load-wide" in names


def test_a_file_with_the_name_of_a_shipped_one_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "x.egg"
    path.write_text("; name: access\n; family: access\n")
    assert not [r for f in load_rules([path]) if f.family == "access" for r in f.rules]


def test_a_rule_package_is_found_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, info = tmp_path / "somerules", tmp_path / "somerules-1.dist-info"
    (package / "sets").mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('this module must not run')\n")
    (package / "sets" / "one.egg").write_text(HEAD + '; a => b\n(rule ((= f (FReady k g))) () :name "packaged")')
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somerules\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[eqkir.rules]\nsome = somerules:sets\nup = somerules:../..\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "packaged" in [r.name for f in load_rules(["some"]) for r in f.rules]
    for name in ("up", "none"):
        with pytest.raises(EqkirError) as e:
            load_rules([name])
        assert e.value.diagnostics[0].code == "EQK-RUL-001"


def test_a_position_is_line_and_column_of_the_author_s_file() -> None:
    with pytest.raises(EqkirError) as e:
        parse(HEAD + '\n(rule ((plan g x))\n      ((delete g)) :name "p")', "t.egg")
    assert str(e.value).startswith("t.egg:5:9: EQK-RUL-003: `delete` is not allowed")
