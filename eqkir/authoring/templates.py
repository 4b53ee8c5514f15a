# ruff: noqa: E501
"""What `eqkir rules new` writes: a file that lints clean and says where the author goes on."""

from __future__ import annotations

from pathlib import Path

from eqkir.base.diagnostics import Diagnostic, EqkirError, fail, register
from eqkir.driver import codes
from eqkir.rules.load import parse

E_NEW = register("EQK-RUL-012", "file that exists", "`eqkir rules new` writes new files alone.")

_HEAD = """; name: {name}
; family: {name}
; version: 1
; permissions: none
; claim: {claim}

"""
TEMPLATES = {
    "algebra": (
        "an exact identity of values: both sides have the same bits for every value, NaN and signed zeros included",
        """; -(-x) => x   exact: negation flips the sign bit alone
(rule ((= v (Un "neg" u)) (= u (Un "neg" a)))
      ((union v a)) :name "{name}-negation")
""",
    ),
    "realize": (
        "one more realisation of a structured operation; it combines the same members",
        """; (Here x p k v): v is wanted in context x at position p, stage k.  (binds v x c l y): v may traverse its axis c by label l, in context y.
; sum of products over a loop => each step multiplies and adds   the product is rounded with the sum, for which the sum is its sole reader
(rule ((= f (Here x p k v)) (= v (Red "sum" c m)) (= m (Bin "mul" a b)) (consumer1 m v) (= d (dty m)) (= d "f32")
       (binds v x c l y) (looped l) (ends v q) (< q k) (= fa (flab a)) (= fb (flab b)) (set-contains fa c) (set-contains fb c))
      ((union f (FReady k (FConLoop (set-intersect y (set-union fa fb)) (In p c l q) "fma" d (Want y (In p c l q) q a) (Want y (In p c l q) q b)))))
      :name "{name}-loop")
""",
    ),
    "regroup": (
        "one more order of the same instances; which program id runs an instance is unobservable",
        """; an order of two axes => the blocks of the first one last to first
(rule ((= t (TProd a b)) (= a (TAx l)))
      ((union t (TProd (TRev a) b))) :name "{name}-order")
""",
    ),
}


def new(path: Path, kind: str) -> str:
    """Write a rule file of a kind and return its text. Raises EqkirError EQK-RUL-012, EQK-RUN-USAGE."""
    if kind not in TEMPLATES:
        raise fail(codes.USAGE, f"no template {kind!r}", accepted=", ".join(TEMPLATES), stage="options")
    if path.exists():
        raise EqkirError(Diagnostic(E_NEW, "the file exists", file=str(path), stage="options"))
    claim, body = TEMPLATES[kind]
    text = _HEAD.format(name=path.stem, claim=claim) + body.format(name=path.stem)
    parse(text, path.name)
    path.write_text(text)
    return text
