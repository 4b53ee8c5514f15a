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

from dataclasses import dataclass, field
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

    @property
    def enodes(self) -> int:
        return sum(map(len, self.classes))


#: class -> index of the chosen alternative; total on everything reachable from the root
Selection = dict[int, int]
