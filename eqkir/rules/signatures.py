"""What a rule may speak of: the vocabulary's constructors, relations and functions, and the primitives, each with its sorts.

Everything is read from the declarations that egglog gets (`eqkir.terms.prelude`), so there is no second list to keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from eqkir.program.table import ABSTRACT, ROWS
from eqkir.rules.reader import read_nodes

Kind = Literal["constructor", "request", "relation", "function", "primitive"]
#: relations and functions that describe the source: written by encode, read by rules
SOURCE = frozenset(
    "axlab coordlab lab looped chunked whole single sliced oneslice member bundle inslice loopable slices unordered step-block step-chunk "
    "step-whole step-narrow step-met counted narrowslices shared private VEC INST dmax late early consumer1 vdt verlab alias does".split()
)
#: the facts that may be written beside relations of the file itself
WRITABLE = frozenset({"plan", "base", "en", "orders", "binds", "narrows", "formed"})
UNIT = "Unit"


@dataclass(frozen=True, slots=True)
class Signature:
    name: str
    kind: Kind
    fields: tuple[str, ...]
    result: str  # `Unit` for relations and for primitives that are conditions


_I, _L, _S = "i64", "L", "String"
#: primitives: pure, total or failing to match, and with results no larger than their arguments
PRIMITIVES: Mapping[str, Signature] = {
    s.name: s
    for s in (
        *(Signature(n, "primitive", (_I, _I), _I) for n in ("+", "-", "*", "/", "%", "min", "max")),
        *(Signature(n, "primitive", (_I, _I), UNIT) for n in ("<", "<=", ">", ">=")),
        Signature("!=", "primitive", ("?", "?"), UNIT),
        Signature("set-empty", "primitive", (), _L),
        Signature("set-of", "primitive", (_S, "*"), _L),
        Signature("set-insert", "primitive", (_L, _S), _L),
        Signature("set-remove", "primitive", (_L, _S), _L),
        *(Signature(n, "primitive", (_L, _L), _L) for n in ("set-union", "set-intersect", "set-diff")),
        Signature("set-contains", "primitive", (_L, _S), UNIT),
        Signature("set-not-contains", "primitive", (_L, _S), UNIT),
        Signature("set-length", "primitive", (_L,), _I),
    )
}


@cache
def vocabulary_signatures() -> Mapping[str, Signature]:
    """Every constructor, relation and function of the vocabulary."""
    from eqkir.terms.prelude import REQUESTS, declarations

    out: dict[str, Signature] = {}
    for n in read_nodes(declarations(), "vocabulary")[0]:
        if n.head not in ("constructor", "relation", "function"):
            continue
        name, fields = n.items[1].text, tuple(x.text for x in n.items[2].items)
        if n.head == "relation":
            out[name] = Signature(name, "relation", fields, UNIT)
        else:
            kind: Kind = "function" if n.head == "function" else "request" if name in REQUESTS else "constructor"
            out[name] = Signature(name, kind, fields, n.items[3].text)
    return out


@cache
def sorts() -> frozenset[str]:
    """Sorts that a relation of a rule file may have as columns."""
    from eqkir.terms.prelude import SORTS

    return frozenset({*SORTS, "L", "String", "i64"})


def what_it_is(name: str) -> str:
    """A constructor's part in the vocabulary, in words."""
    if name not in ROWS:
        return "request"
    return "abstract value" if ROWS[name] in ABSTRACT else "realised value" if ROWS[name].sort == "F" else "other term"
