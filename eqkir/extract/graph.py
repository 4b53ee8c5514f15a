"""A frozen e-graph as plain data: what extractors, cost models and exchange formats work on. It knows no egglog.

Realised classes only (requests and abstract values are left behind). Classes are numbered in a canonical order that does not depend
on egglog's own ids, so equal e-graphs give equal numbering. Operations of e-nodes, with the sort of their class:

F    FConst FScalar FIndex FLoad FUn FBin FTri FCast FBitcast FPick FArg FRedTree FRedLoop FRedNTree FRedNLoop FConWhole FConLoop
     FConAccWhole FConAccLoop FReady     values, realised at a context and position
FL   FNil FCons                          lists of them
S    SStore SPar SSeq                    statements: a store, unordered pair, ordered pair (a barrier between)
T    TUnit TAx TProd TRev TInter TSwz    orders of program space
SG   Seg                                 attrs (group, mode), kids (T, S)
SGL  SGNil SGCons                        the program: its segments in order
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

Path = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class ENode:
    """`labels`: the iteration space (free and bound labels), sorted; `path`: enclosing loops (axis, label, stage), outermost first,
    None where the node has no place of its own; `attrs`: in the order of the operation table; `kids`: class numbers; `by`: the
    implementation that does the operation (CPU family; empty: not said)."""

    op: str
    labels: tuple[str, ...] | None
    path: Path | None
    attrs: tuple[Any, ...]
    kids: tuple[int, ...]
    by: str = ""


@dataclass
class FrozenGraph:
    """`classes[c]` are the alternatives of class c, in a canonical order; `dtypes[c]` is the dtype of an F class, else ``""``."""

    classes: list[tuple[ENode, ...]]
    sorts: list[str]
    dtypes: list[str]
    root: int
    origins: list[str] = field(default_factory=list)  # of each class, for comments only
    #: class -> tokens of steering values that it realises (`eqkir.terms.steer`): all classes of one token must agree in their operations
    steer: dict[int, tuple[str, ...]] = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)  # what readers have found out about it, by name

    @property
    def operands(self) -> list[tuple[int, ...]]:
        """The different operand classes of every class."""
        if "operands" not in self.derived:
            self.derived["operands"] = [
                tuple(dict.fromkeys(ns[0].kids)) if len(ns) == 1 else tuple(dict.fromkeys(chain.from_iterable(n.kids for n in ns)))
                for ns in self.classes
            ]
        found: list[tuple[int, ...]] = self.derived["operands"]
        return found

    @property
    def enodes(self) -> int:
        return sum(map(len, self.classes))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by what e-nodes say, each said once: most e-nodes of a graph differ in operands only."""
        said: dict[tuple[Any, ...], int] = {}
        told: list[tuple[Any, ...]] = []
        of, counts, kids = array("q"), array("q"), array("q")
        for n in chain.from_iterable(self.classes):
            key = (n.op, id(n.labels), id(n.path), id(n.attrs), n.by)
            i = said.get(key)
            if i is None:
                i = said[key] = len(told)
                told.append((n.op, n.labels, n.path, n.attrs, n.by))
            of.append(i)
            counts.append(len(n.kids))
            kids.extend(n.kids)
        sizes = array("q", map(len, self.classes))
        return _unpacked, (told, of, counts, kids, sizes, self.sorts, self.dtypes, self.root, self.origins, self.steer)


def _unpacked(
    told: list[tuple[Any, ...]], of: array[int], counts: array[int], kids: array[int], sizes: array[int], *rest: Any
) -> FrozenGraph:
    operands = iter(kids)
    nodes = iter(
        [
            ENode(op, labels, path, attrs, tuple(islice(operands, n)), by)
            for (op, labels, path, attrs, by), n in zip(map(told.__getitem__, of), counts, strict=True)
        ]
    )
    return FrozenGraph([tuple(islice(nodes, n)) for n in sizes], *rest)


#: class -> index of the chosen alternative; total on everything reachable from the root
Selection = dict[int, int]
