"""E-nodes as arrays, and the order in which classes and alternatives are numbered: from structure alone, whatever egglog's ids are.

Everything here works on whole arrays: a graph of tens of thousands of e-nodes has few different operations at few places, so what an
e-node says about itself is a number (`Flat.static`), and the rest is sorting numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
#: (operation, labels, path, attributes, implementation)
Static = tuple[str, tuple[str, ...] | None, Any, tuple[Any, ...], str]


@dataclass
class Flat:
    """E-node i is alternative of class ``owner[i]``, says ``statics[static[i]]`` and has the operand classes ``kids[i]``, -1 past the
    last. `classes` counts all classes, those without alternatives too."""

    classes: int
    statics: list[Static]
    owner: Ints
    static: Ints
    kids: Ints

    def only(self, nodes: NDArray[np.bool_]) -> Flat:
        """The same classes with some of their alternatives."""
        return Flat(self.classes, self.statics, self.owner[nodes], self.static[nodes], self.kids[nodes])


def starts(owner: Ints, n: int) -> Ints:
    """Where each of `n` owners begins in an ascending array, and the end."""
    return np.searchsorted(owner, np.arange(n + 1))


def spans(start: Ints, which: Ints) -> Ints:
    """The members ``start[w] .. start[w + 1]`` of each w, one after the other."""
    count = start[which + 1] - start[which]
    total = int(count.sum())
    return np.repeat(start[which] - np.cumsum(count) + count, count) + np.arange(total)


def productive(f: Flat) -> Flat:
    """Without e-nodes that no finite term uses (a stage that is asked for and cannot exist)."""
    known = f.kids >= 0
    missing = known.sum(1)
    node, operand = np.nonzero(known)[0], f.kids[known]
    order = np.argsort(operand, kind="stable")
    users, start = node[order], starts(operand[order], f.classes)
    done = np.zeros(f.classes, bool)
    new = np.unique(f.owner[missing == 0])
    while len(new):
        done[new] = True
        used = users[spans(start, new)]
        np.subtract.at(missing, used, 1)
        found = np.unique(f.owner[used[missing[used] == 0]])
        new = found[~done[found]]
    return f.only(missing == 0)


def reachable(f: Flat, root: int) -> Flat:
    """Without classes that the root does not reach. E-nodes are in the order of their owners afterwards, those of one as they were."""
    order = np.argsort(f.owner, kind="stable")
    f = Flat(f.classes, f.statics, f.owner[order], f.static[order], f.kids[order])
    start = starts(f.owner, f.classes)
    seen = np.zeros(f.classes, bool)
    new = np.array([root])
    while len(new):
        seen[new] = True
        kids = np.unique(f.kids[spans(start, new)])
        kids = kids[kids >= 0]
        new = kids[~seen[kids]]
    return f.only(seen[f.owner])


def ranks(xs: list[Any]) -> Ints:
    """The rank of each among the different ones."""
    place = {x: i for i, x in enumerate(sorted(set(xs)))}
    return np.array([place[x] for x in xs], np.int64)


def colours(f: Flat) -> Ints:
    """A colour a class from structure alone (partition refinement on sorted signatures); equal colours mean bisimilar classes.

    A class's signature is its colour and the sorted signatures of its e-nodes: what they are and the colours of their operands. A round
    replaces colours by the ranks of signatures, so colours of one round refine, and keep the order of, those of the round before. Only
    classes that share their colour need a signature. Classes without alternatives have colours that say nothing."""
    text = [str((op, labels, path, tuple(map(str, attrs)), *([by] if by else []))) for op, labels, path, attrs, by in f.statics]
    static = ranks(text)[f.static] if text else f.static
    present = np.unique(f.owner)
    at = np.zeros(f.classes, np.int64)
    at[present] = np.arange(len(present))
    owner, n = at[f.owner], len(present)
    kids = np.where(f.kids < 0, -1, at[f.kids])
    colour, count = np.zeros(n, np.int64), 1
    while True:
        shared = np.bincount(colour, minlength=count)[colour] > 1
        of = np.flatnonzero(shared[owner])
        sig = np.zeros(n, np.int64)
        if len(of):
            key = _keys(static[of], kids[of], colour, count)
            order = np.lexsort((key, owner[of]))
            owners = owner[of][order]
            cuts = np.flatnonzero(np.diff(owners, prepend=-1))
            texts, ends = key[order].astype(">u4").tobytes(), (4 * np.append(cuts[1:], len(owners))).tolist()
            sig[owners[cuts]] = ranks([texts[a:b] for a, b in zip((4 * cuts).tolist(), ends, strict=True)])
        new = np.unique(colour * (int(sig.max(initial=0)) + 1) + sig, return_inverse=True)[1]
        found = int(new.max(initial=-1)) + 1
        colour = new
        if found == count:
            out = np.zeros(f.classes, np.int64)
            out[present] = colour
            return out
        count = found


def _keys(static: Ints, kids: Ints, colour: Ints, count: int) -> Ints:
    """Ranks of (static, colours of the operands); a missing operand is less than every colour, as a shorter tuple than a longer one. As
    many columns as fit into 62 bits are ranked at a time."""
    key, size = static, int(static.max(initial=0)) + 1
    for column in kids.T:
        if (column < 0).all():
            continue
        if size * (count + 1) >= 1 << 62:
            key = np.unique(key, return_inverse=True)[1]
            size = int(key.max(initial=0)) + 1
        key = key * (count + 1) + np.where(column < 0, 0, colour[column] + 1)
        size *= count + 1
    return np.unique(key, return_inverse=True)[1]


@dataclass
class Numbered:
    """Classes in their final order (`order[i]`: the class that is number i) with their alternatives: `first[i]` .. `first[i + 1]` in
    `static` and `kids`, operands by final number. Alternatives that are equal are there once."""

    order: list[int]
    first: list[int]
    static: Ints
    kids: Ints


def numbered(f: Flat, root: int) -> Numbered:
    """Breadth first from the root, alternatives by what they say and the colours of their operands. `f` is reachable from the root."""
    colour = colours(f)
    said = ranks([(op, labels or (), path or (), tuple(map(str, attrs))) for op, labels, path, attrs, _ in f.statics])
    by = ranks([s[-1] for s in f.statics])
    columns = [np.where(k < 0, -1, colour[k]) for k in f.kids.T]
    order = np.lexsort((by[f.static], *columns[::-1], said[f.static], f.owner))
    static, kids, start = f.static[order], f.kids[order], starts(f.owner, f.classes).tolist()
    known = kids >= 0
    after = np.concatenate(([0], np.cumsum(known.sum(1)))).tolist()  # where each e-node's operands begin
    flat = kids[known].tolist()
    number = [-1] * f.classes
    number[root] = 0
    sequence = [root]
    for c in sequence:
        for k in flat[after[start[c]] : after[start[c + 1]]]:
            if number[k] < 0:
                number[k] = len(sequence)
                sequence.append(k)
    begin = np.array(start)
    take = spans(begin, np.array(sequence))
    owner = np.repeat(np.arange(len(sequence)), (begin[1:] - begin[:-1])[sequence])
    static, kids = static[take], kids[take]
    kids = np.where(kids < 0, -1, np.array(number)[kids])
    once = _once(owner, static, kids)
    return Numbered(sequence, starts(owner[once], len(sequence)).tolist(), static[once], kids[once])


def _once(owner: Ints, static: Ints, kids: Ints) -> NDArray[np.bool_]:
    """Which e-nodes are not equal to one before them in their class."""
    order = np.lexsort((*kids.T, static, owner))
    rows = np.column_stack((owner, static, kids))[order]
    same = np.zeros(len(owner), bool)
    same[order[1:]] = (rows[1:] == rows[:-1]).all(1)
    return ~same
