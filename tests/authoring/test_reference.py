"""The vocabulary in docs/rules.md is that of the code."""

from __future__ import annotations

from eqkir.authoring.reference import BEGIN, reference
from eqkir.base.diagnostics import CODES
from tools.vocabulary import PAGE, written


def test_the_page_holds_the_vocabulary_as_it_is() -> None:
    text = PAGE.read_text()
    assert text.count(BEGIN) == 1
    assert written(text) == text, "python -m tools.vocabulary"


def test_every_relation_and_constructor_is_listed() -> None:
    from eqkir.rules.signatures import vocabulary_signatures

    text = reference()
    assert [n for n in vocabulary_signatures() if f"`{n}`" not in text and f"({n}" not in text] == []


def test_every_code_of_rules_is_explained_on_the_page() -> None:
    import eqkir.authoring.lint
    import eqkir.authoring.templates  # noqa: F401

    text = PAGE.read_text()
    assert [c for c in CODES if c.startswith(("EQK-RUL-", "EQK-LNT-", "EQK-CHK-")) and c not in text] == []
