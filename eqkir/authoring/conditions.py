"""A rule less each of its conditions: where the rest matches more than the rule does, is what it makes there still right?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from eqkir.authoring.check import REFUTES, Checker, Result
from eqkir.authoring.grow import Grown, grow
from eqkir.authoring.marked import marked, needs
from eqkir.authoring.mutants import Mutant, mutants
from eqkir.authoring.trial import Failure, Subject, Trial, judge_all
from eqkir.authoring.unfold import unfolded
from eqkir.authoring.witnesses import witnesses
from eqkir.base.diagnostics import EqkirError
from eqkir.rules.load import Rule, RuleFile

#: draws of the rule's own query, and kernels with further matches that are tried for one condition
DRAWS, KERNELS = 16, 6
#: the family whose rules give values a second form, which some conditions are there for
BESIDE = "algebra"


@dataclass
class Verdict:
    """`verdict`: binds, refuted, survives or no difference."""

    mutant: Mutant
    verdict: str
    message: str = ""
    kernels: int = 0
    candidates: int = 0
    comparisons: int = 0
    result: Result | None = None


class Survey:
    """The graphs of a rule on a fixed list of kernels beside the rulesets `support`, grown when they are asked for."""

    def __init__(self, c: Checker, file: RuleFile, rule: Rule, subjects: list[Subject], support: tuple[str, ...]) -> None:
        self.c, self.file, self.rule, self.subjects, self.support = c, file, rule, subjects, support
        self.grown: dict[int, Grown] = {}

    def whole(self, n: int) -> Grown:
        """The rule itself on kernel n."""
        if n not in self.grown:
            s = self.subjects[n]
            if needs(self.rule, self.c.known) <= s.operations:
                m = marked(self.rule, self.c.known, asts=self.c.asts(self.rule))
                self.grown[n] = replace(
                    grow(s.abstract, m, self.c.base(self.rule), self.c.families(self.file, self.rule), self.support), graph=None
                )
            else:
                self.grown[n] = Grown(None, 0, frozenset())
        return self.grown[n]

    @property
    def matches(self) -> bool:
        """Whether the rule has a match in any of the kernels."""
        return any(self.whole(n).matches for n in range(len(self.subjects)))


def surveys(c: Checker, file: RuleFile, rule: Rule) -> list[Survey]:
    """Surveys in the order in which they are asked: the rule by itself where it matches then, beside the rules that it needs, and beside
    the identities, which give values a second form."""
    from eqkir.authoring.check import probes

    drawn = [Subject(k, file.permissions) for r in unfolded(rule, c.files) for k in witnesses(r, c.known, c.seed, DRAWS)]
    subjects = [*reversed(probes(file.permissions)), *drawn]  # the latter probes are there for conditions
    out = [s for x in c.supports(file, rule) if (s := Survey(c, file, rule, subjects, x)).matches][:1]
    more = tuple(f for f in dict.fromkeys((*(out[0].support if out else c.support(file, rule)), BESIDE)) if f != rule.family)
    return [*out, Survey(c, file, rule, subjects, more)]


def conditions(c: Checker, file: RuleFile, rule: Rule) -> Iterator[Verdict]:
    """Every condition's verdict."""
    asked: list[Survey] | None = None
    for m in mutants(file, rule, c.known):
        if m.faults:
            yield Verdict(m, "binds", m.faults)
            continue
        asked = surveys(c, file, rule) if asked is None else asked
        found = [_condition(c, file, asked[0], m)]
        for s in asked[1:]:
            if found[-1].verdict in ("survives", "no difference"):
                found.append(_condition(c, file, s, m))
        last = next((v for v in found if v.verdict == "refuted"), next((v for v in found if v.verdict == "survives"), found[0]))
        yield last


def _condition(c: Checker, file: RuleFile, survey: Survey, m: Mutant) -> Verdict:
    v = Verdict(m, "no difference", "no program that was tried has a further match")
    try:
        mark = marked(m.rule, c.known, asts=c.asts(m.rule))
        wanted = needs(m.rule, c.known)
    except EqkirError as e:
        return Verdict(m, "binds", str(e)[:200])
    for n, s in enumerate(survey.subjects):
        try:
            if not wanted <= s.operations:
                continue
            before = survey.whole(n)
            g = grow(s.abstract, mark, c.base(m.rule), c.families(file, m.rule), survey.support)
        except EqkirError:
            continue
        if not g.error and g.matches <= before.matches or not s.inputs:
            continue
        t = Trial(s.kernel.name, g.matches)
        judge_all(s, g, mark, t, before.hits, c.seed, c.effort.selections, c.effort.candidates)
        v.kernels += 1
        v.candidates += t.candidates
        v.comparisons += t.comparisons
        for f in t.failures:
            if f.kind in REFUTES:
                v.verdict, v.message = "refuted", f"{s.kernel.name}: {f.kind}: {f.message}"
                v.result = Result(m.rule.name, file.path, m.line, "refuted", f.kind, 1, t.matches, message=v.message, failure=f, subject=s)
                return v
        if t.candidates:
            v.verdict, v.message = "survives", f"further matches, all of them right, the last in {s.kernel.name}"
        elif any(f.kind == "unordered" for f in t.failures):
            v.message = f"{s.kernel.name}: what the further matches make has no legal order: {t.failures[0].message}"
            if before.hits and g.hits - before.hits:
                f = Failure("senseless", v.message)
                v.verdict = "refuted"
                v.result = Result(m.rule.name, file.path, m.line, "refuted", f.kind, 1, t.matches, message=v.message, failure=f, subject=s)
                return v
        if v.kernels >= KERNELS:
            break
    return v
