"""`eqkir rules impact`: what rules change, kernel by kernel (`eqkir.authoring.impact_page`: the report as a page).

Each rule that matches in a kernel is left out alone, and (on request) kept alone; the choice is made again each time. Costs are the
model's. A rule that changes no graph, no cost and no choice anywhere is flagged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqkir.authoring.explain import Choices
from eqkir.base.diagnostics import EqkirError
from eqkir.driver import pool
from eqkir.driver.options import Options
from eqkir.kir.helpers import link
from eqkir.kir.load import load_file
from eqkir.rules.load import load_rules

#: seconds that one kernel may take before it is left out
SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel without one rule, or with it alone, for a worker."""

    file: str
    options: Options
    rules: tuple[str, ...]  # these alone; empty for all
    alone: bool


def measure(job: Job) -> list[dict[str, Any]]:
    """Rows (rule, kernel) of a file's kernels. `cost_without` above `cost` says that the rule pays."""
    out = []
    for k in link(load_file(job.file)).kernels:
        try:
            c = Choices(k, job.options)
            whole = c.without(())
        except EqkirError as e:
            out.append({"kernel": k.name, "rule": "", "error": e.diagnostics[0].code})
            continue
        matches = whole.saturated.report.matches
        fired = [n for n in c.names if matches.get(n)]
        for n in fired:
            if job.rules and n not in job.rules:
                continue
            row: dict[str, Any] = {
                "kernel": k.name, "rule": n, "matches": matches[n], "enodes": whole.saturated.graph.enodes, "cost": whole.choice.cost.total,
                "seconds": round(whole.saturated.report.rule_seconds.get(n, 0.0), 6),
            }  # fmt: skip
            try:
                less = c.without({n})
                row |= {
                    "enodes_without": less.saturated.graph.enodes, "cost_without": less.choice.cost.total,
                    "choice_changed": less.choice.program != whole.choice.program,
                    "graph_changed": less.saturated.graph != whole.saturated.graph,
                }  # fmt: skip
                if job.alone:
                    none, one = c.without(fired), c.without(set(fired) - {n})
                    row |= {"cost_none": none.choice.cost.total, "cost_alone": one.choice.cost.total}
            except EqkirError as e:
                row["error"] = e.diagnostics[0].code
            out.append(row)
    return out


def impact(
    kernels: Sequence[Path], options: Options, rules: Sequence[str] = (), alone: bool = False, jobs: int = 1
) -> Iterator[dict[str, Any]]:
    """Rows of all kernels, as they are done; a kernel that took too long gives a row with its error."""
    todo = [(Job(str(p), options, tuple(rules), alone),) for p in kernels]
    for k, answer in pool.run("eqkir.authoring.impact:measure", todo, jobs, SECONDS):
        if isinstance(answer, pool.Failure):
            yield {"kernel": kernels[k].stem, "rule": "", "error": f"{answer.kind}: {answer.message[:200]}"}
        else:
            yield from answer


def summary(rows: Iterable[dict[str, Any]], options: Options, rules: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One row a rule: kernels with a match, matches, how often the graph and the choice change, the mean ratio of e-nodes
    and the largest ratio of costs without it; where it was measured (``--alone``), the least ratio of costs of it alone and of no rule."""
    families = {
        r.name: r.family for f in load_rules(options.rules, options.without, options.permit) for r in f.rules if r.family != "facts"
    }
    held: dict[str, list[dict[str, Any]]] = {n: [] for n in families if not rules or n in rules}
    for r in rows:
        if r["rule"] in held and "cost_without" in r:
            held[r["rule"]].append(r)
    out = []
    for n, rs in held.items():
        ratios = [(r["cost_without"] / r["cost"] if r["cost"] else 1.0, r["kernel"]) for r in rs]
        best = max(ratios, default=(1.0, ""))
        single = [r["cost_alone"] / r["cost_none"] if r["cost_none"] else 1.0 for r in rs if "cost_alone" in r]
        out.append({
            "rule": n, "family": families[n], "kernels": len(rs), "matches": sum(r["matches"] for r in rs),
            "seconds": round(sum(r["seconds"] for r in rs), 6),
            "enodes_without": round(sum(r["enodes_without"] / r["enodes"] for r in rs) / len(rs), 4) if rs else 1.0,
            "graphs_changed": sum(r["graph_changed"] for r in rs),
            "choices_changed": sum(r["choice_changed"] for r in rs),
            "largest_cost_ratio": round(best[0], 4), "at": best[1] if best[0] > 1 else "",
            "without_effect": not any(r["graph_changed"] or r["choice_changed"] for r in rs),
            **({"alone": round(min(single), 4)} if single else {}),
        })  # fmt: skip
    return out
