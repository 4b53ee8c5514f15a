"""Barriers inside a phase: a walk that keeps the accesses which no barrier divides from what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eqkir.program.barriers import lone_stores
from eqkir.program.model import Barrier, Item, Let, Loop, Store
from eqkir.program.verify_scope import Access, Phase, Report, lane_labels

if TYPE_CHECKING:
    from eqkir.program.verify_memory import Memory

Pending = frozenset[int]  # positions of accesses in the phase


class Barriers:
    """One phase. Bodies of ordered loops are walked twice, so that the end of a step meets the start of the next; in other loops,
    iterations touch different elements (`check_version`)."""

    def __init__(self, m: Memory, p: Phase, say: Report) -> None:
        self.m, self.p, self.say = m, p, say
        self.legal = m.program.stage == "legal"
        self.lone = lone_stores(p.segment.phases[p.number[1]])
        own = [a for a in m.accesses if a.phase is p]
        self.written = {a.alias for a in own if a.is_store}
        self.own = [a for a in own if a.alias in self.written]
        self.at: dict[str, list[int]] = {}
        for k, a in enumerate(self.own):
            self.at.setdefault(a.place.pointer, []).append(k)
        self.ordered = {x for axes in m.program.inner.values() for x in axes}
        self.told: set[str] = set()

    def block(self, items: tuple[Item, ...], pointer: str, pending: Pending) -> Pending:
        """Accesses not yet behind a barrier after the block."""
        for k, i in enumerate(items):
            at = f"{pointer}/{k}"
            match i:
                case Barrier():
                    pending = frozenset()
                case Let() | Store():
                    for n in self.at.get(at, ()):
                        self.meet(self.own[n], pending)
                    pending = pending.union(self.at.get(at, ()))
                case Loop():
                    once = self.block(i.body, f"{at}/body", pending)
                    pending = pending | once  # a loop may have no iteration
                    if i.axis in self.ordered:
                        pending = pending | self.block(i.body, f"{at}/body", once)
        return pending

    def meet(self, a: Access, pending: Pending) -> None:
        for n in sorted(pending):
            b = self.own[n]
            if a.alias == b.alias and self.depend(a, b) and a.place.pointer not in self.told:
                self.told.add(a.place.pointer)
                self.say(f"the access to {a.view} needs a barrier after that at {b.place.pointer}", a.place.pointer)

    def depend(self, a: Access, b: Access) -> bool:
        """Whether `a`, after `b`, needs a barrier between."""
        in_step = bool(set(a.inner) & set(b.inner) & {x.axis for x in a.place.common(b.place)})
        if a.is_store and not b.is_store:
            return in_step or (self.legal and not self.private(a, b))
        if a.commutes(b):
            return False
        return in_step and b.is_store

    def private(self, s: Access, x: Access) -> bool:
        """The same element, loaded for this store alone."""
        same = (x.view, x.ixs, set(lane_labels(x.dims))) == (s.view, s.ixs, set(lane_labels(s.dims)))
        return same and isinstance(x.place.item, Let) and self.lone.get(x.place.item.id) == s.place.item
