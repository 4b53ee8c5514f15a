"""A plain e-graph: what the extraction literature works on.

A *choice* maps classes to one of their alternatives. Its DAG cost is the sum of the costs of the distinct classes that the roots reach
through it. Costs are finite, of either sign; a subsumed alternative exists and may not be chosen.

`tied` names classes that stand for one class in several places (`lower`): their alternatives agree in number and order, and a choice
that takes different ones denotes nothing. An extractor may leave ties alone: it then solves a relaxation, its bound still holds, and
whoever lifts the choice recomputes the cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

#: class -> index of the chosen alternative; total on everything reachable from the roots
Choice = dict[int, int]


@dataclass(frozen=True, slots=True)
class Alt:
    """One e-node. `kids`: class numbers in order, repeats included; `id` and `refs` (the node ids that stood for the operands) are kept
    for exchange only."""

    op: str
    cost: float
    kids: tuple[int, ...] = ()
    subsumed: bool = False
    id: str = ""
    refs: tuple[str, ...] = ()


@dataclass
class Plain:
    """`names[c]` is the e-class id; `data[name]` what the file says of the class; `extra` other members of the file."""

    classes: list[tuple[Alt, ...]]
    roots: tuple[int, ...]
    names: list[str] = field(default_factory=list)
    tied: tuple[tuple[int, ...], ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def enodes(self) -> int:
        return sum(map(len, self.classes))

    @property
    def negative(self) -> bool:
        """Whether some cost is below zero."""
        return any(a.cost < 0 for ns in self.classes for a in ns)

    def reached(self, choice: Choice) -> list[int]:
        """Classes that the roots reach through a choice, in order of discovery. Raises KeyError where it is not closed."""
        seen = dict.fromkeys(self.roots)
        todo = list(seen)
        while todo:
            c = todo.pop()
            for k in self.classes[c][choice[c]].kids:
                if k not in seen:
                    seen[k] = None
                    todo.append(k)
        return list(seen)

    def restricted(self, choice: Choice) -> Choice:
        """The part of a choice that the roots reach, by class number."""
        return {c: choice[c] for c in sorted(self.reached(choice))}

    def cost(self, choice: Choice) -> float:
        """DAG cost of a choice."""
        return sum(self.classes[c][choice[c]].cost for c in sorted(self.reached(choice)))

    def unified(self, choice: Choice) -> Choice:
        """The choice with tied classes equal: of each group the class that a depth-first walk from the roots meets first counts. What was
        walked before is closed, so what follows stays acyclic."""
        if not self.tied:
            return choice
        group = {c: i for i, g in enumerate(self.tied) for c in g}
        fixed: dict[int, int] = {}
        out = dict(choice)
        seen: set[int] = set()
        todo = list(reversed(self.roots))
        while todo:
            c = todo.pop()
            if c in seen:
                continue
            seen.add(c)
            if c in group:
                out[c] = fixed.setdefault(group[c], out[c])
            todo += reversed(self.classes[c][out[c]].kids)
        return out


def unique(xs: Iterable[int]) -> tuple[int, ...]:
    """Without repeats, in order."""
    return tuple(dict.fromkeys(xs))
