"""Why the chosen alternatives and not others: weights under the chosen row, what each other alternative would add, legality by row.

The figures are those of the additive form of the cost model, which extractors use; the last word has the exact cost of whole programs
(`eqkir.extract.choose`). What another alternative adds is the additive cost of the chosen selection with that one alternative in its
place, and with the cheapest derivation of every class that the selection does not have, less the cost of the chosen selection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from eqkir.driver.chain import Chain
from eqkir.extract.choose import problem
from eqkir.extract.cost import cost_model
from eqkir.extract.graph import Selection
from eqkir.extract.greedy import greedy
from eqkir.extract.labels import Bools
from eqkir.extract.problem import Problem

#: other alternatives whose cost is worked out
COMPARED = 4_000

#: rule of legality -> an e-node is refused under a row where … (`eqkir.extract.legality`, `eqkir.extract.cpu_legality`)
REASONS = {
    "bound": "a parameter of its labels or of its loops has no value",
    "covers": "a fragment over a whole axis is not known to cover its extent",
    "lanes": "its fragment has more lanes than the target allows",
    "registers": "its fragment takes more bytes than the target allows",
    "dot-dtype": "it uses the matrix path, which the target lacks for its dtypes",
    "dot-shape": "it uses the matrix path, and its fragment dimensions are not (free of a, free of b, bound)",
    "dot-minimum": "it uses the matrix path, and a dimension has fewer lanes than its minimum",
    "shared": "its staged operand tiles exceed the shared memory of a block",
    "matrix": "it uses a matrix unit, which the target lacks",
    "form": "it supplies a value in a form that the value does not have",
    "member": "no one implementation of the row's set does it, or another one does",
    "no implementation": "no implementation of the row's set does it",
    "several implementations": "more than one implementation of the row's set does it",
    "weight": "the cost model gives it no finite weight",
}
OTHER, CYCLE, NONE = "other", "cycle", "none"


@dataclass
class Why:
    """`weights[e]`: weight of an e-node under the chosen row, None where illegal; `verdicts`: table of (rule -> rows), `verdict[e]`: its
    entry; `differences[class, alternative]`: (kind, added cost); `share[class]`: what a class of the chosen program contributes."""

    weights: list[float | None]
    verdicts: list[dict[str, list[list[int]]]]
    verdict: list[int]
    share: dict[int, float]
    row: int | None
    rows: list[str]
    first: list[int]  # of each class, the number of its first e-node
    differences: dict[tuple[int, int], tuple[str, float]] = field(default_factory=dict)
    legal_others: int = 0  # alternatives of the chosen program's classes that were not chosen and are legal under the chosen row
    total: float = 0.0


def figure(x: float) -> float:
    """Six significant digits."""
    return float(f"{x:.6g}")


def why(chain: Chain, most: int = COMPARED) -> Why:
    """What there is to say about the choice of a chain. `most`: alternatives that are compared by cost. Raises EqkirError."""
    choice, model = chain.choice, cost_model(chain.options.cost_model)
    every, _ = problem(chain.saturated.graph, chain.abstract, chain.target, chain.steering, model)
    rows = [f"{r.template}: {r}" for r in every.rows]
    rest = "weight" if chain.machine == "gpu" else "member"
    verdicts, verdict = _verdicts(every, rest)
    if choice.row is None or choice.selection is None:
        return Why([], verdicts, verdict, {}, None, rows, every.first)
    at = next((i for i, r in enumerate(every.rows) if r == choice.row), None)
    p, _ = problem(chain.saturated.graph, chain.abstract, chain.target, chain.steering, model, [choice.row])
    weights = [None if w == inf else figure(w) for w in p.weight[:, 0].tolist()]
    out = Why(weights, verdicts, verdict, _shares(p, choice.selection), at, rows, every.first, total=p.cost(choice.selection, 0))
    _compare(p, choice.selection, out, most)
    return out


def _verdicts(p: Problem, rest: str) -> tuple[list[dict[str, list[list[int]]]], list[int]]:
    """Distinct ways of being refused, as rule -> runs of rows [first, last], and which one each e-node has."""
    table: dict[bytes, int] = {}
    entries: list[dict[str, list[list[int]]]] = []
    out = []
    illegal = p.weight == inf
    for e, refused in enumerate(p.refused):
        named: Mapping[str, Bools] = refused
        left = illegal[e] & ~np.logical_or.reduce(list(named.values())) if named else illegal[e]
        if left.any():
            named = {**named, rest: left}
        key = b"".join(k.encode() + v.tobytes() for k, v in sorted(named.items()))
        if key not in table:
            table[key] = len(entries)
            entries.append({k: _runs(np.flatnonzero(v).tolist()) for k, v in sorted(named.items())})
        out.append(table[key])
    return entries, out


def _runs(xs: Sequence[int]) -> list[list[int]]:
    out: list[list[int]] = []
    for x in xs:
        if out and out[-1][1] == x - 1:
            out[-1][1] = x
        else:
            out.append([x, x])
    return out


def _reach(p: Problem, s: Mapping[int, int], roots: Iterable[int]) -> list[int]:
    seen = dict.fromkeys(roots)
    todo = list(seen)
    while todo:
        c = todo.pop()
        for k in p.graph.classes[c][s[c]].kids:
            if k not in seen:
                seen[k] = None
                todo.append(k)
    return list(seen)


def _shares(p: Problem, s: Selection) -> dict[int, float]:
    """What each class adds to `Problem.cost`: its weight, in a segment's body times the segment's instances; they sum up to the cost."""
    out: dict[int, float] = {}
    seen, todo = {p.graph.root}, [p.graph.root]
    while todo:
        c = todo.pop()
        n, e = p.graph.classes[c][s[c]], p.first[c] + s[c]
        out[c] = out.get(c, 0.0) + float(p.weight[e, 0])
        if e in p.scale:
            for d in _reach(p, s, n.kids):
                out[d] = out.get(d, 0.0) + float(p.scale[e][0]) * float(p.weight[p.first[d] + s[d], 0])
            continue
        for k in n.kids:
            if k not in seen:
                seen.add(k)
                todo.append(k)
    return {c: figure(out.get(c, 0.0)) for c in sorted(s)}


def _compare(p: Problem, s: Selection, out: Why, most: int) -> None:
    """Fill `differences`."""
    g, picks, done = p.graph, greedy(p)[:, 0].tolist(), 0
    for c in sorted(s):
        for j, n in enumerate(g.classes[c]):
            if j == s[c] or out.weights[p.first[c] + j] is None:
                continue
            out.legal_others += 1
            if done >= most:
                continue
            done += 1
            out.differences[c, j] = _difference(p, s, picks, c, j, out.total) if c not in n.kids else (CYCLE, 0.0)


def _difference(p: Problem, s: Selection, picks: Sequence[int], c: int, j: int, total: float) -> tuple[str, float]:
    full = {**s, c: j}
    seen = dict.fromkeys(p.graph.classes[c][j].kids)
    todo = list(seen)
    while todo:  # below the alternative: the selection where it has the class, else the cheapest
        d = todo.pop()
        if d == c:
            return CYCLE, 0.0
        full.setdefault(d, picks[d])
        if full[d] < 0:
            return NONE, 0.0
        for k in p.graph.classes[d][full[d]].kids:
            if k not in seen:
                seen[k] = None
                todo.append(k)
    return OTHER, figure(p.cost(full, 0) - total)
