"""What every extractor of plain e-graphs starts from: the alternatives that can matter, components, and lower bounds.

Alternatives fall away where no choice needs them: subsumed ones, those that use their own class, those without a finite derivation, and,
where no cost is negative, those with an equally cheap alternative of the same class that needs no more classes (replacing one by the
other keeps a choice closed and acyclic and makes it no dearer). So the least cost stays what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from eqkir.extract.components import components
from eqkir.extract.plain.graph import Plain, unique


@dataclass(frozen=True, slots=True)
class Option:
    """An alternative that is left: its index in its class, cost, operand classes without repeats."""

    index: int
    cost: float
    kids: tuple[int, ...]


@dataclass
class Prepared:
    """`options[c]` for the classes that the roots can reach; empty when some root has no finite derivation."""

    graph: Plain
    options: dict[int, list[Option]]
    negative: bool
    _cache: dict[str, object] = field(default_factory=dict, repr=False)

    @property
    def feasible(self) -> bool:
        return all(r in self.options for r in self.graph.roots)

    @cached_property
    def components(self) -> list[list[int]]:
        """Strongly connected components, children first."""
        return components({c: unique(k for o in os for k in o.kids) for c, os in self.options.items()}, self.graph.roots)

    @cached_property
    def component(self) -> dict[int, int]:
        return {c: i for i, comp in enumerate(self.components) for c in comp}

    @cached_property
    def cyclic(self) -> frozenset[int]:
        """Classes that lie on cycles."""
        return frozenset(c for comp in self.components if len(comp) > 1 for c in comp)

    @cached_property
    def required(self) -> dict[int, int]:
        """Bit set of the classes that every choice for a class contains (greatest fixpoint)."""
        every = 0
        for c in self.options:
            every |= 1 << c
        out = dict.fromkeys(self.options, every)
        for comp in self.components:
            changed = True
            while changed:
                changed = False
                for c in comp:
                    new = every
                    for o in self.options[c]:
                        below = 0
                        for k in o.kids:
                            below |= out[k]
                        new &= below
                    new |= 1 << c
                    if new != out[c]:
                        out[c] = new
                        changed = len(comp) > 1
        return out

    @cached_property
    def bound(self) -> float:
        """No choice costs less: the least costs of the classes that every choice contains; where costs are negative, all of those too."""
        if not self.feasible:
            return float("inf")
        least = {c: min(o.cost for o in os) for c, os in self.options.items()}
        needed = 0
        for r in self.graph.roots:
            needed |= self.required[r]
        return sum(x for c, x in sorted(least.items()) if needed >> c & 1 or x < 0)


def prepare(g: Plain) -> Prepared:
    """Raises nothing; an e-graph without any finite derivation gives `feasible` False."""
    options = {
        c: [Option(j, a.cost, unique(a.kids)) for j, a in enumerate(ns) if not a.subsumed and c not in a.kids]
        for c, ns in enumerate(g.classes)
    }
    negative = g.negative
    options = _derivable(options)
    if not negative:
        tied = {c for group in g.tied for c in group}
        options = {c: os if c in tied else undominated(os) for c, os in options.items()}
    return Prepared(g, reachable(options, g.roots), negative)


def _derivable(options: Mapping[int, list[Option]]) -> dict[int, list[Option]]:
    """Without alternatives that no finite term uses."""
    users: dict[int, list[tuple[int, int]]] = {}
    missing: dict[tuple[int, int], int] = {}
    done: set[int] = set()
    queue: list[int] = []
    for c, os in options.items():
        for i, o in enumerate(os):
            missing[c, i] = len(o.kids)
            for k in o.kids:
                users.setdefault(k, []).append((c, i))
            if not o.kids and c not in done:
                done.add(c)
                queue.append(c)
    while queue:
        for c, i in users.get(queue.pop(), ()):
            missing[c, i] -= 1
            if not missing[c, i] and c not in done:
                done.add(c)
                queue.append(c)
    return {c: [o for i, o in enumerate(os) if not missing[c, i]] for c, os in options.items() if c in done}


def undominated(options: list[Option]) -> list[Option]:
    """Costs not negative: without alternatives that need a superset of another's operands and cost no less."""
    if len(options) == 1:
        return options
    out: list[tuple[frozenset[int], Option]] = []
    for o in sorted(options, key=lambda o: (o.cost, len(o.kids), o.index)):
        kids = frozenset(o.kids)
        if not any(k <= kids for k, _ in out):
            out.append((kids, o))
    return sorted((o for _, o in out), key=lambda o: o.index)


def reachable(options: Mapping[int, list[Option]], roots: Iterable[int]) -> dict[int, list[Option]]:
    """Classes that the roots can reach, ascending; nothing where a root is missing."""
    roots = list(roots)
    if any(r not in options for r in roots):
        return {}
    seen = set(roots)
    todo = list(seen)
    while todo:
        for o in options[todo.pop()]:
            for k in o.kids:
                if k not in seen:
                    seen.add(k)
                    todo.append(k)
    return {c: options[c] for c in sorted(seen)}


def trimmed(p: Prepared, cost: float) -> Prepared:
    """Without alternatives that no choice of at most `cost` contains: what the roots, the class and the operands require costs more.
    Exact for costs that are not negative (else everything stays)."""
    if p.negative or not p.feasible:
        return p
    least = {c: min(o.cost for o in os) for c, os in p.options.items()}
    limit = cost * (1 + 1e-9) + 1e-300
    roots = 0
    for r in p.graph.roots:
        roots |= p.required[r]
    base = p.bound
    kept: dict[int, list[Option]] = {}
    for c, os in p.options.items():
        kept[c] = []
        for o in os:
            extra = 1 << c
            for k in o.kids:
                extra |= p.required[k]
            extra &= ~roots
            more = o.cost - least[c]
            while extra:
                low = extra & -extra
                more += least[low.bit_length() - 1]
                extra ^= low
            if base + more <= limit:
                kept[c].append(o)
    return Prepared(p.graph, reachable(_derivable(kept), p.graph.roots), p.negative)
