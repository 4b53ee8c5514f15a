"""Forms of a value that read something else instead of it (`eqkir.cpu.keys`, `eqkir.cpu.bytes`): the value itself is never made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eqkir.cpu.bytes import BYTES, Lets, factors
from eqkir.cpu.keys import KEYS, keys_of
from eqkir.program.abi import Axis
from eqkir.program.model import Carry, Item, Let, Loop, Store

INSTEAD = (KEYS, BYTES)


def read_instead(defs: Mapping[int, Let | Carry], axes: Mapping[str, Axis], supply: Let) -> tuple[int, ...] | None:
    """The values that the reader of such a supply reads; None where the value has not the form."""
    if supply.attrs[0] == KEYS:
        keys = keys_of(defs, supply)
        return None if keys is None else (keys.key, *keys.where, keys.weight)
    found = factors(Lets(defs), axes, supply.args[0], str(supply.attrs[1]))
    return None if found is None else tuple(i for f in found for i in f.leaves)


def avoided(items: Iterable[Item], axes: Mapping[str, Axis], kept: Mapping[int, int] | None = None) -> set[int]:
    """Values of a phase that only the definitions of values in these forms read. `kept`: supply -> the value that an earlier loop has kept
    for it, where there is room."""
    defs: dict[int, Let | Carry] = {}
    roots: list[int] = []

    def walk(xs: Iterable[Item]) -> None:
        for x in xs:
            if isinstance(x, Let):
                defs[x.id] = x
            elif isinstance(x, Store):
                roots.extend(i for i in (x.value, x.valid, *x.deps, x.expected, x.live) if i >= 0)
            elif isinstance(x, Loop):
                roots.extend(i for i in (x.cond, x.on, x.lo, x.hi, *x.ends) if i >= 0)
                for c in x.carries:
                    defs[c.id] = c
                walk(x.body)

    walk(items)
    supplies = [x for x in defs.values() if isinstance(x, Let) and x.op == "Supply" and x.attrs[0] in INSTEAD]
    read = {x.id: found for x in supplies if (found := read_instead(defs, axes, x)) is not None}
    read |= {s: (source,) for s, source in (kept or {}).items()}
    if not read:
        return set()
    made: set[int] = set()
    while roots:
        i = roots.pop()
        if i not in made and i in defs:
            made.add(i)
            x = defs[i]
            roots.extend(read[i] if i in read else (*x.args, *(x.inits if isinstance(x, Carry) else ())))
    return set(defs) - made
