"""The operations of a physical program as one table: attribute kinds, operand counts and the stages that allow them (see `model`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: what may stand in `attrs`; `serialize` reads and writes by these names
ATTR_KINDS = ("text", "name", "fn", "dtype", "label", "side", "form", "mode", "impl", "int", "version", "ix", "ixs", "region")

STRUCTURED, LEGAL = "structured", "legal"
BOTH = (STRUCTURED, LEGAL)
STAGES = BOTH


@dataclass(frozen=True, slots=True)
class OpSpec:
    """`attrs`: kinds in order; `args`: least and greatest number of operands (None: no limit); `stages` that allow it."""

    attrs: tuple[str, ...]
    args: tuple[int, int | None]
    stages: tuple[str, ...] = BOTH


LETS: dict[str, OpSpec] = {
    "Const": OpSpec(("text",), (0, 0)),
    "Scalar": OpSpec(("name",), (0, 0)),
    "Index": OpSpec(("ix",), (0, None)),
    "Un": OpSpec(("fn",), (1, 1)),
    "Bin": OpSpec(("fn",), (2, 2)),
    "Tri": OpSpec(("fn",), (3, 3)),
    "Cast": OpSpec(("dtype",), (1, 1)),
    "Bitcast": OpSpec(("dtype",), (1, 1)),
    "Pick": OpSpec(("int",), (1, 1)),
    "Load": OpSpec(("name", "version", "ixs", "form"), (2, None), (STRUCTURED,)),
    "Supply": OpSpec(("form", "name"), (1, 1), (STRUCTURED,)),
    "RedTree": OpSpec(("fn", "label"), (1, 1), (STRUCTURED,)),
    "RedNTree": OpSpec(("label", "region"), (2, None), (STRUCTURED,)),
    "Scan": OpSpec(("fn", "label"), (1, 1), (STRUCTURED,)),
    "ScanN": OpSpec(("label", "region"), (1, None), (STRUCTURED,)),
    "Last": OpSpec(("label",), (1, 1), (STRUCTURED,)),
    "ConWhole": OpSpec(("impl", "label"), (2, 2), (STRUCTURED,)),
    "ConAccWhole": OpSpec(("impl", "label"), (3, 3), (STRUCTURED,)),
    "Active": OpSpec(("label",), (0, 0), (LEGAL,)),
    "LoadM": OpSpec(("name", "version", "ixs", "form"), (2, None), (LEGAL,)),
    "FragRed": OpSpec(("fn", "label"), (1, 1), (LEGAL,)),
    "FragRedN": OpSpec(("label", "region"), (1, None), (LEGAL,)),
    "FragScan": OpSpec(("fn", "label"), (1, 1), (LEGAL,)),
    "FragScanN": OpSpec(("label", "region"), (1, None), (LEGAL,)),
    "Dot": OpSpec(("label",), (3, 3), (LEGAL,)),
    "Splat": OpSpec((), (1, 1), (LEGAL,)),
    "Trans": OpSpec((), (1, 1), (LEGAL,)),
}


def label_of(op: str, attrs: tuple[Any, ...]) -> str:
    """The label that a structured let binds (or ``Active`` speaks of), or an empty text."""
    kinds = LETS[op].attrs
    return str(attrs[kinds.index("label")]) if "label" in kinds else ""


#: lets that an implementation may do (`Let.by`); so may every carry but ``Phi``
IMPLEMENTED = ("RedTree", "RedNTree", "Scan", "ScanN", "ConWhole", "ConAccWhole")

#: lets of a combine region
REGION_LETS: dict[str, OpSpec] = {
    "Arg": OpSpec(("side", "int"), (0, 0)),
    **{k: LETS[k] for k in ("Const", "Index", "Un", "Bin", "Tri", "Cast", "Bitcast")},
}

#: carries: operands from the body; `INITS` gives the operands from before the loop
CARRIES: dict[str, OpSpec] = {
    "RedLoop": OpSpec(("fn", "mode"), (1, 1), (STRUCTURED,)),
    "RedNLoop": OpSpec(("mode", "region"), (1, None), (STRUCTURED,)),
    "ConLoop": OpSpec(("impl",), (2, 2), (STRUCTURED,)),
    "ConAccLoop": OpSpec(("impl",), (2, 2), (STRUCTURED,)),
    "Phi": OpSpec((), (1, 1)),
}
INITS = {"RedLoop": 0, "RedNLoop": None, "ConLoop": 0, "ConAccLoop": 1, "Phi": 1}  # None: as many as operands

REDUCTIONS = ("sum", "max", "min", "prod", "any", "all")
IMPLS = ("mma", "fma")
MODES = ("tree", "lanes")
SIDES = ("l", "r")

#: of f32, within what `approximate` permits of the function without that ending; rules introduce them
FAST = ("exp2_fast", "tanh_fast", "div_fast")
UNARY = (
    "neg", "abs", "not", "sqrt", "rsqrt", "exp", "exp2", "log", "log2", "log1p", "expm1", "sigmoid", "tanh", "sin", "cos", "tan",
    "asin", "atan", "erf", "erfc", "i0", "lgamma", "floor", "ceil", "round_even", "isnan", "isinf", "isfinite",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "floordiv", "mod", "maximum", "minimum", "maximum_num", "minimum_num", "and", "or", "xor", "shl", "shr",
)  # fmt: skip
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
TERNARY = ("select", "fma")
#: modes of a store: a plain one (``unique``: its author declares that no two valid points are one element), or an atomic operation: a
#: combination, ``exchange``, ``compare_exchange``, ``put`` (an atomic store) or ``get`` (an atomic load, which changes nothing)
PLAIN_MODES = ("store", "unique")
COMBINING = ("add", "max", "min", "and", "or", "xor")
STORE_MODES = (*PLAIN_MODES, *COMBINING, "exchange", "compare_exchange", "put", "get")
#: memory orders of atomic operations; a plain store has none
MEMORY_ORDERS = ("relaxed", "acquire", "release", "acq_rel")
#: who takes part in an atomic operation (legal stage): the threads of one instance, or those of all
SCOPES = ("instance", "device")
#: heads of orders -> number of order operands (``TAx`` has a label instead)
ORDERS = {"TAx": 0, "TUnit": 0, "TRev": 1, "TInter": 1, "TProd": 2, "TSwz": 2}
