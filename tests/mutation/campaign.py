"""A campaign: a deterministic choice of mutants over the corpus, each run against the battery; what survives is explained."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256

from eqkir.driver import pool
from tests.matrix.cells import kernels
from tests.mutation.battery import Battery
from tests.mutation.operators import Edit, edits

#: operator -> the battery's part that looks for it beside the numeric one
WIDE = frozenset({"narrow-stride", "narrow-index", "reach-forgotten"})
PTX = frozenset({"approximate", "nan-dropped"})
REFUSALS = frozenset({"check-removed"})
#: a second program of every so many kernels, so that several structures are mutated
SECOND, EVERY = "random-1", 4
#: mutants of each operator in a whole campaign
PER_OPERATOR = 14


@dataclass
class Verdict:
    """`caught`: what caught the mutant, "" for a survivor; `reason`: why a survivor is harmless."""

    kernel: str
    config: str
    operator: str
    where: str
    caught: str = ""
    check: str = ""
    reason: str = ""


def choose(sites: dict[tuple[str, str], list[Edit]], per_operator: int) -> dict[tuple[str, str], list[Edit]]:
    """Up to `per_operator` mutants of each operator, spread over the programs in an order that differs from operator to operator: round k
    takes the k-th site (in a rotated order) of each."""
    out: dict[tuple[str, str], list[Edit]] = {k: [] for k in sites}
    for operator in sorted({e.operator for es in sites.values() for e in es}):
        queues = {k: mine for k, es in sites.items() if (mine := [e for e in es if e.operator == operator])}
        left, turn = per_operator, 0
        while queues and left:
            for n, k in enumerate(sorted(queues, key=lambda k: sha256(" ".join((operator, *k)).encode()).digest())):
                mine = queues[k]
                if left:
                    out[k].append(mine.pop((5 * n + 3 * turn) % len(mine)))
                    left -= 1
                if not mine:
                    del queues[k]
            turn += 1
    return out


def programs(limit: int | None = None) -> list[tuple[str, str]]:
    """The (kernel, configuration) pairs that are mutated."""
    names = kernels()[:limit] if limit else kernels()
    return [(n, "chosen") for n in names] + [(n, SECOND) for n in names[1::EVERY]]


def run(name: str, config: str, wanted: Sequence[int] | None, chosen: Sequence[Edit] | None = None) -> list[Verdict]:
    """Mutants of one program against the battery, in this process. `wanted`: numbers in `edits`, or `chosen` edits themselves."""
    b = Battery(name, config)
    found = list(chosen) if chosen is not None else edits(b.artifact.source)
    todo = found if wanted is None else [found[i] for i in wanted]
    out = [Verdict(name, config, e.operator, f"{e.function}:{e.line}: {e.before} -> {e.after}") for e in todo]

    def attempt(check: str, mine: list[int], results: Sequence[str]) -> None:
        for i, text in zip(mine, results, strict=True):
            if text and not out[i].caught:
                out[i].caught, out[i].check = text[:300], check

    def left(operators: frozenset[str] | None = None) -> list[int]:
        return [i for i, v in enumerate(out) if not v.caught and (operators is None or v.operator in operators)]

    if mine := left(REFUSALS):
        attempt("refusals", mine, b.refusals([todo[i].source for i in mine]))
    if mine := left(PTX):
        attempt("ptx", mine, b.ptx([todo[i].source for i in mine]))
    if mine := left(WIDE):
        worker = pool.Worker()
        try:
            attempt("wide", mine, b.wide([todo[i].source for i in mine], worker))
        finally:
            worker.kill()
    if mine := [i for i in left() if out[i].operator not in REFUSALS | PTX | WIDE]:
        attempt("numeric", mine, b.numeric([todo[i].source for i in mine]))
    if mine := left(PTX):
        for i in mine:
            if b.same_code(todo[i].source):
                out[i].reason = "the PTX is the original's: nothing in this kernel could fuse, flush or be approximated"
    if mine := [i for i in left() if not out[i].reason]:
        for i, (mistake, same, launches) in zip(mine, b.further([todo[i].source for i in mine], seeds=(21, 22, 23)), strict=True):
            if mistake:
                out[i].caught, out[i].check = mistake[:300], "further launches"
            else:
                why = explain(todo[i])
                out[i].reason = f"{why}; {launches} further launches within the envelope, {same} of them with the original's bytes"
    return out


def explain(e: Edit) -> str:
    """Why a surviving mutant is harmless: from what its line says, else from its operator."""
    lanes = [x for x in re.findall(r"\b(\w+_lane)\b", e.before) if f"{x} = tl.arange(0, 1)" in e.source]
    if e.operator in ("stride-wrong", "stride-swapped", "lane-off-by-one", "broadcast") and lanes:
        return f"{lanes[0]} has one lane, whose number is 0"
    if e.operator in ("carry-reset", "loop-step", "loop-start", "loop-end"):
        above = e.source.splitlines()[max(0, e.line - 2) : e.line]
        if any(int(n) <= int(step) for n, step in re.findall(r"tl\.range\(0, (\d+), (\d+)", "\n".join(above))):
            return "the loop runs once"
    if e.operator == "wrong-identity" and "tl.where" in e.source:
        return "the value is replaced wherever the constant is used"
    return HARMLESS.get(e.operator, "no effect on any result")


#: what makes a surviving mutant of an operator harmless
HARMLESS = {
    "even-flag": "another condition of the mask says the same",
    "cast-dropped": "the other operand brings the dtype",
    "arith": "the segment has no instance",
    "nan-dropped": "a NaN of the operand reaches the result on another way",
    "compare": "the case that the comparison newly takes in gives the same result (ties and NaN are decided by the lower index as well)",
    "instance-shifted": "the segment has no instance",
    "ceil-off-by-one": "the number only bounds what is empty anyway",
    "operands-swapped": "the operation is symmetric where it is used",
}


def campaign(per_operator: int = PER_OPERATOR, limit: int | None = None, jobs: int = 2) -> list[Verdict]:
    """The whole campaign in worker processes."""
    pairs = programs(limit)
    sites: dict[tuple[str, str], list[Edit]] = {}
    for i, answer in pool.run("tests.mutation.campaign:sites", pairs, jobs, 300.0):
        if isinstance(answer, pool.Failure):
            raise RuntimeError(f"{pairs[i]}: {answer.message}\n{answer.traceback}")
        sites[pairs[i]] = answer
    chosen = choose(sites, per_operator)
    tasks = [(n, c, None, chosen[n, c]) for n, c in pairs if chosen[n, c]]
    out: dict[int, list[Verdict]] = {}
    for i, answer in pool.run("tests.mutation.campaign:run", tasks, jobs, 1800.0):
        if isinstance(answer, pool.Failure):  # not caught by any check: the battery itself broke
            reason = f"NOT EXAMINED: {answer.message[:200]}"
            answer = [Verdict(*tasks[i][:2], e.operator, f"{e.function}:{e.line}", reason=reason) for e in tasks[i][3]]
        out[i] = answer
    return [v for i in range(len(tasks)) for v in out[i]]


def sites(name: str, config: str) -> list[Edit]:
    """All mutants of one program."""
    return edits(Battery(name, config).artifact.source)


def report(verdicts: Sequence[Verdict]) -> str:
    """Counts by operator, then every survivor with the reason why it is harmless."""
    total, caught = len(verdicts), sum(bool(v.caught) for v in verdicts)
    out = [f"{total} mutants, {caught} caught ({100 * caught / max(1, total):.1f} %)"]
    all_, by = Counter(v.operator for v in verdicts), Counter(v.operator for v in verdicts if v.caught)
    out += [f"    {op:18s} {by[op]:4d} of {all_[op]:4d}" for op in sorted(all_)]
    checks = Counter(v.check for v in verdicts if v.caught)
    out.append("caught by: " + ", ".join(f"{k} {n}" for k, n in sorted(checks.items())))
    out += [f"survivor {v.kernel} {v.config} {v.operator} {v.where}: {v.reason}" for v in verdicts if not v.caught]
    return "\n".join(out)


def to_json(verdicts: Sequence[Verdict]) -> str:
    return json.dumps([asdict(v) for v in verdicts], indent=1) + "\n"
