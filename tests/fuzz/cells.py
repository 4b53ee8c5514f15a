"""The cells that a whole run is to meet: every operation in every form that can compute it, less those that are impossible, each with
its reason."""

from __future__ import annotations

from collections.abc import Iterator

from eqkir.kir import ops
from eqkir.kir.model import OPERATIONS
from tests.fuzz.coverage import MODES, POINTWISE, SCATTER_MODES, Cell, family
from tests.fuzz.pointwise import MODES as PERMITTED
from tests.fuzz.pointwise import PERMISSIONS
from tests.fuzz.structured import FORMATS

DTYPES = ("f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e5m2", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "index")

SPARSE = "which row of the right operand is read depends on the row of the left one, so that no axis is the left operand's own"
PRODUCT = "no target has an atomic product: construction refuses it (EQK-CON-ATOMIC)"
#: operations, form -> why no program can compute them so
IMPOSSIBLE: dict[tuple[str, str], str] = {
    ("sparse_contract", "ConWhole mma"): SPARSE,
    ("sparse_contract", "ConLoop mma chunks"): SPARSE,
    ("scatter_reduce mul", "program"): PRODUCT,
    ("scatter_reduce mul", "Store mul"): PRODUCT,
}
#: forms that no operation has, of every kind -> why
NEVER = {
    "RedLoop lanes elements": "an accumulator a lane needs lanes: a loop over single elements has none",
    "RedNLoop lanes elements": "a state a lane needs lanes: a loop over single elements has none",
    "ConLoop mma elements": "the matrix unit takes fragments: the contracted axis has lanes",
    "ConAccLoop mma elements": "the matrix unit takes fragments: the contracted axis has lanes",
    "Phi one slice": "one slice that is the whole axis needs no state: its summary is the result",
}


def labels() -> Iterator[str]:
    """The name of every operation with each of its functions, as `coverage.labels` gives them."""
    functions = {
        "unary": (*ops.UNARY, *(f"{f} {p}" for f in PERMITTED for p in PERMISSIONS)),
        "binary": (*ops.BINARY, *(f"div {p}" for p in PERMISSIONS)), "compare": ops.COMPARE, "cast": tuple(f"to {d}" for d in DTYPES),
        "reduce": ("sum", "prod", "max", "min", "any", "all", "generic"), "arg_reduce": ("argmax", "argmin"),
        "scan": ("cumsum", "cumprod", "cummax", "cummin", "generic"), "scatter_reduce": SCATTER_MODES,
        "sparse_contract": ("one_of_two", "two_of_four"),
    }  # fmt: skip
    for name in sorted(OPERATIONS):
        yield from (f"{name} {f}" for f in functions.get(name, ())) if name in functions else (name,)
    yield from (f"{f} scaled_contract" for f in FORMATS)
    yield from (f"{marks} scan" for marks in ("exclusive", "reverse", "exclusive reverse"))


def every() -> set[Cell]:
    """All cells, possible or not."""
    out: set[Cell] = set()
    for x in labels():
        first = x.split(" ", 1)[0]
        out.add((x, "program"))
        out |= {(x, f) for f in family(x)}
        if first in POINTWISE:
            out.add((x, POINTWISE[first]))
        if x in MODES:
            out.add((x, f"Store {MODES[x]}"))
        if first == "scatter_reduce":
            out.add((x, f"Store {x.split(' ', 1)[1]}"))
    return out


def possible() -> set[Cell]:
    """The cells that a whole run is to meet."""
    return every() - impossible()


def impossible() -> set[Cell]:
    """Cells without a program, by `IMPOSSIBLE`: an operation's name stands for all its functions."""
    return {(x, f) for x, f in every() if (x, f) in IMPOSSIBLE or (x.split(" ", 1)[0], f) in IMPOSSIBLE}


def table() -> str:
    """The impossible cells as a table of docs/fuzzing.md."""
    rows = [f"| {x} | {f} | {why} |" for (x, f), why in [*sorted(IMPOSSIBLE.items()), *((("any", f), why) for f, why in NEVER.items())]]
    return "\n".join(["| operation | form | reason |", "|---|---|---|", *rows])


__all__ = ["IMPOSSIBLE", "NEVER", "every", "impossible", "labels", "possible", "table"]
