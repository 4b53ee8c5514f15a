"""Carries of ordered loops that are kept in memory.

Such a carry has a workspace with two stores: before the loop, and at the end of a step. A load of the version that the loop's entry makes
is the carry before the step; a load of the version after the loop is its result. That both stores keep what they have to is proved once
a carry, as for an effect (`pairing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqkir.base.expr import ZERO, Expr, conj, le, lt, substitute
from eqkir.kir import model as kir
from eqkir.program.construction.relation import K, Path, Term, number

if TYPE_CHECKING:
    from eqkir.program.construction.codes import Fault
    from eqkir.program.construction.compare import Compare, Faults, Sigma

#: version of a carry's workspace in a loop with no ordered loop around it: each of those makes one more before
FIRST, ENTRY, NEXT, AFTER = 1, 2, 3, 4


def keeps(c: Compare, t: Term, node: int) -> bool:
    """Whether a load of a workspace may be a carry (what is kept otherwise has one store)."""
    loop = t.head in ("State", "Form", "Fold", "While") and t.attrs[0].region in c.a.ordered
    return loop and len(c.fills.get(c.nodes[node].attrs[0], ())) == 2


def carried(c: Compare, t: Term, node: int, sigma: Sigma) -> Faults:
    """A load of a carry's workspace."""
    n = c.nodes[node]
    rec, (k, path, at) = t.attrs[0], t.attrs[1]
    name, version = n.attrs[0], n.attrs[1]
    key: tuple[str, int, Path] = rec.region, k, path
    if c.carries.get(key, name) != name or any(w == name and x != key for x, w in c.carries.items()) or name in c.buffers.values():
        return c.fault("buffers-owned", f"{name} keeps another carry than {k} of the loop {rec.region}")
    if key not in c.carries:
        c.carries[key] = name
        c.journal.append(lambda: c.carries.pop(key, None))
    out: list[Fault] = []
    depth = len(c.r.effects.around(c.r.effects.loops[rec.region].outer))
    want = depth + (AFTER if t.head in ("Fold", "While") else ENTRY)
    if version != want:
        out += c.fault("order-kept", f"carry {k} of the loop {rec.region} is read from version {version} of {name} instead of {want}")
    op = rec.op
    assert isinstance(op, (kir.For, kir.While))
    owner = c.r.places(c.r.effects.scopes[op.results[k]], rec.outer.frame)
    coords: tuple[K, ...] = (*owner, *map(number, at)) or (number(ZERO),)
    place = c.coordinates(coords, n.attrs[2], n.args[2:], sigma, t.given, f"the load of carry {k}", out)
    have = c.at(n.args[0], sigma)
    env = c.unified(t.given, (have,))
    inside: list[Expr] = [conj(le(ZERO, x), lt(x, e)) for x, e in zip(place, c.a.abi.view(name).shape, strict=False)]
    if not c.reason.implied(have, [*(substitute(g, env) for g in t.given), *inside]):
        out += c.fault("accesses-complete", f"carry {k} of the loop {rec.region} is read where {have} only")
    return tuple(out)


__all__ = ["AFTER", "ENTRY", "FIRST", "NEXT", "carried", "keeps"]
