"""The interface of a program: what the host passes, and what must hold for it. Origins are comments; nothing reads them to execute."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from eqkir.base.expr import Expr, Sym


@dataclass(frozen=True, slots=True)
class ViewParam:
    """An external view, or (role ``workspace``) a hidden buffer that `launch` allocates: dense row-major, uninitialised.

    `alias` is the alias class: loads and stores of one class are ordered by memory versions. Strides and offset are run-time facts
    (elements); symbols ``stride(name, k)`` stand for them in address arithmetic only. `owed`: a workspace whose author owes a write before
    every read; nobody proves it, and the interpreter tells.
    """

    name: str
    role: str  # in | out | inout | workspace
    dtype: str
    shape: tuple[Expr, ...]
    alias: int
    owed: bool = False


@dataclass(frozen=True, slots=True)
class ScalarParam:
    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class SymbolParam:
    """An extent symbol. The host derives it from view shapes; `lo <= value`, `value <= hi` if given, value % `multiple_of` == 0."""

    name: str
    lo: int = 0
    hi: int | None = None
    multiple_of: int = 1


@dataclass(frozen=True, slots=True)
class Abi:
    """Ordered parameters of one launch. `noalias`: sets of views that the caller keeps pairwise disjoint (checked by `launch`)."""

    kernel: str
    views: tuple[ViewParam, ...]
    scalars: tuple[ScalarParam, ...]
    symbols: tuple[SymbolParam, ...]
    noalias: tuple[tuple[str, ...], ...] = ()
    constexprs: tuple[tuple[str, str], ...] = ()  # already substituted; recorded for the manifest and the cache key

    def view(self, name: str) -> ViewParam:
        """Raises KeyError."""
        for v in self.views:
            if v.name == name:
                return v
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Axis:
    """An iteration space ``0 <= coordinate < extent``.

    kind ``own``: an instance axis; ``loop``: traversed inside an instance; ``strict``: traversed one by one, in order; ``seg``:
    traversed in
    contiguous nonempty slices; ``mem``: the members of the slice of its seg axis (``c0.m`` belongs to ``c0``, and ``c0.m1 c0.m2`` …
    where several run through the slice at once; absolute coordinates);
    ``while``: as long as a condition holds (the extent is unused).
    """

    name: str
    extent: Expr
    kind: str

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label (axis + traversal) of this axis; the first is the conservative one."""
        return tuple(f"{self.name}:{t}" for t in KINDS[self.kind])


#: kind of axis -> traversals, the conservative one first
KINDS = {
    "own": ("O1", "OB"),
    "loop": ("L1", "LC", "W"),
    "strict": ("L1",),
    "seg": ("S1", "SC", "SW"),
    "mem": ("M1", "MC", "MW"),
    "while": ("L1",),
}

#: traversal -> the same loop over a part of the axis, outside of which nothing counts (a `Loop` with bounds); labels of terms only
NARROWED = {"L1": "N1", "LC": "NC", "S1": "R1", "SC": "RC"}
_WIDE = {n: w for w, n in NARROWED.items()}

#: traversal -> letter of the physical parameter that it needs: ``OB`` block of B owned elements, ``LC`` ordered loop in chunks of C,
#: ``W`` one fragment of F lanes that covers the extent; ``O1`` one owned element, ``L1`` ordered scalar loop;
#: ``S1 SC SW`` slices of one, of C, and the whole axis as one slice, with members ``M1 MC MW``. A seg label has one lane: its slice's
#: members have the lanes. ``N1 NC R1 RC``: see `NARROWED`.
TRAVERSALS = {
    "O1": None, "OB": "B", "L1": None, "LC": "C", "W": "F", "S1": None, "SC": None, "SW": None, "M1": None, "MC": "C", "MW": "F",
    "N1": None, "NC": "C", "R1": None, "RC": None,
}  # fmt: skip
#: traversals that are loops -> letter of the parameter that is their step (None: one)
STEPS = {"L1": None, "LC": "C", "S1": None, "SC": "C", "N1": None, "NC": "C", "R1": None, "RC": "C"}


_MEMBER = re.compile(r"\.m[0-9]*$")


def is_member(axis: str) -> bool:
    """Whether an axis has the members of a slice: ``c0.m``, ``c0.m1``."""
    return _MEMBER.search(axis) is not None


def slice_axis(axis: str) -> str:
    """The seg axis of a mem axis, any other axis as it is: ``"c0.m1"`` -> ``"c0"``."""
    return _MEMBER.sub("", axis)


def member_axis(seg: str, n: int = 0) -> str:
    """The n-th mem axis of a seg axis: ``c0.m``, ``c0.m1``, …"""
    return f"{seg}.m{n or ''}"


def members_of(seg: str, axes: Iterable[str]) -> tuple[str, ...]:
    """The mem axes of a seg axis among `axes`, in their order."""
    return tuple(a for a in axes if is_member(a) and slice_axis(a) == seg)


def member_labels(label: str, axes: Iterable[str]) -> tuple[str, ...]:
    """The labels of a slice's mem axes: ``"c0:SC"`` -> ``("c0.m:MC",)``; none for any other label. `axes`: those of the program."""
    t = traversal(label)
    return tuple(f"{a}:M{t[1]}" for a in members_of(axis_of(label), axes)) if t in ("S1", "SC", "SW") else ()


def slice_label(member: str) -> str:
    """The slice of a member label: ``"c0.m1:MC"`` -> ``"c0:SC"``."""
    return f"{slice_axis(axis_of(member))}:S{traversal(member)[1]}"


@lru_cache(maxsize=4096)
def axis_of(label: str) -> str:
    """``"c0:LC"`` -> ``"c0"``."""
    return label.split(":", 1)[0]


@lru_cache(maxsize=4096)
def traversal(label: str) -> str:
    """``"c0:LC"`` -> ``"LC"``."""
    return label.split(":", 1)[1]


@lru_cache(maxsize=4096)
def narrowed(label: str) -> bool:
    """Whether a label is a loop over a part of its axis."""
    return traversal(label) in _WIDE


def narrow_label(label: str) -> str:
    """The label of the same loop between bounds; an empty text for a label that is no loop: ``"c0:LC"`` -> ``"c0:NC"``."""
    t = NARROWED.get(traversal(label))
    return f"{axis_of(label)}:{t}" if t else ""


@lru_cache(maxsize=4096)
def wide(label: str) -> str:
    """A narrowed label as the label of the whole axis; any other label as it is: ``"c0:NC"`` -> ``"c0:LC"``."""
    t = _WIDE.get(traversal(label))
    return f"{axis_of(label)}:{t}" if t else label


@lru_cache(maxsize=4096)
def parameter(label: str) -> str | None:
    """The physical parameter that gives a label its lanes: ``"c0:LC"`` and ``"c0.m:MC"`` -> ``"C:c0"``; None where it has one lane."""
    p = TRAVERSALS[traversal(label)]
    return f"{p}:{slice_axis(axis_of(label))}" if p else None


@lru_cache(maxsize=4096)
def step_parameter(label: str) -> str | None:
    """The physical parameter that is the step of a loop label: ``"c0:SC"`` -> ``"C:c0"``; None for a step of one."""
    p = STEPS[traversal(label)]
    return f"{p}:{axis_of(label)}" if p else None


def stride_symbol(view: str, k: int) -> Expr:
    """The run-time stride (elements) of axis `k` of a view."""
    return Sym(f"stride({view},{k})")
