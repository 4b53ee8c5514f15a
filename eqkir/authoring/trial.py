"""One rule tried on one kernel: a graph in which it alone acts, candidates of that graph that use it, and what becomes of each.

A candidate is verified and run in the program interpreter on small and adversarial inputs; every result must lie in the envelope of what
the reference allows. Everything here follows from the kernel, the rule and a seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from eqkir.authoring.grow import Grown, grow, key_of
from eqkir.authoring.marked import Marked
from eqkir.base.diagnostics import EqkirError
from eqkir.base.dtypes import FLOATS
from eqkir.driver import numeric
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.extract.graph import FrozenGraph, Selection
from eqkir.kir.envelope import Envelope, compare, envelope
from eqkir.kir.inputs import make_inputs
from eqkir.kir.memory import clone
from eqkir.kir.model import Kernel, View
from eqkir.program.abstract import Abstract
from eqkir.program.model import Program
from eqkir.program.schedule import ScheduleError
from eqkir.program.verify import verify
from eqkir.rules.load import RuleFile

LANES = (1, 2, 4, 8)
#: extents of the k-th symbol: odd ones beyond a block, small ones with empty axes, and larger ones
SIZES = ((3, 5, 2, 4), (9, 11, 3, 2), (0, 2, 1, 3), (2, 0, 3, 1), (2, 17, 3, 2), (17, 2, 5, 3))
VARIANTS = ("plain", "adversarial", "plain", "plain", "special", "edges")
#: numbers where laws of real arithmetic end: signed zeros, NaN, infinities, the ends of the formats, arguments where exp overflows
NUMBERS = (
    0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.0, -1.0, 1.5, -3.0, 1e-3, 3e-5, 60.0, -60.0, 89.0, -104.0, 300.0, 65504.0, 1e5,
    1e20, -1e20, 3e38, -3e38, 1e-20, 1e-38, 1e-45, 0.1, 1.0000001, 16777217.0, 7.0,
)  # fmt: skip
#: elements of the largest view of an input
VOLUME = 3000


@dataclass
class Input:
    """Valid input of a kernel at extents `symbols`, and the envelope of what the reference allows."""

    symbols: dict[str, int]
    variant: str
    seed: int
    args: dict[str, Any]
    expected: dict[str, Envelope]

    def __str__(self) -> str:
        return f"{', '.join(f'{k}={v}' for k, v in self.symbols.items())} {self.variant}"


@dataclass
class Subject:
    """A kernel that rules are tried on, under permissions."""

    kernel: Kernel
    permit: tuple[str, ...] = ()

    @cached_property
    def chain(self) -> Chain:
        return Chain(self.kernel, Options(permit=self.permit, check="none"), Outcome(self.kernel.name, ""))

    @cached_property
    def abstract(self) -> Abstract:
        return self.chain.abstract

    @cached_property
    def inputs(self) -> list[Input]:
        """Valid inputs: small odd extents, empty axes; plain, special (NaN, infinities, signed zeros, denormals) and extreme contents."""
        out: list[Input] = []
        with np.errstate(all="ignore"):
            for n, (sizes, variant) in enumerate(zip(SIZES, VARIANTS, strict=True)):
                row = {s.id: numeric.fitting(s, sizes[i % len(sizes)]) for i, s in enumerate(self.kernel.symbols)}
                for a, b in self.kernel.equal:
                    row[b] = row[a]
                shapes = [[e if isinstance(e, int) else row[e] for e in p.shape] for p in self.kernel.params if isinstance(p, View)]
                if max(map(prod, shapes), default=0) > VOLUME or any(row == x.symbols and variant == x.variant for x in out):
                    continue
                try:
                    args = arguments(self.kernel, row, n, variant, self.chain.constexprs)
                    out.append(Input(row, variant, n, args, envelope(self.kernel, args, row, self.chain.constexprs, self.permit)))
                except EqkirError:
                    continue
        return out

    @cached_property
    def operations(self) -> frozenset[tuple[str, str]]:
        """(operation, first attribute) and (operation, "") of every node of the program."""
        nodes = self.abstract.nodes
        return frozenset({(n.op, str(n.attrs[0])) for n in nodes if n.attrs} | {(n.op, "") for n in nodes})


def arguments(kernel: Kernel, symbols: Mapping[str, int], seed: int, variant: str, constexprs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs of a variant of `kir.inputs`, or ``adversarial``: every float is drawn from `NUMBERS`."""
    if variant != "adversarial":
        return make_inputs(kernel, symbols, seed, variant, constexprs)
    args = make_inputs(kernel, symbols, seed, "plain", constexprs)
    rng = np.random.default_rng([seed, 77])
    for p in kernel.params:
        if isinstance(p, View) and p.role != "out" and p.dtype in FLOATS:
            a = args[p.id].array()
            a[...] = np.asarray(rng.choice(NUMBERS, a.shape)).astype(a.dtype)
    return args


KINDS = {
    "wrong": "a result outside what the reference allows",
    "unverified": "the verifier refuses the program",
    "malformed": "the new term is no program",
    "invariant": "a class would have two sets of axes, or two dtypes",
    "senseless": "no candidate with the new side has a legal order",
    "unordered": "one candidate has no legal order (this refutes nothing)",
    "broken": "egglog ended otherwise",
}


@dataclass
class Failure:
    """What is wrong with a candidate (`KINDS`), the program and the input that show it."""

    kind: str  # see KINDS
    message: str
    program: Program | None = None
    input: Input | None = None


@dataclass
class Trial:
    """What became of a rule on one kernel."""

    kernel: str
    matches: int = 0
    candidates: int = 0  # legal ones that use the rule
    comparisons: int = 0
    failures: list[Failure] = field(default_factory=list)
    hits: frozenset[tuple[Any, ...]] = frozenset()


class Sampler:
    """Random acyclic selections that go through nodes of `hits` where they can."""

    def __init__(self, g: FrozenGraph, hits: frozenset[tuple[Any, ...]]) -> None:
        self.g = g
        self.hit = {(c, j) for c, ns in enumerate(g.classes) for j, n in enumerate(ns) if hits and key_of(n) in hits}
        users: dict[int, list[int]] = {}
        for c, ns in enumerate(g.classes):
            for n in ns:
                for k in n.kids:
                    users.setdefault(k, []).append(c)
        self.reaching = {c for c, _ in self.hit}
        todo = list(self.reaching)
        while todo:
            for u in users.get(todo.pop(), ()):
                if u not in self.reaching:
                    self.reaching.add(u)
                    todo.append(u)

    def draw(self, rng: random.Random) -> Selection | None:
        chosen: Selection = {}
        opened: set[int] = set()
        keen = rng.random() < 0.8

        def go(c: int) -> bool:
            if c in chosen:
                return True
            if c in opened:
                return False
            opened.add(c)
            order = rng.sample(range(len(self.g.classes[c])), len(self.g.classes[c]))
            if keen and self.hit:
                order.sort(key=lambda j: 0 if (c, j) in self.hit else 1 if self.reaching.intersection(self.g.classes[c][j].kids) else 2)
            for j in order:
                if all(go(k) for k in self.g.classes[c][j].kids):
                    chosen[c] = j
                    break
            opened.discard(c)
            return c in chosen

        return chosen if go(self.g.root) else None

    def uses(self, s: Selection) -> bool:
        """Whether a node of the selection that the program needs is a hit."""
        todo, seen = [self.g.root], {self.g.root}
        while todo:
            c = todo.pop()
            if (c, s[c]) in self.hit:
                return True
            new = [k for k in self.g.classes[c][s[c]].kids if k not in seen]
            seen.update(new)
            todo += new
        return False


def candidates(s: Subject, g: Grown, everything: bool, rng: random.Random, draws: int) -> Iterator[Program | Failure]:
    """Programs that use the rule (`everything`: all count as such), or why there is none."""
    from eqkir.terms.decode import decode

    assert g.graph is not None
    sampler = Sampler(g.graph, g.hits)
    if not everything and not sampler.hit:
        return
    for _ in range(draws):
        selection = sampler.draw(rng)
        if selection is None or not (everything or sampler.uses(selection)):
            continue
        bindings = {f"{x}:{a.name}": rng.choice(LANES) for a in s.abstract.axes for x in "BC"} | {
            f"F:{a.name}": 32 for a in s.abstract.axes
        }
        bindings |= {f"{x}:g{k}": rng.choice((1, 2, 3)) for x in "PG" for k in range(12)}
        try:
            yield decode(g.graph, selection, s.abstract, bindings, {})
        except ScheduleError as e:
            yield Failure("unordered", str(e)[:300])
        except (EqkirError, KeyError, ValueError, AssertionError, IndexError, TypeError) as e:
            yield Failure("malformed", f"{type(e).__name__}: {str(e)[:300]}")


def judge(s: Subject, p: Program, t: Trial) -> Failure | None:
    """Verify and run a candidate; the first thing that is wrong with it."""
    if bad := verify(p):
        return Failure("unverified", str(bad[0])[:400], p, s.inputs[0] if s.inputs else None)
    with np.errstate(all="ignore"):
        for n, x in enumerate(s.inputs):
            if not numeric.holds(p, x.symbols, x.args):
                continue
            engine = numeric.interpreter(p, seed=n, order=("tree", "reversed", "sequential")[n % 3])
            try:
                got = engine(clone(x.args), x.symbols)
            except EqkirError as e:
                return Failure("wrong", str(e)[:400], p, x)
            except (KeyError, ValueError, AssertionError, IndexError, TypeError) as e:
                return Failure("malformed", f"{type(e).__name__}: {str(e)[:300]}", p, x)
            t.comparisons += 1
            verdict = compare(x.expected, {k: a for k, a in got.items() if k in x.expected})
            if not verdict.ok:
                return Failure("wrong", f"{verdict.first} ({verdict.mismatches} of {verdict.elements} elements)", p, x)
    return None


def try_rule(
    s: Subject,
    m: Marked,
    base: Sequence[RuleFile],
    families: Sequence[str],
    support: Sequence[str],
    seed: int = 0,
    draws: int = 24,
    wanted: int = 6,
) -> Trial:
    """Grow, draw, judge. Stops at a failure that refutes."""
    g = grow(s.abstract, m, base, families, support)
    t = Trial(s.kernel.name, g.matches, hits=g.hits)
    if g.matches and not s.inputs:  # nothing to run it on
        return Trial(s.kernel.name)
    judge_all(s, g, m, t, frozenset(), seed, draws, wanted)
    return t


def judge_all(s: Subject, g: Grown, m: Marked, t: Trial, known: frozenset[tuple[Any, ...]], seed: int, draws: int, wanted: int) -> None:
    """Candidates of a grown graph into `t`. `known`: hits that need no trial (those of the rule that a mutant comes from)."""
    if g.error:
        t.failures.append(Failure("invariant" if "merge" in g.error.lower() else "broken", g.error))
        return
    if g.graph is None or not g.matches:
        return
    fresh = replace(g, hits=g.hits - known)
    if not m.marks and not m.forces:  # nothing says which candidates use the rule
        draws, wanted = 3 * draws, 3 * wanted
    rng = random.Random(seed)
    seen: list[Program] = []
    for p in candidates(s, fresh, m.forces or not m.marks, rng, draws):
        if isinstance(p, Failure):
            if not any(f.kind == p.kind for f in t.failures):
                t.failures.append(p)
            if p.kind == "malformed":
                return
            continue
        if p in seen:
            continue
        seen.append(p)
        found = judge(s, p, t)
        if found:
            t.failures.append(found)
            return
        t.candidates += 1
        if t.candidates >= wanted:
            break
