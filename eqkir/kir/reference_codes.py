"""The diagnostics of the reference interpreter: one row a code."""

from __future__ import annotations

from eqkir.base.diagnostics import register

STAGE = "reference"
_TABLE: dict[str, tuple[str, str]] = {
    "ARGS": (
        "arguments that do not fit the kernel",
        "Every view and scalar of the kernel needs one argument of its dtype and rank, and no others.",
    ),
    "SYMBOL": (
        "extents that contradict each other",
        "A symbol has one value: every axis that names it, every declared equality and its declared range must agree.",
    ),
    "NOALIAS": (
        "views declared noalias overlap",
        "The address ranges of views in one noalias set must be disjoint.",
    ),
    "MEMORY": (
        "a view reaches outside its memory",
        "Offset, shape and strides of an argument must stay within the memory behind it.",
    ),
    "BOUNDS": (
        "a valid access out of bounds",
        "Coordinates never clamp or wrap: 0 <= coordinate < extent wherever `valid` holds.",
    ),
    "READ-OUT": (
        "an `out` element is read before it was written",
        "The contents of an `out` view are undefined until a store wrote them.",
    ),
    "READ-BUFFER": (
        "a buffer element is read before it was written",
        "A buffer without an initial value holds nothing: the author owes a write before every read.",
    ),
    "INJECTIVE": (
        "one store writes an element twice",
        "A plain store needs coordinates that name distinct memory elements.",
    ),
    "RACE": (
        "two points of a parallel touch one element",
        "Points are unordered: an element that one point writes no other point reads or writes, but by atomics and reductions of one kind.",
    ),
    "INTEGER": (
        "an integer operation without a result",
        "Division by zero, signed_min // -1 and shifts outside 0 <= n < width are invalid input.",
    ),
    "CAST": (
        "a cast without a result",
        "NaN, an infinity or an out-of-range value to an integer, and overflow of f8e4m3fn, are invalid input.",
    ),
    "METADATA": (
        "sparse metadata that names no place",
        "one_of_two: places 0 and 1; two_of_four: places 0 to 3, increasing within a group.",
    ),
    "ENDLESS": (
        "a loop that does not end",
        "The interpreter gives up on a while loop after 2^20 iterations.",
    ),
    "SHAPE": (
        "shapes that do not fit at run time",
        "Broadcasting, reshape and full need matching extents; an extent is never negative.",
    ),
    "UNSUPPORTED": (
        "the oracle does not know this",
        "The reference interpreter or the error envelope has no rule for the operation or the aliasing.",
    ),
}

CODES = {key: register(f"EQK-REF-{key}", title, explanation) for key, (title, explanation) in _TABLE.items()}


class Trap(Exception):
    """Raised inside an evaluator; the machine adds the place and raises an `EqkirError`."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = CODES[key], message
