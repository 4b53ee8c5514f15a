"""Realised programs as a hash-consed DAG, before blocks are laid out: what the conservative realisation makes and what decode reads.

`labels` is a node's iteration space (free and bound labels); `path` its position: enclosing loops ``(axis, label, stage)``, outermost
first. A looping node has the path of its body; it stands, and its result is read, in the block outside that loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Path = tuple[tuple[str, str, int], ...]
#: the position of a combine region's body
FN: Path = (("@fn", "", 0),)
Kid = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RNode:
    op: str  # a name of the operation table's realised rows, or ``SStore``
    labels: tuple[str, ...] | None
    path: Path | None
    attrs: tuple[Any, ...]
    kids: tuple[Kid, ...]
    by: str = ""  # the implementation that does it (CPU family)


@dataclass
class Dag:
    nodes: list[RNode] = field(default_factory=list)
    _ids: dict[RNode, int] = field(default_factory=dict)

    def make(self, n: RNode) -> int:
        """The id of this node, new or existing; children come first."""
        if n not in self._ids:
            self._ids[n] = len(self.nodes)
            self.nodes.append(n)
        return self._ids[n]


@dataclass(frozen=True)
class SegmentDag:
    """One segment: mode, order term, and the stores of each phase (ids into the DAG)."""

    mode: str
    order: tuple[Any, ...]
    phases: tuple[tuple[int, ...], ...]


def flat(kids: tuple[Kid, ...]) -> list[int]:
    """Children with lists flattened."""
    return [k for x in kids for k in (x if isinstance(x, tuple) else (x,))]


def erase(dag: Dag, segments: list[SegmentDag], origin: dict[int, str]) -> tuple[Dag, list[SegmentDag], dict[int, str]]:
    """Drop stages (`FReady`); nodes that become equal become one."""
    out = Dag()
    new: dict[int, int] = {}
    names: dict[int, str] = {}
    for i, n in enumerate(dag.nodes):
        if n.op == "FReady":
            new[i] = new[flat(n.kids)[0]]
        else:
            kids = tuple(tuple(new[j] for j in k) if isinstance(k, tuple) else new[k] for k in n.kids)
            new[i] = out.make(RNode(n.op, n.labels, n.path, n.attrs, kids, n.by))
        if i in origin:
            names.setdefault(new[i], origin[i])
    segs = [SegmentDag(s.mode, s.order, tuple(tuple(new[i] for i in ph) for ph in s.phases)) for s in segments]
    return out, segs, names
