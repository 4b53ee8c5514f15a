"""One case: a kernel through every stage, each compared with the reference on small odd shapes, awkward layouts and special values.

Verdicts: ``ok``; ``refused`` (construction says with a code that it does not know the form: an honest answer, listed); ``invalid`` (the
reference refuses every input); ``wrong`` (a value outside the envelope of legal results); ``rejected`` (a check refuses what the stage
before it made of a good kernel); ``crash`` (an exception that is no diagnosis); ``time``, ``died`` (given by the pool).
"""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from eqkir.base.diagnostics import EqkirError
from eqkir.base.expr import evaluate
from eqkir.driver import checks, numeric
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.emit.triton.checks import interpret_batch
from eqkir.kir import digest, dumps, load_bytes
from eqkir.kir.envelope import Envelope, compare, envelope
from eqkir.kir.helpers import link
from eqkir.kir.inputs import VARIANTS, make_inputs
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Constexpr, Kernel, View
from eqkir.kir.reference import Choices, run
from eqkir.program.model import Item, Loop, Program
from eqkir.program.schedule import ScheduleError
from eqkir.program.verify import verify
from eqkir.terms.decode import decode
from tests.fuzz import coverage, kernels
from tests.matrix.provider import steps
from tests.terms.sampling import sample

TARGET = "triton:nvidia-h200"
#: parameters of drawn candidates: small, so that loops take several steps at small extents
LANES = (1, 2, 4, 8, 16)
#: bodies that one launch in the provider's interpreter may execute (about 2 ms each), and launches a case
BUDGET, LAUNCHES = 60, 3
#: structures that are drawn of a case's graph, and candidates among them that are run
STRUCTURES, CANDIDATES = 40, 4
VOLUME = 4000  # elements of the largest view
STEPS = 20_000  # loop bodies that the program interpreter executes one after another for one input (instances run side by side)
GOOD = ("ok", "refused", "invalid")


@dataclass
class Input:
    symbols: dict[str, int]
    variant: str
    args: dict[str, Any]
    expected: dict[str, Envelope]

    def __str__(self) -> str:
        return f"{', '.join(f'{k}={v}' for k, v in self.symbols.items())} {self.variant}"


@dataclass
class Result:
    """What became of a case. `cells`: (operation, form) pairs by engine; `json` of the kernel where it failed."""

    index: int
    status: str = "ok"
    stage: str = "generate"
    code: str = ""
    message: str = ""
    focus: list[str] = field(default_factory=list)
    seconds: float = 0.0
    inputs: int = 0
    elements: int = 0
    excluded: int = 0
    programs: int = 0
    unverified: int = 0
    emitted: bool = False
    provider: str = ""  # code of the provider's refusal
    cells: dict[str, list[coverage.Cell]] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)
    json: str = ""

    @property
    def good(self) -> bool:
        return self.status in GOOD

    def fail(self, status: str, stage: str, message: str, code: str = "") -> None:
        """Record the first failure; later ones change nothing."""
        if self.good:
            self.status, self.stage, self.message, self.code = status, stage, message[:1500], code


class Stop(Exception):
    """The case is decided."""


# ------------------------------------------------------------------------------------------------ inputs
def rows(kernel: Kernel, seed: int) -> list[tuple[dict[str, int], str]]:
    """(extents, variant) of the inputs of a case; a symbol's extents depend on its name and the seed alone, so that shrinking a kernel
    keeps them."""
    out: list[tuple[dict[str, int], str]] = []
    choices = ((3, 5, 7), (0, 1, 2, 3, 4), (2, 3, 5))
    for n, sizes in enumerate(choices):
        row = {}
        for s in kernel.symbols:
            rng = random.Random(f"{seed}/{n}/{s.id}")
            v = rng.choice(sizes)
            if n == 2 and s.id == ("M", "N", "K")[seed % 3]:
                v = rng.choice((17, 20, 33))
            row[s.id] = numeric.fitting(s, v)
        if "E" in row and "G" in row:
            row["E"] = row["G"] + 1
        for a, b in kernel.equal:
            row[b] = row[a]
        variant = ("plain", VARIANTS[1 + random.Random(f"{seed}/{n}").randrange(len(VARIANTS) - 1)], "special")[n]
        out.append((row, variant))
    return out


def inputs(kernel: Kernel, seed: int, constexprs: Mapping[str, Any], result: Result) -> list[Input]:
    """The valid inputs with their envelopes; the reference itself, in some legal order, is inside them."""
    out = []
    for n, (row, variant) in enumerate(rows(kernel, seed)):
        sizes = [prod(e if isinstance(e, int) else row[e] for e in p.shape) for p in kernel.params if isinstance(p, View)]
        if max(sizes, default=0) > VOLUME:
            continue
        args = make_inputs(kernel, row, seed + n, variant, constexprs)
        try:
            expected = envelope(kernel, args, row, constexprs)
            got = clone(args)
            orders = ("plain", "forward", "reversed", "pairwise")
            slices = ("one", "single", "random")
            run(kernel, got, row, constexprs, Choices(orders[(seed + n) % 4], bool(seed & 1), slices[seed % 3], seed, bool(seed & 2)))
        except EqkirError:
            continue
        x = Input(row, variant, args, expected)
        judge(result, "reference", x, {k: got[k] for k in expected})
        out.append(x)
    return out


def judge(result: Result, stage: str, x: Input, got: Mapping[str, Any]) -> None:
    """Compare with the envelope."""
    verdict = compare(x.expected, got)
    result.elements += verdict.elements
    result.excluded += verdict.excluded
    if not verdict.ok:
        result.fail("wrong", stage, f"{x}: {verdict.first} ({verdict.mismatches} of {verdict.elements} elements)")


# ------------------------------------------------------------------------------------------------ engines
def interpreted(result: Result, stage: str, program: Program, given: Sequence[Input], seed: int) -> None:
    """A program in the program interpreter on every input whose preconditions hold."""
    for n, x in enumerate(given):
        if not numeric.holds(program, x.symbols, x.args) or trips(program, {**integers(x), **x.symbols}) > STEPS:
            continue
        engine = numeric.interpreter(program, seed=seed + n, order=("tree", "reversed", "sequential")[(seed + n) % 3])
        try:
            got = engine(clone(x.args), x.symbols)
        except EqkirError as e:
            result.fail("wrong", stage, f"{x}: {e}", e.diagnostics[0].code)
            continue
        judge(result, stage, x, {k: got[k] for k in x.expected})
    result.programs += 1


def integers(x: Input) -> dict[str, int]:
    """The integer scalars of an input."""
    return {k: int(v) for k, v in x.args.items() if not isinstance(v, ViewArg) and np.asarray(v).dtype.kind in "iub"}


def trips(program: Program, symbols: Mapping[str, int]) -> int:
    """Loop bodies that an instance of each segment executes."""

    def of(items: Sequence[Item]) -> int:
        n = 1
        for i in items:
            if isinstance(i, Loop):
                extent = int(evaluate(program.axis[i.axis].extent, lambda a: symbols[a.args[0]]))
                n += -(-extent // program.lanes(i.label)) * of(i.body)
        return n

    return sum(of(p) for s in program.segments for p in s.phases)


def drawn(chain: Chain, n: int, seed: int, result: Result) -> list[Program]:
    """Up to n verified programs of random structures under random small parameters: any one, then those with the seldomest forms."""
    known = {*result.cells["p0"]}
    pool, out = [*_structures(chain, seed)], list[Program]()
    held = {id(p): coverage.cells(chain.kernel, p) for p in pool}
    while pool and len(out) < n:
        p = max(pool, key=lambda p: coverage.worth(held[id(p)], known, seed)) if out else pool[0]
        pool = [q for q in pool if q is not p]
        if verify(p):
            result.unverified += 1
            continue
        out.append(p)
        known |= held[id(p)]
    return out


def _structures(chain: Chain, seed: int) -> Iterator[Program]:
    """Programs of random structures, verified or not."""
    graph, abstract, rng = chain.saturated.graph, chain.abstract, random.Random(seed)
    for _ in range(STRUCTURES):
        bindings = {f"{x}:{a.name}": rng.choice(LANES) for a in abstract.axes for x in "BC"} | {f"F:{a.name}": 64 for a in abstract.axes}
        bindings |= {f"{x}:g{k}": rng.choice((1, 2, 3)) for x in "PG" for k in range(12)}
        try:
            yield decode(graph, sample(graph, rng), abstract, bindings, {"num_warps": rng.choice((1, 4)), "num_stages": rng.choice((1, 2))})
        except (ScheduleError, EqkirError):
            continue


def emitted(result: Result, kernel: Kernel, candidates: Sequence[tuple[str, Program]], given: Sequence[Input]) -> None:
    """The first candidate that the provider takes, in the provider's interpreter."""
    from eqkir.driver.provider import spell

    for name, program in candidates:
        try:
            artifact = spell(program)
        except EqkirError as e:
            code = e.diagnostics[0].code
            if not code.startswith("EQK-TRI"):
                result.fail("rejected", f"emit {name}", str(e), code)
            result.provider = result.provider or code
            continue
        fits = []
        for x in given:
            if numeric.holds(program, x.symbols, x.args) and steps(program, {**integers(x), **x.symbols}) <= BUDGET:
                fits.append(x)
        if not fits:
            continue
        outcomes = interpret_batch([(artifact, [checks.case_of(clone(x.args)) for x in fits[:LAUNCHES]])], seconds=60.0)[0]
        for x, o in zip(fits, outcomes, strict=False):
            if o.error:
                result.fail("wrong", f"emitted {name}", f"{x}: {o.error}")
            else:
                judge(result, f"emitted {name}", x, {k: o.arrays[k] for k in x.expected})
        result.emitted = True
        result.cells["emitted"] = sorted(coverage.cells(kernel, program))
        return


# ------------------------------------------------------------------------------------------------ the case
def check(text: str, seed: int, emit: bool, result: Result | None = None) -> Result:
    """All stages of a kernel given as JSON; `emit`: its code in the provider's interpreter, too. Same arguments, same result."""
    r = result or Result(-1)
    start = time.process_time()
    try:
        with np.errstate(all="ignore"):
            _check(text, seed, emit, r)
    except Stop:
        pass
    except EqkirError as e:
        r.fail("rejected", r.stage, str(e), e.diagnostics[0].code)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # a native panic is no Exception
        r.fail("crash", r.stage, f"{type(e).__name__}: {e}\n{traceback.format_exc(limit=-6)}", type(e).__name__)
    if "call" in r.operations:  # linking has put the helper's body in its place
        for held in r.cells.values():
            held.append(("call", "program"))
    r.seconds = time.process_time() - start
    if not r.good:
        r.json = text
    return r


def _check(text: str, seed: int, emit: bool, r: Result) -> None:
    r.stage = "read"
    module = load_bytes(text.encode())
    if digest(load_bytes(dumps(module).encode())) != digest(module):
        r.fail("wrong", "read", "the kernel does not read back as the same kernel")
    kernel = link(module).kernels[0]
    r.operations = sorted(coverage.operations(kernel) | coverage.operations(module.kernels[0]))
    constexprs = {p.id: p.default for p in kernel.params if isinstance(p, Constexpr)}
    r.stage = "reference"
    given = inputs(kernel, seed, constexprs, r)
    r.inputs = len(given)
    if not given:
        r.status = "invalid"
    chain = Chain(kernel, Options(target=TARGET, limits={"seconds": 10}), Outcome(kernel.name, ""))
    r.stage = "construct"
    try:
        _ = chain.abstract
    except EqkirError as e:
        code = e.diagnostics[0].code
        if not code.startswith("EQK-CON"):
            raise
        r.fail("refused", "construct", str(e), code)
        r.status = "refused"
        raise Stop from None
    r.stage = "p0"
    initial = chain.initial
    if bad := verify(initial):
        r.fail("rejected", "p0", "; ".join(map(str, bad[:2])), bad[0].code)
    interpreted(r, "p0", initial, given, seed)
    r.cells["p0"] = sorted(coverage.cells(kernel, initial))
    r.stage = "saturate"
    _ = chain.saturated
    r.stage = "drawn"
    candidates = drawn(chain, CANDIDATES, seed, r)
    for p in candidates:
        interpreted(r, "drawn", p, given, seed)
        r.cells["drawn"] = sorted({*r.cells.get("drawn", []), *coverage.cells(kernel, p)})
    r.stage = "chosen"
    chosen = None
    try:
        chosen = chain.program
    except EqkirError as e:
        r.provider = e.diagnostics[0].code
        if not r.provider.startswith("EQK-TRI"):
            raise
    if chosen is not None and not chain.choice.fallback:
        interpreted(r, "chosen", chosen, given, seed)
        r.cells["chosen"] = sorted(coverage.cells(kernel, chosen))
    if emit and r.good and given:
        r.stage = "emitted"
        order = [("chosen", chosen)] if chosen is not None else []
        others = [*(("drawn", p) for p in candidates), ("p0", initial)]
        emitted(r, kernel, [*others, *order] if seed % 3 == 0 else [*order, *others], given)


def run_case(seed: int, index: int, emit: bool) -> Result:
    """Draw the kernel of a case and check it (what the pool calls)."""
    r = Result(index)
    try:
        module, r.focus = kernels.case(seed, index)
    except Exception as e:
        r.fail("crash", "generate", f"{type(e).__name__}: {e}\n{traceback.format_exc(limit=-6)}", type(e).__name__)
        return r
    return check(dumps(module), case_seed(seed, index), emit, r)


def case_seed(seed: int, index: int) -> int:
    """The seed of a case's inputs and candidates."""
    return (seed * 1_000_003 + index) % (1 << 31)
