"""`eqkir rules explain`: which rules lead from P0 to the chosen program of a kernel, one step after another; why a rule did not fire.

A rule belongs to the chain when the choice without it is another program. Each step adds one of them to those before; the program that is
then chosen is the step's after. Before and after are complete, verified programs, which replay on their own.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path
from typing import Any

from eqkir.base.diagnostics import fail
from eqkir.driver import codes
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.kir.model import Kernel
from eqkir.program.listing import listing
from eqkir.program.model import Program
from eqkir.program.serialize import to_json
from eqkir.rules.load import RuleFile, load_rules

#: the order in which families act on each other's results
ORDER = ("algebra", "relaxed", "narrow", "regroup", "own", "realize", "access")


@dataclass(frozen=True)
class Step:
    """`rule` added to those before; `text` of its `before => after`; costs are the model's."""

    rule: str
    family: str
    text: str
    matches: int
    before: Program
    after: Program
    cost_before: float
    cost_after: float

    @property
    def changed(self) -> bool:
        return self.before != self.after

    def diff(self) -> str:
        """The listings' difference, without headers."""
        lines = unified_diff(listing(self.before).splitlines(), listing(self.after).splitlines(), lineterm="", n=1)
        return "\n".join([x for x in lines if not x.startswith(("---", "+++"))])


@dataclass(frozen=True)
class Explanation:
    """The chain of rules from P0 to the chosen program."""

    initial: Program
    steps: tuple[Step, ...]
    chosen: Program
    matched: tuple[str, ...]  # rules that matched and without which the choice is the same

    @property
    def complete(self) -> bool:
        """Whether the chain ends at the chosen program."""
        return (self.steps[-1].after if self.steps else self.initial) == self.chosen


class Choices:
    """Choices of a kernel under subsets of the rules; equal subsets are chosen once."""

    def __init__(self, kernel: Kernel, options: Options) -> None:
        self.kernel, self.options = kernel, replace(options, check="none")
        machine = Chain(kernel, self.options, Outcome(kernel.name, "")).machine
        self.files: list[RuleFile] = load_rules(options.rules, options.without, options.permit, machine)
        self.names = [r.name for f in self.files for r in f.rules if r.family != "facts"]
        self.made: dict[frozenset[str], Chain] = {}

    def without(self, gone: Iterable[str]) -> Chain:
        """The chain less the named rules."""
        key = frozenset(gone)
        if key not in self.made:
            with tempfile.TemporaryDirectory(prefix="eqkir-") as d:
                extra: tuple[str, ...] = ()
                if key:
                    path = Path(d) / "without.egg"
                    path.write_text(_removal(sorted(key)))
                    extra = (str(path),)
                c = Chain(self.kernel, replace(self.options, rules=(*self.options.rules, *extra)), Outcome(self.kernel.name, ""))
                _ = c.choice
            self.made[key] = c
        return self.made[key]


def _removal(names: Sequence[str]) -> str:
    """A rule file that removes rules."""
    return "\n".join(["; name: without", "; family: without", f"; removes: {', '.join(names)}", ""])


def explain(kernel: Kernel, options: Options) -> Explanation:
    """The chain of a kernel. Raises EqkirError."""
    c = Choices(kernel, options)
    whole = c.without(())
    matches = whole.saturated.report.matches
    fired = [n for n in c.names if matches.get(n)]
    needed = [n for n in fired if c.without({n}).choice.program != whole.choice.program]
    families = {r.name: (f, r) for f in c.files for r in f.rules}
    rank = lambda n: (ORDER.index(f) if (f := families[n][1].family) in ORDER else -1, c.names.index(n))  # noqa: E731
    order = sorted(needed, key=rank)
    idle = [n for n in fired if n not in needed]
    absent = {n for n in c.names if not matches.get(n)}  # taking out what never matches changes nothing
    every = set(c.names) - absent
    at = c.without(every)
    initial = at.choice.program
    steps: list[Step] = []
    kept: set[str] = set()
    for name in [*order, *idle]:
        if at.choice.program == whole.choice.program:
            break
        kept.add(name)
        then = c.without(every - kept)
        rule = families[name][1]
        step = Step(
            name,
            rule.family,
            rule.comment,
            matches[name],
            at.choice.program,
            then.choice.program,
            at.choice.cost.total,
            then.choice.cost.total,
        )
        if name in needed or step.changed:
            steps.append(step)
        at = then
    done = {s.rule for s in steps}
    return Explanation(initial, tuple(steps), whole.choice.program, tuple(n for n in fired if n not in done))


def write(e: Explanation, folder: Path) -> None:
    """Every program of the chain as ``step-NN.json`` (00: before the first step), and ``chain.json`` with the rules."""
    folder.mkdir(parents=True, exist_ok=True)
    programs = [e.initial, *(s.after for s in e.steps)]
    for n, p in enumerate(programs):
        (folder / f"step-{n:02}.json").write_text(json.dumps(to_json(p), sort_keys=True) + "\n")
    (folder / "chain.json").write_text(json.dumps(rows(e), indent=1, sort_keys=True) + "\n")


def rows(e: Explanation) -> dict[str, Any]:
    """The steps as rows of a table."""
    steps = [
        {
            "rule": s.rule, "family": s.family, "rewrite": s.text, "matches": s.matches, "changed": s.changed, "cost_before": s.cost_before,
            "cost_after": s.cost_after, "before": f"step-{n:02}.json", "after": f"step-{n + 1:02}.json",
        }
        for n, s in enumerate(e.steps)
    ]  # fmt: skip
    return {"steps": steps, "complete": e.complete, "matched_without_effect": list(e.matched)}


# ------------------------------------------------------------------------------------------------ why not
@dataclass(frozen=True, slots=True)
class Condition:
    """A fact of the query, taken in an order in which each is bound, and how many matches the facts up to it have."""

    text: str
    matches: int


def why(kernel: Kernel, options: Options, rule: str) -> list[Condition]:
    """How far the query of a rule gets in the saturated graph: the first fact with no match is what keeps it from firing.
    Raises EqkirError."""
    from eqkir.authoring.reasons import reasons

    files = load_rules(options.rules, options.without, options.permit)
    found = [r for f in files for r in f.rules if r.name == rule]
    if not found:
        raise fail(codes.USAGE, f"no rule {rule!r}", accepted="`eqkir rules list` names them", stage="options")
    c = Chain(kernel, replace(options, check="none"), Outcome(kernel.name, ""))
    return [Condition(t, n) for t, n in reasons(c.abstract, files, found[0])]
