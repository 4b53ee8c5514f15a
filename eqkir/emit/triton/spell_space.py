"""Text of program space: block indices from the position in a segment; and which labels and values the text of a segment speaks of."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from eqkir.base.expr import Expr, substitute
from eqkir.program.abi import member_labels, traversal
from eqkir.program.model import Item, Let, Loop, Order, Store, order_size

if TYPE_CHECKING:
    from eqkir.emit.triton.spell import SegmentText

BINDERS = ("Active", "FragRed", "FragRedN", "FragScan", "FragScanN", "Dot")


def decode(text: SegmentText, t: Order, lid: str) -> None:
    """Block indices of the instance axes from the position in the segment."""

    def size(x: Order) -> Expr:
        return substitute(order_size(x, text.program.axis), text.bound)

    add = text.lines.add
    match t[0]:
        case "TAx":
            text.place(t[1], lid)
        case "TRev":
            decode(text, t[1], f"({text.launch(size(t[1]))} - 1 - {lid})")
        case "TInter":
            n = text.unique("order", "_id", "_evens", "_columns")
            add(f"{n}_id = {lid}")
            add(f"{n}_evens = ({text.launch(size(t[1]) + 1)}) // 2")
            add(f"{n} = tl.where({n}_id < {n}_evens, 2 * {n}_id, 2 * ({n}_id - {n}_evens) + 1)")
            decode(text, t[1], n)
        case "TProd":
            n = text.unique("order", "_id", "_evens", "_columns")
            add(f"{n}_columns = {text.launch(size(t[2]))}")
            add(f"{n}_id = {lid}")
            decode(text, t[1], f"({n}_id // {n}_columns)")
            decode(text, t[2], f"({n}_id % {n}_columns)")
        case "TSwz":
            n = text.unique("band", "_id", "_rows", "_size", "_first", "_height", "_in")
            g = text.program.bindings[f"G:{text.segment.group}"]
            add(f"{n}_rows = {text.launch(size(t[1]))}")
            add(f"{n}_size = {g} * ({text.launch(size(t[2]))})")
            add(f"{n}_id = {lid}")
            add(f"{n}_first = ({n}_id // {n}_size) * {g}")
            add(f"{n}_height = tl.minimum({n}_rows - {n}_first, {g})")
            add(f"{n}_in = {n}_id % {n}_size")
            decode(text, t[1], f"({n}_first + {n}_in % {n}_height)")
            decode(text, t[2], f"({n}_in // {n}_height)")


def labels_of(items: tuple[Item, ...], axes: Collection[str]) -> list[str]:
    """Labels whose coordinates or lanes occur in a block of a program with these axes."""
    out: list[str] = []
    for i in items:
        match i:
            case Let():
                out += i.dims
                out += [a for a in i.attrs if isinstance(a, str) and i.op in BINDERS and ":" in a]
            case Store():
                out += i.dims
            case Loop():
                out += [i.label, *labels_of(i.body, axes)]
                out += member_labels(i.label, axes) if traversal(i.label) in ("S1", "SC") else ()
                out += [d for c in i.carries for d in c.dims]
    return out


def operands_of(items: tuple[Item, ...], trues: set[int]) -> set[int]:
    """Values that the text reads: a mask that is constant true is not written, nor is its fill."""
    out: set[int] = set()
    for i in items:
        match i:
            case Let():
                out |= set(i.args[2:] if i.op == "LoadM" and i.args[0] in trues else i.args)
            case Store():
                out |= {i.value, *i.deps, *({i.valid} - trues)}
            case Loop():
                out |= operands_of(i.body, trues) | ({i.cond} if i.cond >= 0 else set()) | set(i.ends)
                out |= {a for c in i.carries for a in (*c.args, *c.inits)}
    return out


__all__ = ["decode", "labels_of", "operands_of"]
