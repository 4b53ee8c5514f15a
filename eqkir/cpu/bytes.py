"""The form *bytes* of a value: an i32 product whose factors are bytes, one of them not negative or both signed, along a contiguous label.

Such a value is wanted as its two factors in bytes: what stands between memory and the product (masks, shifts, choices, casts) is done
on bytes, where it is exact because no intermediate value leaves them. `Source` shows the definitions of a program or of an e-graph
alike, so that legality, cost and expansion agree on what has the form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from eqkir.base.expr import Expr
from eqkir.cpu.layout import contiguous, slope
from eqkir.program.abi import Axis, axis_of
from eqkir.program.model import Carry, Let

BYTES = "bytes"
#: operations between a leaf and the product that are looked through
DEPTH = 12


@dataclass(frozen=True, slots=True)
class Shown:
    """One definition of a value: as a let of a program, its labels included."""

    op: str
    attrs: tuple[Any, ...]
    args: tuple[int, ...]
    dtype: str
    dims: tuple[str, ...]


class Source(Protocol):
    """Definitions by value."""

    def definitions(self, i: int) -> Iterable[Shown]: ...


@dataclass(frozen=True)
class Lets:
    """The definitions of a program's phase."""

    defs: Mapping[int, Let | Carry]

    def definitions(self, i: int) -> Iterator[Shown]:
        x = self.defs.get(i)
        if isinstance(x, Let):
            yield Shown(x.op, x.attrs, x.args, x.dtype, x.dims)


@dataclass(frozen=True, slots=True)
class Narrow:
    """A value in bytes: `op` is ``leaf`` (value `leaf`, of dtype u8 or i8), ``const`` (`low`), ``select`` (condition `leaf`) or the name
    of a binary function; all values lie in [low, high]."""

    op: str
    low: int
    high: int
    args: tuple[Narrow, ...] = ()
    leaf: int = -1

    @property
    def unsigned(self) -> bool:
        return self.low >= 0 and self.high <= 255

    @property
    def signed(self) -> bool:
        return self.low >= -128 and self.high <= 127

    @property
    def leaves(self) -> tuple[int, ...]:
        """What it reads as it is: bytes and conditions."""
        own = (self.leaf,) if self.leaf >= 0 else ()
        return (*own, *(i for a in self.args for i in a.leaves))

    @property
    def size(self) -> int:
        """Operations on bytes."""
        return (self.op not in ("leaf", "const")) + sum(a.size for a in self.args)


def factors(s: Source, axes: Mapping[str, Axis], i: int, label: str) -> tuple[Narrow, Narrow] | None:
    """The factors of a product, the one that is taken without sign first (or both signed); None where it has not the form."""
    for x in s.definitions(i):
        if x.op == "Bin" and x.attrs[0] == "mul" and x.dtype == "i32":
            found = [_narrow(s, axes, a, label, DEPTH) for a in x.args]
            a, b = found
            if a is None or b is None:
                continue
            if b.unsigned and not a.unsigned:
                a, b = b, a
            if b.signed and (a.unsigned or a.signed):
                return a, b
            if a.signed and b.unsigned:
                return b, a
    return None


def _narrow(s: Source, axes: Mapping[str, Axis], i: int, label: str, depth: int) -> Narrow | None:
    if depth == 0:
        return None
    for x in s.definitions(i):
        out: Narrow | None = None
        if x.op == "Cast" and x.dtype == "i32":
            out = _leaf(s, axes, x.args[0], label)
        elif x.op == "Const" and x.dtype == "i32" and -128 <= int(x.attrs[0]) <= 255:
            out = Narrow("const", int(x.attrs[0]), int(x.attrs[0]))
        elif x.op == "Bin" and x.dtype == "i32" and x.attrs[0] in ("and", "or", "xor", "shr"):
            out = _bits(x.attrs[0], *(_narrow(s, axes, a, label, depth - 1) for a in x.args))
        elif x.op == "Tri" and x.attrs[0] == "select" and not _varies(s, x.args[0], label):
            a, b = (_narrow(s, axes, k, label, depth - 1) for k in x.args[1:])
            if a is not None and b is not None:
                out = Narrow("select", min(a.low, b.low), max(a.high, b.high), (a, b), x.args[0])
        if out is not None and (out.unsigned or out.signed):
            return out
    return None


def _bits(fn: str, a: Narrow | None, b: Narrow | None) -> Narrow | None:
    """A function of bits on values that are not negative."""
    if a is None or b is None or not a.unsigned or not b.unsigned:
        return None
    if fn == "shr":
        return Narrow(fn, a.low >> b.low, a.high >> b.low, (a, b)) if b.op == "const" and b.low < 8 else None
    top = min(a.high, b.high) if fn == "and" else (1 << max(a.high, b.high).bit_length()) - 1
    return Narrow(fn, 0, top, (a, b))


def _varies(s: Source, i: int, label: str) -> bool:
    return any(label in x.dims for x in s.definitions(i)) or not list(s.definitions(i))


def _leaf(s: Source, axes: Mapping[str, Axis], i: int, label: str) -> Narrow | None:
    """Bytes in memory, adjacent along the label, which are there."""
    for x in s.definitions(i):
        if x.dtype not in ("u8", "i8"):
            return None
        for y in s.definitions(x.args[0]) if x.op == "Bitcast" else (x,):
            if y.op == "Load" and y.dtype in ("u8", "i8") and _adjacent(s, y, label) and _there(s, axes, y.args[0], label):
                return Narrow("leaf", *((0, 255) if x.dtype == "u8" else (-128, 127)), leaf=i)
    return None


def _adjacent(s: Source, x: Shown, label: str) -> bool:
    ixs = tuple(x.attrs[2])
    if any(_varies(s, d, label) for d in x.args[2:]):
        return False
    axis = axis_of(label)
    return label in x.dims and bool(contiguous(ixs, axis, frozenset())) and slope(ixs[-1], axis) == Expr("int", (1,))


def _there(s: Source, axes: Mapping[str, Axis], i: int, label: str) -> bool:
    """Whether a condition is the same along the label, or always holds."""
    for x in s.definitions(i):
        if label not in x.dims:
            return True
        if x.op == "Index" and not x.args and holds(x.attrs[0], axes):
            return True
    return False


# ------------------------------------------------------------------------------------------------ bounds of index expressions
def holds(e: Expr, axes: Mapping[str, Axis]) -> bool:
    """Whether a predicate over coordinates of axes of constant extents is known to be true."""
    if e.op == "and":
        return all(holds(a, axes) for a in e.args)
    if e.op in ("lt", "le"):
        x, y = (bounds(a, axes) for a in e.args)
        return x is not None and y is not None and (x[1] < y[0] if e.op == "lt" else x[1] <= y[0])
    return False


def bounds(e: Expr, axes: Mapping[str, Axis]) -> tuple[int, int] | None:
    """Least and greatest value of an index expression; None where they are not known."""
    match e.op:
        case "int":
            return int(e.args[0]), int(e.args[0])
        case "coord":
            n = axes[e.args[0]].extent.value if e.args[0] in axes else None
            return (0, max(n - 1, 0)) if n is not None else None
        case "add" | "sub" | "mul" | "floordiv" | "mod":
            x, y = (bounds(a, axes) for a in e.args)
            if x is None or y is None:
                return None
            if e.op == "add":
                return x[0] + y[0], x[1] + y[1]
            if e.op == "sub":
                return x[0] - y[1], x[1] - y[0]
            if e.op == "mul":
                ends = [a * b for a in x for b in y]
                return min(ends), max(ends)
            if y[0] != y[1] or y[0] < 1:
                return None
            return (x[0] // y[0], x[1] // y[0]) if e.op == "floordiv" else (0, y[0] - 1)
    return None


__all__ = ["BYTES", "Lets", "Narrow", "Shown", "Source", "bounds", "factors", "holds"]
