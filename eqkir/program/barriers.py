"""When a store that overwrites what its phase has loaded needs no barrier.

Threads of an instance hold copies of a fragment's elements, and one of them stores each element. A thread that is late with its load
sees the new element. That is harmless only if what it loaded reaches no effect but the store of the same element by a value computed
element by element: whoever stores has loaded, and a late copy goes nowhere. Through a reduction, another fragment shape, a second store
or a loop, a late copy could count.
"""

from __future__ import annotations

from eqkir.program.abi import parameter
from eqkir.program.model import Barrier, Carry, Item, Let, Loop, Store

ELEMENTWISE = ("Un", "Bin", "Tri", "Cast", "Bitcast", "Trans")


def lone_stores(items: tuple[Item, ...]) -> dict[int, Store]:
    """Loads of a phase that reach one store of their own block and nothing else, element by element: load id -> that store."""
    uses: dict[int, list[tuple[Let | Carry | Store | Loop, int]]] = {}
    loads: list[tuple[Let, int]] = []
    blocks = [0]

    def read(ids: tuple[int, ...], user: Let | Carry | Store | Loop, block: int) -> None:
        for i in ids:
            uses.setdefault(i, []).append((user, block))

    def walk(part: tuple[Item, ...], block: int) -> None:
        for i in part:
            match i:
                case Let():
                    read(i.args, i, block)
                    if i.op in ("Load", "LoadM"):
                        loads.append((i, block))
                case Store():
                    read((i.value, i.valid, *i.deps), i, block)
                case Loop():
                    blocks[0] += 1
                    inner = blocks[0]
                    read(i.ends, i, block)
                    for c in i.carries:
                        read(c.args, c, inner)
                        read(c.inits, c, block)
                    if i.cond >= 0:
                        read((i.cond,), i, inner)
                    walk(i.body, inner)
                case Barrier():
                    pass

    walk(items, 0)
    out: dict[int, Store] = {}
    for x, block in loads:
        found = _reached(x, block, uses)
        if found is not None:
            out[x.id] = found
    return out


def _reached(x: Let, block: int, uses: dict[int, list[tuple[Let | Carry | Store | Loop, int]]]) -> Store | None:
    store: Store | None = None
    todo, seen = [x.id], set[int]()
    while todo:
        i = todo.pop()
        if i in seen:
            continue
        seen.add(i)
        for user, where in uses.get(i, ()):
            if where != block:
                return None
            if isinstance(user, Let) and user.op in ELEMENTWISE and _lanes(user) == _lanes(x):
                todo.append(user.id)
            elif isinstance(user, Store) and _plain(user, i) and store in (None, user):
                store = user
            else:
                return None
    return store


def _plain(s: Store, i: int) -> bool:
    """Whether a store overwrites with value `i`, and reads it for nothing else."""
    return s.mode in ("store", "unique") and s.value == i and i not in (s.valid, *s.deps)


def _lanes(x: Let) -> set[str]:
    return {d for d in x.dims if parameter(d)}
