"""One kernel through the stages, each computed when first asked for and timed: what `optimize`, `run` and `show` share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from eqkir.base.diagnostics import EqkirError, fail
from eqkir.driver import codes
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome

if TYPE_CHECKING:
    from eqkir.driver.provider import Provider
    from eqkir.driver.winners import Winner
    from eqkir.extract.choose import Choice
    from eqkir.kir.model import Kernel
    from eqkir.program.abstract import Abstract
    from eqkir.program.model import Program
    from eqkir.rules.saturate import Limits, Saturated
    from eqkir.targets import Machine


class Chain:
    """`kernel` is verified. Stages raise EqkirError; `outcome.stage` is then the one that failed, `outcome.seconds` holds the times."""

    def __init__(self, kernel: Kernel, options: Options, outcome: Outcome, pin: bool = True) -> None:
        self.kernel, self.options, self.outcome = kernel, options, outcome
        self.pin = pin  # whether the pinned extents steer the choice (else they only say what to run)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Enter a stage: time it, and leave its name in the outcome when it fails."""
        self.outcome.stage = name
        start = time.perf_counter()
        try:
            yield
        finally:
            self.outcome.seconds[name] = self.outcome.seconds.get(name, 0.0) + time.perf_counter() - start

    @cached_property
    def target(self) -> Machine:
        from eqkir.targets import load_target

        found = load_target(self.options.target)
        return found.model_copy(update={"rows": self.options.rows}) if self.options.rows else found

    @property
    def canonical(self) -> bool:
        """Whether the provider combines members in an order that follows from labels alone (`eqkir.terms.steer`)."""
        from eqkir.targets import CpuTarget

        return isinstance(self.target, CpuTarget)

    @property
    def machine(self) -> str:
        """The family of machines whose rules count (`eqkir.rules.load.MACHINES`)."""
        from eqkir.targets import CpuTarget

        return "cpu" if isinstance(self.target, CpuTarget) else "gpu"

    @cached_property
    def declared(self) -> tuple[str, ...]:
        """What the registered implementations declare, as facts of the e-graph (CPU family)."""
        from eqkir.cpu.implementations import facts

        return facts() if self.machine == "cpu" else ()

    @cached_property
    def provider(self) -> Provider:
        from eqkir.driver.provider import provider

        return provider(self.target)

    @cached_property
    def constexprs(self) -> dict[str, Any]:
        """Every constexpr's value: the pinned one or the default. Raises EqkirError EQK-RUN-SHAPE for a value of another type."""
        from eqkir.kir.model import Constexpr

        out = {}
        for p in self.kernel.params:
            if isinstance(p, Constexpr):
                v = self.options.shapes.get(p.id, p.default)
                ok = {
                    "bool": isinstance(v, bool),
                    "int": isinstance(v, int) and not isinstance(v, bool),
                    "float": isinstance(v, (int, float, str)) and not isinstance(v, bool),
                    "enum": v in p.choices,
                }[p.type]
                if not ok:
                    raise fail(codes.SHAPE, f"{p.id} = {v!r} is no {p.type}", accepted=" ".join(p.choices) or p.type, stage="options")
                out[p.id] = v
        return out

    @cached_property
    def extents(self) -> dict[str, int]:
        """Pinned symbols and integer scalars of this kernel (names of other kernels are ignored). Raises EqkirError EQK-RUN-SHAPE."""
        from eqkir.base.dtypes import INTS
        from eqkir.kir.model import Scalar

        names = {s.id: s for s in self.kernel.symbols}
        scalars = {p.id for p in self.kernel.params if isinstance(p, Scalar) and p.dtype in INTS}
        out = {}
        for k, v in self.options.shapes.items():
            if k not in names and k not in scalars:
                continue
            if isinstance(v, bool) or not isinstance(v, int):
                raise fail(codes.SHAPE, f"{k} = {v!r} is no integer", stage="options")
            s = names.get(k)
            if s and (v < s.min or (s.max is not None and v > s.max) or v % s.multiple_of):
                at_most = "" if s.max is None else f", at most {s.max}"
                raise fail(codes.SHAPE, f"{k} = {v}", accepted=f"at least {s.min}{at_most}, a multiple of {s.multiple_of}", stage="options")
            out[k] = v
        return out

    @cached_property
    def abstract(self) -> Abstract:
        from eqkir.kir.types import infer
        from eqkir.program.abstract import with_slices
        from eqkir.program.construct import construct
        from eqkir.program.ranges import with_ranges

        with self.stage("construct"):
            a = construct(self.kernel, infer(self.kernel), self.constexprs)
            a = with_slices(a) if "relaxed_normalization" in self.options.permit else a
            return with_ranges(a, self.options.permit)

    @cached_property
    def initial(self) -> Program:
        """P0. Raises EqkirError EQK-VER-… where construction is not known to mean what the kernel means (check level static and above)."""
        from eqkir.program.lower import conservative

        abstract = self.abstract
        with self.stage("lower"):
            program = conservative(abstract)
            if "static" in self.options.checks:
                from eqkir.kir.types import infer
                from eqkir.program.construction import verify_construction

                found = verify_construction(self.kernel, infer(self.kernel), abstract, program)
                if found:
                    raise EqkirError(*found[:20])
        return program

    @cached_property
    def saturated(self) -> Saturated:
        from eqkir.rules.saturate import saturate

        o, abstract = self.options, self.abstract
        with self.stage("saturate"):
            s = saturate(
                abstract, rules=o.rules, without=o.without, permit=o.permit, limits=self.limits, machine=self.machine,
                declared=self.declared,
            )  # fmt: skip
        self.outcome.enodes = s.graph.enodes
        self.outcome.saturation = {k: v for k, v in asdict(s.report).items() if k != "rounds"}
        return s

    @cached_property
    def limits(self) -> Limits:
        from eqkir.rules.saturate import Limits

        names = {f.name for f in fields(Limits)}
        return Limits(**{k: v if k == "seconds" else int(v) for k, v in self.options.limits.items() if k in names})  # type: ignore[arg-type]

    @cached_property
    def rule_digests(self) -> dict[str, str]:
        """Name of every rule file in use -> digest of its commands."""
        from eqkir.driver.artifacts import digest
        from eqkir.rules.load import load_rules

        o = self.options
        out = {f.name: digest("\n".join(f.commands)) for f in load_rules(o.rules, o.without, o.permit, self.machine)}
        if self.options.rows:
            from eqkir.targets import row_text

            out["rows"] = digest(row_text(self.options.rows))
        if self.machine == "cpu":
            from eqkir.cpu.implementations import definitions

            out["declarations"] = digest(definitions())
        return out

    @cached_property
    def steering(self) -> dict[str, int]:
        """The extents that the choice is made for: none where every value counts."""
        return self.extents if self.pin else {}

    @cached_property
    def choice(self) -> Choice:
        from eqkir.extract.choose import choose
        from eqkir.terms.decode import Memory, decode

        memory = Memory()
        o, saturated, initial, abstract = self.options, self.saturated, self.initial, self.abstract
        with self.stage("extract"):
            c = choose(
                saturated.graph, abstract, self.target, shapes=self.steering, verify=self.provider.acceptable, initial=initial,
                decode=lambda graph, pick, bindings, options: decode(graph, pick, abstract, bindings, options, self.canonical, memory),
                extractor_name=o.extractor, cost_model_name=o.cost_model, seed=o.seed,
            )  # fmt: skip
        self.outcome.initial_cost, self.outcome.cost, self.outcome.extraction = c.initial.total, c.cost.total, c.to_json()
        return c

    def legal_structures(self) -> dict[str, Any]:
        """Distinct legal structures of the graph, parameters erased (counted up to a cap)."""
        from eqkir.extract.choose import problem
        from eqkir.extract.cost import cost_model
        from eqkir.extract.structures import count_structures

        p, _ = problem(self.saturated.graph, self.abstract, self.target, self.steering, cost_model(self.options.cost_model))
        return asdict(count_structures(p))

    @cached_property
    def winner(self) -> Winner | None:
        """What the cache of winners holds for this kernel, where it is asked (`Options.winners`) and one program is wanted."""
        from eqkir.driver import winners

        if not self.options.winners or self.options.top > 1:
            return None
        found, problem = winners.find(self)
        if problem is not None:
            self.outcome.warn(problem)
        if found is not None:
            self.outcome.initial_cost, self.outcome.cost = found.initial_cost, found.cost
            self.outcome.extraction = {**found.extraction, "cached": True}
        return found

    @cached_property
    def program(self) -> Program:
        """P*, verified."""
        if self.winner is not None:
            return self.winner.program
        c = self.choice
        if self.options.winners and not c.fallback:
            from eqkir.driver import winners

            if (problem := winners.keep(self, winners.Winner(c.program, c.cost.total, c.initial.total, c.to_json()))) is not None:
                self.outcome.warn(problem)
        return c.program
