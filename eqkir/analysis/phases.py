"""Phases of an execution group, and levels of the steps of its ordered loops: in which order the stores of an instance run.

Every read that a store may overwrite too early either is *safe* in one phase with the store, or comes in an earlier phase, or reads a
copy made in an earlier phase. Safe: the read happens once before the store's loops (what is read, or the outermost structured operation
around it, depends on instance axes only), or it reads through the store's own injective index map.

An ordered loop is one item of the block around it, with the stores inside it. Its own block is planned likewise: its **levels** are to a
step what phases are to an instance, and its axis counts as an instance axis there. A conflict is settled in the innermost block that both
accesses share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from eqkir.analysis.coords import Facts, injective
from eqkir.analysis.worksets import Read, Write, conflict, ordered, parts

#: levels of a store in the blocks of the ordered loops around it, outermost first, zeros at the end left out
Level = tuple[int, ...]


class NoOrder(Exception):
    """No order of stores, reads and copies gives every read its value."""


@dataclass
class Plan:
    """`phases`: store indices by phase; `copies`: (phase, load node) of loaded values kept in a workspace; `reads_copy`: (store, load);
    `copy_reads`: (load, load): the first one's copy is made with the second one's.
    Inside ordered loops: `levels` of stores, and (axes of the loops, level) of copies."""

    phases: list[list[int]]
    copies: list[tuple[int, int]] = field(default_factory=list)
    reads_copy: frozenset[tuple[int, int]] = frozenset()
    copy_reads: frozenset[tuple[int, int]] = frozenset()
    levels: dict[int, Level] = field(default_factory=dict)
    inside: dict[int, tuple[tuple[str, ...], Level]] = field(default_factory=dict)


def safe(r: Read, w: Write, same: bool, own: Sequence[str], facts: Facts) -> bool:
    """Whether an older value may be read in the phase of the store that overwrites it. `same`: reader and store share their loops."""
    inside = frozenset(own)
    if not all(s <= inside for s in r.spans):
        return False
    if not r.direct or r.free <= inside:
        return True
    return same and not r.opaque and not w.opaque and (r.view, r.ixs) == (w.view, w.ixs) and injective(w.ixs, w.axes, facts)


def plan(writes: Sequence[Write], own: Sequence[str], facts: Facts) -> Plan:
    """Phases of a group in which no read comes too late and no store too early; copies only where no order helps. Raises NoOrder."""
    out = Plan([])
    users: set[tuple[int, int]] = set()
    nested: set[tuple[int, int]] = set()

    def block(members: Sequence[int], axes: tuple[str, ...], level: Level, phase: int | None) -> None:
        b = next((b for b in (_Block(writes, members, axes, own, facts, late) for late in (False, True)) if b.level is not None), None)
        if b is None or b.level is None:
            raise NoOrder
        users.update(b.users)
        nested.update(b.nested)
        nested.update((n, m) for k, n in b.users for m in b.copied[n].under if (k, m) in users and m not in b.copied)
        if phase is None:
            out.phases.extend([] for _ in range(max(b.level, default=-1) + 1))
        here = [at if phase is None else phase for at in b.level]
        for k in members:
            item = b.item[k]
            if len(writes[k].inner) == len(axes):
                out.phases[here[item]].append(k)
                out.levels[k] = trimmed((*level, b.level[item]) if axes else ())
        for n, node in enumerate(b.copied, len(b.items)):
            out.copies.append((here[n], node))
            if axes:
                out.inside[node] = axes, trimmed((*level, b.level[n]))
        for n, name in enumerate(b.items):
            if isinstance(name, str):
                inner = [k for k in members if b.item[k] == n]
                block(inner, (*axes, name), (*level, b.level[n]) if axes else (), here[n])

    block(range(len(writes)), (), (), None)
    for members in out.phases:
        members.sort()
    out.reads_copy, out.copy_reads = frozenset(users), frozenset(nested)
    return out


def trimmed(level: Level) -> Level:
    while level and level[-1] == 0:
        level = level[:-1]
    return level


def shared(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """Loops in common."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


class _Block:
    """The items of one block (stores, and ordered loops by their axes), and the least level of each; None where no order does.

    `late`: values read after they were overwritten by an earlier store are copied; otherwise their stores are reordered.
    """

    def __init__(
        self, writes: Sequence[Write], members: Sequence[int], axes: tuple[str, ...], own: Sequence[str], facts: Facts, late: bool
    ) -> None:
        self.writes, self.members, self.facts, self.late = writes, members, facts, late
        self.depth, self.inside = len(axes), (*own, *axes)
        self.items: list[int | str] = []
        self.item: dict[int, int] = {}
        for k in members:
            inner = writes[k].inner
            name: int | str = k if len(inner) == self.depth else inner[self.depth]
            if name not in self.items:
                self.items.append(name)
            self.item[k] = self.items.index(name)
        self.copied: dict[int, Read] = {}
        self.users: list[tuple[int, int]] = []
        self.nested: list[tuple[int, int]] = []  # copies that are made with other copies
        self.reads = {r.node: r for k in members for r in writes[k].reads if len(r.inner) >= self.depth}
        #: (a, b, 1): a's level before b's; (a, b, 0): not after
        self.edges: list[tuple[int, int, int]] = []
        for k in members:
            for r in writes[k].reads:
                if len(r.inner) >= self.depth:
                    self.read(k, r)
        for n, j in enumerate(members):
            self.edges += [(self.item[j], self.item[k], 1) for k in members[n + 1 :] if self.apart(j, k) and self.meets(j, k)]
        self.copies()
        self.level = _levels(len(self.items) + len(self.copied), self.edges)

    def apart(self, j: int, k: int) -> bool:
        return self.item[j] != self.item[k]

    def meets(self, j: int, k: int) -> bool:
        return conflict(self.writes[j], self.writes[k], self.facts) or ordered(self.writes[j], self.writes[k])

    def plain(self, k: int) -> bool:
        return len(self.writes[k].inner) == self.depth

    def read(self, k: int, r: Read) -> None:
        """Where store `k`, which reads `r`, stands to the stores that it meets in this block."""
        w = self.writes
        mine = [j for j in self.members if shared(r.inner, w[j].inner) == self.depth]
        over = [j for j in mine if w[j].alias == r.alias and w[j].version > r.version]
        made = self.makers(r)
        unsafe = [j for j in over if not self.safe(k, j, r)]
        early = self.late and len(r.inner) == self.depth and any(j < k for j in over)
        if r.late:
            return
        if early or any(not self.apart(j, k) for j in unsafe):
            self.copied.setdefault(r.node, r)
            self.users.append((k, r.node))
            return
        self.edges += [(self.item[k], self.item[j], int(j in unsafe or not self.plain(j))) for j in over if self.apart(j, k)]
        self.edges += [(self.item[j], self.item[k], 1) for j in made if self.apart(j, k)]

    def makers(self, r: Read) -> list[int]:
        """Stores of this block that a read sees."""
        mine = [j for j in self.members if shared(r.inner, self.writes[j].inner) == self.depth]
        return [j for j in mine if any(x.alias == r.alias and x.version <= r.version for x in parts(self.writes[j]))]

    def safe(self, k: int, j: int, r: Read) -> bool:
        w, own = self.writes, self.inside
        same = self.plain(k) and self.plain(j) and (j == k or w[j].nest(own) == w[k].nest(own))
        return safe(r, w[j], same, own, self.facts)

    def below(self) -> None:
        """What a copy's coordinates and validity are loaded from is read before it is overwritten, or from a copy itself."""
        reads = self.reads
        todo = list(self.copied)
        while todo:
            node = todo.pop()
            for m in self.copied[node].under:
                r = reads.get(m)
                if r is None or not any(self.writes[j].alias == r.alias and self.writes[j].version > r.version for j in self.members):
                    continue
                if m not in self.copied:
                    self.copied[m] = r
                    todo.append(m)
                self.nested.append((node, m))

    def copies(self) -> None:
        self.below()
        w, base = self.writes, len(self.items)
        for n, r in enumerate(self.copied.values(), base):
            for j in self.members:
                if w[j].alias == r.alias and shared(r.inner, w[j].inner) == self.depth:
                    i = self.item[j]
                    self.edges.append((n, i, 1) if w[j].version > r.version else (i, n, 1))
            under = [self.reads[m] for m in r.under if m in self.reads and m not in self.copied]
            self.edges += [(self.item[j], n, 1) for m in under for j in self.makers(m)]
        number = {node: base + n for n, node in enumerate(self.copied)}
        self.edges += [(number[node], self.item[k], 1) for k, node in self.users]
        self.edges += [(number[m], number[node], 1) for node, m in self.nested]


def _levels(n: int, edges: Sequence[tuple[int, int, int]]) -> list[int] | None:
    """Least levels with ``level[b] >= level[a] + weight``; None when a cycle has weight."""
    level = [0] * n
    edges = sorted(set(edges))
    for _ in range(n + 1):
        changed = False
        for a, b, w in edges:
            if level[b] < level[a] + w:
                level[b] = level[a] + w
                changed = True
        if not changed:
            return level
    return None


__all__ = ["Level", "NoOrder", "Plan", "plan", "safe"]
