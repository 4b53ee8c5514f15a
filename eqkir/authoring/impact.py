"""`eqkir rules impact`: what rules change, kernel by kernel (`eqkir.authoring.impact_page`: the report as a page).

Each rule that matches in a kernel is left out alone, and (on request) kept alone; the choice is made again each time. Costs are the
model's. A rule that changes no graph, no cost and no choice anywhere is flagged.
"""

from __future__ import annotations

import json
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
#: one of each family of machines
TARGETS = ("triton:nvidia-h200", "mojo:x86-64-v4-vnni")


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel without one rule, or with it alone, for a worker."""

    file: str
    options: Options
    rules: tuple[str, ...]  # these alone; empty for all
    alone: bool
    count: bool = False  # matches only: no rule is left out


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
                "kernel": k.name, "target": job.options.target, "rule": n, "matches": matches[n],
                "enodes": whole.saturated.graph.enodes, "cost": whole.choice.cost.total,
                "seconds": round(whole.saturated.report.rule_seconds.get(n, 0.0), 6),
            }  # fmt: skip
            if job.count:
                out.append(row)
                continue
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


@dataclass(frozen=True, slots=True)
class Plan:
    """What is left out where. `kernels`: each rule is left out in so many of the kernels in which it matches (0: all of them), those with
    the smallest graphs; where the choice is the same in all of these, in the others, too. `journal`: a file that keeps what was done, so
    that a run that was ended goes on (of the same rules and kernels, which the caller sees to)."""

    alone: bool = False
    jobs: int = 1
    kernels: int = 0
    journal: Path | None = None


def impact(files: Sequence[Path], options: Options, rules: Sequence[str] = (), plan: Plan | None = None) -> Iterator[dict[str, Any]]:
    """Rows of all kernels, as they are done; a kernel that took too long gives a row with its error."""
    plan = plan or Plan()
    done = _journal(plan)
    if not plan.kernels:
        yield from _measured([Job(str(p), options, tuple(rules), plan.alone) for p in files], plan, done)
        return
    counted = list(_measured([Job(str(p), options, tuple(rules), plan.alone, True) for p in files], plan, done))
    yield from counted
    where: dict[str, list[tuple[int, str]]] = {}
    for r in counted:
        if r["rule"]:
            where.setdefault(r["rule"], []).append((r["enodes"], r["file"]))
    first, rest = ({n: sorted(set(w))[part] for n, w in where.items()} for part in (slice(plan.kernels), slice(plan.kernels, None)))
    changed: set[str] = set()
    for r in _measured(_left_out(first, options, plan), plan, done):
        changed |= {r["rule"]} if r.get("choice_changed") else set()
        yield r
    yield from _measured(_left_out({n: w for n, w in rest.items() if n not in changed}, options, plan), plan, done)


def _left_out(where: dict[str, list[tuple[int, str]]], options: Options, plan: Plan) -> list[Job]:
    """One job a file, with the rules that are left out there."""
    rules: dict[str, list[str]] = {}
    for n, files in where.items():
        for _, f in files:
            rules.setdefault(f, []).append(n)
    return [Job(f, options, tuple(sorted(ns)), plan.alone) for f, ns in sorted(rules.items())]


def _key(job: Job) -> str:
    return json.dumps([job.file, job.options.target, job.rules, job.alone, job.count])


def _journal(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    if plan.journal is None or not plan.journal.is_file():
        return {}
    return {x["job"]: x["rows"] for x in map(json.loads, plan.journal.read_text().splitlines())}


def _measured(todo: Sequence[Job], plan: Plan, done: dict[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Rows of the jobs; those of `done` are not done again."""
    yield from (r for j in todo for r in done.get(_key(j), ()))
    left = [j for j in todo if _key(j) not in done]
    for k, answer in pool.run("eqkir.authoring.impact:measure", [(j,) for j in left], plan.jobs, SECONDS):
        if isinstance(answer, pool.Failure):
            answer = [{"kernel": Path(left[k].file).stem, "rule": "", "error": f"{answer.kind}: {answer.message[:200]}"}]
        rows = [{**r, "file": left[k].file} for r in answer]
        if plan.journal is not None:
            with plan.journal.open("a") as stream:
                stream.write(json.dumps({"job": _key(left[k]), "rows": rows}, sort_keys=True) + "\n")
        yield from rows


def _machine(o: Options) -> str:
    """The family of machines of a target."""
    from eqkir.targets import CpuTarget, load_target

    return "cpu" if o.provider == "mojo" and isinstance(load_target(o.target), CpuTarget) else "gpu"


def summary(rows: Iterable[dict[str, Any]], options: Options | Sequence[Options], rules: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One row a rule that one of `options` loads: kernels with a match, in how many of them it was left out, matches, how often the graph
    and the choice change, the mean ratio of e-nodes and the largest ratio of costs without it; where it was measured (``--alone``), the
    least ratio of costs of it alone and of no rule."""
    every = [options] if isinstance(options, Options) else list(options)
    loaded = [f for o in every for f in load_rules(o.rules, o.without, o.permit, _machine(o))]
    families = {r.name: r.family for f in loaded for r in f.rules if r.family != "facts"}
    found: dict[str, dict[tuple[str, str], dict[str, Any]]] = {n: {} for n in families if not rules or n in rules}
    for r in rows:
        if r["rule"] in found:
            key = r["target"], r["kernel"]
            if key not in found[r["rule"]] or "cost_without" in r:
                found[r["rule"]][key] = r
    out = []
    for n, by_kernel in found.items():
        held = list(by_kernel.values())
        rs = [r for r in held if "cost_without" in r]
        ratios = [(r["cost_without"] / r["cost"] if r["cost"] else 1.0, r["kernel"]) for r in rs]
        best = max(ratios, default=(1.0, ""))
        single = [r["cost_alone"] / r["cost_none"] if r["cost_none"] else 1.0 for r in rs if "cost_alone" in r]
        out.append({
            "rule": n, "family": families[n], "kernels": len(held), "left_out": len(rs), "matches": sum(r["matches"] for r in held),
            "seconds": round(sum(r["seconds"] for r in held), 6),
            "enodes_without": round(sum(r["enodes_without"] / r["enodes"] for r in rs) / len(rs), 4) if rs else 1.0,
            "graphs_changed": sum(r["graph_changed"] for r in rs),
            "choices_changed": sum(r["choice_changed"] for r in rs),
            "largest_cost_ratio": round(best[0], 4), "at": best[1] if best[0] > 1 else "",
            "without_effect": not any(r["graph_changed"] or r["choice_changed"] for r in rs),
            **({"alone": round(min(single), 4)} if single else {}),
        })  # fmt: skip
    return out
