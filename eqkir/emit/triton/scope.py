"""Building blocks of legal items: nested scopes, shared constants, masks, broadcasts; no decision of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from eqkir.base import dtypes as D
from eqkir.base.expr import Expr
from eqkir.emit.triton.padding import even
from eqkir.program.abi import parameter, slice_label, traversal
from eqkir.program.model import Item, Let, Program


@dataclass(frozen=True, slots=True)
class Val:
    """A legal value. `pad`: the literal that its inactive lanes hold (of every lane label in `dims`), where that is known.
    `reads`: the masked loads that it depends on. `bare`: a load, or a load with identities in its inactive lanes."""

    id: int
    dims: tuple[str, ...]
    dtype: str
    pad: str | None = None
    reads: frozenset[int] = frozenset()
    bare: bool = False


@dataclass
class Block:
    items: list[Item] = field(default_factory=list)
    cache: dict[Any, Val] = field(default_factory=dict)
    label: str = ""  # of the loop
    barrier_at_end: bool = False
    guard: Val | None = None  # of a while loop: where it still runs


class Builder:
    """Emits legal lets into a stack of blocks. `rank` orders labels; fragments list their lane labels in that order."""

    def __init__(self, program: Program, rank: dict[str, int], notes: dict[str, Expr]) -> None:
        self.program, self.rank, self.notes = program, rank, notes
        self.blocks = [Block()]
        self.next = 0

    # ---------------------------------------------------------------- names and dimensions
    def fresh(self) -> int:
        self.next += 1
        return self.next - 1

    def sort(self, labels: Iterable[str]) -> tuple[str, ...]:
        """Canonical dimension order: scalar labels, then lane labels by rank. Members come with the slice that they belong to; a slice
        that is the whole axis comes with its members only."""
        found = {x for x in labels if traversal(x) != "SW"}
        found |= {slice_label(x) for x in found if traversal(x)[0] == "M"}
        return tuple(sorted(found, key=lambda x: (parameter(x) is not None, self.rank[x])))

    def without(self, dims: Iterable[str], label: str) -> tuple[str, ...]:
        """Dimensions without a label that an operation binds."""
        return self.sort(d for d in dims if d != label)

    def lanes(self, dims: Iterable[str]) -> tuple[str, ...]:
        return tuple(d for d in dims if parameter(d))

    def depth(self, label: str) -> int:
        """The block in which the coordinate of a label is known."""
        if traversal(label) in ("M1", "MC"):
            label = slice_label(label)
        if traversal(label) in ("L1", "LC", "S1", "SC"):
            for d in range(len(self.blocks) - 1, 0, -1):
                if self.blocks[d].label == label:
                    return d
        return 0

    # ---------------------------------------------------------------- emission
    def let(
        self,
        op: str,
        attrs: tuple[Any, ...],
        args: tuple[Val, ...],
        dims: tuple[str, ...],
        dtype: str,
        depth: int = -1,
        pad: str | None = None,
    ) -> Val:
        v = Val(self.fresh(), dims, dtype, pad, frozenset().union(*(a.reads for a in args)))
        self.blocks[depth].items.append(Let(v.id, op, attrs, tuple(a.id for a in args), dims, dtype))
        return v

    def shared(self, key: Any, depth: int, make: Callable[[], Val]) -> Val:
        """One value per scope: looked up in the enclosing blocks, made in block `depth`."""
        for b in self.blocks:
            if key in b.cache:
                return b.cache[key]
        v = self.blocks[depth].cache[key] = make()
        return v

    def const(self, text: str, dtype: str) -> Val:
        return self.shared(("const", text, dtype), 0, lambda: self.let("Const", (text,), (), (), dtype, 0, text))

    def scalar(self, name: str, dtype: str) -> Val:
        return self.shared(("scalar", name), 0, lambda: self.let("Scalar", (name,), (), (), dtype, 0))

    @property
    def true(self) -> Val:
        return self.const("true", "bool")

    def splat(self, a: Val, dims: tuple[str, ...]) -> Val:
        """`a` repeated until it has the lane labels of `dims`."""
        if set(self.lanes(a.dims)) >= set(self.lanes(dims)):
            return a
        if not a.reads and not a.dims:
            if a.pad is not None:
                depth = max((self.depth(d) for d in dims if traversal(d)[0] == "M"), default=0)
                return self.shared(("splat", a.id, dims), depth, lambda: self.let("Splat", (), (a,), dims, a.dtype, depth, a.pad))
        return self.let("Splat", (), (a,), dims, a.dtype)

    def over(self, op: str, attrs: tuple[Any, ...], args: tuple[Val, ...], dtype: str, dims: Iterable[str] = ()) -> Val:
        """An elementwise let over the union of the operands' dimensions (and `dims`), broadcasts made explicit."""
        union = self.sort(d for ds in (*(a.dims for a in args), tuple(dims)) for d in ds)
        have = {d for a in args for d in a.dims}
        if args and not set(self.lanes(union)) <= have:
            args = (self.splat(args[0], union), *args[1:])
        return self.let(op, attrs, args, union, dtype)

    def arranged(self, a: Val, lanes: tuple[str, ...]) -> Val:
        """`a` with its lane labels in exactly this order."""
        scalars = tuple(d for d in a.dims if not parameter(d))
        if set(self.lanes(a.dims)) != set(lanes):
            a = self.splat(a, self.sort((*scalars, *lanes)))
        return a if self.lanes(a.dims) == lanes else self.let("Trans", (), (a,), (*scalars, *lanes), a.dtype)

    # ---------------------------------------------------------------- masks
    def padded(self, label: str) -> bool:
        return even(self.program, label).value != 1

    def active(self, label: str) -> Val:
        """Which lanes of a padded label are active."""

        def make() -> Val:
            full = even(self.program, label)
            if full.value is None:  # an extent that is known not to fit has no case without masks
                self.notes[label] = full
            return self.let("Active", (label,), (), self.sort((label,)), "bool", self.depth(label))

        return self.shared(("active", label), self.depth(label), make)

    def mask(self, dims: Iterable[str], valid: Val | None = None) -> Val:
        """Active lanes of every padded label in `dims`, and `valid`; the constant true where nothing can be inactive."""
        out: Val | None = None
        for x in sorted((d for d in dims if parameter(d) and self.padded(d)), key=lambda d: (self.depth(d), self.rank[d])):
            a = self.active(x)
            if out is None:
                out = a
                continue
            out = self.both(out, a, self.depth(x))
        if valid is None:
            return out or self.true
        return valid if out is None else self.over("Bin", ("and",), (out, valid), "bool")

    def guarded(self, mask: Val, dims: Iterable[str]) -> Val:
        """`mask` where every while loop around still runs (for some lane of the labels that `dims` has not)."""
        for g in [b.guard for b in self.blocks if b.guard]:
            for d in [d for d in self.lanes(g.dims) if d not in dims]:
                g = self.let("FragRed", ("any", d), (g,), self.without(g.dims, d), "bool")
            mask = g if mask.pad == "true" else self.over("Bin", ("and",), (mask, g), "bool")
        return mask

    def both(self, a: Val, b: Val, depth: int) -> Val:
        dims = self.sort((*a.dims, *b.dims))
        return self.shared(("and", a.id, b.id), depth, lambda: self.let("Bin", ("and",), (a, b), dims, "bool", depth))

    def neutral(self, a: Val, label: str, identity: Val) -> Val:
        """`a` over `label` with `identity` in the inactive lanes of that label."""
        if label not in a.dims and parameter(label):
            a = self.let("Splat", (), (a,), self.sort((*a.dims, label)), a.dtype)
        if not parameter(label) or not self.padded(label) or (a.pad is not None and a.pad == identity.pad):
            return a
        return replace(self.over("Tri", ("select",), (self.active(label), a, identity), a.dtype), bare=a.bare)


def identity_text(fn: str, dtype: str) -> str:
    """The neutral element of a built-in reduction as a literal (f8e4m3fn has no infinity: its largest magnitude stands for it)."""
    if fn in ("sum", "any"):
        return D.literal(0, dtype)
    if fn in ("prod", "all"):
        return D.literal(1, dtype)
    low = fn == "max"
    if dtype == "bool":
        return "false" if low else "true"
    if dtype in D.FLOATS:
        top = 448.0 if dtype == "f8e4m3fn" else float("inf")
        return D.literal(-top if low else top, dtype)
    w = D.bits(dtype)
    if dtype in D.UNSIGNED:
        return "0" if low else str((1 << w) - 1)
    return str(-(1 << (w - 1)) if low else (1 << (w - 1)) - 1)


def cast_pad(text: str | None, src: str, dst: str) -> str | None:
    """The literal that a cast makes of a known pad value; only zeros and infinities are followed."""
    if text is None or src == "bool" or dst == "bool":
        return None
    value = D.parse(text, src)
    if value == 0 and text != "-0.0":
        return D.literal(0, dst)
    if src in D.FLOATS and dst in D.FLOATS and dst != "f8e4m3fn" and abs(value) == float("inf"):
        return D.literal(value, dst)
    return None
