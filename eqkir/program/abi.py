"""The interface of a program: what the host passes, and what must hold for it. Origins are comments; nothing reads them to execute."""

from __future__ import annotations

from dataclasses import dataclass

from eqkir.base.expr import Expr, Sym


@dataclass(frozen=True, slots=True)
class ViewParam:
    """An external view, or (role ``workspace``) a hidden buffer that `launch` allocates: dense row-major, uninitialised.

    `alias` is the alias class: loads and stores of one class are ordered by memory versions. Strides and offset are run-time facts
    (elements); symbols ``stride(name, k)`` stand for them in address arithmetic only.
    """

    name: str
    role: str  # in | out | inout | workspace
    dtype: str
    shape: tuple[Expr, ...]
    alias: int


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
    """An iteration space ``0 <= coordinate < extent``. kind ``own``: an instance axis; ``loop``: traversed inside an instance."""

    name: str
    extent: Expr
    kind: str

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label (axis + traversal) of this axis; the first is the conservative one."""
        return tuple(f"{self.name}:{t}" for t in (("O1", "OB") if self.kind == "own" else ("L1", "LC", "W")))


#: traversal -> letter of the physical parameter that it needs: ``OB`` block of B owned elements, ``LC`` ordered loop in chunks of C,
#: ``W`` one fragment of F lanes that covers the extent; ``O1`` one owned element, ``L1`` ordered scalar loop
TRAVERSALS = {"O1": None, "OB": "B", "L1": None, "LC": "C", "W": "F"}


def axis_of(label: str) -> str:
    """``"c0:LC"`` -> ``"c0"``."""
    return label.split(":", 1)[0]


def traversal(label: str) -> str:
    """``"c0:LC"`` -> ``"LC"``."""
    return label.split(":", 1)[1]


def parameter(label: str) -> str | None:
    """The physical parameter that gives a label its lanes: ``"c0:LC"`` -> ``"C:c0"``; None where it has one lane."""
    p = TRAVERSALS[traversal(label)]
    return f"{p}:{axis_of(label)}" if p else None


def stride_symbol(view: str, k: int) -> Expr:
    """The run-time stride (elements) of axis `k` of a view."""
    return Sym(f"stride({view},{k})")
