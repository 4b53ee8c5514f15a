# ruff: noqa: E501
"""Lint finds what an author cannot have meant, where it stands, and nothing in the shipped rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from eqkir.authoring.lint import lint
from eqkir.authoring.templates import TEMPLATES, new
from eqkir.base.diagnostics import EqkirError

HEAD = "; name: t\n; family: t\n"
CASES: dict[str, tuple[str, str, str]] = {
    "unused": ('; a => b\n(rule ((= v (Un "abs" a)) (= d (dty a))) ((union v (Un "abs" (Un "abs" a)))) :name "t")', "EQK-LNT-UNUSED", "d is"),
    "unused let": ('; a => b\n(rule ((= v (Un "abs" a))) ((let w (Un "neg" a)) (union v (Un "abs" v))) :name "t")', "EQK-LNT-UNUSED", "w is"),
    "shadow": ('; a => b\n(rule ((= plan (Un "abs" a))) ((union plan (Un "abs" plan))) :name "t")', "EQK-LNT-SHADOW", "relation"),
    "no such operation": ('; a => b\n(rule ((= v (Un "cosh" a))) ((union v (Un "exp" a))) :name "t")', "EQK-LNT-EXISTS", "cosh"),
    "no such operation made": ('; a => b\n(rule ((= v (Un "exp" a))) ((union v (Un "fastexp" a))) :name "t")', "EQK-LNT-EXISTS", "fastexp"),
    "no such dtype": ('; a => b\n(rule ((= v (Cast "f33" a))) ((union v (Cast "f32" a))) :name "t")', "EQK-LNT-EXISTS", "f33"),
    "constant in another spelling": (
        '; a => b\n(rule ((= v (Bin "add" a z)) (= z (Const "0" "f32")) (= x (flab a))) ((union v a)) :name "t")', "EQK-LNT-EXISTS", '"0.0"',
    ),
    "grows": ('; a => b\n(rule ((= s (Seg m t b))) ((union s (Seg m (TRev t) b))) :name "t")', "EQK-LNT-GROWS", "Seg"),
    "grows inside": ('; a => b\n(rule ((= v (Un "abs" a))) ((union v (Un "abs" (Un "abs" a)))) :name "t")', "EQK-LNT-GROWS", "Un"),
    "grows by numbers": ('(relation n (i64))\n; a => b\n(rule ((n a)) ((n (+ a 1))) :name "t")', "EQK-LNT-GROWS", "n "),
    "covered": (
        '; a => b\n(rule ((= t (TProd a b)) (= a (TAx l))) ((union t (TProd b a))) :name "t")', "EQK-LNT-OVERLAP", "order-swap",
    ),
    "other stage": (
        '; a => b\n(rule ((= f (Here x p k v)) (= v (Const z d))) ((union f (FReady 0 (FConst z d)))) :name "t")', "EQK-LNT-CONTEXT", "stage k",
    ),
    "other position": (
        '; a => b\n(rule ((= f (Here x p k v)) (= v (Un o a))) ((union f (FUn x (Top) o (Want x p k a)))) :name "t")', "EQK-LNT-CONTEXT", "Top",
    ),
    "other request": (
        '; a => b\n(rule ((= f (Here x p k v)) (= v (Cast d a))) ((union f (Want x p 0 v))) :name "t")', "EQK-LNT-CONTEXT", "another",
    ),
    "other context": (
        '; a => b\n(rule ((= f (FLoad x p b n i "ptr" w z d)) (VEC u)) ((union f (FLoad u p b n i "ptr" w z d))) :name "t")',
        "EQK-LNT-CONTEXT", "context",
    ),
    "not ready": (
        '; a => b\n(rule ((= f (Here x p k v)) (= v (Red o c a)) (binds v x c l y) (ends v q))'
        '((union f (FRedLoop y (In p c l q) o "tree" (Want y (In p c l q) q a)))) :name "t")', "EQK-LNT-READY", "FReady",
    ),
    "axes": ('; a => b\n(rule ((= v (Bin "mul" a b)) (= b (Un "exp" c))) ((union v a)) :name "t")', "EQK-LNT-AXES", "c may"),
    "binder": ('; a => b\n(rule ((= v (Red o c a)) (slices c g h)) ((union v (Red o h a))) :name "t")', "EQK-LNT-BINDER", "binds h"),
    "no comment": ('(rule ((= v (Un "neg" u)) (= u (Un "neg" a))) ((union v a)) :name "t")', "EQK-LNT-COMMENT", "before"),
    "condition in an action": ('; a => b\n(rule ((= t (TProd a b))) ((!= a b) (union t t)) :name "t")', "EQK-RUL-003", "!="),
    "sorts": ('; a => b\n(rule ((= v (Un "neg" a)) (= a (TUnit))) ((union v v)) :name "t")', "EQK-RUL-008", "elsewhere"),
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(k for k in CASES if CASES[k][1]))
def test_a_fault_is_found_in_its_line(what: str, tmp_path: Path) -> None:
    text, code, part = CASES[what]
    path = tmp_path / "t.egg"
    path.write_text(HEAD + text)
    found = [x for x in lint([path]) if x.code == code]
    assert found and part in found[0].message, lint([path])
    last = (HEAD + text).splitlines()[found[0].line - 1]
    assert found[0].line >= 3 and 1 <= found[0].column <= len(last) and found[0].file == "t.egg"


def test_shipped_rules_have_no_findings() -> None:
    assert [str(x) for x in lint()] == []


@pytest.mark.parametrize("kind", sorted(TEMPLATES))
def test_a_template_lints_clean_and_is_never_written_over_a_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.egg"
    new(path, kind)
    assert [str(x) for x in lint([path])] == []
    with pytest.raises(EqkirError) as e:
        new(path, kind)
    assert e.value.diagnostics[0].code == "EQK-RUL-012"


def test_every_fault_of_a_refused_file_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "t.egg"
    path.write_text(HEAD + '; a => b\n(rule ((= v (Bni "add" a b)) (plan g)) ((union v w)) :name "t")')
    found = lint([path])
    assert {x.code for x in found} == {"EQK-RUL-008"} and len(found) >= 3
    assert len({(x.line, x.column) for x in found}) == len(found)
