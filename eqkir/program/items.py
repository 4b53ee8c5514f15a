"""What the items of a block read of each other: for lowering, which reorders them (the interpreter has its own)."""

from __future__ import annotations

from eqkir.program.model import Item, Let, Loop, Store


def reads(i: Item) -> list[int]:
    """Value ids that an item reads, with repetitions; a loop reads what its body, its carries, its bounds and its condition read."""
    match i:
        case Let():
            return list(i.args)
        case Store():
            return [i.value, i.valid, *i.deps]
        case Loop():
            own = [a for c in i.carries for a in (*c.args, *c.inits)]
            return [*own, *i.ends, *([i.cond] if i.cond >= 0 else []), *(a for j in i.body for a in reads(j))]
    return []


def needed(x: Loop) -> set[int]:
    """Positions of a while loop's items that its condition depends on."""
    made: dict[int, int] = {}
    for n, i in enumerate(x.body):
        if isinstance(i, Let):
            made[i.id] = n
        elif isinstance(i, Loop):
            made |= {c.id: n for c in i.carries}
    out: set[int] = set()
    todo = [x.cond]
    while todo:
        n = made.get(todo.pop(), -1)
        if n >= 0 and n not in out:
            out.add(n)
            todo += reads(x.body[n])
    return out


__all__ = ["needed", "reads"]
