"""Dead lets and carries removed; stores and barriers stay."""

from __future__ import annotations

from dataclasses import replace

from eqkir.program.model import Barrier, Item, Let, Loop, Store


def live(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """The items that a store depends on, in the same order."""
    return _block(items, set())


def _block(items: tuple[Item, ...], need: set[int]) -> tuple[Item, ...]:
    out: list[Item] = []
    for i in reversed(items):
        match i:
            case Let():
                if i.id not in need:
                    continue
                need.update(i.args)
            case Store():
                need.update((i.value, i.valid, *i.deps))
            case Loop():
                kept = _loop(i, need)
                if kept is None:
                    continue
                i = kept
            case Barrier():
                pass
        out.append(i)
    return tuple(reversed(out))


def stores(items: tuple[Item, ...]) -> bool:
    """Whether a block has an effect."""
    return any(isinstance(i, Store) or (isinstance(i, Loop) and stores(i.body)) for i in items)


def _loop(x: Loop, need: set[int]) -> Loop | None:
    """The loop with the carries that are read after it or by its own live part; `need` grows by what it reads."""
    wanted = {c.id for c in x.carries if c.id in need}
    while True:
        inner = {a for c in x.carries if c.id in wanted for a in c.args}
        if x.cond >= 0 and (wanted or stores(x.body)):
            inner.add(x.cond)
        body = _block(x.body, inner)
        more = {c.id for c in x.carries if c.id in inner} | wanted
        if more == wanted:
            break
        wanted = more
    if not (body and stores(body)) and not wanted:
        return None
    carries = tuple(c for c in x.carries if c.id in wanted)
    need |= inner
    need.update(i for c in carries for i in c.inits)
    need.update(x.ends)
    return replace(x, carries=carries, body=body)
