"""From a frozen graph to one program: rows, extraction by additive weights, exact cost of whole programs, verification in order of cost.

1. Binding rows of the target (`rows`), legality of every e-node under every row (`legality`), weights (the cost model's additive form).
2. The extractor proposes a selection a row. Each distinct structure is decoded once and costed exactly under all rows that picked it; the
   orders and modes of the best structures' segments are varied besides, because their effect (reuse between instances) is not additive.
3. In order of exact cost (ties by digest): whole-program limits, then `verify`. The first program that survives is chosen.
4. When none of the `k` best does, the rest is tried; at last P0, reported as such (`Choice.fallback`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eqkir.base.diagnostics import Diagnostic, EqkirError
from eqkir.extract.cost import Cost, CostModel, checked, cost_model
from eqkir.extract.cpu_legality import cpu_legality
from eqkir.extract.cpu_rows import cpu_rows
from eqkir.extract.extents import Extents
from eqkir.extract.extractors import Candidate, extract, extractor
from eqkir.extract.graph import FrozenGraph, Selection
from eqkir.extract.keeping import keeping
from eqkir.extract.labels import LabelTable
from eqkir.extract.legality import legality
from eqkir.extract.narrowed import of_abstract
from eqkir.extract.problem import Problem
from eqkir.extract.rows import Row, binding_rows
from eqkir.extract.sampling import sample
from eqkir.program.abstract import Abstract
from eqkir.program.model import Program
from eqkir.program.schedule import ScheduleError
from eqkir.program.serialize import digest
from eqkir.targets import CpuTarget, Machine

Decode = Callable[[FrozenGraph, Selection, dict[str, int], dict[str, int]], Program]
Verify = Callable[[Program], Sequence[Diagnostic]]

#: best structures whose orders and modes are varied, and variants of each
VARIED, VARIANTS = 3, 24


@dataclass(frozen=True, slots=True)
class Rejected:
    """A candidate that was tried and not taken."""

    digest: str
    row: str
    cost: float
    reason: str


@dataclass(frozen=True, slots=True)
class RunnerUp:
    digest: str
    row: str
    cost: float
    why: str


@dataclass
class Choice:
    """The chosen program and why. Costs are in `unit`; `proxy` is the additive cost that selected it; `fallback` says that it is P0."""

    program: Program
    row: Row | None
    cost: Cost
    digest: str
    initial: Cost
    unit: str
    proxy: float = 0.0
    fallback: bool = False
    runner_up: RunnerUp | None = None
    rows: int = 0
    feasible_rows: int = 0
    structures: int = 0  # distinct structures that were decoded
    candidates: int = 0  # distinct (structure, row) pairs costed
    tried: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    illegal: dict[str, int] = field(default_factory=dict)  # legality rule -> (e-node, row) pairs that it refused
    selection: Selection | None = None  # of the chosen program; None for P0
    unimplemented: list[str] = field(default_factory=list)  # CPU family: operations that rows have no implementation for, or several

    def to_json(self) -> dict[str, Any]:
        """For report.json: everything but the program and its selection."""
        return {
            "row": str(self.row) if self.row else "",
            "template": self.row.template if self.row else "",
            "digest": self.digest,
            "unit": self.unit,
            "cost": self.cost.to_json(),
            "initial_cost": round(self.initial.total, 3),
            "proxy": round(self.proxy, 3),
            "fallback": self.fallback,
            "runner_up": None if self.runner_up is None else _plain(self.runner_up),
            "rows": self.rows,
            "feasible_rows": self.feasible_rows,
            "structures": self.structures,
            "candidates": self.candidates,
            "tried": self.tried,
            "rejected": [_plain(r) for r in self.rejected],
            "illegal": dict(sorted(self.illegal.items())),
            **({"unimplemented": self.unimplemented} if self.unimplemented else {}),
        }


def _plain(x: Rejected | RunnerUp) -> dict[str, Any]:
    why = x.reason if isinstance(x, Rejected) else x.why
    return {"digest": x.digest, "row": x.row, "cost": round(x.cost, 3), "why": why}


def _rows(abstract: Abstract, target: Machine, shapes: Mapping[str, int]) -> list[Row]:
    return cpu_rows(abstract, target, shapes) if isinstance(target, CpuTarget) else binding_rows(abstract, target, shapes)


def problem(
    graph: FrozenGraph, abstract: Abstract, target: Machine, shapes: Mapping[str, int], model: CostModel, rows: Sequence[Row] | None = None
) -> tuple[Problem, dict[str, int]]:
    """The extraction problem of a graph on a target, and how many (e-node, row) pairs each legality rule refused."""
    given = list(rows) if rows is not None else _rows(abstract, target, shapes)
    extents = Extents(abstract.abi, shapes)
    table = LabelTable(
        abstract.axes, given, extents, 1 if isinstance(target, CpuTarget) else target.warp_size, of_abstract(abstract, extents)
    )
    legal = cpu_legality(graph, table, target, abstract.abi) if isinstance(target, CpuTarget) else legality(graph, table, target)
    weights = model.weights(graph, table, abstract.abi, target, legal.legal)
    return Problem(graph, given, checked(model, weights, legal.legal), dict(weights.scale), legal.notes, legal.refused), legal.reasons


@dataclass(slots=True)
class _Ranked:
    candidate: Candidate
    program: Program  # the decoded structure with this row's bindings
    cost: Cost
    digest: str = ""


class _Chooser:
    def __init__(
        self, graph: FrozenGraph, p: Problem, target: Machine, shapes: Mapping[str, int], model: CostModel, decode: Decode
    ) -> None:
        self.graph, self.p, self.target, self.shapes, self.model, self.decode = graph, p, target, shapes, model, decode
        self.base: dict[tuple[tuple[int, int], ...], Program | str] = {}
        self.rejected: list[Rejected] = []
        self.preferred: dict[int, dict[int, list[int]]] = {}  # row -> class -> legal alternatives, cheapest first
        self.seen: set[tuple[tuple[tuple[int, int], ...], tuple[tuple[str, int], ...], tuple[str, ...]]] = set()

    def structure(self, c: Candidate) -> Program | str:
        """The decoded structure, or why there is none."""
        if c.key not in self.base:
            row = self.p.rows[c.row]
            try:
                self.base[c.key] = self.decode(self.graph, c.selection, row.values, row.launch)
            except ScheduleError as e:
                self.base[c.key] = f"decode: {e}"
            except EqkirError as e:
                self.base[c.key] = f"decode: {e.diagnostics[0]}"
        return self.base[c.key]

    def rank(self, candidates: Sequence[Candidate]) -> list[_Ranked]:
        """Exact costs of all candidates that decode, cheapest first; equal costs by digest."""
        out = []
        for c in candidates:
            base, row = self.structure(c), self.p.rows[c.row]
            used = row.values if isinstance(base, str) else {k: row.values[k] for k in base.bindings}
            identity = (c.key, (*sorted(used.items()), *row.options), row.implementations)
            if identity in self.seen:  # rows that differ in parameters the structure does not have
                continue
            self.seen.add(identity)
            if isinstance(base, str):
                self.rejected.append(Rejected("", str(row), c.cost, base))
                continue
            out.append(self._costed(c, base, row))
        return self.order(out)

    def _costed(self, c: Candidate, base: Program, row: Row) -> _Ranked:
        program = replace(base, bindings=row.values, options=row.launch, implementations=row.implementations)
        return _Ranked(c, program, self.model.program(program, self.target, self.shapes))

    def order(self, ranked: list[_Ranked]) -> list[_Ranked]:
        """By cost; digests are made only where costs are equal."""
        ranked = sorted(ranked, key=lambda x: (x.cost.total, x.candidate.row, x.candidate.key))
        groups: dict[float, list[_Ranked]] = {}
        for x in ranked:
            groups.setdefault(x.cost.total, []).append(x)
        for same in groups.values():
            if len(same) > 1:
                for x in same:
                    x.digest = x.digest or digest(x.program)
                same.sort(key=lambda x: x.digest)
        return [x for total in sorted(groups) for x in groups[total]]

    def variants(self, best: Sequence[_Ranked]) -> list[Candidate]:
        """The best structures with other orders and modes of their segments."""
        out: list[Candidate] = []
        done: set[tuple[tuple[int, int], ...]] = set()
        for x in best:
            c = x.candidate
            if c.key in done or len(done) >= VARIED:
                continue
            done.add(c.key)
            count = 0
            for cls in sorted(c.selection):
                if self.graph.sorts[cls] not in ("T", "SG") or count >= VARIANTS:
                    continue
                for j in range(len(self.graph.classes[cls])):
                    if j != c.selection[cls] and count < VARIANTS:
                        other = self._vary(c, cls, j)
                        if other is not None:
                            count += 1
                            out.append(other)
        return out

    def _vary(self, c: Candidate, cls: int, j: int) -> Candidate | None:
        p, row = self.p, c.row
        if j not in p.legal(cls, row):
            return None
        cheapest = self.preferred.setdefault(row, {})

        def prefer(d: int, legal: list[int]) -> list[int]:
            if d == cls:
                return [j]
            if d not in cheapest:
                cheapest[d] = sorted(legal, key=lambda i: (float(p.weight[p.first[d] + i, row]), i))
            first = c.selection.get(d)
            order = cheapest[d]
            return [first, *(i for i in order if i != first)] if first is not None and first in legal else order

        s = sample(p, row, prefer)
        if s is None or s.get(cls) != j:
            return None
        return Candidate(s, row, p.cost(s, row))

    def final(self, x: _Ranked) -> Program | str:
        """The program as it would be chosen: decoded under its own row."""
        row = self.p.rows[x.candidate.row]
        try:
            program = self.decode(self.graph, x.candidate.selection, row.values, row.launch)
            return replace(program, implementations=row.implementations)
        except ScheduleError as e:
            return f"decode: {e}"
        except EqkirError as e:
            return f"decode: {e.diagnostics[0]}"


def choose(
    graph: FrozenGraph,
    abstract: Abstract,
    target: Machine,
    *,
    shapes: Mapping[str, int],
    decode: Decode,
    verify: Verify,
    initial: Program,
    extractor_name: str = "greedy-dag",
    cost_model_name: str = "roofline",
    seed: int = 0,
    k: int = 8,
) -> Choice:
    """The best program of a graph that verifies; `initial` (P0) when there is none.

    Raises `EqkirError` for an unknown extractor or cost model and for an extractor that breaks `check_legal`.
    """
    model = cost_model(cost_model_name)
    ranked_extractor = extractor(extractor_name).ranked
    p, illegal = problem(graph, abstract, target, shapes, model)
    candidates = extract(p, extractor_name, seed)
    ch = _Chooser(graph, p, target, shapes, model, decode)
    if not initial.options and not isinstance(target, CpuTarget):  # one warp, nothing ahead: what a scalar program needs
        initial = replace(initial, options={"num_warps": 1, "num_stages": 1})
    p0 = model.program(initial, target, shapes)
    pool = _ranked_pool(ch, candidates, k) if ranked_extractor else _given_order(ch, candidates)
    choice = Choice(initial, None, p0, digest(initial), p0, model.contract.unit, rows=len(p.rows), illegal=illegal)
    choice.unimplemented = list(p.notes)
    choice.feasible_rows = len({c.row for c in candidates})
    taken: _Ranked | None = None
    digests: set[str] = set()
    for x in pool:
        final = x.cost.reject or ch.final(x)
        row = p.rows[x.candidate.row]
        if isinstance(final, str):
            choice.rejected.append(Rejected(x.digest, str(row), x.cost.total, final))
            continue
        d = digest(final)
        if d in digests:
            continue
        digests.add(d)
        if taken is not None:
            choice.runner_up = RunnerUp(d, str(row), x.cost.total, _why(taken.cost, x.cost))
            break
        choice.tried += 1
        bad = list(verify(final))
        if bad:
            choice.rejected.append(Rejected(d, str(row), x.cost.total, str(bad[0])))
            continue
        taken = x
        choice.program, choice.row, choice.cost, choice.digest, choice.proxy = final, row, x.cost, d, x.candidate.cost
        choice.selection = x.candidate.selection
    if ranked_extractor and taken is not None and p0.total < choice.cost.total and not verify(initial):  # P0 is a candidate, too
        choice.runner_up = RunnerUp(choice.digest, str(choice.row), choice.cost.total, _why(p0, choice.cost))
        choice.program, choice.row, choice.cost, choice.digest, choice.proxy = initial, None, p0, digest(initial), 0.0
        choice.selection = None
    choice.fallback = taken is None
    choice.rejected = ch.rejected + choice.rejected
    choice.structures = sum(isinstance(b, Program) for b in ch.base.values())
    choice.candidates = len(ch.seen)
    return choice


def _ranked_pool(ch: _Chooser, candidates: list[Candidate], k: int) -> Iterator[_Ranked]:
    """Candidates by exact cost: first those of the `k` structures of least proxy cost with all their rows, then the rest."""
    keys = list(dict.fromkeys(c.key for c in candidates))
    head, tail = set(keys[:k]), keys[k:]
    first = ch.rank([c for c in candidates if c.key in head])
    first += ch.rank(keeping(ch.p, [x.candidate for x in first], VARIED, VARIANTS))
    yield from ch.order(first + ch.rank(ch.variants(ch.order(first))))
    for i in range(0, len(tail), k):  # widen
        part = set(tail[i : i + k])
        yield from ch.rank([c for c in candidates if c.key in part])


def _given_order(ch: _Chooser, candidates: list[Candidate]) -> Iterator[_Ranked]:
    """Candidates in the extractor's own order (random and worst mean what they say)."""
    for c in candidates:
        yield from ch.rank([c])


def _why(a: Cost, b: Cost) -> str:
    """Where the runner-up loses: the figure in nanoseconds that differs most."""
    keys = [x for x in sorted(a.figures) if x.endswith("_ns") and x != "segments_ns" and x in b.figures]
    if not keys:
        return f"{b.total - a.total:.0f} more"
    worst = max(keys, key=lambda x: (b.figures[x] - a.figures[x], x))
    return f"{b.total / max(a.total, 1e-9):.3f}x the cost; {worst.removesuffix('_ns')} {a.figures[worst]:.0f} -> {b.figures[worst]:.0f}"
