"""Programs with other implementations than the chosen ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from eqkir.cpu.layout import Layout
from eqkir.program.model import Carry, Item, Let, Loop, Program

PANELS = ("reduce_fragment", "reduce_loop", "contract_fragment", "contract_panels")


def operations(program: Program) -> list[Let | Carry]:
    """Every operation that an implementation does."""

    def walk(items: tuple[Item, ...]) -> Iterator[Let | Carry]:
        for x in items:
            if isinstance(x, Loop):
                yield from walk(x.body)
                yield from (c for c in x.carries if c.by)
            elif isinstance(x, Let) and x.by:
                yield x

    return [x for s in program.segments for ph in s.phases for x in walk(ph)]


def changed(program: Program, f: Callable[[Item], tuple[Item, ...]]) -> Program:
    """Each item through `f`, loops after their bodies."""

    def walk(items: tuple[Item, ...]) -> tuple[Item, ...]:
        out: list[Item] = []
        for x in items:
            out += f(replace(x, body=walk(x.body)) if isinstance(x, Loop) else x)
        return tuple(out)

    return replace(program, segments=tuple(replace(s, phases=tuple(walk(ph) for ph in s.phases)) for s in program.segments))


def unsaid(program: Program) -> Program:
    """The program without a word of who does what, and without supplies (ids of supplies are taken to be unlike those of other phases)."""
    names = {x.id: x.args[0] for ph in _phases(program) for x in _lets(ph) if x.op == "Supply"}

    def one(x: Item) -> tuple[Item, ...]:
        if isinstance(x, Let):
            return () if x.op == "Supply" else (replace(x, by="", args=tuple(names.get(a, a) for a in x.args)),)
        if isinstance(x, Loop):
            return (replace(x, carries=tuple(replace(c, by="", args=tuple(names.get(a, a) for a in c.args)) for c in x.carries)),)
        return (x,)

    return changed(program, one)


def _phases(program: Program) -> list[tuple[Item, ...]]:
    return [ph for s in program.segments for ph in s.phases]


def _lets(items: tuple[Item, ...]) -> Iterator[Let]:
    for x in items:
        if isinstance(x, Let):
            yield x
        elif isinstance(x, Loop):
            yield from _lets(x.body)


def supplied(program: Program) -> Program:
    """Every contraction along a loop from panels of the operand that runs along its vectors."""
    plain = unsaid(program)
    layouts = [Layout(plain, ph, 64) for ph in _phases(plain)]

    def one(x: Item) -> tuple[Item, ...]:
        if not isinstance(x, Loop) or not any(c.op in ("ConLoop", "ConAccLoop") for c in x.carries):
            return (x,)
        layout = next(y for y in layouts if all(y.defs.get(c.id) == c for c in x.carries))
        body, names = list(x.body), dict[int, int]()
        free = max(layout.defs) + 1000
        for c in x.carries:
            v = layout.vector(c, x.label)
            for a in c.args if c.op.startswith("Con") else ():
                load = layout.defs[a]
                while isinstance(load, Let) and load.op == "Cast":
                    load = layout.defs[load.args[0]]
                if isinstance(load, Let) and load.op == "Load" and v in load.dims and load.id not in names and load in body:
                    names[load.id] = free + load.id
                    at = body.index(load) + 1
                    body.insert(at, Let(names[load.id], "Supply", ("panels", v), (load.id,), load.dims, load.dtype))
        new = [replace(b, args=tuple(names.get(a, a) for a in b.args)) if isinstance(b, Let) and b.op == "Cast" else b for b in body]
        carries = tuple(
            replace(c, args=tuple(names.get(a, a) for a in c.args), by="contract_panels" if c.op.startswith("Con") else c.by)
            for c in x.carries
        )
        return (replace(x, body=tuple(new), carries=carries),)

    return replace(changed(plain, one), implementations=PANELS)
