"""`eqkir rules check`: is a rule sound? Proved where a solver can, else tried on programs; refuted with a counterexample.

A rule is tried alone: in a graph of a kernel where nothing acts but placement, the realisations that a program needs and the rule itself,
candidates that use it are drawn, verified and run against the reference. Kernels: those of `probes`, draws from the rule's own query
(`witnesses`), and the files of a corpus where neither has a match.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from eqkir.authoring.domains import BY_RULES, heads
from eqkir.authoring.marked import Marked, marked, needs
from eqkir.authoring.patterns import is_variable, pattern
from eqkir.authoring.prove import Proof, contradiction, prove
from eqkir.authoring.trial import Failure, Subject, Trial, try_rule
from eqkir.authoring.unfold import unfolded
from eqkir.authoring.witnesses import witnesses
from eqkir.base.diagnostics import EqkirError
from eqkir.kir.helpers import link
from eqkir.kir.load import load_file
from eqkir.kir.model import Kernel
from eqkir.rules.load import PERMISSIONS, Rule, RuleFile, load_rules, signatures
from eqkir.rules.sorts import RuleAst, SortCheck

Verdict = Literal["proved", "tested", "refuted", "vacuous", "untested"]
#: kinds of failure that refute on their own; candidates without a legal order are left out of a graph by every extractor
REFUTES = ("wrong", "unverified", "malformed", "invariant", "senseless")


@dataclass(frozen=True, slots=True)
class Effort:
    """`kernels` with a match and `candidates` of each; `draws` of the rule's own query; `files` of the corpus that are opened."""

    kernels: int = 5
    candidates: int = 4
    draws: int = 24
    selections: int = 24
    files: int = 12
    seconds: float = 90.0


@dataclass
class Result:
    """What became of a rule. `line` of the file; `method` and `message` in words; counts of what was tried; `failure` with its
    `subject` where it is refuted; `seconds` of this thread."""

    rule: str
    file: str
    line: int
    verdict: Verdict
    method: str  # what was done, in words
    kernels: int = 0
    matches: int = 0
    candidates: int = 0
    comparisons: int = 0
    message: str = ""
    failure: Failure | None = None
    subject: Subject | None = None
    unordered: tuple[Failure, Subject] | None = None  # a candidate without a legal order, and its kernel
    tried: dict[str, Trial] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        names = ("rule", "file", "line", "verdict", "method", "kernels", "matches", "candidates", "comparisons", "message")
        return {n: getattr(self, n) for n in names}

    def __str__(self) -> str:
        n = f"{self.candidates} candidates of {self.kernels} kernels, {self.comparisons} comparisons" if self.kernels else ""
        return f"{self.file}:{self.line}: {self.rule}: {self.verdict}: {'; '.join(x for x in (self.method, n, self.message) if x)}"


class Checker:
    """Rules of `files`, each tried beside the others. `corpus`: KIR files that are opened where no probe has a match."""

    def __init__(self, files: Sequence[RuleFile], corpus: Sequence[Path] = (), effort: Effort | None = None, seed: int = 0) -> None:
        self.files, self.corpus, self.effort, self.seed = list(files), list(corpus), effort or Effort(), seed
        self.known = signatures(files)

    # ------------------------------------------------------------------------------------------ one rule
    def check(self, file: RuleFile, rule: Rule, proofs: bool = True) -> Result:
        """The verdict on a rule; without `proofs` it is tried in any case."""
        start = time.thread_time()
        r = Result(rule.name, file.path, rule.line, "untested", "")
        for ast in rule.asts:
            if why := contradiction(ast):
                return replace(r, verdict="vacuous", method="the query contradicts itself", message=why)
        proof: Proof | None = prove(rule, file, self.files, self.known) if proofs else None
        if proof and proof.holds:
            return replace(r, verdict="proved", method=proof.method, seconds=time.thread_time() - start)
        m = marked(rule, self.known, asts=self.asts(rule))
        base = self.base(rule)
        for support in self.supports(file, rule):
            for s, asked in self.asked(file, rule):
                if asked and r.candidates:
                    break
                if r.kernels >= self.effort.kernels or time.thread_time() - start > self.effort.seconds:
                    break
                self._try(r, rule, s, m, base, self.families(file, rule), support)
                if r.verdict == "refuted":
                    r.seconds = time.thread_time() - start
                    return r
            if r.kernels:
                break
        r.seconds = time.thread_time() - start
        if r.unordered is not None and not r.candidates:
            f = Failure("senseless", f"no candidate that uses the rule has a legal order: {r.unordered[0].message}")
            return replace(r, verdict="refuted", method="senseless", message=f.message, failure=f, subject=r.unordered[1])
        if proof is not None:
            return replace(r, verdict="refuted", method=f"the solver tells the sides apart ({proof.method})", message=proof.model)
        r.verdict = "tested" if r.candidates else "untested"
        r.method = "tried on programs" if r.kernels else "no program with a match was found"
        return r

    def check_on(self, file: RuleFile, rule: Rule, kernel: Kernel, permit: tuple[str, ...]) -> Result:
        """The rule on one kernel alone."""
        m, s = marked(rule, self.known, asts=self.asts(rule)), Subject(kernel, permit)
        r = Result(rule.name, file.path, rule.line, "untested", "")
        for support in self.supports(file, rule):
            self._try(r, rule, s, m, self.base(rule), self.families(file, rule), support)
            if r.verdict == "refuted":
                break
        return r

    def _try(self, r: Result, rule: Rule, s: Subject, m: Marked, base: list[RuleFile], families: list[str], support: Sequence[str]) -> None:
        e = self.effort
        t = try_rule(s, m, base, families, support, self.seed, e.selections, e.candidates)
        if m.forces and t.matches and not t.candidates and not t.failures:  # the new side holds the old one: both stay
            m = marked(rule, self.known, False, self.asts(rule))
            t = try_rule(s, m, base, families, support, self.seed, e.selections, e.candidates)
        if s.kernel.name != "witness":
            r.tried[s.kernel.name] = t
        if not t.matches and not t.failures:
            return
        r.kernels += 1
        r.matches += t.matches
        r.candidates += t.candidates
        r.comparisons += t.comparisons
        for x in t.failures:
            if x.kind == "unordered":
                r.unordered = r.unordered or (x, s)
            if x.kind in REFUTES:
                r.verdict, r.method, r.message, r.failure, r.subject = "refuted", x.kind, f"{s.kernel.name}: {x.message}", x, s
                return

    # ------------------------------------------------------------------------------------------ what to try it on
    def asked(self, file: RuleFile, rule: Rule) -> Iterator[tuple[Subject, bool]]:
        """Kernels to try, those of the corpus (True) last."""
        yield from ((s, False) for s in self.subjects(file, rule, self.effort.draws))
        yield from ((s, True) for s in self.files_of_corpus(file, rule))

    def subjects(self, file: RuleFile, rule: Rule, draws: int) -> Iterator[Subject]:
        wanted = needs(rule, self.known)
        for s in probes(file.permissions):
            if wanted <= s.operations:
                yield s
        for k in (k for r in unfolded(rule, self.files) for k in witnesses(r, self.known, self.seed, draws)):
            s = Subject(k, file.permissions)
            try:
                if wanted <= s.operations:
                    yield s
            except EqkirError:
                continue

    def files_of_corpus(self, file: RuleFile, rule: Rule) -> Iterator[Subject]:
        """Kernels of the corpus that have what the query speaks of."""
        wanted, opened = needs(rule, self.known), 0
        for path in self.corpus:
            if opened == self.effort.files:
                return
            for s in corpus_subjects(path, file.permissions):
                if wanted <= s.operations:
                    opened += 1
                    yield s

    def asts(self, rule: Rule) -> tuple[RuleAst, ...]:
        """What is tried in a rule's place: relations of its left-hand side opened."""
        return tuple(a for r in unfolded(rule, self.files) for a in r.asts)

    def base(self, rule: Rule) -> list[RuleFile]:
        """The files without the rule (and without other rules of its name)."""
        out = []
        for f in self.files:
            gone = {r.text for r in f.rules if r.name == rule.name}
            out.append(
                replace(f, rules=tuple(r for r in f.rules if r.name != rule.name), commands=tuple(c for c in f.commands if c not in gone))
            )
        return out

    def support(self, file: RuleFile, rule: Rule) -> tuple[str, ...]:
        """Rulesets that may have to act before there is a match: those of the file's other rules, and those that make what the query
        speaks of and no program holds from the start."""
        out = [r.family for r in file.rules if r.name != rule.name and r.family not in ("facts", "realize", "own")]
        wanted = heads([n for ast in rule.asts for n in ast.query]) & {*BY_RULES, "ConAcc", "Fold"}
        for f in self.files:
            for r in f.rules:
                if r.name != rule.name and r.family != "facts" and wanted & heads([n for ast in r.asts for n in ast.actions]):
                    out.append(r.family)
        return tuple(dict.fromkeys(out))

    def supports(self, file: RuleFile, rule: Rule) -> tuple[tuple[str, ...], ...]:
        """Sets of rulesets to try it with, in order: none, then `support`. What a rule makes may have a realisation through other rules
        alone; then it is tried with these from the start."""
        beside = self.support(file, rule)
        unrealised = heads([n for ast in rule.asts for n in ast.actions]) & {"Slice", "ISub", "ILSub"}
        return (beside,) if beside and unrealised else ((), beside) if beside else ((),)

    def families(self, file: RuleFile, rule: Rule) -> list[str]:
        """Rulesets that act beside placement. Values need no tiles; what depends on labels does."""
        sorts = {x for ast in rule.asts for x in union_sorts(ast, self.known)}
        if sorts and sorts <= {"V", "IX", "IXL"}:
            return ["realize"]
        own = [] if sorts and sorts <= {"T", "SG", "GL", "SGL", "St"} else ["own"]
        return list(dict.fromkeys([*own, "realize", *self.support(file, rule)]))


def union_sorts(ast: Any, known: Any) -> set[str]:
    """Sorts of the terms that a rule unites; empty where it only adds facts."""
    p = pattern(ast)
    c = SortCheck(known, "")
    c.rule(ast)
    out = set()
    for a, b, _ in p.unions:
        v = a if is_variable(a) else b
        out.add(c.variables.get(str(v), "") if is_variable(v) else known[str(v[0])].result)
    return out


@cache
def probes(permit: tuple[str, ...]) -> tuple[Subject, ...]:
    """The probe kernels, under permissions."""
    from eqkir.authoring import probes_places, probes_values
    from eqkir.authoring.probes import PROBES

    assert probes_places and probes_values  # importing them adds their kernels
    return tuple(Subject(k, permit) for k in PROBES)


@cache
def corpus_subjects(path: Path, permit: tuple[str, ...]) -> tuple[Subject, ...]:
    """The kernels of KIR files that load, under permissions."""
    try:
        return tuple(Subject(k, permit) for k in link(load_file(path)).kernels)
    except EqkirError:
        return ()


def checked_files(paths: Iterable[Path | str]) -> tuple[list[RuleFile], list[RuleFile]]:
    """(every loaded file, those that are to be checked). Raises EqkirError."""
    given = [Path(p) for p in paths]
    names = {p.name for g in given for p in (g.glob("*.egg") if g.is_dir() else [g])}
    files = load_rules(given, permit=PERMISSIONS)
    return files, [f for f in files if not given or f.path in names]
