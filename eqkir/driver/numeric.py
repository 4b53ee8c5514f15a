"""The numeric check of a program: small odd shapes and awkward layouts, the reference's error envelope against an engine's result.

The cases follow from the kernel's interface alone (symbols with their ranges), never from its name. An engine is a function that runs
the kernel on a copy of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from math import prod
from typing import Any

import numpy as np

from eqkir.base.diagnostics import EqkirError
from eqkir.base.expr import evaluate
from eqkir.kir import inputs
from eqkir.kir.envelope import compare, envelope
from eqkir.kir.inputs import make_inputs
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Kernel, Symbol
from eqkir.program.interp import Buffer, run
from eqkir.program.model import Program

#: the k-th symbol takes the k-th number: ones, primes, just past powers of two, mixed small ones, and multiples of many blocks
PATTERNS = ((1, 1, 1, 1), (5, 17, 7, 11), (33, 40, 19, 3), (2, 130, 5, 13), (32, 64, 16, 16))
#: layouts and contents tried beyond the plain ones, on the second pattern
VARIANTS = inputs.VARIANTS[1:]
MAX_PINNED = 1 << 20  # elements of a view up to which pinned extents are run as they are
#: steps of the conservative program, which takes an element at a time, up to which a pattern is run as it is
MAX_STEPS = 1 << 22

Described = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
Engine = Callable[[Mapping[str, Any], Mapping[str, int]], Mapping[str, ViewArg]]
Steps = Callable[[Mapping[str, int]], int]


@dataclass
class Verdict:
    """`cases` compared, `invalid` inputs (the reference refuses them), `unmet` preconditions; `worst` is the largest error / bound;
    `mistakes` hold one line a failed case."""

    cases: int = 0
    invalid: int = 0
    unmet: int = 0
    worst: float = 0.0
    elements: int = 0
    mistakes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.mistakes and self.cases > 0

    def to_json(self) -> dict[str, Any]:
        return {
            "cases": self.cases, "invalid_inputs": self.invalid, "unmet_preconditions": self.unmet, "elements": self.elements,
            "worst_error_over_bound": self.worst if self.worst < float("inf") else "inf", "mistakes": self.mistakes,
        }  # fmt: skip


@dataclass(frozen=True)
class Case:
    """`spaced`: a view that lies in a layout with gaps, beside what `variant` says."""

    symbols: dict[str, int]
    variant: str
    seed: int
    spaced: str = ""

    def __str__(self) -> str:
        words = f"{', '.join(f'{k}={v}' for k, v in self.symbols.items())} {self.variant}"
        return f"{words}, {self.spaced} spaced" if self.spaced else words


def fitting(s: Symbol, n: int) -> int:
    """The value of a symbol's range that lies nearest at or above n, else the largest one."""
    m = s.multiple_of
    v = max(-(-n // m) * m, -(-s.min // m) * m)
    return v if s.max is None or v <= s.max else s.max // m * m


def _classes(kernel: Kernel) -> dict[str, str]:
    """Symbol -> the one that stands for all that are declared equal to it."""
    same: dict[str, str] = {s.id: s.id for s in kernel.symbols}
    for a, b in kernel.equal:
        old, new = same[b], same[a]
        same = {k: new if v == old else v for k, v in same.items()}
    return same


def assignment(kernel: Kernel, pinned: Mapping[str, int], pattern: Sequence[int]) -> dict[str, int]:
    """Extents from a pattern, beyond its end 2; declared equalities hold, pinned symbols keep their value."""
    values = {s.id: pattern[k] if k < len(pattern) else 2 for k, s in enumerate(kernel.symbols)}
    return fitted(kernel, pinned, values)


def fitted(kernel: Kernel, pinned: Mapping[str, int], values: Mapping[str, int]) -> dict[str, int]:
    same = _classes(kernel)
    row = {s.id: fitting(s, values[same[s.id]]) for s in kernel.symbols}
    return row | {k: v for k, v in pinned.items() if k in row}


def assignments(kernel: Kernel, pinned: Mapping[str, int]) -> list[dict[str, int]]:
    """Extents to try: the patterns, then each symbol zero in turn; declared equalities hold, pinned symbols keep their value."""
    rows = [assignment(kernel, pinned, p) for p in PATTERNS]
    names = [s.id for s in kernel.symbols]
    for z in dict.fromkeys(_classes(kernel).values()):
        rows.append(fitted(kernel, pinned, {s: 0 if s == z else PATTERNS[1][k % len(PATTERNS[1])] for k, s in enumerate(names)}))
    return [r for i, r in enumerate(rows) if r not in rows[:i]]


def scalar_steps(initial: Program) -> Steps:
    """How many steps a conservative program takes at given extents (integer scalars count as 4, the largest that is drawn)."""
    from eqkir.driver.work import steps

    scalars = {s.name: 4 for s in initial.abi.scalars}
    return lambda symbols: steps(initial, {**scalars, **symbols})


def bounded(kernel: Kernel, pinned: Mapping[str, int], row: dict[str, int], steps: Steps) -> dict[str, int]:
    """The extents, the largest ones halved (rounding up) until the kernel takes few enough steps or nothing can shrink."""
    while steps(row) > MAX_STEPS:
        largest = max((v for k, v in row.items() if k not in pinned), default=0)
        new = fitted(kernel, pinned, {k: -(-v // 2) if v == largest else v for k, v in row.items()})
        if new == row:
            break
        row = new
    return row


def cases(kernel: Kernel, pinned: Mapping[str, int], seed: int, steps: Steps) -> Iterator[Case]:
    """Every assignment with plain contents, the second one in every other variant; what takes too many `steps` in smaller extents."""
    rows = [bounded(kernel, pinned, r, steps) for r in assignments(kernel, pinned)]
    numbers = count(seed)
    for r in rows:
        yield Case(r, "plain", next(numbers))
    for v in VARIANTS:
        yield Case(rows[min(1, len(rows) - 1)], v, next(numbers))


def check(
    kernel: Kernel, program: Program, constexprs: Mapping[str, Any], pinned: Mapping[str, int], seed: int, engine: Engine, steps: Steps,
    stop: int = 3, permit: Collection[str] = (), described: Described = (None, None), further: Iterable[Case] = (),
) -> Verdict:  # fmt: skip
    """Compare an engine with the reference's envelope, under the permissions `permit`, on all cases and `further` ones; at most `stop`
    mistakes are collected. `described`: scalars and entries of `kir.input_data` that the caller knows."""
    v = Verdict()
    if large(kernel, pinned):
        pinned = {}
    for c in chain(cases(kernel, pinned, seed, steps), further):
        args = make_inputs(kernel, c.symbols, c.seed, c.variant, constexprs, *described)
        if c.spaced:
            args = {k: spaced(a) if k == c.spaced and lies_alone(a, args) else a for k, a in args.items()}
        if not holds(program, c.symbols, args):
            v.unmet += 1
            continue
        try:
            expected = envelope(kernel, args, c.symbols, constexprs, permit)
        except EqkirError:
            v.invalid += 1
            continue
        try:
            got = engine(clone(args), c.symbols)
        except EqkirError as e:
            v.mistakes.append(f"{c}: {e}")
        else:
            verdict = compare(expected, {k: got[k] for k in expected})
            v.cases, v.elements, v.worst = v.cases + 1, v.elements + verdict.elements, max(v.worst, float(verdict.worst))
            if not verdict.ok:
                v.mistakes.append(f"{c}: {verdict.first} ({verdict.mismatches} of {verdict.elements} elements)")
        if len(v.mistakes) >= stop:
            break
    return v


def lies_alone(a: ViewArg, args: Mapping[str, Any]) -> bool:
    """Whether no other view has this memory."""
    return not any(isinstance(x, ViewArg) and x is not a and np.shares_memory(x.memory, a.memory) for x in args.values())


def spaced(a: ViewArg) -> ViewArg:
    """The same contents with a gap behind every element; what lies in the gaps counts as unwritten."""
    strides = tuple(2 * prod(max(1, n) for n in a.shape[k + 1 :]) for k in range(len(a.shape)))
    memory = np.zeros(2 * max(1, prod(a.shape)) + 3, a.memory.dtype)
    out = ViewArg(memory, 1, a.shape, strides)
    out.array()[...] = a.array()
    return out


def holds(program: Program, symbols: Mapping[str, int], args: Mapping[str, Any]) -> bool:
    """Whether the program's preconditions hold for these extents and scalars."""
    values = {**{k: int(v) for k, v in args.items() if not isinstance(v, ViewArg) and _integer(v)}, **symbols}
    return all(
        bool(evaluate(e, lambda a: program.bindings[a.args[0]] if a.op == "param" else values[a.args[0]])) for e in program.preconditions
    )


def _integer(v: Any) -> bool:
    return bool(getattr(getattr(v, "dtype", None), "kind", "") in "iub")


def large(kernel: Kernel, pinned: Mapping[str, int]) -> bool:
    """Whether a view at the pinned extents is too large to check as it is."""
    from eqkir.kir.model import View

    for p in kernel.params:
        if isinstance(p, View):
            n = 1
            for e in p.shape:
                n *= e if isinstance(e, int) else pinned.get(e, 1)
            if n > MAX_PINNED:
                return True
    return False


def interpreter(program: Program, seed: int = 0, order: str = "tree") -> Engine:
    """The program interpreter as an engine, with all of its checks."""

    def engine(args: Mapping[str, Any], symbols: Mapping[str, int]) -> Mapping[str, ViewArg]:
        buffers = {k: Buffer(a.memory, a.offset, a.shape, a.strides) if isinstance(a, ViewArg) else a for k, a in args.items()}
        run(program, buffers, symbols, order=order, seed=seed)
        return {k: a for k, a in args.items() if isinstance(a, ViewArg)}

    return engine
