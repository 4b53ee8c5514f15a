"""`eqkir rules test`: a rule file in use. Does it match, does the choice change, is the chosen program right?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from eqkir.base.diagnostics import EqkirError
from eqkir.driver import numeric
from eqkir.driver.chain import Chain
from eqkir.driver.options import Options
from eqkir.driver.outcome import Outcome
from eqkir.kir.helpers import link
from eqkir.kir.load import load_file
from eqkir.rules.load import read


@dataclass(frozen=True, slots=True)
class Use:
    """Where a rule was used."""

    kernel: str
    matches: dict[str, int]  # of the file's rules
    changed: bool = False
    cost_before: float = 0.0
    cost_after: float = 0.0
    cases: int = 0
    message: str = ""

    @property
    def ok(self) -> bool:
        return not self.message

    def __str__(self) -> str:
        fired = ", ".join(f"{n} {k}" for n, k in self.matches.items() if k) or "no match"
        choice = f"choice changed, cost {self.cost_before:.6g} -> {self.cost_after:.6g}" if self.changed else "same choice"
        verdict = f"FAILED: {self.message}" if self.message else f"right in {self.cases} cases"
        return f"{self.kernel}: {fired}; {choice}; {verdict}"


def use(file: Path, rules: Path, options: Options) -> Iterator[Use]:
    """Each kernel of a KIR file with the shipped rules, and with `rules` besides. Raises EqkirError."""
    names = [r.name for r in read(rules).rules if r.family != "facts"]
    permit = tuple(dict.fromkeys((*options.permit, *read(rules).permissions)))
    for k in link(load_file(file)).kernels:
        before = Chain(k, replace(options, permit=permit), Outcome(k.name, str(file)))
        after = Chain(k, replace(options, permit=permit, rules=(str(rules),)), Outcome(k.name, str(file)))
        try:
            found = {n: after.saturated.report.matches.get(n, 0) for n in names}
            p = after.program
            v = numeric.check(
                k, p, after.constexprs, {}, options.seed, numeric.interpreter(p), numeric.scalar_steps(after.initial), permit=permit
            )  # fmt: skip
        except EqkirError as e:
            yield Use(k.name, {}, message=str(e)[:400])
            continue
        costs = before.choice.cost.total, after.choice.cost.total
        yield Use(k.name, found, p != before.program, *costs, v.cases, "" if v.ok else (v.mistakes or ["no valid input"])[0])
