"""Figures from the rows of an experiment: gaps to the best known cost, summaries by extractor, fitted exponents, rank correlation.

A *group* is one instance under one cost model. Its best known cost is the least over all extractors, seeds and limits (not ``worst``, which
looks for the opposite); its bound the largest proved. Both are computed from the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, inf, log
from statistics import fmean, median

#: relative gap to which a group counts as closed
CLOSED = 1e-6


@dataclass
class Cell:
    """A row of cells.csv; `line` is its number there (the header is line 1)."""

    line: int
    raw: dict[str, str]
    instance: str
    model: str
    extractor: str
    status: str
    cost: float
    bound: float
    seconds: float
    enodes: int
    gap: float = inf  # (cost - best known) / |best known|


@dataclass
class Group:
    """`best`: the best known cost, at `line`; `bound`: the largest lower bound."""

    instance: str
    model: str
    kind: str
    cells: list[Cell] = field(default_factory=list)
    best: float = inf
    best_line: int = 0
    bound: float = -inf

    @property
    def closed(self) -> bool:
        """Whether the best known cost is proved to be least."""
        return self.best < inf and self.best - self.bound <= CLOSED * max(abs(self.best), 1e-300)

    @property
    def open_gap(self) -> float:
        """How much the optimum may be below the best known, in parts of the latter."""
        return 0.0 if self.closed else relative(self.best, self.bound)


def relative(cost: float, best: float) -> float:
    """(cost - best) / |cost or best, whichever is larger|; 0 where they are equal."""
    if cost == best:
        return 0.0
    return (cost - best) / max(abs(best), abs(cost) if best == 0 else 0.0, 1e-300)


def groups(rows: Iterable[dict[str, str]]) -> list[Group]:
    """Rows by instance and cost model, with gaps."""
    out: dict[tuple[str, str], Group] = {}
    for i, r in enumerate(rows):
        g = out.setdefault((r["instance"], r["cost_model"]), Group(r["instance"], r["cost_model"], r["kind"]))
        g.cells.append(
            Cell(
                i + 2,
                r,
                r["instance"],
                r["cost_model"],
                r["extractor"],
                r["status"],
                _number(r["cost"], inf),
                _number(r["bound"], -inf),
                _number(r["cpu_seconds"], 0.0),
                int(r["enodes"] or 0),
            )  # fmt: skip
        )
    for g in out.values():
        for c in g.cells:
            if c.extractor != "worst" and c.cost < g.best:
                g.best, g.best_line = c.cost, c.line
            g.bound = max(g.bound, c.bound)
        for c in g.cells:
            if c.cost < inf:
                c.gap = max(0.0, relative(c.cost, g.best))
    return [out[k] for k in sorted(out)]


def _number(text: str, missing: float) -> float:
    return float(text) if text else missing


@dataclass(frozen=True, slots=True)
class Summary:
    """Of one extractor: numbers of cells by outcome, gaps over its cells with a choice, geometric mean of CPU seconds."""

    extractor: str
    cells: int
    status: dict[str, int]
    within: float  # share of cells within 1 % of the best known
    at_best: float
    median_gap: float
    tail_gap: float  # 95th percentile
    worst_gap: float
    seconds: float


def summaries(found: Sequence[Group]) -> list[Summary]:
    """One line an extractor."""
    by: dict[str, list[Cell]] = {}
    for g in found:
        for c in g.cells:
            by.setdefault(c.extractor, []).append(c)
    out = []
    for x in sorted(by):
        cells = by[x]
        gaps = sorted(c.gap for c in cells if c.gap < inf)
        status: dict[str, int] = {}
        for c in cells:
            status[c.status] = status.get(c.status, 0) + 1
        n = max(1, len(gaps))
        out.append(
            Summary(
                x,
                len(cells),
                dict(sorted(status.items())),
                sum(g <= 0.01 for g in gaps) / n,
                sum(g <= CLOSED for g in gaps) / n,
                median(gaps) if gaps else inf,
                gaps[min(n - 1, int(0.95 * n))] if gaps else inf,
                gaps[-1] if gaps else inf,
                geometric([c.seconds for c in cells if c.seconds > 0]),
            )  # fmt: skip
        )
    return out


def kinds(found: Sequence[Group]) -> list[tuple[str, list[Group]]]:
    """Groups that are summed up together, with a title: kernels by cost model, plain e-graphs."""
    out: dict[str, list[Group]] = {}
    for g in found:
        out.setdefault(f"Kernels, {g.model}" if g.kind == "kernel" else "Plain e-graphs", []).append(g)
    return sorted(out.items())


def geometric(xs: Sequence[float]) -> float:
    """Geometric mean, 0 of nothing."""
    return exp(fmean(map(log, xs))) if xs else 0.0


def exponent(points: Sequence[tuple[float, float]]) -> tuple[float, float, int] | None:
    """(a, b, n) of the least-squares line log y = log a + b log x; None with fewer than 3 different x."""
    ps = [(log(x), log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in ps}) < 3:
        return None
    mx, my = fmean(x for x, _ in ps), fmean(y for _, y in ps)
    b = sum((x - mx) * (y - my) for x, y in ps) / sum((x - mx) ** 2 for x, _ in ps)
    return exp(my - b * mx), b, len(ps)


def ranks(xs: Sequence[float]) -> list[float]:
    """Ranks from 1, equal values share their mean."""
    order = sorted(range(len(xs)), key=lambda i: xs[i])
    out = [0.0] * len(xs)
    i = 0
    while i < len(order):
        j = i
        while j + 1 < len(order) and xs[order[j + 1]] == xs[order[i]]:
            j += 1
        for k in order[i : j + 1]:
            out[k] = (i + j) / 2 + 1
        i = j + 1
    return out


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Rank correlation; nan where one side is constant or fewer than 2 values."""
    a, b = ranks(xs), ranks(ys)
    if len(a) < 2:
        return float("nan")
    ma, mb = fmean(a), fmean(b)
    va, vb = sum((x - ma) ** 2 for x in a), sum((y - mb) ** 2 for y in b)
    return sum((x - ma) * (y - mb) for x, y in zip(a, b, strict=True)) / (va * vb) ** 0.5 if va and vb else float("nan")


def default_claim(found: Sequence[Group], structures: Callable[[str], int], default: str = "greedy-dag") -> dict[str, object]:
    """How near the default extractor comes: over groups of kernels with more than one structure, the share within 1 % of the best known
    and the largest gap; figures of the groups that miss."""
    gaps = {
        (g.instance, g.model): min((c.gap for c in g.cells if c.extractor == default), default=inf)
        for g in found
        if g.kind == "kernel" and structures(g.instance) > 1
    }
    n = max(1, len(gaps))
    return {
        "groups": len(gaps),
        "within": sum(x <= 0.01 for x in gaps.values()) / n,
        "largest": max(gaps.values(), default=inf),
        "misses": sorted(((k, x) for k, x in gaps.items() if x > 0.01), key=lambda x: -x[1]),
    }
