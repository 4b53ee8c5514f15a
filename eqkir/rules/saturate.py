"""Saturation of one program, one iteration at a time, under limits, in a worker that can be killed.

The worker sends the frozen graph after every iteration that was worth it, so that a rule that explodes, a panic or a dead process
costs this kernel's further improvement and nothing else: the last good graph is used, and the stop reason says so.
"""

from __future__ import annotations

import gc
import multiprocessing.connection
import os
import re
import resource
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from eqkir.base.diagnostics import Diagnostic, EqkirError, register
from eqkir.base.resources import data_dir
from eqkir.extract.graph import FrozenGraph
from eqkir.program.abstract import Abstract
from eqkir.program.table import REALISED_SORTS, ROWS
from eqkir.rules.forks import Child
from eqkir.rules.load import MACHINES, RuleFile, load_rules
from eqkir.rules.sorts import E_EGG

E_WORKER = register("EQK-SAT-001", "saturation worker died", "The worker ended before P0 was loaded; nothing could be saved.")

#: the family whose rules say which implementation does an operation
IMPLEMENT = "implement"

Stop = Literal["saturated", "enodes", "matches", "iterations", "seconds", "memory", "error", "killed"]


@dataclass(frozen=True, slots=True)
class Limits:
    """`enodes` realised e-nodes, `matches` rule matches in one iteration, `iterations`: these give the same graph everywhere.
    `seconds` (wall time) and `memory` (bytes of the worker) are safety nets; a stop by them is flagged as not reproducible."""

    enodes: int = 30_000
    matches: int = 1_000_000
    iterations: int = 400
    seconds: float = 30.0
    memory: int = 1 << 30


@dataclass
class Round:
    """One iteration: what matched, and how long it was looked for, by rule."""

    matches: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass
class Report:
    """What a saturation did. `matches` and `seconds` are by rule; times are for report.json only; `rounds`: the same by iteration."""

    stop: Stop = "saturated"
    message: str = ""
    reproducible: bool = True
    iterations: int = 0
    enodes: int = 0
    classes: int = 0
    initial_enodes: int = 0
    matches: dict[str, int] = field(default_factory=dict)
    rule_seconds: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of the worker
    peak_bytes: int = 0  # of the worker, resident
    rounds: list[Round] = field(default_factory=list)


@dataclass
class Saturated:
    graph: FrozenGraph
    report: Report


REALISED = frozenset(n for n, r in ROWS.items() if r.sort in REALISED_SORTS)


def _count(engine: Any) -> int:
    return sum(n for name, n in engine.sizes().items() if name in REALISED)


def _growth(texts: Iterable[str]) -> int:
    """A bound on the realised e-nodes that one match of one rule can add: how often such constructors occur in a rule's text."""
    rules = (part for text in texts for part in re.split(r"\((?=rule|rewrite|birewrite)", text))
    return max((sum(t in REALISED for t in re.findall(r"\(\s*([^\s()]+)", part)) for part in rules), default=0)


class _Run:
    def __init__(self, program: Abstract, files: list[RuleFile], limits: Limits) -> None:
        self.program, self.files, self.limits = program, files, limits
        self.report = Report()
        self.matches: Counter[str] = Counter()
        self.times: Counter[str] = Counter()
        self.names = {r.text: r.name for f in files for r in f.rules}
        self.running = ""  # the family that is being applied
        self.declared = list(dict.fromkeys(r.family for f in files for r in f.rules if r.family != "facts"))
        self.families = self.declared
        self.growth = 1
        self.most = 0  # no more realised e-nodes than this exist

    def start(self, engine: Any) -> int:
        """Vocabulary, P0, rules. Returns the root's id. Raises EqkirError."""
        from eqkir.terms.encode import encode, loader
        from eqkir.terms.engine import EggError
        from eqkir.terms.prelude import FAMILIES, vocabulary

        engine.send(vocabulary(), "vocabulary")
        engine.send(loader(), "vocabulary")
        rows = encode(self.program)
        engine.load(rows.tsv())
        foreign = [f for f in self.declared if f not in FAMILIES]
        if foreign:
            engine.send("".join(f"(ruleset {f})" for f in foreign), "rules")
        for f in self.files:
            try:
                engine.send("\n".join(f.commands), "rules")
            except EggError as e:
                raise EqkirError(Diagnostic(E_EGG, str(e)[:2000], file=f.path, stage="rules")) from e
        self.growth = _growth([vocabulary(), *(c for f in self.files for c in f.commands)])
        engine.run("facts", saturate=True)
        self.report.initial_enodes = self.most = _count(engine)
        return rows.root

    def note(self, run: Any) -> int:
        n, now = 0, self.report.rounds[-1]
        for k, m in run.num_matches_per_rule.items():
            self.matches[k] += m
            if m:
                now.matches[k] = now.matches.get(k, 0) + m
            n += m
        self.most += n * self.growth
        for k, t in run.search_and_apply_time_per_rule.items():
            self.times[k] += t.total_seconds()
            now.seconds[k] = now.seconds.get(k, 0.0) + t.total_seconds()
        return n

    def within(self, engine: Any) -> bool:
        """Whether the realised e-nodes are within their limit. They are counted, which takes a copy of the e-graph, only where the matches
        since the last count could have made too many."""
        if self.most > self.limits.enodes:
            self.most = _count(engine)
        return self.most <= self.limits.enodes

    def step(self, engine: Any) -> tuple[bool, int]:
        """What is planned is placed, to the end, so that it is complete; then one round of every family. Facts are saturated after each
        run. Returns (anything new, matches)."""
        changed, matches = False, 0
        self.report.rounds.append(Round())

        def run(family: str) -> bool:
            nonlocal changed, matches
            self.running = family
            r = engine.run(family)
            matches += self.note(r)
            changed |= bool(r.updated)
            if r.updated:
                self.note(engine.run("facts", saturate=True))
            return bool(r.updated)

        while run("place") and matches <= self.limits.matches and self.within(engine):
            pass
        for f in self.families:
            run(f)
        return changed, matches

    def finish(self, stop: Stop, started: float, message: str = "") -> Report:
        r = self.report
        r.stop, r.message, r.seconds = stop, message, time.perf_counter() - started
        r.cpu_seconds, r.peak_bytes = time.process_time(), 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        r.reproducible = stop not in ("seconds", "memory", "killed")
        known = {r_.name for f in self.files for r_ in f.rules}
        r.matches = {n: self.matches.get(n, 0) for n in sorted(known)}
        r.rule_seconds = {n: self.times.get(n, 0.0) for n in sorted(known)}
        return r


def _rss() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _worker(conn: multiprocessing.connection.Connection, program: Abstract, files: list[RuleFile], limits: Limits) -> None:
    started = time.perf_counter()
    gc.disable()  # a short life, many objects, no cycles among them
    soft = limits.memory + _rss() + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (soft + _vm(), resource.RLIM_INFINITY)) if hasattr(resource, "RLIMIT_AS") else None
    broken: dict[str, str] = {}
    try:
        while True:
            failed = _attempt(conn, program, files, limits, started, broken)
            if failed is None:
                conn.send(("done", ""))
                return
            broken[failed[0]] = failed[1]  # once more, without that family
    except EqkirError as e:
        conn.send(("diagnosis", e.diagnostics))
    except Exception as e:
        conn.send(("diagnosis", (Diagnostic(E_WORKER, f"{type(e).__name__}: {str(e)[:1000]}", stage="saturate"),)))


def _attempt(
    conn: multiprocessing.connection.Connection,
    program: Abstract,
    files: list[RuleFile],
    limits: Limits,
    started: float,
    broken: dict[str, str],
) -> tuple[str, str] | None:
    """One saturation without the families in `broken`; the family that egglog ended in an error in, with its message, or None."""
    from eqkir.terms.engine import EggError, session
    from eqkir.terms.freeze import freeze
    from eqkir.terms.steer import steering

    run = _Run(program, files, limits)
    run.families = [f for f in run.families if f not in broken]
    steer = steering(program)
    shipped = {"declarations", *(p.stem for p in data_dir("rulesets").glob("*.egg"))}
    pause = 0.5 if {f.name for f in files} <= shipped else 0.1  # rules from outside may end the worker at any time
    trouble = "; ".join(f"family {f} was left out: {m}" for f, m in sorted(broken.items()))
    with session() as engine:
        root = run.start(engine)

        def snapshot(stop: Stop, message: str = "") -> None:
            g = freeze(engine, root, program.abi, program.origins, steer)
            run.report.enodes, run.report.classes = g.enodes, len(g.classes)
            conn.send((g, run.finish(stop, started, message)))

        snapshot("killed", "the worker ended after P0")
        last = time.perf_counter()
        stop: Stop = "iterations"
        for i in range(limits.iterations):
            try:
                changed, matches = run.step(engine)
            except EggError as e:
                if run.running == "place":
                    raise
                return run.running, str(e)[:500]
            run.report.iterations = i + 1
            if not changed:
                stop = "saturated"
                break
            if not run.within(engine):
                stop = "enodes"
                break
            if matches > limits.matches:
                stop = "matches"
                break
            if time.perf_counter() - started > limits.seconds:
                stop = "seconds"
                break
            if _rss() > limits.memory:
                stop = "memory"
                break
            if time.perf_counter() - last > pause:
                snapshot("killed", f"the worker ended in iteration {i + 2}")
                last = time.perf_counter()
        snapshot("error" if broken else stop, trouble)
    return None


def _vm() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 1 << 34


def saturate(
    program: Abstract,
    *,
    rules: Iterable[Path | str] = (),
    without: Iterable[str] = (),
    permit: Iterable[str] = (),
    limits: Limits | None = None,
    machine: str = MACHINES[0],
    declared: Sequence[str] = (),
) -> Saturated:
    """Saturate in a worker process, with the rules for a family of machines. `declared`: commands that state facts, made from the
    declarations of implementations; they count where the family `implement` does. Raises EqkirError for a rule file that is refused, or
    when the worker died before P0 was loaded."""
    from eqkir.terms import encode, engine, freeze, steer  # noqa: F401  (imported before the fork, so that workers share them)

    lim = limits or Limits()
    files = load_rules(rules, without, permit, machine)
    if declared and any(f.family == IMPLEMENT for f in files):
        files.append(RuleFile("declarations", "declarations", "facts", "1", (), "", tuple(declared), ()))
    child = Child(_worker, program, files, lim)
    here = child.connection
    best: tuple[FrozenGraph, Report] | None = None
    failure, ended = ("killed", "the worker was killed"), False
    deadline = time.monotonic() + lim.seconds * 1.5 + 5.0
    try:
        while True:
            if not here.poll(max(0.0, deadline - time.monotonic())):
                failure = ("seconds", "one iteration outlasted the time limit")
                break
            try:
                msg = here.recv()
            except (EOFError, OSError):
                code = child.join()
                failure = ("memory" if code in (-6, -9, None) else "killed", f"the worker ended with code {code}")
                ended = True
                break
            if msg[0] == "diagnosis":
                raise EqkirError(*msg[1])
            if msg[0] == "done":
                failure = ("", "")
                break
            best = msg
    finally:
        if not ended:
            child.kill() if failure[0] else child.join()
    if best is None:
        raise EqkirError(Diagnostic(E_WORKER, failure[1], stage="saturate"))
    if failure[0]:
        best[1].stop, best[1].message = failure  # type: ignore[assignment]
        best[1].reproducible = False
    return Saturated(*best)
