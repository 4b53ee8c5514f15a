"""The matrix: every corpus kernel under every extractor and every subset of families that matters, cell by cell.

A *cell* is (kernel, configuration). Configurations are ``chosen``, ``worst``, ``random-<seed>``, ``without-<family>`` for each family and
``without-all``. A cell verifies statically and is then run on the program interpreter: a rotating window of (shape, variant) *cases*,
so that the cells of one kernel together see every case, and a shape past the program's own blocks (`stretch`). For a CPU target the task
program is run on its interpreter, too. `row` does one kernel, in this process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqkir.base.diagnostics import EqkirError
from eqkir.driver import numeric, programs
from eqkir.driver.artifacts import digest
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.driver.work import steps
from eqkir.kir.envelope import Envelope, compare, envelope
from eqkir.kir.helpers import link
from eqkir.kir.inputs import VARIANTS, make_inputs
from eqkir.kir.load import load_file
from eqkir.kir.memory import ViewArg, clone
from eqkir.kir.model import Constexpr
from eqkir.rules.load import load_rules
from tests.matrix.stretch import stretched
from tests.matrix.types import Case

if TYPE_CHECKING:
    from eqkir.kir.model import Kernel
    from eqkir.program.model import Program
    from eqkir.rules.saturate import Saturated

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "corpus" / "json"
TARGET = "triton:nvidia-h200"
SEEDS = 20
#: loop bodies that the program interpreter runs one after the other in a shape past the program's blocks
STEPS = 100_000
#: kernels of the short matrix: one or two of each kind of structure
REPRESENTATIVE = (
    "add_in_place", "argmax_inner_f32", "fused_add_rms_norm_bf16", "gemm_bias_gelu_bf16", "head_gemm_bf16", "integer_mix",
    "layer_norm_bf16", "shift", "softmax_f32", "sum_middle_f32", "three_reductions", "two_outputs",
)  # fmt: skip


@lru_cache(maxsize=1)
def shapes() -> dict[str, Any]:
    """Test shapes and scalars of every corpus kernel."""
    out: dict[str, Any] = json.loads((ROOT / "tests" / "corpus_shapes.json").read_text())
    return out


def kernels() -> list[str]:
    """Names of the corpus kernels, sorted."""
    return sorted(p.stem for p in CORPUS.glob("*.json"))


@lru_cache(maxsize=1)
def families() -> tuple[str, ...]:
    """Rule families that ship."""
    return tuple(sorted({f.family for f in load_rules()}))


def configurations(seeds: int = SEEDS) -> list[str]:
    """All columns of the matrix."""
    return ["chosen", "worst", *(f"random-{s}" for s in range(seeds)), *(f"without-{f}" for f in families()), "without-all"]


@dataclass
class Cell:
    """Result of one cell. `faults` is empty where everything held; `p0`: the conservative program itself was chosen."""

    kernel: str
    config: str
    digest: str = ""
    structure: str = ""
    cases: int = 0
    invalid: int = 0
    elements: int = 0
    excluded: int = 0
    worst: float = 0.0
    p0: bool = False
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults


class Subject:
    """One kernel with everything that its cells share: saturated graphs by families left out, inputs and envelopes by case."""

    def __init__(self, name: str, target: str = TARGET) -> None:
        self.name, self.target = name, target
        self.kernel: Kernel = link(load_file(CORPUS / f"{name}.json")).kernels[0]
        self.entry: dict[str, Any] = shapes()[name]
        self.constexprs: dict[str, Any] = {p.id: p.default for p in self.kernel.params if isinstance(p, Constexpr)}
        self.integers = {k: int(v) for k, v in self.entry.get("scalars", {}).items() if isinstance(v, int)}
        self._saturated: dict[tuple[str, ...], Saturated] = {}
        self._cases: dict[Case, tuple[dict[str, Any], dict[str, Envelope]] | None] = {}

    @cached_property
    def base(self) -> Chain:
        """The chain whose construction and P0 all configurations share."""
        return Chain(self.kernel, Options(target=self.target), Outcome(self.name, ""))

    def chain(self, config: str) -> Chain:
        """The product's chain of stages under a configuration; graphs are saturated once a set of families."""
        kind, _, arg = config.partition("-")
        without = () if kind != "without" else families() if arg == "all" else (arg,)
        extractor = {"worst": "worst", "random": "random"}.get(kind, "greedy-dag")
        options = Options(target=self.target, without=without, extractor=extractor, seed=int(arg) if kind == "random" else 0)
        chain = Chain(self.kernel, options, Outcome(self.name, ""))
        chain.abstract, chain.initial = self.base.abstract, self.base.initial  # stages computed once
        if without not in self._saturated:
            self._saturated[without] = chain.saturated
        chain.saturated = self._saturated[without]
        return chain

    def program(self, config: str) -> Program:
        return self.chain(config).program

    def cases(self) -> list[Case]:
        """Every shape in every variant, so ordered that any few neighbours differ in both."""
        rows = [tuple(r.items()) for r in self.entry["test"]]
        return [Case(r, VARIANTS[(i + d) % len(VARIANTS)]) for d in range(len(VARIANTS)) for i, r in enumerate(rows)]

    def stretched(self, program: Program) -> list[Case]:
        """Shapes past the program's blocks."""
        return stretched(self.kernel, program, self.entry["test"])

    def case(self, case: Case) -> tuple[dict[str, Any], dict[str, Envelope]] | None:
        """Inputs (not to be written) and the envelope of a case; None where the reference refuses the inputs as invalid."""
        if case not in self._cases:
            symbols = dict(case.symbols)
            scalars, data = self.entry.get("scalars"), self.entry.get("data")
            args = make_inputs(self.kernel, symbols, 7, case.variant, self.constexprs, scalars, data)
            try:
                self._cases[case] = args, envelope(self.kernel, args, symbols, self.constexprs)
            except EqkirError:
                self._cases[case] = None
        return self._cases[case]


def window(cases: list[Case], at: int, n: int) -> list[Case]:
    """n cases from position at*n on, cyclic."""
    return [cases[(at * n + i) % len(cases)] for i in range(min(n, len(cases)))]


def check_cell(subject: Subject, config: str, at: int, cases: int) -> Cell:
    """Choose, verify statically, round-trip and interpret one cell."""
    from eqkir.program.verify import verify

    cell = Cell(subject.name, config)
    start = time.perf_counter()
    try:
        program = subject.program(config)
        text = programs.dumps(program)
        cell.digest, cell.structure, cell.p0 = digest(text), digest(_structure(program)), program.segments == subject.base.initial.segments
        cell.faults += [str(d)[:400] for d in verify(program) or ()]
        if programs.dumps(programs.loads(text)) != text:
            cell.faults.append("program.json does not read back as the same program")
        beyond = [c for c in subject.stretched(program) if steps(program, {**subject.integers, **dict(c.symbols)}) <= STEPS]
        chosen = [*window(subject.cases(), at, cases), *window(beyond, at, 1)]
        run_cases(subject, program, chosen, cell)
        if subject.target.startswith("mojo:"):
            run_tasks(subject, program, chosen, cell)
    except EqkirError as e:
        cell.faults.append(str(e)[:400])
    except Exception as e:  # every cell gets a verdict
        cell.faults.append(f"{type(e).__name__}: {e}"[:400])
    cell.seconds = time.perf_counter() - start
    return cell


def _structure(program: Program) -> str:
    """Text of a program with its parameters erased."""
    return str(program.segments)


def run_cases(subject: Subject, program: Program, cases: Iterable[Case], cell: Cell) -> None:
    """Program interpreter against the envelope; mistakes go into `cell.faults`."""
    for i, case in enumerate(cases):
        made = subject.case(case)
        if made is None:
            cell.invalid += 1
            continue
        args, expected = made
        engine = numeric.interpreter(program, seed=i, order=("tree", "reversed", "sequential")[i % 3])
        judge(cell, case, expected, lambda a=args, e=engine, c=case: e(clone(a), dict(c.symbols)))  # type: ignore[misc]


def run_tasks(subject: Subject, program: Program, cases: Iterable[Case], cell: Cell) -> None:
    """The task program that the provider spells, on its own interpreter, against the envelope."""
    from eqkir.driver.native import interpreted
    from eqkir.driver.provider import MojoProvider

    provider = subject.base.provider
    assert isinstance(provider, MojoProvider)
    tasks = provider.spell(program).tasks
    for i, case in enumerate(cases):
        if made := subject.case(case):
            args, expected = made
            engine = interpreted(tasks, seed=i)
            judge(cell, case, expected, lambda a=args, e=engine, c=case: e(clone(a), dict(c.symbols)))  # type: ignore[misc]


def judge(cell: Cell, case: Case, expected: Mapping[str, Envelope], run: Any) -> None:
    """Run one case and record the verdict."""
    try:
        got: Mapping[str, ViewArg] = run()
        verdict = compare(expected, {k: got[k] for k in expected})
    except EqkirError as e:
        cell.faults.append(f"{case}: {e}"[:400])
        return
    cell.cases, cell.elements, cell.excluded = cell.cases + 1, cell.elements + verdict.elements, cell.excluded + verdict.excluded
    if verdict.ok:
        cell.worst = max(cell.worst, float(verdict.worst))
    else:
        cell.faults.append(f"{case}: {verdict.first} ({verdict.mismatches} of {verdict.elements} elements)")


def row(name: str, configs: list[str], cases: int, target: str = TARGET) -> list[Cell]:
    """All cells of one kernel, in order."""
    subject = Subject(name, target)
    return [check_cell(subject, c, i, cases) for i, c in enumerate(configs)]
