"""Which names the attributes of a constructor may have, and which constructors a program or a rule makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from eqkir.base.dtypes import ALL, FLOATS, INTS
from eqkir.program.ops import BINARY, COMPARE, FAST, IMPLS, MODES, REDUCTIONS, TERNARY, UNARY
from eqkir.program.table import ABSTRACT, ROWS
from eqkir.rules.reader import Node, read_nodes
from eqkir.rules.signatures import vocabulary_signatures

FORMS = ("ptr", "stream", "keep", "wide")
_UN, _BIN, _DT = (*UNARY, *FAST), (*BINARY, *COMPARE, *FAST), (*ALL, "key", "tuple")
#: (constructor, field) -> names
DOMAINS: Mapping[tuple[str, int], tuple[str, ...]] = {
    ("Un", 0): _UN, ("FUn", 2): _UN, ("Bin", 0): _BIN, ("FBin", 2): _BIN, ("Tri", 0): TERNARY, ("FTri", 2): TERNARY,
    **dict.fromkeys((("Cast", 0), ("FCast", 2), ("Bitcast", 0), ("FBitcast", 2), ("Const", 1), ("FConst", 1), ("Scalar", 1)), _DT),
    **dict.fromkeys((("FScalar", 1), ("Index", 1), ("FIndex", 3), ("Arg", 2), ("FArg", 2), ("Con", 1), ("ConAcc", 1), ("Form", 2)), _DT),
    ("Red", 0): REDUCTIONS, ("FRedTree", 2): REDUCTIONS, ("FRedLoop", 2): REDUCTIONS, ("FRedLoop", 3): MODES, ("FRedNLoop", 2): MODES,
    ("FConWhole", 2): IMPLS, ("FConAccWhole", 2): IMPLS, ("FConLoop", 2): IMPLS, ("FConAccLoop", 2): IMPLS,
    ("FLoad", 5): FORMS, ("Seg", 0): ("grid", "stride"), ("Arg", 0): ("l", "r"), ("FArg", 0): ("l", "r"),
    ("Permit", 0): ("approximate", "flush_to_zero", "approximate flush_to_zero"),
}  # fmt: skip
#: constructors that rules alone make
BY_RULES = frozenset({"Slice", "ISub", "ILSub", "TRev", "TInter", "TSwz"})


@cache
def placed() -> frozenset[str]:
    """What encode and placement make: abstract terms, requests, and the forms of operations that have one."""
    from eqkir.terms.prelude import REQUESTS, placement

    out = {r.name for r in ABSTRACT} | {
        n for n, r in ROWS.items() if r.sort in ("VL", "AL", "IX", "IXL", "St", "G", "GL", "FL", "S", "SG", "SGL")
    }
    out |= {
        *REQUESTS,
        "Top",
        "Fn",
        "In",
        "TUnit",
        "TAx",
        "TProd",
        "FRedLoop",
        "FRedNLoop",
        "FConLoop",
        "FConAccLoop",
        "FFoldLoop",
        "FWhile",
    }
    for n in read_nodes(placement(), "placement")[0]:
        out |= heads(n.items[2].items)
    return frozenset(out - BY_RULES)


def heads(nodes: Iterable[Node]) -> set[str]:
    """Constructors and requests that occur in nodes."""
    known = vocabulary_signatures()
    return {x.head for n in nodes for x in n.walk() if x.head in known and known[x.head].kind in ("constructor", "request")}


def canonical_constant(text: str, dtype: str) -> str:
    """The text that the constant has in a program, or "" where there is no such constant."""
    try:
        if dtype == "bool":
            return text if text in ("true", "false") else ""
        if dtype in INTS:
            return str(int(text))
        if dtype in FLOATS:
            return repr(float(text))
    except ValueError:
        return ""
    return text
